/* q8_0 weights on plain Armv8.0 NEON: widening multiplies, see matmul_q_rows.h. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

typedef fy_block_q8_0 fy_q_block;
#define FY_Q_OFFSET 0

static inline void load_block(const fy_q_block *p, int8x16_t *lo, int8x16_t *hi)
{
    *lo = vld1q_s8(p->qs);
    *hi = vld1q_s8(p->qs + 16);
}

/* Two products of at most 128 * 127 fit int16; the pairwise adds widen before there are more. */
static inline int32x4_t dot32(int8x16_t lo, int8x16_t hi, int8x16_t x0, int8x16_t x1)
{
    int16x8_t a = vmlal_high_s8(vmull_s8(vget_low_s8(lo), vget_low_s8(x0)), lo, x0);
    int16x8_t b = vmlal_high_s8(vmull_s8(vget_low_s8(hi), vget_low_s8(x1)), hi, x1);
    return vpadalq_s16(vpaddlq_s16(a), b);
}

#include "kernels/arm/matmul_q_rows.h"

void fy_matmul_q8_0__neon(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, void *scratch)
{
    (void)scratch;
    matmul_all(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols);
}
