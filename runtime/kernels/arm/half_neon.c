/* f16 and bf16 rows: bound by memory. FCVTL and FCVTN, which every arm64 core has, round and treat
 * NaN exactly as half_scalar.c does; the last few values of a row go through its functions.
 *
 * Arithmetic in f16 (FEAT_FP16) has no use under the contract of kernels.h: every product and sum
 * there is one of f32, and 11 bits of significand hold none of them. */
#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"

void fy_f16_to_f32__neon(float *y, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(x + i));
        vst1q_f32(y + i, vcvt_f32_f16(vget_low_f16(h)));
        vst1q_f32(y + i + 4, vcvt_high_f32_f16(h));
    }
    for (; i < n; i++)
        y[i] = fy_f16_to_f32(x[i]);
}

void fy_f32_to_f16__neon(uint16_t *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const float16x4_t low = vcvt_f16_f32(vld1q_f32(x + i));
        vst1q_u16(y + i, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(x + i + 4))));
    }
    for (; i < n; i++)
        y[i] = fy_f32_to_f16(x[i]);
}

void fy_bf16_to_f32__neon(float *y, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint16x8_t h = vld1q_u16(x + i);
        vst1q_f32(y + i, vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)));
        vst1q_f32(y + i + 4, vreinterpretq_f32_u32(vshll_high_n_u16(h, 16)));
    }
    for (; i < n; i++)
        y[i] = fy_bf16_to_f32(x[i]);
}

/* The result in the upper halves of the words. */
static inline uint16x8_t narrow_bf16(float32x4_t v)
{
    const uint32x4_t u = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(u, vdupq_n_u32(0x400000));
    return vreinterpretq_u16_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet));
}

void fy_f32_to_bf16__neon(uint16_t *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        vst1q_u16(y + i,
                  vuzp2q_u16(narrow_bf16(vld1q_f32(x + i)), narrow_bf16(vld1q_f32(x + i + 4))));
    for (; i < n; i++)
        y[i] = fy_f32_to_bf16(x[i]);
}
