#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/sample.h"
#include "tests/unit/alloc_fail.h"

enum { V = 3000, TOP = 25 };

static float logit_of(int i)
{
    return (float)((i * 7919) % 3001) / 97.0f - 20;
}

static void log_probabilities_are_those_of_a_plain_computation(void **state)
{
    (void)state;
    float logits[V], got;
    double sum = 0;
    fy_logprob top[TOP];
    for (int i = 0; i < V; i++) {
        logits[i] = logit_of(i);
        sum += exp((double)logits[i]);
    }
    for (int32_t id = 0; id < V; id += 501) {
        assert_int_equal(fy_logprobs(logits, V, id, &got, top, TOP, NULL), 0);
        double want = (double)logits[id] - log(sum);
        assert_true(fabs((double)got - want) < 1e-6 * fabs(want));
    }
    for (int i = 0; i < TOP; i++) {
        double want = (double)logits[top[i].id] - log(sum);
        int better = 0;
        for (int k = 0; k < V; k++)
            better +=
                logits[k] > logits[top[i].id] || (logits[k] == logits[top[i].id] && k < top[i].id);
        assert_int_equal(better, i);
        assert_true(fabs((double)top[i].logprob - want) < 1e-6 * fabs(want));
    }
}

static void logits_that_are_no_numbers_have_no_probability(void **state)
{
    (void)state;
    const float logits[] = {NAN, 1, -INFINITY, 1, NAN};
    float p;
    fy_logprob top[7];
    assert_int_equal(fy_logprobs(logits, 5, 3, &p, top, 7, NULL), 0);
    assert_true(fabsf(p - logf(0.5f)) < 1e-7f);
    assert_int_equal(top[0].id, 1);
    assert_int_equal(top[1].id, 3);
    assert_true(top[0].logprob == p && top[1].logprob == p);
    for (int i = 2; i < 7; i++)
        assert_true(top[i].id == -1 && top[i].logprob == -INFINITY);
    for (int32_t id = 0; id < 5; id += 2) {
        assert_int_equal(fy_logprobs(logits, 5, id, &p, NULL, 0, NULL), 0);
        assert_true(p == -INFINITY);
    }
}

static void infinite_logits_share_all_probability(void **state)
{
    (void)state;
    float p;
    const float logits[] = {3e38f, INFINITY, -5, INFINITY};
    assert_int_equal(fy_logprobs(logits, 4, 1, &p, NULL, 0, NULL), 0);
    assert_true(fabsf(p - logf(0.5f)) < 1e-7f);
    assert_int_equal(fy_logprobs(logits, 4, 0, &p, NULL, 0, NULL), 0);
    assert_true(p == -INFINITY);
    assert_int_equal(fy_logprobs((float[]){-7}, 1, 0, &p, NULL, 0, NULL), 0);
    assert_true(p == 0);
}

static void what_has_no_answer_is_refused(void **state)
{
    (void)state;
    float p = 7;
    fy_logprob top[2];
    for (int32_t id = -1; id < 4; id += 4) {
        fy_err e = {0};
        assert_int_equal(fy_logprobs((float[]){1, 2, 3}, 3, id, &p, top, 2, &e), -1);
        assert_int_equal(e.code, FY_EARG);
    }
    fy_err e = {0};
    assert_int_equal(fy_logprobs((float[]){NAN, -INFINITY}, 2, 0, &p, top, 2, &e), -1);
    assert_int_equal(e.code, FY_EFORMAT);
    assert_int_equal(fy_logprobs(NULL, 0, 0, &p, top, 2, NULL), -1);
    e = (fy_err){0};
    alloc_fail_after(0);
    int rc = fy_logprobs((float[]){1, 2, 3}, 3, 0, &p, top, 2, &e);
    alloc_fail_end();
    assert_int_equal(rc, -1);
    assert_int_equal(e.code, FY_ENOMEM);
    assert_true(p == 7);
}

/* Of the last draw: what the steps left, weighted by temperature, all together 1. */
static void a_draw_tells_its_probabilities(void **state)
{
    (void)state;
    enum { N = 6 };
    const float logits[N] = {1, 3, 2, NAN, 0, 3};
    fy_sampler_params p = fy_sampler_defaults();
    fy_logprob top[N + 1];
    p.temperature = 0.5F;
    p.top_k = 4; /* ids 1, 5, 2, 0 */
    p.top_p = 1;
    p.min_p = 0;
    fy_sampler *s = fy_sampler_new(&p, N, NULL, NULL);
    assert_non_null(s);
    assert_true(fy_sampler_last(s, 0, top, 1) == 0 && top[0].id == -1); /* nothing was drawn yet */
    const double sum = 1 + 1 + exp(-2) + exp(-4);
    const int32_t want[] = {1, 5, 2, 0};
    const double weight[] = {1, 1, exp(-2), exp(-4)};
    for (int i = 0; i < 20; i++) {
        const int32_t id = fy_sampler_next(s, logits, false, NULL);
        const float of_id = fy_sampler_last(s, id, top, N + 1);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(top[k].id, want[k]);
            assert_true(fabs((double)top[k].logprob - weight[k] / sum) < 1e-6);
            assert_true(top[k].id != id || top[k].logprob == of_id);
        }
        assert_true(top[4].id == -1 && top[N].id == -1);
        assert_true(fy_sampler_last(s, 4, top, 2) == 0); /* cut by top_k */
        assert_int_equal(top[1].id, 5);
    }
    fy_sampler_free(s);
}

static void greedy_tells_one(void **state)
{
    (void)state;
    const float logits[] = {1, 3, 2};
    fy_sampler_params p = fy_sampler_defaults();
    fy_logprob top[2];
    p.temperature = 0;
    fy_sampler *s = fy_sampler_new(&p, 3, NULL, NULL);
    assert_int_equal(fy_sampler_next(s, logits, false, NULL), 1);
    assert_true(fy_sampler_last(s, 1, top, 2) == 1 && top[0].id == 1 && top[0].logprob == 1);
    assert_int_equal(top[1].id, -1);
    assert_true(fy_sampler_last(s, 0, top, 2) == 0);
    fy_sampler_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_probabilities_are_those_of_a_plain_computation),
        cmocka_unit_test(logits_that_are_no_numbers_have_no_probability),
        cmocka_unit_test(infinite_logits_share_all_probability),
        cmocka_unit_test(what_has_no_answer_is_refused),
        cmocka_unit_test(a_draw_tells_its_probabilities),
        cmocka_unit_test(greedy_tells_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
