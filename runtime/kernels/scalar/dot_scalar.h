/* The dot product of float rows: the order of operations that every ISA repeats. */
#ifndef FY_KERNELS_SCALAR_DOT_SCALAR_H
#define FY_KERNELS_SCALAR_DOT_SCALAR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

/* Reads element i of a row of any alignment. */
typedef float fy_weight_fn(const uint8_t *row, int64_t i);

static inline float fy_weight_f32(const uint8_t *row, int64_t i)
{
    float f;
    memcpy(&f, row + 4 * i, sizeof f);
    return f;
}

static inline float fy_weight_f16(const uint8_t *row, int64_t i)
{
    uint16_t h;
    memcpy(&h, row + 2 * i, sizeof h);
    return fy_f16_to_f32(h);
}

static inline float fy_weight_bf16(const uint8_t *row, int64_t i)
{
    uint16_t h;
    memcpy(&h, row + 2 * i, sizeof h);
    return fy_bf16_to_f32(h);
}

static inline float fy_dot_scalar(const uint8_t *row, const float *x, int64_t k,
                                  fy_weight_fn *weight)
{
    enum { LANES = 8 };
    float lane[LANES] = {0};
    for (int64_t i = 0; i < k; i += LANES) {
        for (int l = 0; l < LANES; l++)
            lane[l] =
                i + l < k ? fmaf(weight(row, i + l), x[i + l], lane[l]) : fmaf(0.0f, 0.0f, lane[l]);
    }
    float u[4];
    for (int l = 0; l < 4; l++)
        u[l] = lane[l] + lane[l + 4];
    return (u[0] + u[2]) + (u[1] + u[3]);
}

#endif
