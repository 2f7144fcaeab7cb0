/* The block types as vectors: 32 codes of a row as signed bytes in element order, and the scales
 * of four rows at once, whose lanes are rows. What decoding and the products share. */
#ifndef FY_KERNELS_ARM_QUANTS_NEON_H
#define FY_KERNELS_ARM_QUANTS_NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/arm/vec_neon.h"
#include "kernels/kernels.h"

enum { FY_Q_ROWS = 4, FY_SUBS_MAX = FY_QK_K / FY_QK };

/* --- codes: sub-block s of a stored block, in element order --------------------------------- */

typedef struct {
    int8x16_t lo, hi;
} fy_quants32;

typedef fy_quants32 fy_quants32_fn(const uint8_t *block, int s);

FY_INLINE fy_quants32 quants_of(uint8x16_t lo, uint8x16_t hi, int8_t above)
{
    return (fy_quants32){vsubq_s8(vreinterpretq_s8_u8(lo), vdupq_n_s8(above)),
                         vsubq_s8(vreinterpretq_s8_u8(hi), vdupq_n_s8(above))};
}

/* The bits of every byte from n on, masked. */
FY_INLINE uint8x16_t bits_from(uint8x16_t bytes, int n, uint8_t mask)
{
    return vandq_u8(vshlq_u8(bytes, vdupq_n_s8((int8_t)-n)), vdupq_n_u8(mask));
}

/* 16 where one of two bytes of bits is set. */
FY_INLINE uint8x16_t fifth_bits(const uint8_t *qh)
{
    const uint8x16_t spread = vcombine_u8(vdup_n_u8(qh[0]), vdup_n_u8(qh[1]));
    const uint8x16_t bit_of = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    return vandq_u8(vtstq_u8(spread, bit_of), vdupq_n_u8(16));
}

FY_INLINE fy_quants32 fy_quants32_q8_0(const uint8_t *block, int s)
{
    (void)s;
    const uint8_t *qs = block + offsetof(fy_block_q8_0, qs);
    return quants_of(vld1q_u8(qs), vld1q_u8(qs + 16), 0);
}

FY_INLINE fy_quants32 fy_quants32_q4_0(const uint8_t *block, int s)
{
    (void)s;
    const uint8x16_t bytes = vld1q_u8(block + offsetof(fy_block_q4_0, qs));
    return quants_of(vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8(bytes, 4), 8);
}

FY_INLINE fy_quants32 fy_quants32_q4_1(const uint8_t *block, int s)
{
    (void)s;
    const uint8x16_t bytes = vld1q_u8(block + offsetof(fy_block_q4_1, qs));
    return quants_of(vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8(bytes, 4), 0);
}

FY_INLINE fy_quants32 five_bits(const uint8_t *qs, const uint8_t *qh, int8_t above)
{
    const uint8x16_t bytes = vld1q_u8(qs);
    return quants_of(vorrq_u8(vandq_u8(bytes, vdupq_n_u8(15)), fifth_bits(qh)),
                     vorrq_u8(vshrq_n_u8(bytes, 4), fifth_bits(qh + 2)), above);
}

FY_INLINE fy_quants32 fy_quants32_q5_0(const uint8_t *block, int s)
{
    (void)s;
    return five_bits(block + offsetof(fy_block_q5_0, qs), block + offsetof(fy_block_q5_0, qh), 16);
}

FY_INLINE fy_quants32 fy_quants32_q5_1(const uint8_t *block, int s)
{
    (void)s;
    return five_bits(block + offsetof(fy_block_q5_1, qs), block + offsetof(fy_block_q5_1, qh), 0);
}

FY_INLINE fy_quants32 fy_quants32_q4_k(const uint8_t *block, int s)
{
    const uint8_t *qs = block + offsetof(fy_block_q4_k, qs) + s / 2 * FY_QK;
    return quants_of(bits_from(vld1q_u8(qs), s % 2 * 4, 15),
                     bits_from(vld1q_u8(qs + 16), s % 2 * 4, 15), 0);
}

FY_INLINE fy_quants32 fy_quants32_q5_k(const uint8_t *block, int s)
{
    const uint8_t *qs = block + offsetof(fy_block_q5_k, qs) + s / 2 * FY_QK;
    const uint8_t *qh = block + offsetof(fy_block_q5_k, qh);
    const uint8x16_t high_lo = vshlq_n_u8(bits_from(vld1q_u8(qh), s, 1), 4);
    const uint8x16_t high_hi = vshlq_n_u8(bits_from(vld1q_u8(qh + 16), s, 1), 4);
    return quants_of(vorrq_u8(bits_from(vld1q_u8(qs), s % 2 * 4, 15), high_lo),
                     vorrq_u8(bits_from(vld1q_u8(qs + 16), s % 2 * 4, 15), high_hi), 0);
}

FY_INLINE fy_quants32 fy_quants32_q6_k(const uint8_t *block, int s)
{
    const uint8_t *ql = block + offsetof(fy_block_q6_k, ql) + s / 4 * 64 + s % 2 * FY_QK;
    const uint8_t *qh = block + offsetof(fy_block_q6_k, qh) + s / 4 * FY_QK;
    const int nibble = s % 4 / 2 * 4, pair = s % 4 * 2;
    const uint8x16_t high_lo = vshlq_n_u8(bits_from(vld1q_u8(qh), pair, 3), 4);
    const uint8x16_t high_hi = vshlq_n_u8(bits_from(vld1q_u8(qh + 16), pair, 3), 4);
    return quants_of(vorrq_u8(bits_from(vld1q_u8(ql), nibble, 15), high_lo),
                     vorrq_u8(bits_from(vld1q_u8(ql + 16), nibble, 15), high_hi), 32);
}

/* --- scales of a stored block of four rows --------------------------------------------------- */

typedef struct {
    float32x4_t d[FY_SUBS_MAX], m[FY_SUBS_MAX];
    int32x4_t lo[FY_SUBS_MAX], hi[FY_SUBS_MAX]; /* q6_K: of the 16 elements */
} q_scales;

typedef void fy_scales_fn(q_scales *out, const uint8_t *const row[FY_Q_ROWS], size_t offset);

FY_INLINE float32x4_t halves4(const uint8_t *const row[FY_Q_ROWS], size_t offset)
{
    uint16_t h[FY_Q_ROWS];
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++)
        memcpy(&h[r], row[r] + offset, sizeof h[r]);
    return vcvt_f32_f16(vreinterpret_f16_u16((uint16x4_t){h[0], h[1], h[2], h[3]}));
}

FY_INLINE uint32x4_t dwords4(const uint8_t *const row[FY_Q_ROWS], size_t offset)
{
    uint32_t v[FY_Q_ROWS];
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++)
        memcpy(&v[r], row[r] + offset, sizeof v[r]);
    return (uint32x4_t){v[0], v[1], v[2], v[3]};
}

FY_INLINE void fy_scales_d(q_scales *out, const uint8_t *const row[FY_Q_ROWS], size_t offset)
{
    out->d[0] = halves4(row, offset);
}

FY_INLINE void fy_scales_dm(q_scales *out, const uint8_t *const row[FY_Q_ROWS], size_t offset)
{
    out->d[0] = halves4(row, offset);
    out->m[0] = halves4(row, offset + sizeof(uint16_t));
}

/* Byte n of every lane. */
FY_INLINE uint32x4_t byte_of(uint32x4_t v, int n)
{
    return vandq_u32(vshlq_u32(v, vdupq_n_s32(-8 * n)), vdupq_n_u32(255));
}

FY_INLINE void fy_scales_k(q_scales *out, const uint8_t *const row[FY_Q_ROWS], size_t offset)
{
    const uint32x4_t six = vdupq_n_u32(0x3f3f3f3f), four = vdupq_n_u32(0x0f0f0f0f);
    const uint32x4_t top = vdupq_n_u32(0x30303030);
    const size_t at = offset + offsetof(fy_block_q4_k, scales);
    const uint32x4_t a = dwords4(row, at), b = dwords4(row, at + 4), c = dwords4(row, at + 8);
    const uint32x4_t scale[2] = {vandq_u32(a, six),
                                 vorrq_u32(vandq_u32(c, four), vandq_u32(vshrq_n_u32(a, 2), top))};
    const uint32x4_t min[2] = {vandq_u32(b, six), vorrq_u32(vandq_u32(vshrq_n_u32(c, 4), four),
                                                            vandq_u32(vshrq_n_u32(b, 2), top))};
    const float32x4_t d = halves4(row, offset);
    const float32x4_t dmin = vnegq_f32(halves4(row, offset + sizeof(uint16_t)));
    for (int s = 0; s < FY_SUBS_MAX; s++) {
        out->d[s] = vmulq_f32(d, vcvtq_f32_u32(byte_of(scale[s / 4], s % 4)));
        out->m[s] = vmulq_f32(dmin, vcvtq_f32_u32(byte_of(min[s / 4], s % 4)));
    }
}

FY_INLINE int32x4_t signed_byte_of(uint32x4_t v, int n)
{
    return vshrq_n_s32(vreinterpretq_s32_u32(vshlq_u32(v, vdupq_n_s32(24 - 8 * n))), 24);
}

FY_INLINE void fy_scales_q6_k(q_scales *out, const uint8_t *const row[FY_Q_ROWS], size_t offset)
{
    const float32x4_t d = halves4(row, offset + offsetof(fy_block_q6_k, d));
    for (int s = 0; s < FY_SUBS_MAX; s++) {
        const uint32x4_t bytes =
            dwords4(row, offset + offsetof(fy_block_q6_k, scales) + (size_t)(s / 2 * 4));
        out->d[s] = d;
        out->lo[s] = signed_byte_of(bytes, s % 2 * 2);
        out->hi[s] = signed_byte_of(bytes, s % 2 * 2 + 1);
    }
}

/* X(type, blocks of 32 in a stored block, has minimums, has parts, scales): the types whose
 * products have no code of their own. */
#define FY_QUANT_TYPES(X)                          \
    X(q4_1, 1, true, false, fy_scales_dm)          \
    X(q5_0, 1, false, false, fy_scales_d)          \
    X(q5_1, 1, true, false, fy_scales_dm)          \
    X(q4_k, FY_SUBS_MAX, true, false, fy_scales_k) \
    X(q5_k, FY_SUBS_MAX, true, false, fy_scales_k) \
    X(q6_k, FY_SUBS_MAX, false, true, fy_scales_q6_k)

#endif
