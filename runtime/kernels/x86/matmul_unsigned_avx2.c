/* q4_1, q5_0, q5_1, q4_K and q5_K weights times quantized activations: quants of at most 31, a
 * scale and in most a minimum per 32.
 *
 * One column: the file's layout becomes 32 bytes in element order, vpmaddubsw takes them by the
 * activations, and a tree of unpacks brings the sums of eight rows into the lanes. The scales of a
 * super-block are unpacked for eight rows at once, as the lanes are rows already.
 *
 * Many columns: a tile as that of q4_0. Quants of 5 bits leave room for four products in int16, 4 *
 * 2 * 31 * 127 = 31496, so they are widened half way. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/quants_avx2.h"
#include "kernels/x86/tile_avx2.h"

typedef struct {
    __m256i quants[FY_TILE_GROUPS][8]; /* [j]: elements 4j .. 4j+3 of 8 rows */
    __m256 scales[FY_TILE_GROUPS], mins[FY_TILE_GROUPS];
} tile_block;

_Static_assert(FY_TILE_RUN * sizeof(tile_block) <= FY_KERNEL_SCRATCH_BYTES,
               "a tile fits the scratch");

/* Below, parameters that every caller gives as constants: `bits` of a quant, `subs` blocks of 32 in
 * a stored block, `above` what the stored quants are too large by. */

/* Continues a chain over one block of 32. */
FY_INLINE __m256 add_block(__m256 acc, __m256 d, const __m256 *m, __m256i sums, float x_d,
                           int32_t x_sum, int32_t above)
{
    if (above != 0)
        sums = _mm256_sub_epi32(sums, _mm256_set1_epi32(above * x_sum));
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
    void fy_matmul_##type##__avx2(float *y, int64_t ldy, const void *W, size_t row_bytes,          \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,             \
                                  int64_t n_cols, void *scratch)                                   \
    {                                                                                              \
        fy_matmul_blocks(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,             \
                         sizeof(fy_block_##type), SUBS_##type, vec_block_##type, repack_##type,    \
                         tile_mac_##type);                                                         \
    }

DEFINE_MATMUL(q4_1, 4, 0, true, fy_scales_dm)
DEFINE_MATMUL(q5_0, 5, 16, false, fy_scales_d)
DEFINE_MATMUL(q5_1, 5, 0, true, fy_scales_dm)
DEFINE_MATMUL(q4_k, 4, 0, true, fy_scales_k)
DEFINE_MATMUL(q5_k, 5, 0, true, fy_scales_k)
