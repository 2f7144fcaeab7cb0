/* The types that only the files of others have, with the dot product instructions of Armv8.2
 * (matmul_more.h). */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

static inline int32x4_t dot16(int32x4_t s, int8x16_t w, int8x16_t x)
{
    return vdotq_s32(s, w, x);
}

#define MORE_ISA dotprod
#include "kernels/arm/matmul_more.h"
