/* The file encoders of the K types for the lanes of the file that includes this: a lane is a group
 * of elements with a scale of its own, a sub-block of 32 or q6_K's 16, so that it takes the steps
 * of encode_k_scalar.c in their order and arrives at their bytes. What follows the search, the
 * bytes of a superblock, is done in AVX2.
 *
 * Bound by the passes over the elements, one or two for each of 16 to 21 candidates, in L1. */
#ifndef FY_KERNELS_X86_ENCODE_K_LANES_H
#define FY_KERNELS_X86_ENCODE_K_LANES_H

#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/encode_k_scalar.h"
#include "kernels/x86/quants_avx2.h"

/* lanes[i] = element i of FY_LANES groups of n elements. */
FY_INLINE void fy_l_transpose(fy_lanes *lanes, const float *x, int n)
{
    for (int lane = 0; lane < FY_LANES; lane += 8) {
        for (int i = 0; i < n; i += 8) {
            __m256i rows[8], t[8];
            FY_UNROLL
            for (int r = 0; r < 8; r++)
                rows[r] = fy_load256(x + (lane + r) * n + i);
            fy_transpose_quants(t, rows);
            FY_UNROLL
            for (int c = 0; c < 8; c++)
                fy_store256((float *)(lanes + i + c) + lane, t[c]);
        }
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

/* 32 codes of a row: nearest(v / d), or nearest(v * inverse) where d is 0, v = x + add. */
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

/* --- q4_K, q5_K ------------------------------------------------------------------------------ */

/* Of FY_LANES sub-blocks: value scale * q + min, and that the codes are those of inverse * (x -
 * base). */
typedef struct {
    float scale[FY_LANES], min[FY_LANES], inverse[FY_LANES], base[FY_LANES];
} fy_l_found;

/* Element i of every sub-block, its weight, its code. */
typedef struct {
    fy_lanes x[FY_QK], q[FY_QK], w[FY_QK];
    fy_lanes lowest, highest; /* of x */
    fy_lanes sum_w, sum_wx;
    int top;
} fy_l_subs;

/* Sums of weight * code, * code again, * value. */
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

/* The codes of inverse * (x - base), which is monotonous in x: all are small if the ends are. */
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
    /* where all values are equal there is nothing to look for: codes 0 of a range of any length */
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

/* Scales and codes, a sub-block each, of a superblock from its eight lanes, the first of which is
 * `lane`. */
FY_INLINE fy_k_scales fy_l_finish(__m256i q[FY_K_SUBS], const fy_l_found *f, int lane, int top,
                                  const float *x)
{
    float mins[FY_K_SUBS];
    for (int s = 0; s < FY_K_SUBS; s++)
        mins[s] = -f->min[lane + s];
    const fy_k_scales k = fy_k_round_scales(f->scale + lane, mins);
    for (int s = 0; s < FY_K_SUBS; s++, x += FY_QK) {
        const bool as_found = k.step[s] == 0.0f;
        q[s] = as_found ? fy_l_quants(x, -f->base[lane + s], f->inverse[lane + s], false, 0, top)
                        : fy_l_quants(x, k.min[s], k.step[s], true, 0, top);
    }
    return k;
}

/* a, and b `bits` above it. Neither leaves its byte. */
FY_INLINE __m256i fy_l_above(__m256i a, __m256i b, int bits)
{
    return _mm256_or_si256(a, _mm256_slli_epi16(b, bits));
}

FY_INLINE __m256i fy_l_low_bits(__m256i q)
{
    return _mm256_and_si256(q, _mm256_set1_epi8(15));
}

FY_INLINE __m256i fy_l_high_bits(__m256i q)
{
    return _mm256_srli_epi16(_mm256_and_si256(q, _mm256_set1_epi8(0x30)), 4);
}

FY_INLINE void fy_l_put_nibbles(uint8_t qs[FY_QK_K / 2], const __m256i q[FY_K_SUBS])
{
    for (int s = 0; s < FY_K_SUBS; s += 2)
        fy_store256(qs + s / 2 * FY_QK,
                    fy_l_above(fy_l_low_bits(q[s]), fy_l_low_bits(q[s + 1]), 4));
}

FY_INLINE void fy_l_put_fifth_bits(uint8_t qh[FY_QK], const __m256i q[FY_K_SUBS])
{
    __m256i bits = fy_l_high_bits(q[0]);
    FY_UNROLL
    for (int s = 1; s < FY_K_SUBS; s++)
        bits = fy_l_above(bits, fy_l_high_bits(q[s]), s);
    fy_store256(qh, bits);
}

#define FY_L_NAME2(type, isa) fy_encode_##type##__##isa
#define FY_L_NAME(type, isa)  FY_L_NAME2(type, isa)

enum { FY_L_SUPERS = FY_LANES / FY_K_SUBS };

/* A single superblock at the end is AVX2's. */
#define FY_L_DEFINE_ENCODE(type, put_fifth_bits)                                      \
    void FY_L_NAME(type, FY_L_ISA)(fy_block_##type * y, const float *x, int64_t n)    \
    {                                                                                 \
        fy_l_found found;                                                             \
        for (; n >= FY_L_SUPERS * FY_QK_K; n -= FY_L_SUPERS * FY_QK_K) {              \
            fy_l_search(&found, &fy_##type##_search, x);                              \
            for (int i = 0; i < FY_L_SUPERS; i++, x += FY_QK_K, y++) {                \
                __m256i q[FY_K_SUBS];                                                 \
                const fy_k_scales k =                                                 \
                    fy_l_finish(q, &found, i * FY_K_SUBS, fy_##type##_search.top, x); \
                y->d = k.d;                                                           \
                y->dmin = k.dmin;                                                     \
                memcpy(y->scales, k.packed, sizeof k.packed);                         \
                fy_l_put_nibbles(y->qs, q);                                           \
                put_fifth_bits;                                                       \
            }                                                                         \
        }                                                                             \
        if (n > 0)                                                                    \
            fy_encode_##type##__avx2(y, x, n);                                        \
    }

FY_L_DEFINE_ENCODE(q4_k, (void)0)
FY_L_DEFINE_ENCODE(q5_k, fy_l_put_fifth_bits(y->qh, q))

/* --- q6_K ------------------------------------------------------------------------------------ */

/* Element i of every group, and its second and third powers. */
typedef struct {
    fy_lanes x[FY_Q6_K_GROUP], x2[FY_Q6_K_GROUP], x3[FY_Q6_K_GROUP];
} fy_l_groups;

/* Sums of the codes times x3 and of their squares times x2. */
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

/* The scales of FY_LANES groups, and the inverse scales that gave their codes; 0 and 0 where there
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

/* 16 codes of a row with the offset of the file: nearest(x / by), or nearest(x * by). */
FY_INLINE __m128i fy_l_q6_quants(const float *x, float by, bool divide)
{
    __m256i q[2];
    FY_UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256 v = _mm256_loadu_ps(x + 8 * i), d = _mm256_set1_ps(by);
        q[i] = fy_nearest_between(divide ? _mm256_div_ps(v, d) : _mm256_mul_ps(v, d), -32, 31);
    }
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q[0], q[1]), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    return _mm_add_epi8(bytes, _mm_set1_epi8(32));
}

/* Four times 32 codes 0 .. 63 into their places in a half of a block. */
FY_INLINE void fy_l_q6_pack(uint8_t ql[2 * FY_QK], uint8_t qh[FY_QK], const uint8_t q[4 * FY_QK])
{
    __m256i low[4], high[4];
    FY_UNROLL
    for (int s = 0; s < 4; s++) {
        const __m256i v = fy_load256(q + s * FY_QK);
        low[s] = fy_l_low_bits(v);
        high[s] = fy_l_high_bits(v);
    }
    fy_store256(ql, fy_l_above(low[0], low[2], 4));
    fy_store256(ql + FY_QK, fy_l_above(low[1], low[3], 4));
    fy_store256(qh,
                fy_l_above(fy_l_above(high[0], high[1], 2), fy_l_above(high[2], high[3], 2), 4));
}

static void fy_l_q6_block(fy_block_q6_k *y, const float *x)
{
    uint8_t q[FY_QK_K];
    float scales[FY_Q6_K_GROUPS], inverses[FY_Q6_K_GROUPS], step[FY_Q6_K_GROUPS];
    for (int g = 0; g < FY_Q6_K_GROUPS; g += FY_LANES)
        fy_l_q6_search(scales + g, inverses + g, x + g * FY_Q6_K_GROUP);
    if (!fy_q6_k_round_scales(y, step, scales))
        return;
    for (int g = 0; g < FY_Q6_K_GROUPS; g++) {
        const float *v = x + g * FY_Q6_K_GROUP;
        __m128i as_stored = _mm_setzero_si128();
        if (step[g] != 0.0f)
            as_stored = fy_l_q6_quants(v, step[g], true);
        else if (inverses[g] != 0.0f)
            as_stored = fy_l_q6_quants(v, inverses[g], false);
        _mm_storeu_si128((__m128i *)(void *)(q + g * FY_Q6_K_GROUP), as_stored);
    }
    for (int half = 0; half < 2; half++)
        fy_l_q6_pack(y->ql + half * 2 * FY_QK, y->qh + half * FY_QK, q + half * 4 * FY_QK);
}

void FY_L_NAME(q6_k, FY_L_ISA)(fy_block_q6_k *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        fy_l_q6_block(y + b, x + b * FY_QK_K);
}

#endif
