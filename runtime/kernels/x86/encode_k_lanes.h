/* The file encoders of the K types for whatever lanes_*.h was included before: a lane is a group of
 * elements with a scale of its own, a sub-block of 32 or q6_K's 16, so that it takes the steps of
 * encode_k_scalar.c in their order and arrives at their bytes. What follows the search, the bytes
 * of a superblock, is done in AVX2.
 *
 * Bound by the passes over the elements, one or two for each of 16 to 21 candidates, in L1. */
#ifndef FY_KERNELS_X86_ENCODE_K_LANES_H
#define FY_KERNELS_X86_ENCODE_K_LANES_H

#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/encode_k_scalar.h"
#ifndef FY_L_ISA
#include "kernels/x86/lanes_avx2.h"
#endif

/* lanes[i] = element i of FY_LANES groups of n elements. */
FY_INLINE void fy_l_transpose(fy_lanes *lanes, const float *x, int n)
{
    float *t = (float *)lanes;
    for (int lane = 0; lane < FY_LANES; lane++) {
        for (int i = 0; i < n; i++)
            t[i * FY_LANES + lane] = x[lane * n + i];
    }
}

/* The nearest integers between low and high, halves to even, of |v| < 2^22. */
FY_INLINE fy_lanes fy_l_small_nearest_between(fy_lanes v, int low, int high)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it leaves no fraction */
    const fy_lanes q = fy_l_max_bits(v + fy_l_set(shift), fy_l_set(shift + (float)low));
    return fy_l_min_bits(q, fy_l_set(shift + (float)high)) - fy_l_set(shift);
}

/* The same from 0 on. */
FY_INLINE fy_lanes fy_l_small_nearest_to(fy_lanes v, int high)
{
    return fy_l_min_bits(fy_l_max_bits(fy_l_round(v), fy_l_set(0.0f)), fy_l_set((float)high));
}

/* 32 quants of a row: nearest(v / d), or nearest(v * inverse) where d is 0, v = x + add. */
FY_INLINE __m256i fy_l_quants(const float *x, float add, float by, bool divide, int low, int high)
{
    __m256i q[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m256 v = _mm256_add_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(add));
        const __m256 scaled =
            divide ? _mm256_div_ps(v, _mm256_set1_ps(by)) : _mm256_mul_ps(v, _mm256_set1_ps(by));
        q[i] = fy_nearest_between(scaled, low, high);
    }
    return fy_pack32(q);
}

/* --- q4_K, q5_K --- */

/* Of FY_LANES sub-blocks: value scale * q + min, and that the quants are those of inverse * (x -
 * base). */
typedef struct {
    float scale[FY_LANES], min[FY_LANES], inverse[FY_LANES], base[FY_LANES];
} fy_l_found;

/* Element i of every sub-block, its weight, its quant. */
typedef struct {
    fy_lanes x[FY_QK], q[FY_QK], w[FY_QK];
    fy_lanes lowest, highest; /* of x */
    fy_lanes sum_w, sum_wx;
    int top;
} fy_l_subs;

/* Sums of weight * quant, * quant again, * value. */
typedef struct {
    fy_lanes l, l2, xl;
} fy_l_sums;

FY_INLINE fy_l_sums fy_l_quantize_as(fy_l_subs *s, fy_lanes inverse, fy_lanes base, bool small)
{
    fy_l_sums sums = {fy_l_set(0.0f), fy_l_set(0.0f), fy_l_set(0.0f)};
    FY_UNROLL
    for (int i = 0; i < FY_QK; i++) {
        const fy_lanes x = s->x[i], v = inverse * (x - base);
        const fy_lanes q =
            small ? fy_l_small_nearest_to(v, s->top) : fy_l_nearest_between(v, 0, s->top);
        const fy_lanes wq = s->w[i] * q;
        s->q[i] = q;
        sums.l += wq;
        sums.l2 += wq * q;
        sums.xl += wq * x;
    }
    return sums;
}

/* The quants of inverse * (x - base), which is monotonous in x: all are small if the ends are. */
FY_INLINE fy_l_sums fy_l_quantize(fy_l_subs *s, fy_lanes inverse, fy_lanes base)
{
    const fy_lanes limit = fy_l_set(0x1p22f);
    const fy_lanes_mask small = fy_l_and(fy_l_less(fy_l_abs(inverse * (s->lowest - base)), limit),
                                         fy_l_less(fy_l_abs(inverse * (s->highest - base)), limit));
    return fy_l_all(small) ? fy_l_quantize_as(s, inverse, base, true)
                           : fy_l_quantize_as(s, inverse, base, false);
}

FY_INLINE fy_lanes fy_l_error(const fy_l_subs *s, fy_lanes scale, fy_lanes min)
{
    fy_lanes error = fy_l_set(0.0f);
    FY_UNROLL
    for (int i = 0; i < FY_QK; i++) {
        const fy_lanes diff = scale * s->q[i] + min - s->x[i];
        error += s->w[i] * (diff * diff);
    }
    return error;
}

FY_INLINE void fy_l_weigh(fy_l_subs *s)
{
    fy_lanes squares = fy_l_set(0.0f);
    for (int i = 0; i < FY_QK; i++)
        squares += s->x[i] * s->x[i];
    const fy_lanes mean = fy_l_sqrt(squares / fy_l_set(FY_QK));
    for (int i = 0; i < FY_QK; i++)
        s->w[i] = mean + fy_l_abs(s->x[i]);
    s->lowest = s->highest = s->x[0];
    s->sum_w = s->w[0];
    s->sum_wx = s->w[0] * s->x[0];
    for (int i = 1; i < FY_QK; i++) {
        s->lowest = fy_l_min(s->x[i], s->lowest);
        s->highest = fy_l_max(s->x[i], s->highest);
        s->sum_w += s->w[i];
        s->sum_wx += s->w[i] * s->x[i];
    }
}

static void fy_l_search(fy_l_found *out, const fy_k_search *how, const float *x)
{
    fy_l_subs s;
    s.top = how->top;
    fy_l_transpose(s.x, x, FY_QK);
    fy_l_weigh(&s);
    const fy_lanes zero = fy_l_set(0.0f), w = s.sum_w, wx = s.sum_wx;
    fy_lanes base = fy_l_min(zero, s.lowest), min = base, inverse, scale, best;
    /* where all values are equal there is nothing to look for: quants 0 of a range of any length */
    const fy_lanes_mask flat = fy_l_equal(s.highest, min);
    inverse = fy_l_set((float)how->top) / fy_l_select(flat, fy_l_set(1.0f), s.highest - min);
    scale = fy_l_select(flat, zero, fy_l_set(1.0f) / inverse);
    fy_l_quantize(&s, inverse, base);
    best = fy_l_select(flat, zero, fy_l_error(&s, scale, min));
    for (int step = 0; step <= how->steps; step++) {
        const fy_lanes range = fy_l_select(flat, fy_l_set(1.0f), s.highest - min);
        const fy_lanes candidate = fy_l_set(fy_k_candidate(how, step)) / range;
        const fy_l_sums f = fy_l_quantize(&s, candidate, min);
        const fy_lanes det = w * f.l2 - f.l * f.l;
        fy_lanes new_scale = (w * f.xl - wx * f.l) / det, new_min = (f.l2 * wx - f.l * f.xl) / det;
        const fy_lanes_mask above = fy_l_less(zero, new_min);
        new_scale = fy_l_select(above, f.xl / f.l2, new_scale);
        new_min = fy_l_select(above, zero, new_min);
        const fy_lanes error = fy_l_error(&s, new_scale, new_min);
        const fy_lanes_mask better = fy_l_and(fy_l_less(zero, det), fy_l_less(error, best));
        inverse = fy_l_select(better, candidate, inverse);
        base = fy_l_select(better, min, base);
        scale = fy_l_select(better, new_scale, scale);
        min = fy_l_select(better, new_min, min);
        best = fy_l_select(better, error, best);
    }
    fy_l_store(out->scale, scale);
    fy_l_store(out->min, min);
    fy_l_store(out->inverse, inverse);
    fy_l_store(out->base, base);
}

/* The bytes of a superblock from its eight lanes, the first of which is `lane`. */
FY_INLINE fy_k_scales fy_l_finish(uint8_t q[FY_QK_K], const fy_l_found *f, int lane, int top,
                                  const float *x)
{
    float mins[FY_K_SUBS];
    for (int s = 0; s < FY_K_SUBS; s++)
        mins[s] = -f->min[lane + s];
    const fy_k_scales k = fy_k_round_scales(f->scale + lane, mins);
    for (int s = 0; s < FY_K_SUBS; s++, x += FY_QK) {
        const bool as_found = k.step[s] == 0.0f;
        const __m256i v =
            as_found ? fy_l_quants(x, -f->base[lane + s], f->inverse[lane + s], false, 0, top)
                     : fy_l_quants(x, k.min[s], k.step[s], true, 0, top);
        _mm256_storeu_si256((__m256i *)(void *)(q + s * FY_QK), v);
    }
    return k;
}

#define FY_L_NAME2(type, isa) fy_encode_##type##__##isa
#define FY_L_NAME(type, isa)  FY_L_NAME2(type, isa)

enum { FY_L_SUPERS = FY_LANES / FY_K_SUBS };

#define FY_L_DEFINE_ENCODE(type)                                                                  \
    void FY_L_NAME(type, FY_L_ISA)(fy_block_##type * y, const float *x, int64_t n)                \
    {                                                                                             \
        int64_t b = 0;                                                                            \
        for (; b + FY_L_SUPERS <= n / FY_QK_K; b += FY_L_SUPERS) {                                \
            fy_l_found found;                                                                     \
            fy_l_search(&found, &fy_##type##_search, x + b * FY_QK_K);                            \
            for (int i = 0; i < FY_L_SUPERS; i++) {                                               \
                uint8_t q[FY_QK_K];                                                               \
                const fy_k_scales k = fy_l_finish(q, &found, i * FY_K_SUBS,                       \
                                                  fy_##type##_search.top, x + (b + i) * FY_QK_K); \
                fy_##type##_pack(y + b + i, &k, q);                                               \
            }                                                                                     \
        }                                                                                         \
        if (b < n / FY_QK_K)                                                                      \
            fy_encode_##type##__avx2(y + b, x + b * FY_QK_K, n - b * FY_QK_K);                    \
    }

FY_L_DEFINE_ENCODE(q4_k)
FY_L_DEFINE_ENCODE(q5_k)

/* --- q6_K --- */

/* Element i of every group, and its second and third powers. */
typedef struct {
    fy_lanes x[FY_Q6_K_GROUP], x2[FY_Q6_K_GROUP], x3[FY_Q6_K_GROUP];
} fy_l_groups;

/* Sums of the quants times x3 and of their squares times x2. */
typedef struct {
    fy_lanes xq, qq;
} fy_l_q6_sums;

/* No group's x * inverse is beyond 33, but for groups of nothing. */
FY_INLINE fy_l_q6_sums fy_l_q6_sums_of(const fy_l_groups *g, fy_lanes inverse)
{
    fy_l_q6_sums s = {fy_l_set(0.0f), fy_l_set(0.0f)};
    FY_UNROLL
    for (int i = 0; i < FY_Q6_K_GROUP; i++) {
        const fy_lanes q = fy_l_small_nearest_between(inverse * g->x[i], -32, 31);
        s.xq += g->x3[i] * q;
        s.qq += g->x2[i] * q * q;
    }
    return s;
}

/* The scales of FY_LANES groups, and the inverse scales that gave their quants; 0 and 0 where there
 * is nothing. */
static void fy_l_q6_search(float *scales, float *inverses, const float *values)
{
    fy_l_groups g;
    fy_l_transpose(g.x, values, FY_Q6_K_GROUP);
    const fy_lanes zero = fy_l_set(0.0f);
    fy_lanes m = zero;
    for (int i = 0; i < FY_Q6_K_GROUP; i++) {
        g.x2[i] = g.x[i] * g.x[i];
        g.x3[i] = g.x2[i] * g.x[i];
        m = fy_l_select(fy_l_less(fy_l_abs(m), fy_l_abs(g.x[i])), g.x[i], m);
    }
    fy_lanes inverse = fy_l_set(-32.0f) / m;
    fy_l_q6_sums s = fy_l_q6_sums_of(&g, inverse);
    fy_lanes scale = fy_l_select(fy_l_equal(s.qq, zero), zero, s.xq / s.qq), best = scale * s.xq;
    for (int step = -9; step <= 9; step++) {
        if (step == 0)
            continue;
        const fy_lanes candidate = fy_l_set(-(32.0f + 0.1f * (float)step)) / m;
        s = fy_l_q6_sums_of(&g, candidate);
        const fy_lanes_mask better =
            fy_l_and(fy_l_less(zero, s.qq), fy_l_less(best * s.qq, s.xq * s.xq));
        const fy_lanes fit = s.xq / s.qq;
        inverse = fy_l_select(better, candidate, inverse);
        scale = fy_l_select(better, fit, scale);
        best = fy_l_select(better, fit * s.xq, best);
    }
    const fy_lanes_mask nothing = fy_l_less(fy_l_abs(m), fy_l_set(FY_Q6_K_NOTHING));
    fy_l_store(scales, fy_l_select(nothing, zero, scale));
    fy_l_store(inverses, fy_l_select(nothing, zero, inverse));
}

/* 16 quants of a row: nearest(x / by), or nearest(x * by). */
FY_INLINE __m128i fy_l_q6_quants(const float *x, float by, bool divide)
{
    __m256i q[2];
    FY_UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256 v = _mm256_loadu_ps(x + 8 * i), d = _mm256_set1_ps(by);
        q[i] = fy_nearest_between(divide ? _mm256_div_ps(v, d) : _mm256_mul_ps(v, d), -32, 31);
    }
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8);
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

static void fy_l_q6_block(fy_block_q6_k *y, const float *x)
{
    int8_t q[FY_QK_K];
    float scales[FY_Q6_K_GROUPS], inverses[FY_Q6_K_GROUPS];
    for (int g = 0; g < FY_Q6_K_GROUPS; g += FY_LANES)
        fy_l_q6_search(scales + g, inverses + g, x + g * FY_Q6_K_GROUP);
    float step[FY_Q6_K_GROUPS];
    if (!fy_q6_k_round_scales(y, step, scales))
        return;
    for (int g = 0; g < FY_Q6_K_GROUPS; g++) {
        __m128i v = _mm_set1_epi8(-32); /* the reference's 0 before its offset */
        if (step[g] != 0.0f)
            v = fy_l_q6_quants(x + g * FY_Q6_K_GROUP, step[g], true);
        else if (inverses[g] != 0.0f)
            v = fy_l_q6_quants(x + g * FY_Q6_K_GROUP, inverses[g], false);
        _mm_storeu_si128((__m128i *)(void *)(q + g * FY_Q6_K_GROUP), v);
    }
    fy_q6_k_pack(y, q);
}

void FY_L_NAME(q6_k, FY_L_ISA)(fy_block_q6_k *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        fy_l_q6_block(y + b, x + b * FY_QK_K);
}

#endif
