/* The block types that ferry reads but does not write with the dot product instructions of Armv8.2
 * (SDOT): see matmul_quants.h. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

#define FY_ISA dotprod

static inline int32x4_t dot16(int8x16_t w, int8x16_t x)
{
    return vdotq_s32(vdupq_n_s32(0), w, x);
}

#include "kernels/arm/matmul_quants.h"
