/* Operations on vectors of floats: norms, activations and the soft cap; f16 and bf16 rows; the
 * errors of encoded rows. */
#include <math.h>

#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"

/* --- norms, activations, soft cap ------------------------------------------------------------ */

/* Norms, gates and soft cap of a decoder block. */

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

/* --- f16 and bf16 ---------------------------------------------------------------------------- */

/* f16 and bf16 rows: bound by memory. FCVTL and FCVTN, which every arm64 core has, round and treat
 * NaN exactly as scalar/elementwise_scalar.c does; the last few values of a row go through its
 * functions.
 *
 * Arithmetic in f16 (FEAT_FP16) has no use under the contract of kernels.h: every product and sum
 * there is one of f32, and 11 bits of significand hold none of them. */

void fy_f16_to_f32__neon(float *y, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(x + i));
        vst1q_f32(y + i, vcvt_f32_f16(vget_low_f16(h)));
        vst1q_f32(y + i + 4, vcvt_high_f32_f16(h));
    }
    for (; i < n; i++)
        y[i] = fy_f16_to_f32(x[i]);
}

void fy_f32_to_f16__neon(uint16_t *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const float16x4_t low = vcvt_f16_f32(vld1q_f32(x + i));
        vst1q_u16(y + i, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(x + i + 4))));
    }
    for (; i < n; i++)
        y[i] = fy_f32_to_f16(x[i]);
}

void fy_bf16_to_f32__neon(float *y, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint16x8_t h = vld1q_u16(x + i);
        vst1q_f32(y + i, vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)));
        vst1q_f32(y + i + 4, vreinterpretq_f32_u32(vshll_high_n_u16(h, 16)));
    }
    for (; i < n; i++)
        y[i] = fy_bf16_to_f32(x[i]);
}

/* The result in the upper halves of the words. */
static inline uint16x8_t narrow_bf16(float32x4_t v)
{
    const uint32x4_t u = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(u, vdupq_n_u32(0x400000));
    return vreinterpretq_u16_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet));
}

void fy_f32_to_bf16__neon(uint16_t *y, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        vst1q_u16(y + i,
                  vuzp2q_u16(narrow_bf16(vld1q_f32(x + i)), narrow_bf16(vld1q_f32(x + i + 4))));
    for (; i < n; i++)
        y[i] = fy_f32_to_bf16(x[i]);
}

/* --- errors ---------------------------------------------------------------------------------- */

/* The errors of encoded rows. */

typedef struct {
    double_lanes xx, yy, xy, ee;
    float32x4_t max_x, max_e;
} sums;

/* Two of 8 lanes. A product of two widened f32 is exact, so that it may be fused with its addition;
 * the square of a difference is not. */
static inline void add_two(sums *s, int pair, float64x2_t a, float64x2_t b)
{
    const float64x2_t e = vsubq_f64(a, b);
    s->xx.v[pair] = vfmaq_f64(s->xx.v[pair], a, a);
    s->yy.v[pair] = vfmaq_f64(s->yy.v[pair], b, b);
    s->xy.v[pair] = vfmaq_f64(s->xy.v[pair], a, b);
    s->ee.v[pair] = vaddq_f64(s->ee.v[pair], vmulq_f64(e, e));
}

static inline float32x4_t larger(float32x4_t v, float32x4_t most) /* a NaN is not */
{
    return vbslq_f32(vcgtq_f32(v, most), v, most);
}

static inline void add_eight(sums *s, const float *x, const float *y)
{
    for (int half = 0; half < 2; half++) {
        const float32x4_t a = vld1q_f32(x + 4 * half), b = vld1q_f32(y + 4 * half);
        add_two(s, 2 * half, vcvt_f64_f32(vget_low_f32(a)), vcvt_f64_f32(vget_low_f32(b)));
        add_two(s, 2 * half + 1, vcvt_high_f64_f32(a), vcvt_high_f64_f32(b));
        s->max_x = larger(vabsq_f32(a), s->max_x);
        s->max_e = larger(vabsq_f32(vsubq_f32(a, b)), s->max_e);
    }
}

static inline int64_t count_outside(const float *x, const float *limits, int64_t n)
{
    uint32x4_t count = vdupq_n_u32(0);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float *limit = limits + i / FY_LIMIT_ELEMS * 2;
        const float32x4_t v = vld1q_f32(x + i);
        const uint32x4_t outside =
            vorrq_u32(vcltq_f32(v, vdupq_n_f32(limit[0])), vcgtq_f32(v, vdupq_n_f32(limit[1])));
        count = vsubq_u32(count, outside);
    }
    int64_t sum = (int64_t)vaddlvq_u32(count);
    for (; i < n; i++) {
        const float *limit = limits + i / FY_LIMIT_ELEMS * 2;
        sum += x[i] < limit[0] || x[i] > limit[1];
    }
    return sum;
}

static inline float max_of(float32x4_t lanes, float before)
{
    const float most = vmaxvq_f32(lanes);
    return most > before ? most : before;
}

void fy_error_sums__neon(fy_error_sums *to, const float *x, const float *y, const float *limits,
                         int64_t n)
{
    const float64x2_t zero = vdupq_n_f64(0);
    const double_lanes zeros = {{zero, zero, zero, zero}};
    sums s = {zeros, zeros, zeros, zeros, vdupq_n_f32(0), vdupq_n_f32(0)};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        add_eight(&s, x + i, y + i);
    if (i < n) { /* the rest, padded with zeros */
        float rest_x[8] = {0}, rest_y[8] = {0};
        memcpy(rest_x, x + i, (size_t)(n - i) * sizeof *x);
        memcpy(rest_y, y + i, (size_t)(n - i) * sizeof *y);
        add_eight(&s, rest_x, rest_y);
    }
    to->xx += sum_doubles(&s.xx);
    to->yy += sum_doubles(&s.yy);
    to->xy += sum_doubles(&s.xy);
    to->ee += sum_doubles(&s.ee);
    to->max_x = max_of(s.max_x, to->max_x);
    to->max_e = max_of(s.max_e, to->max_e);
    to->n += n;
    to->n_outside += limits != NULL ? count_outside(x, limits, n) : 0;
}
