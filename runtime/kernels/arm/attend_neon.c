/* One query head over the KV cache: scores, softmax, weighted sum; keys in order. Bound by reading
 * K and V once. */
#include <math.h>

#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"

/* s[j] = exp(s[j] - max); returns their sum. The rest is padded with -inf, whose exponential is 0.
 */
static double exp_all(float *s, int64_t n, float max)
{
    double_lanes sum = {{vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0)}};
    for (int64_t j = 0; j < n; j += 8) {
        float rest[8], *p = s + j;
        if (n - j < 8) {
            for (int i = 0; i < 8; i++)
                rest[i] = j + i < n ? s[j + i] : -INFINITY;
            p = rest;
        }
        float32x4_t low = exp4(vsubq_f32(vld1q_f32(p), vdupq_n_f32(max)));
        float32x4_t high = exp4(vsubq_f32(vld1q_f32(p + 4), vdupq_n_f32(max)));
        add_doubles(&sum, low, high);
        vst1q_f32(p, low);
        vst1q_f32(p + 4, high);
        if (p == rest)
            memcpy(s + j, rest, (size_t)(n - j) * sizeof *s);
    }
    return sum_doubles(&sum);
}

#define DEFINE_ATTEND(name, type, load4, widen)                                                   \
    DEFINE_DOT(name, type, load4, widen)                                                          \
    static void add_##name(float *out, const type *v, float p, int n)                             \
    {                                                                                             \
        int i = 0;                                                                                \
        for (; i + 4 <= n; i += 4)                                                                \
            vst1q_f32(out + i, vfmaq_n_f32(vld1q_f32(out + i), load4(v + i), p));                 \
        for (; i < n; i++)                                                                        \
            out[i] = fmaf(widen(v[i]), p, out[i]);                                                \
    }                                                                                             \
    void fy_attend_##name##__neon(float *out, const float *q, const void *K, const void *V,       \
                                  int64_t n_keys, int head_dim, int head_dim_v, int64_t k_stride, \
                                  int64_t v_stride, float scale, float cap, float *scores)        \
    {                                                                                             \
        const type *k = K, *v = V;                                                                \
        int64_t j = 0;                                                                            \
        for (; j + MAX_DOTS <= n_keys; j += MAX_DOTS)                                             \
            dots_##name(scores + j, (const char *)(k + j * k_stride),                             \
                        (size_t)k_stride * sizeof *k, q, head_dim, MAX_DOTS);                     \
        for (; j < n_keys; j++)                                                                   \
            dots_##name(scores + j, (const char *)(k + j * k_stride), 0, q, head_dim, 1);         \
        for (j = 0; j < n_keys; j++)                                                              \
            scores[j] *= scale;                                                                   \
        if (cap != 0)                                                                             \
            fy_softcap__neon(scores, n_keys, cap);                                                \
        float max = -INFINITY;                                                                    \
        for (j = 0; j < n_keys; j++)                                                              \
            max = scores[j] > max ? scores[j] : max;                                              \
        const float inv = (float)(1.0 / exp_all(scores, n_keys, max));                            \
        memset(out, 0, (size_t)head_dim_v * sizeof *out);                                         \
        for (j = 0; j < n_keys; j++)                                                              \
            add_##name(out, v + j * v_stride, scores[j], head_dim_v);                             \
        for (int i = 0; i < head_dim_v; i++)                                                      \
            out[i] *= inv;                                                                        \
    }

DEFINE_ATTEND(f32, float, load4_f32, SAME)
DEFINE_ATTEND(f16, uint16_t, load4_f16, fy_f16_to_f32)
