/* Rows of blocks: the file encoders and decoders, byte for byte and bit for bit those of
 * block_scalar.c, which says why they round as they do. */
#include <arm_neon.h>
#include <math.h>

#include "kernels/arm/quants_neon.h"
#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"

enum { QUADS = FY_QK / 4 };

FY_INLINE void load_block(float32x4_t v[QUADS], const float *x)
{
    FY_UNROLL
    for (int i = 0; i < QUADS; i++)
        v[i] = vld1q_f32(x + 4 * i);
}

/* 1 / d, or 0 where that is not finite. */
FY_INLINE float finite_inverse(float d)
{
    const float id = d != 0.0f ? 1.0f / d : 0.0f;
    return isfinite(id) ? id : 0.0f;
}

void fy_encode_q8_0__neon(fy_block_q8_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++) {
        float32x4_t v[QUADS], top = vdupq_n_f32(0);
        load_block(v, x + b * FY_QK);
        FY_UNROLL
        for (int i = 0; i < QUADS; i++)
            top = vmaxnmq_f32(top, vabsq_f32(v[i]));
        const float d = vmaxnmvq_f32(top) / 127.0f, id = finite_inverse(d);
        y[b].d = to_half(d);
        int32x4_t q[QUADS];
        FY_UNROLL
        for (int i = 0; i < QUADS; i++)
            q[i] = vcvtaq_s32_f32(vmulq_n_f32(v[i], id)); /* half away from zero, NaN to 0 */
        vst1q_s8(y[b].qs, low_bytes(q));
        vst1q_s8(y[b].qs + 16, low_bytes(q + 4));
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

/* The integer parts of v * id + offset, rounded twice, at most top; 0 where 1 / d is not finite.
 * Only what rounds up is above top, and nothing is below 0. */
FY_INLINE void to_quants(uint8x16_t q[2], const float32x4_t v[QUADS], float d, float offset,
                         uint8_t top)
{
    const float id = finite_inverse(d);
    const bool zeros = d != 0.0f && id == 0.0f;
    const float32x4_t add = vdupq_n_f32(zeros ? 0.0f : offset);
    int32x4_t wide[QUADS];
    FY_UNROLL
    for (int i = 0; i < QUADS; i++)
        wide[i] = vcvtq_s32_f32(vaddq_f32(vmulq_n_f32(v[i], id), add));
    q[0] = vminq_u8(vreinterpretq_u8_s8(low_bytes(wide)), vdupq_n_u8(top));
    q[1] = vminq_u8(vreinterpretq_u8_s8(low_bytes(wide + 4)), vdupq_n_u8(top));
}

FY_INLINE void put_nibbles(uint8_t qs[FY_QK / 2], const uint8x16_t q[2])
{
    vst1q_u8(qs, vsliq_n_u8(q[0], q[1], 4));
}

FY_INLINE void put_fifth_bits(uint8_t qh[FY_QK / 8], const uint8x16_t q[2])
{
    const uint8x16_t bit_of = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    const uint8x16_t fifth = vdupq_n_u8(16);
    uint8x16_t bits =
        vpaddq_u8(vandq_u8(vtstq_u8(q[0], fifth), bit_of), vandq_u8(vtstq_u8(q[1], fifth), bit_of));
    bits = vpaddq_u8(bits, bits);
    bits = vpaddq_u8(bits, bits);
    const uint32_t word = vgetq_lane_u32(vreinterpretq_u32_u8(bits), 0);
    memcpy(qh, &word, sizeof word);
}

/* Codes around `zero` that meet the value of largest magnitude with -zero. Gives the scale. */
FY_INLINE uint16_t quants_around(int zero, uint8x16_t q[2], const float *x)
{
    float32x4_t v[QUADS];
    load_block(v, x);
    const float d = extreme(x, v) / (float)-zero;
    to_quants(q, v, d, (float)zero + 0.5f, (uint8_t)(2 * zero - 1));
    return to_half(d);
}

/* The smallest value; of zeros the first, whose sign is stored. */
FY_INLINE float smallest(const float *x, const float32x4_t v[QUADS])
{
    float32x4_t bottom = v[0];
    FY_UNROLL
    for (int i = 1; i < QUADS; i++)
        bottom = vminnmq_f32(bottom, v[i]);
    const float min = vminnmvq_f32(bottom);
    for (int i = 0; min == 0.0f && i < FY_QK; i++) {
        if (x[i] == 0.0f)
            return x[i];
    }
    return min;
}

/* Codes 0 .. top from the smallest value to the largest. */
FY_INLINE void quants_between(uint8_t top, uint8x16_t q[2], uint16_t *d_out, uint16_t *m_out,
                              const float *x)
{
    float32x4_t v[QUADS];
    load_block(v, x);
    float32x4_t most = v[0];
    FY_UNROLL
    for (int i = 1; i < QUADS; i++)
        most = vmaxnmq_f32(most, v[i]);
    const float min = smallest(x, v), d = (vmaxnmvq_f32(most) - min) / (float)top;
    FY_UNROLL
    for (int i = 0; i < QUADS; i++)
        v[i] = vsubq_f32(v[i], vdupq_n_f32(min));
    to_quants(q, v, d, 0.5f, top);
    *d_out = to_half(d);
    *m_out = to_half(min);
}

void fy_encode_q4_0__neon(fy_block_q4_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++) {
        uint8x16_t q[2];
        y[b].d = quants_around(8, q, x + b * FY_QK);
        put_nibbles(y[b].qs, q);
    }
}

void fy_encode_q5_0__neon(fy_block_q5_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++) {
        uint8x16_t q[2];
        y[b].d = quants_around(16, q, x + b * FY_QK);
        put_nibbles(y[b].qs, q);
        put_fifth_bits(y[b].qh, q);
    }
}

void fy_encode_q4_1__neon(fy_block_q4_1 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++) {
        uint8x16_t q[2];
        quants_between(15, q, &y[b].d, &y[b].m, x + b * FY_QK);
        put_nibbles(y[b].qs, q);
    }
}

void fy_encode_q5_1__neon(fy_block_q5_1 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++) {
        uint8x16_t q[2];
        quants_between(31, q, &y[b].d, &y[b].m, x + b * FY_QK);
        put_nibbles(y[b].qs, q);
        put_fifth_bits(y[b].qh, q);
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

/* --- activations ----------------------------------------------------------------------------- */

/* Activations to 8 bits, 32 at a time. FCVTAS rounds half away from zero, as the rule in kernels.h
 * asks. */

static void quantize_block(const float *x, int8_t *q, float *d_out, int32_t *sum_out)
{
    float32x4_t v[8], top = vdupq_n_f32(0);
    FY_UNROLL
    for (int i = 0; i < 8; i++) {
        v[i] = vld1q_f32(x + 4 * i);
        top = vmaxq_f32(top, vabsq_f32(v[i]));
    }
    float d = vmaxvq_f32(top) / 127.0f;
    float id = d != 0 ? 1.0f / d : 0;
    if (!isfinite(id))
        id = 0;
    int32x4_t sum = vdupq_n_s32(0);
    int16x8_t half[4];
    FY_UNROLL
    for (int i = 0; i < 8; i += 2) {
        int32x4_t a = vcvtaq_s32_f32(vmulq_n_f32(v[i], id)),
                  b = vcvtaq_s32_f32(vmulq_n_f32(v[i + 1], id));
        sum = vaddq_s32(sum, vaddq_s32(a, b));
        half[i / 2] = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
    }
    vst1q_s8(q, vcombine_s8(vmovn_s16(half[0]), vmovn_s16(half[1])));
    vst1q_s8(q + 16, vcombine_s8(vmovn_s16(half[2]), vmovn_s16(half[3])));
    *d_out = d;
    *sum_out = vaddvq_s32(sum);
}

void fy_act_quantize__neon(const fy_act *a, int64_t col_begin, int64_t col_end)
{
    int64_t n_blocks = a->k / FY_QK;
    for (int64_t c = col_begin; c < col_end; c++) {
        for (int64_t b = 0; b < n_blocks; b++) {
            int64_t i = c * n_blocks + b;
            quantize_block(a->x + i * FY_QK, a->q + i * FY_QK, &a->d[i], &a->sum[i]);
        }
    }
}
