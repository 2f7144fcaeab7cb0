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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_probabilities_are_those_of_a_plain_computation),
        cmocka_unit_test(logits_that_are_no_numbers_have_no_probability),
        cmocka_unit_test(infinite_logits_share_all_probability),
        cmocka_unit_test(what_has_no_answer_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
