/* q8_0 weights on plain Armv8.0 NEON: widening multiplies. Two products of at most 128 * 127 fit
 * int16; pairwise adds widen before there are more. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

#include "kernels/arm/matvec_q8_0.h"

typedef fy_block_q8_0 fy_q_block;

FY_INLINE void load_block(const fy_q_block *p, int8x16_t *lo, int8x16_t *hi)
{
    *lo = vld1q_s8(p->qs);
    *hi = vld1q_s8(p->qs + 16);
}

FY_INLINE int32x4_t dot32(int8x16_t lo, int8x16_t hi, int8x16_t x0, int8x16_t x1)
{
    int16x8_t a = vmlal_high_s8(vmull_s8(vget_low_s8(lo), vget_low_s8(x0)), lo, x0);
    int16x8_t b = vmlal_high_s8(vmull_s8(vget_low_s8(hi), vget_low_s8(x1)), hi, x1);
    return vpadalq_s16(vpaddlq_s16(a), b);
}

FY_INLINE int32x4_t sums_of_rows(int32x4_t s0, int32x4_t s1, int32x4_t s2, int32x4_t s3)
{
    return vpaddq_s32(vpaddq_s32(s0, s1), vpaddq_s32(s2, s3));
}

FY_INLINE int32x4_t dots4(const int8x16_t lo[4], const int8x16_t hi[4], int8x16_t x0, int8x16_t x1)
{
    return sums_of_rows(dot32(lo[0], hi[0], x0, x1), dot32(lo[1], hi[1], x0, x1),
                        dot32(lo[2], hi[2], x0, x1), dot32(lo[3], hi[3], x0, x1));
}

#define VEC_Q8_0_PRODUCTS                     \
    "smull %[a0].8h, v21.8b, %[x0].8b\n\t"    \
    "smull %[a1].8h, v24.8b, %[x0].8b\n\t"    \
    "smull %[a2].8h, v27.8b, %[x0].8b\n\t"    \
    "smull %[a3].8h, v30.8b, %[x0].8b\n\t"    \
    "smull %[b0].8h, v22.8b, %[x1].8b\n\t"    \
    "smull %[b1].8h, v25.8b, %[x1].8b\n\t"    \
    "smull %[b2].8h, v28.8b, %[x1].8b\n\t"    \
    "smull %[b3].8h, v31.8b, %[x1].8b\n\t"    \
    "smlal2 %[a0].8h, v21.16b, %[x0].16b\n\t" \
    "smlal2 %[a1].8h, v24.16b, %[x0].16b\n\t" \
    "smlal2 %[a2].8h, v27.16b, %[x0].16b\n\t" \
    "smlal2 %[a3].8h, v30.16b, %[x0].16b\n\t" \
    "smlal2 %[b0].8h, v22.16b, %[x1].16b\n\t" \
    "smlal2 %[b1].8h, v25.16b, %[x1].16b\n\t" \
    "smlal2 %[b2].8h, v28.16b, %[x1].16b\n\t" \
    "smlal2 %[b3].8h, v31.16b, %[x1].16b\n\t"

#define VEC_Q8_0_ASM(load)                                                                      \
    __asm__ volatile(load VEC_Q8_0_SCALES VEC_Q8_0_PRODUCTS                                     \
                     : [a0] "=&w"(a0), [a1] "=&w"(a1), [a2] "=&w"(a2), [a3] "=&w"(a3),          \
                       [b0] "=&w"(b0), [b1] "=&w"(b1), [b2] "=&w"(b2), [b3] "=&w"(b3),          \
                       [s] "=&w"(d), [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [p3] "+r"(p3) \
                     : VEC_Q8_0_INPUTS                                                          \
                     : VEC_Q8_0_CLOBBERS)

FY_INLINE int32x4_t vec_sums4(vec_rows *v, int half, int8x16_t x0, int8x16_t x1, bool first,
                              uint16x4_t *scale)
{
    const uint8_t **const row = v->row + 4 * half;
    const uint8_t *p0 = row[0], *p1 = row[1], *p2 = row[2], *p3 = row[3];
    uint16x4_t d;
    int16x8_t a0, a1, a2, a3, b0, b1, b2, b3;
    if (first)
        VEC_Q8_0_ASM(VEC_Q8_0_LOAD_FIRST);
    else
        VEC_Q8_0_ASM(VEC_Q8_0_LOAD);
    row[0] = p0, row[1] = p1, row[2] = p2, row[3] = p3;
    *scale = d;
    return sums_of_rows(vpadalq_s16(vpaddlq_s16(a0), b0), vpadalq_s16(vpaddlq_s16(a1), b1),
                        vpadalq_s16(vpaddlq_s16(a2), b2), vpadalq_s16(vpaddlq_s16(a3), b3));
}

#include "kernels/arm/matmul_q_rows.h"

void fy_matmul_q8_0__neon(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, void *scratch)
{
    (void)scratch;
    if (n_cols < FY_Q_COLS)
        matmul_vec(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols);
    else
        matmul_all(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols);
}
