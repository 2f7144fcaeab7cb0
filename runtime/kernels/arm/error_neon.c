/* How far rows are from what became of them. */
#include <math.h>

#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"

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
