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
    {"falcon", "it's", "it|'|s"},
    {"tekken", "HTTPServer camelCase, 12/\n", "HTTPServer| camel|Case|,| |1|2|/\n"},
    {"tekken", "don't \xC3\x89lan X\xCC\x81y", "don|'t| \xC3\x89lan| X\xCC\x81y"},
    {"gpt-4o", "HTTPServer camelCase, 1234/\n", "HTTPServer| camel|Case|,| |123|4|/\n"},
    {"gpt-4o", "don't WE'LL \xC3\xA9T\xC3\xA9", "don't| WE'LL| \xC3\xA9|T\xC3\xA9"},
    {"llama4", "don't", "don't"},
    {"deepseek-v3", "a1234 \xE4\xBD\xA0\xE3\x81\x82z .b !!\n",
     "a|123|4| |\xE4\xBD\xA0\xE3\x81\x82|z| .|b| !!\n"},
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
        fy_pretok *p = fy_pretok_new(fy_span_of(cases[i].pre), &e);
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
    static const char *const pres[] = {"gpt-2",  "llama-bpe", "smollm",     "falcon",
                                       "tekken", "gpt-4o",    "deepseek-v3"};
    static const char *const units[] = {"A", "a", "\xE4\xB8\xAD", " ", "1", ".", "\xCC\x81", "A1"};
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        fy_err e = {0};
        fy_pretok *p = fy_pretok_new(fy_span_of(pres[i]), &e);
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
    bool ignore_merges, adds_bos;
    fy_pretok_list(&list);
    assert_string_equal(fy_str_z(&list), "gpt-2, llama-bpe, dbrx, qwen2, smollm, falcon, tekken, "
                                         "gpt-4o, deepseek-v3 and their aliases");
    fy_str_release(&list);
    assert_true(fy_pretok_known(FY_SPAN("tekken"), &ignore_merges, &adds_bos));
    assert_true(ignore_merges && adds_bos);
    assert_true(fy_pretok_known(FY_SPAN("kanana2"), &ignore_merges, &adds_bos));
    assert_false(ignore_merges || adds_bos);
    assert_false(fy_pretok_known(FY_SPAN("falc"), &ignore_merges, &adds_bos));
    assert_false(fy_pretok_known(FY_SPAN(""), &ignore_merges, &adds_bos));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_cut_as_the_reference_cuts_them),
        cmocka_unit_test(long_runs_take_little_time),
        cmocka_unit_test(the_list_names_every_kind_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
