/* q4_0 weights on plain Armv8.0 NEON. Quants of 0 .. 15 as they are stored and activations of at
 * most 127: all 16 products of a lane after the pairwise adds of four rows fit int16, so that
 * nothing widens before they are sums of half a block. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

#include "kernels/arm/matvec_q4_0.h"

typedef fy_block_q4_0 fy_q_block;

FY_INLINE void load_block(const fy_q_block *p, int8x16_t *lo, int8x16_t *hi)
{
    uint8x16_t q = vld1q_u8(p->qs);
    *lo = vreinterpretq_s8_u8(vandq_u8(q, vdupq_n_u8(15)));
    *hi = vreinterpretq_s8_u8(vshrq_n_u8(q, 4));
}

FY_INLINE int32x4_t sums_of_pairs(int16x8_t s0, int16x8_t s1, int16x8_t s2, int16x8_t s3)
{
    return vpaddlq_s16(vpaddq_s16(vpaddq_s16(s0, s1), vpaddq_s16(s2, s3)));
}

/* Four products of at most 15 * 127 a lane. */
FY_INLINE int16x8_t dot32(int8x16_t lo, int8x16_t hi, int8x16_t x0, int8x16_t x1)
{
    int16x8_t s = vmlal_high_s8(vmull_s8(vget_low_s8(lo), vget_low_s8(x0)), lo, x0);
    return vmlal_high_s8(vmlal_s8(s, vget_low_s8(hi), vget_low_s8(x1)), hi, x1);
}

FY_INLINE int32x4_t dots4(const int8x16_t lo[4], const int8x16_t hi[4], int8x16_t x0, int8x16_t x1)
{
    return sums_of_pairs(dot32(lo[0], hi[0], x0, x1), dot32(lo[1], hi[1], x0, x1),
                         dot32(lo[2], hi[2], x0, x1), dot32(lo[3], hi[3], x0, x1));
}

#define VEC_Q4_0_PRODUCTS                     \
    "smull %[s0].8h, v24.8b, %[x0].8b\n\t"    \
    "smull %[s1].8h, v26.8b, %[x0].8b\n\t"    \
    "smull %[s2].8h, v28.8b, %[x0].8b\n\t"    \
    "smull %[s3].8h, v30.8b, %[x0].8b\n\t"    \
    "smlal2 %[s0].8h, v24.16b, %[x0].16b\n\t" \
    "smlal2 %[s1].8h, v26.16b, %[x0].16b\n\t" \
    "smlal2 %[s2].8h, v28.16b, %[x0].16b\n\t" \
    "smlal2 %[s3].8h, v30.16b, %[x0].16b\n\t" \
    "smlal %[s0].8h, v25.8b, %[x1].8b\n\t"    \
    "smlal %[s1].8h, v27.8b, %[x1].8b\n\t"    \
    "smlal %[s2].8h, v29.8b, %[x1].8b\n\t"    \
    "smlal %[s3].8h, v31.8b, %[x1].8b\n\t"    \
    "smlal2 %[s0].8h, v25.16b, %[x1].16b\n\t" \
    "smlal2 %[s1].8h, v27.16b, %[x1].16b\n\t" \
    "smlal2 %[s2].8h, v29.16b, %[x1].16b\n\t" \
    "smlal2 %[s3].8h, v31.16b, %[x1].16b\n\t"

#define VEC_Q4_0_ASM(load)                                                                      \
    __asm__ volatile(load VEC_Q4_0_UNPACK VEC_Q4_0_PRODUCTS                                     \
                     : [s0] "=&w"(s0), [s1] "=&w"(s1), [s2] "=&w"(s2), [s3] "=&w"(s3),          \
                       [s] "=&w"(d), [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [p3] "+r"(p3) \
                     : VEC_Q4_0_INPUTS                                                          \
                     : VEC_Q4_0_CLOBBERS)

FY_INLINE int32x4_t vec_sums4(vec_rows *v, int half, int8x16_t x0, int8x16_t x1, bool first,
                              uint16x4_t *scale)
{
    const uint8_t **const row = v->row + 4 * half;
    const uint8_t *p0 = row[0], *p1 = row[1], *p2 = row[2], *p3 = row[3];
    uint16x4_t d;
    int16x8_t s0, s1, s2, s3;
    if (first)
        VEC_Q4_0_ASM(VEC_Q4_0_LOAD_FIRST);
    else
        VEC_Q4_0_ASM(VEC_Q4_0_LOAD);
    row[0] = p0, row[1] = p1, row[2] = p2, row[3] = p3;
    *scale = d;
    return sums_of_pairs(s0, s1, s2, s3);
}

#include "kernels/arm/matmul_q_rows.h"

void fy_matmul_q4_0__neon(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, void *scratch)
{
    (void)scratch;
    if (n_cols < FY_Q_COLS)
        matmul_vec(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols);
    else
        matmul_all(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols);
}
