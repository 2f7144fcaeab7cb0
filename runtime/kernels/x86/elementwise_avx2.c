/* Operations on vectors of floats (scalar/elementwise_lanes.h) in AVX2. */
#include "kernels/x86/lanes_avx2.h"

#define FY_E_ISA       avx2
#define FY_E_BF16_STEP 16

FY_INLINE void f16_to_f32_step(float *y, const uint16_t *x)
{
    _mm256_storeu_ps(y, fy_widen_f16(x));
}

FY_INLINE void f32_to_f16_step(uint16_t *y, const float *x)
{
    const __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)y, h);
}

FY_INLINE void bf16_to_f32_step(float *y, const uint16_t *x)
{
    _mm256_storeu_ps(y, fy_widen_bf16(x));
}

/* Eight bf16 in the low halves of the dwords. */
FY_INLINE __m256i narrow_bf16(__m256 v)
{
    const __m256i u = _mm256_castps_si256(v);
    const __m256i top = _mm256_srli_epi32(u, 16);
    const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, bias), 16);
    const __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, quiet, is_nan);
}

FY_INLINE void f32_to_bf16_step(uint16_t *y, const float *x)
{
    const __m256i a = narrow_bf16(_mm256_loadu_ps(x)), b = narrow_bf16(_mm256_loadu_ps(x + 8));
    fy_store256(y, _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8));
}

#include "kernels/scalar/elementwise_lanes.h"
