/* The block types that ferry reads but does not write on plain Armv8.0 NEON: widening multiplies,
 * see matmul_quants.h. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

#define FY_ISA neon

/* Two products of at most 32 * 127 fit int16; the pairwise adds widen before there are more. */
static inline int32x4_t dot16(int8x16_t w, int8x16_t x)
{
    return vpaddlq_s16(vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x));
}

#include "kernels/arm/matmul_quants.h"
