/* The file encoders of the types of 32 elements under an importance matrix, with the bytes of
 * ggml's quantize_row_{q4_0,q4_1,q5_0,q5_1}_impl built without fused multiply-add. A value's weight
 * is its importance times sqrt(mean square of its row + its square); the searches are those of the
 * K types. The quants stored are those of the scale before it is rounded to f16. Every sum is one
 * chain in the order of the elements; no input reaches an undefined conversion. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/encode_k_scalar.h"
#include "kernels/scalar/encode_scalar.h"
#include "kernels/scalar/search_scalar.h"

static void weigh(float weights[FY_QK], const float *x, const float *importance, float mean_square)
{
    for (int i = 0; i < FY_QK; i++)
        weights[i] = importance[i] * sqrtf(mean_square + x[i] * x[i]);
}

/* Quants around `zero`; gives the scale. */
static uint16_t quants_around(int zero, uint8_t q[FY_QK], const float *x, const float *importance,
                              float mean_square)
{
    float weights[FY_QK];
    int8_t from_zero[FY_QK];
    weigh(weights, x, importance, mean_square);
    const float d = fy_search_scale(from_zero, x, weights, FY_QK, zero);
    for (int i = 0; i < FY_QK; i++)
        q[i] = (uint8_t)(from_zero[i] + zero);
    return fy_f32_to_f16(d);
}

void fy_encode_weighted_q4_0__scalar(fy_block_q4_0 *y, const float *x, int64_t n,
                                     const float *importance, float mean_square)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK, importance += FY_QK) {
        uint8_t q[FY_QK];
        y[b].d = quants_around(8, q, x, importance, mean_square);
        fy_put_low_bits(y[b].qs, q);
    }
}

void fy_encode_weighted_q5_0__scalar(fy_block_q5_0 *y, const float *x, int64_t n,
                                     const float *importance, float mean_square)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK, importance += FY_QK) {
        uint8_t q[FY_QK];
        y[b].d = quants_around(16, q, x, importance, mean_square);
        fy_put_low_bits(y[b].qs, q);
        fy_put_high_bits(y[b].qh, q);
    }
}

static fy_scale_min quants_between(int top, const float *x, const float *importance,
                                   float mean_square)
{
    float weights[FY_QK];
    weigh(weights, x, importance, mean_square);
    const fy_k_search how = fy_weighted_search(top);
    return fy_search_scale_min(&how, x, weights);
}

void fy_encode_weighted_q4_1__scalar(fy_block_q4_1 *y, const float *x, int64_t n,
                                     const float *importance, float mean_square)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK, importance += FY_QK) {
        const fy_scale_min f = quants_between(15, x, importance, mean_square);
        y[b].d = fy_f32_to_f16(f.scale);
        y[b].m = fy_f32_to_f16(f.min);
        fy_put_low_bits(y[b].qs, f.q);
    }
}

void fy_encode_weighted_q5_1__scalar(fy_block_q5_1 *y, const float *x, int64_t n,
                                     const float *importance, float mean_square)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK, importance += FY_QK) {
        const fy_scale_min f = quants_between(31, x, importance, mean_square);
        y[b].d = fy_f32_to_f16(f.scale);
        y[b].m = fy_f32_to_f16(f.min);
        fy_put_low_bits(y[b].qs, f.q);
        fy_put_high_bits(y[b].qh, f.q);
    }
}
