#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/session.h"

static void check_near(double found, double expected)
{
    assert_true(fabs(found - expected) <= 1e-10 * fmax(1, fabs(expected)));
}

static fy_hparams plain(uint32_t n_rot)
{
    return (fy_hparams){.n_rot = n_rot,
                        .rope_theta = 10000,
                        .rope_factor = 1,
                        .rope_attn_factor = 1,
                        .yarn_beta_fast = 32,
                        .yarn_beta_slow = 1};
}

static void rates_fall_geometrically_from_one(void **state)
{
    (void)state;
    double rate[8];
    fy_rope r;
    fy_hparams hp = plain(16);
    fy_rope_init(&r, &hp, NULL, rate);
    assert_int_equal(r.n_pairs, 8);
    for (int i = 0; i < 8; i++)
        check_near(rate[i], pow(10000, -i / 8.0));
    check_near(r.magnitude, 1);
}

static void rope_freqs_divide_the_rates(void **state)
{
    (void)state;
    const float freqs[4] = {1, 2, 8, 32};
    double rate[4];
    fy_rope r;
    fy_hparams hp = plain(8);
    fy_rope_init(&r, &hp, freqs, rate);
    for (int i = 0; i < 4; i++)
        check_near(rate[i] * (double)freqs[i], pow(10000, -i / 4.0));
}

static void linear_scaling_divides_every_rate_by_the_factor(void **state)
{
    (void)state;
    double rate[4];
    fy_rope r;
    fy_hparams hp = plain(8);
    hp.rope_scaling = FY_ROPE_SCALING_LINEAR;
    hp.rope_factor = 4;
    fy_rope_init(&r, &hp, NULL, rate);
    for (int i = 0; i < 4; i++)
        check_near(rate[i] * 4, pow(10000, -i / 4.0));
    check_near(r.magnitude, 1);
}

/* Expected rates: the formula of transformers (modeling_rope_utils.py, _compute_yarn_parameters) in
 * float64. */
static void yarn_is_the_ramp_and_magnitude_of_transformers(void **state)
{
    (void)state;
    const struct {
        uint32_t n_rot, orig;
        float theta, factor, fast, slow;
        double magnitude, rate[16];
    } cases[] = {
        {16,
         64,
         10000,
         4,
         32,
         1,
         1.138629436111989,
         {1, 0.237170824513, 0.05, 0.00790569415042, 0.0025, 0.000790569415042, 0.00025,
          7.90569415042e-05}},
        {32,
         2048,
         500000,
         8,
         32,
         1,
         1.2079441541679836,
         {1, 0.440366602672, 0.193922744749, 0.0729433564941, 0.0266376052427, 0.00931524754556,
          0.00303861030717, 0.000869766623579, 0.000176776695297, 7.78465527393e-05,
          3.42810219595e-05, 1.50962171764e-05, 6.64786987118e-06, 2.92749987018e-06,
          1.28917317215e-06, 5.67708810076e-07}},
        {16,
         64,
         10000,
         4,
         16,
         2,
         1.138629436111989,
         {1, 0.197642353761, 0.025, 0.00790569415042, 0.0025, 0.000790569415042, 0.00025,
          7.90569415042e-05}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        double rate[16];
        fy_rope r;
        fy_hparams hp = plain(cases[c].n_rot);
        hp.rope_scaling = FY_ROPE_SCALING_YARN;
        hp.rope_theta = cases[c].theta;
        hp.rope_factor = cases[c].factor;
        hp.rope_orig_ctx = cases[c].orig;
        hp.yarn_beta_fast = cases[c].fast;
        hp.yarn_beta_slow = cases[c].slow;
        fy_rope_init(&r, &hp, NULL, rate);
        for (uint32_t i = 0; i < r.n_pairs; i++)
            check_near(rate[i], cases[c].rate[i]);
        check_near(r.magnitude, cases[c].magnitude);
    }
}

/* gpt-oss-20b: the ramp goes from pair 8.09 to pair 17.40 of 32, where others have 8 to 18. */
static void an_unrounded_ramp_ends_between_pairs(void **state)
{
    (void)state;
    double rate[32];
    fy_rope r;
    fy_hparams hp = plain(64);
    hp.rope_scaling = FY_ROPE_SCALING_YARN;
    hp.rope_theta = 150000;
    hp.rope_factor = 32;
    hp.rope_orig_ctx = 4096;
    hp.yarn_beta_fast = 32;
    hp.yarn_beta_slow = 1;
    hp.yarn_unrounded = true;
    fy_rope_init(&r, &hp, NULL, rate);
    const double low = 64 * log(4096 / (32 * 6.283185307179586)) / (2 * log(150000));
    const double high = 64 * log(4096 / 6.283185307179586) / (2 * log(150000));
    assert_true(low > 8.09 && low < 8.1 && high > 17.39 && high < 17.4);
    for (uint32_t i = 0; i < 32; i++) {
        const double plain_rate = pow(150000, -2.0 * i / 64);
        const double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        check_near(rate[i], plain_rate * (1 - ramp) + plain_rate / 32 * ramp);
    }
}

static void angles_are_cos_and_sin_times_the_magnitude(void **state)
{
    (void)state;
    double rate[2];
    float angles[4];
    fy_rope r;
    fy_hparams hp = plain(4);
    hp.rope_attn_factor = 1.5f;
    fy_rope_init(&r, &hp, NULL, rate);
    const uint32_t positions[] = {0, 1, 100, 131071};
    for (int p = 0; p < 4; p++) {
        fy_rope_angles(&r, positions[p], angles);
        for (int i = 0; i < 2; i++) {
            double a = positions[p] * (i == 0 ? 1 : 0.01);
            assert_true(fabs((double)angles[2 * i] - 1.5 * cos(a)) < 2e-7);
            assert_true(fabs((double)angles[2 * i + 1] - 1.5 * sin(a)) < 2e-7);
        }
    }
}

static void windowed_layers_with_a_base_of_their_own_are_not_scaled(void **state)
{
    (void)state;
    double rate[8];
    fy_rope r;
    fy_hparams hp = plain(16);
    hp.rope_scaling = FY_ROPE_SCALING_LINEAR;
    hp.rope_factor = 8;
    hp.rope_attn_factor = 1.5f;
    hp.rope_theta_swa = 100;
    fy_rope_init_swa(&r, &hp, rate);
    assert_int_equal(r.n_pairs, 8);
    for (int i = 0; i < 8; i++)
        check_near(rate[i], pow(100, -i / 8.0));
    check_near(r.magnitude, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_fall_geometrically_from_one),
        cmocka_unit_test(rope_freqs_divide_the_rates),
        cmocka_unit_test(linear_scaling_divides_every_rate_by_the_factor),
        cmocka_unit_test(yarn_is_the_ramp_and_magnitude_of_transformers),
        cmocka_unit_test(an_unrounded_ramp_ends_between_pairs),
        cmocka_unit_test(angles_are_cos_and_sin_times_the_magnitude),
        cmocka_unit_test(windowed_layers_with_a_base_of_their_own_are_not_scaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
