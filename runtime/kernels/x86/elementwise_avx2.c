/* Operations on vectors of floats: norms, activations and the soft cap; f16 and bf16 rows; the
 * errors of encoded rows. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/x86/vec_avx2.h"

/* --- norms, activations, soft cap ------------------------------------------------------------ */

/* Norms, gates and soft cap of a decoder block: bound by reading their rows from cache. */

/* Adds the squares of 8 floats to two vectors of doubles. */
FY_INLINE void add_squares(__m256d sum[2], __m256 v)
{
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    sum[0] = _mm256_fmadd_pd(low, low, sum[0]);
    sum[1] = _mm256_fmadd_pd(high, high, sum[1]);
}

FY_INLINE double sum_of(const __m256d sum[2])
{
    double part[4];
    _mm256_storeu_pd(part, _mm256_add_pd(sum[0], sum[1]));
    return (part[0] + part[1]) + (part[2] + part[3]);
}

void fy_rms_norm__avx2(float *y, const float *x, const float *w, int64_t n, float eps)
{
    __m256d squares[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    for (int64_t i = 0; i < n; i += 8)
        add_squares(squares, fy_load_lanes(x + i, n - i));
    const double sum = sum_of(squares);
    const __m256 s = _mm256_set1_ps((float)(1.0 / sqrt(sum / (double)n + (double)eps)));
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 scaled = _mm256_mul_ps(fy_load_lanes(x + i, n - i), s);
        fy_store_lanes(y + i, _mm256_mul_ps(scaled, fy_load_lanes(w + i, n - i)), n - i);
    }
}

/* Lanes of 8 floats as doubles. */
FY_INLINE void widen(__m256d wide[2], __m256 v)
{
    wide[0] = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    wide[1] = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}

FY_INLINE double mean_of(const float *x, int64_t n)
{
    __m256d sum[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()}, v[2];
    for (int64_t i = 0; i < n; i += 8) {
        widen(v, fy_load_lanes(x + i, n - i));
        sum[0] = _mm256_add_pd(sum[0], v[0]);
        sum[1] = _mm256_add_pd(sum[1], v[1]);
    }
    return sum_of(sum) / (double)n;
}

/* Lanes after the row add 0. The squares are rounded before they are added: no fused
 * multiply-add. */
FY_INLINE double variance_of(const float *x, int64_t n, double mean)
{
    const __m256d m = _mm256_set1_pd(mean);
    __m256d sum[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()}, v[2];
    for (int64_t i = 0; i < n; i += 8) {
        const __m256i mask = fy_lane_mask(n - i);
        widen(v, fy_load_lanes(x + i, n - i));
        const __m256d low =
            _mm256_and_pd(_mm256_sub_pd(v[0], m),
                          _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(mask))));
        const __m256d high = _mm256_and_pd(
            _mm256_sub_pd(v[1], m),
            _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(mask, 1))));
        sum[0] = _mm256_add_pd(sum[0], _mm256_mul_pd(low, low));
        sum[1] = _mm256_add_pd(sum[1], _mm256_mul_pd(high, high));
    }
    return sum_of(sum) / (double)n;
}

void fy_layer_norm__avx2(float *y, const float *x, const float *w, const float *bias, int64_t n,
                         float eps)
{
    const double mean = mean_of(x, n);
    const double variance = variance_of(x, n, mean);
    const __m256 m = _mm256_set1_ps((float)mean);
    const __m256 s = _mm256_set1_ps((float)(1.0 / sqrt(variance + (double)eps)));
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 scaled = _mm256_mul_ps(_mm256_sub_ps(fy_load_lanes(x + i, n - i), m), s);
        __m256 v = _mm256_mul_ps(scaled, fy_load_lanes(w + i, n - i));
        if (bias != NULL)
            v = _mm256_add_ps(v, fy_load_lanes(bias + i, n - i));
        fy_store_lanes(y + i, v, n - i);
    }
}

void fy_silu_mul__avx2(float *x, const float *up, int64_t n)
{
    const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 v = fy_load_lanes(x + i, n - i);
        __m256 f = _mm256_div_ps(v, _mm256_add_ps(one, fy_exp8(_mm256_xor_ps(v, sign))));
        if (up != NULL)
            f = _mm256_mul_ps(f, fy_load_lanes(up + i, n - i));
        fy_store_lanes(x + i, f, n - i);
    }
}

FY_INLINE __m256 polynomial(const float c[FY_ERF_TERMS], __m256 x)
{
    __m256 p = _mm256_set1_ps(c[0]);
    FY_UNROLL
    for (int i = 1; i < FY_ERF_TERMS; i++)
        p = _mm256_fmadd_ps(p, x, _mm256_set1_ps(c[i]));
    return p;
}

/* fy_erf of eight floats: both of its cases, then a choice. */
FY_INLINE __m256 erf8(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    const __m256 z = fy_abs(x);
    const __m256 inner = _mm256_fmadd_ps(polynomial(fy_erf_p, _mm256_mul_ps(x, x)), x, x);
    /* the constant comes first: min gives its second operand when one is NaN */
    const __m256 end = _mm256_min_ps(_mm256_set1_ps(4.0f), z);
    const __m256 tail = fy_exp8(_mm256_xor_ps(sign, _mm256_mul_ps(end, polynomial(fy_erf_q, end))));
    const __m256 outer = _mm256_or_ps(_mm256_sub_ps(one, tail), _mm256_and_ps(x, sign));
    return _mm256_blendv_ps(outer, inner, _mm256_cmp_ps(z, one, _CMP_LT_OQ));
}

void fy_gelu_mul__avx2(float *x, const float *up, int64_t n)
{
    const __m256 one = _mm256_set1_ps(1.0f), half = _mm256_set1_ps(0.5f);
    const __m256 to_erf = _mm256_set1_ps(0.707106781f);
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 v = fy_load_lanes(x + i, n - i);
        __m256 f = _mm256_mul_ps(_mm256_mul_ps(half, v),
                                 _mm256_add_ps(one, erf8(_mm256_mul_ps(v, to_erf))));
        if (up != NULL)
            f = _mm256_mul_ps(f, fy_load_lanes(up + i, n - i));
        fy_store_lanes(x + i, f, n - i);
    }
}

void fy_gelu_tanh_mul__avx2(float *x, const float *up, int64_t n)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 v = fy_load_lanes(x + i, n - i);
        const __m256 u =
            _mm256_mul_ps(v, _mm256_fmadd_ps(_mm256_mul_ps(v, v), _mm256_set1_ps(-7.13548163e-2f),
                                             _mm256_set1_ps(-1.59576912f)));
        __m256 f = _mm256_div_ps(v, _mm256_add_ps(one, fy_exp8(u)));
        if (up != NULL)
            f = _mm256_mul_ps(f, fy_load_lanes(up + i, n - i));
        fy_store_lanes(x + i, f, n - i);
    }
}

void fy_softcap__avx2(float *x, int64_t n, float cap)
{
    const __m256 one = _mm256_set1_ps(1.0f), two = _mm256_set1_ps(2.0f);
    const __m256 rate = _mm256_set1_ps(2.0f / cap);
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 e = fy_exp8(_mm256_mul_ps(fy_load_lanes(x + i, n - i), rate));
        const __m256 tanh8 = _mm256_sub_ps(one, _mm256_div_ps(two, _mm256_add_ps(one, e)));
        fy_store_lanes(x + i, _mm256_mul_ps(_mm256_set1_ps(cap), tanh8), n - i);
    }
}

/* --- f16 and bf16 ---------------------------------------------------------------------------- */

/* f16 and bf16 rows: bound by memory. F16C rounds and treats NaN exactly as
 * scalar/elementwise_scalar.c does; the last few values of a row go through its functions. */

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

/* --- errors ---------------------------------------------------------------------------------- */

/* The errors of encoded rows: bound by arithmetic in double, some 24 operations for
 * 8 elements. */

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
    if (i < n) { /* lanes after the row add 0 */
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
