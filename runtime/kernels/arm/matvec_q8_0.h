/* The loads of q8_0 for matvec_rows.h: four rows into v20 .. v31, of each a register with the scale
 * and two with the quants. */
#ifndef FY_KERNELS_ARM_MATVEC_Q8_0_H
#define FY_KERNELS_ARM_MATVEC_Q8_0_H

#define FY_Q_OFFSET 0

#include "kernels/arm/matvec_rows.h"

#define VEC_Q8_0_LOAD            \
    VEC_LOAD("p0", "v20", "v22") \
    VEC_LOAD("p1", "v23", "v25") VEC_LOAD("p2", "v26", "v28") VEC_LOAD("p3", "v29", "v31")
#define VEC_Q8_0_LOAD_FIRST                        \
    VEC_LOAD_FIRST("ldp", "p0", "v20", "q21, q22") \
    VEC_LOAD_FIRST("ldp", "p1", "v23", "q24, q25") \
    VEC_LOAD_FIRST("ldp", "p2", "v26", "q27, q28") \
    VEC_LOAD_FIRST("ldp", "p3", "v29", "q30, q31")

#define VEC_Q8_0_SCALES                              \
    "tbl %[s].8b, {v20.16b-v23.16b}, %[at01].8b\n\t" \
    "tbx %[s].8b, {v26.16b-v29.16b}, %[at23].8b\n\t"

#define VEC_Q8_0_INPUTS                                                     \
    [x0] "w"(x0), [x1] "w"(x1), [at01] "w"(v->low01), [at23] "w"(v->low23), \
        [step] "r"(sizeof(fy_block_q8_0)), [first_step] "i"(sizeof(fy_block_q8_0) - 16)
#define VEC_Q8_0_CLOBBERS \
    "memory", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

/* Bytes 14 and 15 of the first and the fourth register, in the lanes of the two rows. */
FY_INLINE uint8x8_t vec_scales_at(int row)
{
    return vcreate_u8(row == 0 ? 0xffffffff3f3e0f0e : 0x3f3e0f0effffffff);
}

#endif
