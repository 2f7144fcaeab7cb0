/* The file encoders of the types of 32 elements under an importance matrix, with the bytes of
 * ggml's quantize_row_{q4_0,q4_1,q5_0,q5_1}_impl built without fused multiply-add. A value's weight
 * is its importance times sqrt(mean square of its row + its square); the searches are those of the
 * K types. The quants stored are those of the scale before it is rounded to f16. Every sum is one
 * chain in the order of the elements; no input reaches an undefined conversion. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/encode_k_scalar.h"
#include "kernels/scalar/encode_scalar.h"
#include "kernels/scalar/weighted_scalar.h"

/* Of the quants that an inverse scale gives: their weighted products with the values and with
 * themselves. */
typedef struct {
    float xq, qq;
} q_sums;

static q_sums q_sums_of(const float *x, const float *weights, int n, int zero, float inverse)
{
    q_sums s = {0.0f, 0.0f};
    for (int i = 0; i < n; i++) {
        const float q = (float)fy_k_nearest_between(inverse * x[i], -zero, zero - 1);
        s.xq += weights[i] * x[i] * q;
        s.qq += weights[i] * q * q;
    }
    return s;
}

float fy_weighted_scale(int8_t *q, const float *x, const float *weights, int n, int zero)
{
    float m = 0.0f; /* the signed value of largest magnitude, the first of equals */
    for (int i = 0; i < n; i++)
        m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
    if (fabsf(m) < FY_Q6_K_NOTHING) {
        memset(q, -zero, (size_t)n); /* the reference's 0 before its offset */
        return 0.0f;
    }
    float inverse = (float)-zero / m;
    q_sums s = q_sums_of(x, weights, n, zero, inverse);
    float scale = s.qq != 0.0f ? s.xq / s.qq : 0.0f, best = scale * s.xq;
    for (int step = -9; step <= 9; step++) {
        const float candidate = -((float)zero + 0.1f * (float)step) / m;
        if (step == 0)
            continue;
        s = q_sums_of(x, weights, n, zero, candidate);
        if (s.qq > 0.0f && s.xq * s.xq > best * s.qq) {
            inverse = candidate;
            scale = s.xq / s.qq;
            best = scale * s.xq;
        }
    }
    for (int i = 0; i < n; i++)
        q[i] = (int8_t)fy_k_nearest_between(inverse * x[i], -zero, zero - 1);
    return scale;
}

static void quants(fy_scale_min *f, const float *x, float inverse, float min, int top)
{
    for (int i = 0; i < FY_QK; i++)
        f->q[i] = (uint8_t)fy_k_nearest_between(inverse * (x[i] - min), 0, top);
}

static float error_of(const fy_scale_min *f, const float *x, const float *weights)
{
    float error = 0.0f;
    for (int i = 0; i < FY_QK; i++) {
        float diff = f->scale * (float)f->q[i] + f->min - x[i];
        diff = diff * diff;
        error += weights[i] * diff;
    }
    return error;
}

/* Scale and minimum that fit the quants of *f best; false when they determine none. w and wx: the
 * sums of the weights and of weights times values. */
static bool regress(fy_scale_min *f, const float *x, const float *weights, float w, float wx)
{
    float l = 0.0f, l2 = 0.0f, xl = 0.0f;
    for (int i = 0; i < FY_QK; i++) {
        const float q = (float)f->q[i];
        l += weights[i] * q;
        l2 += weights[i] * q * q;
        xl += weights[i] * q * x[i];
    }
    const float det = w * l2 - l * l;
    if (!(det > 0.0f))
        return false;
    f->scale = (w * xl - wx * l) / det;
    f->min = (l2 * wx - l * xl) / det;
    if (f->min > 0.0f) {
        f->min = 0.0f;
        f->scale = xl / l2;
    }
    return true;
}

fy_scale_min fy_weighted_scale_min(int top, const float *x, const float *weights)
{
    float min = x[0], max = x[0], w = weights[0], wx = w * x[0];
    for (int i = 1; i < FY_QK; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
        w += weights[i];
        wx += weights[i] * x[i];
    }
    if (min > 0.0f)
        min = 0.0f;
    fy_scale_min best = {.min = min}, f;
    if (max == min)
        return best;
    const float range = max - min, inverse = (float)top / range;
    best.scale = 1.0f / inverse;
    quants(&best, x, inverse, min, top);
    best.error = error_of(&best, x, weights);
    for (int step = 0; step <= 36; step++) {
        const float candidate = -0.9f + 0.05f * (float)step + (float)top;
        /* the minimum that is best so far can be near the largest value, or beyond: here, and only
         * here, ggml looks at the size before it rounds */
        const float to_quants = candidate / (max - best.min);
        for (int i = 0; i < FY_QK; i++) {
            const float v = to_quants * (x[i] - best.min);
            f.q[i] = v > 0.0f ? (uint8_t)fy_k_nearest(v < (float)top ? v : (float)top) : 0;
        }
        if (!regress(&f, x, weights, w, wx))
            continue;
        f.error = error_of(&f, x, weights);
        if (f.error < best.error)
            best = f;
    }
    return best;
}

static void weigh(float weights[FY_QK], const float *x, const float *importance, float mean_square)
{
    for (int i = 0; i < FY_QK; i++)
        weights[i] = importance[i] * sqrtf(mean_square + x[i] * x[i]);
}

/* Quants around `zero`; gives the scale. */
static uint16_t quants_around(int zero, uint8_t q[FY_QK], const float *x, const float *importance,
                              float mean_square)
{
    float weights[FY_QK];
    int8_t from_zero[FY_QK];
    weigh(weights, x, importance, mean_square);
    const float d = fy_weighted_scale(from_zero, x, weights, FY_QK, zero);
    for (int i = 0; i < FY_QK; i++)
        q[i] = (uint8_t)(from_zero[i] + zero);
    return fy_f32_to_f16(d);
}

void fy_encode_weighted_q4_0__scalar(fy_block_q4_0 *y, const float *x, int64_t n,
                                     const float *importance, float mean_square)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK, importance += FY_QK) {
        uint8_t q[FY_QK];
        y[b].d = quants_around(8, q, x, importance, mean_square);
        fy_put_low_bits(y[b].qs, q);
    }
}

void fy_encode_weighted_q5_0__scalar(fy_block_q5_0 *y, const float *x, int64_t n,
                                     const float *importance, float mean_square)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK, importance += FY_QK) {
        uint8_t q[FY_QK];
        y[b].d = quants_around(16, q, x, importance, mean_square);
        fy_put_low_bits(y[b].qs, q);
        fy_put_high_bits(y[b].qh, q);
    }
}

static fy_scale_min quants_between(int top, const float *x, const float *importance,
                                   float mean_square)
{
    float weights[FY_QK];
    weigh(weights, x, importance, mean_square);
    return fy_weighted_scale_min(top, x, weights);
}

void fy_encode_weighted_q4_1__scalar(fy_block_q4_1 *y, const float *x, int64_t n,
                                     const float *importance, float mean_square)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK, importance += FY_QK) {
        const fy_scale_min f = quants_between(15, x, importance, mean_square);
        y[b].d = fy_f32_to_f16(f.scale);
        y[b].m = fy_f32_to_f16(f.min);
        fy_put_low_bits(y[b].qs, f.q);
    }
}

void fy_encode_weighted_q5_1__scalar(fy_block_q5_1 *y, const float *x, int64_t n,
                                     const float *importance, float mean_square)
{
    for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK, importance += FY_QK) {
        const fy_scale_min f = quants_between(31, x, importance, mean_square);
        y[b].d = fy_f32_to_f16(f.scale);
        y[b].m = fy_f32_to_f16(f.min);
        fy_put_low_bits(y[b].qs, f.q);
        fy_put_high_bits(y[b].qh, f.q);
    }
}
