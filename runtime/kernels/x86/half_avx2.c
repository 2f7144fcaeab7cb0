/* f16 and bf16 rows: bound by memory. F16C rounds and treats NaN exactly as half_scalar.c does; the
 * last few values of a row go through its functions. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/vec_avx2.h"

void fy_f16_to_f32__avx2(float *y, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, fy_widen_f16(x + i));
    for (; i < n; i++)
        y[i] = fy_f16_to_f32(x[i]);
}

void fy_f32_to_f16__avx2(uint16_t *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(y + i), h);
    }
    for (; i < n; i++)
        y[i] = fy_f32_to_f16(x[i]);
}

void fy_bf16_to_f32__avx2(float *y, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, fy_widen_bf16(x + i));
    for (; i < n; i++)
        y[i] = fy_bf16_to_f32(x[i]);
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

void fy_f32_to_bf16__avx2(uint16_t *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256i a = narrow_bf16(_mm256_loadu_ps(x + i));
        const __m256i b = narrow_bf16(_mm256_loadu_ps(x + i + 8));
        const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
        _mm256_storeu_si256((__m256i *)(y + i), packed);
    }
    for (; i < n; i++)
        y[i] = fy_f32_to_bf16(x[i]);
}
