/* What the encoders of the K types share. */
#ifndef FY_KERNELS_SCALAR_ENCODE_K_SCALAR_H
#define FY_KERNELS_SCALAR_ENCODE_K_SCALAR_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/scalar/quants_scalar.h"

enum { FY_Q6_K_GROUP = 16, FY_Q6_K_GROUPS = FY_QK_K / FY_Q6_K_GROUP }; /* elements of a scale */

#define FY_Q6_K_NOTHING 1e-15f /* magnitudes below count as 0 */

/* The nearest integer, halves to even, for |v| < 2^22. Beyond, and for what is not finite, what the
 * reference's arithmetic on the bits gives, somewhere within +-2^22. */
static inline int fy_k_nearest(float v)
{
    const float shifted = v + 12582912.0f; /* 1.5 * 2^23: the integer is in the lowest bits */
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return (bits & 0x007fffff) - 0x00400000;
}

static inline int fy_k_nearest_between(float v, int low, int high)
{
    const int q = fy_k_nearest(v);
    return q < low ? low : q > high ? high : q;
}

/* The scales of the groups into the block, and what they stand for there: value step * q. Without
 * any it is a block of zeros, and false. */
static inline bool fy_q6_k_round_scales(fy_block_q6_k *y, float step[FY_Q6_K_GROUPS],
                                        const float scales[FY_Q6_K_GROUPS])
{
    float largest = 0.0f; /* the signed scale of largest magnitude, the first of equals */
    for (int g = 0; g < FY_Q6_K_GROUPS; g++)
        largest = fabsf(scales[g]) > fabsf(largest) ? scales[g] : largest;
    if (fabsf(largest) < FY_Q6_K_NOTHING) {
        memset(y, 0, sizeof *y);
        return false;
    }
    const float inverse = -128.0f / largest;
    y->d = fy_f32_to_f16(1.0f / inverse);
    for (int g = 0; g < FY_Q6_K_GROUPS; g++) {
        y->scales[g] = (int8_t)fy_k_nearest_between(inverse * scales[g], -128, 127);
        step[g] = fy_f16_to_f32(y->d) * (float)y->scales[g];
    }
    return true;
}

/* Codes -32 .. 31 into their places. */
static inline void fy_q6_k_pack(fy_block_q6_k *y, const int8_t q[FY_QK_K])
{
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < FY_QK; i++) {
            uint8_t u[4];
            for (int s = 0; s < 4; s++)
                u[s] = (uint8_t)(q[half * 128 + s * FY_QK + i] + 32);
            y->ql[half * 64 + i] = (uint8_t)((u[0] & 15) | (u[2] & 15) << 4);
            y->ql[half * 64 + FY_QK + i] = (uint8_t)((u[1] & 15) | (u[3] & 15) << 4);
            y->qh[half * FY_QK + i] =
                (uint8_t)(u[0] >> 4 | u[1] >> 4 << 2 | u[2] >> 4 << 4 | u[3] >> 4 << 6);
        }
    }
}

/* A superblock out of what was found for its groups. */
static inline void fy_q6_k_finish(fy_block_q6_k *y, int8_t q[FY_QK_K],
                                  const float scales[FY_Q6_K_GROUPS], const float *x)
{
    float step[FY_Q6_K_GROUPS];
    if (!fy_q6_k_round_scales(y, step, scales))
        return;
    for (int i = 0; i < FY_QK_K; i++) {
        if (step[i / FY_Q6_K_GROUP] != 0.0f)
            q[i] = (int8_t)fy_k_nearest_between(x[i] / step[i / FY_Q6_K_GROUP], -32, 31);
    }
    fy_q6_k_pack(y, q);
}

/* --- q4_K, q5_K ------------------------------------------------------------------------------ */

/* The scales and minimums of a superblock as they go into the file, and what they stand for there:
 * value step * q - min. */
typedef struct {
    uint16_t d, dmin;
    uint8_t packed[FY_K_SCALE_BYTES];
    float step[FY_K_SUBS], min[FY_K_SUBS];
} fy_k_scales;

static inline uint8_t fy_k_six_bits(float v)
{
    const uint8_t q = (uint8_t)fy_k_nearest(v);
    return q < 63 ? q : 63;
}

/* Eight scales and minimums of six bits each into their places. */
static inline void fy_k_put_scales(uint8_t p[FY_K_SCALE_BYTES], const uint8_t scales[FY_K_SUBS],
                                   const uint8_t mins[FY_K_SUBS])
{
    for (int s = 0; s < 4; s++) {
        p[s] = (uint8_t)(scales[s] | scales[s + 4] >> 4 << 6);
        p[s + 4] = (uint8_t)(mins[s] | mins[s + 4] >> 4 << 6);
        p[s + 8] = (uint8_t)((scales[s + 4] & 15) | (mins[s + 4] & 15) << 4);
    }
}

/* mins >= 0 are what is subtracted. */
static inline fy_k_scales fy_k_round_scales(const float scales[FY_K_SUBS],
                                            const float mins[FY_K_SUBS])
{
    float max_scale = 0.0f, max_min = 0.0f;
    for (int s = 0; s < FY_K_SUBS; s++) {
        max_scale = scales[s] > max_scale ? scales[s] : max_scale;
        max_min = mins[s] > max_min ? mins[s] : max_min;
    }
    const float per_scale = max_scale > 0.0f ? 63.0f / max_scale : 0.0f;
    const float per_min = max_min > 0.0f ? 63.0f / max_min : 0.0f;
    fy_k_scales k = {.d = fy_f32_to_f16(max_scale / 63.0f), .dmin = fy_f32_to_f16(max_min / 63.0f)};
    uint8_t ls[FY_K_SUBS], lm[FY_K_SUBS];
    for (int s = 0; s < FY_K_SUBS; s++) {
        ls[s] = fy_k_six_bits(per_scale * scales[s]);
        lm[s] = fy_k_six_bits(per_min * mins[s]);
        k.step[s] = fy_f16_to_f32(k.d) * (float)ls[s];
        k.min[s] = fy_f16_to_f32(k.dmin) * (float)lm[s];
    }
    fy_k_put_scales(k.packed, ls, lm);
    return k;
}

/* The codes of rounded scales; where a step is 0 those of the search stay. */
static inline void fy_k_requant(uint8_t q[FY_QK_K], const fy_k_scales *k, int top, const float *x)
{
    for (int i = 0; i < FY_QK_K; i++) {
        const float d = k->step[i / FY_QK], m = k->min[i / FY_QK];
        if (d != 0.0f)
            q[i] = (uint8_t)fy_k_nearest_between((x[i] + m) / d, 0, top);
    }
}

/* The low four bits: the even sub-block of a pair in the low nibbles, the odd one in the high. */
static inline void fy_k_put_nibbles(uint8_t qs[FY_QK_K / 2], const uint8_t q[FY_QK_K])
{
    for (int pair = 0; pair < FY_K_SUBS / 2; pair++) {
        const uint8_t *even = q + pair * 2 * FY_QK;
        for (int i = 0; i < FY_QK; i++)
            qs[pair * FY_QK + i] = (uint8_t)((even[i] & 15) | (even[FY_QK + i] & 15) << 4);
    }
}

static inline void fy_q4_k_pack(fy_block_q4_k *y, const fy_k_scales *k, const uint8_t q[FY_QK_K])
{
    y->d = k->d;
    y->dmin = k->dmin;
    memcpy(y->scales, k->packed, sizeof k->packed);
    fy_k_put_nibbles(y->qs, q);
}

static inline void fy_q5_k_pack(fy_block_q5_k *y, const fy_k_scales *k, const uint8_t q[FY_QK_K])
{
    y->d = k->d;
    y->dmin = k->dmin;
    memcpy(y->scales, k->packed, sizeof k->packed);
    fy_k_put_nibbles(y->qs, q);
    memset(y->qh, 0, sizeof y->qh);
    for (int s = 0; s < FY_K_SUBS; s++) {
        for (int i = 0; i < FY_QK; i++)
            y->qh[i] = (uint8_t)(y->qh[i] | q[s * FY_QK + i] >> 4 << s);
    }
}

/* --- searches -------------------------------------------------------------------------------- */

/* The searches of the file encoders for a scale, as ggml has them: candidates around what the
 * extremes give, each with the scale that fits its codes best. Every sum is one chain in the order
 * of the elements, every product is taken from left to right and rounded; another order gives other
 * bytes. No input reaches an undefined conversion. */

/* The scale of n values, at most 32, whose codes -zero .. zero - 1 have the least weighted error
 * (make_qx_quants), and these codes, which are of the unrounded scale. */
float fy_search_scale(int8_t *q, const float *x, const float *weights, int n, int zero);

/* How the scale of n values, at most 32, with a minimum is looked for: fy_k_candidate(0 .. steps)
 * over their range. */
typedef struct {
    int n, top; /* top: the largest code */
    float first, width;
    int steps;
    bool bounded;  /* a candidate's code is held between 0 and top before it is rounded, too */
    bool absolute; /* errors count as they are, not squared */
} fy_k_search;

static const fy_k_search
    fy_q4_k_search = {.n = FY_QK, .top = 15, .first = -1.0f, .width = 0.1f, .steps = 20},
    fy_q5_k_search = {.n = FY_QK, .top = 31, .first = -0.5f, .width = 0.1f, .steps = 15};

/* The one under an importance matrix. */
static inline fy_k_search fy_weighted_search(int top)
{
    return (fy_k_search){
        .n = FY_QK, .top = top, .first = -0.9f, .width = 0.05f, .steps = 36, .bounded = true};
}

static inline float fy_k_candidate(const fy_k_search *how, int step)
{
    return how->first + how->width * (float)step + (float)how->top;
}

/* The codes 0 .. top of n scales or minimums, at most 16, of the least weighted error, and what
 * they are times (make_qp_quants). */
float fy_search_positive(uint8_t *stored, const float *x, const float *weights, int n, int top);

/* What a superblock stores of the scales and minimums (those that are subtracted) that were found
 * for it under an importance matrix. sums: of the weights of each sub-block. */
fy_k_scales fy_weighted_scales(int top, const float scales[FY_K_SUBS], const float mins[FY_K_SUBS],
                               const float sums[FY_K_SUBS]);

typedef struct {
    float scale, min; /* value scale * q + min, min <= 0 */
    float error;
    uint8_t q[FY_QK];
} fy_scale_min;

/* The scale and minimum of how->n values whose codes have the least weighted error
 * (make_qkx2_quants; bounded: make_qkx3_quants). */
fy_scale_min fy_search_scale_min(const fy_k_search *how, const float *x, const float *weights);

#endif
