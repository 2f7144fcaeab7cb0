/* Operations on vectors of floats (scalar/elementwise_lanes.h) in NEON; and the gates that
 * compilers vectorize on x86 but not here.
 *
 * FCVTL and FCVTN, which every arm64 core has, convert f16. Arithmetic in f16 (FEAT_FP16) has no
 * use under the contract of kernels.h: every product and sum there is one of f32, and 11 bits of
 * significand hold none of them. */
#include "kernels/arm/lanes_neon.h"

#define FY_E_ISA       neon
#define FY_E_BF16_STEP 8

FY_INLINE void f16_to_f32_step(float *y, const uint16_t *x)
{
    const float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(x));
    vst1q_f32(y, vcvt_f32_f16(vget_low_f16(h)));
    vst1q_f32(y + 4, vcvt_high_f32_f16(h));
}

FY_INLINE void f32_to_f16_step(uint16_t *y, const float *x)
{
    const float16x4_t low = vcvt_f16_f32(vld1q_f32(x));
    vst1q_u16(y, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(x + 4))));
}

FY_INLINE void bf16_to_f32_step(float *y, const uint16_t *x)
{
    const uint16x8_t h = vld1q_u16(x);
    vst1q_f32(y, vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)));
    vst1q_f32(y + 4, vreinterpretq_f32_u32(vshll_high_n_u16(h, 16)));
}

/* The result in the upper halves of the words. */
FY_INLINE uint16x8_t narrow_bf16(float32x4_t v)
{
    const uint32x4_t u = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(u, vdupq_n_u32(0x400000));
    return vreinterpretq_u16_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet));
}

FY_INLINE void f32_to_bf16_step(uint16_t *y, const float *x)
{
    vst1q_u16(y, vuzp2q_u16(narrow_bf16(vld1q_f32(x)), narrow_bf16(vld1q_f32(x + 4))));
}

#include "kernels/scalar/elementwise_lanes.h"

/* What x is worth, or 0 up to the threshold. */
FY_INLINE float32x4_t above4(float32x4_t x, float32x4_t threshold, float32x4_t worth)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(worth), vcleq_f32(x, threshold)));
}

void fy_relu_mul__neon(float *x, const float *up, int64_t n, float threshold)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t v = vld1q_f32(x + i);
        const float32x4_t worth = up != NULL ? vmulq_f32(v, vld1q_f32(up + i)) : v;
        vst1q_f32(x + i, above4(v, vdupq_n_f32(threshold), worth));
    }
    if (i < n)
        fy_relu_mul__scalar(x + i, up != NULL ? up + i : NULL, n - i, threshold);
}

void fy_drelu_mul__neon(float *x, const float *up, int64_t n)
{
    const float32x4_t zero = vdupq_n_f32(0);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t v = vld1q_f32(x + i), u = up != NULL ? vld1q_f32(up + i) : v;
        const float32x4_t worth = up != NULL ? vmulq_f32(v, above4(u, zero, u)) : v;
        vst1q_f32(x + i, above4(v, zero, worth));
    }
    if (i < n)
        fy_drelu_mul__scalar(x + i, up != NULL ? up + i : NULL, n - i);
}
