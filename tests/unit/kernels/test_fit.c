/* Fitted scales against a search of every f16 scale that could be the best one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "kernels/row.h"

enum { N_BLOCKS = 256, N = N_BLOCKS * FY_QK };

static uint64_t state64 = 1;

static double uniform(void)
{
    state64 = state64 * 6364136223846793005u + 1442695040888963407u;
    return ((double)(state64 >> 33) + 0.5) * 0x1p-31;
}

static void fill_normal(float *x)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)(0.02 * sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
}

static void fill_importance(float *w)
{
    for (int i = 0; i < N; i++)
        w[i] = (float)(-log(uniform()));
}

static double weight(const float *w, int i)
{
    return w != NULL ? (double)w[i] : 1.0;
}

/* The error of a block's best quants for a scale. */
static double error_of(const float *x, const float *w, double d, double low, double high)
{
    double error = 0;
    for (int i = 0; i < FY_QK; i++) {
        const double q = fmin(fmax(nearbyint((double)x[i] / d), low), high);
        const double off = (double)x[i] - q * d;
        error += weight(w, i) * off * off;
    }
    return error;
}

/* Of all f16 scales from one at which three quarters of the range suffice to one at which the
 * largest value is cut to half. */
static double least_error(const float *x, const float *w, int low, int high)
{
    float top = 0.0f;
    double least = INFINITY;
    for (int i = 0; i < FY_QK; i++)
        top = fmaxf(top, fabsf(x[i]));
    const uint16_t first = fy_f32_to_f16(top / (float)-low * 0.5f),
                   last = fy_f32_to_f16(top / (float)-low * 1.75f);
    for (uint16_t h = first; h <= last; h++) {
        const double d = (double)fy_f16_to_f32(h);
        least = fmin(least, error_of(x, w, d, low, high));
        least = fmin(least, error_of(x, w, -d, low, high));
    }
    return least;
}

static double error_of_row(fy_type t, const float *x, const float *w, const fy_encode_options *how)
{
    static uint8_t row[N_BLOCKS * sizeof(fy_block_q8_0)];
    static float y[N];
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    fy_row_fault fault;
    double error = 0;
    assert_int_equal(fy_row_encode(&k, t, row, x, N, how, &fault), 0);
    fy_row_decode(&k, t, y, row, N);
    for (int i = 0; i < N; i++)
        error += weight(w, i) * ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return error;
}

/* Root mean squares: how far below the reference's, and how much of what all scales could gain. */
typedef struct {
    double below, share;
} gain;

static gain gain_of(fy_type t, int low, int high, bool weighted)
{
    static float x[N], importance[N];
    fill_normal(x);
    fill_importance(importance);
    const float *w = weighted ? importance : NULL;
    const fy_encode_options how = {.importance = w, .fit = true};
    const double before = sqrt(error_of_row(t, x, w, NULL)),
                 after = sqrt(error_of_row(t, x, w, &how));
    double least = 0;
    for (int b = 0; b < N_BLOCKS && low < 0; b++)
        least += least_error(x + b * FY_QK, w != NULL ? w + b * FY_QK : NULL, low, high);
    return (gain){1 - after / before, (before - after) / (before - sqrt(least))};
}

static void q4_0_gains_nine_tenths_of_what_all_scales_could(void **state)
{
    (void)state;
    const gain g = gain_of(FY_Q4_0, -8, 7, false);
    if (!(g.below >= 0.05 && g.share >= 0.9))
        fail_msg("%.4f below the reference, %.4f of the best", g.below, g.share);
}

static void so_it_does_with_importance(void **state)
{
    (void)state;
    const gain g = gain_of(FY_Q4_0, -8, 7, true);
    if (!(g.below >= 0.05 && g.share >= 0.9))
        fail_msg("%.4f below the reference, %.4f of the best", g.below, g.share);
}

static void the_other_types_with_a_scale_gain_as_much(void **state)
{
    (void)state;
    const gain g5 = gain_of(FY_Q5_0, -16, 15, false), g8 = gain_of(FY_Q8_0, -127, 127, false);
    if (!(g5.below >= 0.05 && g5.share >= 0.9 && g8.below >= 0.1 && g8.share >= 0.9))
        fail_msg("q5_0 %.4f %.4f, q8_0 %.4f %.4f", g5.below, g5.share, g8.below, g8.share);
}

static void types_with_a_minimum_gain_a_tenth(void **state)
{
    (void)state;
    const gain g4 = gain_of(FY_Q4_1, 0, 15, false), g5 = gain_of(FY_Q5_1, 0, 31, false);
    if (!(g4.below >= 0.1 && g5.below >= 0.1))
        fail_msg("q4_1 %.4f, q5_1 %.4f below the reference", g4.below, g5.below);
}

/* What the reference's scale or minimum cannot hold, these do not hide by a smaller one. */
static void what_the_reference_refuses_is_refused(void **state)
{
    (void)state;
    static const struct {
        fy_type type;
        float largest, too_large;
    } cases[] = {{FY_Q4_0, 5.24e5f, 5.25e5f},
                 {FY_Q5_0, 1.04e6f, 1.05e6f},
                 {FY_Q8_0, 8.32e6f, 8.33e6f},
                 {FY_Q4_1, 9.0e5f, 9.9e5f},
                 {FY_Q5_1, 1.9e6f, 2.1e6f}};
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    const fy_encode_options how = {.fit = true};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        float x[16 * FY_QK] = {[37] = cases[c].largest};
        uint8_t row[16 * sizeof(fy_block_q8_0)];
        fy_row_fault fault;
        assert_int_equal(fy_row_encode(&k, cases[c].type, row, x, 16 * FY_QK, &how, &fault), 0);
        x[37] = cases[c].too_large;
        assert_int_equal(fy_row_encode(&k, cases[c].type, row, x, 16 * FY_QK, &how, &fault), -1);
        assert_true(fault.index == 37 && fault.overflow && fault.value == x[37]);
        x[37] = NAN;
        assert_int_equal(fy_row_encode(&k, cases[c].type, row, x, 16 * FY_QK, &how, &fault), -1);
        assert_true(fault.index == 37 && !fault.overflow);
    }
}

static void types_without_a_fit_do_not_ask(void **state)
{
    (void)state;
    static const fy_type types[] = {FY_Q4_K, FY_Q5_K,   FY_Q6_K, FY_Q2_K,
                                    FY_Q3_K, FY_IQ4_NL, FY_MXFP4};
    static float x[N];
    static uint8_t plain[N], fitted[N];
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    const fy_encode_options how = {.fit = true};
    fy_row_fault fault;
    fill_normal(x);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        assert_int_equal(fy_row_encode(&k, types[t], plain, x, N, NULL, &fault), 0);
        assert_int_equal(fy_row_encode(&k, types[t], fitted, x, N, &how, &fault), 0);
        assert_memory_equal(plain, fitted, fy_type_row_bytes(types[t], N));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q4_0_gains_nine_tenths_of_what_all_scales_could),
        cmocka_unit_test(so_it_does_with_importance),
        cmocka_unit_test(the_other_types_with_a_scale_gain_as_much),
        cmocka_unit_test(types_with_a_minimum_gain_a_tenth),
        cmocka_unit_test(what_the_reference_refuses_is_refused),
        cmocka_unit_test(types_without_a_fit_do_not_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
