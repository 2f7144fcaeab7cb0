/* The block types that ferry reads but does not write on plain Armv8.0 NEON: widening multiplies,
 * see matmul_quants.h. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

/* Two products of at most 32 * 127 fit int16; the pairwise adds widen before there are more. */
static inline int32x4_t dot16(int8x16_t w, int8x16_t x)
{
    return vpaddlq_s16(vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x));
}

#include "kernels/arm/matmul_quants.h"

#define DEFINE_MATMUL(type, subs, has_min, has_parts, scales)                                    \
    void fy_matmul_##type##__neon(float *y, int64_t ldy, const void *W, size_t row_bytes,        \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,           \
                                  int64_t n_cols, void *scratch)                                 \
    {                                                                                            \
        (void)scratch;                                                                           \
        matmul_few(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, sizeof(fy_block_##type), \
                   subs, has_min, has_parts, fy_quants32_##type, scales);                        \
    }

FY_QUANT_TYPES(DEFINE_MATMUL)
