/* The canary of a compiled model: its file, and how far answers are from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/npu_canary.h"
#include "tests/unit/alloc_fail.h"

enum { N_VOCAB = 100 };

static void refuse(const char *text, const char *says)
{
    fy_err e = {0};
    fy_canary c;
    assert_int_equal(fy_canary_parse(text, strlen(text), &c, &e), -1);
    assert_int_equal(e.code, FY_EFORMAT);
    if (strstr(e.msg, says) == NULL)
        fail_msg("'%s' does not say '%s'", e.msg, says);
}

static void what_is_wrong_with_a_file(void **state)
{
    (void)state;
    refuse("{\"version\": 2, \"ids\": [1], \"kl\": 0, \"top\": [{\"ids\": [1], \"logits\": [1]}]}",
           "version 2 of a canary, expected 1");
    refuse("{\"version\": 1, \"ids\": [1], \"kl\": 0, \"top\": []}", "0 positions of 1 tokens");
    refuse("{\"version\": 1, \"ids\": [], \"kl\": 0, \"top\": [{\"ids\": [1], \"logits\": [1]}]}",
           "1 positions of 0 tokens");
    refuse("{\"version\": 1, \"ids\": [-1], \"kl\": 0}", "ids");
    refuse(
        "{\"version\": 1, \"ids\": [1], \"kl\": -0.5, \"top\": [{\"ids\": [1], \"logits\": [1]}]}",
        "kl: -0.5");
    refuse(
        "{\"version\": 1, \"ids\": [1], \"kl\": 0, \"top\": [{\"ids\": [1], \"logits\": [1e39]}]}",
        "expected a number that a float holds");
    refuse(
        "{\"version\": 1, \"ids\": [1], \"kl\": 0, \"top\": [{\"ids\": [1, 2], \"logits\": [1]}]}",
        "2 tokens with 1 logits");
}

/* Logits of which `at` is the largest. */
static void fill(float *logits, int at)
{
    for (int i = 0; i < N_VOCAB; i++)
        logits[i] = -fabsf((float)(i - at)) * 0.25f;
}

static void make(fy_canary *c)
{
    float logits[N_VOCAB];
    *c = (fy_canary){.model = "0123", .n_ids = 3, .n_positions = 2, .n_top = 8, .kl = 0.001};
    c->ids = calloc(3, sizeof *c->ids);
    assert_non_null(c->ids);
    c->ids[1] = 7;
    fill(logits, 40);
    fy_canary_keep(c, 0, logits, N_VOCAB);
    fill(logits, 99);
    fy_canary_keep(c, 1, logits, N_VOCAB);
}

static void the_likeliest_are_kept_in_order(void **state)
{
    fy_canary c;
    (void)state;
    make(&c);
    static const int32_t at_40[] = {40, 39, 41, 38, 42, 37, 43, 36};
    assert_memory_equal(c.top[0], at_40, sizeof at_40);
    for (int i = 0; i < 8; i++)
        assert_int_equal(c.top[1][i], 99 - i);
    fy_canary_release(&c);
}

static void written_and_read(void **state)
{
    fy_canary c, again;
    fy_str s = {0}, twice = {0};
    fy_err e = {0};
    (void)state;
    make(&c);
    fy_canary_put(&c, &s);
    assert_int_equal(fy_canary_parse(s.ptr, s.len, &again, &e), 0);
    fy_canary_put(&again, &twice);
    assert_string_equal(fy_str_z(&s), fy_str_z(&twice));
    assert_int_equal(again.ids[1], 7);
    fy_str_release(&s);
    fy_str_release(&twice);
    fy_canary_release(&c);
    fy_canary_release(&again);
}

static void how_far_answers_are(void **state)
{
    float logits[N_VOCAB];
    double kl, moved;
    fy_canary c;
    fy_err e = {0};
    (void)state;
    make(&c);
    fill(logits, 40);
    assert_int_equal(fy_canary_kl(&c, 0, logits, N_VOCAB, &kl, &e), 0);
    assert_true(kl < 1e-9);
    for (int i = 0; i < N_VOCAB; i++)
        logits[i] += 100; /* a softmax does not see it */
    assert_int_equal(fy_canary_kl(&c, 0, logits, N_VOCAB, &kl, &e), 0);
    assert_true(kl < 1e-9);
    fill(logits, 41);
    assert_int_equal(fy_canary_kl(&c, 0, logits, N_VOCAB, &moved, &e), 0);
    assert_true(moved > 0.01);
    logits[40] = NAN;
    assert_int_equal(fy_canary_kl(&c, 0, logits, N_VOCAB, &kl, &e), 0);
    assert_true(isinf(kl));
    assert_int_equal(fy_canary_kl(&c, 1, logits, 50, &kl, &e), -1);
    assert_non_null(strstr(e.msg, "token 99, expected one below 50"));
    assert_true(fy_canary_bound(&c) == 0.01);
    c.kl = 0.1;
    assert_true(fy_canary_bound(&c) == 0.4);
    fy_canary_release(&c);
}

static void no_memory(void **state)
{
    fy_canary c, again;
    fy_str s = {0};
    bool failed = true;
    (void)state;
    make(&c);
    fy_canary_put(&c, &s);
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        const int rc = fy_canary_parse(s.ptr, s.len, &again, &e);
        failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        if (failed)
            assert_int_equal(e.code, FY_ENOMEM);
    }
    fy_canary_release(&again);
    fy_str_release(&s);
    fy_canary_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_with_a_file),
        cmocka_unit_test(the_likeliest_are_kept_in_order),
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(how_far_answers_are),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
