/* Rows of the types that ferry reads but does not write to f32. Products are exact
 * (scalar/block_scalar.c), so a minimum may be fused in. */
#include "kernels/kernel_impl.h"
#include "kernels/scalar/quants_scalar.h"
#include "kernels/x86/quants_avx2.h"

/* Eight of 32 signed quants, from 8 * i on. */
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

/* `below` is taken off the quants; the halves of the block have a scale each. */
FY_INLINE void store_signed(float *y, __m256i q, int8_t below, float first, float second)
{
    const __m256i v = _mm256_sub_epi8(q, _mm256_set1_epi8(below));
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        _mm256_storeu_ps(y + 8 * i,
                         _mm256_mul_ps(eight(v, i), _mm256_set1_ps(i < 2 ? first : second)));
}

void fy_decode_q4_1__avx2(float *y, const fy_block_q4_1 *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK)
        store_with_min(y, fy_quants32_q4_1((const uint8_t *)&x[b], 0), fy_f16_to_f32(x[b].d),
                       fy_f16_to_f32(x[b].m));
}

void fy_decode_q5_0__avx2(float *y, const fy_block_q5_0 *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK) {
        const float d = fy_f16_to_f32(x[b].d);
        store_signed(y, fy_quants32_q5_0((const uint8_t *)&x[b], 0), 16, d, d);
    }
}

void fy_decode_q5_1__avx2(float *y, const fy_block_q5_1 *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK)
        store_with_min(y, fy_quants32_q5_1((const uint8_t *)&x[b], 0), fy_f16_to_f32(x[b].d),
                       fy_f16_to_f32(x[b].m));
}

void fy_decode_q4_k__avx2(float *y, const fy_block_q4_k *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK) {
        const fy_block_q4_k *w = &x[b / FY_K_SUBS];
        const int s = (int)(b % FY_K_SUBS);
        fy_quants scale;
        fy_k_scale_min(&scale, w->d, w->dmin, w->scales, s);
        store_with_min(y, fy_quants32_q4_k((const uint8_t *)w, s), scale.d, scale.m);
    }
}

void fy_decode_q5_k__avx2(float *y, const fy_block_q5_k *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK) {
        const fy_block_q5_k *w = &x[b / FY_K_SUBS];
        const int s = (int)(b % FY_K_SUBS);
        fy_quants scale;
        fy_k_scale_min(&scale, w->d, w->dmin, w->scales, s);
        store_with_min(y, fy_quants32_q5_k((const uint8_t *)w, s), scale.d, scale.m);
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
