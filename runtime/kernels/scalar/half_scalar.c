/* f16 and bf16, one value at a time, on bits: what the conversion instructions of x86 (F16C) and
 * arm64 do. Widening is exact, narrowing rounds to nearest even, subnormals are kept, and a NaN
 * keeps its sign and the top of its payload but becomes quiet. */
#include <string.h>

#include "kernels/kernel_impl.h"

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

void fy_f16_to_f32__scalar(float *y, const uint16_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = fy_f16_to_f32(x[i]);
}

void fy_f32_to_f16__scalar(uint16_t *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = fy_f32_to_f16(x[i]);
}

void fy_bf16_to_f32__scalar(float *y, const uint16_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = fy_bf16_to_f32(x[i]);
}

void fy_f32_to_bf16__scalar(uint16_t *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = fy_f32_to_bf16(x[i]);
}
