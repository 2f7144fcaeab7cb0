#include "convert/source/checkpoint.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"

#define TEST cmocka_unit_test

static fy_kernels kernels;

/* Reads all of t at once, then every stretch of it, and compares both with `want`. */
static void reads_as(const fy_ckpt_tensor *t, const float *want, uint64_t n)
{
    float out[64];
    assert_int_equal(fy_ckpt_n_elements(t), n);
    for (uint64_t first = 0; first < n; first++) {
        for (uint64_t len = 1; first + len <= n; len++) {
            memset(out, 0xFF, sizeof out);
            fy_ckpt_read(&kernels, t, first, len, out);
            for (uint64_t i = 0; i < len; i++) {
                if (out[i] != want[first + i])
                    fail_msg("elements [%d, +%d): %d is %g, expected %g", (int)first, (int)len,
                             (int)(first + i), (double)out[i], (double)want[first + i]);
            }
        }
    }
}

static fy_ckpt_part part_of(const void *data, uint64_t len, uint64_t s0, uint64_t s1, uint64_t s2)
{
    return (fy_ckpt_part){.data = data, .len = len, .stride = {s0, s1, s2}};
}

static void a_plain_tensor_is_read_as_it_lies(void **state)
{
    (void)state;
    static const float x[] = {1, 2, 3, 4, 5, 6};
    fy_ckpt_part part = part_of(x, 2, 3, 1, 0);
    fy_ckpt_tensor t = {.dtype = FY_DT_F32,
                        .rank = 2,
                        .shape = {2, 3},
                        .bytes = sizeof x,
                        .parts = &part,
                        .n_parts = 1,
                        .plain = true};
    reads_as(&t, x, 6);
}

static void a_scalar_is_one_element(void **state)
{
    (void)state;
    static const float x = 7;
    fy_ckpt_part part = part_of(&x, 1, 0, 0, 0);
    fy_ckpt_tensor t = {
        .dtype = FY_DT_F32, .bytes = sizeof x, .parts = &part, .n_parts = 1, .plain = false};
    reads_as(&t, &x, 1);
}

static void a_transposed_view_is_read_across_its_rows(void **state)
{
    (void)state;
    static const uint16_t bf16[] = {0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0}; /* 1 .. 6 */
    static const float want[] = {1, 4, 2, 5, 3, 6};
    fy_ckpt_part part = part_of(bf16, 3, 1, 3, 0);
    fy_ckpt_tensor t = {.dtype = FY_DT_BF16,
                        .rank = 2,
                        .shape = {3, 2},
                        .bytes = sizeof bf16,
                        .parts = &part,
                        .n_parts = 1};
    reads_as(&t, want, 6);
}

static void a_long_row_of_a_view_is_collected_in_pieces(void **state)
{
    (void)state;
    enum { N = 700 };
    static float x[2 * N], out[N];
    for (int i = 0; i < 2 * N; i++)
        x[i] = (float)i;
    fy_ckpt_part part = part_of(x, N, 2, 0, 0);
    fy_ckpt_tensor t = {.dtype = FY_DT_F32,
                        .rank = 1,
                        .shape = {N},
                        .bytes = sizeof out,
                        .parts = &part,
                        .n_parts = 1};
    fy_ckpt_read(&kernels, &t, 1, N - 1, out);
    for (int i = 0; i < N - 1; i++)
        assert_true(out[i] == (float)(2 * (i + 1)));
}

static void parts_are_joined_along_each_axis(void **state)
{
    (void)state;
    static const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8, 9, 10, 11, 12};
    static const float below[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const float beside[] = {1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12};
    fy_ckpt_part rows[] = {part_of(a, 2, 2, 1, 0), part_of(b, 4, 2, 1, 0)};
    fy_ckpt_tensor t = {.dtype = FY_DT_F32,
                        .rank = 2,
                        .shape = {6, 2},
                        .bytes = 48,
                        .parts = rows,
                        .n_parts = 2,
                        .axis = 0};
    reads_as(&t, below, 12);
    fy_ckpt_part cols[] = {part_of(a, 2, 2, 1, 0), part_of(b, 4, 4, 1, 0)};
    t = (fy_ckpt_tensor){.dtype = FY_DT_F32,
                         .rank = 2,
                         .shape = {2, 6},
                         .bytes = 48,
                         .parts = cols,
                         .n_parts = 2,
                         .axis = 1};
    reads_as(&t, beside, 12);
    fy_ckpt_part middle[] = {part_of(a, 1, 2, 2, 1), part_of(b, 2, 4, 2, 1)};
    t = (fy_ckpt_tensor){.dtype = FY_DT_F32,
                         .rank = 3,
                         .shape = {2, 3, 2},
                         .bytes = 48,
                         .parts = middle,
                         .n_parts = 2,
                         .axis = 1};
    reads_as(&t, beside, 12);
}

static void every_fp8_value_is_what_its_bits_say(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++) {
        uint8_t x = (uint8_t)i;
        int exponent = (i >> 3) % 16, mantissa = i % 8;
        double want = exponent == 0 ? mantissa / 8.0 * pow(2, -6)
                                    : (1 + mantissa / 8.0) * pow(2, exponent - 7);
        float y;
        fy_fp8_e4m3_decode(&y, &x, 1);
        if (i % 128 == 127)
            assert_true(isnan(y));
        else
            assert_true(y == (float)(i < 128 ? want : -want));
    }
}

static void fp8_is_multiplied_by_the_scale_of_its_block(void **state)
{
    (void)state;
    uint8_t one[3 * 5];
    memset(one, 0x38, sizeof one); /* 1.0 */
    static const float scales[] = {2, 3, 4, 5, 6, 7};
    static const float want[] = {2, 2, 3, 3, 4, 2, 2, 3, 3, 4, 5, 5, 6, 6, 7};
    fy_ckpt_part sp = part_of(scales, 2, 3, 1, 0), part = part_of(one, 3, 5, 1, 0);
    fy_ckpt_tensor scale = {.dtype = FY_DT_F32,
                            .rank = 2,
                            .shape = {2, 3},
                            .bytes = sizeof scales,
                            .parts = &sp,
                            .n_parts = 1,
                            .plain = true};
    fy_ckpt_tensor t = {.dtype = FY_DT_F8_E4M3,
                        .rank = 2,
                        .shape = {3, 5},
                        .bytes = sizeof one,
                        .parts = &part,
                        .n_parts = 1,
                        .plain = true};
    assert_false(fy_ckpt_can_read(&t));
    t.scale = &scale;
    t.scale_block[0] = t.scale_block[1] = 2;
    assert_true(fy_ckpt_can_read(&t));
    reads_as(&t, want, 15);
}

static void the_same_bytes_are_the_same(void **state)
{
    (void)state;
    static const float x[] = {1, 2, 3}, y[] = {1, 2, 3}, z[] = {1, 2, 4};
    fy_map none = {0};
    fy_ckpt_part p[] = {part_of(x, 3, 1, 0, 0), part_of(y, 3, 1, 0, 0), part_of(z, 3, 1, 0, 0)};
    fy_ckpt_tensor t[3];
    for (int i = 0; i < 3; i++) {
        p[i].map = &none;
        t[i] = (fy_ckpt_tensor){.dtype = FY_DT_F32,
                                .rank = 1,
                                .shape = {3},
                                .bytes = sizeof x,
                                .parts = &p[i],
                                .n_parts = 1,
                                .plain = true};
    }
    assert_true(fy_ckpt_same(&t[0], &t[1]));
    assert_false(fy_ckpt_same(&t[0], &t[2]));
    t[1].dtype = FY_DT_I32;
    assert_false(fy_ckpt_same(&t[0], &t[1]));
}

int main(void)
{
    kernels = fy_kernels_for(fy_cpu_features());
    const struct CMUnitTest tests[] = {
        TEST(a_plain_tensor_is_read_as_it_lies),
        TEST(a_scalar_is_one_element),
        TEST(a_transposed_view_is_read_across_its_rows),
        TEST(a_long_row_of_a_view_is_collected_in_pieces),
        TEST(parts_are_joined_along_each_axis),
        TEST(every_fp8_value_is_what_its_bits_say),
        TEST(fp8_is_multiplied_by_the_scale_of_its_block),
        TEST(the_same_bytes_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
