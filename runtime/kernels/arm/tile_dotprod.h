/* The tile of SDOT by element: four rows times four elements in a register, and the elements of a
 * column broadcast by the instruction; a vector of sums has four rows of one column. */
#ifndef FY_KERNELS_ARM_TILE_DOTPROD_H
#define FY_KERNELS_ARM_TILE_DOTPROD_H

#define FY_TILE_LANES 8

#include "kernels/arm/matmul_tile.h"

/* [half][quad][j]: elements 4j .. 4j+3 of four rows, so that one load has four vectors. */
FY_INLINE void tile_put_quants(int8_t *q, const fy_quants32 rows[FY_Q_ROWS], int quad)
{
    int32x4x4_t lo, hi;
    FY_UNROLL
    for (int i = 0; i < FY_Q_ROWS; i++) {
        lo.val[i] = vreinterpretq_s32_s8(rows[i].lo);
        hi.val[i] = vreinterpretq_s32_s8(rows[i].hi);
    }
    vst4q_s32((int32_t *)(void *)(q + quad * 64), lo);
    vst4q_s32((int32_t *)(void *)(q + 128 + quad * 64), hi);
}

FY_INLINE void tile_put_scales(float *at, float32x4_t rows, int quad)
{
    vst1q_f32(at + 4 * quad, rows);
}

FY_INLINE void tile_put_parts(int32_t *at, int32x4_t rows, int quad)
{
    vst1q_s32(at + 4 * quad, rows);
}

/* [half][column] */
FY_INLINE void tile_put_columns(int8_t *to, const int8_t *const q[FY_TILE_COLS])
{
    FY_UNROLL
    for (int c = 0; c < FY_TILE_COLS; c++) {
        vst1q_s8(to + c * 16, vld1q_s8(q[c]));
        vst1q_s8(to + 64 + c * 16, vld1q_s8(q[c] + 16));
    }
}

FY_INLINE void tile_put_values(float *to, float32x4_t columns)
{
    vst1q_f32(to, columns);
}

/* The lane is a constant once the loops are unrolled. */
FY_INLINE int32x4_t dot_lane(int32x4_t s, int8x16_t w, int8x16_t x, int lane)
{
    switch (lane) {
    case 0:
        return vdotq_laneq_s32(s, w, x, 0);
    case 1:
        return vdotq_laneq_s32(s, w, x, 1);
    case 2:
        return vdotq_laneq_s32(s, w, x, 2);
    default:
        return vdotq_laneq_s32(s, w, x, 3);
    }
}

FY_INLINE void tile_dots(int32x4_t s[FY_TILE_SUMS], const int8_t *w, const int8_t *x, int half)
{
    const int8x16x4_t columns = vld1q_s8_x4(x + 64 * half);
    FY_UNROLL
    for (int quad = 0; quad < 2; quad++) {
        const int8x16x4_t rows = vld1q_s8_x4(w + 128 * half + 64 * quad);
        FY_UNROLL
        for (int j = 0; j < 4; j++) {
            FY_UNROLL
            for (int c = 0; c < FY_TILE_COLS; c++)
                s[2 * c + quad] = dot_lane(s[2 * c + quad], rows.val[j], columns.val[c], j);
        }
        /* Or the next rows are loaded before these are free, and the chains go to memory. */
        __asm__ volatile("" : : "w"(s[quad]), "w"(s[6 + quad]) : "memory");
    }
}

FY_INLINE int tile_rows_of(int i)
{
    return i % 2;
}

FY_INLINE float32x4_t tile_columns_of(const float *x, int i)
{
    return vdupq_n_f32(vld1q_f32(x)[i / 2]);
}

FY_INLINE void tile_from_y(float32x4_t acc[FY_TILE_SUMS], float32x4_t y[FY_TILE_COLS][2])
{
    FY_UNROLL
    for (int i = 0; i < FY_TILE_SUMS; i++)
        acc[i] = y[i / 2][i % 2];
}

FY_INLINE void tile_to_y(float32x4_t y[FY_TILE_COLS][2], const float32x4_t acc[FY_TILE_SUMS])
{
    FY_UNROLL
    for (int i = 0; i < FY_TILE_SUMS; i++)
        y[i / 2][i % 2] = acc[i];
}

#endif
