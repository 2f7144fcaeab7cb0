/* q8_0 and q4_0 rows, and the activations' quantizer: one pass of load, compute, store over cached
 * rows. The bytes are those of block_scalar.c; multiplication and addition stay two instructions,
 * two roundings. */
#include "kernels/kernel_impl.h"
#include "kernels/scalar/quants_scalar.h"
#include "kernels/x86/quants_avx2.h"
#include "kernels/x86/vec_avx2.h"

FY_INLINE void load_block(__m256 v[4], const float *x)
{
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_loadu_ps(x + 8 * i);
}

/* The largest magnitude. Magnitudes compare as integers, and there a NaN is larger than everything.
 */
FY_INLINE float largest(const __m256 v[4])
{
    const __m256i a =
        _mm256_max_epi32(_mm256_castps_si256(fy_abs(v[0])), _mm256_castps_si256(fy_abs(v[1])));
    const __m256i b =
        _mm256_max_epi32(_mm256_castps_si256(fy_abs(v[2])), _mm256_castps_si256(fy_abs(v[3])));
    const __m256i m = _mm256_max_epi32(a, b);
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(h));
}

/* x * id rounded half away from zero: 0.49999997, the float below one half, pushes exactly the
 * values from one half on over the next integer before truncation. */
FY_INLINE __m256i round_q8(__m256 x, __m256 id)
{
    const __m256 v = _mm256_mul_ps(x, id);
    const __m256 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
    return _mm256_cvttps_epi32(_mm256_add_ps(v, _mm256_or_ps(sign, _mm256_set1_ps(0.49999997f))));
}

/* The quantized block of q8_0; id = 0 stands for a block of zeros, whatever v holds. */
FY_INLINE __m256i quantize_q8(const __m256 v[4], float id)
{
    if (id == 0.0f)
        return _mm256_setzero_si256();
    __m256i q[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        q[i] = round_q8(v[i], _mm256_set1_ps(id));
    return fy_pack32(q);
}

FY_INLINE int32_t sum_bytes(__m256i q)
{
    /* as unsigned bytes with 128 added, for the instruction that sums those */
    const __m256i u = _mm256_xor_si256(q, _mm256_set1_epi8(-128));
    const __m256i quarters = _mm256_sad_epu8(u, _mm256_setzero_si256());
    const __m128i h =
        _mm_add_epi64(_mm256_castsi256_si128(quarters), _mm256_extracti128_si256(quarters, 1));
    return _mm_cvtsi128_si32(_mm_add_epi64(h, _mm_unpackhi_epi64(h, h))) - 128 * FY_QK;
}

void fy_act_quantize__avx2(const fy_act *a, int64_t col_begin, int64_t col_end)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t b = col_begin * n_blocks; b < col_end * n_blocks; b++) {
        __m256 v[4];
        load_block(v, a->x + b * FY_QK);
        const float d = largest(v) / 127.0f;
        const __m256i q = quantize_q8(v, fy_inverse(d));
        _mm256_storeu_si256((__m256i *)(a->q + b * FY_QK), q);
        a->d[b] = d;
        a->sum[b] = sum_bytes(q);
    }
}

FY_INLINE uint16_t to_half(float f)
{
    return (uint16_t)_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
}

void fy_encode_q8_0__avx2(fy_block_q8_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++) {
        __m256 v[4];
        load_block(v, x + b * FY_QK);
        const float d = largest(v) / 127.0f;
        y[b].d = to_half(d);
        _mm256_storeu_si256((__m256i *)y[b].qs, quantize_q8(v, fy_inverse(d)));
    }
}

/* Index of the first element of magnitude m. */
FY_INLINE int first_of_magnitude(const __m256 v[4], float m)
{
    uint32_t hits = 0;
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m256 hit = _mm256_cmp_ps(fy_abs(v[i]), _mm256_set1_ps(m), _CMP_EQ_OQ);
        hits |= (uint32_t)_mm256_movemask_ps(hit) << 8 * i;
    }
    return hits != 0 ? __builtin_ctz(hits) : 0;
}

/* v * id + offset, each step rounded, then the fraction cut off: 0 .. top. */
FY_INLINE __m256i to_quants(const __m256 v[4], float id, float offset, float top)
{
    __m256i q[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m256 scaled = _mm256_mul_ps(v[i], _mm256_set1_ps(id));
        const __m256 shifted = _mm256_add_ps(scaled, _mm256_set1_ps(offset));
        q[i] = _mm256_cvttps_epi32(_mm256_min_ps(shifted, _mm256_set1_ps(top)));
    }
    return fy_pack32(q);
}

/* Codes around `zero` that meet the value of largest magnitude, the first of equals, with -zero.
 */
FY_INLINE __m256i quants_around(int zero, uint16_t *d_out, const float *x)
{
    __m256 v[4];
    load_block(v, x);
    const float m = largest(v);
    const float d = (m != 0.0f ? x[first_of_magnitude(v, m)] : 0.0f) / (float)-zero;
    const float id = fy_inverse(d);
    *d_out = to_half(d);
    if (id == 0.0f && d != 0.0f)
        return _mm256_setzero_si256();
    return to_quants(v, id, (float)zero + 0.5f, (float)(2 * zero - 1));
}

/* The largest of v and of -v. */
FY_INLINE __m128 ends_of(const __m256 v[4])
{
    const __m256 low = _mm256_min_ps(_mm256_min_ps(v[0], v[1]), _mm256_min_ps(v[2], v[3]));
    const __m256 high = _mm256_max_ps(_mm256_max_ps(v[0], v[1]), _mm256_max_ps(v[2], v[3]));
    const __m256 negated = _mm256_xor_ps(low, _mm256_set1_ps(-0.0f));
    const __m256 pairs =
        _mm256_max_ps(_mm256_unpacklo_ps(high, negated), _mm256_unpackhi_ps(high, negated));
    const __m128 h = _mm_max_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
    return _mm_max_ps(h, _mm_movehl_ps(h, h));
}

/* Codes 0 .. top from the smallest value to the largest. */
FY_INLINE __m256i quants_between(int top, uint16_t *d_out, uint16_t *m_out, const float *x)
{
    __m256 v[4];
    load_block(v, x);
    const __m128 ends = ends_of(v);
    float max = _mm_cvtss_f32(ends), min = -_mm_cvtss_f32(_mm_movehdup_ps(ends));
    if (min == 0.0f) { /* its sign goes into the file, and is that of the first zero */
        min = x[first_of_magnitude(v, 0.0f)];
        max = max > 0.0f ? max : min;
    }
    const float d = (max - min) / (float)top, id = fy_inverse(d);
    *d_out = to_half(d);
    *m_out = to_half(min);
    if (id == 0.0f)
        return _mm256_setzero_si256();
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_sub_ps(v[i], _mm256_set1_ps(min));
    return to_quants(v, id, 0.5f, (float)top);
}

FY_INLINE void put_nibbles(uint8_t qs[FY_QK / 2], __m256i q)
{
    const __m256i low = _mm256_and_si256(q, _mm256_set1_epi8(15));
    const __m128i high = _mm_slli_epi16(_mm256_extracti128_si256(low, 1), 4);
    _mm_storeu_si128((__m128i *)(void *)qs, _mm_or_si128(_mm256_castsi256_si128(low), high));
}

FY_INLINE void put_fifth_bits(uint8_t qh[FY_QK / 8], __m256i q)
{
    const int bits = _mm256_movemask_epi8(_mm256_slli_epi16(q, 3));
    memcpy(qh, &bits, sizeof bits);
}

void fy_encode_q4_0__avx2(fy_block_q4_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++)
        put_nibbles(y[b].qs, quants_around(8, &y[b].d, x + b * FY_QK));
}

void fy_encode_q4_1__avx2(fy_block_q4_1 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++)
        put_nibbles(y[b].qs, quants_between(15, &y[b].d, &y[b].m, x + b * FY_QK));
}

void fy_encode_q5_0__avx2(fy_block_q5_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++) {
        const __m256i q = quants_around(16, &y[b].d, x + b * FY_QK);
        put_nibbles(y[b].qs, q);
        put_fifth_bits(y[b].qh, q);
    }
}

void fy_encode_q5_1__avx2(fy_block_q5_1 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++) {
        const __m256i q = quants_between(31, &y[b].d, &y[b].m, x + b * FY_QK);
        put_nibbles(y[b].qs, q);
        put_fifth_bits(y[b].qh, q);
    }
}

/* 16 bytes of integers times d. */
FY_INLINE void store16(float *y, __m128i q, __m256 d)
{
    const __m256i low = _mm256_cvtepi8_epi32(q), high = _mm256_cvtepi8_epi32(_mm_srli_si128(q, 8));
    _mm256_storeu_ps(y, _mm256_mul_ps(_mm256_cvtepi32_ps(low), d));
    _mm256_storeu_ps(y + 8, _mm256_mul_ps(_mm256_cvtepi32_ps(high), d));
}

/* A block's scale in all lanes. */
FY_INLINE __m256 scale_of(uint16_t half)
{
    return _mm256_cvtph_ps(_mm_set1_epi16((short)half));
}

void fy_decode_q8_0__avx2(float *y, const fy_block_q8_0 *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK) {
        const __m256 d = scale_of(x[b].d);
        store16(y, fy_load128(x[b].qs), d);
        store16(y + 16, fy_load128(x[b].qs + 16), d);
    }
}

void fy_decode_q4_0__avx2(float *y, const fy_block_q4_0 *x, int64_t n)
{
    const __m128i low_nibble = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK) {
        const __m256 d = scale_of(x[b].d);
        const __m128i bytes = fy_load128(x[b].qs);
        store16(y, _mm_sub_epi8(_mm_and_si128(bytes, low_nibble), eight), d);
        store16(y + 16, _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(bytes, 4), low_nibble), eight),
                d);
    }
}

/* --- decoders -------------------------------------------------------------------------------- */

/* Rows of the types that ferry reads but does not write to f32. Products are exact
 * (scalar/block_scalar.c), so a minimum may be fused in. */

/* Eight of 32 signed codes, from 8 * i on. */
FY_INLINE __m256 eight(__m256i q, int i)
{
    const __m128i half = i < 2 ? _mm256_castsi256_si128(q) : _mm256_extracti128_si256(q, 1);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(i % 2 ? _mm_srli_si128(half, 8) : half));
}

FY_INLINE void store_with_min(float *y, __m256i q, float d, float m)
{
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        _mm256_storeu_ps(y + 8 * i,
                         _mm256_fmadd_ps(eight(q, i), _mm256_set1_ps(d), _mm256_set1_ps(m)));
}

/* `below` is taken off the codes; the halves of the block have a scale each. */
FY_INLINE void store_signed(float *y, __m256i q, int8_t below, float first, float second)
{
    const __m256i v = _mm256_sub_epi8(q, _mm256_set1_epi8(below));
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        _mm256_storeu_ps(y + 8 * i,
                         _mm256_mul_ps(eight(v, i), _mm256_set1_ps(i < 2 ? first : second)));
}

#define DEFINE_DECODE_WITH_MIN(type)                                             \
    void fy_decode_##type##__avx2(float *y, const fy_block_##type *x, int64_t n) \
    {                                                                            \
        for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK)                      \
            store_with_min(y, fy_quants32_##type((const uint8_t *)&x[b], 0),     \
                           fy_f16_to_f32(x[b].d), fy_f16_to_f32(x[b].m));        \
    }
#define DEFINE_DECODE_K(type)                                                               \
    void fy_decode_##type##__avx2(float *y, const fy_block_##type *x, int64_t n)            \
    {                                                                                       \
        for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK) {                               \
            const fy_block_##type *w = &x[b / FY_K_SUBS];                                   \
            const int s = (int)(b % FY_K_SUBS);                                             \
            fy_quants scale;                                                                \
            fy_k_scale_min(&scale, w->d, w->dmin, w->scales, s);                            \
            store_with_min(y, fy_quants32_##type((const uint8_t *)w, s), scale.d, scale.m); \
        }                                                                                   \
    }

DEFINE_DECODE_WITH_MIN(q4_1)
DEFINE_DECODE_WITH_MIN(q5_1)
DEFINE_DECODE_K(q4_k)
DEFINE_DECODE_K(q5_k)

void fy_decode_q5_0__avx2(float *y, const fy_block_q5_0 *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK) {
        const float d = fy_f16_to_f32(x[b].d);
        store_signed(y, fy_quants32_q5_0((const uint8_t *)&x[b], 0), 16, d, d);
    }
}

void fy_decode_q6_k__avx2(float *y, const fy_block_q6_k *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK) {
        const fy_block_q6_k *w = &x[b / FY_K_SUBS];
        const int s = (int)(b % FY_K_SUBS);
        const float d = fy_f16_to_f32(w->d);
        store_signed(y, fy_quants32_q6_k((const uint8_t *)w, s), 32, d * (float)w->scales[2 * s],
                     d * (float)w->scales[2 * s + 1]);
    }
}
