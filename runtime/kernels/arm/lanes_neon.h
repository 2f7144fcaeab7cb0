/* Lanes (scalar/lanes_scalar.h) in NEON: four. */
#ifndef FY_KERNELS_ARM_LANES_NEON_H
#define FY_KERNELS_ARM_LANES_NEON_H

#include <stdbool.h>

#include "kernels/arm/vec_neon.h"

enum { FY_LANES = 4 };

typedef float32x4_t fy_lanes;
typedef uint32x4_t fy_lanes_mask;

#define fy_l_set    vdupq_n_f32
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

#endif
