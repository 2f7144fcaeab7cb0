/* What follows the searches of encode_k_lanes.h, in AVX2: the codes and the bytes of a superblock.
 */
#ifndef FY_KERNELS_X86_ENCODE_K_X86_LANES_H
#define FY_KERNELS_X86_ENCODE_K_X86_LANES_H

#include "kernels/scalar/encode_k_scalar.h"
#include "kernels/x86/quants_avx2.h"

#define FY_L_SMALLER    avx2
#define FY_L_TOGETHER   1
#define FY_L_EACH(i, n) FY_UNROLL for (int i = 0; i < (n); i++)

typedef __m256i fy_l_codes;

FY_INLINE fy_l_codes fy_l_quants(const float *x, float add, float by, bool divide, int top)
{
    __m256i q[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m256 v = _mm256_add_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(add));
        const __m256 scaled =
            divide ? _mm256_div_ps(v, _mm256_set1_ps(by)) : _mm256_mul_ps(v, _mm256_set1_ps(by));
        q[i] = fy_nearest_between(scaled, 0, top);
    }
    return fy_pack32(q);
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

FY_INLINE void fy_l_put_nibbles(uint8_t qs[FY_QK_K / 2], const fy_l_codes q[FY_K_SUBS])
{
    for (int s = 0; s < FY_K_SUBS; s += 2)
        fy_store256(qs + s / 2 * FY_QK,
                    fy_l_above(fy_l_low_bits(q[s]), fy_l_low_bits(q[s + 1]), 4));
}

FY_INLINE void fy_l_put_fifth_bits(uint8_t qh[FY_QK], const fy_l_codes q[FY_K_SUBS])
{
    __m256i bits = fy_l_high_bits(q[0]);
    FY_UNROLL
    for (int s = 1; s < FY_K_SUBS; s++)
        bits = fy_l_above(bits, fy_l_high_bits(q[s]), s);
    fy_store256(qh, bits);
}

/* 16 codes of a row with the offset of the file: nearest(x / by), or nearest(x * by). */
FY_INLINE void fy_l_q6_quants(uint8_t *to, const float *x, float by, bool divide)
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
    _mm_storeu_si128((__m128i *)(void *)to, _mm_add_epi8(bytes, _mm_set1_epi8(32)));
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

#include "kernels/scalar/encode_weighted_lanes.h"

#endif
