/* The loops shared by the q8_0 and q4_0 matmuls of plain NEON. A file that includes this defines
 * before:
 *   fy_q_block              the block type, with the f16 scale in .d
 *   FY_Q_OFFSET             what the stored quants are too large by (8 for q4_0, 0 for q8_0)
 *   load_block(p, &lo, &hi) quants 0..15 and 16..31 of a block as int8x16_t
 *   dots4(lo, hi, x0, x1)   the exact sums of 32 products of four rows, a lane each
 *
 * Four rows make one vector: the sums of four blocks are folded to one int32x4 by three pairwise
 * adds, so that each lane is one row's chain acc = fmaf(d_w * d_x, isum, acc), in the order and
 * rounding of the scalar specification. Four columns share what is loaded of the rows. */
#ifndef FY_KERNELS_ARM_MATMUL_Q_ROWS_H
#define FY_KERNELS_ARM_MATMUL_Q_ROWS_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#include "kernels/arm/quants_neon.h"

enum { FY_Q_COLS = 4 };

typedef struct {
    int8x16_t lo[FY_Q_ROWS], hi[FY_Q_ROWS];
    float32x4_t d;
} q_tile;

FY_INLINE void load_tile(q_tile *t, const fy_q_block *const row[FY_Q_ROWS], int64_t b)
{
    uint16_t d[FY_Q_ROWS];
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++) {
        load_block(&row[r][b], &t->lo[r], &t->hi[r]);
        memcpy(&d[r], &row[r][b].d, sizeof d[r]);
    }
    t->d = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(d)));
}

FY_INLINE float32x4_t add_block(float32x4_t acc, const q_tile *t, const fy_act *a, int64_t col,
                                int64_t b)
{
    int64_t n_blocks = a->k / FY_QK;
    const int8_t *x = a->q + col * a->k + b * FY_QK;
    int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
    int32x4_t sum = dots4(t->lo, t->hi, x0, x1);
    if (FY_Q_OFFSET != 0)
        sum = vsubq_s32(sum, vdupq_n_s32(FY_Q_OFFSET * a->sum[col * n_blocks + b]));
    return vfmaq_f32(acc, vmulq_n_f32(t->d, a->d[col * n_blocks + b]), vcvtq_f32_s32(sum));
}

/* y[c][r] for n_rows <= 4 rows and `cols` columns from `col` on, a constant. Rows that are missing
 * repeat the last one. */
FY_INLINE void matmul_rows(float *y, int64_t ldy, const char *W, size_t row_bytes, int n_rows,
                           const fy_act *a, int64_t col, int cols)
{
    const fy_q_block *row[FY_Q_ROWS];
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++)
        row[r] = (const fy_q_block *)(const void *)(W + (size_t)(r < n_rows ? r : n_rows - 1) *
                                                            row_bytes);
    float32x4_t acc[FY_Q_COLS];
    FY_UNROLL
    for (int i = 0; i < cols; i++)
        acc[i] = vdupq_n_f32(0);
    for (int64_t b = 0; b < a->k / FY_QK; b++) {
        q_tile t;
        load_tile(&t, row, b);
        FY_UNROLL
        for (int i = 0; i < cols; i++)
            acc[i] = add_block(acc[i], &t, a, col + i, b);
    }
    FY_UNROLL
    for (int i = 0; i < cols; i++) {
        float out[FY_Q_ROWS];
        vst1q_f32(out, acc[i]);
        memcpy(y + (col + i) * ldy, out, (size_t)n_rows * sizeof *y);
    }
}

static void matmul_all(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                       int64_t row_end, const fy_act *a, int64_t n_cols)
{
    for (int64_t r = row_begin; r < row_end; r += FY_Q_ROWS) {
        const int n = row_end - r < FY_Q_ROWS ? (int)(row_end - r) : FY_Q_ROWS;
        const char *w = (const char *)W + (size_t)r * row_bytes;
        int64_t c = 0;
        for (; c + FY_Q_COLS <= n_cols; c += FY_Q_COLS)
            matmul_rows(y + r, ldy, w, row_bytes, n, a, c, FY_Q_COLS);
        for (; c < n_cols; c++)
            matmul_rows(y + r, ldy, w, row_bytes, n, a, c, 1);
    }
}

#endif
