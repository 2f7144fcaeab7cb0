#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "kernels/kernel_impl.h"

static void every_member_is_set_for_every_mask(void **state)
{
    (void)state;
    const uint32_t masks[] = {0, fy_cpu_features(), FY_CPU_DOTPROD};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        const fy_kernels k = fy_kernels_for(masks[i]);
        assert_int_equal(k.features, masks[i]);
#define FY_KERNEL(op, isa, needs) assert_true(k.op != NULL);
#include "kernels/kernel_list.h"
#undef FY_KERNEL
    }
}

static void no_feature_means_the_scalar_specification(void **state)
{
    (void)state;
    const fy_kernels k = fy_kernels_for(0);
    assert_true(k.matmul_q4_0 == fy_matmul_q4_0__scalar);
    assert_true(k.attend_dots_f16 == fy_attend_dots_f16__scalar);
    assert_true(k.encode_q8_0 == fy_encode_q8_0__scalar);
}

static void only_types_with_a_matmul_have_one(void **state)
{
    (void)state;
    const fy_kernels k = fy_kernels_for(0);
    assert_true(fy_kernels_matmul(&k, FY_F32) == k.matmul_f32);
    assert_true(fy_kernels_matmul(&k, FY_F16) == k.matmul_f16);
    assert_true(fy_kernels_matmul(&k, FY_BF16) == k.matmul_bf16);
    assert_true(fy_kernels_matmul(&k, FY_Q8_0) == k.matmul_q8_0);
    assert_true(fy_kernels_matmul(&k, FY_Q4_0) == k.matmul_q4_0);
    assert_true(fy_kernels_matmul(&k, FY_Q5_0) == k.matmul_q5_0);
    assert_true(fy_kernels_matmul(&k, FY_Q6_K) == k.matmul_q6_k);
    assert_true(fy_kernels_matmul(&k, FY_Q2_K) == k.matmul_q2_k);
    assert_true(fy_kernels_matmul(&k, FY_NVFP4) == k.matmul_nvfp4);
    assert_null(fy_kernels_matmul(&k, FY_Q8_1));
    assert_null(fy_kernels_matmul(&k, FY_I8));
    assert_null(fy_kernels_matmul(&k, FY_TYPE_COUNT));
    assert_null(fy_kernels_matmul(&k, (fy_type)4000));
}

static void only_block_types_want_quantized_activations(void **state)
{
    (void)state;
    assert_true(fy_kernels_wants_q8(FY_Q8_0));
    assert_true(fy_kernels_wants_q8(FY_Q4_0));
    assert_true(fy_kernels_wants_q8(FY_Q4_K));
    assert_true(fy_kernels_wants_q8(FY_Q3_K));
    assert_false(fy_kernels_wants_q8(FY_I8));
    assert_false(fy_kernels_wants_q8((fy_type)4000));
    assert_false(fy_kernels_wants_q8(FY_F32));
    assert_false(fy_kernels_wants_q8(FY_F16));
    assert_false(fy_kernels_wants_q8(FY_BF16));
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void f16_narrowing_rounds_ties_to_even_and_overflows_from_65520(void **state)
{
    (void)state;
    static const struct {
        float f;
        uint16_t h;
    } cases[] = {
        {0.0f, 0x0000},         {-0.0f, 0x8000},      {1.0f, 0x3c00},       {-2.0f, 0xc000},
        {65504.0f, 0x7bff},     {65519.996f, 0x7bff}, {65520.0f, 0x7c00},   {-1e30f, 0xfc00},
        {INFINITY, 0x7c00},     {-INFINITY, 0xfc00},  {0x1p-14f, 0x0400},   {0x1p-24f, 0x0001},
        {0x1p-25f, 0x0000},     {0x1.8p-25f, 0x0001}, {0x1.8p-24f, 0x0002}, {0x1.ff8p-15f, 0x03ff},
        {0x1.ffcp-15f, 0x0400}, {0x1.002p0f, 0x3c00}, {0x1.006p0f, 0x3c02}, {0x1.002002p0f, 0x3c01},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(fy_f32_to_f16(cases[i].f), cases[i].h);
    assert_int_equal(fy_f32_to_f16(float_of(0x7f800001)),
                     0x7e00); /* a signalling NaN does not become infinity */
    assert_int_equal(fy_f32_to_f16(float_of(0xffc00000)), 0xfe00);
}

static void f16_widening_and_narrowing_is_the_identity(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const bool is_nan = (h & 0x7fff) > 0x7c00;
        const uint16_t back = fy_f32_to_f16(fy_f16_to_f32((uint16_t)h));
        assert_int_equal(back, is_nan ? (h | 0x200) : h);
    }
}

static void bf16_narrowing_rounds_ties_to_even_and_keeps_nan(void **state)
{
    (void)state;
    assert_int_equal(fy_f32_to_bf16(float_of(0x3f808000)), 0x3f80);
    assert_int_equal(fy_f32_to_bf16(float_of(0x3f818000)), 0x3f82);
    assert_int_equal(fy_f32_to_bf16(float_of(0x3f808001)), 0x3f81);
    assert_int_equal(fy_f32_to_bf16(float_of(0x7f7fffff)), 0x7f80);
    assert_int_equal(fy_f32_to_bf16(float_of(0x7f800001)), 0x7fc0);
    assert_int_equal(fy_f32_to_bf16(float_of(0xff800000)), 0xff80);
    for (uint32_t h = 0; h < 0x10000; h++) {
        if ((h & 0x7fff) <= 0x7f80)
            assert_int_equal(fy_f32_to_bf16(fy_bf16_to_f32((uint16_t)h)), h);
    }
}

static void exp_is_near_libm_and_handles_the_ends(void **state)
{
    (void)state;
    for (float x = -87.0f; x < 88.5f; x += 0.0137f) {
        const double exact = exp((double)x);
        assert_true(fabs((double)fy_exp(x) - exact) <= 2e-7 * exact);
    }
    assert_int_equal(bits_of(fy_exp(0.0f)), bits_of(1.0f));
    assert_true(fy_exp(-INFINITY) == 0.0f);
    assert_true(fy_exp(-1000.0f) == 0.0f);
    assert_true(isnan(fy_exp(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_is_set_for_every_mask),
        cmocka_unit_test(no_feature_means_the_scalar_specification),
        cmocka_unit_test(only_types_with_a_matmul_have_one),
        cmocka_unit_test(only_block_types_want_quantized_activations),
        cmocka_unit_test(f16_narrowing_rounds_ties_to_even_and_overflows_from_65520),
        cmocka_unit_test(f16_widening_and_narrowing_is_the_identity),
        cmocka_unit_test(bf16_narrowing_rounds_ties_to_even_and_keeps_nan),
        cmocka_unit_test(exp_is_near_libm_and_handles_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
