/* A tile (tile_avx2.h) of int16 weights: of q8_0, and of the types whose scales of 16 elements are
 * multiplied in.
 *
 * Products of int16, as taking signs apart for vpmaddubsw would keep the two multiplier ports busy
 * with 24 instructions per 8 rows, block and column instead of 16 (53 against 60 GMAC/s). Widening
 * takes the even bytes of four by one pair of shifts and the odd ones by another, so weights and
 * activations are widened where they lie. */
#ifndef FY_KERNELS_X86_WIDE_TILE_AVX2_H
#define FY_KERNELS_X86_WIDE_TILE_AVX2_H

#include "kernels/x86/tile_avx2.h"

typedef struct {
    __m256i quants[FY_TILE_GROUPS][8][2]; /* [j]: elements 4j, 4j+2, and 4j+1, 4j+3, of 8 rows */
    __m256 d[FY_TILE_GROUPS];
} fy_wide_block;

FY_INLINE __m256i fy_even_bytes(__m256i v)
{
    return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
}

FY_INLINE __m256i fy_odd_bytes(__m256i v)
{
    return _mm256_srai_epi16(v, 8);
}

/* Continues the chains of n columns over block b of a row of blocks, *w. */
FY_INLINE void fy_wide_mac(__m256 acc[FY_TILE_COLS][FY_TILE_GROUPS], const fy_wide_block *w,
                           const fy_tile_columns *x, int64_t b, int n)
{
    __m256i wide[FY_TILE_COLS][2];
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        const __m256i v = fy_load256(x->q + c * x->k + b * FY_QK);
        wide[c][0] = fy_even_bytes(v);
        wide[c][1] = fy_odd_bytes(v);
    }
    FY_KEEP_IN_MEMORY(wide);
    __m256i s[FY_TILE_COLS][FY_TILE_GROUPS];
    FY_UNROLL
    for (int j = 0; j < 16; j++) {
        __m256i q[FY_TILE_GROUPS];
        FY_UNROLL
        for (int g = 0; g < FY_TILE_GROUPS; g++) {
            q[g] = w->quants[g][j >> 1][j & 1];
            FY_KEEP_IN_REGISTER(q[g]);
        }
        FY_UNROLL
        for (int c = 0; c < n; c++) {
            const __m256i v = fy_broadcast4((const int8_t *)&wide[c][j & 1] + 4 * (j >> 1));
            FY_UNROLL
            for (int g = 0; g < FY_TILE_GROUPS; g++) {
                const __m256i product = _mm256_madd_epi16(q[g], v);
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
            const __m256 scale = _mm256_mul_ps(w->d[g], d);
            acc[c][g] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(s[c][g]), acc[c][g]);
        }
    }
}

#endif
