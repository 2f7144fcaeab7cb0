#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "tests/kcheck/kernel_check.h"
#include "kernels/row.h"

static fy_kernels kernels;

enum { MAX_BYTES = 210 };

/* A block of zeros, with these f16 numbers. */
static void make_block(uint8_t block[MAX_BYTES], fy_type t, float d, float m)
{
    memset(block, 0, MAX_BYTES);
    fy_kc_set_scales(t, block, fy_f32_to_f16(d), fy_f32_to_f16(m));
}

/* The reach of the block's first group is from low to high, both included. */
static void reaches(fy_type t, const uint8_t *block, float low, float high)
{
    float x[FY_QK_K];
    const int64_t n = fy_type_get((uint32_t)t)->block;
    const float at[] = {low, high, nextafterf(low, -INFINITY), nextafterf(high, INFINITY)};
    for (int i = 0; i < 4; i++) {
        fy_error_sums s = {0};
        float y[FY_QK_K];
        fy_row_decode(&kernels, t, y, block, n);
        memcpy(x, y, sizeof x); /* what a block holds is never outside of it */
        x[7] = at[i];
        fy_row_error(&kernels, t, &s, x, block, n);
        assert_int_equal(s.n, n);
        if (s.n_outside != (i < 2 ? 0 : 1))
            fail_msg("%s: %.9g with limits %.9g and %.9g: %d outside", fy_type_name(t),
                     (double)at[i], (double)low, (double)high, (int)s.n_outside);
    }
}

static void a_block_reaches_half_a_step_beyond_its_levels(void **state)
{
    (void)state;
    static const struct {
        fy_type type;
        float d, m, low, high;
    } cases[] = {
        {FY_Q8_0, 0.5f, 0, -64.25f, 63.75f},
        {FY_Q8_0, -0.5f, 0, -63.75f, 64.25f},
        {FY_Q4_0, 2, 0, -17, 15},
        {FY_Q4_0, -2, 0, -15, 17},
        {FY_Q5_0, 0.25f, 0, -4.125f, 3.875f},
        {FY_Q5_0, -0.25f, 0, -3.875f, 4.125f},
        {FY_Q4_1, 1, 100, 99.5f, 115.5f},
        {FY_Q4_1, 1, -100, -100.5f, -84.5f},
        {FY_Q5_1, 1, -100, -100.5f, -68.5f},
        {FY_Q5_1, -1, 0, -31.5f, 0.5f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t block[MAX_BYTES];
        make_block(block, cases[i].type, cases[i].d, cases[i].m);
        reaches(cases[i].type, block, cases[i].low, cases[i].high);
    }
}

static void the_k_types_have_a_reach_for_each_group(void **state)
{
    (void)state;
    uint8_t block[MAX_BYTES];
    make_block(block, FY_Q4_K, 0.5f, 0.25f);
    block[4] = 6; /* scale and minimum of the first 32: 3 and 5 */
    block[8] = 20;
    reaches(FY_Q4_K, block, -6.5f, 41.5f);
    make_block(block, FY_Q5_K, 0.5f, 0.25f);
    block[4] = 6;
    block[8] = 20;
    reaches(FY_Q5_K, block, -6.5f, 89.5f);
    make_block(block, FY_Q6_K, 0.5f, 0);
    block[192] = 4;
    reaches(FY_Q6_K, block, -65, 63);
    block[192] = (uint8_t)-4;
    reaches(FY_Q6_K, block, -63, 65);
    /* the other groups have a scale of 0 */
    float x[FY_QK_K] = {0};
    for (int i = 0; i < FY_QK_K; i++)
        x[i] = 1;
    fy_error_sums s = {0};
    fy_row_error(&kernels, FY_Q6_K, &s, x, block, FY_QK_K);
    assert_int_equal(s.n_outside, FY_QK_K - 16);
}

static void a_scale_of_zero_reaches_zero_alone(void **state)
{
    (void)state;
    static const fy_type types[] = {FY_Q8_0, FY_Q4_0, FY_Q5_0};
    for (size_t i = 0; i < 3; i++) {
        uint8_t block[MAX_BYTES];
        make_block(block, types[i], 0, 0);
        reaches(types[i], block, -0.0f, 0.0f);
    }
}

/* The levels of fy_kc_element, which knows the bits on its own: with every other scale the share is
 * found again by trying all of them. */
static void the_limits_are_those_of_all_levels(void **state)
{
    (void)state;
    static const struct {
        fy_type type;
        int low, high;
    } types[] = {{FY_Q8_0, -128, 127}, {FY_Q4_0, -8, 7},       {FY_Q5_0, -16, 15},
                 {FY_Q4_1, 0, 15},     {FY_Q5_1, 0, 31},       {FY_Q4_K, 0, 15},
                 {FY_Q5_K, 0, 31},     {FY_Q6_K, -32, 31},     {FY_Q2_K, 0, 3},
                 {FY_Q3_K, -4, 3},     {FY_IQ4_NL, -127, 113}, {FY_MXFP4, -12, 12}};
    enum { N_TYPES = sizeof types / sizeof types[0] };
    fy_kc_random r = {5};
    for (size_t i = 0; i < N_TYPES * 200; i++) {
        const fy_type t = types[i % N_TYPES].type;
        const int64_t n = fy_type_get((uint32_t)t)->block;
        uint8_t block[MAX_BYTES];
        float limits[FY_QK_K / FY_LIMIT_ELEMS * 2];
        fy_kc_fill_block(&r, t, FY_KC_USUAL, block);
        fy_row_limits(t, limits, block, n);
        for (int64_t e = 0; e < n; e++) {
            const fy_kc_element v = fy_kc_element_at(t, block, e);
            const double a = v.scale * (types[i % N_TYPES].low - 0.5) + v.min,
                         b = v.scale * (types[i % N_TYPES].high + 0.5) + v.min;
            const float *limit = limits + e / FY_LIMIT_ELEMS * 2;
            assert_true(fabs((double)limit[0] - fmin(a, b)) <= 0x1p-23 * fabs(a));
            assert_true(fabs((double)limit[1] - fmax(a, b)) <= 0x1p-23 * fmax(fabs(a), fabs(b)));
        }
    }
}

enum { N = 1024 * 2 + 256 };

static void a_row_is_measured_at_any_address_and_against_its_stored_bytes(void **state)
{
    (void)state;
    static const fy_type types[] = {FY_F16,  FY_BF16, FY_Q8_0,   FY_Q4_0, FY_Q4_1,
                                    FY_Q5_0, FY_Q5_1, FY_Q4_K,   FY_Q5_K, FY_Q6_K,
                                    FY_Q2_K, FY_Q3_K, FY_IQ4_NL, FY_MXFP4};
    static float x[N], y[N];
    fy_kc_random r = {9};
    for (int i = 0; i < N; i++)
        x[i] = fy_kc_normal(&r);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        uint8_t row[N * 4 + 1];
        fy_row_fault fault;
        fy_error_sums a = {0}, b = {0};
        double ee = 0, worst = 0;
        assert_int_equal(fy_row_encode(&kernels, types[i], row, x, N, NULL, &fault), 0);
        fy_row_decode(&kernels, types[i], y, row, N);
        fy_row_error(&kernels, types[i], &a, x, row, N);
        memmove(row + 1, row, N * 4);
        fy_row_error(&kernels, types[i], &b, x, row + 1, N);
        assert_memory_equal(&a, &b, sizeof a);
        for (int e = 0; e < N; e++) {
            ee += ((double)x[e] - (double)y[e]) * ((double)x[e] - (double)y[e]);
            worst = fmax(worst, fabs((double)x[e] - (double)y[e]));
        }
        assert_true(ee > 0 && fabs(a.ee / ee - 1) < 1e-12);
        assert_true(fabs((double)a.max_e / worst - 1) < 1e-6);
        assert_int_equal(a.n, N);
        if (i < 2)
            assert_int_equal(a.n_outside, 0);
    }
}

int main(void)
{
    kernels = fy_kernels_for(fy_cpu_features());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_reaches_half_a_step_beyond_its_levels),
        cmocka_unit_test(the_k_types_have_a_reach_for_each_group),
        cmocka_unit_test(a_scale_of_zero_reaches_zero_alone),
        cmocka_unit_test(the_limits_are_those_of_all_levels),
        cmocka_unit_test(a_row_is_measured_at_any_address_and_against_its_stored_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
