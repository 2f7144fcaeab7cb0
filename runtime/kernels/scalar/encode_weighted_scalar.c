/* The file encoders of the types of 32 elements under an importance matrix, with the bytes of
 * ggml's quantize_row_{q4_0,q4_1,q5_0,q5_1}_impl built without fused multiply-add. A value's weight
 * is its importance times sqrt(mean square of its row + its square); the searches are those of the
 * K types. The codes stored are those of the scale before it is rounded to f16. Every sum is one
 * chain in the order of the elements; no input reaches an undefined conversion. */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/encode_k_scalar.h"
#include "kernels/scalar/quants_scalar.h"

static void weigh(float weights[FY_QK], const float *x, const float *importance, float mean_square)
{
    for (int i = 0; i < FY_QK; i++)
        weights[i] = importance[i] * sqrtf(mean_square + x[i] * x[i]);
}

/* Codes around `zero`; gives the scale. */
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

/* --- K types --------------------------------------------------------------------------------- */

/* The file encoders of the K types under an importance matrix, with the bytes of ggml's
 * quantize_row_{q4,q5,q6}_K_impl built without fused multiply-add. Unlike the reference they also
 * search for the scales of the scales. Every sum is one chain in the order of the elements. */

/* --- q6_K ------------------------------------------------------------------------------------ */

static void q6_block(fy_block_q6_k *y, const float *x, const float *importance)
{
    int8_t q[FY_QK_K];
    float scales[FY_Q6_K_GROUPS];
    for (int g = 0; g < FY_Q6_K_GROUPS; g++) {
        const int at = g * FY_Q6_K_GROUP;
        scales[g] = fy_search_scale(q + at, x + at, importance + at, FY_Q6_K_GROUP, 32);
    }
    fy_q6_k_finish(y, q, scales, x);
}

void fy_encode_weighted_q6_k__scalar(fy_block_q6_k *y, const float *x, int64_t n,
                                     const float *importance)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        q6_block(y + b, x + b * FY_QK_K, importance + b * FY_QK_K);
}

/* --- q4_K, q5_K ------------------------------------------------------------------------------ */

enum { SUBS = FY_K_SUBS };

typedef struct {
    float xq, qq;
} q_sums;

/* A scale that the search gives can be below zero, where hardly an element has a weight. ggml keeps
 * its negative code in a byte and takes it as an int only in places; so must this. */

static float p_error(const float *x, const float *weights, float inverse, const int *q, int n)
{
    const float scale = 1.0f / inverse;
    float error = 0.0f;
    for (int i = 0; i < n; i++) {
        const float diff = x[i] - scale * (float)q[i];
        error += weights[i] * diff * diff;
    }
    return error;
}

static void p_quants(int *q, const float *x, float inverse, int n, int top)
{
    for (int i = 0; i < n; i++) {
        q[i] = fy_k_nearest(inverse * x[i]);
        q[i] = q[i] < top ? q[i] : top;
    }
}

/* One pass of moving single codes where the others' best scale wants them; false when none moves.
 */
static bool p_improve(uint8_t *q, q_sums *s, const float *x, const float *weights, int n, int top)
{
    bool moved = false;
    for (int i = 0; i < n; i++) {
        float xq = s->xq - weights[i] * x[i] * (float)q[i];
        float qq = s->qq - weights[i] * (float)q[i] * (float)q[i];
        if (!(xq > 0.0f && qq > 0.0f))
            continue;
        int to = fy_k_nearest(x[i] * qq / xq);
        to = to < top ? to : top;
        xq += weights[i] * x[i] * (float)to;
        qq += weights[i] * (float)to * (float)to;
        if (to != q[i] && xq * xq * s->qq > s->xq * s->xq * qq) {
            q[i] = (uint8_t)to;
            *s = (q_sums){xq, qq};
            moved = true;
        }
    }
    return moved;
}

float fy_search_positive(uint8_t *stored, const float *x, const float *weights, int n, int top)
{
    int q[16];
    assert(n <= 16);
    float max = 0.0f;
    for (int i = 0; i < n; i++)
        max = max > x[i] ? max : x[i];
    for (int i = 0; i < n; i++)
        stored[i] = 0;
    if (max < FY_Q6_K_NOTHING)
        return 0.0f;
    float inverse = (float)top / max;
    for (int i = 0; i < n; i++)
        q[i] = (uint8_t)fy_k_nearest(inverse * x[i]);
    float least = p_error(x, weights, inverse, q, n);
    for (int step = -4; step <= 4; step++) {
        const float candidate = (0.1f * (float)step + (float)top) / max;
        p_quants(q, x, candidate, n, top);
        const float error = p_error(x, weights, candidate, q, n);
        if (step != 0 && error < least) {
            least = error;
            inverse = candidate;
        }
    }
    p_quants(q, x, inverse, n, top);
    q_sums s = {0.0f, 0.0f};
    for (int i = 0; i < n; i++) {
        stored[i] = (uint8_t)q[i];
        s.xq += weights[i] * x[i] * (float)q[i];
        s.qq += weights[i] * (float)q[i] * (float)q[i];
    }
    for (int pass = 0; pass < 5 && p_improve(stored, &s, x, weights, n, top); pass++)
        continue;
    return s.qq > 0.0f ? s.xq / s.qq : 0.0f;
}

fy_k_scales fy_weighted_scales(int top, const float scales[SUBS], const float mins[SUBS],
                               const float sums[SUBS])
{
    uint8_t ls[SUBS], lm[SUBS];
    fy_k_scales k;
    k.d = fy_f32_to_f16(fy_search_positive(ls, scales, sums, SUBS, 63));
    k.dmin = fy_f32_to_f16(fy_search_positive(lm, mins, sums, SUBS, 63));
    for (int s = 0; s < SUBS && top == 31; s++) { /* not so in ggml's q4_K */
        ls[s] = ls[s] < 63 ? ls[s] : 63;
        lm[s] = lm[s] < 63 ? lm[s] : 63;
    }
    fy_k_put_scales(k.packed, ls, lm);
    for (int s = 0; s < SUBS; s++) { /* of what was stored: six bits of eight */
        fy_quants w;
        fy_k_scale_min(&w, k.d, k.dmin, k.packed, s);
        k.step[s] = w.d;
        k.min[s] = -w.m;
    }
    return k;
}

static fy_k_scales k_encode(uint8_t q[FY_QK_K], int top, const float *x, const float *importance)
{
    const fy_k_search how = fy_weighted_search(top);
    float weights[FY_QK_K], scales[SUBS], mins[SUBS], sums[SUBS] = {0}, squares = 0.0f;
    for (int i = 0; i < FY_QK_K; i++)
        squares += x[i] * x[i];
    const float mean = 2.0f * squares / (float)FY_QK_K;
    for (int i = 0; i < FY_QK_K; i++) {
        weights[i] = importance[i] * sqrtf(mean + x[i] * x[i]);
        sums[i / FY_QK] += weights[i];
    }
    for (int s = 0; s < SUBS; s++) {
        const fy_scale_min f = fy_search_scale_min(&how, x + s * FY_QK, weights + s * FY_QK);
        memcpy(q + s * FY_QK, f.q, sizeof f.q);
        scales[s] = f.scale;
        mins[s] = -f.min;
    }
    const fy_k_scales k = fy_weighted_scales(top, scales, mins, sums);
    fy_k_requant(q, &k, top, x);
    return k;
}

#define DEFINE_ENCODE_WEIGHTED_K(type, top)                                                    \
    void fy_encode_weighted_##type##__scalar(fy_block_##type *y, const float *x, int64_t n,    \
                                             const float *importance)                          \
    {                                                                                          \
        for (int64_t b = 0; b < n / FY_QK_K; b++) {                                            \
            uint8_t q[FY_QK_K];                                                                \
            const fy_k_scales k = k_encode(q, top, x + b * FY_QK_K, importance + b * FY_QK_K); \
            fy_##type##_pack(y + b, &k, q);                                                    \
        }                                                                                      \
    }

DEFINE_ENCODE_WEIGHTED_K(q4_k, 15)
DEFINE_ENCODE_WEIGHTED_K(q5_k, 31)
