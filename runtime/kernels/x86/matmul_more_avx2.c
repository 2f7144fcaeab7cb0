/* The types that only the files of others have, times quantized activations. Of q2_K, q3_K, iq4_nl,
 * iq4_xs and mxfp4 blocks are taken apart in registers; of the rest by the scalar reader, once for
 * all columns.
 *
 * One column: |w| * (x with w's sign), as q8_0 does, for codes of any size; trees bring the sums of
 * 16 elements into the lanes, where they meet their scales.
 *
 * Many columns: a tile of int16, into which the scales of 16 elements are multiplied (127 * 32 at
 * most). The minimums of q2_K and the sums of 16 activations are pairs of int16 too. */
#include "kernels/kernel_impl.h"
#include "kernels/scalar/quant_grids.h"
#include "kernels/scalar/quants_scalar.h"
#include "kernels/x86/quants_avx2.h"
#include "kernels/x86/tile_avx2.h"
#include "kernels/x86/wide_tile_avx2.h"

/* A block of 32 of eight rows. */
typedef struct {
    __m256i q[8];
    __m256i scale[2]; /* of 16 elements */
    __m256i min;      /* two of int16, times m */
    __m256 d, m;
} eight;

/* What of it a type has. */
typedef enum { PLAIN, SCALES, MINS } form;

/* Sub-block s of a stored block at `offset`. */
typedef void eight_fn(eight *out, const fy_rows8 *rows, size_t offset, int s);

/* Bits `from` on of every lane, masked. */
FY_INLINE __m256i bits_of(__m256i v, int from, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi32(v, _mm_cvtsi32_si128(from)), _mm256_set1_epi32(mask));
}

/* --- blocks of eight rows ----------------------------------------------------------------------
 */

FY_INLINE void eight_q2_k(eight *out, const fy_rows8 *rows, size_t offset, int s)
{
    FY_UNROLL
    for (int i = 0; i < 8; i++) {
        const uint8_t *qs = rows->p[i] + offset + offsetof(fy_block_q2_k, qs) + s / 4 * FY_QK;
        out->q[i] = fy_move_bits(fy_load256(qs), s % 4 * 2, 0, 3);
    }
    const __m256i both =
        bits_of(fy_dwords8(rows, offset + (size_t)(s / 2 * 4)), s % 2 * 16, 0xffff);
    out->scale[0] = bits_of(both, 0, 15);
    out->scale[1] = bits_of(both, 8, 15);
    out->min = _mm256_or_si256(bits_of(both, 4, 15), _mm256_slli_epi32(bits_of(both, 12, 15), 16));
    out->d = fy_scales8(rows, offset + offsetof(fy_block_q2_k, d));
    out->m = _mm256_xor_ps(fy_scales8(rows, offset + offsetof(fy_block_q2_k, dmin)),
                           _mm256_set1_ps(-0.0f));
}

FY_INLINE void eight_q3_k(eight *out, const fy_rows8 *rows, size_t offset, int s)
{
    FY_UNROLL
    for (int i = 0; i < 8; i++) {
        const uint8_t *block = rows->p[i] + offset;
        const uint8_t *qs = block + offsetof(fy_block_q3_k, qs) + s / 4 * FY_QK;
        const __m256i high = fy_move_bits(fy_load256(block), s, 2, 4);
        const __m256i q = _mm256_or_si256(fy_move_bits(fy_load256(qs), s % 4 * 2, 0, 3), high);
        out->q[i] = _mm256_sub_epi8(q, _mm256_set1_epi8(4));
    }
    const size_t at = offset + offsetof(fy_block_q3_k, scales);
    const __m256i low = fy_dwords8(rows, at + (size_t)(s % 4 / 2 * 4)),
                  high = fy_dwords8(rows, at + 8);
    FY_UNROLL
    for (int half = 0; half < 2; half++) {
        const int byte = 8 * (s % 2 * 2 + half);
        const __m256i scale =
            _mm256_or_si256(bits_of(low, byte + s / 4 * 4, 15),
                            _mm256_slli_epi32(bits_of(high, byte + s / 2 * 2, 3), 4));
        out->scale[half] = _mm256_sub_epi32(scale, _mm256_set1_epi32(32));
    }
    out->d = fy_scales8(rows, offset + offsetof(fy_block_q3_k, d));
}

/* 16 bytes of nibbles of each row at `offset`, as values of a table. */
FY_INLINE void eight_values(eight *out, const fy_rows8 *rows, size_t offset,
                            const int8_t values[16])
{
    const __m256i table = _mm256_broadcastsi128_si256(fy_load128(values));
    FY_UNROLL
    for (int i = 0; i < 8; i++)
        out->q[i] = _mm256_shuffle_epi8(table, fy_nibbles(rows->p[i] + offset));
}

FY_INLINE void eight_iq4_nl(eight *out, const fy_rows8 *rows, size_t offset, int s)
{
    (void)s;
    eight_values(out, rows, offset + offsetof(fy_block_iq4_nl, qs), fy_iq4_values);
    out->d = fy_scales8(rows, offset);
}

FY_INLINE void eight_iq4_xs(eight *out, const fy_rows8 *rows, size_t offset, int s)
{
    eight_values(out, rows, offset + offsetof(fy_block_iq4_xs, qs) + (size_t)(16 * s),
                 fy_iq4_values);
    const __m256i high = fy_dwords8(rows, offset); /* d, and two bits of every scale */
    const __m256i low = fy_dwords8(rows, offset + offsetof(fy_block_iq4_xs, scales_l));
    const __m256i scale = _mm256_or_si256(bits_of(low, 4 * s, 15),
                                          _mm256_slli_epi32(bits_of(high, 16 + 2 * s, 3), 4));
    out->d = _mm256_mul_ps(fy_scales8(rows, offset),
                           _mm256_cvtepi32_ps(_mm256_sub_epi32(scale, _mm256_set1_epi32(32))));
}

FY_INLINE void eight_mxfp4(eight *out, const fy_rows8 *rows, size_t offset, int s)
{
    (void)s;
    eight_values(out, rows, offset + offsetof(fy_block_mxfp4, qs), fy_fp4_values);
    const __m256i e = bits_of(fy_dwords8(rows, offset), 0, 255);
    const __m256i usual = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i is_tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    out->d = _mm256_castsi256_ps(_mm256_blendv_epi8(usual, tiny, is_tiny));
}

/* By the scalar reader: block b from `offset` on. */
static void eight_by_scalar(eight *out, const fy_rows8 *rows, size_t offset, int64_t b,
                            fy_quants_fn *quants)
{
    int32_t scale[2][8];
    float d[8];
    for (int i = 0; i < 8; i++) {
        const fy_quants w = quants(rows->p[i] + offset, b);
        out->q[i] = fy_load256(w.q);
        d[i] = w.d;
        scale[0][i] = w.scale[0];
        scale[1][i] = w.scale[1];
    }
    out->d = _mm256_loadu_ps(d);
    out->scale[0] = fy_load256(scale[0]);
    out->scale[1] = fy_load256(scale[1]);
}

/* --- one column --------------------------------------------------------------------------------
 */

/* The sums of s[0] .. s[3], of each 128-bit lane apart. */
FY_INLINE __m256i sums4(const __m256i s[4])
{
    const __m256i s01 =
        _mm256_add_epi32(_mm256_unpacklo_epi32(s[0], s[1]), _mm256_unpackhi_epi32(s[0], s[1]));
    const __m256i s23 =
        _mm256_add_epi32(_mm256_unpacklo_epi32(s[2], s[3]), _mm256_unpackhi_epi32(s[2], s[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(s01, s23), _mm256_unpackhi_epi64(s01, s23));
}

/* The sums of the first and the last 16 activations, as a pair of int16 in every lane. */
FY_INLINE __m256i sum_pair(__m256i x)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i four = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), x), ones);
    const __m256i two = _mm256_add_epi32(four, _mm256_shuffle_epi32(four, 0x4e));
    const __m256i one = _mm256_add_epi32(two, _mm256_shuffle_epi32(two, 0xb1));
    const __m256i first = _mm256_permute2x128_si256(one, one, 0x00);
    return _mm256_blend_epi16(
        first, _mm256_slli_epi32(_mm256_permute2x128_si256(one, one, 0x11), 16), 0xaa);
}

FY_INLINE __m256 add_mins(__m256 acc, __m256 m, __m256i min, __m256i x_sums, __m256 x_d)
{
    const __m256i sum = _mm256_madd_epi16(min, x_sums);
    return _mm256_fmadd_ps(_mm256_mul_ps(m, x_d), _mm256_cvtepi32_ps(sum), acc);
}

FY_INLINE __m256 add_eight(__m256 acc, const eight *w, const int8_t *q, float d, form f)
{
    const __m256i x = fy_load256(q);
    const __m256 x_d = _mm256_set1_ps(d);
    __m256i s[8];
    FY_UNROLL
    for (int i = 0; i < 8; i++) {
        const __m256i pairs =
            _mm256_maddubs_epi16(_mm256_abs_epi8(w->q[i]), _mm256_sign_epi8(x, w->q[i]));
        s[i] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    const __m256i low = sums4(s), high = sums4(s + 4); /* of rows 0..3, 4..7 */
    __m256i first = _mm256_permute2x128_si256(low, high, 0x20);
    __m256i second = _mm256_permute2x128_si256(low, high, 0x31);
    if (f != PLAIN) {
        first = _mm256_mullo_epi32(first, w->scale[0]);
        second = _mm256_mullo_epi32(second, w->scale[1]);
    }
    const __m256i sum = _mm256_add_epi32(first, second);
    acc = _mm256_fmadd_ps(_mm256_mul_ps(w->d, x_d), _mm256_cvtepi32_ps(sum), acc);
    return f == MINS ? add_mins(acc, w->m, w->min, sum_pair(x), x_d) : acc;
}

FY_INLINE __m256 vec(__m256 acc, const fy_rows8 *rows, size_t offset, const fy_act *a, int64_t b,
                     int subs, form f, eight_fn *unpack)
{
    for (int s = 0; s < subs; s++) {
        const int64_t at = b * subs + s;
        eight w;
        unpack(&w, rows, offset, s);
        acc = add_eight(acc, &w, a->q + at * FY_QK, a->d[at], f);
    }
    return acc;
}

/* --- many columns ------------------------------------------------------------------------------
 */

typedef struct {
    fy_wide_block w;
    __m256i mins[FY_TILE_GROUPS];
    __m256 m[FY_TILE_GROUPS];
} more_block;

typedef struct {
    fy_quants_fn *quants; /* of a rare type */
    _Alignas(32) more_block block[FY_TILE_RUN];
} more_tile;

_Static_assert(sizeof(more_tile) <= FY_TILE_BYTES, "a tile fits its part of the scratch");

FY_INLINE void put_eight(more_block *t, int g, const eight *w, form f)
{
    __m256i v[8];
    fy_transpose_quants(v, w->q);
    FY_UNROLL
    for (int j = 0; j < 8; j++) {
        t->w.quants[g][j][0] = fy_even_bytes(v[j]);
        t->w.quants[g][j][1] = fy_odd_bytes(v[j]);
        if (f == PLAIN)
            continue;
        const __m256i scale = w->scale[j / 4];
        const __m256i twice = _mm256_blend_epi16(scale, _mm256_slli_epi32(scale, 16), 0xaa);
        t->w.quants[g][j][0] = _mm256_mullo_epi16(t->w.quants[g][j][0], twice);
        t->w.quants[g][j][1] = _mm256_mullo_epi16(t->w.quants[g][j][1], twice);
    }
    t->w.d[g] = w->d;
    if (f == MINS) {
        t->m[g] = w->m;
        t->mins[g] = w->min;
    }
}

FY_INLINE void repack(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run,
                      size_t block_bytes, int subs, form f, eight_fn *unpack)
{
    more_block *t = ((more_tile *)tile)->block;
    for (int64_t b = 0; b < run; b += subs, offset += block_bytes) {
        for (int s = 0; s < subs; s++, t++) {
            eight w;
            unpack(&w, rows, offset, s);
            put_eight(t, g, &w, f);
        }
    }
}

static void repack_rare(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run)
{
    more_tile *t = tile;
    for (int64_t b = 0; b < run; b++) {
        eight w;
        eight_by_scalar(&w, rows, offset, b, t->quants);
        put_eight(&t->block[b], g, &w, SCALES);
    }
}

FY_INLINE void mac(__m256 acc[FY_TILE_COLS][FY_TILE_GROUPS], const void *tile,
                   const fy_tile_columns *x, int64_t b, int n)
{
    fy_wide_mac(acc, &((const more_tile *)tile)->block[b].w, x, b, n);
}

FY_INLINE void mac_mins(__m256 acc[FY_TILE_COLS][FY_TILE_GROUPS], const void *tile,
                        const fy_tile_columns *x, int64_t b, int n)
{
    const more_block *t = &((const more_tile *)tile)->block[b];
    mac(acc, tile, x, b, n);
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        const __m256i sums = sum_pair(fy_load256(x->q + c * x->k + b * FY_QK));
        const __m256 d = _mm256_set1_ps(x->d[c * x->n_blocks + b]);
        FY_UNROLL
        for (int g = 0; g < FY_TILE_GROUPS; g++)
            acc[c][g] = add_mins(acc[c][g], t->m[g], t->mins[g], sums, d);
    }
}

/* --- kernels -----------------------------------------------------------------------------------
 */

/* One piece of code for all types without minimums: what repacks is a pointer. */
static __attribute__((noinline)) void tiles(float *y, int64_t ldy, const void *W, size_t row_bytes,
                                            int64_t row_begin, int64_t row_end, const fy_act *a,
                                            int64_t n_cols, void *tile, size_t block_bytes,
                                            int subs, fy_tile_repack_fn *repack_type)
{
    fy_matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, tile, block_bytes, subs,
                    repack_type, mac);
}

/* A few columns go one after the other, while their rows are in the cache. */
FY_INLINE void few(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                   int64_t row_end, const fy_act *a, int64_t n_cols, size_t block_bytes, int subs,
                   fy_vec_block_fn *block)
{
    const int64_t step = n_cols == 1 ? row_end - row_begin : FY_FEW_ROWS;
    for (int64_t r = row_begin; r < row_end; r += step) {
        const int64_t end = row_end - r < step ? row_end : r + step;
        for (int64_t c = 0; c < n_cols; c++) {
            const fy_act x = fy_act_column(a, c);
            fy_matvec_rows(y + c * ldy, W, row_bytes, r, end, &x, block_bytes, subs, block);
        }
    }
}

#define DEFINE_MATMUL(type, subs, f, tiles_of)                                                     \
    FY_INLINE __m256 vec_##type(__m256 acc, const fy_rows8 *rows, size_t offset, const fy_act *a,  \
                                int64_t b)                                                         \
    {                                                                                              \
        return vec(acc, rows, offset, a, b, subs, f, eight_##type);                                \
    }                                                                                              \
    static void repack_##type(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run) \
    {                                                                                              \
        repack(tile, g, rows, offset, run, sizeof(fy_block_##type), subs, f, eight_##type);        \
    }                                                                                              \
    void fy_matmul_##type##__avx2(float *y, int64_t ldy, const void *W, size_t row_bytes,          \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,             \
                                  int64_t n_cols, void *scratch)                                   \
    {                                                                                              \
        if (n_cols >= FY_TILE_COLS)                                                                \
            tiles_of(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,                 \
                     sizeof(fy_block_##type), subs, repack_##type);                                \
        else                                                                                       \
            few(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, sizeof(fy_block_##type),      \
                subs, vec_##type);                                                                 \
    }

#define TILES_MINS(...) fy_matmul_tiles(__VA_ARGS__, mac_mins)

DEFINE_MATMUL(q2_k, FY_SUBS_MAX, MINS, TILES_MINS)
DEFINE_MATMUL(q3_k, FY_SUBS_MAX, SCALES, tiles)
DEFINE_MATMUL(iq4_nl, 1, PLAIN, tiles)
DEFINE_MATMUL(iq4_xs, FY_SUBS_MAX, PLAIN, tiles)
DEFINE_MATMUL(mxfp4, 1, PLAIN, tiles)

/* The rare types: one column without a tile. */
static __attribute__((noinline)) void rare(float *y, int64_t ldy, const void *W, size_t row_bytes,
                                           int64_t row_begin, int64_t row_end, const fy_act *a,
                                           int64_t n_cols, more_tile *tile, size_t block_bytes,
                                           int subs, fy_quants_fn *quants)
{
    if (n_cols != 1) {
        tile->quants = quants;
        tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, tile, block_bytes, subs,
              repack_rare);
        return;
    }
    for (int64_t r = row_begin; r < row_end; r += 8) {
        const fy_rows8 rows = fy_rows8_at(W, row_bytes, r, row_end);
        __m256 acc = _mm256_setzero_ps();
        for (int64_t b = 0; b < a->k / FY_QK; b++) {
            eight w;
            eight_by_scalar(&w, &rows, 0, b, quants);
            acc = add_eight(acc, &w, a->q + b * FY_QK, a->d[b], SCALES);
        }
        fy_store_lanes(y + r, acc, row_end - r);
    }
}

#define DEFINE_RARE(type, subs)                                                           \
    void fy_matmul_##type##__avx2(float *y, int64_t ldy, const void *W, size_t row_bytes, \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,    \
                                  int64_t n_cols, void *scratch)                          \
    {                                                                                     \
        rare(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,                \
             sizeof(fy_block_##type), subs, fy_quants_##type);                            \
    }

DEFINE_RARE(q1_0, FY_QK_Q1_0 / FY_QK)
DEFINE_RARE(q2_0, FY_QK_Q2_0 / FY_QK)
DEFINE_RARE(tq1_0, FY_SUBS_MAX)
DEFINE_RARE(tq2_0, FY_SUBS_MAX)
DEFINE_RARE(iq1_s, FY_SUBS_MAX)
DEFINE_RARE(iq1_m, FY_SUBS_MAX)
DEFINE_RARE(iq2_xxs, FY_SUBS_MAX)
DEFINE_RARE(iq2_xs, FY_SUBS_MAX)
DEFINE_RARE(iq2_s, FY_SUBS_MAX)
DEFINE_RARE(iq3_xxs, FY_SUBS_MAX)
DEFINE_RARE(iq3_s, FY_SUBS_MAX)
