/* Norm and gate of a decoder block: bound by reading their rows from cache. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/x86/exp_avx2.h"

/* Adds the squares of 8 floats to two vectors of doubles. */
FY_INLINE void add_squares(__m256d sum[2], __m256 v)
{
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    sum[0] = _mm256_fmadd_pd(low, low, sum[0]);
    sum[1] = _mm256_fmadd_pd(high, high, sum[1]);
}

void fy_rms_norm__avx2(float *y, const float *x, const float *w, int64_t n, float eps)
{
    __m256d squares[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    for (int64_t i = 0; i < n; i += 8)
        add_squares(squares, fy_load_lanes(x + i, n - i));
    double part[4];
    _mm256_storeu_pd(part, _mm256_add_pd(squares[0], squares[1]));
    const double sum = (part[0] + part[1]) + (part[2] + part[3]);
    const __m256 s = _mm256_set1_ps((float)(1.0 / sqrt(sum / (double)n + (double)eps)));
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 scaled = _mm256_mul_ps(fy_load_lanes(x + i, n - i), s);
        fy_store_lanes(y + i, _mm256_mul_ps(scaled, fy_load_lanes(w + i, n - i)), n - i);
    }
}

void fy_silu_mul__avx2(float *gate, const float *up, int64_t n)
{
    const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 g = fy_load_lanes(gate + i, n - i);
        const __m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, fy_exp8(_mm256_xor_ps(g, sign))));
        fy_store_lanes(gate + i, _mm256_mul_ps(silu, fy_load_lanes(up + i, n - i)), n - i);
    }
}
