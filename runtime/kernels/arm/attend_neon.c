/* Attention over a chunk of keys.
 *
 * Many queries, those of a prompt: keys and values of the chunk are widened to f32 once for all.
 * Dot products are tiles of two queries and four keys in 8 lanes, sums of values of four queries
 * and 16 elements: 16 registers either way, and multiply-adds enough that the loads do not count.
 *
 * Few queries, which are bound by reading the cache, take a row as it is stored. Four share the
 * loads of a key or value and its widening. Sixteen accumulators: two keys of four queries in 8
 * lanes, or 16 elements of four sums; one query alone takes four keys, or 32 elements, at a time.
 *
 * Missing queries and keys repeat the last, which computes and stores the same twice. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/arm/lanes_neon.h"
#include "kernels/scalar/exp_lanes.h"

enum {
    SIDE = 4, /* queries that go together where there are few: at most so many */
    PAIR = 2,
    MOST_DIM = 256, /* of a row that is widened once */
};

/* n vectors of a row from element i on, n a constant; of them `there` elements exist, zeros after
 * them. */
typedef void load_fn(float32x4_t *v, const uint8_t *row, int64_t i, int n, int64_t there);

FY_INLINE void load_f32(float32x4_t *v, const uint8_t *row, int64_t i, int n, int64_t there)
{
    const float *p = (const float *)(const void *)row + i;
    float rest[8] = {0};
    if (there < 4 * n)
        p = memcpy(rest, p, (size_t)there * sizeof *p);
    FY_UNROLL
    for (int k = 0; k < n; k++)
        v[k] = load4_f32(p + 4 * k);
}

FY_INLINE void load_f16(float32x4_t *v, const uint8_t *row, int64_t i, int n, int64_t there)
{
    const uint16_t *p = (const uint16_t *)(const void *)row + i;
    uint16_t rest[8] = {0};
    if (there < 4 * n)
        p = memcpy(rest, p, (size_t)there * sizeof *p);
    FY_UNROLL
    for (int k = 0; k < n; k++)
        v[k] = load4_f16(p + 4 * k);
}

/* i is a multiple of 4 n. A block has two multiples of 16. */
FY_INLINE void load_q8_0(float32x4_t *v, const uint8_t *row, int64_t i, int n, int64_t there)
{
    (void)there; /* a row has whole blocks */
    const uint8_t *block = row + i / FY_QK * (int64_t)sizeof(fy_block_q8_0);
    const uint8_t *quants = block + offsetof(fy_block_q8_0, qs) + i % FY_QK;
    uint16_t half;
    memcpy(&half, block, sizeof half);
    const float32x4_t d = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half)));
    FY_UNROLL
    for (int k = 0; k < n; k += 2) {
        const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(vld1_u8(quants + 4 * k)));
        v[k] = vmulq_f32(d, vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))));
        v[k + 1] = vmulq_f32(d, vcvtq_f32_s32(vmovl_high_s16(wide)));
    }
}

/* --- dot products ---------------------------------------------------------------------------- */

/* Four sums of 8 lanes each, in halves, to four dot products. */
FY_INLINE float32x4_t add_lanes(const float32x4_t low[4], const float32x4_t high[4])
{
    float64x2_t u[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        u[i] = vreinterpretq_f64_f32(vaddq_f32(low[i], high[i]));
    const float32x4_t ab = vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(u[0], u[1])),
                                     vreinterpretq_f32_f64(vzip2q_f64(u[0], u[1])));
    const float32x4_t cd = vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(u[2], u[3])),
                                     vreinterpretq_f32_f64(vzip2q_f64(u[2], u[3])));
    return vpaddq_f32(ab, cd);
}

/* Continues the products of n keys with n_queries queries, both constants, over eight elements. */
FY_INLINE void step(float32x4_t low[4][4], float32x4_t high[4][4], const uint8_t *const k[4],
                    const float *const q[4], int64_t i, int n, int n_queries, int64_t there,
                    load_fn *load)
{
    float32x4_t w[4][2];
    FY_UNROLL
    for (int r = 0; r < n; r++)
        load(w[r], k[r], i, 2, there);
    FY_UNROLL
    for (int c = 0; c < n_queries; c++) {
        const float32x4_t x0 = vld1q_f32(q[c] + i), x1 = vld1q_f32(q[c] + i + 4);
        FY_UNROLL
        for (int r = 0; r < n; r++) {
            low[r][c] = vfmaq_f32(low[r][c], w[r][0], x0);
            high[r][c] = vfmaq_f32(high[r][c], w[r][1], x1);
        }
    }
}

FY_INLINE void products(float32x4_t low[4][4], float32x4_t high[4][4], const uint8_t *const k[4],
                        const float *const q[4], int64_t dim, int n, int n_queries, load_fn *load)
{
    FY_UNROLL
    for (int r = 0; r < n; r++) {
        FY_UNROLL
        for (int c = 0; c < n_queries; c++)
            low[r][c] = high[r][c] = vdupq_n_f32(0);
    }
    int64_t i = 0;
    for (; i + 8 <= dim; i += 8)
        step(low, high, k, q, i, n, n_queries, 8, load);
    if (i < dim)
        step(low, high, k, q, i, n, n_queries, dim - i, load);
}

/* s[c][0..3], of which n are stored, for n_queries queries: four or one. Keys beyond n are the
 * last. */
FY_INLINE void four_keys(float *const s[4], const uint8_t *K, size_t row_bytes, int64_t n,
                         const float *const q[4], int64_t dim, int n_queries, load_fn *load)
{
    const uint8_t *k[4];
    float32x4_t low[4][4], high[4][4], sums[4];
    FY_UNROLL
    for (int r = 0; r < 4; r++)
        k[r] = K + (size_t)(r < n ? r : n - 1) * row_bytes;
    if (n_queries == 1) {
        products(low, high, k, q, dim, 4, 1, load);
        FY_UNROLL
        for (int r = 1; r < 4; r++) {
            low[0][r] = low[r][0];
            high[0][r] = high[r][0];
        }
        sums[0] = add_lanes(low[0], high[0]);
    } else {
        float32x4_t key[4]; /* its products with four queries */
        FY_UNROLL
        for (int r = 0; r < 4; r += 2) {
            products(low, high, k + r, q, dim, 2, 4, load);
            key[r] = add_lanes(low[0], high[0]);
            key[r + 1] = add_lanes(low[1], high[1]);
        }
        const float32x4x2_t a = vtrnq_f32(key[0], key[1]), b = vtrnq_f32(key[2], key[3]);
        sums[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
        sums[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
        sums[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
        sums[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
    }
    FY_UNROLL
    for (int c = 0; c < n_queries; c++) {
        float out[4];
        vst1q_f32(out, sums[c]);
        memcpy(s[c], out, (size_t)(n < 4 ? n : 4) * sizeof *out);
    }
}

FY_INLINE void dots_few(float *s, const float *q, int64_t n_queries, const uint8_t *K,
                        int64_t n_keys, int64_t dim, size_t row_bytes, load_fn *load)
{
    const int64_t padded = (dim + 7) & ~(int64_t)7;
    for (int64_t i = 0; i < n_queries; i += SIDE) {
        const float *x[SIDE];
        FY_UNROLL
        for (int c = 0; c < SIDE; c++)
            x[c] = q + (i + c < n_queries ? i + c : n_queries - 1) * padded;
        for (int64_t j = 0; j < n_keys; j += 4) {
            float *to[SIDE];
            FY_UNROLL
            for (int c = 0; c < SIDE; c++)
                to[c] = s + (i + c < n_queries ? i + c : n_queries - 1) * FY_ATTEND_CHUNK + j;
            const uint8_t *k = K + (size_t)j * row_bytes;
            if (n_queries - i == 1)
                four_keys(to, k, row_bytes, n_keys - j, x, dim, 1, load);
            else
                four_keys(to, k, row_bytes, n_keys - j, x, dim, SIDE, load);
        }
    }
}

/* The rows of a chunk in f32, in the order in which a tile of four keys takes them: [4 keys][8
 * elements][key]. */
FY_INLINE void pack_keys(float *to, const uint8_t *K, int64_t n_keys, int64_t dim, size_t row_bytes,
                         load_fn *load)
{
    for (int64_t j = 0; j < n_keys; j += 4) {
        for (int64_t i = 0; i < dim; i += 8) {
            FY_UNROLL
            for (int r = 0; r < 4; r++, to += 8) {
                float32x4_t v[2];
                load(v, K + (size_t)(j + r < n_keys ? j + r : n_keys - 1) * row_bytes, i, 2, 8);
                vst1q_f32(to, v[0]);
                vst1q_f32(to + 4, v[1]);
            }
        }
    }
}

/* s[c][0..3], of which n are stored, for two queries; k: the packed keys. */
FY_INLINE void four_by_two(float *const s[PAIR], const float *k, int64_t n,
                           const float *const q[PAIR], int64_t dim)
{
    float32x4_t low[PAIR][4], high[PAIR][4];
    FY_UNROLL
    for (int i = 0; i < 4 * PAIR; i++)
        low[i / 4][i % 4] = high[i / 4][i % 4] = vdupq_n_f32(0);
    for (int64_t i = 0; i < dim; i += 8, k += 32) {
        float32x4_t x[PAIR][2];
        FY_UNROLL
        for (int c = 0; c < PAIR; c++) {
            x[c][0] = vld1q_f32(q[c] + i);
            x[c][1] = vld1q_f32(q[c] + i + 4);
        }
        FY_UNROLL
        for (int r = 0; r < 4; r++) {
            const float32x4_t w0 = vld1q_f32(k + 8 * r), w1 = vld1q_f32(k + 8 * r + 4);
            FY_UNROLL
            for (int c = 0; c < PAIR; c++) {
                low[c][r] = vfmaq_f32(low[c][r], w0, x[c][0]);
                high[c][r] = vfmaq_f32(high[c][r], w1, x[c][1]);
            }
        }
    }
    FY_UNROLL
    for (int c = 0; c < PAIR; c++)
        fy_l_store_some(s[c], add_lanes(low[c], high[c]), n);
}

FY_INLINE void dots(float *s, const float *q, int64_t n_queries, const uint8_t *K, int64_t n_keys,
                    int64_t dim, size_t row_bytes, load_fn *load)
{
    if (n_queries <= SIDE || dim % 8 != 0 || dim > MOST_DIM || n_keys > FY_ATTEND_CHUNK) {
        dots_few(s, q, n_queries, K, n_keys, dim, row_bytes, load);
        return;
    }
    float keys[FY_ATTEND_CHUNK * MOST_DIM];
    pack_keys(keys, K, n_keys, dim, row_bytes, load);
    for (int64_t first = 0; first < n_queries; first += PAIR) {
        const float *x[PAIR];
        float *out[PAIR];
        FY_UNROLL
        for (int c = 0; c < PAIR; c++) {
            const int64_t at = first + c < n_queries ? first + c : n_queries - 1;
            x[c] = q + at * dim;
            out[c] = s + at * FY_ATTEND_CHUNK;
        }
        for (int64_t j = 0; j < n_keys; j += 4) {
            float *const to[PAIR] = {out[0] + j, out[1] + j};
            four_by_two(to, keys + j * dim, n_keys - j, x, dim);
        }
    }
}

FY_DEFINE_ATTEND_DOTS(neon, f32, 4 * (size_t)dim, load_f32)
FY_DEFINE_ATTEND_DOTS(neon, f16, 2 * (size_t)dim, load_f16)

/* --- softmax --------------------------------------------------------------------------------- */

FY_INLINE float32x4_t terms(float *s, float32x4_t shift)
{
    const float32x4_t p = fy_l_exp(vsubq_f32(vld1q_f32(s), shift));
    vst1q_f32(s, p);
    return p;
}

/* The largest of all scores and `max`, none of which is a signalling NaN. */
FY_INLINE float largest(const float *s, float max)
{
    float32x4_t top[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        top[i] = vdupq_n_f32(max);
    for (int j = 0; j < FY_ATTEND_CHUNK; j += 16) {
        FY_UNROLL
        for (int i = 0; i < 4; i++)
            top[i] = vmaxnmq_f32(top[i], vld1q_f32(s + j + 4 * i));
    }
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(top[0], top[1]), vmaxq_f32(top[2], top[3])));
}

/* Positions that are not seen get a score of -infinity, of which fy_exp makes 0. */
static void soften(float *s, int begin, int end, float scale, float cap, fy_softmax *state)
{
    for (int j = 0; j < FY_ATTEND_CHUNK; j += 4)
        vst1q_f32(s + j, vmulq_n_f32(vld1q_f32(s + j), scale));
    if (cap != 0)
        fy_softcap__neon(s + begin, end - begin, cap);
    for (int j = 0; j < begin; j++)
        s[j] = -INFINITY;
    for (int j = end; j < FY_ATTEND_CHUNK; j++)
        s[j] = -INFINITY;
    const float max = largest(s, state->max), shift = max == -INFINITY ? 0.0f : max;
    float32x4_t low = vdupq_n_f32(0), high = low;
    for (int j = 0; j < FY_ATTEND_CHUNK; j += 8) {
        low = vaddq_f32(low, terms(s + j, vdupq_n_f32(shift)));
        high = vaddq_f32(high, terms(s + j + 4, vdupq_n_f32(shift)));
    }
    state->factor = max > state->max ? fy_exp(state->max - shift) : 1.0f;
    state->sum = state->sum * (double)state->factor + (double)sum_lanes(low, high);
    state->max = max;
}

void fy_attend_softmax__neon(float *s, int64_t n_queries, int begin, int end, float scale,
                             float cap, fy_softmax *state)
{
    for (int64_t i = 0; i < n_queries; i++)
        soften(s + i * FY_ATTEND_CHUNK, begin, end, scale, cap, &state[i]);
}

/* --- sums of values -------------------------------------------------------------------------- */

/* 4 n elements of four sums or one, from i on, both numbers constants. */
FY_INLINE void add_strip(float *const acc[4], const float *const p[4], int n_queries,
                         const uint8_t *V, int64_t n_keys, size_t row_bytes, int64_t i, int n,
                         load_fn *load)
{
    float32x4_t sum[4][8];
    FY_UNROLL
    for (int c = 0; c < n_queries; c++) {
        FY_UNROLL
        for (int k = 0; k < n; k++)
            sum[c][k] = vld1q_f32(acc[c] + i + 4 * k);
    }
    for (int64_t j = 0; j < n_keys; j++, V += row_bytes) {
        float32x4_t v[8];
        FY_UNROLL
        for (int k = 0; k < n; k += 4)
            load(v + k, V, i + 4 * k, n < 4 ? n : 4, 16);
        FY_UNROLL
        for (int c = 0; c < n_queries; c++) {
            FY_UNROLL
            for (int k = 0; k < n; k++)
                sum[c][k] = vfmaq_n_f32(sum[c][k], v[k], p[c][j]);
        }
    }
    FY_UNROLL
    for (int c = 0; c < n_queries; c++) {
        FY_UNROLL
        for (int k = 0; k < n; k++)
            vst1q_f32(acc[c] + i + 4 * k, sum[c][k]);
    }
}

/* The last elements of a row, fewer than 8. */
FY_INLINE void add_rest(float *acc, const float *p, const uint8_t *V, int64_t n_keys,
                        size_t row_bytes, int64_t i, int64_t rest, load_fn *load)
{
    float sum[8] = {0};
    memcpy(sum, acc + i, (size_t)rest * sizeof *sum);
    float32x4_t low = vld1q_f32(sum), high = vld1q_f32(sum + 4), v[2];
    for (int64_t j = 0; j < n_keys; j++, V += row_bytes) {
        load(v, V, i, 2, rest);
        low = vfmaq_n_f32(low, v[0], p[j]);
        high = vfmaq_n_f32(high, v[1], p[j]);
    }
    vst1q_f32(sum, low);
    vst1q_f32(sum + 4, high);
    memcpy(acc + i, sum, (size_t)rest * sizeof *sum);
}

FY_INLINE void add_few(float *acc, const float *p, int64_t n_queries, const uint8_t *V,
                       int64_t n_keys, int64_t dim, size_t row_bytes, load_fn *load)
{
    for (int64_t first = 0; first < n_queries; first += SIDE) {
        float *to[SIDE];
        const float *from[SIDE];
        const int64_t there = n_queries - first < SIDE ? n_queries - first : SIDE;
        FY_UNROLL
        for (int c = 0; c < SIDE; c++) {
            const int64_t at = first + (c < there ? c : there - 1);
            to[c] = acc + at * dim;
            from[c] = p + at * FY_ATTEND_CHUNK;
        }
        int64_t i = 0;
        if (there == 1) {
            for (; i + 32 <= dim; i += 32)
                add_strip(to, from, 1, V, n_keys, row_bytes, i, 8, load);
            for (; i + 8 <= dim; i += 8)
                add_strip(to, from, 1, V, n_keys, row_bytes, i, 2, load);
        } else {
            for (; i + 16 <= dim; i += 16)
                add_strip(to, from, SIDE, V, n_keys, row_bytes, i, 4, load);
            for (; i + 8 <= dim; i += 8)
                add_strip(to, from, SIDE, V, n_keys, row_bytes, i, 2, load);
        }
        for (int c = 0; i < dim && c < there; c++)
            add_rest(to[c], from[c], V, n_keys, row_bytes, i, dim - i, load);
    }
}

/* sum[c] += a lane of p[c] * v. The lane is a constant once the loops are unrolled. */
FY_INLINE float32x4_t add_lane(float32x4_t sum, float32x4_t v, float32x4_t p, int lane)
{
    switch (lane) {
    case 0:
        return vfmaq_laneq_f32(sum, v, p, 0);
    case 1:
        return vfmaq_laneq_f32(sum, v, p, 1);
    case 2:
        return vfmaq_laneq_f32(sum, v, p, 2);
    default:
        return vfmaq_laneq_f32(sum, v, p, 3);
    }
}

/* n keys of 16 elements of four sums, n a constant: 4 or 1. */
FY_INLINE void add_keys(float32x4_t sum[SIDE][4], const float *const p[SIDE], const float *V,
                        int64_t dim, int64_t j, int n)
{
    float32x4_t weight[SIDE];
    FY_UNROLL
    for (int c = 0; c < SIDE; c++)
        weight[c] = n == 4 ? vld1q_f32(p[c] + j) : vdupq_n_f32(p[c][j]);
    FY_UNROLL
    for (int r = 0; r < n; r++, V += dim) {
        float32x4_t v[4];
        FY_UNROLL
        for (int k = 0; k < 4; k++)
            v[k] = vld1q_f32(V + 4 * k);
        FY_UNROLL
        for (int c = 0; c < SIDE; c++) {
            FY_UNROLL
            for (int k = 0; k < 4; k++)
                sum[c][k] = add_lane(sum[c][k], v[k], weight[c], r);
        }
    }
}

FY_INLINE void add_many(float *acc, const float *p, int64_t n_queries, const float *V,
                        int64_t n_keys, int64_t dim)
{
    for (int64_t first = 0; first < n_queries; first += SIDE) {
        float *to[SIDE];
        const float *from[SIDE];
        FY_UNROLL
        for (int c = 0; c < SIDE; c++) {
            const int64_t at = first + c < n_queries ? first + c : n_queries - 1;
            to[c] = acc + at * dim;
            from[c] = p + at * FY_ATTEND_CHUNK;
        }
        for (int64_t i = 0; i < dim; i += 16) {
            float32x4_t sum[SIDE][4];
            FY_UNROLL
            for (int k = 0; k < 4 * SIDE; k++)
                sum[k / 4][k % 4] = vld1q_f32(to[k / 4] + i + k % 4 * 4);
            int64_t j = 0;
            for (; j + 4 <= n_keys; j += 4)
                add_keys(sum, from, V + j * dim + i, dim, j, 4);
            for (; j < n_keys; j++)
                add_keys(sum, from, V + j * dim + i, dim, j, 1);
            FY_UNROLL
            for (int k = 0; k < 4 * SIDE; k++)
                vst1q_f32(to[k / 4] + i + k % 4 * 4, sum[k / 4][k % 4]);
        }
    }
}

/* decode: of all rows, which are n elements, into f32. */
#define DEFINE_ADD(type, bytes, decode)                                                         \
    void fy_attend_add_##type##__neon(float *acc, const float *p, int64_t n_queries,            \
                                      const void *V, int64_t n_keys, int64_t dim)               \
    {                                                                                           \
        if (n_queries <= SIDE || dim % 16 != 0 || dim > MOST_DIM || n_keys > FY_ATTEND_CHUNK) { \
            add_few(acc, p, n_queries, V, n_keys, dim, bytes, load_##type);                     \
            return;                                                                             \
        }                                                                                       \
        float wide[FY_ATTEND_CHUNK * MOST_DIM];                                                 \
        decode(wide, V, n_keys * dim);                                                          \
        add_many(acc, p, n_queries, wide, n_keys, dim);                                         \
    }

DEFINE_ADD(f16, 2 * (size_t)dim, fy_f16_to_f32__neon)
DEFINE_ADD(q8_0, (size_t)dim / FY_QK * sizeof(fy_block_q8_0), fy_decode_q8_0__neon)

void fy_attend_add_f32__neon(float *acc, const float *p, int64_t n_queries, const void *V,
                             int64_t n_keys, int64_t dim)
{
    if (n_queries <= SIDE || dim % 16 != 0)
        add_few(acc, p, n_queries, V, n_keys, dim, 4 * (size_t)dim, load_f32);
    else
        add_many(acc, p, n_queries, V, n_keys, dim);
}
