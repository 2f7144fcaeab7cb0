/* q8_0 and q4_0 weights times one column, from the file's layout: what decoding does.
 *
 * Eight rows at a time, whose lanes are two vectors of chains. What every row and block costs is
 * one load, the products, and three quarters of a pairwise add; the rest is shared by four rows.
 *
 * The load takes the 16 bytes before the quants too, whose last two are the scale, and moves the
 * row's pointer on; a table lookup gathers the scales of two rows. Nothing may be read before the
 * first row that was asked for, so that the first block of it and its neighbours is loaded in
 * parts; behind it there is a row before the row. Compilers would spend an addition on each
 * pointer, and cannot be held to registers in a row, which the lookup wants: hence the assembler.
 *
 * A file that includes this defines before it FY_Q_OFFSET, what the stored quants are too large by,
 * and behind it what is declared here without a body. */
#ifndef FY_KERNELS_ARM_MATVEC_ROWS_H
#define FY_KERNELS_ARM_MATVEC_ROWS_H

#include "kernels/arm/quants_neon.h"

enum { FY_VEC_ROWS = 8, FY_VEC_BLOCKS = 4, FY_VEC_BEFORE = 14 };

typedef struct {
    const uint8_t *row[FY_VEC_ROWS]; /* 14 bytes before the block, of the first one the block */
    float32x4_t acc[2];
    float32x4_t d; /* the column's, of up to four blocks */
    int32x4_t column_sum;
    int32x4_t offset;       /* FY_Q_OFFSET */
    uint8x8_t low01, low23; /* where the scales of two rows are in four registers */
} vec_rows;

/* The sums of products of a block of four rows, the first ones or the last; scale = their f16
 * scales, and the rows move on. `first` is a constant: the first block of the rows. */
FY_INLINE int32x4_t vec_sums4(vec_rows *v, int half, int8x16_t x0, int8x16_t x1, bool first,
                              uint16x4_t *scale);
FY_INLINE uint8x8_t vec_scales_at(int row);

/* One row into the registers: `quants` hold the quants, the last two bytes of `before` the scale.
 */
#define VEC_LOAD(p, before, quants) "ld1 {" before ".16b-" quants ".16b}, [%[" p "]], %[step]\n\t"
#define VEC_LOAD_FIRST(load, p, before, quants)                                    \
    "ld1 {" before ".h}[7], [%[" p "]], #2\n\t" load " " quants ", [%[" p "]]\n\t" \
    "add %[" p "], %[" p "], %[first_step]\n\t"

/* Of the intrinsics compilers share the product or a copy of the lane between the halves, which is
 * more and not less. The lane is a constant once the loops are unrolled. */
#define BY_LANE(name, lane) __asm__(name ", %2.s[" #lane "]" : "+w"(v) : "w"(a), "w"(lanes))
#define BY_ANY_LANE(name) \
    switch (lane) {       \
    case 0:               \
        BY_LANE(name, 0); \
        break;            \
    case 1:               \
        BY_LANE(name, 1); \
        break;            \
    case 2:               \
        BY_LANE(name, 2); \
        break;            \
    default:              \
        BY_LANE(name, 3); \
    }

/* v - a * a lane. */
FY_INLINE int32x4_t less_product(int32x4_t v, int32x4_t a, int32x4_t lanes, int lane)
{
    BY_ANY_LANE("mls %0.4s, %1.4s")
    return v;
}

/* a * a lane. */
FY_INLINE float32x4_t times_lane(float32x4_t a, float32x4_t lanes, int lane)
{
    float32x4_t v = a;
    BY_ANY_LANE("fmul %0.4s, %0.4s")
    return v;
}

/* One block of eight rows: lane of the column's d and sum. */
FY_INLINE void vec_block(vec_rows *v, const int8_t *x, int lane, bool first)
{
    const int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
    FY_UNROLL
    for (int i = 0; i < 2; i++) {
        uint16x4_t scale;
        int32x4_t block = vec_sums4(v, i, x0, x1, first, &scale);
        if (FY_Q_OFFSET != 0)
            block = less_product(block, v->offset, v->column_sum, lane);
        const float32x4_t w = vcvt_f32_f16(vreinterpret_f16_u16(scale));
        v->acc[i] = vfmaq_f32(v->acc[i], times_lane(w, v->d, lane), vcvtq_f32_s32(block));
    }
    /* Or the chains of several blocks are put off, and there are not enough registers for them. */
    __asm__ volatile("" : : "w"(v->acc[0]), "w"(v->acc[1]));
}

FY_INLINE void vec_one(vec_rows *v, const int8_t *x, float d, int32_t sum, bool first)
{
    v->d = vdupq_n_f32(d);
    v->column_sum = vdupq_n_s32(sum);
    vec_block(v, x, 0, first);
}

/* y[r] of up to eight rows. Rows that are missing repeat the last one. at_start: nothing may be
 * read before W. */
FY_INLINE void vec_eight(float *y, const uint8_t *W, size_t row_bytes, int n_rows, const int8_t *x,
                         const float *d, const int32_t *sum, int64_t n_blocks, bool at_start)
{
    vec_rows v;
    W -= at_start ? 0 : FY_VEC_BEFORE;
    FY_UNROLL
    for (int r = 0; r < FY_VEC_ROWS; r++) {
        v.row[r] = W;
        W += r + 1 < n_rows ? row_bytes : 0;
        /* Or compilers keep what the next rows add in memory. */
        __asm__("" : "+r"(W));
    }
    v.acc[0] = v.acc[1] = vdupq_n_f32(0);
    v.offset = vdupq_n_s32(FY_Q_OFFSET);
    v.low01 = vec_scales_at(0);
    v.low23 = vec_scales_at(2);
    FY_KEEP_IN_REGISTER(v.offset); /* or 8 times a lane takes a copy of it and a shift */
    FY_KEEP_IN_REGISTER(v.low01);
    FY_KEEP_IN_REGISTER(v.low23);
    const float *const d_end = d + n_blocks;
    if (at_start && d < d_end) {
        vec_one(&v, x, *d++, *sum++, true);
        x += FY_QK;
    }
    for (; d_end - d >= FY_VEC_BLOCKS; x += FY_VEC_BLOCKS * FY_QK) {
        v.d = vld1q_f32(d);
        v.column_sum = vld1q_s32(sum);
        d += FY_VEC_BLOCKS, sum += FY_VEC_BLOCKS;
        FY_UNROLL
        for (int i = 0; i < FY_VEC_BLOCKS; i++)
            vec_block(&v, x + i * FY_QK, i, false);
    }
    for (; d < d_end; x += FY_QK)
        vec_one(&v, x, *d++, *sum++, false);
    float part[FY_VEC_ROWS], *const out = n_rows == FY_VEC_ROWS ? y : part;
    vst1q_f32(out, v.acc[0]);
    vst1q_f32(out + 4, v.acc[1]);
    if (out == part)
        memcpy(y, part, (size_t)n_rows * sizeof *y);
}

/* A few columns: eight rows stay in the first cache for all of them. */
static __attribute__((noinline)) void matmul_vec(float *y, int64_t ldy, const void *W,
                                                 size_t row_bytes, int64_t row_begin,
                                                 int64_t row_end, const fy_act *a, int64_t n_cols)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t r = row_begin; r < row_end; r += FY_VEC_ROWS) {
        const int n = row_end - r < FY_VEC_ROWS ? (int)(row_end - r) : FY_VEC_ROWS;
        for (int64_t c = 0; c < n_cols; c++)
            vec_eight(y + c * ldy + r, (const uint8_t *)W + (size_t)r * row_bytes, row_bytes, n,
                      a->q + c * a->k, a->d + c * n_blocks, a->sum + c * n_blocks, n_blocks,
                      r == row_begin);
    }
}

#endif
