/* q8_0 weights times quantized activations.
 *
 * One column: vpmaddubsw wants one unsigned factor, and |w| * (x with w's sign) is exact also for w
 * = -128, as 2 * 128 * 127 still fits int16. 272 bytes of eight rows cost about 70 vector
 * instructions.
 *
 * Many columns: a tile of int16. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/tile_avx2.h"
#include "kernels/x86/wide_tile_avx2.h"

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
    fy_wide_tile *t = tile;
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
        t->scales[g] = fy_scales8(rows, offset);
    }
}

void fy_matmul_q8_0__avx2(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, void *scratch)
{
    fy_matmul_blocks(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,
                     sizeof(fy_block_q8_0), 1, vec_block, repack, fy_wide_tile_mac);
}
