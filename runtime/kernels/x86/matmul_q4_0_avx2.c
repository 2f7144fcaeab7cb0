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
#include "kernels/kernel_impl.h"
#include "kernels/x86/tile_avx2.h"

typedef struct {
    __m256i quants[FY_TILE_GROUPS][8]; /* [j]: elements 4j .. 4j+3 of 8 rows */
    __m256 scales[FY_TILE_GROUPS];
} tile_block;

_Static_assert(FY_TILE_RUN * sizeof(tile_block) <= FY_KERNEL_SCRATCH_BYTES,
               "a tile fits the scratch");

/* int16 pairs -> the exact sum of (q - 8) * x in f32 */
FY_INLINE __m256 finish_sum(__m256i pairs, int32_t x_sum)
{
    const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    const __m256i offset = _mm256_slli_epi32(_mm256_set1_epi32(x_sum), 3);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(sums, offset));
}

FY_INLINE __m256 vec_block(__m256 acc, const fy_rows8 *rows, size_t offset, const fy_act *a,
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

static void repack(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run)
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

FY_INLINE void tile_mac(__m256 acc[FY_TILE_COLS][FY_TILE_GROUPS], const void *tile,
                        const fy_tile_columns *x, int64_t b, int n)
{
    const tile_block *t = (const tile_block *)tile + b;
    __m256i s[FY_TILE_COLS][FY_TILE_GROUPS];
    FY_UNROLL
    for (int j = 0; j < 8; j++) {
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
                s[c][g] = j == 0 ? product : _mm256_add_epi16(s[c][g], product);
                FY_KEEP_IN_REGISTER(s[c][g]);
            }
        }
    }
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        const __m256 d = _mm256_set1_ps(x->d[c * x->n_blocks + b]);
        FY_UNROLL
        for (int g = 0; g < FY_TILE_GROUPS; g++) {
            const __m256 sum = finish_sum(s[c][g], x->sum[c * x->n_blocks + b]);
            acc[c][g] = _mm256_fmadd_ps(_mm256_mul_ps(t->scales[g], d), sum, acc[c][g]);
        }
    }
}

void fy_matmul_q4_0__avx2(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, void *scratch)
{
    fy_matmul_blocks(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,
                     sizeof(fy_block_q4_0), 1, vec_block, repack, tile_mac);
}
