/* What lanes_avx2.h and lanes_avx512.h share: lanes (scalar/lanes_scalar.h) out of the operations
 * of either width. FY_X(op) is the intrinsic of the width. */
#ifndef FY_KERNELS_X86_X86_LANES_H
#define FY_KERNELS_X86_X86_LANES_H

#include <stdbool.h>

#include "kernels/x86/quants_avx2.h"

#define fy_l_set   FY_X(set1_ps)
#define fy_l_load  FY_X(loadu_ps)
#define fy_l_store FY_X(storeu_ps)
#define fy_l_min   FY_X(min_ps)
#define fy_l_max   FY_X(max_ps)
#define fy_l_sqrt  FY_X(sqrt_ps)

/* The larger of a and of b >= 0; the smaller of both >= 0. They compare as integers, for which a
 * CPU has other units than for floats. */
FY_INLINE fy_lanes fy_l_max_bits(fy_lanes a, fy_lanes b)
{
    return fy_l_floats_of(FY_X(max_epi32)(fy_l_bits_of(a), fy_l_bits_of(b)));
}

FY_INLINE fy_lanes fy_l_min_bits(fy_lanes a, fy_lanes b)
{
    return fy_l_floats_of(FY_X(min_epi32)(fy_l_bits_of(a), fy_l_bits_of(b)));
}

/* The nearest integers between low and high, halves to even, of |v| < 2^22. */
FY_INLINE fy_lanes fy_l_small_nearest_between(fy_lanes v, int low, int high)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it leaves no fraction */
    const fy_lanes q = fy_l_max_bits(v + fy_l_set(shift), fy_l_set(shift + (float)low));
    return fy_l_min_bits(q, fy_l_set(shift + (float)high)) - fy_l_set(shift);
}

/* The same from 0 on. */
FY_INLINE fy_lanes fy_l_small_nearest_to(fy_lanes v, int high)
{
    return fy_l_min_bits(fy_l_max_bits(fy_l_round(v), fy_l_set(0.0f)), fy_l_set((float)high));
}

FY_INLINE void fy_l_transpose(fy_lanes *lanes, const float *x, int n)
{
    for (int lane = 0; lane < FY_LANES; lane += 8) {
        for (int i = 0; i < n; i += 8) {
            __m256i rows[8], t[8];
            FY_UNROLL
            for (int r = 0; r < 8; r++)
                rows[r] = fy_load256(x + (lane + r) * n + i);
            fy_transpose_quants(t, rows);
            FY_UNROLL
            for (int c = 0; c < 8; c++)
                fy_store256((float *)(lanes + i + c) + lane, t[c]);
        }
    }
}

/* --- for exp_lanes.h --- */

#define fy_l_fma FY_X(fmadd_ps)

/* The constants come first: min and max give their second operand when one is NaN. */
FY_INLINE fy_lanes fy_l_clamp(fy_lanes v, float low, float high)
{
    return fy_l_max(fy_l_set(low), fy_l_min(fy_l_set(high), v));
}

#endif
