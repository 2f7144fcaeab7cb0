/* Activations to 8 bits, 32 at a time. FCVTAS rounds half away from zero, as the rule in kernels.h
 * asks. */
#include <arm_neon.h>
#include <math.h>

#include "kernels/arm/unroll.h"
#include "kernels/kernel_impl.h"

static void quantize_block(const float *x, int8_t *q, float *d_out, int32_t *sum_out)
{
    float32x4_t v[8], top = vdupq_n_f32(0);
    FY_UNROLL
    for (int i = 0; i < 8; i++) {
        v[i] = vld1q_f32(x + 4 * i);
        top = vmaxq_f32(top, vabsq_f32(v[i]));
    }
    float d = vmaxvq_f32(top) / 127.0f;
    float id = d != 0 ? 1.0f / d : 0;
    if (!isfinite(id))
        id = 0;
    int32x4_t sum = vdupq_n_s32(0);
    int16x8_t half[4];
    FY_UNROLL
    for (int i = 0; i < 8; i += 2) {
        int32x4_t a = vcvtaq_s32_f32(vmulq_n_f32(v[i], id)),
                  b = vcvtaq_s32_f32(vmulq_n_f32(v[i + 1], id));
        sum = vaddq_s32(sum, vaddq_s32(a, b));
        half[i / 2] = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
    }
    vst1q_s8(q, vcombine_s8(vmovn_s16(half[0]), vmovn_s16(half[1])));
    vst1q_s8(q + 16, vcombine_s8(vmovn_s16(half[2]), vmovn_s16(half[3])));
    *d_out = d;
    *sum_out = vaddvq_s32(sum);
}

void fy_act_quantize__neon(const fy_act *a, int64_t col_begin, int64_t col_end)
{
    int64_t n_blocks = a->k / FY_QK;
    for (int64_t c = col_begin; c < col_end; c++) {
        for (int64_t b = 0; b < n_blocks; b++) {
            int64_t i = c * n_blocks + b;
            quantize_block(a->x + i * FY_QK, a->q + i * FY_QK, &a->d[i], &a->sum[i]);
        }
    }
}
