/* Block weights times quantized activations, from the file's layout for one column, in tiles for
 * many (tile_avx2.h). */
#include "kernels/kernel_impl.h"
#include "kernels/x86/quants_avx2.h"
#include "kernels/x86/tile_avx2.h"
#include "kernels/x86/wide_tile_avx2.h"

/* The kernel of a type from its vec_block and repack; `subs` blocks of 32 in a stored block. */
#define DEFINE_KERNEL(type, subs, tile_mac)                                               \
    void fy_matmul_##type##__avx2(float *y, int64_t ldy, const void *W, size_t row_bytes, \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,    \
                                  int64_t n_cols, void *scratch)                          \
    {                                                                                     \
        fy_matmul_blocks(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,    \
                         sizeof(fy_block_##type), subs, vec_block_##type, repack_##type,  \
                         tile_mac);                                                       \
    }

/* The same of listed rows. */
#define DEFINE_DOT_ROWS(type)                                                        \
    void fy_dot_rows_##type##__avx2(float *y, const void *W, size_t row_bytes,       \
                                    const int32_t *rows, int64_t n, const fy_act *a) \
    {                                                                                \
        fy_matvec_listed(y, W, row_bytes, rows, n, a, sizeof(fy_block_##type), 1,    \
                         vec_block_##type);                                          \
    }

/* --- q4_0 ------------------------------------------------------------------------------------ */

/* q4_0 weights times quantized activations.
 *
 * One column: 144 bytes of eight rows cost about 50 vector instructions. Bytes of row i and row i +
 * 4 share a register, nibbles are split and multiplied where they lie, and a tree of unpacks brings
 * the eight row sums into the lanes, still in int16: 8 products of a pair * 2 * 15 * 127 = 30480 at
 * most.
 *
 * Many columns, per 8 rows, block and column: 8 multiply-adds, 7 additions, 5 instructions for
 * scale and offset. Nibbles stay 0..15; the offset of 8 becomes 8 times the block's activation sum.
 */

typedef struct {
    __m256i quants[FY_TILE_GROUPS][8]; /* [j]: elements 4j .. 4j+3 of 8 rows */
    __m256 scales[FY_TILE_GROUPS], mins[FY_TILE_GROUPS];
} tile_block;

_Static_assert(FY_TILE_RUN * sizeof(tile_block) <= FY_TILE_BYTES, "a tile fits the scratch");

/* int16 pairs -> the exact sum of (q - 8) * x in f32 */
FY_INLINE __m256 finish_sum(__m256i pairs, int32_t x_sum)
{
    const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    const __m256i offset = _mm256_slli_epi32(_mm256_set1_epi32(x_sum), 3);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(sums, offset));
}

FY_INLINE __m256 vec_block_q4_0(__m256 acc, const fy_rows8 *rows, size_t offset, const fy_act *a,
                                int64_t b)
{
    const __m256i low_nibble = _mm256_set1_epi8(15);
    const __m256i x_low = _mm256_broadcastsi128_si256(fy_load128(a->q + b * FY_QK));
    const __m256i x_high = _mm256_broadcastsi128_si256(fy_load128(a->q + b * FY_QK + 16));
    __m256i s[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m256i bytes = fy_load2x128(rows->p[i] + offset + 2, rows->p[i + 4] + offset + 2);
        const __m256i low = _mm256_and_si256(bytes, low_nibble);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low_nibble);
        s[i] =
            _mm256_add_epi16(_mm256_maddubs_epi16(low, x_low), _mm256_maddubs_epi16(high, x_high));
    }
    const __m256i s01 =
        _mm256_add_epi16(_mm256_unpacklo_epi32(s[0], s[1]), _mm256_unpackhi_epi32(s[0], s[1]));
    const __m256i s23 =
        _mm256_add_epi16(_mm256_unpacklo_epi32(s[2], s[3]), _mm256_unpackhi_epi32(s[2], s[3]));
    const __m256i pairs =
        _mm256_add_epi16(_mm256_unpacklo_epi64(s01, s23), _mm256_unpackhi_epi64(s01, s23));
    const __m256 scale = _mm256_mul_ps(fy_scales8(rows, offset), _mm256_set1_ps(a->d[b]));
    return _mm256_fmadd_ps(scale, finish_sum(pairs, a->sum[b]), acc);
}

static void repack_q4_0(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run)
{
    const __m256i low_nibble = _mm256_set1_epi8(15);
    tile_block *t = tile;
    for (int64_t b = 0; b < run; b++, t++, offset += sizeof(fy_block_q4_0)) {
        __m256i v[4];
        FY_UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = fy_load2x128(rows->p[i] + offset + 2, rows->p[i + 4] + offset + 2);
        fy_transpose_dwords(v);
        FY_UNROLL
        for (int j = 0; j < 4; j++) {
            t->quants[g][j] = _mm256_and_si256(v[j], low_nibble);
            t->quants[g][j + 4] = _mm256_and_si256(_mm256_srli_epi16(v[j], 4), low_nibble);
        }
        t->scales[g] = fy_scales8(rows, offset);
    }
}

/* --- q4_1, q5_0, q5_1, q4_K, q5_K ------------------------------------------------------------ */

/* q4_1, q5_0, q5_1, q4_K and q5_K weights times quantized activations: codes of at most 31, a
 * scale and in most a minimum per 32.
 *
 * One column: the file's layout becomes 32 bytes in element order, vpmaddubsw takes them by the
 * activations, and a tree of unpacks brings the sums of eight rows into the lanes. The scales of a
 * super-block are unpacked for eight rows at once, as the lanes are rows already.
 *
 * Many columns: a tile as that of q4_0. Codes of 5 bits leave room for four products in int16, 4 *
 * 2 * 31 * 127 = 31496, so they are widened half way. */

/* Below, parameters that every caller gives as constants: `bits` of a code, `subs` blocks of 32 in
 * a stored block, `above` what the stored codes are too large by. */

/* Continues a chain over one block of 32. */
FY_INLINE __m256 add_block(__m256 acc, __m256 d, const __m256 *m, __m256i sums, float x_d,
                           int32_t x_sum, int32_t above)
{
    if (above != 0)
        sums = _mm256_sub_epi32(
            sums, _mm256_mullo_epi32(_mm256_set1_epi32(x_sum), _mm256_set1_epi32(above)));
    const __m256 xd = _mm256_set1_ps(x_d);
    acc = _mm256_fmadd_ps(_mm256_mul_ps(d, xd), _mm256_cvtepi32_ps(sums), acc);
    if (m != NULL)
        acc = _mm256_fmadd_ps(_mm256_mul_ps(*m, xd), _mm256_set1_ps((float)x_sum), acc);
    return acc;
}

FY_INLINE __m256 vec_block(__m256 acc, const fy_rows8 *rows, size_t offset, const fy_act *a,
                           int64_t b, int subs, int32_t above, bool has_min, fy_quants32_fn *quants,
                           fy_scales_fn *scales)
{
    fy_scales w;
    scales(&w, rows, offset);
    FY_UNROLL
    for (int s = 0; s < subs; s++) {
        const int64_t at = b * subs + s;
        const __m256i x = fy_load256(a->q + at * FY_QK);
        __m256i pairs[8], lower, upper;
        FY_UNROLL
        for (int i = 0; i < 8; i++)
            pairs[i] = _mm256_maddubs_epi16(quants(rows->p[i] + offset, s), x);
        fy_row_sums(pairs, &lower, &upper);
        acc = add_block(acc, w.d[s], has_min ? &w.m[s] : NULL, _mm256_add_epi32(lower, upper),
                        a->d[at], a->sum[at], above);
    }
    return acc;
}

FY_INLINE void repack(tile_block *t, int g, const fy_rows8 *rows, size_t offset, int64_t run,
                      size_t block_bytes, int subs, bool has_min, fy_quants32_fn *quants,
                      fy_scales_fn *scales)
{
    for (int64_t b = 0; b < run; b += subs, offset += block_bytes) {
        fy_scales w;
        scales(&w, rows, offset);
        for (int s = 0; s < subs; s++, t++) {
            __m256i q[8];
            FY_UNROLL
            for (int i = 0; i < 8; i++)
                q[i] = quants(rows->p[i] + offset, s);
            fy_transpose_quants(t->quants[g], q);
            t->scales[g] = w.d[s];
            if (has_min)
                t->mins[g] = w.m[s];
        }
    }
}

/* One step of four elements of every row and column. */
FY_INLINE void multiply_step(__m256i s[FY_TILE_COLS][FY_TILE_GROUPS], const tile_block *t,
                             const fy_tile_columns *x, int64_t b, int n, int j, bool first)
{
    __m256i w[FY_TILE_GROUPS];
    FY_UNROLL
    for (int g = 0; g < FY_TILE_GROUPS; g++) {
        w[g] = t->quants[g][j];
        FY_KEEP_IN_REGISTER(w[g]);
    }
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        const __m256i v = fy_broadcast4(x->q + c * x->k + b * FY_QK + 4 * j);
        FY_UNROLL
        for (int g = 0; g < FY_TILE_GROUPS; g++) {
            const __m256i product = _mm256_maddubs_epi16(w[g], v);
            s[c][g] = first ? product : _mm256_add_epi16(s[c][g], product);
            FY_KEEP_IN_REGISTER(s[c][g]);
        }
    }
}

FY_INLINE void tile_mac(__m256 acc[FY_TILE_COLS][FY_TILE_GROUPS], const void *tile,
                        const fy_tile_columns *x, int64_t b, int n, int bits, int32_t above,
                        bool has_min)
{
    const tile_block *t = (const tile_block *)tile + b;
    const int parts = bits == 4 ? 1 : 2, steps = 8 / parts;
    __m256i sums[FY_TILE_COLS][FY_TILE_GROUPS];
    FY_UNROLL
    for (int p = 0; p < parts; p++) {
        __m256i s[FY_TILE_COLS][FY_TILE_GROUPS];
        FY_UNROLL
        for (int j = 0; j < steps; j++)
            multiply_step(s, t, x, b, n, p * steps + j, j == 0);
        FY_UNROLL
        for (int c = 0; c < n; c++) {
            FY_UNROLL
            for (int g = 0; g < FY_TILE_GROUPS; g++) {
                const __m256i wide = _mm256_madd_epi16(s[c][g], _mm256_set1_epi16(1));
                sums[c][g] = p == 0 ? wide : _mm256_add_epi32(sums[c][g], wide);
            }
        }
    }
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        FY_UNROLL
        for (int g = 0; g < FY_TILE_GROUPS; g++)
            acc[c][g] = add_block(acc[c][g], t->scales[g], has_min ? &t->mins[g] : NULL, sums[c][g],
                                  x->d[c * x->n_blocks + b], x->sum[c * x->n_blocks + b], above);
    }
}

FY_INLINE void tile_mac_q4_0(__m256 acc[FY_TILE_COLS][FY_TILE_GROUPS], const void *tile,
                             const fy_tile_columns *x, int64_t b, int n)
{
    tile_mac(acc, tile, x, b, n, 4, 8, false);
}

DEFINE_KERNEL(q4_0, 1, tile_mac_q4_0)
DEFINE_DOT_ROWS(q4_0)

#define DEFINE_MATMUL(type, bits, above, has_min, scales)                                          \
    enum { SUBS_##type = sizeof(fy_block_##type) < 100 ? 1 : FY_SUBS_MAX };                        \
    FY_INLINE __m256 vec_block_##type(__m256 acc, const fy_rows8 *rows, size_t offset,             \
                                      const fy_act *a, int64_t b)                                  \
    {                                                                                              \
        return vec_block(acc, rows, offset, a, b, SUBS_##type, above, has_min, fy_quants32_##type, \
                         scales);                                                                  \
    }                                                                                              \
    static void repack_##type(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run) \
    {                                                                                              \
        repack(tile, g, rows, offset, run, sizeof(fy_block_##type), SUBS_##type, has_min,          \
               fy_quants32_##type, scales);                                                        \
    }                                                                                              \
    FY_INLINE void tile_mac_##type(__m256 acc[FY_TILE_COLS][FY_TILE_GROUPS], const void *tile,     \
                                   const fy_tile_columns *x, int64_t b, int n)                     \
    {                                                                                              \
        tile_mac(acc, tile, x, b, n, bits, above, has_min);                                        \
    }                                                                                              \
    DEFINE_KERNEL(type, SUBS_##type, tile_mac_##type)

DEFINE_MATMUL(q4_1, 4, 0, true, fy_scales_dm)
DEFINE_MATMUL(q5_0, 5, 16, false, fy_scales_d)
DEFINE_MATMUL(q5_1, 5, 0, true, fy_scales_dm)
DEFINE_MATMUL(q4_k, 4, 0, true, fy_scales_k)
DEFINE_MATMUL(q5_k, 5, 0, true, fy_scales_k)

_Static_assert(FY_TILE_RUN * sizeof(fy_wide_block) <= FY_TILE_BYTES, "a tile fits the scratch");

FY_INLINE void wide_mac(__m256 acc[FY_TILE_COLS][FY_TILE_GROUPS], const void *tile,
                        const fy_tile_columns *x, int64_t b, int n)
{
    fy_wide_mac(acc, (const fy_wide_block *)tile + b, x, b, n);
}

/* --- q8_0 ------------------------------------------------------------------------------------ */

/* q8_0 weights times quantized activations.
 *
 * One column: vpmaddubsw wants one unsigned factor, and |w| * (x with w's sign) is exact also for w
 * = -128, as 2 * 128 * 127 still fits int16. 272 bytes of eight rows cost about 70 vector
 * instructions.
 *
 * Many columns: a tile of int16. */

/* The sums of s[0] .. s[3], one part in each 128-bit lane. */
FY_INLINE __m256i half_sums(const __m256i s[4])
{
    const __m256i s01 =
        _mm256_add_epi32(_mm256_unpacklo_epi32(s[0], s[1]), _mm256_unpackhi_epi32(s[0], s[1]));
    const __m256i s23 =
        _mm256_add_epi32(_mm256_unpacklo_epi32(s[2], s[3]), _mm256_unpackhi_epi32(s[2], s[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(s01, s23), _mm256_unpackhi_epi64(s01, s23));
}

FY_INLINE __m256 vec_block_q8_0(__m256 acc, const fy_rows8 *rows, size_t offset, const fy_act *a,
                                int64_t b)
{
    const __m256i x = fy_load256(a->q + b * FY_QK);
    __m256i s[8];
    FY_UNROLL
    for (int i = 0; i < 8; i++) {
        const __m256i w = fy_load256(rows->p[i] + offset + 2);
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
        s[i] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    const __m256i low = half_sums(s), high = half_sums(s + 4);
    const __m256i sums = _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20),
                                          _mm256_permute2x128_si256(low, high, 0x31));
    const __m256 scale = _mm256_mul_ps(fy_scales8(rows, offset), _mm256_set1_ps(a->d[b]));
    return _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums), acc);
}

static void repack_q8_0(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run)
{
    fy_wide_block *t = tile;
    for (int64_t b = 0; b < run; b++, t++, offset += sizeof(fy_block_q8_0)) {
        FY_UNROLL
        for (int half = 0; half < 2; half++) {
            const size_t at = offset + 2 + 16 * (size_t)half;
            __m256i v[4];
            FY_UNROLL
            for (int i = 0; i < 4; i++)
                v[i] = fy_load2x128(rows->p[i] + at, rows->p[i + 4] + at);
            fy_transpose_dwords(v);
            FY_UNROLL
            for (int j = 0; j < 4; j++) {
                t->quants[g][4 * half + j][0] = fy_even_bytes(v[j]);
                t->quants[g][4 * half + j][1] = fy_odd_bytes(v[j]);
            }
        }
        t->d[g] = fy_scales8(rows, offset);
    }
}

DEFINE_KERNEL(q8_0, 1, wide_mac)
DEFINE_DOT_ROWS(q8_0)

/* --- q6_K ------------------------------------------------------------------------------------ */

/* q6_K weights times quantized activations.
 *
 * One column: vpmaddubsw takes the codes as stored, 0 .. 63, and 32 times the activations, the
 * same for every row, is taken off: pairs of at most 2 * 32 * 127, of which four fit int16. The
 * sums of 16 elements meet their scales in the lanes.
 *
 * Many columns: a tile of int16, into which the scales of 16 elements are multiplied: 32 * 128 at
 * most. */

/* The scales of sub-blocks 2i and 2i + 1 of eight rows: bytes 0 .. 3 of a lane. */
FY_INLINE __m256i scales4(const fy_rows8 *rows, size_t offset, int i)
{
    return fy_dwords8(rows, offset + offsetof(fy_block_q6_k, scales) + 4 * (size_t)i);
}

/* Byte n of every lane, signed. */
FY_INLINE __m256i signed_byte(__m256i v, int n)
{
    return _mm256_srai_epi32(_mm256_sll_epi32(v, _mm_cvtsi32_si128(24 - 8 * n)), 24);
}

FY_INLINE __m256 vec_block_q6_k(__m256 acc, const fy_rows8 *rows, size_t offset, const fy_act *a,
                                int64_t b)
{
    const __m256 d = fy_scales8(rows, offset + offsetof(fy_block_q6_k, d));
    FY_UNROLL
    for (int s = 0; s < FY_SUBS_MAX; s++) {
        const int64_t at = b * FY_SUBS_MAX + s;
        const __m256i x = fy_load256(a->q + at * FY_QK);
        const __m256i above = _mm256_maddubs_epi16(_mm256_set1_epi8(32), x);
        __m256i pairs[8], lower, upper;
        FY_UNROLL
        for (int i = 0; i < 8; i++)
            pairs[i] = _mm256_sub_epi16(
                _mm256_maddubs_epi16(fy_quants32_q6_k(rows->p[i] + offset, s), x), above);
        fy_row_sums(pairs, &lower, &upper);
        const __m256i scales = scales4(rows, offset, s / 2);
        const __m256i sum =
            _mm256_add_epi32(_mm256_mullo_epi32(lower, signed_byte(scales, s % 2 * 2)),
                             _mm256_mullo_epi32(upper, signed_byte(scales, s % 2 * 2 + 1)));
        const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(a->d[at]));
        acc = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sum), acc);
    }
    return acc;
}

static void repack_q6_k(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run)
{
    fy_wide_block *t = tile;
    for (int64_t b = 0; b < run; b += FY_SUBS_MAX, offset += sizeof(fy_block_q6_k)) {
        const __m256 d = fy_scales8(rows, offset + offsetof(fy_block_q6_k, d));
        for (int s = 0; s < FY_SUBS_MAX; s++, t++) {
            const __m256i scales = scales4(rows, offset, s / 2);
            __m256i q[8], v[8];
            FY_UNROLL
            for (int i = 0; i < 8; i++)
                q[i] = fy_quants32_q6_k(rows->p[i] + offset, s);
            fy_transpose_quants(v, q);
            FY_UNROLL
            for (int j = 0; j < 8; j++) {
                const __m256i scale = signed_byte(scales, s % 2 * 2 + j / 4);
                const __m256i twice = _mm256_blend_epi16(scale, _mm256_slli_epi32(scale, 16), 0xaa);
                const __m256i below = _mm256_sub_epi8(v[j], _mm256_set1_epi8(32));
                t->quants[g][j][0] = _mm256_mullo_epi16(fy_even_bytes(below), twice);
                t->quants[g][j][1] = _mm256_mullo_epi16(fy_odd_bytes(below), twice);
            }
            t->d[g] = d;
        }
    }
}

DEFINE_KERNEL(q6_k, FY_SUBS_MAX, wide_mac)
