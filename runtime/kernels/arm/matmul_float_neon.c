/* f32, f16 and bf16 weights against f32 activations: four rows at a time, each in the 8 lanes of
 * kernels.h. */
#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"

#define DEFINE_MATMUL(name, type, load4, widen)                                                   \
    DEFINE_DOT(name, type, load4, widen)                                                          \
    void fy_matmul_##name##__neon(float *y, int64_t ldy, const void *W, size_t row_bytes,         \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,            \
                                  int64_t n_cols, void *scratch)                                  \
    {                                                                                             \
        (void)scratch;                                                                            \
        int64_t r = row_begin;                                                                    \
        for (; r < row_end; r += MAX_DOTS) {                                                      \
            const char *w = (const char *)W + (size_t)r * row_bytes;                              \
            for (int64_t c = 0; c < n_cols; c++) {                                                \
                const float *x = a->x + c * a->k;                                                 \
                if (row_end - r >= MAX_DOTS) {                                                    \
                    dots_##name(y + c * ldy + r, w, row_bytes, x, a->k, MAX_DOTS);                \
                } else {                                                                          \
                    for (int64_t i = 0; i < row_end - r; i++)                                     \
                        dots_##name(y + c * ldy + r + i, w + (size_t)i * row_bytes, row_bytes, x, \
                                    a->k, 1);                                                     \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
    }

DEFINE_MATMUL(f32, float, load4_f32, SAME)
DEFINE_MATMUL(f16, uint16_t, load4_f16, fy_f16_to_f32)
DEFINE_MATMUL(bf16, uint16_t, load4_bf16, fy_bf16_to_f32)
