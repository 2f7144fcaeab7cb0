/* q8_0 and q4_0 weights times one column with SDOT, from the file's layout: what decoding does.
 *
 * Eight rows at a time, whose lanes are two vectors of chains. Per row and block: a load of the
 * scale that moves the row's pointer on, a load of the quants, the dot products, and three quarters
 * of a pairwise add; the rest is shared by four rows or more. The sums are never cleared: they run
 * through the row in wrapping arithmetic, and a block's is the difference of what stood before and
 * after, exact as it fits 32 bits. That is one subtraction for four rows instead of four moves.
 *
 * A file that includes this defines before it FY_Q_OFFSET, what the stored quants are too large by,
 * and behind it what is declared here without a body. */
#ifndef FY_KERNELS_ARM_MATVEC_DOTPROD_H
#define FY_KERNELS_ARM_MATVEC_DOTPROD_H

#include "kernels/arm/quants_neon.h"

enum { FY_VEC_ROWS = 8, FY_VEC_BLOCKS = 4 };

/* dots += the products of a block of four rows, scale = their f16 scales, and the rows move on. */
FY_INLINE void vec_dots4(int32x4_t dots[4], uint16x4_t *scale, const uint8_t *row[4], int8x16_t x0,
                         int8x16_t x1);

/* The scales of four rows: %[s], the rows in %[p0] .. %[p3], %[step] bytes in a block. Loads that
 * move the pointer on leave the quants at a fixed distance before it; compilers spend an addition
 * on each, a tenth of all instructions here, and move the sums about besides. */
#define LOAD_SCALES                         \
    "ldr %h[s], [%[p0]], %[bytes]\n\t"      \
    "ld1 {%[s].h}[1], [%[p1]], %[step]\n\t" \
    "ld1 {%[s].h}[2], [%[p2]], %[step]\n\t" \
    "ld1 {%[s].h}[3], [%[p3]], %[step]\n\t"

typedef struct {
    const uint8_t *row[FY_VEC_ROWS];
    int32x4_t dots[FY_VEC_ROWS]; /* running: the lanes of a row add up to its sum so far */
    uint32x4_t sum[2];           /* of four rows, before the block */
    float32x4_t acc[2];
    int32x4_t offset; /* FY_Q_OFFSET */
} vec_rows;

FY_INLINE int32x4_t sums_of(const int32x4_t dots[4])
{
    return vpaddq_s32(vpaddq_s32(dots[0], dots[1]), vpaddq_s32(dots[2], dots[3]));
}

/* v - offset * a lane of sum. The lane is a constant once the loops are unrolled. */
FY_INLINE int32x4_t less_offset(int32x4_t v, int32x4_t offset, int32x4_t sum, int lane)
{
    switch (lane) {
    case 0:
        return vmlsq_laneq_s32(v, offset, sum, 0);
    case 1:
        return vmlsq_laneq_s32(v, offset, sum, 1);
    case 2:
        return vmlsq_laneq_s32(v, offset, sum, 2);
    default:
        return vmlsq_laneq_s32(v, offset, sum, 3);
    }
}

/* One block of eight rows: d and a lane of sum are the column's. */
FY_INLINE void vec_block(vec_rows *v, const int8_t *x, float d, int32x4_t sum, int lane)
{
    const int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
    uint16x4_t scale[2];
    vec_dots4(v->dots, &scale[0], v->row, x0, x1);
    vec_dots4(v->dots + 4, &scale[1], v->row + 4, x0, x1);
    FY_UNROLL
    for (int i = 0; i < 2; i++) {
        const uint32x4_t after = vreinterpretq_u32_s32(sums_of(v->dots + 4 * i));
        int32x4_t block = vreinterpretq_s32_u32(vsubq_u32(after, v->sum[i]));
        v->sum[i] = after;
        if (FY_Q_OFFSET != 0)
            block = less_offset(block, v->offset, sum, lane);
        const float32x4_t w = vcvt_f32_f16(vreinterpret_f16_u16(scale[i]));
        v->acc[i] = vfmaq_f32(v->acc[i], vmulq_n_f32(w, d), vcvtq_f32_s32(block));
    }
    /* Or the chains of several blocks are put off, and there are not enough registers for them. */
    __asm__ volatile("" : : "w"(v->acc[0]), "w"(v->acc[1]));
}

/* y[r] of up to eight rows. Rows that are missing repeat the last one. */
FY_INLINE void vec_eight(float *y, const uint8_t *W, size_t row_bytes, int n_rows, const int8_t *x,
                         const float *d, const int32_t *sum, int64_t n_blocks)
{
    vec_rows v;
    FY_UNROLL
    for (int r = 0; r < FY_VEC_ROWS; r++) {
        v.row[r] = W + (size_t)(r < n_rows ? r : n_rows - 1) * row_bytes;
        v.dots[r] = vdupq_n_s32(0);
    }
    v.sum[0] = v.sum[1] = vdupq_n_u32(0);
    v.acc[0] = v.acc[1] = vdupq_n_f32(0);
    v.offset = vdupq_n_s32(FY_Q_OFFSET);
    FY_KEEP_IN_REGISTER(v.offset); /* or 8 times a lane takes a copy of it and a shift */
    int64_t b = 0;
    for (; b + FY_VEC_BLOCKS <= n_blocks; b += FY_VEC_BLOCKS) {
        float32x4_t d4 = vld1q_f32(d + b);
        int32x4_t sum4 = vld1q_s32(sum + b);
        FY_KEEP_IN_REGISTER(d4);
        FY_KEEP_IN_REGISTER(sum4);
        FY_UNROLL
        for (int i = 0; i < FY_VEC_BLOCKS; i++)
            vec_block(&v, x + (b + i) * FY_QK, d4[i], sum4, i);
    }
    for (; b < n_blocks; b++)
        vec_block(&v, x + b * FY_QK, d[b], vdupq_n_s32(sum[b]), 0);
    float out[FY_VEC_ROWS];
    vst1q_f32(out, v.acc[0]);
    vst1q_f32(out + 4, v.acc[1]);
    memcpy(y, out, (size_t)n_rows * sizeof *y);
}

/* A few columns: eight rows stay in the first cache for all of them. */
static void matmul_vec(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                       int64_t row_end, const fy_act *a, int64_t n_cols)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t r = row_begin; r < row_end; r += FY_VEC_ROWS) {
        const int n = row_end - r < FY_VEC_ROWS ? (int)(row_end - r) : FY_VEC_ROWS;
        for (int64_t c = 0; c < n_cols; c++)
            vec_eight(y + c * ldy + r, (const uint8_t *)W + (size_t)r * row_bytes, row_bytes, n,
                      a->q + c * a->k, a->d + c * n_blocks, a->sum + c * n_blocks, n_blocks);
    }
}

#endif
