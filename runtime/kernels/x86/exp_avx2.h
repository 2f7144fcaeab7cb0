/* fy_exp (kernels.h) of eight floats. */
#ifndef FY_KERNELS_X86_EXP_AVX2_H
#define FY_KERNELS_X86_EXP_AVX2_H

#include "kernels/x86/vec_avx2.h"

FY_INLINE __m256 fy_power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

FY_INLINE __m256 fy_exp8(__m256 x)
{
    static const float coefficients[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                         1.6666665459e-1f, 5.0000001201e-1f};
    /* the constant comes first: min and max give their second operand when one is NaN */
    x = _mm256_max_ps(_mm256_set1_ps(-104.0f), _mm256_min_ps(_mm256_set1_ps(89.0f), x));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 p = _mm256_set1_ps(1.9875691500e-4f);
    FY_UNROLL
    for (int i = 0; i < 5; i++)
        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(coefficients[i]));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
    const __m256i exponent = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(exponent, 1);
    p = _mm256_mul_ps(p, fy_power_of_two(half));
    return _mm256_mul_ps(p, fy_power_of_two(_mm256_sub_epi32(exponent, half)));
}

#endif
