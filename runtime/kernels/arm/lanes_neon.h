/* Lanes (scalar/lanes_scalar.h) in NEON: four. */
#ifndef FY_KERNELS_ARM_LANES_NEON_H
#define FY_KERNELS_ARM_LANES_NEON_H

#include <stdbool.h>

#include "kernels/arm/vec_neon.h"

enum { FY_LANES = 4 };

typedef float32x4_t fy_lanes;
typedef uint32x4_t fy_lanes_mask;

#define fy_l_set    vdupq_n_f32
#define fy_l_load   vld1q_f32
#define fy_l_store  vst1q_f32
#define fy_l_sqrt   vsqrtq_f32
#define fy_l_abs    vabsq_f32
#define fy_l_round  vrndnq_f32
#define fy_l_less   vcltq_f32
#define fy_l_equal  vceqq_f32
#define fy_l_and    vandq_u32
#define fy_l_select vbslq_f32

FY_INLINE fy_lanes fy_l_max(fy_lanes a, fy_lanes b) /* unlike vmaxnm, b where both are a zero */
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

FY_INLINE fy_lanes fy_l_min(fy_lanes a, fy_lanes b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

FY_INLINE fy_lanes fy_l_halved(fy_lanes v)
{
    return vcvt_f32_f16(vcvt_f16_f32(v));
}

FY_INLINE bool fy_l_all(fy_lanes_mask m)
{
    return vminvq_u32(m) != 0;
}

/* As fy_k_nearest_between, for any v: of the sum only the mantissa counts. */
FY_INLINE fy_lanes fy_l_nearest_between(fy_lanes v, int low, int high)
{
    const fy_lanes zero = vdupq_n_f32(12582912.0f);
    const fy_lanes sum = vbslq_f32(vdupq_n_u32(0x007fffff), zero + v, zero);
    const fy_lanes least = vmaxq_f32(sum, zero + vdupq_n_f32((float)low));
    return vminq_f32(least, zero + vdupq_n_f32((float)high)) - zero;
}

/* The same of |v| < 2^22, but that a code of 0 may be -0, which changes no sum. */
FY_INLINE fy_lanes fy_l_small_nearest_between(fy_lanes v, int low, int high)
{
    return vrndnq_f32(vminq_f32(vmaxq_f32(v, fy_l_set((float)low)), fy_l_set((float)high)));
}

FY_INLINE fy_lanes fy_l_small_nearest_to(fy_lanes v, int high)
{
    return fy_l_small_nearest_between(v, 0, high);
}

FY_INLINE void fy_l_transpose(fy_lanes *lanes, const float *x, int n)
{
    for (int i = 0; i < n; i += FY_LANES) {
        const float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + n + i);
        const float32x4_t c = vld1q_f32(x + 2 * n + i), d = vld1q_f32(x + 3 * n + i);
        const float64x2_t ab[2] = {vreinterpretq_f64_f32(vtrn1q_f32(a, b)),
                                   vreinterpretq_f64_f32(vtrn2q_f32(a, b))};
        const float64x2_t cd[2] = {vreinterpretq_f64_f32(vtrn1q_f32(c, d)),
                                   vreinterpretq_f64_f32(vtrn2q_f32(c, d))};
        lanes[i] = vreinterpretq_f32_f64(vzip1q_f64(ab[0], cd[0]));
        lanes[i + 1] = vreinterpretq_f32_f64(vzip1q_f64(ab[1], cd[1]));
        lanes[i + 2] = vreinterpretq_f32_f64(vzip2q_f64(ab[0], cd[0]));
        lanes[i + 3] = vreinterpretq_f32_f64(vzip2q_f64(ab[1], cd[1]));
    }
}

/* --- for exp_lanes.h and elementwise_lanes.h --- */

#define fy_l_or vorrq_u32

FY_INLINE fy_lanes fy_l_load_some(const float *p, int64_t n) /* zeros from n on */
{
    float some[FY_LANES] = {0};
    return vld1q_f32(n >= FY_LANES ? p : memcpy(some, p, (size_t)n * sizeof *p));
}

FY_INLINE void fy_l_store_some(float *p, fy_lanes v, int64_t n)
{
    float some[FY_LANES];
    vst1q_f32(n >= FY_LANES ? p : some, v);
    if (n < FY_LANES)
        memcpy(p, some, (size_t)n * sizeof *p);
}

FY_INLINE fy_lanes fy_l_fma(fy_lanes a, fy_lanes b, fy_lanes c)
{
    return vfmaq_f32(c, a, b);
}

FY_INLINE fy_lanes fy_l_clamp(fy_lanes v, float low, float high) /* NaN for NaN */
{
    return vmaxq_f32(vminq_f32(v, fy_l_set(high)), fy_l_set(low));
}

FY_INLINE fy_lanes fy_l_power_of_two(int32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

/* p * 2^n by two factors, each of which is a number. */
FY_INLINE fy_lanes fy_l_times_power(fy_lanes p, fy_lanes n)
{
    const int32x4_t exponent = vcvtq_s32_f32(n), half = vshrq_n_s32(exponent, 1);
    return p * fy_l_power_of_two(half) * fy_l_power_of_two(vsubq_s32(exponent, half));
}

/* v >= 0 with the sign of x. */
FY_INLINE fy_lanes fy_l_with_sign(fy_lanes v, fy_lanes x)
{
    return vbslq_f32(vdupq_n_u32(0x80000000), x, v);
}

typedef uint32x4_t fy_l_counts;
#define fy_l_count vsubq_u32

enum { FY_DOUBLES = 2 };
typedef float64x2_t fy_doubles;

#define fy_d_set vdupq_n_f64

FY_INLINE fy_doubles fy_d_fma(fy_doubles a, fy_doubles b, fy_doubles c)
{
    return vfmaq_f64(c, a, b);
}

/* Eight floats. */
FY_INLINE void fy_d_widen(fy_doubles wide[4], const float *x)
{
    const float32x4_t low = vld1q_f32(x), high = vld1q_f32(x + 4);
    wide[0] = vcvt_f64_f32(vget_low_f32(low));
    wide[1] = vcvt_high_f64_f32(low);
    wide[2] = vcvt_f64_f32(vget_low_f32(high));
    wide[3] = vcvt_high_f64_f32(high);
}

/* Of eight lanes in the order of kernels.h. */
FY_INLINE double fy_d_sum(const fy_doubles s[4])
{
    return vaddvq_f64(s[0] + s[2]) + vaddvq_f64(s[1] + s[3]);
}

#endif
