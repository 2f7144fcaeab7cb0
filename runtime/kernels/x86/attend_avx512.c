/* Attention over a chunk of keys in AVX-512: for two or more queries, and values of q8_0 for one;
 * what else a single query needs is bound by reading the cache, which AVX2 does as fast.
 *
 * Four queries share the loads of eight keys, and of 64 elements of a value: 16 sums in registers.
 * Many share keys that are transposed once and values that are widened once, two take half of the
 * sums, and a missing one repeats the last. The softmax is here for any number of queries. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/x86/attend_rows.h"
#include "kernels/x86/lanes_avx512.h"
#include "kernels/scalar/exp_lanes.h"

enum {
    FEW = 4,        /* queries, which go over the values as they are stored */
    MANY = 13,      /* queries for which keys are transposed */
    MOST_DIM = 256, /* of a row that is widened once */
    STRIP = 64,     /* elements of a value at once */
};

/* --- dot products of a few queries ----------------------------------------------------------- */

/* The contract's 8 lanes are half a register; the other half belongs to the key four rows on. */

/* Eight elements of a row, and of the row four keys on. */
typedef __m512 pair_fn(const uint8_t *low, const uint8_t *high, int64_t e);

FY_INLINE __m512 pair_f32(const uint8_t *low, const uint8_t *high, int64_t e)
{
    const __m256 a = _mm256_loadu_ps((const float *)(const void *)low + e);
    const __m256 b = _mm256_loadu_ps((const float *)(const void *)high + e);
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}

FY_INLINE __m512 pair_f16(const uint8_t *low, const uint8_t *high, int64_t e)
{
    const __m256i a = _mm256_castsi128_si256(fy_load128(low + 2 * e));
    return _mm512_cvtph_ps(_mm256_inserti128_si256(a, fy_load128(high + 2 * e), 1));
}

/* Halves a and b of four keys  ->  u[l] = lane[l] + lane[l + 4] of keys 0, 4, 1, 5. */
FY_INLINE __m512 add_halves(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* Of each four lanes u of a, b, c and d: (u[0] + u[2]) + (u[1] + u[3]), side by side. */
FY_INLINE __m512 add_u(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512d a2 = _mm512_castps_pd(a), b2 = _mm512_castps_pd(b);
    const __m512d c2 = _mm512_castps_pd(c), d2 = _mm512_castps_pd(d);
    const __m512 ab = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a2, b2)),
                                    _mm512_castpd_ps(_mm512_unpackhi_pd(a2, b2)));
    const __m512 cd = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(c2, d2)),
                                    _mm512_castpd_ps(_mm512_unpackhi_pd(c2, d2)));
    return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x88), _mm512_shuffle_ps(ab, cd, 0xdd));
}

/* s[c][0..7], of which n are stored, for n_queries, two or four. */
FY_INLINE void eight_keys(float *const s[4], const fy_key_rows *k, int64_t n,
                          const float *const q[4], int n_queries, int64_t dim, pair_fn *pair)
{
    const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 4, 12, 5, 13, 2, 10, 3, 11, 6, 14, 7, 15);
    __m512 acc[4][4];
    FY_UNROLL
    for (int i = 0; i < 4 * n_queries; i++)
        acc[i / 4][i % 4] = _mm512_setzero_ps();
    for (int64_t e = 0; e < dim; e += 8) {
        __m512 key[4];
        FY_UNROLL
        for (int i = 0; i < 4; i++)
            key[i] = pair(k->p[i], k->p[i + 4], e);
        FY_UNROLL
        for (int c = 0; c < n_queries; c++) {
            const __m512 v = _mm512_broadcast_f32x8(_mm256_loadu_ps(q[c] + e));
            FY_UNROLL
            for (int i = 0; i < 4; i++)
                acc[c][i] = _mm512_fmadd_ps(key[i], v, acc[c][i]);
        }
    }
    FY_UNROLL
    for (int c = 0; c < n_queries; c += 2) {
        const __m512 sums = add_u(
            add_halves(acc[c][0], acc[c][1]), add_halves(acc[c][2], acc[c][3]),
            add_halves(acc[c + 1][0], acc[c + 1][1]), add_halves(acc[c + 1][2], acc[c + 1][3]));
        const __m512 both = _mm512_permutexvar_ps(order, sums);
        fy_store_lanes(s[c], _mm512_castps512_ps256(both), n);
        fy_store_lanes(s[c + 1], _mm512_extractf32x8_ps(both, 1), n);
    }
}

/* Over the rows as they are stored, n_queries at once, two or four. */
FY_INLINE void dots_few(float *s, const float *q, int64_t n, int n_queries, const uint8_t *K,
                        int64_t n_keys, int64_t dim, size_t row_bytes, pair_fn *pair)
{
    for (int64_t first = 0; first < n; first += n_queries) {
        const float *x[4];
        float *out[4];
        FY_UNROLL
        for (int c = 0; c < n_queries; c++) {
            const int64_t at = first + c < n ? first + c : n - 1;
            x[c] = q + at * dim;
            out[c] = s + at * FY_ATTEND_CHUNK;
        }
        for (int64_t j = 0; j < n_keys; j += 8) {
            const fy_key_rows k = fy_key_rows_at(K + (size_t)j * row_bytes, row_bytes, n_keys - j);
            float *to[4];
            FY_UNROLL
            for (int c = 0; c < n_queries; c++)
                to[c] = out[c] + j;
            if (first == 0)
                fy_prefetch_chunk(k.p[0], 8 * row_bytes, row_bytes);
            eight_keys(to, &k, n_keys - j, x, n_queries, dim, pair);
        }
    }
}

/* --- dot products of many queries ------------------------------------------------------------ */

/* Here a lane is a key, and the contract's lanes come one after the other: lane l is a sum over the
 * elements l, l + 8, ... Adding them up takes 7 additions for 16 products and no permutation; the
 * kernel above takes 23 instructions. For that the keys are transposed once, which takes as long as
 * the multiply-adds of six queries on Zen 4. */

/* Keys of a chunk, [element][key]. */
typedef struct {
    _Alignas(64) float at[MOST_DIM * FY_ATTEND_CHUNK];
} columns;

/* 32 keys from key j on. Missing keys repeat the last. */
typedef void transpose_fn(columns *to, const uint8_t *K, int64_t j, int64_t n_keys, int64_t dim);

/* 16 bytes of each row from `offset` on; v[i]: their bytes 4i .. 4i+3, a row in a lane. */
FY_INLINE void sixteen_rows(__m512i v[4], const uint8_t *const rows[16], size_t offset)
{
    __m512i r[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_castsi128_si512(fy_load128(rows[i] + offset));
        r[i] = _mm512_inserti32x4(r[i], fy_load128(rows[i + 4] + offset), 1);
        r[i] = _mm512_inserti32x4(r[i], fy_load128(rows[i + 8] + offset), 2);
        r[i] = _mm512_inserti32x4(r[i], fy_load128(rows[i + 12] + offset), 3);
    }
    const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
    const __m512i c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
    v[0] = _mm512_unpacklo_epi64(a, c);
    v[1] = _mm512_unpackhi_epi64(a, c);
    v[2] = _mm512_unpacklo_epi64(b, d);
    v[3] = _mm512_unpackhi_epi64(b, d);
}

FY_INLINE void transpose_f32(columns *to, const uint8_t *K, int64_t j, int64_t n_keys, int64_t dim)
{
    const size_t row_bytes = 4 * (size_t)dim;
    for (int64_t half = j; half < j + 32; half += 16) {
        const uint8_t *rows[16];
        for (int i = 0; i < 16; i++)
            rows[i] = K + (size_t)(half + i < n_keys ? half + i : n_keys - 1) * row_bytes;
        for (int64_t e = 0; e < dim; e += 4) {
            __m512i v[4];
            sixteen_rows(v, rows, 4 * (size_t)e);
            FY_UNROLL
            for (int i = 0; i < 4; i++)
                _mm512_store_si512(to->at + (e + i) * FY_ATTEND_CHUNK + half, v[i]);
        }
    }
}

FY_INLINE void store_wide(float *to, __m512i halves)
{
    _mm512_store_ps(to, _mm512_cvtph_ps(_mm512_castsi512_si256(halves)));
    _mm512_store_ps(to + 16, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)));
}

FY_INLINE void transpose_f16(columns *to, const uint8_t *K, int64_t j, int64_t n_keys, int64_t dim)
{
    const size_t row_bytes = 2 * (size_t)dim;
    const uint8_t *rows[2][16]; /* the even ones, the odd ones */
    for (int i = 0; i < 32; i++)
        rows[i % 2][i / 2] = K + (size_t)(j + i < n_keys ? j + i : n_keys - 1) * row_bytes;
    for (int64_t e = 0; e < dim; e += 8) {
        __m512i even[4], odd[4];
        sixteen_rows(even, rows[0], 2 * (size_t)e);
        sixteen_rows(odd, rows[1], 2 * (size_t)e);
        FY_UNROLL
        for (int i = 0; i < 4; i++) { /* two elements in a lane */
            float *at = to->at + (e + 2 * i) * FY_ATTEND_CHUNK + j;
            store_wide(at,
                       _mm512_mask_blend_epi16(0xaaaaaaaa, even[i], _mm512_slli_epi32(odd[i], 16)));
            store_wide(at + FY_ATTEND_CHUNK,
                       _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(even[i], 16), odd[i]));
        }
    }
}

enum { GROUPS = FY_ATTEND_CHUNK / 16 };

/* Lane l of the contract, of four queries and all keys. */
FY_INLINE void lane_dots(__m512 acc[4][GROUPS], const columns *k, const float *const q[4],
                         int64_t dim, int l)
{
    FY_UNROLL
    for (int i = 0; i < 4 * GROUPS; i++)
        acc[i / GROUPS][i % GROUPS] = _mm512_setzero_ps();
    const float *key = k->at + l * FY_ATTEND_CHUNK;
    for (int64_t e = l; e < dim; e += 8, key += 8 * FY_ATTEND_CHUNK) {
        __m512 v[GROUPS];
        FY_UNROLL
        for (int g = 0; g < GROUPS; g++)
            v[g] = _mm512_load_ps(key + 16 * g);
        FY_UNROLL
        for (int c = 0; c < 4; c++) {
            const __m512 x = _mm512_set1_ps(q[c][e]);
            FY_UNROLL
            for (int g = 0; g < GROUPS; g++)
                acc[c][g] = _mm512_fmadd_ps(v[g], x, acc[c][g]);
        }
    }
}

/* A statement for each query c and group g. */
#define EACH_SUM(...)                             \
    FY_UNROLL                                     \
    for (int i = 0; i < 4 * GROUPS; i++) {        \
        const int c = i / GROUPS, g = i % GROUPS; \
        __VA_ARGS__;                              \
    }

/* s[c][0 .. n-1] of four queries. */
FY_INLINE void all_keys(float *const s[4], const columns *k, int64_t n, const float *const q[4],
                        int64_t dim)
{
    __m512 acc[4][GROUPS], a[4][GROUPS], b[4][GROUPS], d[4][GROUPS];
    lane_dots(a, k, q, dim, 0);
    lane_dots(acc, k, q, dim, 4);
    EACH_SUM(a[c][g] += acc[c][g]) /* u[0] */
    lane_dots(b, k, q, dim, 2);
    lane_dots(acc, k, q, dim, 6);
    EACH_SUM(a[c][g] += b[c][g] + acc[c][g]) /* u[0] + u[2] */
    lane_dots(b, k, q, dim, 1);
    lane_dots(acc, k, q, dim, 5);
    EACH_SUM(b[c][g] += acc[c][g]) /* u[1] */
    lane_dots(d, k, q, dim, 3);
    lane_dots(acc, k, q, dim, 7);
    EACH_SUM(acc[c][g] = a[c][g] + (b[c][g] + (d[c][g] + acc[c][g])))
    const uint64_t there = n == FY_ATTEND_CHUNK ? UINT64_MAX : (UINT64_C(1) << n) - 1;
    EACH_SUM(_mm512_mask_storeu_ps(s[c] + 16 * g, (__mmask16)(there >> (16 * g)), acc[c][g]))
}

FY_INLINE void dots_many(float *s, const float *q, int64_t n, const uint8_t *K, int64_t n_keys,
                         int64_t dim, transpose_fn *transpose)
{
    columns k;
    for (int64_t j = 0; j < FY_ATTEND_CHUNK; j += 32)
        transpose(&k, K, j, n_keys, dim);
    for (int64_t first = 0; first < n; first += 4) {
        const float *x[4];
        float *to[4];
        FY_UNROLL
        for (int c = 0; c < 4; c++) {
            const int64_t at = first + c < n ? first + c : n - 1;
            x[c] = q + at * dim;
            to[c] = s + at * FY_ATTEND_CHUNK;
        }
        all_keys(to, &k, n_keys, x, dim);
    }
}

#define DEFINE_DOTS(type, bytes)                                                          \
    void fy_attend_dots_##type##__avx512(float *s, const float *q, int64_t n_queries,     \
                                         const void *K, int64_t n_keys, int64_t dim)      \
    {                                                                                     \
        const size_t row_bytes = (bytes) * (size_t)dim;                                   \
        if (n_queries == 1 || dim % 8 != 0 || dim > MOST_DIM || n_keys > FY_ATTEND_CHUNK) \
            fy_attend_dots_##type##__avx2(s, q, n_queries, K, n_keys, dim);               \
        else if (n_queries == 2)                                                          \
            dots_few(s, q, 2, 2, K, n_keys, dim, row_bytes, pair_##type);                 \
        else if (n_queries < MANY)                                                        \
            dots_few(s, q, n_queries, 4, K, n_keys, dim, row_bytes, pair_##type);         \
        else                                                                              \
            dots_many(s, q, n_queries, K, n_keys, dim, transpose_##type);                 \
    }

DEFINE_DOTS(f32, 4)
DEFINE_DOTS(f16, 2)

/* --- sums of values -------------------------------------------------------------------------- */

/* n vectors of a row from element i on, a multiple of 16 n; n is a constant. */
typedef void load_fn(__m512 *v, const uint8_t *row, int64_t i, int n);

FY_INLINE void load_f32(__m512 *v, const uint8_t *row, int64_t i, int n)
{
    FY_UNROLL
    for (int k = 0; k < n; k++)
        v[k] = _mm512_loadu_ps(row + 4 * (i + 16 * k));
}

FY_INLINE void load_f16(__m512 *v, const uint8_t *row, int64_t i, int n)
{
    FY_UNROLL
    for (int k = 0; k < n; k++)
        v[k] = _mm512_cvtph_ps(fy_load256(row + 2 * (i + 16 * k)));
}

FY_INLINE void load_q8_0(__m512 *v, const uint8_t *row, int64_t i, int n)
{
    const uint8_t *block = row + i / FY_QK * (int64_t)sizeof(fy_block_q8_0);
    const uint8_t *codes = block + offsetof(fy_block_q8_0, qs) + i % FY_QK;
    __m512 d = _mm512_setzero_ps();
    FY_UNROLL
    for (int k = 0; k < n; k++) {
        const size_t at = (size_t)(k / 2) * sizeof(fy_block_q8_0);
        if (k % 2 == 0) {
            short half;
            memcpy(&half, block + at, sizeof half);
            d = _mm512_cvtph_ps(_mm256_set1_epi16(half));
        }
        const __m512i q = _mm512_cvtepi8_epi32(fy_load128(codes + at + 16 * (k % 2)));
        v[k] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(q));
    }
}

/* n vectors of the sums of n_queries from element i on, both numbers constants. */
FY_INLINE void add_strip(float *const acc[4], const float *const p[4], int n_queries,
                         const uint8_t *V, int64_t n_keys, size_t row_bytes, int64_t i, int n,
                         bool prefetch, load_fn *load)
{
    __m512 sum[4][STRIP / 16];
    FY_UNROLL
    for (int c = 0; c < n_queries; c++) {
        FY_UNROLL
        for (int k = 0; k < n; k++)
            sum[c][k] = _mm512_loadu_ps(acc[c] + i + 16 * k);
    }
    for (int64_t j = 0; j < n_keys; j++, V += row_bytes) {
        __m512 v[STRIP / 16];
        if (prefetch)
            fy_prefetch_chunk(V, row_bytes, row_bytes);
        load(v, V, i, n);
        FY_UNROLL
        for (int c = 0; c < n_queries; c++) {
            const __m512 weight = _mm512_set1_ps(p[c][j]);
            FY_UNROLL
            for (int k = 0; k < n; k++)
                sum[c][k] = _mm512_fmadd_ps(weight, v[k], sum[c][k]);
        }
    }
    FY_UNROLL
    for (int c = 0; c < n_queries; c++) {
        FY_UNROLL
        for (int k = 0; k < n; k++)
            _mm512_storeu_ps(acc[c] + i + 16 * k, sum[c][k]);
    }
}

/* n_queries, one, two or four, of which the first n are there. */
FY_INLINE void add_some(float *acc, const float *p, int64_t n, int n_queries, const uint8_t *V,
                        int64_t n_keys, int64_t dim, size_t row_bytes, bool prefetch, load_fn *load)
{
    float *to[4];
    const float *from[4];
    FY_UNROLL
    for (int c = 0; c < n_queries; c++) {
        const int64_t at = c < n ? c : n - 1;
        to[c] = acc + at * dim;
        from[c] = p + at * FY_ATTEND_CHUNK;
    }
    int64_t i = 0;
    for (; i + STRIP <= dim; i += STRIP)
        add_strip(to, from, n_queries, V, n_keys, row_bytes, i, STRIP / 16, prefetch && i == 0,
                  load);
    for (; i < dim; i += 16)
        add_strip(to, from, n_queries, V, n_keys, row_bytes, i, 1, prefetch && i == 0, load);
}

/* At most FEW queries, and dim a multiple of 16: the rows as they are stored. */
FY_INLINE void add_few(float *acc, const float *p, int64_t n, const uint8_t *V, int64_t n_keys,
                       int64_t dim, size_t row_bytes, load_fn *load)
{
    if (n == 1)
        add_some(acc, p, n, 1, V, n_keys, dim, row_bytes, true, load);
    else if (n == 2)
        add_some(acc, p, n, 2, V, n_keys, dim, row_bytes, true, load);
    else
        add_some(acc, p, n, 4, V, n_keys, dim, row_bytes, true, load);
}

FY_INLINE void add_many(float *acc, const float *p, int64_t n, const float *V, int64_t n_keys,
                        int64_t dim)
{
    for (int64_t first = 0; first < n; first += 4)
        add_some(acc + first * dim, p + first * FY_ATTEND_CHUNK, n - first, 4, (const uint8_t *)V,
                 n_keys, dim, (size_t)dim * sizeof *V, false, load_f32);
}

void fy_attend_add_f32__avx512(float *acc, const float *p, int64_t n_queries, const void *V,
                               int64_t n_keys, int64_t dim)
{
    if (n_queries == 1 || dim % 16 != 0)
        fy_attend_add_f32__avx2(acc, p, n_queries, V, n_keys, dim);
    else if (n_queries <= FEW)
        add_few(acc, p, n_queries, V, n_keys, dim, 4 * (size_t)dim, load_f32);
    else
        add_many(acc, p, n_queries, V, n_keys, dim);
}

void fy_attend_add_f16__avx512(float *acc, const float *p, int64_t n_queries, const void *V,
                               int64_t n_keys, int64_t dim)
{
    if (n_queries == 1 || dim % 16 != 0 || dim > MOST_DIM || n_keys > FY_ATTEND_CHUNK) {
        fy_attend_add_f16__avx2(acc, p, n_queries, V, n_keys, dim);
    } else if (n_queries <= FEW) {
        add_few(acc, p, n_queries, V, n_keys, dim, 2 * (size_t)dim, load_f16);
    } else {
        float wide[FY_ATTEND_CHUNK * MOST_DIM];
        fy_f16_to_f32__avx2(wide, V, n_keys * dim);
        add_many(acc, p, n_queries, wide, n_keys, dim);
    }
}

void fy_attend_add_q8_0__avx512(float *acc, const float *p, int64_t n_queries, const void *V,
                                int64_t n_keys, int64_t dim)
{
    if (n_queries <= FEW) {
        add_few(acc, p, n_queries, V, n_keys, dim, (size_t)dim / FY_QK * sizeof(fy_block_q8_0),
                load_q8_0);
    } else if (dim > MOST_DIM || n_keys > FY_ATTEND_CHUNK) {
        fy_attend_add_q8_0__avx2(acc, p, n_queries, V, n_keys, dim);
    } else {
        float wide[FY_ATTEND_CHUNK * MOST_DIM];
        fy_decode_q8_0__avx2(wide, V, n_keys * dim);
        add_many(acc, p, n_queries, wide, n_keys, dim);
    }
}

/* --- softmax --------------------------------------------------------------------------------- */

enum { STEPS = FY_ATTEND_CHUNK / FY_LANES };

/* Which positions of each step are seen. */
typedef struct {
    fy_lanes_mask at[STEPS];
} seen;

FY_INLINE seen seen_of(int begin, int end)
{
    const uint64_t below = end == FY_ATTEND_CHUNK ? UINT64_MAX : (UINT64_C(1) << end) - 1;
    seen m;
    for (int i = 0; i < STEPS; i++)
        m.at[i] = (fy_lanes_mask)(below >> begin << begin >> (i * (int)FY_LANES));
    return m;
}

/* Scores of a query to scale * s, its maximum and factor set. */
FY_INLINE void find_maximum(float *s, int begin, int end, const seen *m, float scale, float cap,
                            fy_softmax *state)
{
    fy_lanes v[STEPS], top = fy_l_set(state->max);
    FY_UNROLL
    for (int i = 0; i < STEPS; i++) {
        v[i] = fy_l_set(scale) * fy_l_load(s + i * (int)FY_LANES);
        fy_l_store(s + i * (int)FY_LANES, v[i]);
    }
    if (cap != 0)
        fy_softcap__avx2(s + begin, end - begin, cap);
    FY_UNROLL
    for (int i = 0; i < STEPS; i++) {
        if (cap != 0)
            v[i] = fy_l_load(s + i * (int)FY_LANES);
        top = fy_l_max(fy_l_select(m->at[i], v[i], fy_l_set(-INFINITY)), top); /* top where NaN */
    }
    const float max =
        fy_hmax(_mm256_max_ps(_mm512_castps512_ps256(top), _mm512_extractf32x8_ps(top, 1)));
    state->factor = 1.0f;
    if (max > state->max) {
        const fy_lanes factor = fy_l_exp(fy_l_set(state->max - max));
        state->factor = _mm256_cvtss_f32(_mm512_castps512_ps256(factor));
    }
    state->max = max;
}

/* Gives the sum in the eight lanes of the contract. */
FY_INLINE float exponentiate(float *s, const seen *m, float max)
{
    const fy_lanes shift = fy_l_set(max == -INFINITY ? 0.0f : max);
    fy_lanes p[STEPS];
    FY_UNROLL
    for (int i = 0; i < STEPS; i++) {
        p[i] = fy_l_exp(fy_l_load(s + i * (int)FY_LANES) - shift);
        p[i] = fy_l_select(m->at[i], p[i], fy_l_set(0.0f));
        fy_l_store(s + i * (int)FY_LANES, p[i]);
    }
    __m256 sum = _mm256_setzero_ps();
    FY_UNROLL
    for (int i = 0; i < STEPS; i++) {
        sum = _mm256_add_ps(sum, _mm512_castps512_ps256(p[i]));
        sum = _mm256_add_ps(sum, _mm512_extractf32x8_ps(p[i], 1));
    }
    return fy_hsum(sum);
}

/* Maxima and sums are chains of latencies: step by step for all queries, those of one overlap with
 * those of the others. */
void fy_attend_softmax__avx512(float *s, int64_t n_queries, int begin, int end, float scale,
                               float cap, fy_softmax *state)
{
    const seen m = seen_of(begin, end);
    for (int64_t i = 0; i < n_queries; i++)
        find_maximum(s + i * FY_ATTEND_CHUNK, begin, end, &m, scale, cap, &state[i]);
    for (int64_t i = 0; i < n_queries; i++) {
        const float total = exponentiate(s + i * FY_ATTEND_CHUNK, &m, state[i].max);
        state[i].sum = state[i].sum * (double)state[i].factor + (double)total;
    }
}
