#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "kernels/kernels.h"
#include "tests/unit/kernels/encode_rows_table.h"

enum { N_ROWS = sizeof encode_rows / sizeof encode_rows[0] };

/* The kernels of this CPU, and the specification. */
static fy_kernels tables[2];

static int pick_kernels(void **state)
{
    (void)state;
    tables[0] = fy_kernels_for(fy_cpu_features());
    tables[1] = fy_kernels_for(0);
    return 0;
}

static const float *values_of(int row)
{
    static float x[32];
    memcpy(x, encode_rows[row].x, sizeof x);
    return x;
}

static void assert_same_bytes(const char *name, const void *got, const uint8_t *expected, size_t n)
{
    const uint8_t *bytes = got;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != expected[i])
            fail_msg("%s: byte %zu is %02x, ggml has %02x", name, i, bytes[i], expected[i]);
    }
}

static void q8_0_blocks_equal_those_of_ggml(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < N_ROWS; i++) {
            fy_block_q8_0 y;
            tables[t].encode_q8_0(&y, values_of(i), FY_QK);
            assert_same_bytes(encode_rows[i].name, &y, encode_rows[i].q8_0, sizeof y);
        }
    }
}

static void q4_0_blocks_equal_those_of_ggml(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < N_ROWS; i++) {
            fy_block_q4_0 y;
            tables[t].encode_q4_0(&y, values_of(i), FY_QK);
            assert_same_bytes(encode_rows[i].name, &y, encode_rows[i].q4_0, sizeof y);
        }
    }
}

static void a_row_is_its_blocks_one_after_the_other(void **state)
{
    (void)state;
    static float x[N_ROWS * FY_QK];
    for (int i = 0; i < N_ROWS; i++)
        memcpy(x + i * FY_QK, encode_rows[i].x, sizeof encode_rows[i].x);
    for (int t = 0; t < 2; t++) {
        fy_block_q8_0 q8[N_ROWS];
        fy_block_q4_0 q4[N_ROWS];
        tables[t].encode_q8_0(q8, x, N_ROWS * FY_QK);
        tables[t].encode_q4_0(q4, x, N_ROWS * FY_QK);
        for (int i = 0; i < N_ROWS; i++) {
            assert_same_bytes(encode_rows[i].name, &q8[i], encode_rows[i].q8_0, sizeof q8[i]);
            assert_same_bytes(encode_rows[i].name, &q4[i], encode_rows[i].q4_0, sizeof q4[i]);
        }
    }
}

static void blocks_decode_to_quant_times_scale(void **state)
{
    (void)state;
    fy_block_q8_0 q8 = {.d = 0x3800}; /* 0.5 */
    fy_block_q4_0 q4 = {.d = 0xc000}; /* -2 */
    for (int i = 0; i < FY_QK; i++)
        q8.qs[i] = (int8_t)(i * 8 - 128);
    for (int i = 0; i < FY_QK / 2; i++)
        q4.qs[i] = (uint8_t)(i | (15 - i) << 4);
    for (int t = 0; t < 2; t++) {
        float y[FY_QK];
        tables[t].decode_q8_0(y, &q8, FY_QK);
        for (int i = 0; i < FY_QK; i++)
            assert_true(y[i] == (float)(i * 8 - 128) * 0.5f);
        tables[t].decode_q4_0(y, &q4, FY_QK);
        for (int i = 0; i < FY_QK / 2; i++) {
            assert_true(y[i] == (float)(i - 8) * -2.0f);
            assert_true(y[i + FY_QK / 2] == (float)(7 - i) * -2.0f);
        }
    }
}

static void single_values_round_like_rows(void **state)
{
    (void)state;
    const struct {
        float value;
        uint16_t f16, bf16;
    } cases[] = {
        {1.0f, 0x3c00, 0x3f80},          {-2.5f, 0xc100, 0xc020},
        {0x1.002p0f, 0x3c00, 0x3f80},    /* a tie of f16: to even, down */
        {0x1.006p0f, 0x3c02, 0x3f80},    /* and up */
        {0x1.01p0f, 0x3c04, 0x3f80},     /* a tie of bf16: to even, down */
        {0x1.03p0f, 0x3c0c, 0x3f82},     /* and up */
        {65504.0f, 0x7bff, 0x4780},      {65520.0f, 0x7c00, 0x4780},
        {0x1p-24f, 0x0001, 0x3380},      {0x1p-25f, 0x0000, 0x3300},
        {0x1.8p-24f, 0x0002, 0x33c0},    {-0.0f, 0x8000, 0x8000},
        {INFINITY, 0x7c00, 0x7f80},      {0x1.fffffep127f, 0x7c00, 0x7f80},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(fy_f32_to_f16(cases[i].value), cases[i].f16);
        assert_int_equal(fy_f32_to_bf16(cases[i].value), cases[i].bf16);
        for (int t = 0; t < 2; t++) {
            uint16_t h[9];
            float x[9];
            for (int j = 0; j < 9; j++)
                x[j] = cases[i].value;
            tables[t].f32_to_f16(h, x, 9);
            assert_true(h[0] == cases[i].f16 && h[8] == cases[i].f16);
            tables[t].f32_to_bf16(h, x, 9);
            assert_true(h[0] == cases[i].bf16 && h[8] == cases[i].bf16);
        }
    }
}

static void a_nan_stays_one(void **state)
{
    (void)state;
    assert_true(isnan(fy_f16_to_f32(fy_f32_to_f16(NAN))));
    assert_true(isnan(fy_bf16_to_f32(fy_f32_to_bf16(NAN))));
    float low_payload;
    memcpy(&low_payload, &(uint32_t){0x7f800001}, sizeof low_payload); /* its upper half alone is an infinity */
    assert_true(isnan(fy_f16_to_f32(fy_f32_to_f16(low_payload))));
    assert_true(isnan(fy_bf16_to_f32(fy_f32_to_bf16(low_payload))));
}

static void exp_is_near_the_exact_one_and_ends_well(void **state)
{
    (void)state;
    for (float x = -103.0f; x <= 88.7f; x += 0.0137f) {
        const double exact = exp((double)x), unit = fmax(exact * 0x1p-23, 0x1p-149);
        assert_true(fabs((double)fy_exp(x) - exact) <= 2 * unit);
    }
    assert_true(fy_exp(0.0f) == 1.0f && fy_exp(-0.0f) == 1.0f);
    assert_true(fy_exp(-104.5f) == 0.0f && fy_exp(-INFINITY) == 0.0f);
    assert_true(isinf(fy_exp(88.9f)) && isinf(fy_exp(INFINITY)));
    assert_true(isnan(fy_exp(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q8_0_blocks_equal_those_of_ggml),
        cmocka_unit_test(q4_0_blocks_equal_those_of_ggml),
        cmocka_unit_test(a_row_is_its_blocks_one_after_the_other),
        cmocka_unit_test(blocks_decode_to_quant_times_scale),
        cmocka_unit_test(single_values_round_like_rows),
        cmocka_unit_test(a_nan_stays_one),
        cmocka_unit_test(exp_is_near_the_exact_one_and_ends_well),
    };
    return cmocka_run_group_tests(tests, pick_kernels, NULL);
}
