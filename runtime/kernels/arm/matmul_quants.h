/* q4_1, q5_0, q5_1, q4_K, q5_K and q6_K weights times quantized activations, for every arm64 ISA. A
 * file that includes this defines before: dot16(w, x)  int32x4_t whose lanes add up to the exact
 * sum of 16 products of signed bytes, and FY_ISA, the name of the instruction set.
 *
 * As in matmul_q_rows.h four rows make one vector, each lane a row's chain in the order of the
 * scalar specification. A block of 32 becomes two registers of signed bytes in element order, which
 * four columns share; the scales of a super-block are unpacked for four rows at once, as the lanes
 * are rows already. */
#ifndef FY_KERNELS_ARM_MATMUL_QUANTS_H
#define FY_KERNELS_ARM_MATMUL_QUANTS_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

#define FY_INLINE static inline __attribute__((always_inline))

enum { FY_Q_ROWS = 4, FY_Q_COLS = 4, FY_SUBS_MAX = FY_QK_K / FY_QK };

/* --- quants: sub-block s of a stored block, in element order --- */

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

/* --- scales of a stored block of four rows --- */

typedef struct {
    float32x4_t d[FY_SUBS_MAX], m[FY_SUBS_MAX];
    int32x4_t lo[FY_SUBS_MAX], hi[FY_SUBS_MAX]; /* q6_K: of the 16 elements */
} q_scales;

typedef void fy_scales_fn(q_scales *out, const uint8_t *const row[FY_Q_ROWS], size_t offset);

FY_INLINE float32x4_t halves4(const uint8_t *const row[FY_Q_ROWS], size_t offset)
{
    uint16_t h[FY_Q_ROWS];
    for (int r = 0; r < FY_Q_ROWS; r++)
        memcpy(&h[r], row[r] + offset, sizeof h[r]);
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h)));
}

FY_INLINE uint32x4_t dwords4(const uint8_t *const row[FY_Q_ROWS], size_t offset)
{
    uint32_t v[FY_Q_ROWS];
    for (int r = 0; r < FY_Q_ROWS; r++)
        memcpy(&v[r], row[r] + offset, sizeof v[r]);
    return vld1q_u32(v);
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

/* --- products; `subs` blocks of 32 in a stored block, has_min and has_parts are constants --- */

FY_INLINE int32x4_t sums4(const int32x4_t s[FY_Q_ROWS])
{
    return vpaddq_s32(vpaddq_s32(s[0], s[1]), vpaddq_s32(s[2], s[3]));
}

/* Continues the chains of column `col` over block b, sub-block s of what the scales are for. */
FY_INLINE float32x4_t add_block(float32x4_t acc, const fy_quants32 q[FY_Q_ROWS], const q_scales *w,
                                int s, const fy_act *a, int64_t col, int64_t b, bool has_min,
                                bool has_parts)
{
    const int64_t at = col * (a->k / FY_QK) + b;
    const int8_t *x = a->q + col * a->k + b * FY_QK;
    const int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
    int32x4_t lo[FY_Q_ROWS], hi[FY_Q_ROWS];
    for (int r = 0; r < FY_Q_ROWS; r++) {
        lo[r] = dot16(q[r].lo, x0);
        hi[r] = dot16(q[r].hi, x1);
        if (!has_parts)
            lo[r] = vaddq_s32(lo[r], hi[r]);
    }
    int32x4_t sum = sums4(lo);
    if (has_parts)
        sum = vmlaq_s32(vmulq_s32(sum, w->lo[s]), sums4(hi), w->hi[s]);
    acc = vfmaq_f32(acc, vmulq_n_f32(w->d[s], a->d[at]), vcvtq_f32_s32(sum));
    if (has_min)
        acc = vfmaq_f32(acc, vmulq_n_f32(w->m[s], a->d[at]), vdupq_n_f32((float)a->sum[at]));
    return acc;
}

/* y[c][r] for n_rows <= 4 rows and n_cols columns. Rows that are missing repeat the last one. */
FY_INLINE void matmul_rows(float *y, int64_t ldy, const uint8_t *W, size_t row_bytes, int n_rows,
                           const fy_act *a, int64_t n_cols, size_t block_bytes, int subs,
                           bool has_min, bool has_parts, fy_quants32_fn *quants,
                           fy_scales_fn *scales)
{
    const uint8_t *row[FY_Q_ROWS];
    for (int r = 0; r < FY_Q_ROWS; r++)
        row[r] = W + (size_t)(r < n_rows ? r : n_rows - 1) * row_bytes;
    const int64_t n_stored = a->k / FY_QK / subs;
    for (int64_t c = 0; c < n_cols; c += FY_Q_COLS) {
        const int cols = n_cols - c < FY_Q_COLS ? (int)(n_cols - c) : FY_Q_COLS;
        float32x4_t acc[FY_Q_COLS] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0),
                                      vdupq_n_f32(0)};
        for (int64_t stored = 0; stored < n_stored; stored++) {
            const size_t offset = (size_t)stored * block_bytes;
            q_scales w;
            scales(&w, row, offset);
            for (int s = 0; s < subs; s++) {
                fy_quants32 q[FY_Q_ROWS];
                for (int r = 0; r < FY_Q_ROWS; r++)
                    q[r] = quants(row[r] + offset, s);
                for (int i = 0; i < cols; i++)
                    acc[i] = add_block(acc[i], q, &w, s, a, c + i, stored * subs + s, has_min,
                                       has_parts);
            }
        }
        for (int i = 0; i < cols; i++) {
            float out[FY_Q_ROWS];
            vst1q_f32(out, acc[i]);
            memcpy(y + (c + i) * ldy, out, (size_t)n_rows * sizeof *y);
        }
    }
}

#define FY_JOIN(type, isa) fy_matmul_##type##__##isa
#define FY_NAME(type, isa) FY_JOIN(type, isa)
#define DEFINE_MATMUL(type, subs, has_min, has_parts, scales)                                    \
    void FY_NAME(type, FY_ISA)(float *y, int64_t ldy, const void *W, size_t row_bytes,           \
                               int64_t row_begin, int64_t row_end, const fy_act *a,              \
                               int64_t n_cols, void *scratch)                                    \
    {                                                                                            \
        (void)scratch;                                                                           \
        for (int64_t r = row_begin; r < row_end; r += FY_Q_ROWS) {                               \
            const int n = row_end - r < FY_Q_ROWS ? (int)(row_end - r) : FY_Q_ROWS;              \
            matmul_rows(y + r, ldy, (const uint8_t *)W + (size_t)r * row_bytes, row_bytes, n, a, \
                        n_cols, sizeof(fy_block_##type), subs, has_min, has_parts,               \
                        fy_quants32_##type, scales);                                             \
        }                                                                                        \
    }

DEFINE_MATMUL(q4_1, 1, true, false, fy_scales_dm)
DEFINE_MATMUL(q5_0, 1, false, false, fy_scales_d)
DEFINE_MATMUL(q5_1, 1, true, false, fy_scales_dm)
DEFINE_MATMUL(q4_k, FY_SUBS_MAX, true, false, fy_scales_k)
DEFINE_MATMUL(q5_k, FY_SUBS_MAX, true, false, fy_scales_k)
DEFINE_MATMUL(q6_k, FY_SUBS_MAX, false, true, fy_scales_q6_k)

#endif
