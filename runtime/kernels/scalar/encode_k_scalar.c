/* The file encoders of the K types, with the bytes of ggml's quantize_row_{q4,q5,q6}_K_ref built
 * without fused multiply-add. They search (encode_k_scalar.h): a scale for each group of 16 or 32
 * elements that minimises a weighted squared error over some candidates. */
#include "kernels/scalar/encode_k_scalar.h"

#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/kernels.h"

/* --- searches -------------------------------------------------------------------------------- */

/* Of the codes that an inverse scale gives: their weighted products with the values and with
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

float fy_search_scale(int8_t *q, const float *x, const float *weights, int n, int zero)
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

static void quants(fy_scale_min *f, const fy_k_search *how, const float *x, float inverse,
                   float min)
{
    for (int i = 0; i < how->n; i++)
        f->q[i] = (uint8_t)fy_k_nearest_between(inverse * (x[i] - min), 0, how->top);
}

static float error_of(const fy_scale_min *f, const fy_k_search *how, const float *x,
                      const float *weights)
{
    float error = 0.0f;
    for (int i = 0; i < how->n; i++) {
        float diff = f->scale * (float)f->q[i] + f->min - x[i];
        diff = how->absolute ? fabsf(diff) : diff * diff;
        error += weights[i] * diff;
    }
    return error;
}

/* Scale and minimum that fit the codes of *f best; false when they determine none. w and wx: the
 * sums of the weights and of weights times values. */
static bool regress(fy_scale_min *f, const fy_k_search *how, const float *x, const float *weights,
                    float w, float wx)
{
    float l = 0.0f, l2 = 0.0f, xl = 0.0f;
    for (int i = 0; i < how->n; i++) {
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

/* Those of a candidate. The minimum that is best so far can be near the largest value, or beyond.
 */
static void candidate_quants(fy_scale_min *f, const fy_k_search *how, const float *x, float inverse,
                             float min)
{
    const float top = (float)how->top;
    if (!how->bounded) {
        quants(f, how, x, inverse, min);
        return;
    }
    for (int i = 0; i < how->n; i++) {
        const float v = inverse * (x[i] - min);
        f->q[i] = v > 0.0f ? (uint8_t)fy_k_nearest(v < top ? v : top) : 0;
    }
}

fy_scale_min fy_search_scale_min(const fy_k_search *how, const float *x, const float *weights)
{
    float min = x[0], max = x[0], w = weights[0], wx = w * x[0];
    for (int i = 1; i < how->n; i++) {
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
    const float range = max - min, inverse = (float)how->top / range;
    best.scale = 1.0f / inverse;
    quants(&best, how, x, inverse, min);
    best.error = error_of(&best, how, x, weights);
    for (int step = 0; step <= how->steps; step++) {
        candidate_quants(&f, how, x, fy_k_candidate(how, step) / (max - best.min), best.min);
        if (!regress(&f, how, x, weights, w, wx))
            continue;
        f.error = error_of(&f, how, x, weights);
        if (f.error < best.error)
            best = f;
    }
    return best;
}

/* --- q6_K ------------------------------------------------------------------------------------ */

enum { GROUP = FY_Q6_K_GROUP };

/* A value's weight is its square. */
static void q6_block(fy_block_q6_k *y, const float *x)
{
    int8_t q[FY_QK_K];
    float scales[FY_Q6_K_GROUPS], squares[FY_QK_K];
    for (int i = 0; i < FY_QK_K; i++)
        squares[i] = x[i] * x[i];
    for (int g = 0; g < FY_Q6_K_GROUPS; g++) {
        const int at = g * GROUP;
        scales[g] = fy_search_scale(q + at, x + at, squares + at, GROUP, 32);
    }
    fy_q6_k_finish(y, q, scales, x);
}

void fy_encode_q6_k__scalar(fy_block_q6_k *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        q6_block(y + b, x + b * FY_QK_K);
}

/* --- q4_K, q5_K ------------------------------------------------------------------------------ */

static fy_k_scales k_encode(uint8_t q[FY_QK_K], const fy_k_search *how, const float *x)
{
    float scales[FY_K_SUBS], mins[FY_K_SUBS];
    for (int s = 0; s < FY_K_SUBS; s++) {
        float weights[FY_QK], squares = 0.0f;
        const float *v = x + s * FY_QK;
        for (int i = 0; i < FY_QK; i++)
            squares += v[i] * v[i];
        const float mean = sqrtf(squares / (float)FY_QK);
        for (int i = 0; i < FY_QK; i++)
            weights[i] = mean + fabsf(v[i]);
        const fy_scale_min f = fy_search_scale_min(how, v, weights);
        memcpy(q + s * FY_QK, f.q, sizeof f.q);
        scales[s] = f.scale;
        mins[s] = -f.min;
    }
    const fy_k_scales k = fy_k_round_scales(scales, mins);
    fy_k_requant(q, &k, how->top, x);
    return k;
}

#define DEFINE_ENCODE_K(type)                                                        \
    void fy_encode_##type##__scalar(fy_block_##type *y, const float *x, int64_t n)   \
    {                                                                                \
        for (int64_t b = 0; b < n / FY_QK_K; b++) {                                  \
            uint8_t q[FY_QK_K];                                                      \
            const fy_k_scales k = k_encode(q, &fy_##type##_search, x + b * FY_QK_K); \
            fy_##type##_pack(y + b, &k, q);                                          \
        }                                                                            \
    }

DEFINE_ENCODE_K(q4_k)
DEFINE_ENCODE_K(q5_k)
