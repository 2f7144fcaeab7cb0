/* The norms and the exponential, in the order of operations that kernels.h defines for every ISA.
 */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"

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

static double sum_of_lanes(const double lane[8])
{
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

void fy_rms_norm__scalar(float *y, const float *x, const float *w, int64_t n, float eps)
{
    double lane[8] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % 8] += (double)x[i] * (double)x[i];
    const float s = (float)(1.0 / sqrt(sum_of_lanes(lane) / (double)n + (double)eps));
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * s * w[i];
}

void fy_layer_norm__scalar(float *y, const float *x, const float *w, const float *bias, int64_t n,
                           float eps)
{
    double lane[8] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % 8] += (double)x[i];
    const double mean = sum_of_lanes(lane) / (double)n;
    memset(lane, 0, sizeof lane);
    for (int64_t i = 0; i < n; i++)
        lane[i % 8] += ((double)x[i] - mean) * ((double)x[i] - mean);
    const float m = (float)mean;
    const float s = (float)(1.0 / sqrt(sum_of_lanes(lane) / (double)n + (double)eps));
    for (int64_t i = 0; i < n; i++)
        y[i] = bias != NULL ? (x[i] - m) * s * w[i] + bias[i] : (x[i] - m) * s * w[i];
}
