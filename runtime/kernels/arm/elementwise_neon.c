/* Norms, gates and soft cap of a decoder block. */
#include <math.h>

#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"
#include "kernels/scalar/erf_fit.h"

static inline void add_squares(double_lanes *s, const float *x)
{
    for (int i = 0; i < 2; i++) {
        float32x4_t f = vld1q_f32(x + 4 * i);
        float64x2_t lo = vcvt_f64_f32(vget_low_f32(f)), hi = vcvt_high_f64_f32(f);
        s->v[2 * i] = vfmaq_f64(s->v[2 * i], lo, lo);
        s->v[2 * i + 1] = vfmaq_f64(s->v[2 * i + 1], hi, hi);
    }
}

void fy_rms_norm__neon(float *y, const float *x, const float *w, int64_t n, float eps)
{
    double_lanes s = {{vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0)}};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        add_squares(&s, x + i);
    if (i < n) { /* the rest, padded with zeros */
        float rest[8] = {0};
        memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);
        add_squares(&s, rest);
    }
    const float scale = (float)(1.0 / sqrt(sum_doubles(&s) / (double)n + (double)eps));
    for (i = 0; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), scale), vld1q_f32(w + i)));
    for (; i < n; i++)
        y[i] = x[i] * scale * w[i];
}

static inline void add_lanes(double_lanes *s, const float *x)
{
    add_doubles(s, vld1q_f32(x), vld1q_f32(x + 4));
}

/* Adds (x - mean)^2; the squares are rounded before they are added: no fused multiply-add. */
static inline void add_distances(double_lanes *s, const float *x, float64x2_t mean, int64_t n)
{
    for (int i = 0; i < 4; i++) {
        float64x2_t d = vsubq_f64(vcvt_f64_f32(vld1_f32(x + 2 * i)), mean);
        const double kept[2] = {2 * i < n ? vgetq_lane_f64(d, 0) : 0,
                                2 * i + 1 < n ? vgetq_lane_f64(d, 1) : 0};
        d = n < 8 ? vld1q_f64(kept) : d;
        s->v[i] = vaddq_f64(s->v[i], vmulq_f64(d, d));
    }
}

void fy_layer_norm__neon(float *y, const float *x, const float *w, const float *bias, int64_t n,
                         float eps)
{
    const float64x2_t zero = vdupq_n_f64(0);
    double_lanes sum = {{zero, zero, zero, zero}}, squares = sum;
    float rest[8] = {0}; /* of the row, padded with zeros */
    const int64_t whole = n / 8 * 8;
    memcpy(rest, x + whole, (size_t)(n - whole) * sizeof *x);
    for (int64_t i = 0; i < whole; i += 8)
        add_lanes(&sum, x + i);
    add_lanes(&sum, rest);
    const double mean = sum_doubles(&sum) / (double)n;
    for (int64_t i = 0; i < whole; i += 8)
        add_distances(&squares, x + i, vdupq_n_f64(mean), 8);
    add_distances(&squares, rest, vdupq_n_f64(mean), n - whole);
    const float m = (float)mean;
    const float s = (float)(1.0 / sqrt(sum_doubles(&squares) / (double)n + (double)eps));
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t v = vmulq_n_f32(vsubq_f32(vld1q_f32(x + i), vdupq_n_f32(m)), s);
        v = vmulq_f32(v, vld1q_f32(w + i));
        vst1q_f32(y + i, bias != NULL ? vaddq_f32(v, vld1q_f32(bias + i)) : v);
    }
    for (; i < n; i++)
        y[i] = bias != NULL ? (x[i] - m) * s * w[i] + bias[i] : (x[i] - m) * s * w[i];
}

void fy_silu_mul__neon(float *x, const float *up, int64_t n)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t v = vld1q_f32(x + i);
        float32x4_t f = vdivq_f32(v, vaddq_f32(one, exp4(vnegq_f32(v))));
        vst1q_f32(x + i, up != NULL ? vmulq_f32(f, vld1q_f32(up + i)) : f);
    }
    if (i < n)
        fy_silu_mul__scalar(x + i, up != NULL ? up + i : NULL, n - i);
}

static inline float32x4_t polynomial(const float c[FY_ERF_TERMS], float32x4_t x)
{
    float32x4_t p = vdupq_n_f32(c[0]);
    for (int i = 1; i < FY_ERF_TERMS; i++)
        p = vfmaq_f32(vdupq_n_f32(c[i]), p, x);
    return p;
}

/* fy_erf of four values: both of its cases, then a choice. */
static inline float32x4_t erf4(float32x4_t x)
{
    const float32x4_t one = vdupq_n_f32(1.0f), z = vabsq_f32(x);
    float32x4_t inner = vfmaq_f32(x, polynomial(fy_erf_p, vmulq_f32(x, x)), x);
    float32x4_t end = vminq_f32(z, vdupq_n_f32(4.0f)); /* NaN for NaN */
    float32x4_t outer = vsubq_f32(one, exp4(vnegq_f32(vmulq_f32(end, polynomial(fy_erf_q, end)))));
    outer = vbslq_f32(vdupq_n_u32(0x80000000), x, outer);
    return vbslq_f32(vcltq_f32(z, one), inner, outer);
}

void fy_gelu_mul__neon(float *x, const float *up, int64_t n)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t v = vld1q_f32(x + i);
        float32x4_t f = vmulq_f32(vmulq_n_f32(v, 0.5f),
                                  vaddq_f32(vdupq_n_f32(1.0f), erf4(vmulq_n_f32(v, 0.707106781f))));
        vst1q_f32(x + i, up != NULL ? vmulq_f32(f, vld1q_f32(up + i)) : f);
    }
    if (i < n)
        fy_gelu_mul__scalar(x + i, up != NULL ? up + i : NULL, n - i);
}

void fy_gelu_tanh_mul__neon(float *x, const float *up, int64_t n)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t v = vld1q_f32(x + i);
        float32x4_t u =
            vfmaq_f32(vdupq_n_f32(-1.59576912f), vmulq_f32(v, v), vdupq_n_f32(-7.13548163e-2f));
        float32x4_t f = vdivq_f32(v, vaddq_f32(one, exp4(vmulq_f32(v, u))));
        vst1q_f32(x + i, up != NULL ? vmulq_f32(f, vld1q_f32(up + i)) : f);
    }
    if (i < n)
        fy_gelu_tanh_mul__scalar(x + i, up != NULL ? up + i : NULL, n - i);
}

/* x, or 0 up to the threshold; NaN for NaN. */
static inline float32x4_t above4(float32x4_t x, float32x4_t threshold)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), vcleq_f32(x, threshold)));
}

void fy_relu_mul__neon(float *x, const float *up, int64_t n, float threshold)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t f = above4(vld1q_f32(x + i), vdupq_n_f32(threshold));
        vst1q_f32(x + i, up != NULL ? vmulq_f32(f, vld1q_f32(up + i)) : f);
    }
    if (i < n)
        fy_relu_mul__scalar(x + i, up != NULL ? up + i : NULL, n - i, threshold);
}

void fy_drelu_mul__neon(float *x, const float *up, int64_t n)
{
    const float32x4_t zero = vdupq_n_f32(0);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t f = above4(vld1q_f32(x + i), zero);
        vst1q_f32(x + i, up != NULL ? vmulq_f32(f, above4(vld1q_f32(up + i), zero)) : f);
    }
    if (i < n)
        fy_drelu_mul__scalar(x + i, up != NULL ? up + i : NULL, n - i);
}

void fy_softcap__neon(float *x, int64_t n, float cap)
{
    const float32x4_t one = vdupq_n_f32(1.0f), two = vdupq_n_f32(2.0f);
    const float rate = 2.0f / cap;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t e = exp4(vmulq_n_f32(vld1q_f32(x + i), rate));
        float32x4_t tanh4 = vsubq_f32(one, vdivq_f32(two, vaddq_f32(one, e)));
        vst1q_f32(x + i, vmulq_n_f32(tanh4, cap));
    }
    if (i < n)
        fy_softcap__scalar(x + i, n - i, cap);
}
