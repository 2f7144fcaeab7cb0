/* The words that each pre-tokenizer cuts a text into, as the tokenizers library cuts it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/vocab/vocab_impl.h"

static const struct {
    const char *pre, *text, *words; /* words with '|' between them */
} cases[] = {
    {"gpt-2", "I'll go  12a.", "I|'ll| go| | 12|a|."},
    {"llama-bpe", "I'LL go  1234.\n", "I|'LL| go| | |123|4|.\n"},
    {"qwen2", "don't 12!", "don|'t| |1|2|!"},
    {"smollm", "a 12b", "a| |1|2|b"},
    {"falcon", "a+b, 12345 (x)", "a|+|b|,| |123|45| |(|x|)"},
    {"falcon", "\xE5\xA5\xBD 7\xC2\xBD", "\xE5\xA5|\xBD| |7|\xC2|\xBD"},
    {"falcon", "it's", "it|'|s"},
    {"tekken", "HTTPServer camelCase, 12/\n", "HTTPServer| camel|Case|,| |1|2|/\n"},
    {"tekken", "don't \xC3\x89lan X\xCC\x81y", "don|'t| \xC3\x89lan| X\xCC\x81y"},
    {"gpt-4o", "HTTPServer camelCase, 1234/\n", "HTTPServer| camel|Case|,| |123|4|/\n"},
    {"gpt-4o", "don't WE'LL \xC3\xA9T\xC3\xA9", "don't| WE'LL| \xC3\xA9|T\xC3\xA9"},
    {"llama4", "don't", "don't"},
    {"kimi-k2", "HTTPServer\xE4\xB8\xAD\xE6\x96\x87it's 1234/\n",
     "HTTPServer|\xE4\xB8\xAD\xE6\x96\x87|it's| |123|4|/\n"},
    /* U+3001 is of no script, though Han text has it. */
    {"kimi-k2", " \xE4\xB8\xAD\xE3\x80\x81\xE3\x81\x82", " |\xE4\xB8\xAD|\xE3\x80\x81\xE3\x81\x82"},
    {"deepseek-v3", "a1234 \xE4\xBD\xA0\xE3\x81\x82z .b !!\n",
     "a|123|4| |\xE4\xBD\xA0\xE3\x81\x82|z| .|b| !!\n"},
    {"qwen35",
     "I'LL e\xCC\x81"
     "a 12!\xCC\x81\n",
     "I|'LL| e\xCC\x81"
     "a| |1|2|!\xCC\x81|\n"},
    {"deepseek-coder", "def f(x): 12\n\n  \xE4\xBD\xA0\xE5\xA5\xBD \xC3\xA9t\xC3\xA9",
     "def| f|(|x|):| |1|2|\n|\n| | |\xE4\xBD\xA0\xE5\xA5\xBD| \xC3\xA9t\xC3\xA9"},
    {"bloom", " a, b12. (c\xE2\x80\xA6\n", " a|,| b12|. (|c|\xE2\x80\xA6\n"},
    {"viking", "a12, b. 3", "a|1|2|,| b|.| |3"},
    {"minicpm5", "don't 12345!\n", "don|'t| |123|45|!\n"},
    {"seed-coder", "a!!\n\n 12", "a|!!|\n\n| |1|2"},
    {"bailingmoe", "it's 12 x \n\n  y!!\n", "it|'s| |1|2| x| \n\n| | y|!!\n"},
    {"chameleon", "a<sentinel:7>IMGIMGABZ  b,c 12", "a|<|sentinel|:|7|>|IMGIMGABZ|  |b|,|c| |1|2"},
};

typedef struct {
    fy_str words;
} collector;

static int collect(void *ctx, fy_span word, fy_err *e)
{
    collector *c = ctx;
    if (c->words.len > 0)
        fy_str_putc(&c->words, '|');
    fy_str_add(&c->words, word.ptr, word.len);
    return c->words.oom ? fy_nomem(e) : 0;
}

static void texts_are_cut_as_the_reference_cuts_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fy_err e = {0};
        collector c = {.words = {0}};
        fy_pretok_code *p = fy_pretok_new(fy_pretok_find_rule(fy_span_of(cases[i].pre)), &e);
        assert_non_null(p);
        assert_int_equal(fy_pretok_split(p, fy_span_of(cases[i].text), collect, &c, &e), 0);
        if (strcmp(fy_str_z(&c.words), cases[i].words) != 0)
            fail_msg("%s: '%s' became '%s', expected '%s'", cases[i].pre, cases[i].text,
                     fy_str_z(&c.words), cases[i].words);
        fy_str_release(&c.words);
        fy_pretok_free(p);
    }
}

/* Patterns with overlapping classes must not backtrack over the whole run at every place of it. */
static void long_runs_take_little_time(void **state)
{
    (void)state;
    static const char *const units[] = {"A", "a", "\xE4\xB8\xAD", " ", "1", ".", "\xCC\x81", "A1"};
    for (size_t i = 0; i < fy_pretok_n_rules; i++) {
        fy_err e = {0};
        fy_pretok_code *p = fy_pretok_new(&fy_pretok_rules[i], &e);
        assert_non_null(p);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            fy_str text = {0};
            collector c = {.words = {0}};
            for (int n = 0; n < 100000; n++)
                fy_str_puts(&text, units[u]);
            fy_span all = {text.ptr, text.len};
            assert_int_equal(fy_pretok_split(p, all, collect, &c, &e), 0);
            assert_true(c.words.len >= text.len);
            fy_str_release(&text);
            fy_str_release(&c.words);
        }
        fy_pretok_free(p);
    }
}

static void the_list_names_every_kind_once(void **state)
{
    (void)state;
    fy_str list = {0};
    fy_pretok_list(&list);
    assert_string_equal(
        fy_str_z(&list),
        "gpt-2, llama-bpe, dbrx, qwen2, smollm, falcon, tekken, gpt-4o, "
        "kimi-k2, deepseek-v3, deepseek-llm, deepseek-coder, qwen35, bloom, viking, "
        "minicpm5, seed-coder, chameleon and their aliases");
    fy_str_release(&list);
    const fy_pretok_rule *tekken = fy_pretok_find_rule(FY_SPAN("tekken"));
    assert_true(tekken != NULL && tekken->ignore_merges && tekken->adds_bos);
    const fy_pretok_rule *kanana = fy_pretok_find_rule(FY_SPAN("kanana2"));
    assert_true(kanana != NULL && !kanana->ignore_merges && !kanana->adds_bos);
    assert_null(fy_pretok_find_rule(FY_SPAN("falc")));
    assert_null(fy_pretok_find_rule(FY_SPAN("")));
}

/* Patterns of a file: what PCRE2 would read otherwise is refused, what explodes gives up. */
static void patterns_of_a_file_are_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *why; /* NULL: it compiles */
    } patterns[] = {
        {"\\s+[\\s\\d]", NULL},
        {"\\p{L}+\\x{41}+\\P{Lu}+", NULL},
        {"a{1,3}+", "'}+'"},
        {"\\p{L", "\\p"},
        {"[a[b]]", "a class in a class"},
        {"[a&&b]", "a class in a class"},
        {"[^]a]", "']' at the beginning"},
        {"\\h+", "an escape"},
        {"(*LIMIT_MATCH=1)a", "a verb"},
        {"(", "missing closing"},
        {"a\\", "\\ at end"},
        {"((((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))))", "nested"},
        {"(((a{1,999}){1,999}){1,999}){1,999}", "too large"},
        {"\xFF", "UTF-8"},
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        fy_err e = {0};
        fy_pretok_code *p = fy_pretok_of_file(fy_span_of(patterns[i].pattern), &e);
        if ((p != NULL) != (patterns[i].why == NULL) ||
            (p == NULL && (e.code != FY_EUNSUPPORTED || strstr(e.msg, patterns[i].why) == NULL)))
            fail_msg("pattern %zu: %s", i, e.msg);
        fy_pretok_free(p);
    }
    fy_err e = {0};
    size_t begin, end;
    fy_pretok_code *p = fy_pretok_of_file(FY_SPAN("(a+)+$|(?=b)"), &e);
    assert_non_null(p);
    assert_int_equal(fy_pretok_next(p, FY_SPAN("xxb"), 0, &begin, &end, &e), 1);
    assert_true(begin == 2 && end == 2);
    assert_int_equal(fy_pretok_next(p, FY_SPAN("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"),
                                    0, &begin, &end, &e),
                     -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    fy_pretok_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_cut_as_the_reference_cuts_them),
        cmocka_unit_test(long_runs_take_little_time),
        cmocka_unit_test(the_list_names_every_kind_once),
        cmocka_unit_test(patterns_of_a_file_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
