/* Attention over a chunk of keys, for four queries or one.
 *
 * Four queries share the loads of a key or value and its widening to f32; missing ones repeat the
 * last, which computes and stores the same twice. Eight accumulators keep both multiply-add ports
 * busy: two keys of four queries, or 16 elements of four sums. One query alone is bound by reading
 * the cache and takes eight keys, or 64 elements, at a time. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/x86/attend_rows.h"
#include "kernels/x86/lanes_avx2.h"
#include "kernels/scalar/exp_lanes.h"

/* n vectors of a row from element i on, n a constant; of the last one `lanes` are there, zeros
 * after them. */
typedef void load_fn(__m256 *v, const uint8_t *row, int64_t i, int n, int64_t lanes);

FY_INLINE void load_f32(__m256 *v, const uint8_t *row, int64_t i, int n, int64_t lanes)
{
    const uint8_t *p = row + 4 * i;
    FY_UNROLL
    for (int k = 0; k < n; k++, p += 32)
        v[k] = k < n - 1 || lanes >= 8 ? _mm256_castsi256_ps(fy_load256(p))
                                       : fy_load_lanes((const float *)(const void *)p, lanes);
}

FY_INLINE void load_f16(__m256 *v, const uint8_t *row, int64_t i, int n, int64_t lanes)
{
    const uint8_t *p = row + 2 * i;
    uint16_t rest[8] = {0};
    if (lanes < 8)
        memcpy(rest, p + 16 * (n - 1), (size_t)lanes * sizeof rest[0]);
    FY_UNROLL
    for (int k = 0; k < n; k++, p += 16)
        v[k] = fy_widen_f16(k < n - 1 || lanes >= 8 ? (const void *)p : rest);
}

/* i is a multiple of 8 n, and of 32 when n is above 4. */
FY_INLINE void load_q8_0(__m256 *v, const uint8_t *row, int64_t i, int n, int64_t lanes)
{
    (void)lanes; /* a row has whole blocks */
    const uint8_t *block = row + i / FY_QK * (int64_t)sizeof(fy_block_q8_0);
    const uint8_t *quants = block + offsetof(fy_block_q8_0, qs) + i % FY_QK;
    __m256 d = _mm256_setzero_ps();
    FY_UNROLL
    for (int k = 0; k < n; k++) {
        const size_t at = (size_t)(k / 4) * sizeof(fy_block_q8_0);
        if (k % 4 == 0) {
            short half;
            memcpy(&half, block + at, sizeof half);
            d = _mm256_cvtph_ps(_mm_set1_epi16(half));
        }
        const __m128i bytes =
            _mm_loadl_epi64((const __m128i *)(const void *)(quants + at + 8 * (k % 4)));
        v[k] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
    }
}

/* --- dot products ---------------------------------------------------------------------------- */

/* u[l] = lane[l] + lane[l + 4] of a below, of b above. */
FY_INLINE __m256 add_halves(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

/* (u[0] + u[2]) + (u[1] + u[3]) of each u of four such vectors. */
FY_INLINE __m256 add_u(__m256 a, __m256 b, __m256 c, __m256 d)
{
    const __m256d a2 = _mm256_castps_pd(a), b2 = _mm256_castps_pd(b);
    const __m256d c2 = _mm256_castps_pd(c), d2 = _mm256_castps_pd(d);
    const __m256 ab = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a2, b2)),
                                    _mm256_castpd_ps(_mm256_unpackhi_pd(a2, b2)));
    const __m256 cd = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(c2, d2)),
                                    _mm256_castpd_ps(_mm256_unpackhi_pd(c2, d2)));
    return _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x88), _mm256_shuffle_ps(ab, cd, 0xdd));
}

/* Continues the products of two keys with four queries over eight elements from i on. */
FY_INLINE void two_by_four_step(__m256 acc[2][4], const uint8_t *k0, const uint8_t *k1,
                                const float *const q[4], int64_t i, int64_t lanes, load_fn *load)
{
    __m256 a, b;
    load(&a, k0, i, 1, lanes);
    load(&b, k1, i, 1, lanes);
    FY_UNROLL
    for (int c = 0; c < 4; c++) {
        const __m256 v = _mm256_loadu_ps(q[c] + i);
        acc[0][c] = _mm256_fmadd_ps(a, v, acc[0][c]);
        acc[1][c] = _mm256_fmadd_ps(b, v, acc[1][c]);
    }
}

/* The dot products of one key with four queries below, of another above. */
FY_INLINE __m256 two_by_four(const uint8_t *k0, const uint8_t *k1, const float *const q[4],
                             int64_t dim, load_fn *load)
{
    __m256 acc[2][4];
    FY_UNROLL
    for (int c = 0; c < 8; c++)
        acc[c / 4][c % 4] = _mm256_setzero_ps();
    int64_t i = 0;
    for (; i + 8 <= dim; i += 8)
        two_by_four_step(acc, k0, k1, q, i, 8, load);
    if (i < dim)
        two_by_four_step(acc, k0, k1, q, i, dim - i, load);
    return add_u(add_halves(acc[0][0], acc[1][0]), add_halves(acc[0][1], acc[1][1]),
                 add_halves(acc[0][2], acc[1][2]), add_halves(acc[0][3], acc[1][3]));
}

/* s[c][0..7], of which n are stored, for four queries. */
FY_INLINE void eight_by_four(float *const s[4], const fy_key_rows *k, int64_t n,
                             const float *const q[4], int64_t dim, load_fn *load)
{
    __m256 pair[4], m[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++) /* keys i and i + 4: then the halves are in place */
        pair[i] = two_by_four(k->p[i], k->p[i + 4], q, dim, load);
    m[0] = _mm256_unpacklo_ps(pair[0], pair[1]);
    m[1] = _mm256_unpackhi_ps(pair[0], pair[1]);
    m[2] = _mm256_unpacklo_ps(pair[2], pair[3]);
    m[3] = _mm256_unpackhi_ps(pair[2], pair[3]);
    FY_UNROLL
    for (int c = 0; c < 4; c++) {
        const __m256d a = _mm256_castps_pd(m[c / 2]), b = _mm256_castps_pd(m[c / 2 + 2]);
        const __m256d v = c % 2 == 0 ? _mm256_unpacklo_pd(a, b) : _mm256_unpackhi_pd(a, b);
        fy_store_lanes(s[c], _mm256_castpd_ps(v), n);
    }
}

FY_INLINE void eight_by_one_step(__m256 acc[8], const fy_key_rows *k, const float *q, int64_t i,
                                 int64_t lanes, load_fn *load)
{
    const __m256 v = _mm256_loadu_ps(q + i);
    FY_UNROLL
    for (int r = 0; r < 8; r++) {
        __m256 w;
        load(&w, k->p[r], i, 1, lanes);
        acc[r] = _mm256_fmadd_ps(w, v, acc[r]);
    }
}

FY_INLINE void eight_by_one(float *s, const fy_key_rows *k, int64_t n, const float *q, int64_t dim,
                            load_fn *load)
{
    __m256 acc[8];
    FY_UNROLL
    for (int r = 0; r < 8; r++)
        acc[r] = _mm256_setzero_ps();
    int64_t i = 0;
    for (; i + 8 <= dim; i += 8)
        eight_by_one_step(acc, k, q, i, 8, load);
    if (i < dim)
        eight_by_one_step(acc, k, q, i, dim - i, load);
    const __m256 sums = add_u(add_halves(acc[0], acc[4]), add_halves(acc[1], acc[5]),
                              add_halves(acc[2], acc[6]), add_halves(acc[3], acc[7]));
    fy_store_lanes(s, sums, n);
}

FY_INLINE void dots(float *s, const float *q, int64_t n_queries, const uint8_t *K, int64_t n_keys,
                    int64_t dim, size_t row_bytes, load_fn *load)
{
    const int64_t padded = (dim + 7) & ~(int64_t)7;
    for (int64_t i = 0; i < n_queries; i += 4) {
        const float *x[4];
        float *out[4];
        FY_UNROLL
        for (int c = 0; c < 4; c++) {
            const int64_t at = i + c < n_queries ? i + c : n_queries - 1;
            x[c] = q + at * padded;
            out[c] = s + at * FY_ATTEND_CHUNK;
        }
        for (int64_t j = 0; j < n_keys; j += 8) {
            const fy_key_rows k = fy_key_rows_at(K + (size_t)j * row_bytes, row_bytes, n_keys - j);
            if (i == 0)
                fy_prefetch_chunk(k.p[0], 8 * row_bytes, row_bytes);
            if (n_queries - i == 1) {
                eight_by_one(out[0] + j, &k, n_keys - j, x[0], dim, load);
            } else {
                float *const to[4] = {out[0] + j, out[1] + j, out[2] + j, out[3] + j};
                eight_by_four(to, &k, n_keys - j, x, dim, load);
            }
        }
    }
}

FY_DEFINE_ATTEND_DOTS(avx2, f32, 4 * (size_t)dim, load_f32)
FY_DEFINE_ATTEND_DOTS(avx2, f16, 2 * (size_t)dim, load_f16)
/* --- softmax --------------------------------------------------------------------------------- */

/* Lanes of the eight positions from j on that lie in begin .. end-1. */
FY_INLINE __m256 inside(int j, int begin, int end)
{
    return _mm256_castsi256_ps(_mm256_andnot_si256(fy_lane_mask(begin - j), fy_lane_mask(end - j)));
}

/* Sets the maximum and the factor of a query; positions outside become -infinity. */
FY_INLINE void find_maximum(float *s, int begin, int end, float scale, float cap, fy_softmax *state)
{
    for (int j = 0; j < FY_ATTEND_CHUNK; j += 8)
        _mm256_storeu_ps(s + j, _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_loadu_ps(s + j)));
    if (cap != 0)
        fy_softcap__avx2(s + begin, end - begin, cap);
    for (int j = 0; j < FY_ATTEND_CHUNK && (begin > 0 || end < FY_ATTEND_CHUNK); j += 8)
        _mm256_storeu_ps(s + j, _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_loadu_ps(s + j),
                                                 inside(j, begin, end)));
    __m256 top = _mm256_set1_ps(state->max);
    for (int j = 0; j < FY_ATTEND_CHUNK; j += 8)
        top = _mm256_max_ps(_mm256_loadu_ps(s + j), top); /* the second operand when one is NaN */
    const float max = fy_hmax(top);
    state->factor = max > state->max ? fy_exp(state->max - max) : 1.0f;
    state->max = max;
}

FY_INLINE void exponentiate(float *s, int begin, int end, float max)
{
    const bool whole = begin == 0 && end == FY_ATTEND_CHUNK;
    const __m256 shift = _mm256_set1_ps(max == -INFINITY ? 0.0f : max);
    for (int j = 0; j < FY_ATTEND_CHUNK; j += 8) {
        const __m256 p = fy_l_exp(_mm256_sub_ps(_mm256_loadu_ps(s + j), shift));
        _mm256_storeu_ps(s + j, whole ? p : _mm256_and_ps(p, inside(j, begin, end)));
    }
}

FY_INLINE float sum_of(const float *p)
{
    __m256 sum = _mm256_setzero_ps();
    for (int j = 0; j < FY_ATTEND_CHUNK; j += 8)
        sum = _mm256_add_ps(sum, _mm256_loadu_ps(p + j));
    return fy_hsum(sum);
}

/* Maxima and sums are chains of latencies: step by step for all queries, those of one overlap with
 * those of the others. */
void fy_attend_softmax__avx2(float *s, int64_t n_queries, int begin, int end, float scale,
                             float cap, fy_softmax *state)
{
    for (int64_t i = 0; i < n_queries; i++)
        find_maximum(s + i * FY_ATTEND_CHUNK, begin, end, scale, cap, &state[i]);
    for (int64_t i = 0; i < n_queries; i++)
        exponentiate(s + i * FY_ATTEND_CHUNK, begin, end, state[i].max);
    for (int64_t i = 0; i < n_queries; i++)
        state[i].sum =
            state[i].sum * (double)state[i].factor + (double)sum_of(s + i * FY_ATTEND_CHUNK);
}

/* --- sums of values -------------------------------------------------------------------------- */

/* n vectors of four sums or one, from element i on, both numbers constants. */
FY_INLINE void add_strip(float *const acc[4], const float *const p[4], int n_queries,
                         const uint8_t *V, int64_t n_keys, size_t row_bytes, int64_t i, int n,
                         int64_t lanes, load_fn *load)
{
    __m256 sum[4][8];
    FY_UNROLL
    for (int c = 0; c < n_queries; c++) {
        FY_UNROLL
        for (int k = 0; k < n; k++)
            sum[c][k] = fy_load_lanes(acc[c] + i + 8 * k, k < n - 1 ? 8 : lanes);
    }
    for (int64_t j = 0; j < n_keys; j++, V += row_bytes) {
        __m256 v[8];
        if (i == 0)
            fy_prefetch_chunk(V, row_bytes, row_bytes);
        load(v, V, i, n, lanes);
        FY_UNROLL
        for (int c = 0; c < n_queries; c++) {
            const __m256 weight = _mm256_set1_ps(p[c][j]);
            FY_UNROLL
            for (int k = 0; k < n; k++)
                sum[c][k] = _mm256_fmadd_ps(weight, v[k], sum[c][k]);
        }
    }
    FY_UNROLL
    for (int c = 0; c < n_queries; c++) {
        FY_UNROLL
        for (int k = 0; k < n; k++)
            fy_store_lanes(acc[c] + i + 8 * k, sum[c][k], k < n - 1 ? 8 : lanes);
    }
}

FY_INLINE void add(float *acc, const float *p, int64_t n_queries, const uint8_t *V, int64_t n_keys,
                   int64_t dim, size_t row_bytes, load_fn *load)
{
    for (int64_t first = 0; first < n_queries; first += 4) {
        float *to[4];
        const float *from[4];
        FY_UNROLL
        for (int c = 0; c < 4; c++) {
            const int64_t at = first + c < n_queries ? first + c : n_queries - 1;
            to[c] = acc + at * dim;
            from[c] = p + at * FY_ATTEND_CHUNK;
        }
        int64_t i = 0;
        if (n_queries - first == 1) {
            for (; i + 64 <= dim; i += 64)
                add_strip(to, from, 1, V, n_keys, row_bytes, i, 8, 8, load);
            for (; i < dim; i += 8)
                add_strip(to, from, 1, V, n_keys, row_bytes, i, 1, dim - i, load);
        } else {
            for (; i + 16 <= dim; i += 16)
                add_strip(to, from, 4, V, n_keys, row_bytes, i, 2, 8, load);
            for (; i < dim; i += 8)
                add_strip(to, from, 4, V, n_keys, row_bytes, i, 1, dim - i, load);
        }
    }
}

FY_DEFINE_ATTEND_ADD(avx2, f32, 4 * (size_t)dim, load_f32)
FY_DEFINE_ATTEND_ADD(avx2, f16, 2 * (size_t)dim, load_f16)
void fy_attend_add_q8_0__avx2(float *acc, const float *p, int64_t n_queries, const void *V,
                              int64_t n_keys, int64_t dim)
{
    const size_t row_bytes = (size_t)dim / FY_QK * sizeof(fy_block_q8_0);
    add(acc, p, n_queries, V, n_keys, dim, row_bytes, load_q8_0);
}
