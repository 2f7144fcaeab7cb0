/* Small NEON helpers: loads of 4 stored values as f32, and narrowing. */
#ifndef FY_KERNELS_ARM_VEC_NEON_H
#define FY_KERNELS_ARM_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

/* What keeps the compiler from putting the vectors of an arm64 kernel into memory. */
#define FY_INLINE static inline __attribute__((always_inline))

/* Loops over register arrays must be unrolled whole or the arrays go to memory. */
#ifdef __clang__
#define FY_UNROLL _Pragma("unroll")
#else
#define FY_UNROLL _Pragma("GCC unroll 16")
#endif

/* Hides where a value comes from: it is not computed or loaded again in pieces. */
#define FY_KEEP_IN_REGISTER(v) __asm__("" : "+w"(v))

static inline float32x4_t load4_f32(const float *p)
{
    return vld1q_f32(p);
}

static inline float32x4_t load4_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline float32x4_t load4_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

/* As fy_f32_to_f16. */
static inline uint16_t to_half(float f)
{
    return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(f))), 0);
}

/* The lowest bytes of 16 integers. */
static inline int8x16_t low_bytes(const int32x4_t q[4])
{
    const int16x8_t low = vuzp1q_s16(vreinterpretq_s16_s32(q[0]), vreinterpretq_s16_s32(q[1]));
    const int16x8_t high = vuzp1q_s16(vreinterpretq_s16_s32(q[2]), vreinterpretq_s16_s32(q[3]));
    return vuzp1q_s8(vreinterpretq_s8_s16(low), vreinterpretq_s8_s16(high));
}

/* Eight lanes in two registers to the result of a dot product. */
static inline float sum_lanes(float32x4_t low, float32x4_t high)
{
    float32x4_t u = vaddq_f32(low, high);
    float32x2_t two = vadd_f32(vget_low_f32(u), vget_high_f32(u));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* DEFINE_DOT(name, type, load4, widen) defines dots_<name>: y[r] = w[r] . x for `rows` rows (a
 * constant of at most MAX_DOTS), `stride` bytes apart, sharing the loads of x. Independent rows
 * keep the multiply-add units busy. */
enum { MAX_DOTS = 4 };
#define SAME(v) (v)
#define DEFINE_DOT(name, type, load4, widen)                                               \
    static inline void dots_##name(float *y, const char *w, size_t stride, const float *x, \
                                   int64_t k, const int rows)                              \
    {                                                                                      \
        float32x4_t low[MAX_DOTS], high[MAX_DOTS];                                         \
        for (int r = 0; r < rows; r++)                                                     \
            low[r] = high[r] = vdupq_n_f32(0);                                             \
        int64_t i = 0;                                                                     \
        for (; i + 8 <= k; i += 8) {                                                       \
            float32x4_t x0 = vld1q_f32(x + i), x1 = vld1q_f32(x + i + 4);                  \
            for (int r = 0; r < rows; r++) {                                               \
                const type *p = (const type *)(const void *)(w + (size_t)r * stride) + i;  \
                low[r] = vfmaq_f32(low[r], load4(p), x0);                                  \
                high[r] = vfmaq_f32(high[r], load4(p + 4), x1);                            \
            }                                                                              \
        }                                                                                  \
        if (i < k) { /* the rest, padded with zeros */                                     \
            float xt[8] = {0};                                                             \
            memcpy(xt, x + i, (size_t)(k - i) * sizeof xt[0]);                             \
            for (int r = 0; r < rows; r++) {                                               \
                const type *p = (const type *)(const void *)(w + (size_t)r * stride);      \
                float wt[8] = {0};                                                         \
                for (int64_t j = i; j < k; j++)                                            \
                    wt[j - i] = widen(p[j]);                                               \
                low[r] = vfmaq_f32(low[r], vld1q_f32(wt), vld1q_f32(xt));                  \
                high[r] = vfmaq_f32(high[r], vld1q_f32(wt + 4), vld1q_f32(xt + 4));        \
            }                                                                              \
        }                                                                                  \
        for (int r = 0; r < rows; r++)                                                     \
            y[r] = sum_lanes(low[r], high[r]);                                             \
    }

#endif
