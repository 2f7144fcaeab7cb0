/* The searches of the encoders that are given an importance matrix, as ggml has them. Every sum is
 * one chain in the order of the elements. */
#ifndef FY_KERNELS_SCALAR_WEIGHTED_SCALAR_H
#define FY_KERNELS_SCALAR_WEIGHTED_SCALAR_H

#include "base/types.h"

/* The scale of n values, at most 32, whose quants -zero .. zero - 1 have the least weighted error
 * (make_qx_quants), and these quants, which are of the unrounded scale. */
float fy_weighted_scale(int8_t *q, const float *x, const float *weights, int n, int zero);

typedef struct {
    float scale, min; /* value scale * q + min, min <= 0 */
    float error;
    uint8_t q[FY_QK];
} fy_scale_min;

/* The scale and minimum of 32 values whose quants 0 .. top have the least weighted error
 * (make_qkx3_quants). */
fy_scale_min fy_weighted_scale_min(int top, const float *x, const float *weights);

#endif
