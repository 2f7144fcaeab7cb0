/* Rows of blocks: the file encoders of the types of 32 elements, the decoders of all, and the
 * activations' quantizer.
 *
 * The encoders give the bytes of ggml's quantize_row_*_ref built without fused multiply-add: q4_0
 * rounds x * id + 8.5 in two steps, and one rounding instead of two changes one block in 250 of
 * bf16 weights. Where the scale is so small that 1 / d overflows, ggml converts a NaN to int; the
 * bytes it leaves there on x86-64 are zeros, and zeros are the rule here. No input, not even NaN,
 * reaches an undefined conversion. */
#include <float.h>
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/quants_scalar.h"

/* 1 / d, or 0 for d = 0. */
static float inverse(float d)
{
    return d != 0.0f ? 1.0f / d : 0.0f;
}

/* Half away from zero; values come within 127.001 of zero, a NaN gives 0. */
static int8_t round_q8(float v)
{
    return isnan(v) ? 0 : (int8_t)roundf(v);
}

void fy_act_quantize__scalar(const fy_act *a, int64_t col_begin, int64_t col_end)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t b = col_begin * n_blocks; b < col_end * n_blocks; b++) {
        const float *x = a->x + b * FY_QK;
        int8_t *q = a->q + b * FY_QK;
        float amax = 0.0f;
        for (int i = 0; i < FY_QK; i++) {
            const float v = fabsf(x[i]);
            if (v > amax || isnan(v))
                amax = v;
        }
        const float d = amax / 127.0f;
        const float id = isfinite(inverse(d)) ? inverse(d) : 0.0f;
        int32_t sum = 0;
        for (int i = 0; i < FY_QK; i++) {
            q[i] = round_q8(x[i] * id);
            sum += q[i];
        }
        a->d[b] = d;
        a->sum[b] = sum;
    }
}

void fy_encode_q8_0__scalar(fy_block_q8_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK) {
        float amax = 0.0f;
        for (int i = 0; i < FY_QK; i++)
            amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
        const float d = amax / 127.0f;
        const float id = isfinite(inverse(d)) ? inverse(d) : 0.0f;
        y[b].d = fy_f32_to_f16(d);
        for (int i = 0; i < FY_QK; i++)
            y[b].qs[i] = round_q8(x[i] * id);
    }
}

/* x * id + offset, each step rounded, then the fraction cut off: 0 .. top. 0 where id is not finite
 * and where the sum is NaN. */
static uint8_t to_quant(float x, float id, float offset, uint8_t top)
{
    const float scaled = x * id;
    const float v = scaled + offset;
    if (!isfinite(id) || !(v > 0.0f))
        return 0;
    return v < (float)top ? (uint8_t)v : top;
}

/* Codes around `zero` that meet the value of largest magnitude, the first of equals, with -zero.
 * Gives the scale. */
static uint16_t quants_around(int zero, uint8_t q[FY_QK], const float *x)
{
    float m = 0.0f;
    for (int i = 0; i < FY_QK; i++)
        m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
    const float d = m / (float)-zero;
    for (int i = 0; i < FY_QK; i++)
        q[i] = to_quant(x[i], inverse(d), (float)zero + 0.5f, (uint8_t)(2 * zero - 1));
    return fy_f32_to_f16(d);
}

/* Codes 0 .. top from the smallest value to the largest. */
static void quants_between(uint8_t top, uint8_t q[FY_QK], uint16_t *d_out, uint16_t *m_out,
                           const float *x)
{
    float min = FLT_MAX, max = -FLT_MAX;
    for (int i = 0; i < FY_QK; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    const float d = (max - min) / (float)top;
    for (int i = 0; i < FY_QK; i++)
        q[i] = to_quant(x[i] - min, inverse(d), 0.5f, top);
    *d_out = fy_f32_to_f16(d);
    *m_out = fy_f32_to_f16(min);
}

void fy_encode_q4_0__scalar(fy_block_q4_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK) {
        uint8_t q[FY_QK];
        y[b].d = quants_around(8, q, x);
        fy_put_low_bits(y[b].qs, q);
    }
}

void fy_encode_q5_0__scalar(fy_block_q5_0 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK) {
        uint8_t q[FY_QK];
        y[b].d = quants_around(16, q, x);
        fy_put_low_bits(y[b].qs, q);
        fy_put_high_bits(y[b].qh, q);
    }
}

void fy_encode_q4_1__scalar(fy_block_q4_1 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK) {
        uint8_t q[FY_QK];
        quants_between(15, q, &y[b].d, &y[b].m, x);
        fy_put_low_bits(y[b].qs, q);
    }
}

void fy_encode_q5_1__scalar(fy_block_q5_1 *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK) {
        uint8_t q[FY_QK];
        quants_between(31, q, &y[b].d, &y[b].m, x);
        fy_put_low_bits(y[b].qs, q);
        fy_put_high_bits(y[b].qh, q);
    }
}

/* Every product here is exact in f32, also a scale's with a code, so that only the addition of a
 * minimum rounds and a fused multiply-add would change nothing. */
static void decode(float *y, const void *row, int64_t n, fy_quants_form form, fy_quants_fn *quants)
{
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK) {
        const fy_quants w = quants(row, b);
        for (int i = 0; i < FY_QK; i++) {
            const float d = form == FY_TWO_SCALES && i >= 16 ? w.m : w.d;
            const float v = d * (float)w.scale[i / 16] * (float)w.q[i];
            const float m = form == FY_MIN_OF_16 ? w.m * (float)w.min[i / 16] : w.m;
            y[i] = form == FY_MIN || form == FY_MIN_OF_16 ? v + m : v;
        }
    }
}

#define DEFINE_DECODE(type, form)                                                  \
    void fy_decode_##type##__scalar(float *y, const fy_block_##type *x, int64_t n) \
    {                                                                              \
        decode(y, x, n, form, fy_quants_##type);                                   \
    }

DEFINE_DECODE(q8_0, FY_NO_MIN)
DEFINE_DECODE(q4_0, FY_NO_MIN)
DEFINE_DECODE(q4_1, FY_MIN)
DEFINE_DECODE(q5_0, FY_NO_MIN)
DEFINE_DECODE(q5_1, FY_MIN)
DEFINE_DECODE(q4_k, FY_MIN)
DEFINE_DECODE(q5_k, FY_MIN)
DEFINE_DECODE(q6_k, FY_NO_MIN)
FY_MORE_TYPES(DEFINE_DECODE)
