/* Activation functions and the soft cap, in the order of operations that kernels.h defines for
 * every ISA. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/erf_fit.h"

static float polynomial(const float c[FY_ERF_TERMS], float x)
{
    float p = c[0];
    for (int i = 1; i < FY_ERF_TERMS; i++)
        p = fmaf(p, x, c[i]);
    return p;
}

float fy_erf(float x)
{
    float z = fabsf(x);
    if (z < 1.0f)
        return fmaf(polynomial(fy_erf_p, x * x), x, x);
    z = z > 4.0f ? 4.0f : z;
    return copysignf(1.0f - fy_exp(-(z * polynomial(fy_erf_q, z))), x);
}

void fy_silu_mul__scalar(float *x, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float f = x[i] / (1.0f + fy_exp(-x[i]));
        x[i] = up != NULL ? f * up[i] : f;
    }
}

void fy_gelu_mul__scalar(float *x, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float f = 0.5f * x[i] * (1.0f + fy_erf(x[i] * 0.707106781f));
        x[i] = up != NULL ? f * up[i] : f;
    }
}

void fy_gelu_tanh_mul__scalar(float *x, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        /* -2 sqrt(2 / pi) and 0.044715 times that */
        const float u = x[i] * fmaf(x[i] * x[i], -7.13548163e-2f, -1.59576912f);
        const float f = x[i] / (1.0f + fy_exp(u));
        x[i] = up != NULL ? f * up[i] : f;
    }
}

static float above(float x, float threshold)
{
    return x <= threshold ? 0.0f : x;
}

void fy_relu_mul__scalar(float *x, const float *up, int64_t n, float threshold)
{
    for (int64_t i = 0; i < n; i++) {
        const float f = above(x[i], threshold);
        x[i] = up != NULL ? f * up[i] : f;
    }
}

void fy_drelu_mul__scalar(float *x, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float f = above(x[i], 0.0f);
        x[i] = up != NULL ? f * above(up[i], 0.0f) : f;
    }
}

void fy_softcap__scalar(float *x, int64_t n, float cap)
{
    const float rate = 2.0f / cap;
    for (int64_t i = 0; i < n; i++)
        x[i] = cap * (1.0f - 2.0f / (1.0f + fy_exp(x[i] * rate)));
}
