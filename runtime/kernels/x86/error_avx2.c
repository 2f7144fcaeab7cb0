/* How far rows are from what became of them: bound by arithmetic in double, some 24 operations for
 * 8 elements. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/vec_avx2.h"

typedef struct {
    __m256d xx[2], yy[2], xy[2], ee[2];
    __m256 max_x, max_e;
    __m256i outside; /* counted down */
} sums;

/* A product of two widened f32 is exact, so that it may be fused with its addition; the square of a
 * difference is not. */
FY_INLINE void add_half(sums *s, int half, __m128 x, __m128 y)
{
    const __m256d a = _mm256_cvtps_pd(x), b = _mm256_cvtps_pd(y), e = _mm256_sub_pd(a, b);
    s->xx[half] = _mm256_fmadd_pd(a, a, s->xx[half]);
    s->yy[half] = _mm256_fmadd_pd(b, b, s->yy[half]);
    s->xy[half] = _mm256_fmadd_pd(a, b, s->xy[half]);
    s->ee[half] = _mm256_add_pd(s->ee[half], _mm256_mul_pd(e, e));
}

/* A maximum that is NaN is the second operand. */
FY_INLINE void add_eight(sums *s, __m256 x, __m256 y)
{
    add_half(s, 0, _mm256_castps256_ps128(x), _mm256_castps256_ps128(y));
    add_half(s, 1, _mm256_extractf128_ps(x, 1), _mm256_extractf128_ps(y, 1));
    s->max_x = _mm256_max_ps(fy_abs(x), s->max_x);
    s->max_e = _mm256_max_ps(fy_abs(_mm256_sub_ps(x, y)), s->max_e);
}

FY_INLINE void count_outside(sums *s, __m256 x, const float limit[2], __m256i mask)
{
    const __m256 below = _mm256_cmp_ps(x, _mm256_set1_ps(limit[0]), _CMP_LT_OQ),
                 above = _mm256_cmp_ps(x, _mm256_set1_ps(limit[1]), _CMP_GT_OQ);
    const __m256i outside = _mm256_castps_si256(_mm256_or_ps(below, above));
    s->outside = _mm256_add_epi32(s->outside, _mm256_and_si256(outside, mask));
}

FY_INLINE double sum_of(const __m256d lanes[2])
{
    double part[4];
    _mm256_storeu_pd(part, _mm256_add_pd(lanes[0], lanes[1]));
    return (part[0] + part[1]) + (part[2] + part[3]);
}

FY_INLINE float max_of(__m256 lanes, float before)
{
    float part[8], most = before;
    _mm256_storeu_ps(part, lanes);
    for (int i = 0; i < 8; i++)
        most = part[i] > most ? part[i] : most;
    return most;
}

FY_INLINE void add_row(sums *s, const float *x, const float *y, const float *limits, int64_t n)
{
    const __m256i all = _mm256_set1_epi32(-1);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
        add_eight(s, v, _mm256_loadu_ps(y + i));
        if (limits != NULL)
            count_outside(s, v, limits + i / FY_LIMIT_ELEMS * 2, all);
    }
    if (i < n) { /* lanes behind the row add 0 */
        const __m256 v = fy_load_lanes(x + i, n - i);
        add_eight(s, v, fy_load_lanes(y + i, n - i));
        if (limits != NULL)
            count_outside(s, v, limits + i / FY_LIMIT_ELEMS * 2, fy_lane_mask(n - i));
    }
}

void fy_error_sums__avx2(fy_error_sums *to, const float *x, const float *y, const float *limits,
                         int64_t n)
{
    const __m256d zero = _mm256_setzero_pd();
    sums s = {{zero, zero},        {zero, zero},        {zero, zero},          {zero, zero},
              _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_si256()};
    if (limits != NULL)
        add_row(&s, x, y, limits, n);
    else
        add_row(&s, x, y, NULL, n);
    to->xx += sum_of(s.xx);
    to->yy += sum_of(s.yy);
    to->xy += sum_of(s.xy);
    to->ee += sum_of(s.ee);
    to->max_x = max_of(s.max_x, to->max_x);
    to->max_e = max_of(s.max_e, to->max_e);
    to->n += n;
    int32_t outside[8];
    _mm256_storeu_si256((__m256i *)outside, s.outside);
    for (int i = 0; i < 8; i++)
        to->n_outside -= outside[i];
}
