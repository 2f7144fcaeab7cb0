/* The file encoders of the K types (encode_k_lanes.h). These are its lanes in AVX2: eight. + - * /
 * work on them as on floats. */
#include <stdbool.h>

#include "kernels/x86/vec_avx2.h"

#define FY_L_ISA avx2

enum { FY_LANES = 8 };

typedef __m256 fy_lanes;
typedef __m256 fy_lanes_mask;

#define fy_l_set   _mm256_set1_ps
#define fy_l_store _mm256_storeu_ps
#define fy_l_min   _mm256_min_ps /* (a, b): b where neither is less */
#define fy_l_max   _mm256_max_ps
#define fy_l_sqrt  _mm256_sqrt_ps
#define fy_l_abs   fy_abs
#define fy_l_and   _mm256_and_ps

/* The larger of a and of b >= 0; the smaller of both >= 0. They compare as integers, for which a
 * CPU has other units than for floats. */
FY_INLINE fy_lanes fy_l_max_bits(fy_lanes a, fy_lanes b)
{
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

FY_INLINE fy_lanes fy_l_min_bits(fy_lanes a, fy_lanes b)
{
    return _mm256_castsi256_ps(_mm256_min_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

/* The nearest integers, halves to even. */
FY_INLINE fy_lanes fy_l_round(fy_lanes v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
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

#include "kernels/x86/encode_k_lanes.h"
