/* The lanes in which the searches for scales (fit_lanes.h, encode_k_lanes.h) are written, once for
 * every instruction set: a lane is a block, or a group of elements with a scale of its own. This is
 * one lane, and says what the operations mean. Besides them + - * / work on fy_lanes. */
#ifndef FY_KERNELS_SCALAR_LANES_SCALAR_H
#define FY_KERNELS_SCALAR_LANES_SCALAR_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"

#define FY_INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define FY_UNROLL _Pragma("unroll")
#else
#define FY_UNROLL _Pragma("GCC unroll 16")
#endif

enum { FY_LANES = 1 };

typedef float fy_lanes;
typedef bool fy_lanes_mask;

#define fy_l_sqrt sqrtf
#define fy_l_abs  fabsf

FY_INLINE fy_lanes fy_l_set(float f)
{
    return f;
}

FY_INLINE void fy_l_store(float *p, fy_lanes v)
{
    *p = v;
}

FY_INLINE fy_lanes fy_l_max(fy_lanes a, fy_lanes b) /* b where neither is more, or one is NaN */
{
    return a > b ? a : b;
}

FY_INLINE fy_lanes fy_l_min(fy_lanes a, fy_lanes b)
{
    return a < b ? a : b;
}

/* The nearest integers, halves to even, of |v| < 2^22. */
FY_INLINE fy_lanes fy_l_round(fy_lanes v)
{
    return (v + 0x1.8p23f) - 0x1.8p23f;
}

/* As it comes back from f16. */
FY_INLINE fy_lanes fy_l_halved(fy_lanes v)
{
    return fy_f16_to_f32(fy_f32_to_f16(v));
}

FY_INLINE fy_lanes_mask fy_l_less(fy_lanes a, fy_lanes b)
{
    return a < b;
}

FY_INLINE fy_lanes fy_l_select(fy_lanes_mask m, fy_lanes yes, fy_lanes no)
{
    return m ? yes : no;
}

/* lanes[i] = element i of FY_LANES groups of n elements, a multiple of 8. */
FY_INLINE void fy_l_transpose(fy_lanes *lanes, const float *x, int n)
{
    memcpy(lanes, x, (size_t)n * sizeof *x);
}

#endif
