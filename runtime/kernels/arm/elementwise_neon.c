/* RMS norm and the SwiGLU gate. */
#include <math.h>

#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"

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

void fy_silu_mul__neon(float *gate, const float *up, int64_t n)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t g = vld1q_f32(gate + i);
        float32x4_t silu = vdivq_f32(g, vaddq_f32(one, exp4(vnegq_f32(g))));
        vst1q_f32(gate + i, vmulq_f32(silu, vld1q_f32(up + i)));
    }
    for (; i < n; i++)
        gate[i] = gate[i] / (1.0f + fy_exp(-gate[i])) * up[i];
}
