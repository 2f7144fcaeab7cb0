/* The file encoders that look for the scale (and minimum) of a block with the least sum of w * (x -
 * decoded)^2, w the importance or 1. The files are the types' usual ones.
 *
 * For each candidate of fit_scalar.h: the codes it gives, and the scale that fits these best, by
 * least squares. The best scale of all is rounded to f16, and so is the scale that the reference
 * takes; of the two, with the codes nearest for what is stored, the one of less error is written.
 * So no block is worse than the reference's.
 *
 * Every step is rounded on its own, sums go in the order of the elements, a NaN never wins: other
 * kernels take the same steps, a block in each lane. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/fit_scalar.h"

static const float ones[FY_QK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* The nearest integer from low to high, halves to even; low for NaN. */
static float nearest(float v, float low, float high)
{
    v = v > low ? v : low;
    v = v < high ? v : high;
    return (v + 0x1.8p23f) - 0x1.8p23f;
}

typedef struct {
    uint16_t d, m; /* f16 */
    float error;
    uint8_t q[FY_QK]; /* from 0 on */
} fitted;

/* The nearest codes for a stored scale and minimum. */
static fitted settle(float d, float m, int low, int high, const float *x, const float *w)
{
    fitted f = {.d = fy_f32_to_f16(d), .m = fy_f32_to_f16(m), .error = 0.0f};
    d = fy_f16_to_f32(f.d);
    m = fy_f16_to_f32(f.m);
    const float id = fy_fit_inverse(d);
    for (int i = 0; i < FY_QK; i++) {
        const float q = nearest((x[i] - m) * id, (float)low, (float)high);
        const float off = x[i] - (q * d + m);
        f.q[i] = (uint8_t)((int)q - low);
        f.error += w[i] * off * off;
    }
    return f;
}

/* --- a scale --------------------------------------------------------------------------------- */

typedef struct {
    float scale, gain; /* gain: what the scale takes off the error */
} found;

static found try_scale(found best, const fy_fit_around *f, const float *x, const float *w,
                       float inverse)
{
    float xq = 0.0f, qq = 0.0f;
    for (int i = 0; i < FY_QK; i++) {
        const float q = nearest(x[i] * inverse, (float)f->low, (float)f->high);
        xq += w[i] * x[i] * q;
        qq += w[i] * q * q;
    }
    const float scale = xq / qq, gain = xq * scale;
    return gain > best.gain ? (found){scale, gain} : best;
}

/* m: the value of largest magnitude, or what stands for it. */
static fitted fit_around(const fy_fit_around *f, float m, const float *x, const float *w)
{
    const float unit = fabsf(m) >= FY_FIT_NOTHING ? 1.0f / m : 0.0f;
    found best = {0.0f, 0.0f};
    for (int i = 0; i < f->steps; i++)
        best = try_scale(best, f, x, w, -(f->first + f->apart * (float)i) * unit);
    for (int i = 0; i < f->other_steps; i++)
        best = try_scale(best, f, x, w, (f->other_first + f->apart * (float)i) * unit);
    const fitted a = settle(best.scale, 0.0f, f->low, f->high, x, w);
    const fitted b = settle(m / (float)f->low, 0.0f, f->low, f->high, x, w);
    return a.error < b.error ? a : b;
}

static float extreme(const float *x)
{
    float m = 0.0f; /* the first of equals */
    for (int i = 0; i < FY_QK; i++)
        m = fabsf(x[i]) > fabsf(m) ? x[i] : m;
    return m;
}

/* --- a scale and a minimum ------------------------------------------------------------------- */

/* Sums of the weights, and of those times the codes, codes squared, values and codes. The values
 * are less their mean, so that of scale and minimum only the scale takes anything off the error. */
static found try_range(found best, int top, const float x[FY_QK], const float *w, float sum_w,
                       float low, float inverse, float shift, float *mean_q)
{
    float l = 0.0f, ll = 0.0f, xl = 0.0f;
    for (int i = 0; i < FY_QK; i++) {
        const float q = nearest((x[i] - low) * inverse + shift, 0.0f, (float)top);
        l += w[i] * q;
        ll += w[i] * q * q;
        xl += w[i] * x[i] * q;
    }
    const float mean = l / sum_w, spread = ll - l * mean;
    const float scale = xl / spread, gain = xl * scale;
    /* where hardly an element has a weight, the spread is but what rounding left of ll */
    if (!(spread > ll * 0x1p-12f && gain > best.gain))
        return best;
    *mean_q = mean;
    return (found){scale, gain};
}

static fitted fit_between(const fy_fit_between *f, const float *x, const float *w)
{
    float min = x[0], max = x[0], sum_w = 0.0f, sum_x = 0.0f, centred[FY_QK], mean_q = 0.0f;
    for (int i = 0; i < FY_QK; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
        sum_w += w[i];
        sum_x += w[i] * x[i];
    }
    const float mean = sum_x / sum_w, range = max - min;
    const float unit = range >= FY_FIT_NOTHING ? 1.0f / range : 0.0f;
    for (int i = 0; i < FY_QK; i++)
        centred[i] = x[i] - mean;
    found best = {0.0f, 0.0f};
    for (int i = 0; i < FY_FIT_WIDTHS; i++) {
        const float more = f->first + 0.5f * (float)i, inverse = ((float)f->top + more) * unit;
        for (int k = 0; k < FY_FIT_SHIFTS; k++)
            best = try_range(best, f->top, centred, w, sum_w, min - mean, inverse,
                             -0.5f * more + (-0.375f + 0.25f * (float)k), &mean_q);
    }
    const float stored = fy_f16_to_f32(fy_f32_to_f16(best.scale));
    const fitted a = settle(best.scale, mean - stored * mean_q, 0, f->top, x, w);
    const fitted b = settle(range / (float)f->top, min, 0, f->top, x, w);
    return a.error < b.error ? a : b;
}

/* --- rows ------------------------------------------------------------------------------------ */

#define DEFINE_FIT(type, fit_block)                                              \
    void fy_fit_##type##__scalar(fy_block_##type *y, const float *x, int64_t n,  \
                                 const float *importance)                        \
    {                                                                            \
        for (int64_t b = 0; b < n / FY_QK; b++, x += FY_QK) {                    \
            const float *w = importance != NULL ? importance + b * FY_QK : ones; \
            const fitted f = fit_block;                                          \
            fy_fit_put_##type(y + b, f.d, f.m, f.q);                             \
        }                                                                        \
    }

DEFINE_FIT(q4_0, fit_around(&fy_fit_q4_0, extreme(x), x, w))
DEFINE_FIT(q5_0, fit_around(&fy_fit_q5_0, extreme(x), x, w))
DEFINE_FIT(q8_0, fit_around(&fy_fit_q8_0, -fabsf(extreme(x)), x, w)) /* no scale below zero */
DEFINE_FIT(q4_1, fit_between(&fy_fit_q4_1, x, w))
DEFINE_FIT(q5_1, fit_between(&fy_fit_q5_1, x, w))
