/* q6_K weights times quantized activations.
 *
 * One column: vpmaddubsw takes the quants as stored, 0 .. 63, and 32 times the activations, the
 * same for every row, is taken off: pairs of at most 2 * 32 * 127, of which four fit int16. The
 * sums of 16 elements meet their scales in the lanes.
 *
 * Many columns: a tile of int16, into which the scales of 16 elements are multiplied: 32 * 128 at
 * most. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/quants_avx2.h"
#include "kernels/x86/tile_avx2.h"
#include "kernels/x86/wide_tile_avx2.h"

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

FY_INLINE __m256 vec_block(__m256 acc, const fy_rows8 *rows, size_t offset, const fy_act *a,
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

static void repack(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run)
{
    fy_wide_tile *t = tile;
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
            t->scales[g] = d;
        }
    }
}

void fy_matmul_q6_k__avx2(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, void *scratch)
{
    fy_matmul_blocks(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,
                     sizeof(fy_block_q6_k), FY_SUBS_MAX, vec_block, repack, fy_wide_tile_mac);
}
