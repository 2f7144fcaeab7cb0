/* The matrix products, one dot product at a time, in the order of sums that kernels.h defines for
 * every ISA. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/dot_scalar.h"

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

/* The exact sum of a block's 32 products. */
typedef int32_t block_sum_fn(const uint8_t *block, const int8_t *x);

static int32_t block_sum_q8_0(const uint8_t *block, const int8_t *x)
{
    fy_block_q8_0 w;
    memcpy(&w, block, sizeof w);
    int32_t sum = 0;
    for (int i = 0; i < FY_QK; i++)
        sum += w.qs[i] * x[i];
    return sum;
}

static int32_t block_sum_q4_0(const uint8_t *block, const int8_t *x)
{
    fy_block_q4_0 w;
    memcpy(&w, block, sizeof w);
    int32_t sum = 0;
    for (int i = 0; i < FY_QK / 2; i++) {
        sum += ((w.qs[i] & 15) - 8) * x[i];
        sum += ((w.qs[i] >> 4) - 8) * x[FY_QK / 2 + i];
    }
    return sum;
}

/* A block of any type begins with its f16 scale. */
static void matmul_blocks(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, size_t block_bytes,
                          block_sum_fn *block_sum)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t c = 0; c < n_cols; c++) {
        const int8_t *x = a->q + c * a->k;
        const float *d = a->d + c * n_blocks;
        for (int64_t r = row_begin; r < row_end; r++) {
            const uint8_t *block = (const uint8_t *)W + (size_t)r * row_bytes;
            float acc = 0.0f;
            for (int64_t b = 0; b < n_blocks; b++, block += block_bytes) {
                const float scale = fy_weight_f16(block, 0) * d[b];
                acc = fmaf(scale, (float)block_sum(block, x + b * FY_QK), acc);
            }
            y[c * ldy + r] = acc;
        }
    }
}

void fy_matmul_q8_0__scalar(float *y, int64_t ldy, const void *W, size_t row_bytes,
                            int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                            void *scratch)
{
    (void)scratch;
    matmul_blocks(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, sizeof(fy_block_q8_0),
                  block_sum_q8_0);
}

void fy_matmul_q4_0__scalar(float *y, int64_t ldy, const void *W, size_t row_bytes,
                            int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                            void *scratch)
{
    (void)scratch;
    matmul_blocks(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, sizeof(fy_block_q4_0),
                  block_sum_q4_0);
}
