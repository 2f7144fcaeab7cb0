/* The file encoders of the K types (scalar/encode_k_lanes.h) in the lanes of NEON. */
#include "kernels/arm/lanes_neon.h"
#include "kernels/scalar/encode_k_scalar.h"

#define FY_L_ISA      neon
#define FY_L_SMALLER  neon
#define FY_L_TOGETHER 3

/* Four to a turn. */
#define FY_L_EACH(i, n)                          \
    for (int i##_0 = 0; i##_0 < (n); i##_0 += 4) \
        FY_UNROLL                                \
    for (int i = i##_0; i < i##_0 + 4; i++)

typedef struct {
    uint8x16_t half[2];
} fy_l_codes;

/* 16 of a row. */
FY_INLINE uint8x16_t quants16(const float *x, float add, float by, bool divide, int low, int high)
{
    int32x4_t wide[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        const fy_lanes v = vld1q_f32(x + 4 * i) + fy_l_set(add), scale = fy_l_set(by);
        wide[i] = vcvtq_s32_f32(fy_l_nearest_between(divide ? v / scale : v * scale, low, high));
    }
    return vreinterpretq_u8_s8(low_bytes(wide));
}

FY_INLINE fy_l_codes fy_l_quants(const float *x, float add, float by, bool divide, int top)
{
    return (fy_l_codes){
        {quants16(x, add, by, divide, 0, top), quants16(x + 16, add, by, divide, 0, top)}};
}

/* The low four bits: the even sub-block of a pair in the low nibbles, the odd one in the high. */
FY_INLINE void fy_l_put_nibbles(uint8_t qs[FY_QK_K / 2], const fy_l_codes q[FY_K_SUBS])
{
    for (int s = 0; s < FY_K_SUBS; s += 2, qs += FY_QK) {
        for (int i = 0; i < 2; i++)
            vst1q_u8(qs + 16 * i, vsliq_n_u8(q[s].half[i], q[s + 1].half[i], 4));
    }
}

/* Bit s of a byte is the fifth of sub-block s. */
FY_INLINE void fy_l_put_fifth_bits(uint8_t qh[FY_QK], const fy_l_codes q[FY_K_SUBS])
{
    for (int i = 0; i < 2; i++) {
        uint8x16_t bits = vdupq_n_u8(0);
        for (int s = 0; s < FY_K_SUBS; s++)
            bits |= vshlq_u8(vshrq_n_u8(q[s].half[i], 4), vdupq_n_s8((int8_t)s));
        vst1q_u8(qh + 16 * i, bits);
    }
}

/* A group's codes with the offset they have in the file. */
FY_INLINE void fy_l_q6_quants(uint8_t *to, const float *x, float by, bool divide)
{
    vst1q_u8(to, vaddq_u8(quants16(x, 0.0f, by, divide, -32, 31), vdupq_n_u8(32)));
}

/* Codes 0 .. 63 of 128 elements into their places. */
FY_INLINE void fy_l_q6_pack(uint8_t ql[64], uint8_t qh[FY_QK], const uint8_t q[128])
{
    FY_UNROLL
    for (int i = 0; i < FY_QK; i += 16) {
        const uint8x16_t a = vld1q_u8(q + i), b = vld1q_u8(q + FY_QK + i);
        const uint8x16_t c = vld1q_u8(q + 2 * FY_QK + i), d = vld1q_u8(q + 3 * FY_QK + i);
        vst1q_u8(ql + i, vsliq_n_u8(a, c, 4));
        vst1q_u8(ql + FY_QK + i, vsliq_n_u8(b, d, 4));
        const uint8x16_t low = vsliq_n_u8(vshrq_n_u8(a, 4), vshrq_n_u8(b, 4), 2);
        const uint8x16_t high = vsliq_n_u8(vshrq_n_u8(c, 4), vshrq_n_u8(d, 4), 2);
        vst1q_u8(qh + i, vsliq_n_u8(low, high, 4));
    }
}

#include "kernels/scalar/encode_weighted_lanes.h"
