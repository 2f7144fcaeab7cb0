/* The recogniser against a table of what every state can match, filled until nothing changes; JSON
 * against the project's strict reader; bounds of memory and work; forgetting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "grammar/recognise.h"
#include "tests/unit/grammar/grammar_samples.h"

static uint64_t random_state = 1;

static uint32_t dice(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

/* --- the table --- */

enum { TEXT_MAX = 12 };

/* ends: bit p: the rest of the rule can match text[pos..p). alive: the text can be used up. */
typedef struct {
    uint32_t (*ends)[TEXT_MAX + 1];
    bool (*alive)[TEXT_MAX + 1];
} table;

static void look(const fy_grammar *g, const table *t, uint32_t s, size_t pos, const char *text,
                 size_t n, uint32_t *ends, bool *alive)
{
    const fy_state x = g->states[s];
    *alive |= pos == n;
    for (uint32_t i = 0; x.kind == FY_STATE_BYTES && pos < n && i < x.b; i++) {
        const fy_edge edge = g->edges[x.a + i];
        if ((uint8_t)text[pos] < edge.lo || (uint8_t)text[pos] > edge.hi)
            continue;
        *ends |= t->ends[edge.to][pos + 1];
        *alive |= t->alive[edge.to][pos + 1];
    }
    for (uint32_t i = 0; x.kind == FY_STATE_SPLIT && i < x.b; i++) {
        *ends |= t->ends[g->targets[x.a + i]][pos];
        *alive |= t->alive[g->targets[x.a + i]][pos];
    }
    if (x.kind == FY_STATE_FINAL)
        *ends |= 1u << pos;
    if (x.kind != FY_STATE_CALL)
        return;
    const uint32_t entry = g->rules[x.a].entry;
    *alive |= t->alive[entry][pos];
    for (size_t p = pos; p <= n; p++) {
        if (t->ends[entry][pos] >> p & 1) {
            *ends |= t->ends[x.b][p];
            *alive |= t->alive[x.b][p];
        }
    }
}

static int verdict_by_table(const fy_grammar *g, const char *text, size_t n)
{
    table t = {calloc(g->n_states, sizeof *t.ends), calloc(g->n_states, sizeof *t.alive)};
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t s = 0; s < g->n_states; s++) {
            for (size_t pos = 0; pos <= n; pos++) {
                uint32_t ends = t.ends[s][pos];
                bool alive = t.alive[s][pos];
                look(g, &t, s, pos, text, n, &ends, &alive);
                changed |= ends != t.ends[s][pos] || alive != t.alive[s][pos];
                t.ends[s][pos] = ends;
                t.alive[s][pos] = alive;
            }
        }
    }
    const uint32_t root = g->rules[g->root].entry;
    const int v = t.alive[root][0] ? 1 + (t.ends[root][0] >> n & 1) : 0;
    free(t.ends);
    free(t.alive);
    return v;
}

/* --- random grammars --- */

static void put_item(fy_str *s, int depth)
{
    static const char *const names[] = {"root", "p", "q", "r"};
    static const char *const counts[] = {"", "", "", "", "*", "+", "?", "{2}", "{,2}", "{1,}"};
    switch (dice(depth > 0 ? 7 : 6)) {
    case 0:
    case 1:
        fy_str_printf(s, "\"%c\"", "ab("[dice(3)]);
        break;
    case 2:
        fy_str_puts(s, dice(2) ? "[ab]" : "[^b]");
        break;
    case 3:
        fy_str_puts(s, dice(3) ? "\"ab\"" : "\"\"");
        break;
    case 6:
        fy_str_puts(s, "(");
        for (uint32_t i = dice(3) + 1; i > 0; i--) {
            put_item(s, depth - 1);
            fy_str_puts(s, i > 1 ? dice(2) ? " " : " | " : ")");
        }
        break;
    default:
        fy_str_puts(s, names[dice(4)]);
    }
    fy_str_puts(s, counts[dice(10)]);
}

static void put_grammar(fy_str *s)
{
    static const char *const names[] = {"root", "p", "q", "r"};
    for (int i = 0; i < 4; i++) {
        fy_str_printf(s, "%s ::= ", names[i]);
        for (uint32_t k = dice(4) + 1; k > 0; k--) {
            put_item(s, 2);
            fy_str_puts(s, k > 1 ? dice(2) ? " " : " | " : "\n");
        }
    }
}

static void random_grammars_match_what_their_tables_say(void **state)
{
    (void)state;
    int n_tried = 0;
    while (n_tried < 400) {
        fy_str s = {0};
        fy_err e = {0};
        put_grammar(&s);
        fy_grammar *g = fy_grammar_gbnf((fy_span){s.ptr, s.len}, &e);
        if (g == NULL && e.code != FY_EFORMAT)
            fail_msg("%s\n%s", s.ptr, e.msg);
        for (int i = 0; g != NULL && i < 60; i++) {
            char text[8];
            const size_t n = dice(8);
            for (size_t k = 0; k < n; k++)
                text[k] = "ab("[dice(3)];
            const int want = verdict_by_table(g, text, n), got = verdict(g, text, n);
            if (want != got)
                fail_msg("%s'%.*s': verdict %d, the table says %d", s.ptr, (int)n, text, got, want);
        }
        n_tried += g != NULL;
        fy_grammar_free(g);
        fy_str_release(&s);
    }
}

/* --- JSON --- */

static const char strict_json[] =
    "root ::= ws value ws\n"
    "value ::= \"{\" ws (pair (ws \",\" ws pair)*)? ws \"}\" | \"[\" ws (value (ws \",\" ws "
    "value)*)? "
    "ws \"]\" | string | \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)? ([eE] [-+]? [0-9]+)? | "
    "\"true\" | \"false\" | \"null\"\n"
    "pair ::= string ws \":\" ws value\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" [\"\\\\/bfnrt] | \"\\\\u\" hex{4})* "
    "\"\\\"\"\n"
    "hex ::= [0-9a-fA-F]\n"
    "ws ::= [ \\n]*\n";

static void json_texts_are_those_that_the_strict_reader_takes(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{",  "}",  "[",    "]",    ",", ":",   "\"",       "\"a\"", "1",      "0",     "-",
        ".5", "e3", "true", "null", " ", "\\n", "\xC3\xA9", "\xC3",  "\"k\":", "[1,2]", "\"b\":{}"};
    fy_err e = {0};
    fy_grammar *g = grammar_of(strict_json, &e);
    int n_valid = 0;
    for (int i = 0; i < 30000; i++) {
        fy_str s = {0};
        for (uint32_t k = dice(9) + 1; k > 0; k--)
            fy_str_puts(&s, parts[dice(sizeof parts / sizeof parts[0])]);
        fy_err why = {0};
        fy_json *j = fy_json_new(s.ptr, s.len, &why);
        bool want = fy_json_skip(j, &why) == 0 && fy_json_end(j, &why) == 0;
        fy_json_free(j);
        if (strstr(why.msg, "twice") == NULL && strstr(why.msg, "again") == NULL &&
            strstr(why.msg, "duplicate") == NULL && (verdict(g, s.ptr, s.len) == 2) != want)
            fail_msg("'%s': the reader says %d: %s", s.ptr, want, why.msg);
        n_valid += want;
        fy_str_release(&s);
    }
    assert_true(n_valid > 500);
    fy_grammar_free(g);
}

/* --- bounds --- */

static void text_goes_in_by_megabytes(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_grammar *g = grammar_of("root ::= [a-z]+ (\" \" root)?\n", &e);
    fy_matcher *m = fy_matcher_new(g, NULL, &e);
    char text[4096];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 7 == 6 ? ' ' : 'x';
    text[0] = 'x';
    for (int i = 0; i < 500; i++)
        assert_int_equal(fy_matcher_accept_text(m, (fy_span){text, sizeof text - 2}, &e), 0);
    assert_true(fy_matcher_may_end(m));
    fy_matcher_free(m);
    fy_grammar_free(g);
}

/* Nesting must be remembered; what lies beside it is forgotten. */
static void deep_nesting_ends_in_an_error_at_last(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_grammar *g = grammar_of("root ::= \"(\" root \")\" | \"x\"\n", &e);
    fy_matcher *m = fy_matcher_new(g, NULL, &e);
    char open[1000], shut[1000];
    memset(open, '(', sizeof open);
    memset(shut, ')', sizeof shut);
    for (int i = 0; i < 50; i++)
        assert_int_equal(fy_matcher_accept_text(m, (fy_span){open, sizeof open}, &e), 0);
    assert_int_equal(fy_matcher_accept_text(m, FY_SPAN("x"), &e), 0);
    for (int i = 0; i < 50; i++) {
        assert_false(fy_matcher_may_end(m));
        assert_int_equal(fy_matcher_accept_text(m, (fy_span){shut, sizeof shut}, &e), 0);
    }
    assert_true(fy_matcher_may_end(m));
    fy_matcher_reset(m);
    int rc = 0, n = 0;
    for (; rc == 0 && n < 10000; n++)
        rc = fy_matcher_accept_text(m, (fy_span){open, sizeof open}, &e);
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(e.msg, "more than 40 MB"));
    fy_matcher_free(m);
    fy_grammar_free(g);
}

static void ambiguity_is_shared_not_multiplied(void **state)
{
    (void)state;
    fy_err e = {0};
    /* 2^n ways through n characters */
    fy_grammar *g =
        grammar_of("root ::= (a | b)*\na ::= \"x\" c?\nb ::= \"x\" c?\nc ::= \"x\" root?\n", &e);
    fy_matcher *m = fy_matcher_new(g, NULL, &e);
    char text[2000];
    memset(text, 'x', sizeof text);
    assert_int_equal(fy_matcher_accept_text(m, (fy_span){text, sizeof text}, &e), 0);
    assert_true(fy_matcher_may_end(m));
    fy_matcher_free(m);
    fy_grammar_free(g);
}

/* Each "a" opens one more rule of 3,000 optional ones, and the next may be any of theirs. */
static void too_many_ways_at_once_are_an_error(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_grammar *g =
        grammar_of("root ::= \"a\" root \"b\" | many \"c\"\nmany ::= (\"a\"?){3000}\n", &e);
    fy_matcher *m = fy_matcher_new(g, NULL, &e);
    int n = 0;
    assert_non_null(m);
    while (n < 100 && fy_matcher_accept_text(m, FY_SPAN("a"), &e) == 0)
        n++;
    assert_in_range(n, 2, 30);
    assert_int_equal(e.code, FY_EFIT);
    assert_string_equal(e.msg,
                        "grammar: the grammar is too ambiguous here: more than 65536 ways at once");
    e = (fy_err){0}; /* the text stands where it stood */
    assert_int_equal(fy_matcher_accept_text(m, FY_SPAN("c"), &e), 0);
    fy_matcher_free(m);
    fy_grammar_free(g);
}

static void a_grammar_outlives_its_first_user(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_grammar *g = grammar_of("root ::= \"a\"\n", &e);
    fy_matcher *m = fy_matcher_new(g, NULL, &e);
    fy_grammar_free(g);
    assert_int_equal(fy_matcher_accept_text(m, FY_SPAN("a"), &e), 0);
    assert_int_equal(fy_matcher_accept_text(m, FY_SPAN("a"), &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_true(fy_matcher_may_end(m)); /* it has not moved */
    fy_matcher_free(m);
}

static void what_is_forgotten_is_found_again(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_grammar *g = grammar_of(strict_json, &e);
    fy_recogniser r;
    uint32_t at[2], to;
    const char text[] = "[{\"a\":[1,{\"b\":\"";
    assert_int_equal(fy_recogniser_init(&r, g, &e), 0);
    assert_int_equal(fy_recogniser_start(&r, &at[0], &e), 0);
    at[1] = at[0];
    for (size_t i = 0; i + 1 < sizeof text; i++)
        assert_int_equal(fy_recogniser_next(&r, at[0], g->class_of[(uint8_t)text[i]], &at[0], &e),
                         0);
    const size_t before = r.situations.n_sets;
    assert_int_equal(fy_recogniser_forget(&r, at, 2, &e), 0);
    assert_true(r.situations.n_sets == 3 && before > 8);
    const char rest[] = "x\"}],\"c\":0}]";
    for (size_t i = 0; i + 1 < sizeof rest; i++) {
        assert_int_equal(fy_recogniser_next(&r, at[0], g->class_of[(uint8_t)rest[i]], &at[0], &e),
                         0);
        assert_int_not_equal(at[0], FY_DEAD);
    }
    assert_true(r.situations.sets[at[0]].may_end);
    assert_int_equal(fy_recogniser_next(&r, at[0], g->class_of[']'], &to, &e), 0);
    assert_int_equal(to, FY_DEAD);
    assert_int_equal(fy_recogniser_next(&r, at[1], g->class_of['['], &to, &e), 0);
    assert_int_not_equal(to, FY_DEAD);
    fy_recogniser_release(&r);
    fy_grammar_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_grammars_match_what_their_tables_say),
        cmocka_unit_test(json_texts_are_those_that_the_strict_reader_takes),
        cmocka_unit_test(text_goes_in_by_megabytes),
        cmocka_unit_test(deep_nesting_ends_in_an_error_at_last),
        cmocka_unit_test(ambiguity_is_shared_not_multiplied),
        cmocka_unit_test(too_many_ways_at_once_are_an_error),
        cmocka_unit_test(a_grammar_outlives_its_first_user),
        cmocka_unit_test(what_is_forgotten_is_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
