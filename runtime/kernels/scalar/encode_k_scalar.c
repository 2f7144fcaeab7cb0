/* The file encoders of the K types, with the bytes of ggml's quantize_row_{q4,q5,q6}_K_ref built
 * without fused multiply-add. They search: a scale for each group of 16 or 32 elements that
 * minimises a weighted squared error over some candidates. Every sum is one chain in the order of
 * the elements, every product is taken from left to right and rounded, as the reference writes it;
 * another order gives other bytes. No input reaches an undefined conversion. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/kernels.h"
#include "kernels/scalar/encode_k_scalar.h"

/* --- q6_K ---------------------------------------------------------------------------------------
 */

enum { GROUP = FY_Q6_K_GROUP };

/* Of the quants that an inverse scale gives: their products with the values and with themselves,
 * weighted by the square of the value. */
typedef struct {
    float xq, qq;
} q6_sums;

static q6_sums q6_sums_of(const float *x, float inverse)
{
    q6_sums s = {0.0f, 0.0f};
    for (int i = 0; i < GROUP; i++) {
        const float q = (float)fy_k_nearest_between(inverse * x[i], -32, 31), w = x[i] * x[i];
        s.xq += w * x[i] * q;
        s.qq += w * q * q;
    }
    return s;
}

static void q6_quants(int8_t q[GROUP], const float *x, float inverse)
{
    for (int i = 0; i < GROUP; i++)
        q[i] = (int8_t)fy_k_nearest_between(inverse * x[i], -32, 31);
}

/* The best scale of a group, and its quants. */
static float q6_search(int8_t q[GROUP], const float *x)
{
    float m = 0.0f; /* the signed value of largest magnitude, the first of equals */
    for (int i = 0; i < GROUP; i++)
        m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
    if (fabsf(m) < FY_Q6_K_NOTHING) {
        memset(q, -32, GROUP); /* the reference's 0 before its offset */
        return 0.0f;
    }
    float inverse = -32.0f / m;
    q6_sums s = q6_sums_of(x, inverse);
    float scale = s.qq != 0.0f ? s.xq / s.qq : 0.0f, best = scale * s.xq;
    for (int step = -9; step <= 9; step++) {
        const float candidate = -(32.0f + 0.1f * (float)step) / m;
        if (step == 0)
            continue;
        s = q6_sums_of(x, candidate);
        if (s.qq > 0.0f && s.xq * s.xq > best * s.qq) {
            inverse = candidate;
            scale = s.xq / s.qq;
            best = scale * s.xq;
        }
    }
    q6_quants(q, x, inverse);
    return scale;
}

static void q6_block(fy_block_q6_k *y, const float *x)
{
    int8_t q[FY_QK_K];
    float scales[FY_Q6_K_GROUPS], step[FY_Q6_K_GROUPS];
    for (int g = 0; g < FY_Q6_K_GROUPS; g++)
        scales[g] = q6_search(q + g * GROUP, x + g * GROUP);
    if (!fy_q6_k_round_scales(y, step, scales))
        return;
    for (int i = 0; i < FY_QK_K; i++) {
        if (step[i / GROUP] != 0.0f)
            q[i] = (int8_t)fy_k_nearest_between(x[i] / step[i / GROUP], -32, 31);
    }
    fy_q6_k_pack(y, q);
}

void fy_encode_q6_k__scalar(fy_block_q6_k *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        q6_block(y + b, x + b * FY_QK_K);
}

/* --- q4_K, q5_K ---------------------------------------------------------------------------------
 */

typedef struct {
    float scale, min; /* value scale * q + min, min <= 0 */
    float error;
    uint8_t q[FY_QK];
} k_fit;

static void k_quants(k_fit *f, const float *x, float inverse, float min, int top)
{
    for (int i = 0; i < FY_QK; i++)
        f->q[i] = (uint8_t)fy_k_nearest_between(inverse * (x[i] - min), 0, top);
}

static float k_error(const k_fit *f, const float *x, const float *weights)
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
static bool k_regress(k_fit *f, const float *x, const float *weights, float w, float wx)
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

static k_fit k_search_fit(const fy_k_search *how, const float *x, const float *weights)
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
    k_fit best = {.min = min}, f;
    if (max == min)
        return best;
    const float range = max - min, inverse = (float)how->top / range;
    best.scale = 1.0f / inverse;
    k_quants(&best, x, inverse, min, how->top);
    best.error = k_error(&best, x, weights);
    for (int step = 0; step <= how->steps; step++) {
        const float candidate = fy_k_candidate(how, step);
        k_quants(&f, x, candidate / (max - best.min), best.min, how->top);
        if (!k_regress(&f, x, weights, w, wx))
            continue;
        f.error = k_error(&f, x, weights);
        if (f.error < best.error)
            best = f;
    }
    return best;
}

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
        const k_fit f = k_search_fit(how, v, weights);
        memcpy(q + s * FY_QK, f.q, sizeof f.q);
        scales[s] = f.scale;
        mins[s] = -f.min;
    }
    const fy_k_scales k = fy_k_round_scales(scales, mins);
    for (int i = 0; i < FY_QK_K; i++) {
        const float d = k.step[i / FY_QK], m = k.min[i / FY_QK];
        if (d != 0.0f)
            q[i] = (uint8_t)fy_k_nearest_between((x[i] + m) / d, 0, how->top);
    }
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
