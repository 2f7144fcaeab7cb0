/* The types that only the files of others have, on plain Armv8.0 NEON (matmul_more.h). */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

/* Two products of at most 127 * 127 fit int16; the pairwise adds widen before there are more. */
static inline int32x4_t dot16(int32x4_t s, int8x16_t w, int8x16_t x)
{
    return vpadalq_s16(s, vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x));
}

#define MORE_ISA neon
#include "kernels/arm/matmul_more.h"
