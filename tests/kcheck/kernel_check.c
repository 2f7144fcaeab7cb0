#include "tests/kcheck/kernel_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A type that is only read. */
#define READ_ONLY(id, name)                                                                     \
    {"matmul_" #name, id, true, "equals the specification", fy_kc_matmul_equals_spec},          \
        {"matmul_" #name, id, false, "is near the product in double", fy_kc_matmul_block_near}, \
        {"matmul_" #name, id, false, "gives the same bits for every batch and row range",       \
         fy_kc_matmul_any_shape},                                                               \
    {                                                                                           \
        "decode_" #name, id, false, "is exact for every scale", fy_kc_decode_exact              \
    }

const fy_kc_property fy_kc_properties[] = {
    {"act_quantize", 0, true, "equals the specification", fy_kc_act_equals_spec},
    {"act_quantize", 0, false, "is within half a step and sums exactly", fy_kc_act_half_step},
    {"act_quantize", 0, false, "takes NaN and infinity", fy_kc_act_not_finite},
    {"matmul_f32", FY_F32, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_f32", FY_F32, false, "is near the product in double", fy_kc_matmul_float_near},
    {"matmul_f32", FY_F32, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"matmul_f16", FY_F16, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_f16", FY_F16, false, "is near the product in double", fy_kc_matmul_float_near},
    {"matmul_f16", FY_F16, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"matmul_bf16", FY_BF16, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_bf16", FY_BF16, false, "is near the product in double", fy_kc_matmul_float_near},
    {"matmul_bf16", FY_BF16, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"matmul_q8_0", FY_Q8_0, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_q8_0", FY_Q8_0, false, "is near the product in double", fy_kc_matmul_block_near},
    {"matmul_q8_0", FY_Q8_0, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"matmul_q4_0", FY_Q4_0, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_q4_0", FY_Q4_0, false, "is near the product in double", fy_kc_matmul_block_near},
    {"matmul_q4_0", FY_Q4_0, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"matmul_q4_1", FY_Q4_1, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_q4_1", FY_Q4_1, false, "is near the product in double", fy_kc_matmul_block_near},
    {"matmul_q4_1", FY_Q4_1, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"matmul_q5_0", FY_Q5_0, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_q5_0", FY_Q5_0, false, "is near the product in double", fy_kc_matmul_block_near},
    {"matmul_q5_0", FY_Q5_0, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"matmul_q5_1", FY_Q5_1, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_q5_1", FY_Q5_1, false, "is near the product in double", fy_kc_matmul_block_near},
    {"matmul_q5_1", FY_Q5_1, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"matmul_q4_k", FY_Q4_K, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_q4_k", FY_Q4_K, false, "is near the product in double", fy_kc_matmul_block_near},
    {"matmul_q4_k", FY_Q4_K, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"matmul_q5_k", FY_Q5_K, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_q5_k", FY_Q5_K, false, "is near the product in double", fy_kc_matmul_block_near},
    {"matmul_q5_k", FY_Q5_K, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"matmul_q6_k", FY_Q6_K, true, "equals the specification", fy_kc_matmul_equals_spec},
    {"matmul_q6_k", FY_Q6_K, false, "is near the product in double", fy_kc_matmul_block_near},
    {"matmul_q6_k", FY_Q6_K, false, "gives the same bits for every batch and row range",
     fy_kc_matmul_any_shape},
    {"dot_rows_q8_0", FY_Q8_0, true, "equals the matmul, row by row", fy_kc_dot_rows_equal_matmul},
    {"dot_rows_q4_0", FY_Q4_0, true, "equals the matmul, row by row", fy_kc_dot_rows_equal_matmul},
    {"add_rows_f16", FY_F16, true, "equals the specification", fy_kc_add_rows_equal_spec},
    {"add_rows_f16", FY_F16, false, "is near the sum in double", fy_kc_add_rows_near},
    {"add_rows_q8_0", FY_Q8_0, true, "equals the specification", fy_kc_add_rows_equal_spec},
    {"add_rows_q8_0", FY_Q8_0, false, "is near the sum in double", fy_kc_add_rows_near},
    {"add_rows_q4_0", FY_Q4_0, true, "equals the specification", fy_kc_add_rows_equal_spec},
    {"add_rows_q4_0", FY_Q4_0, false, "is near the sum in double", fy_kc_add_rows_near},
    {"add_tile", 0, true, "equals the specification", fy_kc_add_tile_equals_spec},
    {"add_tile", 0, false, "is near the sum in double", fy_kc_add_tile_near},
    {"attend_dots_f32", FY_F32, true, "equals the specification", fy_kc_attend_dots_equal_spec},
    {"attend_dots_f32", FY_F32, false, "is near the product in double", fy_kc_attend_dots_near},
    {"attend_dots_f32", FY_F32, false, "gives each query and key the same bits alone",
     fy_kc_attend_dots_alone},
    {"attend_dots_f16", FY_F16, true, "equals the specification", fy_kc_attend_dots_equal_spec},
    {"attend_dots_f16", FY_F16, false, "is near the product in double", fy_kc_attend_dots_near},
    {"attend_dots_f16", FY_F16, false, "gives each query and key the same bits alone",
     fy_kc_attend_dots_alone},
    {"attend_softmax", 0, true, "equals the specification", fy_kc_attend_softmax_equals_spec},
    {"attend_softmax", 0, false, "is near softmax in double", fy_kc_attend_softmax_near},
    {"attend_add_f32", FY_F32, true, "equals the specification", fy_kc_attend_add_equals_spec},
    {"attend_add_f32", FY_F32, false, "is near the sum in double", fy_kc_attend_add_near},
    {"attend_add_f32", FY_F32, false, "gives each query the same bits alone and in parts",
     fy_kc_attend_add_alone},
    {"attend_add_f16", FY_F16, true, "equals the specification", fy_kc_attend_add_equals_spec},
    {"attend_add_f16", FY_F16, false, "is near the sum in double", fy_kc_attend_add_near},
    {"attend_add_f16", FY_F16, false, "gives each query the same bits alone and in parts",
     fy_kc_attend_add_alone},
    {"attend_add_q8_0", FY_Q8_0, true, "equals the specification", fy_kc_attend_add_equals_spec},
    {"attend_add_q8_0", FY_Q8_0, false, "is near the sum in double", fy_kc_attend_add_near},
    {"attend_add_q8_0", FY_Q8_0, false, "gives each query the same bits alone and in parts",
     fy_kc_attend_add_alone},
    {"rms_norm", 0, true, "equals the specification", fy_kc_rms_norm_equals_spec},
    {"rms_norm", 0, false, "is near the norm in double", fy_kc_rms_norm_near},
    {"rms_norm", 0, false, "gives the same bits in place", fy_kc_rms_norm_in_place},
    {"silu_mul", 0, true, "equals the specification", fy_kc_silu_equals_spec},
    {"silu_mul", 0, false, "is near silu in double", fy_kc_silu_near},
    {"layer_norm", 0, true, "equals the specification", fy_kc_layer_norm_equals_spec},
    {"layer_norm", 0, false, "is near the norm in double", fy_kc_layer_norm_near},
    {"layer_norm", 0, false, "gives the same bits in place", fy_kc_layer_norm_in_place},
    {"gelu_mul", 0, true, "equals the specification", fy_kc_gelu_equals_spec},
    {"gelu_mul", 0, false, "is near gelu in double", fy_kc_gelu_near},
    {"gelu_tanh_mul", 0, true, "equals the specification", fy_kc_gelu_tanh_equals_spec},
    {"gelu_tanh_mul", 0, false, "is near gelu in double", fy_kc_gelu_tanh_near},
    {"relu_mul", 0, true, "equals the specification", fy_kc_relu_equals_spec},
    {"relu_mul", 0, false, "keeps what is above the threshold", fy_kc_relu_near},
    {"drelu_mul", 0, true, "equals the specification", fy_kc_drelu_equals_spec},
    {"drelu_mul", 0, false, "keeps what is positive on both sides", fy_kc_drelu_near},
    {"swiglu_oai_mul", 0, true, "equals the specification", fy_kc_swiglu_oai_equals_spec},
    {"swiglu_oai_mul", 0, false, "is near its formula in double", fy_kc_swiglu_oai_near},
    {"softcap", 0, true, "equals the specification", fy_kc_softcap_equals_spec},
    {"softcap", 0, false, "is near tanh in double", fy_kc_softcap_near},
    {"error_sums", 0, true, "equals the specification", fy_kc_error_equals_spec},
    {"error_sums", 0, false, "is near the sums in long double", fy_kc_error_near},
    {"f16_to_f32", FY_F16, true, "equals the specification", fy_kc_half_equals_spec},
    {"f16_to_f32", FY_F16, false, "widens all 65536 values exactly", fy_kc_widen_exact},
    {"f16_to_f32", FY_F16, false, "does every length alike", fy_kc_half_lengths},
    {"f32_to_f16", FY_F16, true, "equals the specification", fy_kc_half_equals_spec},
    {"f32_to_f16", FY_F16, false, "rounds to the nearest, ties to even", fy_kc_narrow_nearest},
    {"f32_to_f16", FY_F16, false, "does every length alike", fy_kc_half_lengths},
    {"bf16_to_f32", FY_BF16, true, "equals the specification", fy_kc_half_equals_spec},
    {"bf16_to_f32", FY_BF16, false, "widens all 65536 values exactly", fy_kc_widen_exact},
    {"bf16_to_f32", FY_BF16, false, "does every length alike", fy_kc_half_lengths},
    {"f32_to_bf16", FY_BF16, true, "equals the specification", fy_kc_half_equals_spec},
    {"f32_to_bf16", FY_BF16, false, "rounds to the nearest, ties to even", fy_kc_narrow_nearest},
    {"f32_to_bf16", FY_BF16, false, "does every length alike", fy_kc_half_lengths},
    {"encode_q8_0", FY_Q8_0, true, "equals the specification", fy_kc_encode_equals_spec},
    {"encode_q8_0", FY_Q8_0, false, "decodes to within its step", fy_kc_encode_near},
    {"encode_q8_0", FY_Q8_0, false, "takes NaN and infinity", fy_kc_encode_not_finite},
    {"encode_q4_0", FY_Q4_0, true, "equals the specification", fy_kc_encode_equals_spec},
    {"encode_q4_0", FY_Q4_0, false, "decodes to within its step", fy_kc_encode_near},
    {"encode_q4_0", FY_Q4_0, false, "takes NaN and infinity", fy_kc_encode_not_finite},
    {"encode_q4_1", FY_Q4_1, true, "equals the specification", fy_kc_encode_equals_spec},
    {"encode_q4_1", FY_Q4_1, false, "decodes to within its step", fy_kc_encode_near},
    {"encode_q4_1", FY_Q4_1, false, "takes NaN and infinity", fy_kc_encode_not_finite},
    {"encode_q5_0", FY_Q5_0, true, "equals the specification", fy_kc_encode_equals_spec},
    {"encode_q5_0", FY_Q5_0, false, "decodes to within its step", fy_kc_encode_near},
    {"encode_q5_0", FY_Q5_0, false, "takes NaN and infinity", fy_kc_encode_not_finite},
    {"encode_q5_1", FY_Q5_1, true, "equals the specification", fy_kc_encode_equals_spec},
    {"encode_q5_1", FY_Q5_1, false, "decodes to within its step", fy_kc_encode_near},
    {"encode_q5_1", FY_Q5_1, false, "takes NaN and infinity", fy_kc_encode_not_finite},
    {"encode_q4_k", FY_Q4_K, true, "equals the specification", fy_kc_encode_equals_spec},
    {"encode_q4_k", FY_Q4_K, false, "decodes to within its step", fy_kc_encode_near},
    {"encode_q4_k", FY_Q4_K, false, "takes NaN and infinity", fy_kc_encode_not_finite},
    {"encode_q5_k", FY_Q5_K, true, "equals the specification", fy_kc_encode_equals_spec},
    {"encode_q5_k", FY_Q5_K, false, "decodes to within its step", fy_kc_encode_near},
    {"encode_q5_k", FY_Q5_K, false, "takes NaN and infinity", fy_kc_encode_not_finite},
    {"encode_q6_k", FY_Q6_K, true, "equals the specification", fy_kc_encode_equals_spec},
    {"encode_q6_k", FY_Q6_K, false, "decodes to within its step", fy_kc_encode_near},
    {"encode_q6_k", FY_Q6_K, false, "takes NaN and infinity", fy_kc_encode_not_finite},
    {"fit_q8_0", FY_Q8_0, true, "equals the specification", fy_kc_fit_equals_spec},
    {"fit_q8_0", FY_Q8_0, false, "is no worse than the reference", fy_kc_fit_no_worse},
    {"fit_q8_0", FY_Q8_0, false, "takes NaN and infinity", fy_kc_fit_not_finite},
    {"fit_q4_0", FY_Q4_0, true, "equals the specification", fy_kc_fit_equals_spec},
    {"fit_q4_0", FY_Q4_0, false, "is no worse than the reference", fy_kc_fit_no_worse},
    {"fit_q4_0", FY_Q4_0, false, "takes NaN and infinity", fy_kc_fit_not_finite},
    {"fit_q4_1", FY_Q4_1, true, "equals the specification", fy_kc_fit_equals_spec},
    {"fit_q4_1", FY_Q4_1, false, "is no worse than the reference", fy_kc_fit_no_worse},
    {"fit_q4_1", FY_Q4_1, false, "takes NaN and infinity", fy_kc_fit_not_finite},
    {"fit_q5_0", FY_Q5_0, true, "equals the specification", fy_kc_fit_equals_spec},
    {"fit_q5_0", FY_Q5_0, false, "is no worse than the reference", fy_kc_fit_no_worse},
    {"fit_q5_0", FY_Q5_0, false, "takes NaN and infinity", fy_kc_fit_not_finite},
    {"fit_q5_1", FY_Q5_1, true, "equals the specification", fy_kc_fit_equals_spec},
    {"fit_q5_1", FY_Q5_1, false, "is no worse than the reference", fy_kc_fit_no_worse},
    {"fit_q5_1", FY_Q5_1, false, "takes NaN and infinity", fy_kc_fit_not_finite},
    {"encode_weighted_q4_0", FY_Q4_0, true, "equals the specification", fy_kc_weighted_equals_spec},
    {"encode_weighted_q4_0", FY_Q4_0, false, "takes NaN and infinity", fy_kc_weighted_not_finite},
    {"encode_weighted_q4_1", FY_Q4_1, true, "equals the specification", fy_kc_weighted_equals_spec},
    {"encode_weighted_q4_1", FY_Q4_1, false, "takes NaN and infinity", fy_kc_weighted_not_finite},
    {"encode_weighted_q5_0", FY_Q5_0, true, "equals the specification", fy_kc_weighted_equals_spec},
    {"encode_weighted_q5_0", FY_Q5_0, false, "takes NaN and infinity", fy_kc_weighted_not_finite},
    {"encode_weighted_q5_1", FY_Q5_1, true, "equals the specification", fy_kc_weighted_equals_spec},
    {"encode_weighted_q5_1", FY_Q5_1, false, "takes NaN and infinity", fy_kc_weighted_not_finite},
    {"encode_weighted_q4_k", FY_Q4_K, true, "equals the specification", fy_kc_weighted_equals_spec},
    {"encode_weighted_q4_k", FY_Q4_K, false, "takes NaN and infinity", fy_kc_weighted_not_finite},
    {"encode_weighted_q5_k", FY_Q5_K, true, "equals the specification", fy_kc_weighted_equals_spec},
    {"encode_weighted_q5_k", FY_Q5_K, false, "takes NaN and infinity", fy_kc_weighted_not_finite},
    {"encode_weighted_q6_k", FY_Q6_K, true, "equals the specification", fy_kc_weighted_equals_spec},
    {"encode_weighted_q6_k", FY_Q6_K, false, "takes NaN and infinity", fy_kc_weighted_not_finite},
    {"decode_q8_0", FY_Q8_0, false, "is exact for every scale", fy_kc_decode_exact},
    {"decode_q4_0", FY_Q4_0, false, "is exact for every scale", fy_kc_decode_exact},
    {"decode_q4_1", FY_Q4_1, false, "is exact for every scale", fy_kc_decode_exact},
    {"decode_q5_0", FY_Q5_0, false, "is exact for every scale", fy_kc_decode_exact},
    {"decode_q5_1", FY_Q5_1, false, "is exact for every scale", fy_kc_decode_exact},
    {"decode_q4_k", FY_Q4_K, false, "is exact for every scale", fy_kc_decode_exact},
    {"decode_q5_k", FY_Q5_K, false, "is exact for every scale", fy_kc_decode_exact},
    {"decode_q6_k", FY_Q6_K, false, "is exact for every scale", fy_kc_decode_exact},
    READ_ONLY(FY_Q2_K, q2_k),
    READ_ONLY(FY_Q3_K, q3_k),
    READ_ONLY(FY_IQ4_NL, iq4_nl),
    READ_ONLY(FY_IQ4_XS, iq4_xs),
    READ_ONLY(FY_MXFP4, mxfp4),
    READ_ONLY(FY_NVFP4, nvfp4),
    READ_ONLY(FY_Q1_0, q1_0),
    READ_ONLY(FY_Q2_0, q2_0),
    READ_ONLY(FY_TQ1_0, tq1_0),
    READ_ONLY(FY_TQ2_0, tq2_0),
    READ_ONLY(FY_IQ1_S, iq1_s),
    READ_ONLY(FY_IQ1_M, iq1_m),
    READ_ONLY(FY_IQ2_XXS, iq2_xxs),
    READ_ONLY(FY_IQ2_XS, iq2_xs),
    READ_ONLY(FY_IQ2_S, iq2_s),
    READ_ONLY(FY_IQ3_XXS, iq3_xxs),
    READ_ONLY(FY_IQ3_S, iq3_s),
};
const int fy_kc_n_properties = sizeof fy_kc_properties / sizeof fy_kc_properties[0];

uint64_t fy_kc_next(fy_kc_random *r) /* splitmix64 */
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

int fy_kc_between(fy_kc_random *r, int low, int high)
{
    return low + (int)(fy_kc_next(r) % (uint64_t)(high - low + 1));
}

float fy_kc_uniform(fy_kc_random *r)
{
    return (float)(fy_kc_next(r) >> 40) * 0x1p-23f - 1.0f;
}

float fy_kc_normal(fy_kc_random *r)
{
    float sum = 0.0f;
    for (int i = 0; i < 3; i++)
        sum += fy_kc_uniform(r);
    return sum;
}

bool fy_kc_fail(fy_kc_case *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(t->why, sizeof t->why, fmt, args);
    va_end(args);
    return false;
}

bool fy_kc_same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

bool fy_kc_same_all(fy_kc_case *t, const char *what, const float *got, const float *expected,
                    int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!fy_kc_same(got[i], expected[i]))
            return fy_kc_fail(t, "%s[%d] of %d is %.9g, expected %.9g", what, (int)i, (int)n,
                              (double)got[i], (double)expected[i]);
    }
    return true;
}

/* --- running ---------------------------------------------------------------------------------- */

bool fy_kc_is_asked(const fy_kernel_row *row, const fy_kc_property *p)
{
    return strcmp(p->op, row->op) == 0 && !(p->against_spec && strcmp(row->isa, "scalar") == 0);
}

fy_kc_case fy_kc_case_of(const fy_kernel_row *row, const fy_kc_property *p, uint64_t seed)
{
    fy_kc_case t = {
        .k = fy_kernels_for(0), .spec = fy_kernels_for(0), .type = p->type, .random = {seed}};
    fy_kernel_install(&t.k, row);
    return t;
}

void *fy_kc_place(fy_kc_case *t, fy_kc_slot slot, size_t n_bytes)
{
    return t->place(slot, n_bytes, t->user);
}

void *fy_kc_place_copy(fy_kc_case *t, fy_kc_slot slot, const void *from, size_t n_bytes)
{
    void *p = fy_kc_place(t, slot, n_bytes);
    if (n_bytes > 0)
        memcpy(p, from, n_bytes);
    return p;
}

bool fy_kc_has_spec_property(const char *op)
{
    for (int i = 0; i < fy_kc_n_properties; i++) {
        if (fy_kc_properties[i].against_spec && strcmp(fy_kc_properties[i].op, op) == 0)
            return true;
    }
    return false;
}
