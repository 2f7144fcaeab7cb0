/* Attention of one query head: bound by reading K and V once. Scores of four keys at a time share
 * the query's loads; the weighted sum keeps 64 output elements in registers and walks the keys in
 * order. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/x86/exp_avx2.h"

/* Elements 0 .. n-1 (at most 8) of a cache row from index i on; zeros behind them. */
typedef __m256 load_fn(const void *cache, int64_t i, int64_t n);

FY_INLINE __m256 load_f32(const void *cache, int64_t i, int64_t n)
{
    const float *p = (const float *)cache + i;
    return n >= 8 ? _mm256_loadu_ps(p) : fy_load_lanes(p, n);
}

FY_INLINE __m256 load_f16(const void *cache, int64_t i, int64_t n)
{
    const uint16_t *p = (const uint16_t *)cache + i;
    if (n >= 8)
        return fy_widen_f16(p);
    uint16_t rest[8] = {0};
    memcpy(rest, p, (size_t)n * sizeof *p);
    return fy_widen_f16(rest);
}

/* Dot products of the query with n keys, a constant, `stride` elements apart. */
FY_INLINE void key_dots(float *scores, const float *q, const void *K, int64_t at, int64_t stride,
                        int head_dim, float scale, int n, load_fn *load)
{
    __m256 acc[4];
    FY_UNROLL
    for (int j = 0; j < n; j++)
        acc[j] = _mm256_setzero_ps();
    int64_t i = 0;
    for (; i + 8 <= head_dim; i += 8) {
        const __m256 v = _mm256_loadu_ps(q + i);
        FY_UNROLL
        for (int j = 0; j < n; j++)
            acc[j] = _mm256_fmadd_ps(v, load(K, at + j * stride + i, 8), acc[j]);
    }
    if (i < head_dim) {
        const __m256 v = fy_load_lanes(q + i, head_dim - i);
        FY_UNROLL
        for (int j = 0; j < n; j++)
            acc[j] = _mm256_fmadd_ps(v, load(K, at + j * stride + i, head_dim - i), acc[j]);
    }
    FY_UNROLL
    for (int j = 0; j < n; j++)
        scores[j] = scale * fy_hsum(acc[j]);
}

/* scores -> exp(score - max); returns their sum, taken in a double per lane. */
static double softmax_terms(float *scores, int64_t n)
{
    float max = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        max = scores[j] > max ? scores[j] : max;
    const __m256 shift = _mm256_set1_ps(max);
    __m256d sum[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    for (int64_t j = 0; j < n; j += 8) {
        const __m256 e = fy_exp8(_mm256_sub_ps(fy_load_lanes(scores + j, n - j), shift));
        const __m256 kept = _mm256_and_ps(e, _mm256_castsi256_ps(fy_lane_mask(n - j)));
        fy_store_lanes(scores + j, kept, n - j);
        sum[0] = _mm256_add_pd(sum[0], _mm256_cvtps_pd(_mm256_castps256_ps128(kept)));
        sum[1] = _mm256_add_pd(sum[1], _mm256_cvtps_pd(_mm256_extractf128_ps(kept, 1)));
    }
    double part[4];
    _mm256_storeu_pd(part, _mm256_add_pd(sum[0], sum[1]));
    return (part[0] + part[1]) + (part[2] + part[3]);
}

/* out[0 .. 8n) = sum of p[j] * V[j] over the keys, n vectors, a constant; `lanes` are used of the
 * last one. */
FY_INLINE void weighted_sum(float *out, const float *p, const void *V, int64_t at, int64_t stride,
                            int64_t n_keys, float inverse, int n, int64_t lanes, load_fn *load)
{
    __m256 acc[8];
    FY_UNROLL
    for (int i = 0; i < n; i++)
        acc[i] = _mm256_setzero_ps();
    for (int64_t j = 0; j < n_keys; j++) {
        const __m256 weight = _mm256_set1_ps(p[j]);
        FY_UNROLL
        for (int i = 0; i < n; i++) {
            const __m256 v = load(V, at + j * stride + 8 * i, i == n - 1 ? lanes : 8);
            acc[i] = _mm256_fmadd_ps(weight, v, acc[i]);
        }
    }
    FY_UNROLL
    for (int i = 0; i < n; i++)
        fy_store_lanes(out + 8 * i, _mm256_mul_ps(acc[i], _mm256_set1_ps(inverse)),
                       i == n - 1 ? lanes : 8);
}

FY_INLINE void attend(float *out, const float *q, const void *K, const void *V, int64_t n_keys,
                      int head_dim, int head_dim_v, int64_t k_stride, int64_t v_stride, float scale,
                      float cap, float *scores, load_fn *load)
{
    int64_t j = 0;
    for (; j + 4 <= n_keys; j += 4)
        key_dots(scores + j, q, K, j * k_stride, k_stride, head_dim, scale, 4, load);
    for (; j < n_keys; j++)
        key_dots(scores + j, q, K, j * k_stride, k_stride, head_dim, scale, 1, load);
    if (cap != 0)
        fy_softcap__avx2(scores, n_keys, cap);

    const float inverse = (float)(1.0 / softmax_terms(scores, n_keys));
    int i = 0;
    for (; i + 64 <= head_dim_v; i += 64)
        weighted_sum(out + i, scores, V, i, v_stride, n_keys, inverse, 8, 8, load);
    for (; i + 8 <= head_dim_v; i += 8)
        weighted_sum(out + i, scores, V, i, v_stride, n_keys, inverse, 1, 8, load);
    if (i < head_dim_v)
        weighted_sum(out + i, scores, V, i, v_stride, n_keys, inverse, 1, head_dim_v - i, load);
}

void fy_attend_f32__avx2(float *out, const float *q, const void *K, const void *V, int64_t n_keys,
                         int head_dim, int head_dim_v, int64_t k_stride, int64_t v_stride,
                         float scale, float cap, float *scores)
{
    attend(out, q, K, V, n_keys, head_dim, head_dim_v, k_stride, v_stride, scale, cap, scores,
           load_f32);
}

void fy_attend_f16__avx2(float *out, const float *q, const void *K, const void *V, int64_t n_keys,
                         int head_dim, int head_dim_v, int64_t k_stride, int64_t v_stride,
                         float scale, float cap, float *scores)
{
    attend(out, q, K, V, n_keys, head_dim, head_dim_v, k_stride, v_stride, scale, cap, scores,
           load_f16);
}
