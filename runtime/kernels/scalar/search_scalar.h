/* The searches of the file encoders for a scale, as ggml has them: candidates around what the
 * extremes give, each with the scale that fits its quants best. Every sum is one chain in the order
 * of the elements, every product is taken from left to right and rounded; another order gives other
 * bytes. No input reaches an undefined conversion. */
#ifndef FY_KERNELS_SCALAR_SEARCH_SCALAR_H
#define FY_KERNELS_SCALAR_SEARCH_SCALAR_H

#include <stdbool.h>

#include "base/types.h"

/* The scale of n values, at most 32, whose quants -zero .. zero - 1 have the least weighted error
 * (make_qx_quants), and these quants, which are of the unrounded scale. */
float fy_search_scale(int8_t *q, const float *x, const float *weights, int n, int zero);

/* How the scale of 32 values with a minimum is looked for: fy_k_candidate(0 .. steps) over their
 * range. */
typedef struct {
    int top; /* the largest quant */
    float first, width;
    int steps;
    bool bounded; /* a candidate's quant is held between 0 and top before it is rounded, too */
} fy_k_search;

static const fy_k_search fy_q4_k_search = {.top = 15, .first = -1.0f, .width = 0.1f, .steps = 20},
                         fy_q5_k_search = {.top = 31, .first = -0.5f, .width = 0.1f, .steps = 15};

/* The one under an importance matrix. */
static inline fy_k_search fy_weighted_search(int top)
{
    return (fy_k_search){.top = top, .first = -0.9f, .width = 0.05f, .steps = 36, .bounded = true};
}

static inline float fy_k_candidate(const fy_k_search *how, int step)
{
    return how->first + how->width * (float)step + (float)how->top;
}

typedef struct {
    float scale, min; /* value scale * q + min, min <= 0 */
    float error;
    uint8_t q[FY_QK];
} fy_scale_min;

/* The scale and minimum of 32 values whose quants have the least weighted error (make_qkx2_quants;
 * bounded: make_qkx3_quants). */
fy_scale_min fy_search_scale_min(const fy_k_search *how, const float *x, const float *weights);

#endif
