/* What tiles have in common whose vectors of sums are four rows of one column: vector 2c + q has
 * rows 4q .. 4q + 3 of column c. */
#ifndef FY_KERNELS_ARM_MATMUL_TILE_QUADS_H
#define FY_KERNELS_ARM_MATMUL_TILE_QUADS_H

#define FY_TILE_LANES 8

#include "kernels/arm/matmul_tile.h"

FY_INLINE void tile_put_scales(float *at, float32x4_t rows, int quad)
{
    vst1q_f32(at + 4 * quad, rows);
}

FY_INLINE void tile_put_parts(int32_t *at, int32x4_t rows, int quad)
{
    vst1q_s32(at + 4 * quad, rows);
}

FY_INLINE void tile_put_values(float *to, float32x4_t columns)
{
    vst1q_f32(to, columns);
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
