/* Operations on vectors of floats: norms, activation functions and the soft cap, conversions of f16
 * and bf16, sums of errors; the exponential and the error function that they need. The order of
 * operations is what kernels.h defines for every ISA. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"

/* --- norms and the exponential --------------------------------------------------------------- */

static float power_of_two(int n)
{
    const uint32_t bits = (uint32_t)(n + 127) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float fy_exp(float x)
{
    if (isnan(x))
        return x;
    x = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
    const float n = rintf(x * 1.44269504f);
    float r = fmaf(-n, 0.693359375f, x);
    r = fmaf(-n, -2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p, r * r, r + 1.0f);
    const int exponent = (int)n, half = exponent >> 1;
    return p * power_of_two(half) * power_of_two(exponent - half);
}

enum { LANES = 8 };

static double sum_of_lanes(const double lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

void fy_rms_norm__scalar(float *y, const float *x, const float *w, int64_t n, float eps)
{
    double lane[LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] += (double)x[i] * (double)x[i];
    const float s = (float)(1.0 / sqrt(sum_of_lanes(lane) / (double)n + (double)eps));
    for (int64_t i = 0; i < n; i++)
        y[i] = w != NULL ? x[i] * s * w[i] : x[i] * s;
}

void fy_layer_norm__scalar(float *y, const float *x, const float *w, const float *bias, int64_t n,
                           float eps)
{
    double lane[LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] += (double)x[i];
    const double mean = sum_of_lanes(lane) / (double)n;
    memset(lane, 0, sizeof lane);
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] += ((double)x[i] - mean) * ((double)x[i] - mean);
    const float m = (float)mean;
    const float s = (float)(1.0 / sqrt(sum_of_lanes(lane) / (double)n + (double)eps));
    for (int64_t i = 0; i < n; i++)
        y[i] = bias != NULL ? (x[i] - m) * s * w[i] + bias[i] : (x[i] - m) * s * w[i];
}

/* --- activations ----------------------------------------------------------------------------- */

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

/* What x is worth when it is above the threshold, or NaN; else 0. */
static float above(float x, float threshold, float worth)
{
    return x <= threshold ? 0.0f : worth;
}

void fy_relu_mul__scalar(float *x, const float *up, int64_t n, float threshold)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = above(x[i], threshold, up != NULL ? x[i] * up[i] : x[i]);
}

void fy_drelu_mul__scalar(float *x, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float worth = up != NULL ? x[i] * above(up[i], 0.0f, up[i]) : x[i];
        x[i] = above(x[i], 0.0f, worth);
    }
}

void fy_swiglu_oai_mul__scalar(float *x, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i] > 7.0f ? 7.0f : x[i];
        const float f = v / (1.0f + fy_exp(v * -1.702f));
        const float u = up == NULL ? 0.0f : up[i] > 7.0f ? 7.0f : up[i] < -7.0f ? -7.0f : up[i];
        x[i] = f * (1.0f + u);
    }
}

void fy_softcap__scalar(float *x, int64_t n, float cap)
{
    const float rate = 2.0f / cap;
    for (int64_t i = 0; i < n; i++)
        x[i] = cap * (1.0f - 2.0f / (1.0f + fy_exp(x[i] * rate)));
}

/* --- f16 and bf16 ---------------------------------------------------------------------------- */

/* One value at a time, on bits: what the conversion instructions of x86 (F16C) and arm64 do.
 * Widening is exact, narrowing rounds to nearest even, subnormals are kept, and a NaN keeps its
 * sign and the top of its payload but becomes quiet. */

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float fy_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t exponent = h >> 10 & 0x1f;
    const uint32_t mantissa = h & 0x3ff;
    if (exponent == 0x1f) {
        const uint32_t quiet = mantissa != 0 ? 0x400000 : 0;
        return float_of(sign | 0x7f800000 | quiet | mantissa << 13);
    }
    if (exponent == 0) /* subnormal: mantissa * 2^-24 is exact in f32 */
        return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t fy_f32_to_f16(float f)
{
    const uint32_t u = bits_of(f);
    const uint32_t sign = u >> 16 & 0x8000;
    const uint32_t magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520, halfway from the largest f16 to the next power of two */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        /* Below 2^-14 the result is a multiple of 2^-24: adding 0.5 puts that unit at the bottom of
         * the sum's mantissa, so the addition itself rounds to nearest even. */
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f)));
    }
    const uint32_t even = magnitude >> 13 & 1;
    return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xfff + even) >> 13));
}

float fy_bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t fy_f32_to_bf16(float f)
{
    const uint32_t u = bits_of(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#define DEFINE_CONVERT(op, to, from)                        \
    void fy_##op##__scalar(to *y, const from *x, int64_t n) \
    {                                                       \
        for (int64_t i = 0; i < n; i++)                     \
            y[i] = fy_##op(x[i]);                           \
    }

DEFINE_CONVERT(f16_to_f32, float, uint16_t)
DEFINE_CONVERT(f32_to_f16, uint16_t, float)
DEFINE_CONVERT(bf16_to_f32, float, uint16_t)
DEFINE_CONVERT(f32_to_bf16, uint16_t, float)

/* --- errors ---------------------------------------------------------------------------------- */

void fy_error_sums__scalar(fy_error_sums *s, const float *x, const float *y, const float *limits,
                           int64_t n)
{
    double xx[LANES] = {0}, yy[LANES] = {0}, xy[LANES] = {0}, ee[LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        const double a = (double)x[i], b = (double)y[i], e = a - b;
        xx[i % LANES] += a * a;
        yy[i % LANES] += b * b;
        xy[i % LANES] += a * b;
        ee[i % LANES] += e * e;
        const float size = fabsf(x[i]), error = fabsf(x[i] - y[i]);
        s->max_x = size > s->max_x ? size : s->max_x;
        s->max_e = error > s->max_e ? error : s->max_e;
    }
    for (int64_t i = 0; limits != NULL && i < n; i++) {
        const float *limit = limits + i / FY_LIMIT_ELEMS * 2;
        s->n_outside += x[i] < limit[0] || x[i] > limit[1];
    }
    s->xx += sum_of_lanes(xx);
    s->yy += sum_of_lanes(yy);
    s->xy += sum_of_lanes(xy);
    s->ee += sum_of_lanes(ee);
    s->n += n;
}
