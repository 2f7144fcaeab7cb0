/* The loads of q4_0 for matvec_rows.h: four rows into v24 .. v31, of each the quants 0 .. 15 and
 * behind them 16 .. 31, once the scales are gathered. */
#ifndef FY_KERNELS_ARM_MATVEC_Q4_0_H
#define FY_KERNELS_ARM_MATVEC_Q4_0_H

#define FY_Q_OFFSET 8

#include "kernels/arm/matvec_rows.h"

#define VEC_Q4_0_LOAD            \
    VEC_LOAD("p0", "v24", "v25") \
    VEC_LOAD("p1", "v26", "v27") VEC_LOAD("p2", "v28", "v29") VEC_LOAD("p3", "v30", "v31")
#define VEC_Q4_0_LOAD_FIRST                   \
    VEC_LOAD_FIRST("ldr", "p0", "v24", "q25") \
    VEC_LOAD_FIRST("ldr", "p1", "v26", "q27") \
    VEC_LOAD_FIRST("ldr", "p2", "v28", "q29") VEC_LOAD_FIRST("ldr", "p3", "v30", "q31")

#define VEC_Q4_0_UNPACK                              \
    "tbl %[s].8b, {v24.16b-v27.16b}, %[at01].8b\n\t" \
    "tbx %[s].8b, {v28.16b-v31.16b}, %[at23].8b\n\t" \
    "and v24.16b, v25.16b, %[low].16b\n\t"           \
    "and v26.16b, v27.16b, %[low].16b\n\t"           \
    "and v28.16b, v29.16b, %[low].16b\n\t"           \
    "and v30.16b, v31.16b, %[low].16b\n\t"           \
    "ushr v25.16b, v25.16b, #4\n\t"                  \
    "ushr v27.16b, v27.16b, #4\n\t"                  \
    "ushr v29.16b, v29.16b, #4\n\t"                  \
    "ushr v31.16b, v31.16b, #4\n\t"

#define VEC_Q4_0_INPUTS                                                     \
    [x0] "w"(x0), [x1] "w"(x1), [at01] "w"(v->low01), [at23] "w"(v->low23), \
        [low] "w"(vdupq_n_u8(15)), [step] "r"(sizeof(fy_block_q4_0)),       \
        [first_step] "i"(sizeof(fy_block_q4_0) - 16)
#define VEC_Q4_0_CLOBBERS "memory", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

/* Bytes 14 and 15 of the first and the third register, in the lanes of the two rows. */
FY_INLINE uint8x8_t vec_scales_at(int row)
{
    return vcreate_u8(row == 0 ? 0xffffffff2f2e0f0e : 0x2f2e0f0effffffff);
}

#endif
