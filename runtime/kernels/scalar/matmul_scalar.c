/* The matrix products, one dot product at a time, in the order of sums that kernels.h defines for
 * every ISA. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/dot_scalar.h"
#include "kernels/scalar/quants_scalar.h"

static void matmul_float(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                         int64_t row_end, const fy_act *a, int64_t n_cols, fy_weight_fn *weight)
{
    for (int64_t c = 0; c < n_cols; c++) {
        const float *x = a->x + c * a->k;
        for (int64_t r = row_begin; r < row_end; r++) {
            const uint8_t *row = (const uint8_t *)W + (size_t)r * row_bytes;
            y[c * ldy + r] = fy_dot_scalar(row, x, a->k, weight);
        }
    }
}

void fy_matmul_f32__scalar(float *y, int64_t ldy, const void *W, size_t row_bytes,
                           int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                           void *scratch)
{
    (void)scratch;
    matmul_float(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, fy_weight_f32);
}

void fy_matmul_f16__scalar(float *y, int64_t ldy, const void *W, size_t row_bytes,
                           int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                           void *scratch)
{
    (void)scratch;
    matmul_float(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, fy_weight_f16);
}

void fy_matmul_bf16__scalar(float *y, int64_t ldy, const void *W, size_t row_bytes,
                            int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                            void *scratch)
{
    (void)scratch;
    matmul_float(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, fy_weight_bf16);
}

static int32_t dot16(const int8_t *w, const int8_t *x)
{
    int32_t sum = 0;
    for (int i = 0; i < 16; i++)
        sum += w[i] * x[i];
    return sum;
}

/* Each block is unpacked once for all columns, whose chains rest in y. Inlined into each type, or
 * every block would be written to memory and read again at another width: a third of the speed. */
static inline __attribute__((always_inline)) void
matmul_blocks(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
              int64_t row_end, const fy_act *a, int64_t n_cols, bool has_min, fy_quants_fn *quants)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t r = row_begin; r < row_end; r++) {
        const uint8_t *row = (const uint8_t *)W + (size_t)r * row_bytes;
        for (int64_t c = 0; c < n_cols; c++)
            y[c * ldy + r] = 0.0f;
        for (int64_t b = 0; b < n_blocks; b++) {
            const fy_quants w = quants(row, b);
            for (int64_t c = 0; c < n_cols; c++) {
                const int8_t *x = a->q + c * a->k + b * FY_QK;
                const float d = a->d[c * n_blocks + b];
                const int32_t sum =
                    w.scale[0] * dot16(w.q, x) + w.scale[1] * dot16(w.q + 16, x + 16);
                float *acc = &y[c * ldy + r];
                *acc = fmaf(w.d * d, (float)sum, *acc);
                if (has_min)
                    *acc = fmaf(w.m * d, (float)a->sum[c * n_blocks + b], *acc);
            }
        }
    }
}

#define DEFINE_MATMUL(type, has_min)                                                        \
    void fy_matmul_##type##__scalar(float *y, int64_t ldy, const void *W, size_t row_bytes, \
                                    int64_t row_begin, int64_t row_end, const fy_act *a,    \
                                    int64_t n_cols, void *scratch)                          \
    {                                                                                       \
        (void)scratch;                                                                      \
        matmul_blocks(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, has_min,         \
                      fy_quants_##type);                                                    \
    }

DEFINE_MATMUL(q8_0, false)
DEFINE_MATMUL(q4_0, false)
DEFINE_MATMUL(q4_1, true)
DEFINE_MATMUL(q5_0, false)
DEFINE_MATMUL(q5_1, true)
DEFINE_MATMUL(q4_k, true)
DEFINE_MATMUL(q5_k, true)
DEFINE_MATMUL(q6_k, false)
