/* Lanes (scalar/lanes_scalar.h) in AVX2: eight. */
#ifndef FY_KERNELS_X86_LANES_AVX2_H
#define FY_KERNELS_X86_LANES_AVX2_H

#include "kernels/x86/vec_avx2.h"

#define FY_X(op) _mm256_##op

enum { FY_LANES = 8 };

typedef __m256 fy_lanes;
typedef __m256i fy_l_ints;
typedef __m256 fy_lanes_mask;

#define fy_l_bits_of   _mm256_castps_si256
#define fy_l_floats_of _mm256_castsi256_ps
#define fy_l_abs       fy_abs
#define fy_l_and       _mm256_and_ps

FY_INLINE fy_lanes fy_l_round(fy_lanes v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

FY_INLINE fy_lanes fy_l_halved(fy_lanes v)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

FY_INLINE fy_lanes_mask fy_l_less(fy_lanes a, fy_lanes b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

FY_INLINE fy_lanes_mask fy_l_equal(fy_lanes a, fy_lanes b)
{
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}

FY_INLINE fy_lanes fy_l_select(fy_lanes_mask m, fy_lanes yes, fy_lanes no)
{
    return _mm256_blendv_ps(no, yes, m);
}

FY_INLINE bool fy_l_all(fy_lanes_mask m)
{
    return _mm256_movemask_ps(m) == 0xff;
}

/* As fy_k_nearest_between, for any v. */
FY_INLINE fy_lanes fy_l_nearest_between(fy_lanes v, int low, int high)
{
    return _mm256_cvtepi32_ps(fy_nearest_between(v, low, high));
}

FY_INLINE __m256 fy_l_power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* p * 2^n by two factors, each of which is a number; the first product is exact. */
FY_INLINE fy_lanes fy_l_times_power(fy_lanes p, fy_lanes n)
{
    const __m256i exponent = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(exponent, 1);
    return p * fy_l_power_of_two(half) * fy_l_power_of_two(_mm256_sub_epi32(exponent, half));
}

#include "kernels/x86/x86_lanes.h"

/* --- for elementwise_lanes.h --- */

#define fy_l_load_some  fy_load_lanes  /* (p, n): zeros from n on */
#define fy_l_store_some fy_store_lanes /* (p, v, n) */
#define fy_l_or         _mm256_or_ps

/* v >= 0 with the sign of x. */
FY_INLINE fy_lanes fy_l_with_sign(fy_lanes v, fy_lanes x)
{
    return _mm256_or_ps(v, _mm256_and_ps(x, _mm256_set1_ps(-0.0f)));
}

typedef fy_l_ints fy_l_counts;

FY_INLINE fy_l_counts fy_l_count(fy_l_counts c, fy_lanes_mask m)
{
    return _mm256_sub_epi32(c, _mm256_castps_si256(m));
}

enum { FY_DOUBLES = 4 };
typedef __m256d fy_doubles;

#define fy_d_set _mm256_set1_pd
#define fy_d_fma _mm256_fmadd_pd

/* Eight floats. */
FY_INLINE void fy_d_widen(fy_doubles wide[2], const float *x)
{
    wide[0] = _mm256_cvtps_pd(_mm_loadu_ps(x));
    wide[1] = _mm256_cvtps_pd(_mm_loadu_ps(x + 4));
}

/* Of eight lanes in the order of kernels.h. */
FY_INLINE double fy_d_sum(const fy_doubles sum[2])
{
    double part[4];
    _mm256_storeu_pd(part, sum[0] + sum[1]);
    return (part[0] + part[1]) + (part[2] + part[3]);
}

#endif
