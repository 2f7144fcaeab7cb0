#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/sample.h"

static void bad_parameters_are_refused_by_name(void **state)
{
    (void)state;
    const fy_logit_bias beyond = {4, 1}, negative = {-1, 1}, nan = {1, NAN};
    fy_sampler_params ok = fy_sampler_defaults();
    struct {
        fy_sampler_params p;
        const char *word;
    } cases[] = {
        {ok, "temperature"},    {ok, "temperature"}, {ok, "top-p"},     {ok, "top-p"},
        {ok, "top-k"},          {ok, "min-p"},       {ok, "typical"},   {ok, "repeat penalty"},
        {ok, "repeat penalty"}, {ok, "presence"},    {ok, "frequency"}, {ok, "-2 tokens"},
        {ok, "1048577 tokens"}, {ok, "token 4"},     {ok, "token -1"},  {ok, "nan"},
        {ok, "step 6"},         {ok, "step 2"},      {ok, "7 sampling"}};
    cases[0].p.temperature = -1;
    cases[1].p.temperature = NAN;
    cases[2].p.top_p = -0.1f;
    cases[3].p.top_p = NAN;
    cases[4].p.top_k = -1;
    cases[5].p.min_p = 2;
    cases[6].p.typical_p = 1.5f;
    cases[7].p.repeat_penalty = 0;
    cases[8].p.repeat_penalty = INFINITY;
    cases[9].p.presence_penalty = NAN;
    cases[10].p.frequency_penalty = INFINITY;
    cases[11].p.repeat_last_n = -2;
    cases[12].p.repeat_last_n = FY_SAMPLE_WINDOW_MAX + 1;
    cases[13].p.bias = &beyond;
    cases[14].p.bias = &negative;
    cases[15].p.bias = &nan;
    for (int i = 13; i < 16; i++)
        cases[i].p.n_bias = 1;
    cases[16].p.order[2] = 6;
    cases[17].p.order[3] = 2;
    cases[18].p.n_order = 7;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        assert_null(fy_sampler_new(&cases[i].p, 4, NULL, &e));
        assert_int_equal(e.code, FY_EARG);
        if (strstr(e.msg, cases[i].word) == NULL)
            fail_msg("expected '%s' in '%s'", cases[i].word, e.msg);
    }
    fy_err e = {0};
    assert_null(fy_sampler_new(&ok, (uint32_t)INT32_MAX + 1, NULL, &e));
    assert_int_equal(e.code, FY_EARG);
}

static void an_order_is_names_or_letters(void **state)
{
    (void)state;
    const struct {
        const char *text, *order;
    } good[] = {
        {"penalties;top_k;typ_p;top_p;min_p;temperature", "012345"},
        {"ekypmt", "012345"},
        {"temperature", "5"},
        {"temp", "5"},
        {"t", "5"},
        {"tmp", "543"},
        {"top-k;temp", "15"},
        {"typical,typical-p", NULL},
        {"typical,min-p", "24"},
        {"k;t", NULL},
        {"", NULL},
        {"top_k;", NULL},
        {";", NULL},
        {"kk", NULL},
        {"top_k;top-k", NULL},
        {"TOP_K", NULL},
        {"top_kk", NULL},
        {"kx", NULL},
        {"dry;top_k", NULL},
        {"top_k top_p", NULL},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        fy_err e = {0};
        fy_sampler_params p = fy_sampler_defaults(), before = p;
        int rc = fy_sampler_parse_order(good[i].text, &p, &e);
        assert_int_equal(rc, good[i].order != NULL ? 0 : -1);
        if (rc != 0) {
            assert_int_equal(e.code, FY_EARG);
            assert_non_null(strstr(e.msg, "typ_p"));
            assert_memory_equal(&p, &before, sizeof p);
            continue;
        }
        assert_int_equal(p.n_order, strlen(good[i].order));
        for (int k = 0; k < p.n_order; k++)
            assert_int_equal(p.order[k], good[i].order[k] - '0');
        fy_str s = {0};
        fy_sampler_params back = before;
        fy_sampler_order_text(&p, &s);
        assert_int_equal(fy_sampler_parse_order(fy_str_z(&s), &back, NULL), 0);
        assert_int_equal(back.n_order, p.n_order);
        assert_memory_equal(back.order, p.order, p.n_order);
        fy_str_release(&s);
    }
}

static void the_defaults_do_what_their_comment_says(void **state)
{
    (void)state;
    fy_sampler_params d = fy_sampler_defaults();
    fy_str s = {0};
    fy_sampler_order_text(&d, &s);
    assert_string_equal(fy_str_z(&s), "penalties;top_k;typ_p;top_p;min_p;temperature");
    fy_str_release(&s);
    assert_true(d.temperature == 0.8f && d.top_k == 40 && d.top_p == 0.95f && d.min_p == 0.05f);
    assert_true(d.typical_p == 1 && d.repeat_penalty == 1 && d.repeat_last_n == 64);
    assert_true(d.presence_penalty == 0 && d.frequency_penalty == 0 && d.n_bias == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_parameters_are_refused_by_name),
        cmocka_unit_test(an_order_is_names_or_letters),
        cmocka_unit_test(the_defaults_do_what_their_comment_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
