/* The file encoders of the K types, with the bytes of ggml's quantize_row_{q4,q5,q6}_K_ref built
 * without fused multiply-add. They search (search_scalar.h): a scale for each group of 16 or 32
 * elements that minimises a weighted squared error over some candidates. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/kernels.h"
#include "kernels/scalar/encode_k_scalar.h"

/* --- q6_K ---------------------------------------------------------------------------------------
 */

enum { GROUP = FY_Q6_K_GROUP };

/* A value's weight is its square. */
static void q6_block(fy_block_q6_k *y, const float *x)
{
    int8_t q[FY_QK_K];
    float scales[FY_Q6_K_GROUPS], squares[FY_QK_K];
    for (int i = 0; i < FY_QK_K; i++)
        squares[i] = x[i] * x[i];
    for (int g = 0; g < FY_Q6_K_GROUPS; g++) {
        const int at = g * GROUP;
        scales[g] = fy_search_scale(q + at, x + at, squares + at, GROUP, 32);
    }
    fy_q6_k_finish(y, q, scales, x);
}

void fy_encode_q6_k__scalar(fy_block_q6_k *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        q6_block(y + b, x + b * FY_QK_K);
}

/* --- q4_K, q5_K ---------------------------------------------------------------------------------
 */

static fy_k_scales k_encode(uint8_t q[FY_QK_K], const fy_k_search *how, const float *x)
{
    float scales[FY_K_SUBS], mins[FY_K_SUBS];
    for (int s = 0; s < FY_K_SUBS; s++) {
        float weights[FY_QK], squares = 0.0f;
        const float *v = x + s * FY_QK;
        for (int i = 0; i < FY_QK; i++)
            squares += v[i] * v[i];
        const float mean = sqrtf(squares / (float)FY_QK);
        for (int i = 0; i < FY_QK; i++)
            weights[i] = mean + fabsf(v[i]);
        const fy_scale_min f = fy_search_scale_min(how, v, weights);
        memcpy(q + s * FY_QK, f.q, sizeof f.q);
        scales[s] = f.scale;
        mins[s] = -f.min;
    }
    const fy_k_scales k = fy_k_round_scales(scales, mins);
    fy_k_requant(q, &k, how->top, x);
    return k;
}

#define DEFINE_ENCODE_K(type)                                                        \
    void fy_encode_##type##__scalar(fy_block_##type *y, const float *x, int64_t n)   \
    {                                                                                \
        for (int64_t b = 0; b < n / FY_QK_K; b++) {                                  \
            uint8_t q[FY_QK_K];                                                      \
            const fy_k_scales k = k_encode(q, &fy_##type##_search, x + b * FY_QK_K); \
            fy_##type##_pack(y + b, &k, q);                                          \
        }                                                                            \
    }

DEFINE_ENCODE_K(q4_k)
DEFINE_ENCODE_K(q5_k)
