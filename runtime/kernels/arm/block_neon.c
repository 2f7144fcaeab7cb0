/* Rows of blocks: the file encoders and decoders, byte for byte and bit for bit those of
 * block_scalar.c, which says why they round as they do. */
#include <math.h>

#include "kernels/arm/quants_neon.h"
#include "kernels/kernel_impl.h"

enum { QUADS = FY_QK / 4 };

FY_INLINE void load_block(float32x4_t v[QUADS], const float *x)
{
    FY_UNROLL
    for (int i = 0; i < QUADS; i++)
        v[i] = vld1q_f32(x + 4 * i);
}

FY_INLINE float inverse(float d)
{
    return d != 0.0f ? 1.0f / d : 0.0f;
}

/* 16 integers, which fit, to bytes. */
FY_INLINE int8x16_t narrow16(const int32x4_t q[4])
{
    const int16x8_t low = vmovn_high_s32(vmovn_s32(q[0]), q[1]);
    const int16x8_t high = vmovn_high_s32(vmovn_s32(q[2]), q[3]);
    return vmovn_high_s16(vmovn_s16(low), high);
}

void fy_encode_q8_0__neon(fy_block_q8_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++) {
        float32x4_t v[QUADS], top = vdupq_n_f32(0);
        load_block(v, x + b * FY_QK);
        FY_UNROLL
        for (int i = 0; i < QUADS; i++)
            top = vmaxnmq_f32(top, vabsq_f32(v[i]));
        const float d = vmaxnmvq_f32(top) / 127.0f;
        const float id = isfinite(inverse(d)) ? inverse(d) : 0.0f;
        y[b].d = fy_f32_to_f16(d);
        int32x4_t q[QUADS];
        FY_UNROLL
        for (int i = 0; i < QUADS; i++)
            q[i] = vcvtaq_s32_f32(vmulq_n_f32(v[i], id)); /* half away from zero, NaN to 0 */
        vst1q_s8(y[b].qs, narrow16(q));
        vst1q_s8(y[b].qs + 16, narrow16(q + 4));
    }
}

/* The signed value of largest magnitude, the first of equals. */
FY_INLINE float extreme(const float *x, const float32x4_t v[QUADS])
{
    float32x4_t top = v[0], bottom = v[0];
    FY_UNROLL
    for (int i = 1; i < QUADS; i++) {
        top = vmaxnmq_f32(top, v[i]);
        bottom = vminnmq_f32(bottom, v[i]);
    }
    const float high = vmaxnmvq_f32(top), low = vminnmvq_f32(bottom);
    if (high > -low)
        return high;
    if (high < -low)
        return low;
    float m = 0.0f; /* both signs, or zeros */
    for (int i = 0; i < FY_QK; i++)
        m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
    return m;
}

void fy_encode_q4_0__neon(fy_block_q4_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK) {
        float32x4_t v[QUADS];
        load_block(v, x);
        const float d = extreme(x, v) / -8.0f;
        const float id = inverse(d);
        y[b].d = fy_f32_to_f16(d);
        int8x16_t low = vdupq_n_s8(0), high = low;
        if (isfinite(id)) {
            int32x4_t q[QUADS];
            FY_UNROLL
            for (int i = 0; i < QUADS; i++) { /* two roundings, and nothing is above 15 */
                const float32x4_t s = vaddq_f32(vmulq_n_f32(v[i], id), vdupq_n_f32(8.5f));
                q[i] = vcvtq_s32_f32(vminnmq_f32(s, vdupq_n_f32(15.0f)));
            }
            low = narrow16(q);
            high = narrow16(q + 4);
        }
        vst1q_u8(y[b].qs, vsliq_n_u8(vreinterpretq_u8_s8(low), vreinterpretq_u8_s8(high), 4));
    }
}

/* 16 bytes of integers times d, + m. */
FY_INLINE void store16(float *y, int8x16_t q, float32x4_t d, bool has_min, float32x4_t m)
{
    const int16x8_t half[2] = {vmovl_s8(vget_low_s8(q)), vmovl_high_s8(q)};
    FY_UNROLL
    for (int i = 0; i < 2; i++) {
        const float32x4_t low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(half[i])));
        const float32x4_t high = vcvtq_f32_s32(vmovl_high_s16(half[i]));
        const float32x4_t a = vmulq_f32(low, d), b = vmulq_f32(high, d);
        vst1q_f32(y + 8 * i, has_min ? vaddq_f32(a, m) : a);
        vst1q_f32(y + 8 * i + 4, has_min ? vaddq_f32(b, m) : b);
    }
}

/* `n` elements of stored blocks. The scales are those of four rows: of this one in every lane. */
FY_INLINE void decode(float *y, const uint8_t *block, int64_t n, size_t block_bytes, int subs,
                      bool has_min, bool has_parts, fy_quants32_fn *quants, fy_scales_fn *scales)
{
    for (int64_t done = 0; done < n; done += subs * FY_QK, block += block_bytes) {
        const uint8_t *const row[FY_Q_ROWS] = {block, block, block, block};
        q_scales w;
        scales(&w, row, 0);
        for (int s = 0; s < subs; s++, y += FY_QK) {
            const fy_quants32 q = quants(block, s);
            const float32x4_t d = w.d[s], m = has_min ? w.m[s] : d;
            store16(y, q.lo, has_parts ? vmulq_f32(d, vcvtq_f32_s32(w.lo[s])) : d, has_min, m);
            store16(y + 16, q.hi, has_parts ? vmulq_f32(d, vcvtq_f32_s32(w.hi[s])) : d, has_min, m);
        }
    }
}

#define DEFINE_DECODE(type, subs, has_min, has_parts, scales)                                     \
    void fy_decode_##type##__neon(float *y, const fy_block_##type *x, int64_t n)                  \
    {                                                                                             \
        decode(y, (const uint8_t *)x, n, sizeof *x, subs, has_min, has_parts, fy_quants32_##type, \
               scales);                                                                           \
    }

DEFINE_DECODE(q8_0, 1, false, false, fy_scales_d)
DEFINE_DECODE(q4_0, 1, false, false, fy_scales_d)
FY_QUANT_TYPES(DEFINE_DECODE)
