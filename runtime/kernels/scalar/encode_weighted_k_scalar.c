/* The file encoders of the K types under an importance matrix, with the bytes of ggml's
 * quantize_row_{q4,q5,q6}_K_impl built without fused multiply-add. Unlike the reference they also
 * search for the scales of the scales. Every sum is one chain in the order of the elements. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/encode_k_scalar.h"
#include "kernels/scalar/quants_scalar.h"
#include "kernels/scalar/weighted_scalar.h"

/* --- q6_K ------------------------------------------------------------------------------------- */

enum { GROUP = FY_Q6_K_GROUP, GROUPS = FY_QK_K / GROUP };

static void q6_block(fy_block_q6_k *y, const float *x, const float *importance)
{
    int8_t q[FY_QK_K];
    float scales[GROUPS], largest = 0.0f;
    for (int g = 0; g < GROUPS; g++) {
        const int at = g * GROUP;
        scales[g] = fy_weighted_scale(q + at, x + at, importance + at, GROUP, 32);
        largest = fabsf(scales[g]) > fabsf(largest) ? scales[g] : largest;
    }
    if (fabsf(largest) < FY_Q6_K_NOTHING) {
        memset(y, 0, sizeof *y);
        return;
    }
    const float inverse = -128.0f / largest;
    y->d = fy_f32_to_f16(1.0f / inverse);
    for (int g = 0; g < GROUPS; g++) {
        y->scales[g] = (int8_t)fy_k_nearest_between(inverse * scales[g], -128, 127);
        const float d = fy_f16_to_f32(y->d) * (float)y->scales[g];
        for (int i = g * GROUP; d != 0.0f && i < (g + 1) * GROUP; i++)
            q[i] = (int8_t)fy_k_nearest_between(x[i] / d, -32, 31);
    }
    fy_q6_k_pack(y, q);
}

void fy_encode_weighted_q6_k__scalar(fy_block_q6_k *y, const float *x, int64_t n,
                                     const float *importance)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        q6_block(y + b, x + b * FY_QK_K, importance + b * FY_QK_K);
}

/* --- q4_K, q5_K ------------------------------------------------------------------------------- */

enum { SUBS = FY_QK_K / FY_QK };

typedef struct {
    float xq, qq;
} q_sums;

/* A scale that the search gives can be below zero, where hardly an element has a weight. ggml keeps
 * its negative quant in a byte and takes it as an int only in places; so must this. */

static float p_error(const float *x, const float *weights, float inverse, const int q[SUBS])
{
    const float scale = 1.0f / inverse;
    float error = 0.0f;
    for (int i = 0; i < SUBS; i++) {
        const float diff = x[i] - scale * (float)q[i];
        error += weights[i] * diff * diff;
    }
    return error;
}

static void p_quants(int q[SUBS], const float *x, float inverse, int top)
{
    for (int i = 0; i < SUBS; i++) {
        q[i] = fy_k_nearest(inverse * x[i]);
        q[i] = q[i] < top ? q[i] : top;
    }
}

/* One pass of moving single quants where the others' best scale wants them; false when none moves.
 */
static bool p_improve(uint8_t q[SUBS], q_sums *s, const float *x, const float *weights, int top)
{
    bool moved = false;
    for (int i = 0; i < SUBS; i++) {
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

/* ggml's make_qp_quants for the eight scales or minimums. */
static float p_search(uint8_t stored[SUBS], const float *x, const float *weights, int top)
{
    int q[SUBS];
    float max = 0.0f;
    for (int i = 0; i < SUBS; i++)
        max = max > x[i] ? max : x[i];
    memset(stored, 0, SUBS);
    if (max < FY_Q6_K_NOTHING)
        return 0.0f;
    float inverse = (float)top / max;
    for (int i = 0; i < SUBS; i++)
        q[i] = (uint8_t)fy_k_nearest(inverse * x[i]);
    float least = p_error(x, weights, inverse, q);
    for (int step = -4; step <= 4; step++) {
        const float candidate = (0.1f * (float)step + (float)top) / max;
        p_quants(q, x, candidate, top);
        const float error = p_error(x, weights, candidate, q);
        if (step != 0 && error < least) {
            least = error;
            inverse = candidate;
        }
    }
    p_quants(q, x, inverse, top);
    q_sums s = {0.0f, 0.0f};
    for (int i = 0; i < SUBS; i++) {
        stored[i] = (uint8_t)q[i];
        s.xq += weights[i] * x[i] * (float)q[i];
        s.qq += weights[i] * (float)q[i] * (float)q[i];
    }
    for (int pass = 0; pass < 5 && p_improve(stored, &s, x, weights, top); pass++)
        continue;
    return s.qq > 0.0f ? s.xq / s.qq : 0.0f;
}

/* The eight scales and minimums in six bits each. */
static void k_put_scales(uint8_t p[FY_K_SCALE_BYTES], const uint8_t scales[SUBS],
                         const uint8_t mins[SUBS])
{
    for (int s = 0; s < 4; s++) {
        p[s] = (uint8_t)(scales[s] | scales[s + 4] >> 4 << 6);
        p[s + 4] = (uint8_t)(mins[s] | mins[s + 4] >> 4 << 6);
        p[s + 8] = (uint8_t)((scales[s + 4] & 15) | (mins[s + 4] & 15) << 4);
    }
}

typedef struct {
    uint16_t d, dmin;
    uint8_t scales[FY_K_SCALE_BYTES];
    uint8_t q[FY_QK_K];
} k_block;

/* f16 scales and minimums are in y; the quants they give, but where they give none those of the
 * search stay. */
static void k_finish(k_block *y, int top, const float *x)
{
    for (int s = 0; s < SUBS; s++) {
        fy_quants w;
        fy_k_scale_min(&w, y->d, y->dmin, y->scales, s);
        for (int i = s * FY_QK; w.d != 0.0f && i < (s + 1) * FY_QK; i++)
            y->q[i] = (uint8_t)fy_k_nearest_between((x[i] - w.m) / w.d, 0, top);
    }
}

static void k_encode_weighted(k_block *y, int top, const float *x, const float *importance)
{
    float weights[FY_QK_K], scales[SUBS], mins[SUBS], sums[SUBS] = {0}, squares = 0.0f;
    for (int i = 0; i < FY_QK_K; i++)
        squares += x[i] * x[i];
    const float mean = 2.0f * squares / (float)FY_QK_K;
    for (int i = 0; i < FY_QK_K; i++) {
        weights[i] = importance[i] * sqrtf(mean + x[i] * x[i]);
        sums[i / FY_QK] += weights[i];
    }
    for (int s = 0; s < SUBS; s++) {
        const fy_scale_min f = fy_weighted_scale_min(top, x + s * FY_QK, weights + s * FY_QK);
        memcpy(y->q + s * FY_QK, f.q, sizeof f.q);
        scales[s] = f.scale;
        mins[s] = -f.min;
    }
    uint8_t ls[SUBS], lm[SUBS];
    y->d = fy_f32_to_f16(p_search(ls, scales, sums, 63));
    y->dmin = fy_f32_to_f16(p_search(lm, mins, sums, 63));
    for (int s = 0; s < SUBS && top == 31; s++) { /* not so in ggml's q4_K */
        ls[s] = ls[s] < 63 ? ls[s] : 63;
        lm[s] = lm[s] < 63 ? lm[s] : 63;
    }
    k_put_scales(y->scales, ls, lm);
    k_finish(y, top, x);
}

/* The low four bits: the even sub-block of a pair in the low nibbles, the odd one in the high. */
static void k_put_nibbles(uint8_t qs[FY_QK_K / 2], const uint8_t q[FY_QK_K])
{
    for (int i = 0; i < FY_QK_K / 2; i++) {
        const int even = i / FY_QK * 2 * FY_QK + i % FY_QK;
        qs[i] = (uint8_t)((q[even] & 15) | (q[even + FY_QK] & 15) << 4);
    }
}

static void put_q4_k(fy_block_q4_k *y, const k_block *k)
{
    y->d = k->d;
    y->dmin = k->dmin;
    memcpy(y->scales, k->scales, sizeof k->scales);
    k_put_nibbles(y->qs, k->q);
}

static void put_q5_k(fy_block_q5_k *y, const k_block *k)
{
    y->d = k->d;
    y->dmin = k->dmin;
    memcpy(y->scales, k->scales, sizeof k->scales);
    k_put_nibbles(y->qs, k->q);
    memset(y->qh, 0, sizeof y->qh);
    for (int i = 0; i < FY_QK_K; i++)
        y->qh[i % FY_QK] = (uint8_t)(y->qh[i % FY_QK] | k->q[i] >> 4 << i / FY_QK);
}

void fy_encode_weighted_q4_k__scalar(fy_block_q4_k *y, const float *x, int64_t n,
                                     const float *importance)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++) {
        k_block k;
        k_encode_weighted(&k, 15, x + b * FY_QK_K, importance + b * FY_QK_K);
        put_q4_k(y + b, &k);
    }
}

void fy_encode_weighted_q5_k__scalar(fy_block_q5_k *y, const float *x, int64_t n,
                                     const float *importance)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++) {
        k_block k;
        k_encode_weighted(&k, 31, x + b * FY_QK_K, importance + b * FY_QK_K);
        put_q5_k(y + b, &k);
    }
}
