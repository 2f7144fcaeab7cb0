/* Calls in free text: whatever a model wants to write, each call that is opened is one of the
 * tools' with valid arguments, in every format; and how the text falls on tokens does not matter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* (cmocka.h needs the four above first) */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "server/generate.h"
#include "tests/unit/grammar/schema_check.h"

enum { N_TOKENS = 900, END = N_TOKENS - 1, LONGEST = 128 };

typedef struct {
    fy_trie_token tokens[N_TOKENS];
    char bytes[N_TOKENS][LONGEST];
    fy_trie *trie; /* owned */
    uint64_t dice;
} words;

static uint32_t throw_dice(words *w, uint32_t n)
{
    w->dice = w->dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->dice >> 33) % n;
}

static void add_token(words *w, uint32_t id, const char *text, size_t n)
{
    memcpy(w->bytes[id], text, n);
    w->tokens[id].bytes = (fy_span){w->bytes[id], n};
}

/* All bytes; parts of the mark with something before or after; words. */
static void words_begin(words *w, const char *mark, uint64_t seed)
{
    static const char *const others[] = {"{",
                                         "{\"name\": \"",
                                         "\n",
                                         "\n{\"",
                                         "}}",
                                         "\"",
                                         "[{",
                                         "]",
                                         "a",
                                         "</",
                                         "\": \"",
                                         "<think>",
                                         ", ",
                                         "\"}}",
                                         "; ",
                                         "f\"",
                                         "</think>",
                                         "f{",
                                         "[ARGS]{",
                                         "<|\"|>",
                                         "<|\"",
                                         "|>",
                                         "<escape>",
                                         "<esc",
                                         "ape>",
                                         ":",
                                         "<tool_call|>",
                                         "[CALL_ID]a1b2c3d4e"};
    const size_t n_mark = strlen(mark), n_others = sizeof others / sizeof others[0];
    memset(w, 0, sizeof *w);
    w->dice = seed;
    for (uint32_t i = 0; i < 256; i++)
        add_token(w, i, &(char){(char)i}, 1);
    for (uint32_t i = 256; i < END; i++) {
        char text[LONGEST];
        size_t n = 0;
        for (uint32_t part = throw_dice(w, 3) + 1; part > 0; part--) {
            const uint32_t from = throw_dice(w, (uint32_t)n_mark), left = (uint32_t)n_mark - from;
            const char *other = others[throw_dice(w, (uint32_t)n_others)];
            const bool is_mark = throw_dice(w, 2) > 0;
            const size_t k = is_mark ? throw_dice(w, left) + 1 : strlen(other);
            if (n + k > LONGEST)
                break;
            memcpy(text + n, is_mark ? mark + from : other, k);
            n += k;
        }
        add_token(w, i, text, n);
    }
    add_token(w, 256, mark, n_mark);
    add_token(w, 257, "<|\"|>", 5);
    add_token(w, 258, "<escape>", 8);
    w->tokens[END].is_end = true;
    w->trie = fy_trie_new(w->tokens, N_TOKENS, NULL);
}

/* --- tools ------------------------------------------------------------------------------------ */

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"enum\":[\"a\",\"</tool_call>\"]},\"n\":{\"type\":\"integer\","
    "\"minimum\":-3,\"maximum\":12}},\"required\":[\"n\"],\"additionalProperties\":false}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"on\":{\"type\":\"boolean\"}},\"required\":[\"on\"],"
    "\"additionalProperties\":false}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"write\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"text\":{\"type\":\"string\"},\"o\":{\"type\":\"object\",\"properties\":{"
    "\"h\":"
    "{\"type\":\"string\"}},\"required\":[\"h\"],\"additionalProperties\":false},\"kind\":{"
    "\"type\":"
    "\"string\",\"enum\":[\"x\",\"y z\"]}},\"required\":[\"text\",\"kind\"],"
    "\"additionalProperties\":false}}}]";

/* More, for formats that write no strings as they stand without marks around them. */
static const char more_json[] =
    "{\"type\":\"function\",\"function\":{\"name\":\"all\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"p\":{\"type\":\"string\",\"pattern\":\"^(<|[a-e\\\"\\n,}])+$\"},"
    "\"some\":{\"type\":\"string\",\"minLength\":2},\"few\":{\"type\":\"string\",\"maxLength\":9},"
    "\"d\":{\"type\":\"string\",\"format\":\"date\"},\"tree\":{\"$ref\":\"#/$defs/tree\"},"
    "\"a:b\":{\"enum\":[{\"x, y\":\"<\"},[1,\"{\"],null,true]},\"any\":{\"type\":\"object\"},"
    "\"more\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"ab\":{\"type\":"
    "\"null\"}},"
    "\"additionalProperties\":{\"type\":\"integer\"},\"maxProperties\":2}},"
    "\"$defs\":{\"tree\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"$ref\":\"#/$defs/"
    "tree\"}}},"
    "\"additionalProperties\":false}}}";

static const char *const templates[] = {
    "{% if tools %}<tool_call>\n{\"name\": <function-name>",                     /* hermes */
    "{% if tools %}{\"name\": function name, \"parameters\": dictionary of",     /* llama3 */
    "{% if tools %}[TOOL_CALLS][",                                               /* mistral */
    "{% if tools %}<|tool_call|>x<|/tool_call|>",                                /* phi4 */
    "{% if tools %}respond with <|tool_call|> followed by a JSON list of tools", /* granite */
    "{% if tools %}<|tool_list_start|>[",                                        /* lfm2 */
    "{% if tools %}<tool_call>\n<function=example>\n<parameter=a>",              /* qwen3-coder */
    "{% for tool in tools %}<tool_call>x\n<arg_key>",                            /* glm */
    "{{ messages }}",                                                            /* generic */
    "{% if tools %}'<|tool_call>call:' + name",                                  /* gemma4 */
    "{% if tools %}<start_function_call>call:",                                  /* functiongemma */
    "{% if tools %}[TOOL_CALLS]name[ARGS]{}",                                    /* mistral-args */
};
enum { N_TEMPLATES = sizeof templates / sizeof templates[0] };

static void tools_begin(fy_ask_tools *t, const char *template, bool one)
{
    fy_err e = {0};
    json_t *list = fy_json_data(fy_span_of(tools_json), &e);
    *t = (fy_ask_tools){.tools = fy_tools_new(list, &e),
                        .format = fy_tool_format_of(fy_span_of(template)),
                        .only = -1,
                        .one = one};
    if (fy_tool_format_named(t->format) != NULL) {
        fy_tools_free(t->tools);
        json_array_append_new(list, fy_json_data(fy_span_of(more_json), &e));
        t->tools = fy_tools_new(list, &e);
    }
    json_decref(list);
    if (t->tools == NULL || fy_ask_tools_hold(t, &e) != 0)
        fail_msg("%s: %s", template, e.msg);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Calls of an answer, as the parser finds them. */
typedef struct {
    const fy_tools *tools;
    const fy_str *text;
    size_t tool;
    fy_str arguments;
    uint32_t n_calls, n_whole;
} found;

static int on_event(void *user, fy_tool_event what, fy_span text, fy_err *e)
{
    found *f = user;
    (void)e;
    if (what == FY_TOOL_BEGIN) {
        f->n_calls++;
        fy_str_clear(&f->arguments);
        for (f->tool = 0; !fy_span_is(text, fy_tools_name(f->tools, f->tool)); f->tool++)
            assert_true(f->tool + 1 < fy_tools_count(f->tools));
    } else if (what == FY_TOOL_ARGUMENTS) {
        fy_str_add(&f->arguments, text.ptr, text.len);
    } else if (what == FY_TOOL_END) {
        fy_err why = {0};
        f->n_whole++;
        json_t *v = fy_json_data((fy_span){fy_str_z(&f->arguments), f->arguments.len}, &why);
        const json_t *schema = fy_tools_parameters(f->tools, f->tool);
        if (v == NULL && strstr(why.msg, "a second key") != NULL)
            return 0; /* two that the schema does not name */
        if (v == NULL || schema_valid(schema, schema, v) != 1)
            fail_msg("'%s'\nhas the arguments '%s'", fy_str_z(f->text), fy_str_z(&f->arguments));
        json_decref(v);
    }
    return 0;
}

/* A random model: it likes to open calls, and to end them. */
static int32_t choose(words *w, const fy_mask *mask, uint32_t step)
{
    static const char closers[] = "\"}]>\n";
    const uint32_t luck = throw_dice(w, 100);
    if (mask == NULL && luck < 20)
        return 256;
    if (mask == NULL)
        return luck < 21 && step > 20 ? END : (int32_t)throw_dice(w, END);
    for (int32_t id = 257; luck < 25 && id < 259; id++) {
        if (mask->bits[id / 64] >> id % 64 & 1)
            return id;
    }
    for (const char *c = closers; luck < 40 && *c != '\0'; c++) {
        if (mask->bits[(uint8_t)*c / 64] >> (uint8_t)*c % 64 & 1)
            return *c;
    }
    for (;;) {
        const uint32_t id = throw_dice(w, N_TOKENS);
        if (mask->bits[id / 64] >> id % 64 & 1)
            return (int32_t)id;
    }
}

/* Writes an answer as generate.c does. */
static void make_answer(words *w, fy_call_hold *h, fy_str *out)
{
    fy_err e = {0};
    fy_mask mask;
    for (uint32_t step = 0; step < 400 && !fy_call_hold_ended(h); step++) {
        int32_t id = -1;
        int may = 0;
        if (!fy_call_hold_holds(h)) {
            id = choose(w, NULL, step);
            may = fy_call_hold_accept(h, id, &e);
        }
        if (may == 0) {
            const int32_t refused = id;
            assert_int_equal(fy_call_hold_mask(h, &mask, &e), 0);
            assert_true(refused < 0 || !(mask.bits[refused / 64] >> refused % 64 & 1));
            id = choose(w, &mask, step);
            may = fy_call_hold_accept(h, id, &e);
        }
        if (may != 1)
            fail_msg("%s after '%s'", e.msg, fy_str_z(out));
        if (id == END)
            return;
        fy_str_add(out, w->tokens[id].bytes.ptr, w->tokens[id].bytes.len);
    }
}

/* The answer without its thinking, to the parser. */
static void parse_answer(const fy_ask_tools *t, fy_str *text, found *f)
{
    fy_err e = {0};
    fy_think think = {0};
    fy_str thinking = {0}, answer = {0};
    fy_tool_parser *p = fy_tool_parser_new(t->format, t->tools, on_event, f, &e);
    fy_think_begin(&think, FY_SPAN(""));
    assert_int_equal(
        fy_think_add(&think, (fy_span){fy_str_z(text), text->len}, &thinking, &answer, &e), 0);
    assert_int_equal(fy_think_end(&think, &thinking, &answer, &e), 0);
    assert_int_equal(fy_tool_parser_add(p, (fy_span){fy_str_z(&answer), answer.len}, &e), 0);
    assert_int_equal(fy_tool_parser_end(p, &e), 0);
    fy_tool_parser_free(p);
    fy_think_release(&think);
    fy_str_release(&thinking);
    fy_str_release(&answer);
}

static words w;

static void random_answers_call_with_valid_arguments(void **state)
{
    const uint32_t n = getenv("FERRY_SOAK") != NULL ? 3000 : 60;
    (void)state;
    for (size_t i = 0; i < 2 * N_TEMPLATES; i++) {
        fy_ask_tools t;
        uint32_t n_whole = 0;
        tools_begin(&t, templates[i / 2], i % 2 > 0);
        words_begin(&w, fy_tool_format_mark(t.format), i);
        for (uint32_t k = 0; k < n; k++) {
            fy_err e = {0};
            fy_str text = {0};
            found f = {.tools = t.tools, .text = &text};
            fy_call_hold *h = fy_call_hold_new(&t.calls, w.trie, NULL, &e);
            make_answer(&w, h, &text);
            parse_answer(&t, &text, &f);
            if (t.one && f.n_calls > 1)
                fail_msg("'%s' has %u calls", fy_str_z(&text), f.n_calls);
            n_whole += f.n_whole;
            fy_str_release(&text);
            fy_str_release(&f.arguments);
            fy_call_hold_free(h);
        }
        if (n_whole < n / 8)
            fail_msg("%s: %u whole calls in %u answers", fy_tool_format_name(t.format), n_whole, n);
        fy_trie_free(w.trie);
        fy_ask_tools_release(&t);
    }
}

/* --- by hand ---------------------------------------------------------------------------------- */

/* Feeds a text in pieces of so many bytes. How many bytes were taken; *holds: the last state. */
static size_t feed(const fy_ask_tools *t, const fy_think_marks *opened, const char *text,
                   size_t piece, bool *holds)
{
    fy_err e = {0};
    size_t at = 0;
    const size_t n = strlen(text);
    words_begin(&w, "x", 1);
    fy_trie_free(w.trie);
    for (size_t i = 0; i * piece < n; i++) /* the text's own tokens */
        add_token(&w, (uint32_t)(300 + i), text + i * piece,
                  n - i * piece < piece ? n - i * piece : piece);
    w.trie = fy_trie_new(w.tokens, N_TOKENS, &e);
    fy_call_hold *h = fy_call_hold_new(&t->calls, w.trie, opened, &e);
    for (; at < n; at += piece) {
        const int32_t id = (int32_t)(300 + at / piece);
        fy_mask mask = {0};
        if (fy_call_hold_holds(h) &&
            (fy_call_hold_mask(h, &mask, &e) != 0 || !(mask.bits[id / 64] >> id % 64 & 1)))
            break;
        if (fy_call_hold_accept(h, id, &e) != 1)
            break;
    }
    *holds = fy_call_hold_holds(h);
    fy_call_hold_free(h);
    fy_trie_free(w.trie);
    return at < n ? at : n;
}

static void texts_do_not_depend_on_their_tokens(void **state)
{
    static const struct {
        size_t template;
        const char *text;
        bool holds, whole;
    } cases[] = {
        {0, "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 3}}\n</tool_call> b", false,
         true},
        {0, "<<tool_<tool_call>\n{\"name\": \"f\", ", true, true},
        {0, "<tool_call>x", true, false},
        {0, "<tool_call>\n{\"name\": \"g\"", true, false},
        {0, "<think> <tool_call>x </think> <tool_call>\n{", true, true},
        {0, "<think> <tool_call>x </thin", false, true},
        {0, "a <think> <tool_call>x", true, false},
        {1, " {\"name\": \"f\", \"parameters\": {\"n\": 1", true, true},
        {1, " {\"a\"", true, false},
        {1, "see {\"a\": 1}", false, true},
        {1, "see <|python_tag|>{\"name\": \"get_", true, true},
        {2, "[TOOL_[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"n\": 3}}, {\"na", true, true},
        {2, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"n\": 3}}] and more", false, true},
        {3, "<|tool_call|>{\"name\": \"f\", \"arguments\": {\"n\": 3}}<|/tool_call|>", false, true},
        {9, "a <|tool_call>call:f{n:3}<tool_call|> b", false, true},
        {9, "<|tool_call>call:f{n:3,", true, false},
        {9, "<|tool_call>call:f{n: ", true, false},
        {9, "<|tool_call>call:f{s:<|\"|>a<|\"|>,n:-3}", true, true},
        {9, "<|tool_call>call:f{s:<|\"|>b", true, false},
        {9, "<|tool_call>call:write{text:<|\"|><|\"<tool_call|>}<|\"|>,o:{h:<|\"|><|\"|>},", true,
         true},
        {9, "<|tool_call>call:h", true, false},
        {9, "<|tool_call>{\"name\"", true, false},
        {10, "<start_function_call>call:write{text:<escape><esc\"\n<escape>,kind:<escape>y z<",
         true, true},
        {11, "[TOOL_CALLS]f[ARGS]{\"n\": 3} and [TOOL_CALLS]get_weather[ARGS]{\"on\":true}", false,
         true},
        {11, "[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{\"s\": \"a\", \"n", true, true},
        {11, "[TOOL_CALLS]f[CALL_ID]a1[ARGS]", true, false},
        {11, "[TOOL_CALLS]f[ARGS]{\"n\": 13", true, false},
        {11, "[TOOL_CALLS]fn", true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_ask_tools t;
        bool holds;
        const size_t n = strlen(cases[i].text);
        tools_begin(&t, templates[cases[i].template], false);
        for (size_t piece = 1; piece <= n; piece++) {
            const size_t taken = feed(&t, NULL, cases[i].text, piece, &holds);
            /* A piece that goes beyond the end of a call is refused. */
            const bool beyond = piece > 1 && strchr(cases[i].text, '}') != NULL && taken < n;
            if ((taken == n) != cases[i].whole && !beyond)
                fail_msg("'%s' in pieces of %zu: %zu of %zu bytes", cases[i].text, piece, taken, n);
            if (taken == n && holds != cases[i].holds)
                fail_msg("'%s' in pieces of %zu: %s", cases[i].text, piece,
                         holds ? "held" : "free");
        }
        fy_ask_tools_release(&t);
    }
}

static void a_prompt_may_open_thinking(void **state)
{
    fy_ask_tools t;
    const fy_think_marks *opened = NULL;
    bool holds;
    (void)state;
    fy_think_opened_by(FY_SPAN("<think>\n"), &opened);
    tools_begin(&t, templates[0], false);
    for (size_t piece = 1; piece < 40; piece++) {
        assert_int_equal(feed(&t, opened, "<tool_call>x</think>\n\nyes", piece, &holds), 25);
        assert_false(holds);
        feed(&t, opened, "x</think><tool_call>\n", piece, &holds);
        assert_true(holds);
    }
    fy_ask_tools_release(&t);
}

static void one_call_means_one(void **state)
{
    static const char call[] =
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 3}}\n</tool_call>";
    char text[256];
    (void)state;
    for (int one = 0; one < 2; one++) {
        fy_ask_tools t;
        bool holds;
        tools_begin(&t, templates[0], one > 0);
        const int n = snprintf(text, sizeof text, "%s and <tool_call>", call);
        assert_int_equal(feed(&t, NULL, text, 1, &holds), one ? n - 1 : n);
        assert_int_equal(holds, !one);
        fy_ask_tools_release(&t);
    }
}

/* A string that pairs cannot hold is held as JSON; a keyword that nothing holds is refused. */
static void what_pairs_cannot_hold_is_json(void **state)
{
    static const struct {
        const char *schema, *format;
    } cases[] = {
        {"{\"type\":\"string\",\"title\":\"T\"}", "qwen3-coder"},
        {"{\"type\":[\"string\",\"null\"]}", "qwen3-coder"},
        {"{\"type\":\"string\",\"pattern\":\"^a$\"}", "generic"},
        {"{\"type\":\"string\",\"minLength\":1}", "generic"},
        {"{\"type\":\"string\",\"enum\":[\"a\\nb\"]}", "generic"},
        {"{\"type\":\"number\",\"multipleOf\":3}", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        json_t *list = json_pack("[{s:s, s:{s:s, s:{s:s, s:{s:o}}}}]", "type", "function",
                                 "function", "name", "f", "parameters", "type", "object",
                                 "properties", "a", fy_json_data(fy_span_of(cases[i].schema), &e));
        fy_ask_tools t = {.tools = fy_tools_new(list, &e),
                          .format = fy_tool_format_of(FY_SPAN("tools <function=")),
                          .only = -1};
        json_decref(list);
        const int rc = fy_ask_tools_hold(&t, &e);
        if (rc != (cases[i].format != NULL ? 0 : -1))
            fail_msg("%s: %s", cases[i].schema, e.msg);
        if (rc == 0)
            assert_string_equal(fy_tool_format_name(t.format), cases[i].format);
        else
            assert_non_null(strstr(e.msg, "multipleOf"));
        fy_ask_tools_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_answers_call_with_valid_arguments),
        cmocka_unit_test(texts_do_not_depend_on_their_tokens),
        cmocka_unit_test(a_prompt_may_open_thinking),
        cmocka_unit_test(one_call_means_one),
        cmocka_unit_test(what_pairs_cannot_hold_is_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
