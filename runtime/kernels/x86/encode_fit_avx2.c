/* Fitted blocks, eight side by side. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/x86/vec_avx2.h"

enum { LANES = 8 };

typedef __m256 lanes;

#define all       _mm256_set1_ps
#define load      _mm256_loadu_ps
#define store     _mm256_storeu_ps
#define most      _mm256_max_ps /* (a, b): b where one is NaN */
#define least     _mm256_min_ps
#define magnitude fy_abs

FY_INLINE lanes rounded(lanes v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

FY_INLINE lanes halved(lanes v)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

FY_INLINE lanes where_more(lanes a, lanes b, lanes yes, lanes no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

#include "kernels/scalar/fit_lanes.h"

DEFINE_FITS(avx2)
