/* Attention of many queries over a chunk of keys in AVX-512; few queries, which are bound by
 * reading the cache, are AVX2's.
 *
 * Keys and values of a chunk are widened once for all queries. Dot products: four queries share
 * eight keys. Sums of values: four queries share 64 elements of a value, 16 sums in registers. The
 * softmax is here for any number of queries. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/x86/lanes_avx512.h"
#include "kernels/scalar/exp_lanes.h"

enum {
    FEW = 4,        /* queries */
    MOST_DIM = 256, /* of a row that is widened once */
    STRIP = 64,     /* elements of a value at once */
};

/* --- dot products ---------------------------------------------------------------------------- */

/* The contract's 8 lanes are half a register; the other half belongs to the key four rows on. */

/* Keys of a chunk as pairs: [8 keys][8 elements][pair], so that a step of eight keys is four loads.
 * Missing keys repeat the last. */
typedef struct {
    float at[FY_ATTEND_CHUNK * MOST_DIM];
} pairs;

FY_INLINE void put_pair(float *to, __m256 low, __m256 high)
{
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + 8, high);
}

/* The rows of eight keys, widened by `load` of eight elements. */
#define DEFINE_PACK(type, element, load)                                                 \
    FY_INLINE void pack_##type(pairs *to, const element *K, int64_t n_keys, int64_t dim) \
    {                                                                                    \
        float *p = to->at;                                                               \
        for (int64_t j = 0; j < n_keys; j += 8) {                                        \
            for (int64_t e = 0; e < dim; e += 8) {                                       \
                FY_UNROLL                                                                \
                for (int i = 0; i < 4; i++, p += 16) {                                   \
                    const int64_t low = j + i < n_keys ? j + i : n_keys - 1;             \
                    const int64_t high = j + i + 4 < n_keys ? j + i + 4 : n_keys - 1;    \
                    put_pair(p, load(K + low * dim + e), load(K + high * dim + e));      \
                }                                                                        \
            }                                                                            \
        }                                                                                \
    }

DEFINE_PACK(f32, float, _mm256_loadu_ps)
DEFINE_PACK(f16, uint16_t, fy_widen_f16)

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

/* s[c][0..7], of which n are stored, for four queries; k: the pairs of eight keys. */
FY_INLINE void eight_by_four(float *const s[4], const float *k, int64_t n, const float *const q[4],
                             int64_t dim)
{
    const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 4, 12, 5, 13, 2, 10, 3, 11, 6, 14, 7, 15);
    __m512 acc[4][4];
    FY_UNROLL
    for (int i = 0; i < 16; i++)
        acc[i / 4][i % 4] = _mm512_setzero_ps();
    for (int64_t e = 0; e < dim; e += 8, k += 64) {
        __m512 key[4];
        FY_UNROLL
        for (int i = 0; i < 4; i++)
            key[i] = _mm512_loadu_ps(k + 16 * i);
        FY_UNROLL
        for (int c = 0; c < 4; c++) {
            const __m512 v = _mm512_broadcast_f32x8(_mm256_loadu_ps(q[c] + e));
            FY_UNROLL
            for (int i = 0; i < 4; i++)
                acc[c][i] = _mm512_fmadd_ps(key[i], v, acc[c][i]);
        }
    }
    FY_UNROLL
    for (int c = 0; c < 4; c += 2) {
        const __m512 sums = add_u(
            add_halves(acc[c][0], acc[c][1]), add_halves(acc[c][2], acc[c][3]),
            add_halves(acc[c + 1][0], acc[c + 1][1]), add_halves(acc[c + 1][2], acc[c + 1][3]));
        const __m512 both = _mm512_permutexvar_ps(order, sums);
        fy_store_lanes(s[c], _mm512_castps512_ps256(both), n);
        fy_store_lanes(s[c + 1], _mm512_extractf32x8_ps(both, 1), n);
    }
}

FY_INLINE void dots(float *s, const float *q, int64_t n_queries, const pairs *K, int64_t n_keys,
                    int64_t dim)
{
    for (int64_t first = 0; first < n_queries; first += 4) {
        const float *x[4];
        float *out[4];
        FY_UNROLL
        for (int c = 0; c < 4; c++) {
            const int64_t at = first + c < n_queries ? first + c : n_queries - 1;
            x[c] = q + at * dim;
            out[c] = s + at * FY_ATTEND_CHUNK;
        }
        for (int64_t j = 0; j < n_keys; j += 8) {
            float *const to[4] = {out[0] + j, out[1] + j, out[2] + j, out[3] + j};
            eight_by_four(to, K->at + j * dim, n_keys - j, x, dim);
        }
    }
}

#define DEFINE_DOTS(type)                                                                     \
    void fy_attend_dots_##type##__avx512(float *s, const float *q, int64_t n_queries,         \
                                         const void *K, int64_t n_keys, int64_t dim)          \
    {                                                                                         \
        if (n_queries <= FEW || dim % 8 != 0 || dim > MOST_DIM || n_keys > FY_ATTEND_CHUNK) { \
            fy_attend_dots_##type##__avx2(s, q, n_queries, K, n_keys, dim);                   \
            return;                                                                           \
        }                                                                                     \
        pairs packed;                                                                         \
        pack_##type(&packed, K, n_keys, dim);                                                 \
        dots(s, q, n_queries, &packed, n_keys, dim);                                          \
    }

DEFINE_DOTS(f32)
DEFINE_DOTS(f16)

/* --- sums of values -------------------------------------------------------------------------- */

/* n vectors of four sums, from element i on; n is a constant. */
FY_INLINE void add_strip(float *const acc[4], const float *const p[4], const float *V,
                         int64_t n_keys, int64_t dim, int64_t i, int n)
{
    __m512 sum[4][STRIP / 16];
    FY_UNROLL
    for (int c = 0; c < 4; c++) {
        FY_UNROLL
        for (int k = 0; k < n; k++)
            sum[c][k] = _mm512_loadu_ps(acc[c] + i + 16 * k);
    }
    for (int64_t j = 0; j < n_keys; j++) {
        __m512 v[STRIP / 16];
        FY_UNROLL
        for (int k = 0; k < n; k++)
            v[k] = _mm512_loadu_ps(V + j * dim + i + 16 * k);
        FY_UNROLL
        for (int c = 0; c < 4; c++) {
            const __m512 weight = _mm512_set1_ps(p[c][j]);
            FY_UNROLL
            for (int k = 0; k < n; k++)
                sum[c][k] = _mm512_fmadd_ps(weight, v[k], sum[c][k]);
        }
    }
    FY_UNROLL
    for (int c = 0; c < 4; c++) {
        FY_UNROLL
        for (int k = 0; k < n; k++)
            _mm512_storeu_ps(acc[c] + i + 16 * k, sum[c][k]);
    }
}

/* dim is a multiple of 16. Missing queries repeat the last, which computes the same twice. */
FY_INLINE void add(float *acc, const float *p, int64_t n_queries, const float *V, int64_t n_keys,
                   int64_t dim)
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
        for (; i + STRIP <= dim; i += STRIP)
            add_strip(to, from, V, n_keys, dim, i, STRIP / 16);
        for (; i < dim; i += 16)
            add_strip(to, from, V, n_keys, dim, i, 1);
    }
}

void fy_attend_add_f32__avx512(float *acc, const float *p, int64_t n_queries, const void *V,
                               int64_t n_keys, int64_t dim)
{
    if (n_queries <= FEW || dim % 16 != 0)
        fy_attend_add_f32__avx2(acc, p, n_queries, V, n_keys, dim);
    else
        add(acc, p, n_queries, V, n_keys, dim);
}

void fy_attend_add_f16__avx512(float *acc, const float *p, int64_t n_queries, const void *V,
                               int64_t n_keys, int64_t dim)
{
    if (n_queries <= FEW || dim % 16 != 0 || dim > MOST_DIM || n_keys > FY_ATTEND_CHUNK) {
        fy_attend_add_f16__avx2(acc, p, n_queries, V, n_keys, dim);
        return;
    }
    float wide[FY_ATTEND_CHUNK * MOST_DIM];
    fy_f16_to_f32__avx2(wide, V, n_keys * dim);
    add(acc, p, n_queries, wide, n_keys, dim);
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
    state->factor = max > state->max ? fy_exp(state->max - max) : 1.0f;
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
