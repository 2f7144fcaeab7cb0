/* The block types as AVX2 reads them: 32 codes of one row in a register, and scales and minimums
 * of eight rows, a lane each. Codes are stored unsigned, which is what vpmaddubsw wants: what they
 * are too large by is the kernel's business. */
#ifndef FY_KERNELS_X86_QUANTS_AVX2_H
#define FY_KERNELS_X86_QUANTS_AVX2_H

#include <stddef.h>

#include "kernels/kernels.h"
#include "kernels/x86/tile_avx2.h"

enum { FY_SUBS_MAX = FY_QK_K / FY_QK }; /* blocks of 32 in a stored block, at most */

/* The 32 codes of sub-block s of a stored block, in element order. */
typedef __m256i fy_quants32_fn(const uint8_t *block, int s);

/* 16 bytes of nibbles, low ones first. */
FY_INLINE __m256i fy_nibbles(const uint8_t *qs)
{
    const __m128i bytes = fy_load128(qs);
    const __m256i both =
        _mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/* 16 where one of 32 bits is set. */
FY_INLINE __m256i fy_fifth_bits(const uint8_t *qh)
{
    int32_t bits;
    memcpy(&bits, qh, sizeof bits);
    const __m256i byte_of =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit_of = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of), bit_of);
    return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

FY_INLINE __m256i fy_quants32_q4_1(const uint8_t *block, int s)
{
    (void)s;
    return fy_nibbles(block + offsetof(fy_block_q4_1, qs));
}

FY_INLINE __m256i fy_quants32_q5_0(const uint8_t *block, int s)
{
    (void)s;
    return _mm256_or_si256(fy_nibbles(block + offsetof(fy_block_q5_0, qs)),
                           fy_fifth_bits(block + offsetof(fy_block_q5_0, qh)));
}

FY_INLINE __m256i fy_quants32_q5_1(const uint8_t *block, int s)
{
    (void)s;
    return _mm256_or_si256(fy_nibbles(block + offsetof(fy_block_q5_1, qs)),
                           fy_fifth_bits(block + offsetof(fy_block_q5_1, qh)));
}

/* Bits from `n` on of every byte, moved to bit `to` and on; `mask` is what stays there. */
FY_INLINE __m256i fy_move_bits(__m256i bytes, int n, int to, int8_t mask)
{
    const __m256i moved =
        n < to ? _mm256_slli_epi16(bytes, to - n) : _mm256_srli_epi16(bytes, n - to);
    return _mm256_and_si256(n == to ? bytes : moved, _mm256_set1_epi8(mask));
}

FY_INLINE __m256i fy_quants32_q4_k(const uint8_t *block, int s)
{
    const __m256i bytes = fy_load256(block + offsetof(fy_block_q4_k, qs) + s / 2 * FY_QK);
    return fy_move_bits(bytes, s % 2 * 4, 0, 15);
}

FY_INLINE __m256i fy_quants32_q5_k(const uint8_t *block, int s)
{
    const __m256i bytes = fy_load256(block + offsetof(fy_block_q5_k, qs) + s / 2 * FY_QK);
    const __m256i bits = fy_load256(block + offsetof(fy_block_q5_k, qh));
    return _mm256_or_si256(fy_move_bits(bytes, s % 2 * 4, 0, 15), fy_move_bits(bits, s, 4, 16));
}

FY_INLINE __m256i fy_quants32_q6_k(const uint8_t *block, int s)
{
    const int half = s / 4;
    const __m256i bytes =
        fy_load256(block + offsetof(fy_block_q6_k, ql) + half * 64 + s % 2 * FY_QK);
    const __m256i bits = fy_load256(block + offsetof(fy_block_q6_k, qh) + half * FY_QK);
    return _mm256_or_si256(fy_move_bits(bytes, s % 4 / 2 * 4, 0, 15),
                           fy_move_bits(bits, s % 4 * 2, 4, 0x30));
}

/* --- scales of eight rows -------------------------------------------------------------------- */

typedef struct {
    __m256 d[FY_SUBS_MAX], m[FY_SUBS_MAX]; /* value q * d + m */
} fy_scales;

/* The scales of the block at `offset` of each row. */
typedef void fy_scales_fn(fy_scales *out, const fy_rows8 *rows, size_t offset);

FY_INLINE void fy_scales_d(fy_scales *out, const fy_rows8 *rows, size_t offset)
{
    out->d[0] = fy_scales8(rows, offset);
}

/* The four bytes at `offset` of each row. */
FY_INLINE __m256i fy_dwords8(const fy_rows8 *rows, size_t offset)
{
    int32_t v[8];
    FY_UNROLL
    for (int i = 0; i < 8; i++)
        memcpy(&v[i], rows->p[i] + offset, sizeof v[i]);
    return _mm256_setr_epi32(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
}

/* The two f16 at `offset` of each row, widened. */
FY_INLINE void fy_two_halves8(__m256 *first, __m256 *second, const fy_rows8 *rows, size_t offset)
{
    const __m256i both = fy_dwords8(rows, offset);
    const __m256i low = _mm256_and_si256(both, _mm256_set1_epi32(0xffff));
    const __m256i packed = _mm256_packus_epi32(low, _mm256_srli_epi32(both, 16));
    const __m256i sorted = _mm256_permute4x64_epi64(packed, 0xd8); /* packing is per 128 bits */
    *first = _mm256_cvtph_ps(_mm256_castsi256_si128(sorted));
    *second = _mm256_cvtph_ps(_mm256_extracti128_si256(sorted, 1));
}

FY_INLINE void fy_scales_dm(fy_scales *out, const fy_rows8 *rows, size_t offset)
{
    fy_two_halves8(&out->d[0], &out->m[0], rows, offset);
}

/* The 6-bit scales and minimums of q4_K and q5_K: bytes s of `scale` and `min` are those of four
 * sub-blocks. */
FY_INLINE void fy_put_k_scales(fy_scales *out, int first, __m256 d, __m256 dmin, __m256i scale,
                               __m256i min)
{
    const __m256i byte = _mm256_set1_epi32(255);
    FY_UNROLL
    for (int s = 0; s < 4; s++) {
        const __m256i sc = _mm256_and_si256(_mm256_srli_epi32(scale, 8 * s), byte);
        const __m256i mn = _mm256_and_si256(_mm256_srli_epi32(min, 8 * s), byte);
        out->d[first + s] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(sc));
        out->m[first + s] = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(mn));
    }
}

FY_INLINE void fy_scales_k(fy_scales *out, const fy_rows8 *rows, size_t offset)
{
    const __m256i six = _mm256_set1_epi8(63), four = _mm256_set1_epi8(15);
    const __m256i two = _mm256_set1_epi8(3);
    const size_t at = offset + offsetof(fy_block_q4_k, scales);
    const __m256i a = fy_dwords8(rows, at), b = fy_dwords8(rows, at + 4);
    const __m256i c = fy_dwords8(rows, at + 8);
    __m256 d, dmin;
    fy_two_halves8(&d, &dmin, rows, offset);
    dmin = _mm256_xor_ps(dmin, _mm256_set1_ps(-0.0f));
    const __m256i a_top = _mm256_and_si256(_mm256_srli_epi16(a, 6), two);
    const __m256i b_top = _mm256_and_si256(_mm256_srli_epi16(b, 6), two);
    const __m256i c_high = _mm256_and_si256(_mm256_srli_epi16(c, 4), four);
    fy_put_k_scales(out, 0, d, dmin, _mm256_and_si256(a, six), _mm256_and_si256(b, six));
    fy_put_k_scales(out, 4, d, dmin,
                    _mm256_or_si256(_mm256_and_si256(c, four), _mm256_slli_epi16(a_top, 4)),
                    _mm256_or_si256(c_high, _mm256_slli_epi16(b_top, 4)));
}

/* --- sums ------------------------------------------------------------------------------------ */

/* s[i]: 16 sums of pairs of row i, whose sums of four still fit int16  ->  per row, a lane each,
 * the sums of the lower and of the upper eight. */
FY_INLINE void fy_row_sums(const __m256i s[8], __m256i *lower, __m256i *upper)
{
    __m256i half[2];
    FY_UNROLL
    for (int h = 0; h < 2; h++) {
        const __m256i *v = s + 4 * h;
        const __m256i s01 =
            _mm256_add_epi16(_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
        const __m256i s23 =
            _mm256_add_epi16(_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
        const __m256i pairs =
            _mm256_add_epi16(_mm256_unpacklo_epi64(s01, s23), _mm256_unpackhi_epi64(s01, s23));
        half[h] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    *lower = _mm256_permute2x128_si256(half[0], half[1], 0x20);
    *upper = _mm256_permute2x128_si256(half[0], half[1], 0x31);
}

/* q[i]: 32 codes of row i  ->  t[j]: elements 4j .. 4j+3 of rows 0 .. 7. */
FY_INLINE void fy_transpose_quants(__m256i t[8], const __m256i q[8])
{
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2x128_si256(q[i], q[i + 4], 0x20);
        t[i + 4] = _mm256_permute2x128_si256(q[i], q[i + 4], 0x31);
    }
    fy_transpose_dwords(t);
    fy_transpose_dwords(t + 4);
}

#endif
