/* Masks: equal to brute force over vocabularies, along random texts; end tokens; tokens that end
 * inside a character; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "tests/unit/grammar/grammar_samples.h"
#include "tests/unit/grammar/mask_check.h"

#include "tests/unit/alloc_fail.h"

static uint64_t random_state = 7;

static uint32_t dice(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

/* --- a vocabulary --- */

enum { N_TOKENS = 3000, END = 2999, OTHER_END = 70 };

static fy_trie_token tokens[N_TOKENS];
static char token_bytes[N_TOKENS][64];

/* Words of pieces that grammars use: whole and broken characters, quotes, digits, long runs. All
 * bytes are tokens, too; some tokens are equal, some are empty. */
static int make_vocabulary(void **state)
{
    (void)state;
    static const char *const parts[] = {"a",
                                        "b",
                                        "e",
                                        "x",
                                        "the",
                                        " ",
                                        " a",
                                        "\n",
                                        "\t",
                                        "0",
                                        "1",
                                        "12",
                                        "\"",
                                        "\",",
                                        "\":",
                                        "\"}",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "{\"",
                                        "\\",
                                        "\\n",
                                        "\\u00",
                                        "(",
                                        ")",
                                        "=",
                                        "+",
                                        "- ",
                                        "1. ",
                                        "e4",
                                        "Nf",
                                        "true",
                                        "null",
                                        "int",
                                        ";",
                                        "\xC3\xA9",
                                        "\xC3",
                                        "\xA9",
                                        "\xE3\x81\x82",
                                        "\xE3\x81",
                                        "\x82",
                                        "\xE6\xBC\xA2",
                                        "\xF0\x9F\x98\x80",
                                        "\xF0\x9F",
                                        "\x98",
                                        "\x7F",
                                        "\x01",
                                        "word",
                                        "long"};
    for (uint32_t i = 0; i < N_TOKENS; i++) {
        size_t n = 0;
        if (i < 256) {
            token_bytes[i][n++] = (char)i;
        } else {
            for (uint32_t k = dice(dice(4) == 0 ? 14 : 3) + 1; k > 0; k--) {
                const char *p = parts[dice(sizeof parts / sizeof parts[0])];
                memcpy(token_bytes[i] + n, p, strlen(p));
                n += strlen(p);
            }
        }
        tokens[i] = (fy_trie_token){{token_bytes[i], dice(50) == 0 && i > 256 ? 0 : n}, false};
    }
    tokens[END].is_end = tokens[OTHER_END].is_end = true;
    return 0;
}

static fy_trie *made_trie(void)
{
    fy_err e = {0};
    fy_trie *t = fy_trie_new(tokens, N_TOKENS, &e);
    assert_non_null(t);
    return t;
}

static void check_mask(fy_grammar *g, fy_span text, const fy_mask *mask, const char *gbnf)
{
    const int32_t wrong = first_wrong(g, tokens, N_TOKENS, text, mask);
    if (wrong >= 0)
        fail_msg("%s\nafter '%.*s': token %d '%.*s' is wrong", gbnf, (int)text.len, text.ptr, wrong,
                 (int)tokens[wrong].bytes.len, tokens[wrong].bytes.ptr);
}

static int32_t any_allowed(const fy_mask *mask)
{
    for (uint32_t k = dice(mask->n_allowed), i = 0; i < N_TOKENS; i++) {
        if ((mask->bits[i / 64] >> i % 64 & 1) && k-- == 0)
            return (int32_t)i;
    }
    return -1;
}

/* Follows random allowed tokens for a while, checking each mask; true: the text ended. */
static bool random_text(fy_grammar *g, fy_matcher *m, int steps, const char *gbnf)
{
    fy_str text = {0};
    fy_err e = {0};
    fy_mask mask = {0};
    bool ended = false;
    fy_matcher_reset(m);
    for (int i = 0; i < steps && !ended; i++) {
        if (fy_matcher_mask(m, &mask, &e) != 0)
            fail_msg("%s\nafter '%s': %s", gbnf, fy_str_z(&text), e.msg);
        check_mask(g, (fy_span){text.ptr, text.len}, &mask, gbnf);
        const int32_t id = any_allowed(&mask);
        assert_true(mask.n_allowed == 1 ? mask.only == id : mask.only == -1);
        assert_int_equal(fy_matcher_accept(m, id, &e), 0);
        ended = fy_matcher_ended(m);
        assert_int_equal(ended, tokens[id].is_end);
        if (!ended)
            fy_str_add(&text, tokens[id].bytes.ptr, tokens[id].bytes.len);
    }
    fy_str_release(&text);
    return ended;
}

static void masks_are_what_brute_force_says(void **state)
{
    (void)state;
    static const char *const more[] = {
        "root ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]{0,20} \"\\\"\"",
        "root ::= [^\"\\\\\\x00-\\x1F\\x7f]{17,40}",
        "root ::= .*",
        "root ::= [^\\n]{3} \"\\n\" .{2,5}",
        "root ::= \"the\" (\"word\" | \"long\" | \"longword\") \"a\"{3}",
        "root ::= [a-z ]+ \"0\"?",
        "root ::= .{5} | [^\"]{14} | \"\\\"\" .*",
        ("root ::= \"\\\"\" s \"\\\"\"\ns ::= ([\\u0080-\\U0010ffff] | [ -!] | [#-Z] | \"[\" | "
         "[\\]-~]){4,19}"),
        "root ::= \"\\\"\" ([\\u0080-\\uffff] | [ -!#-Z[\\]-~]){2,9} \"\\\"\"",
    };
    fy_trie *t = made_trie();
    int n_ended = 0;
    for (size_t i = 0; i < N_SAMPLES + sizeof more / sizeof more[0]; i++) {
        const char *gbnf = i < N_SAMPLES ? samples[i] : more[i - N_SAMPLES];
        fy_err e = {0};
        fy_grammar *g = grammar_of(gbnf, &e);
        if (g == NULL)
            fail_msg("%s: %s", gbnf, e.msg);
        fy_matcher *m = fy_matcher_new(g, t, &e);
        for (int k = 0; k < 5; k++)
            n_ended += random_text(g, m, 12, gbnf);
        fy_matcher_free(m);
        fy_grammar_free(g);
    }
    assert_true(n_ended > 5);
    fy_trie_free(t);
}

static fy_mask mask_after(fy_matcher *m, const char *text)
{
    fy_err e = {0};
    fy_mask mask;
    fy_matcher_reset(m);
    assert_int_equal(fy_matcher_accept_text(m, fy_span_of(text), &e), 0);
    if (fy_matcher_mask(m, &mask, &e) != 0)
        fail_msg("after '%s': %s", text, e.msg);
    return mask;
}

static bool allows(const fy_mask *m, uint32_t id)
{
    return m->bits[id / 64] >> id % 64 & 1;
}

static void end_tokens_are_allowed_exactly_where_the_text_may_end(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_trie *t = made_trie();
    fy_grammar *g = grammar_of("root ::= \"ab\" \"c\"?", &e);
    fy_matcher *m = fy_matcher_new(g, t, &e);
    fy_mask mask = mask_after(m, "a");
    assert_false(allows(&mask, END) || allows(&mask, OTHER_END));
    mask = mask_after(m, "ab");
    assert_true(allows(&mask, END) && allows(&mask, OTHER_END) && allows(&mask, 'c'));
    mask = mask_after(m, "abc");
    assert_int_equal(mask.n_allowed, 2);
    assert_int_equal(fy_matcher_accept(m, 'c', &e), -1);
    e = (fy_err){0};
    assert_int_equal(fy_matcher_accept(m, END, &e), 0);
    assert_true(fy_matcher_ended(m) && fy_matcher_may_end(m));
    assert_int_equal(fy_matcher_mask(m, &mask, &e), -1);
    assert_string_equal(e.msg, "the text has ended: nothing comes after it");
    fy_matcher_reset(m);
    assert_int_equal(fy_matcher_accept(m, END, NULL), -1);
    assert_int_equal(fy_matcher_accept(m, -1, NULL), -1);
    assert_int_equal(fy_matcher_accept(m, N_TOKENS, NULL), -1);
    assert_false(fy_matcher_ended(m));
    fy_matcher_free(m);
    fy_grammar_free(g);
    fy_trie_free(t);
}

static void forced_text_leaves_one_token(void **state)
{
    (void)state;
    static const fy_trie_token few[] = {
        {{"x", 1}, false}, {{"\xC3", 1}, false}, {{"\xA9", 1}, false}, {{NULL, 0}, true}};
    fy_err e = {0};
    fy_trie *t = fy_trie_new(few, 4, &e);
    fy_grammar *g = grammar_of("root ::= \"x\xC3\xA9\"", &e);
    fy_matcher *m = fy_matcher_new(g, t, &e);
    fy_mask mask;
    for (int32_t id = 0; id < 4; id++) {
        assert_int_equal(fy_matcher_mask(m, &mask, &e), 0);
        assert_int_equal(mask.only, id);
        assert_int_equal(fy_matcher_accept(m, id, &e), 0);
    }
    fy_matcher_free(m);
    fy_grammar_free(g);
    fy_trie_free(t);
}

static void text_that_the_vocabulary_cannot_spell_is_an_error(void **state)
{
    (void)state;
    static const fy_trie_token few[] = {{{"x", 1}, false}};
    fy_err e = {0};
    fy_trie *t = fy_trie_new(few, 1, &e);
    fy_grammar *g = grammar_of("root ::= \"x\" \"y\"?", &e);
    fy_matcher *m = fy_matcher_new(g, t, &e);
    fy_mask mask;
    assert_int_equal(fy_matcher_accept(m, 0, &e), 0);
    assert_int_equal(fy_matcher_mask(m, &mask, &e), -1);
    assert_int_equal(e.code, FY_EFORMAT);
    assert_string_equal(e.msg,
                        "grammar: no token of the vocabulary continues the text; the grammar "
                        "asks for bytes that it cannot spell, or for the end, and there is no "
                        "end token");
    fy_matcher_free(m);
    fy_grammar_free(g);
    fy_trie_free(t);
    assert_null(fy_trie_new(few, 1u << 24, &e));
}

static void every_failed_allocation_is_an_error_never_an_open_mask(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_grammar *g = grammar_of(sample_json, &e);
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err why = {0};
        fy_mask mask = {0};
        alloc_fail_after(n);
        fy_trie *t = fy_trie_new(tokens, N_TOKENS, &why);
        fy_matcher *m = t != NULL ? fy_matcher_new(g, t, &why) : NULL;
        int rc = m != NULL ? fy_matcher_accept_text(m, FY_SPAN("{\"a\": \"x"), &why) : -1;
        rc = rc == 0 ? fy_matcher_mask(m, &mask, &why) : -1;
        failed = alloc_fail_end();
        assert_true(rc == 0 || (failed && why.code == FY_ENOMEM));
        if (rc == 0)
            check_mask(g, FY_SPAN("{\"a\": \"x"), &mask, sample_json);
        fy_matcher_free(m);
        fy_trie_free(t);
    }
    fy_grammar_free(g);
}

static void a_long_text_forgets_and_stays_right(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_trie *t = made_trie();
    fy_grammar *g = grammar_of(sample_json, &e);
    fy_matcher *m = fy_matcher_new(g, t, &e);
    fy_str text = {0};
    fy_mask mask;
    fy_str_puts(&text, "{\"a\": [");
    for (int i = 0; i < 400; i++)
        fy_str_printf(&text, "%s{\"k%d\": [", i % 3 ? "" : "1, ", i);
    assert_int_equal(fy_matcher_accept_text(m, (fy_span){text.ptr, text.len}, &e), 0);
    for (int i = 0; i < 400; i++) {
        assert_int_equal(fy_matcher_mask(m, &mask, &e), 0);
        if (i % 100 == 0)
            check_mask(g, (fy_span){text.ptr, text.len}, &mask, sample_json);
        assert_int_equal(fy_matcher_accept_text(m, FY_SPAN("]}"), &e), 0);
        fy_str_puts(&text, "]}");
    }
    assert_int_equal(fy_matcher_accept_text(m, FY_SPAN("]}"), &e), 0);
    assert_true(fy_matcher_may_end(m));
    fy_str_release(&text);
    fy_matcher_free(m);
    fy_grammar_free(g);
    fy_trie_free(t);
}

/* Other answers wait while a mask is made. */
static void a_mask_that_would_take_too_long_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_str text = {0}, gbnf = {0};
    fy_mask mask;
    fy_trie *t = made_trie();
    fy_str_puts(&gbnf, "root ::= [a-z]* ([0-9]");
    for (const char *but = "abexthwordlng"; *but != '\0'; but++) {
        fy_str_puts(&gbnf, " | [");
        for (char c = 'a'; c <= 'z'; c++)
            fy_str_add(&gbnf, &c, c != *but);
        fy_str_printf(&gbnf, "]{1500} \"%c\"", *but);
    }
    fy_str_puts(&gbnf, ")");
    for (int i = 0; i < 1000; i++)
        fy_str_putc(&text, 'q');
    fy_grammar *g = grammar_of(fy_str_z(&gbnf), &e);
    fy_matcher *m = fy_matcher_new(g, t, &e);
    assert_non_null(m);
    assert_int_equal(fy_matcher_mask(m, &mask, &e), 0);
    assert_int_equal(fy_matcher_accept_text(m, (fy_span){text.ptr, text.len}, &e), 0);
    assert_int_equal(fy_matcher_mask(m, &mask, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(e.msg, "a mask takes too long"));
    fy_str_release(&text);
    fy_str_release(&gbnf);
    fy_matcher_free(m);
    fy_grammar_free(g);
    fy_trie_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_what_brute_force_says),
        cmocka_unit_test(end_tokens_are_allowed_exactly_where_the_text_may_end),
        cmocka_unit_test(forced_text_leaves_one_token),
        cmocka_unit_test(text_that_the_vocabulary_cannot_spell_is_an_error),
        cmocka_unit_test(every_failed_allocation_is_an_error_never_an_open_mask),
        cmocka_unit_test(a_long_text_forgets_and_stays_right),
        cmocka_unit_test(a_mask_that_would_take_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, make_vocabulary, NULL);
}
