/* q8_0 weights times quantized activations.
 *
 * One column: vpmaddubsw wants one unsigned factor, and |w| * (x with w's sign) is exact also for w
 * = -128, as 2 * 128 * 127 still fits int16. 272 bytes of eight rows cost about 70 vector
 * instructions.
 *
 * Many columns: products of int16, as the sign trick would keep the two multiplier ports busy with
 * 24 instructions per 8 rows, block and column instead of 16 (53 against 60 GMAC/s). Widening takes
 * the even bytes of four by one pair of shifts and the odd ones by another, so weights and
 * activations are widened where they lie. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/tile_avx2.h"

typedef struct {
    __m256i quants[FY_TILE_GROUPS][8]
                  [2]; /* [j]: elements 4j, 4j+2, and 4j+1, 4j+3, of 8 rows; int16 */
    __m256 scales[FY_TILE_GROUPS];
} tile_block;

_Static_assert(FY_TILE_RUN * sizeof(tile_block) <= FY_KERNEL_SCRATCH_BYTES,
               "a tile fits the scratch");

FY_INLINE __m256i even_bytes(__m256i v)
{
    return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
}

FY_INLINE __m256i odd_bytes(__m256i v)
{
    return _mm256_srai_epi16(v, 8);
}

/* The sums of s[0] .. s[3], one part in each 128-bit lane. */
FY_INLINE __m256i half_sums(const __m256i s[4])
{
    const __m256i s01 =
        _mm256_add_epi32(_mm256_unpacklo_epi32(s[0], s[1]), _mm256_unpackhi_epi32(s[0], s[1]));
    const __m256i s23 =
        _mm256_add_epi32(_mm256_unpacklo_epi32(s[2], s[3]), _mm256_unpackhi_epi32(s[2], s[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(s01, s23), _mm256_unpackhi_epi64(s01, s23));
}

FY_INLINE __m256 vec_block(__m256 acc, const fy_rows8 *rows, size_t offset, const fy_act *a,
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

static void repack(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run)
{
    tile_block *t = tile;
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
                t->quants[g][4 * half + j][0] = even_bytes(v[j]);
                t->quants[g][4 * half + j][1] = odd_bytes(v[j]);
            }
        }
        t->scales[g] = fy_scales8(rows, offset);
    }
}

FY_INLINE void tile_mac(__m256 acc[FY_TILE_COLS][FY_TILE_GROUPS], const void *tile,
                        const fy_tile_columns *x, int64_t b, int n)
{
    const tile_block *t = (const tile_block *)tile + b;
    __m256i wide[FY_TILE_COLS][2];
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        const __m256i v = fy_load256(x->q + c * x->k + b * FY_QK);
        wide[c][0] = even_bytes(v);
        wide[c][1] = odd_bytes(v);
    }
    FY_KEEP_IN_MEMORY(wide);
    __m256i s[FY_TILE_COLS][FY_TILE_GROUPS];
    FY_UNROLL
    for (int j = 0; j < 16; j++) {
        __m256i w[FY_TILE_GROUPS];
        FY_UNROLL
        for (int g = 0; g < FY_TILE_GROUPS; g++) {
            w[g] = t->quants[g][j >> 1][j & 1];
            FY_KEEP_IN_REGISTER(w[g]);
        }
        FY_UNROLL
        for (int c = 0; c < n; c++) {
            const __m256i v = fy_broadcast4((const int8_t *)&wide[c][j & 1] + 4 * (j >> 1));
            FY_UNROLL
            for (int g = 0; g < FY_TILE_GROUPS; g++) {
                const __m256i product = _mm256_madd_epi16(w[g], v);
                s[c][g] = j == 0 ? product : _mm256_add_epi32(s[c][g], product);
                FY_KEEP_IN_REGISTER(s[c][g]);
            }
        }
    }
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        const __m256 d = _mm256_set1_ps(x->d[c * x->n_blocks + b]);
        FY_UNROLL
        for (int g = 0; g < FY_TILE_GROUPS; g++) {
            const __m256 scale = _mm256_mul_ps(t->scales[g], d);
            acc[c][g] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(s[c][g]), acc[c][g]);
        }
    }
}

void fy_matmul_q8_0__avx2(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, void *scratch)
{
    if (n_cols == 1)
        fy_matvec_rows(y, W, row_bytes, row_begin, row_end, a, sizeof(fy_block_q8_0), vec_block);
    else
        fy_matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,
                        sizeof(fy_block_q8_0), repack, tile_mac);
}
