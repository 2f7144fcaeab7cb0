#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/sample.h"

static fy_sampler *new_sampler(fy_sampler_params p, uint32_t n)
{
    fy_err e = {0};
    fy_sampler *s = fy_sampler_new(&p, n, NULL, &e);
    assert_non_null(s);
    return s;
}

static int32_t greedy_of(const float *logits, uint32_t n)
{
    fy_err e = {0};
    fy_sampler *s = new_sampler((fy_sampler_params){0}, n);
    int32_t id = fy_sampler_next(s, logits, false, &e);
    fy_sampler_free(s);
    return id;
}

static void greedy_takes_the_largest_and_the_lowest_id_on_ties(void **state)
{
    (void)state;
    assert_int_equal(greedy_of((float[]){0, 3, 1}, 3), 1);
    assert_int_equal(greedy_of((float[]){-5, -1, -1, -2}, 4), 1);
    assert_int_equal(greedy_of((float[]){2, 2, 2}, 3), 0);
    assert_int_equal(greedy_of((float[]){1, INFINITY, 3}, 3), 1);
}

static void nan_and_minus_infinity_are_never_chosen(void **state)
{
    (void)state;
    assert_int_equal(greedy_of((float[]){NAN, -INFINITY, -100, NAN}, 4), 2);
    fy_sampler *s = new_sampler((fy_sampler_params){.temperature = 5, .top_p = 1, .seed = 3}, 4);
    for (int i = 0; i < 200; i++) {
        int32_t id = fy_sampler_next(s, (float[]){NAN, 1, -INFINITY, 1.5f}, false, NULL);
        assert_true(id == 1 || id == 3);
    }
    fy_sampler_free(s);
}

static void all_nan_is_an_error_that_points_at_the_weights(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        fy_err e = {0};
        fy_sampler *s =
            new_sampler((fy_sampler_params){.temperature = (float)t, .top_p = 0.9f, .top_k = 2}, 2);
        assert_int_equal(fy_sampler_next(s, (float[]){NAN, NAN}, false, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_non_null(strstr(e.msg, "weights"));
        fy_sampler_free(s);
    }
}

static void bad_parameters_are_refused_by_name(void **state)
{
    (void)state;
    const struct {
        fy_sampler_params p;
        const char *word;
    } cases[] = {
        {{.temperature = -1, .top_p = 1}, "temperature"},
        {{.temperature = NAN, .top_p = 1}, "temperature"},
        {{.temperature = 1, .top_p = 0}, "top-p"},
        {{.temperature = 1, .top_p = 1.5f}, "top-p"},
        {{.temperature = 1, .top_p = NAN}, "top-p"},
        {{.temperature = 1, .top_p = 1, .top_k = -1}, "top-k"},
        {{.temperature = 1, .top_p = 1, .min_p = 2}, "min-p"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        assert_null(fy_sampler_new(&cases[i].p, 4, NULL, &e));
        assert_int_equal(e.code, FY_EARG);
        assert_non_null(strstr(e.msg, cases[i].word));
    }
}

/* Draws n times and counts; the logits are those of the ids' probabilities. */
static void count_draws(fy_sampler_params p, const float *logits, uint32_t n_vocab, int n,
                        int *counts)
{
    memset(counts, 0, n_vocab * sizeof *counts);
    fy_sampler *s = new_sampler(p, n_vocab);
    for (int i = 0; i < n; i++) {
        int32_t id = fy_sampler_next(s, logits, false, NULL);
        assert_in_range(id, 0, n_vocab - 1);
        counts[id]++;
    }
    fy_sampler_free(s);
}

static double chi_square(const int *counts, const double *expected, uint32_t n)
{
    double x = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (expected[i] > 0)
            x += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
        else
            assert_int_equal(counts[i], 0);
    }
    return x;
}

static void draws_follow_the_softmax_at_any_temperature(void **state)
{
    (void)state;
    enum { V = 8, N = 40000 };
    static const float logits[V] = {1.0f, -2.0f, 0.5f, 2.5f, 0.0f, 1.5f, -1.0f, 2.0f};
    const float temperatures[] = {0.5f, 1, 2};
    for (int t = 0; t < 3; t++) {
        double expected[V], total = 0;
        int counts[V];
        for (int i = 0; i < V; i++)
            total += expected[i] = exp((double)logits[i] / (double)temperatures[t]);
        for (int i = 0; i < V; i++)
            expected[i] *= N / total;
        count_draws((fy_sampler_params){.temperature = temperatures[t], .top_p = 1, .seed = 11},
                    logits, V, N, counts);
        assert_true(chi_square(counts, expected, V) < 24.3); /* 7 degrees of freedom, p = 0.001 */
    }
}

/* Probabilities 0.4 0.3 0.2 0.1 at ids 2 0 3 1. */
static const float four[4] = {-1.2039728f, -2.3025851f, -0.9162907f, -1.6094379f};

static void check_kept(fy_sampler_params p, const double *share)
{
    enum { N = 20000 };
    int counts[4];
    double expected[4], total = 0;
    p.temperature = 1;
    p.seed = 5;
    count_draws(p, four, 4, N, counts);
    for (int i = 0; i < 4; i++)
        total += share[i];
    for (int i = 0; i < 4; i++)
        expected[i] = share[i] * N / total;
    assert_true(chi_square(counts, expected, 4) < 16.3); /* 3 degrees of freedom, p = 0.001 */
}

static void top_k_keeps_the_k_best(void **state)
{
    (void)state;
    check_kept((fy_sampler_params){.top_p = 1, .top_k = 1}, (double[]){0, 0, 0.4, 0});
    check_kept((fy_sampler_params){.top_p = 1, .top_k = 3}, (double[]){0.3, 0, 0.4, 0.2});
    check_kept((fy_sampler_params){.top_p = 1, .top_k = 9}, (double[]){0.3, 0.1, 0.4, 0.2});
}

static void top_p_keeps_the_fewest_that_reach_p(void **state)
{
    (void)state;
    check_kept((fy_sampler_params){.top_p = 0.01f}, (double[]){0, 0, 0.4, 0});
    check_kept((fy_sampler_params){.top_p = 0.5f}, (double[]){0.3, 0, 0.4, 0});
    check_kept((fy_sampler_params){.top_p = 0.95f}, (double[]){0.3, 0.1, 0.4, 0.2});
}

static void top_p_counts_within_what_top_k_left(void **state)
{
    (void)state;
    /* Of 0.4 and 0.3 the first is 0.571: above 0.5, although 0.4 is not. */
    check_kept((fy_sampler_params){.top_k = 2, .top_p = 0.5f}, (double[]){0, 0, 0.4, 0});
    check_kept((fy_sampler_params){.top_k = 3, .top_p = 0.5f}, (double[]){0.3, 0, 0.4, 0});
}

static void min_p_is_relative_to_the_likeliest(void **state)
{
    (void)state;
    check_kept((fy_sampler_params){.top_p = 1, .min_p = 0.45f}, (double[]){0.3, 0, 0.4, 0.2});
    check_kept((fy_sampler_params){.top_p = 1, .min_p = 0.6f, .top_k = 3},
               (double[]){0.3, 0, 0.4, 0});
    check_kept((fy_sampler_params){.top_p = 1, .min_p = 1}, (double[]){0, 0, 0.4, 0});
}

/* Written down once: the generator, the exponential and the order of candidates are ours, so these
 * hold anywhere. */
static void a_seed_gives_the_same_ids_on_every_machine(void **state)
{
    (void)state;
    enum { V = 1000 };
    static const int32_t want[2][8] = {{235, 62, 531, 963, 321, 568, 889, 605},
                                       {780, 75, 630, 247, 321, 741, 346, 173}};
    float logits[V];
    for (int i = 0; i < V; i++)
        logits[i] = (float)((i * 7919) % 1000) / 100.0f;
    for (int k = 0; k < 2; k++) {
        fy_sampler_params p = {.temperature = 0.8f,
                               .top_k = k == 0 ? 40 : 0,
                               .top_p = 0.95f,
                               .min_p = 0.05f,
                               .seed = 42};
        fy_sampler *s = new_sampler(p, V);
        for (int i = 0; i < 8; i++)
            assert_int_equal(fy_sampler_next(s, logits, false, NULL), want[k][i]);
        fy_sampler_free(s);
    }
}

static void equal_logits_are_cut_by_id(void **state)
{
    (void)state;
    float logits[50] = {0};
    int counts[50];
    count_draws((fy_sampler_params){.temperature = 1, .top_p = 1, .top_k = 5, .seed = 9}, logits,
                50, 500, counts);
    for (int i = 0; i < 50; i++)
        assert_true(i < 5 ? counts[i] > 50 : counts[i] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_largest_and_the_lowest_id_on_ties),
        cmocka_unit_test(nan_and_minus_infinity_are_never_chosen),
        cmocka_unit_test(all_nan_is_an_error_that_points_at_the_weights),
        cmocka_unit_test(bad_parameters_are_refused_by_name),
        cmocka_unit_test(draws_follow_the_softmax_at_any_temperature),
        cmocka_unit_test(top_k_keeps_the_k_best),
        cmocka_unit_test(top_p_keeps_the_fewest_that_reach_p),
        cmocka_unit_test(top_p_counts_within_what_top_k_left),
        cmocka_unit_test(min_p_is_relative_to_the_likeliest),
        cmocka_unit_test(a_seed_gives_the_same_ids_on_every_machine),
        cmocka_unit_test(equal_logits_are_cut_by_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
