#include "kernels/row.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"

enum { N = 256 };

static const fy_type encodable[] = {FY_F32,  FY_F16,  FY_BF16, FY_Q8_0,   FY_Q4_0,
                                    FY_Q4_1, FY_Q5_0, FY_Q5_1, FY_Q4_K,   FY_Q5_K,
                                    FY_Q6_K, FY_Q2_K, FY_Q3_K, FY_IQ4_NL, FY_MXFP4};
enum { N_ENCODABLE = sizeof encodable / sizeof encodable[0] };
static const fy_type not_read[] = {FY_I8, FY_I16, FY_I32, FY_I64};

static fy_kernels kernels;

static int pick_kernels(void **state)
{
    (void)state;
    kernels = fy_kernels_for(fy_cpu_features());
    return 0;
}

/* Multiples of 1/8 in [-1, 1): exact in every type but the block types, and nearly so in q8_0. */
static void fill(float *x)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)(i * 7 % 16 - 8) / 8.0f;
}

static int encode(fy_type t, const float *x, fy_row_fault *fault)
{
    static uint8_t row[N * sizeof(float)];
    *fault = (fy_row_fault){-1, 0.0f, false};
    return fy_row_encode(&kernels, t, row, x, N, NULL, fault);
}

static void the_types_of_rows_are_known(void **state)
{
    (void)state;
    for (int t = 0; t < FY_TYPE_COUNT; t++) {
        bool listed = false;
        for (int i = 0; i < N_ENCODABLE; i++)
            listed = listed || encodable[i] == (fy_type)t;
        assert_int_equal(fy_row_can_encode((fy_type)t), listed);
        bool read = fy_type_get((uint32_t)t) != NULL;
        for (size_t i = 0; i < sizeof not_read / sizeof not_read[0]; i++)
            read = read && not_read[i] != (fy_type)t;
        assert_int_equal(fy_row_can_decode((fy_type)t), read);
    }
}

static void the_names_of_the_types_that_are_written_are_theirs(void **state)
{
    (void)state;
    int n = 0;
    for (const char *p = FY_ROW_TYPES; *p != '\0'; n++) {
        size_t len = strcspn(p, "|");
        assert_true(n < N_ENCODABLE);
        assert_int_equal(strlen(fy_type_name(encodable[n])), len);
        assert_memory_equal(fy_type_name(encodable[n]), p, len);
        p += len + (p[len] == '|');
    }
    assert_int_equal(n, N_ENCODABLE);
}

static void rows_come_back_within_the_step_of_their_type(void **state)
{
    (void)state;
    const double steps[N_ENCODABLE] = {0,          0,         0,           0.51 / 127, 1.01 / 8,
                                       0.51 / 7.5, 1.01 / 16, 0.52 / 15.5, 0.6 / 7.5,  0.6 / 15.5,
                                       0.6 / 32,   0.7 / 1.5, 0.8 / 4,     0.12,       0.25};
    float x[N], y[N];
    fill(x);
    for (int i = 0; i < N_ENCODABLE; i++) {
        uint8_t row[N * sizeof(float)];
        fy_row_fault fault;
        assert_int_equal(fy_row_encode(&kernels, encodable[i], row, x, N, NULL, &fault), 0);
        fy_row_decode(&kernels, encodable[i], y, row, N);
        for (int e = 0; e < N; e++)
            assert_true(fabs((double)x[e] - (double)y[e]) <= steps[i]);
    }
}

static void rows_decode_from_any_address(void **state)
{
    (void)state;
    float x[N], y[N], expected[N];
    fill(x);
    for (int i = 0; i < N_ENCODABLE; i++) {
        _Alignas(64) uint8_t row[N * sizeof(float)], moved[N * sizeof(float) + 3];
        fy_row_fault fault;
        assert_int_equal(fy_row_encode(&kernels, encodable[i], row, x, N, NULL, &fault), 0);
        fy_row_decode(&kernels, encodable[i], expected, row, N);
        for (size_t shift = 1; shift <= 3; shift++) {
            memcpy(moved + shift, row, sizeof row);
            fy_row_decode(&kernels, encodable[i], y, moved + shift, N);
            assert_memory_equal(y, expected, sizeof y);
        }
    }
}

/* Longer than the piece that an unaligned row is copied by. */
static void a_long_row_decodes_from_an_odd_address(void **state)
{
    (void)state;
    enum { LONG = 700 };
    static uint8_t bytes[2 * LONG + 1];
    static float y[LONG];
    for (int i = 0; i < LONG; i++) {
        const uint16_t h = fy_f32_to_f16((float)i);
        memcpy(bytes + 1 + 2 * i, &h, sizeof h);
    }
    fy_row_decode(&kernels, FY_F16, y, bytes + 1, LONG);
    for (int i = 0; i < LONG; i++)
        assert_true(y[i] == (float)i);
}

static void f64_rows_decode_to_the_nearest_f32(void **state)
{
    (void)state;
    const double x[] = {1.0, 0.1, -1e300, 1e-300, 16777217.0};
    uint8_t row[sizeof x + 1];
    float y[5];
    memcpy(row + 1, x, sizeof x);
    fy_row_decode(&kernels, FY_F64, y, row + 1, 5);
    assert_true(y[0] == 1.0f && y[1] == 0.1f && y[3] == 0.0f && y[4] == 16777216.0f);
    assert_true(isinf(y[2]) && y[2] < 0);
}

static void the_first_value_that_is_not_finite_is_named(void **state)
{
    (void)state;
    const float culprits[] = {NAN, INFINITY, -INFINITY};
    float x[N];
    fy_row_fault fault;
    for (int i = 0; i < N_ENCODABLE; i++) {
        for (int c = 0; c < 3; c++) {
            for (int at = 0; at < N; at++) {
                fill(x);
                x[at] = x[N - 1] = culprits[c];
                assert_int_equal(encode(encodable[i], x, &fault), -1);
                assert_int_equal(fault.index, at);
                assert_memory_equal(&fault.value, &culprits[c], sizeof(float));
                assert_false(fault.overflow);
            }
        }
    }
}

/* 65504 is the largest f16; the scale of a block is its largest magnitude over 127 or 8. */
static void values_too_large_for_the_type_are_named(void **state)
{
    (void)state;
    const struct {
        fy_type type;
        float fits, too_large;
    } cases[] = {
        {FY_F32, 0x1.fffffep127f, 0.0f},
        {FY_F16, 65519.0f, 65520.0f},
        {FY_BF16, 0x1.fep127f, 0x1.ffp127f},
        {FY_Q8_0, 65519.0f * 127.0f, 65520.0f * 127.0f},
        {FY_Q4_0, 65519.0f * 8.0f, 65520.0f * 8.0f},
        {FY_Q5_0, 65519.0f * 16.0f, 65520.0f * 16.0f},
        {FY_MXFP4, 0x1.fffcp127f, 0x1.fffep127f},
    };
    float x[N], y[N];
    fy_row_fault fault;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            uint8_t row[N * sizeof(float)];
            fill(x);
            x[70] = (float)sign * cases[i].fits;
            assert_int_equal(fy_row_encode(&kernels, cases[i].type, row, x, N, NULL, &fault), 0);
            fy_row_decode(&kernels, cases[i].type, y, row, N);
            assert_true(isfinite(y[70]));
            if (cases[i].too_large == 0.0f)
                continue;
            x[70] = (float)sign * cases[i].too_large;
            assert_int_equal(encode(cases[i].type, x, &fault), -1);
            assert_int_equal(fault.index, 70);
            assert_true(fault.value == x[70]);
            assert_true(fault.overflow);
        }
    }
}

/* Scale and minimum overflow at values of their own; what a search makes of the values decides in
 * the K types, so that the bounds below have some room. */
static void scales_and_minimums_that_overflow_are_found_in_what_was_encoded(void **state)
{
    (void)state;
    static const struct {
        fy_type type;
        float fits, too_large;
    } cases[] = {
        {FY_Q4_1, 15.0f * 65500.0f, 15.0f * 65530.0f},
        {FY_Q4_1, -65519.0f, -65520.0f},
        {FY_Q4_1, -65519.0f, -3e38f},
        {FY_Q5_1, 31.0f * 65500.0f, 31.0f * 65530.0f},
        {FY_Q5_1, -65519.0f, -65520.0f},
        {FY_Q4_K, 14.0f * 63.0f * 65000.0f, 16.0f * 63.0f * 66000.0f},
        {FY_Q4_K, -63.0f * 64000.0f, -63.0f * 67000.0f},
        {FY_Q4_K, -63.0f * 64000.0f, -3e38f},
        {FY_Q5_K, 30.0f * 63.0f * 65000.0f, 32.0f * 63.0f * 66000.0f},
        {FY_Q5_K, -63.0f * 64000.0f, -63.0f * 67000.0f},
        {FY_Q5_K, 30.0f * 63.0f * 65000.0f, 3e38f},
        {FY_Q6_K, 32.0f * 128.0f * 63000.0f, 32.0f * 128.0f * 68000.0f},
        {FY_Q6_K, -32.0f * 128.0f * 63000.0f, -32.0f * 128.0f * 68000.0f},
        {FY_Q6_K, 32.0f * 128.0f * 63000.0f, -3e38f},
        {FY_Q3_K, 32.0f * 4.0f * 63000.0f, 32.0f * 4.0f * 70000.0f},
        {FY_Q3_K, 32.0f * 4.0f * 63000.0f, -3e38f},
        {FY_IQ4_NL, 113.0f * 63000.0f, 113.0f * 68000.0f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float x[N], y[N];
        uint8_t row[N * sizeof(float)];
        fy_row_fault fault;
        fill(x);
        x[200] = cases[i].fits;
        if (fy_row_encode(&kernels, cases[i].type, row, x, N, NULL, &fault) != 0)
            fail_msg("%s: %g does not fit", fy_type_name(cases[i].type), (double)x[200]);
        fy_row_decode(&kernels, cases[i].type, y, row, N);
        assert_true(fabsf(y[200] - x[200]) < fabsf(x[200]) * 0.1f);
        x[200] = cases[i].too_large;
        if (fy_row_encode(&kernels, cases[i].type, row, x, N, NULL, &fault) == 0)
            fail_msg("%s: %g fits", fy_type_name(cases[i].type), (double)x[200]);
        assert_int_equal(fault.index, 200);
        assert_true(fault.value == x[200] && fault.overflow);
    }
}

/* Blocks whose values are all so large that no search can go on: refused, whatever came out. */
static void no_finite_row_is_written_with_a_scale_that_is_not(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (int round = 0; round < 2000; round++) {
        float x[N], y[N];
        uint8_t row[N * sizeof(float)];
        for (int i = 0; i < N; i++) {
            random = random * 1664525u + 1013904223u;
            const int exponent = round % 2 != 0 ? (int)(random >> 8 & 63) : round / 16;
            x[i] = ldexpf((float)(int32_t)random, exponent - 31);
        }
        for (int t = 0; t < N_ENCODABLE; t++) {
            fy_row_fault fault;
            if (fy_row_encode(&kernels, encodable[t], row, x, N, NULL, &fault) != 0)
                continue;
            fy_row_decode(&kernels, encodable[t], y, row, N);
            for (int i = 0; i < N; i++) {
                float top = 0;
                for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++)
                    top = fmaxf(top, fabsf(x[j]));
                float all = 0;
                for (int j = 0; j < N; j++)
                    all = fmaxf(all, fabsf(x[j]));
                if (!(fabsf(x[i] - y[i]) <=
                      (encodable[t] == FY_Q2_K ? 0.6f : 0.3f) * (t < 8 ? top : all)))
                    fail_msg("%s: %g of a block of magnitude %g came back as %g",
                             fy_type_name(encodable[t]), (double)x[i], (double)top, (double)y[i]);
            }
        }
    }
}

static void values_that_do_not_fit_are_written_without_the_check(void **state)
{
    (void)state;
    static const fy_type types[] = {FY_F32, FY_F16, FY_BF16};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        float x[N], y[N];
        uint8_t row[N * sizeof(float)];
        fill(x);
        x[3] = NAN;
        x[40] = -INFINITY;
        x[70] = 0x1.fffffep127f;
        assert_int_equal(fy_row_count_faults(types[i], x, N), types[i] == FY_F32 ? 2 : 3);
        fy_row_encode_any(&kernels, types[i], row, x, N);
        fy_row_decode(&kernels, types[i], y, row, N);
        assert_true(isnan(y[3]));
        assert_true(y[40] == -INFINITY);
        assert_true(y[70] == (types[i] == FY_F32 ? x[70] : INFINITY));
        assert_true(isfinite(y[69]) && isfinite(y[71]));
    }
}

static void an_empty_row_has_no_fault(void **state)
{
    (void)state;
    fy_row_fault fault;
    for (int i = 0; i < N_ENCODABLE; i++) {
        float nothing = 1.0f;
        assert_int_equal(fy_row_encode(&kernels, encodable[i], &nothing, &nothing, 0, NULL, &fault),
                         0);
        fy_row_decode(&kernels, encodable[i], &nothing, &nothing, 0);
        assert_true(nothing == 1.0f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_types_of_rows_are_known),
        cmocka_unit_test(the_names_of_the_types_that_are_written_are_theirs),
        cmocka_unit_test(rows_come_back_within_the_step_of_their_type),
        cmocka_unit_test(rows_decode_from_any_address),
        cmocka_unit_test(a_long_row_decodes_from_an_odd_address),
        cmocka_unit_test(f64_rows_decode_to_the_nearest_f32),
        cmocka_unit_test(the_first_value_that_is_not_finite_is_named),
        cmocka_unit_test(values_too_large_for_the_type_are_named),
        cmocka_unit_test(scales_and_minimums_that_overflow_are_found_in_what_was_encoded),
        cmocka_unit_test(no_finite_row_is_written_with_a_scale_that_is_not),
        cmocka_unit_test(values_that_do_not_fit_are_written_without_the_check),
        cmocka_unit_test(an_empty_row_has_no_fault),
    };
    return cmocka_run_group_tests(tests, pick_kernels, NULL);
}
