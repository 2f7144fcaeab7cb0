/* Sums of listed rows of a matrix, each times a number (kernels.h): bound by reading the rows,
 * which lie apart, and for blocks by widening them. Four rows go through the sums together, so that
 * these are read and written once for four; the next four are prefetched meanwhile. */
#include <math.h>

#include "kernels/arm/quants_neon.h"
#include "kernels/kernel_impl.h"

enum { TOGETHER = 4 };

/* 32 elements of a row from element j on, a multiple of 32. */
typedef void load32_fn(float32x4_t v[8], const uint8_t *row, int64_t j);
/* One element, of types without blocks. */
typedef float element_fn(const uint8_t *row, int64_t j);

FY_INLINE void load32_f16(float32x4_t v[8], const uint8_t *row, int64_t j)
{
    FY_UNROLL
    for (int k = 0; k < 4; k++) {
        const float16x8_t h = vreinterpretq_f16_u8(vld1q_u8(row + 2 * j + 16 * k));
        v[2 * k] = vcvt_f32_f16(vget_low_f16(h));
        v[2 * k + 1] = vcvt_high_f32_f16(h);
    }
}

FY_INLINE void widen32(float32x4_t v[8], fy_quants32 q, const uint8_t *block)
{
    uint16_t half;
    memcpy(&half, block, sizeof half);
    const float32x4_t d = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half)));
    const int16x8_t wide[4] = {vmovl_s8(vget_low_s8(q.lo)), vmovl_high_s8(q.lo),
                               vmovl_s8(vget_low_s8(q.hi)), vmovl_high_s8(q.hi)};
    FY_UNROLL
    for (int k = 0; k < 4; k++) {
        v[2 * k] = vmulq_f32(d, vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide[k]))));
        v[2 * k + 1] = vmulq_f32(d, vcvtq_f32_s32(vmovl_high_s16(wide[k])));
    }
}

FY_INLINE void load32_q8_0(float32x4_t v[8], const uint8_t *row, int64_t j)
{
    const uint8_t *block = row + j / FY_QK * (int64_t)sizeof(fy_block_q8_0);
    widen32(v, fy_quants32_q8_0(block, 0), block);
}

FY_INLINE void load32_q4_0(float32x4_t v[8], const uint8_t *row, int64_t j)
{
    const uint8_t *block = row + j / FY_QK * (int64_t)sizeof(fy_block_q4_0);
    widen32(v, fy_quants32_q4_0(block, 0), block);
}

static __attribute__((noinline)) float element_f16(const uint8_t *row, int64_t j)
{
    uint16_t h;
    memcpy(&h, row + 2 * j, sizeof h);
    return fy_f16_to_f32(h);
}

/* The n <= TOGETHER rows from the i-th of the n_list listed ones on. bytes32: of 32 elements. */
FY_INLINE void add_some(float *y, const float *p, const uint8_t *W, size_t row_bytes,
                        const int32_t *list, int64_t i, int64_t n_list, int64_t n_cols,
                        size_t bytes32, int n, load32_fn *load, element_fn *element)
{
    const uint8_t *row[TOGETHER], *next[TOGETHER];
    for (int r = 0; r < n; r++) {
        row[r] = W + (size_t)list[i + r] * row_bytes;
        next[r] = W + (size_t)list[i + n + r < n_list ? i + n + r : n_list - 1] * row_bytes;
    }
    int64_t j = 0;
    for (; j + FY_QK <= n_cols; j += FY_QK) {
        float32x4_t sum[8];
        FY_UNROLL
        for (int k = 0; k < 8; k++)
            sum[k] = vld1q_f32(y + j + 4 * k);
        for (int r = 0; r < n; r++) {
            float32x4_t v[8];
            __builtin_prefetch(next[r] + (size_t)(j / FY_QK) * bytes32);
            load(v, row[r], j);
            FY_UNROLL
            for (int k = 0; k < 8; k++)
                sum[k] = vfmaq_n_f32(sum[k], v[k], p[i + r]);
        }
        FY_UNROLL
        for (int k = 0; k < 8; k++)
            vst1q_f32(y + j + 4 * k, sum[k]);
    }
    for (; element != NULL && j < n_cols; j++) {
        for (int r = 0; r < n; r++)
            y[j] = fmaf(p[i + r], element(row[r], j), y[j]);
    }
}

FY_INLINE void add_rows(float *y, const float *p, const uint8_t *W, size_t row_bytes,
                        const int32_t *list, int64_t n, int64_t n_cols, size_t bytes32,
                        load32_fn *load, element_fn *element)
{
    for (int64_t i = 0; i < n; i += TOGETHER)
        add_some(y, p, W, row_bytes, list, i, n, n_cols, bytes32,
                 n - i < TOGETHER ? (int)(n - i) : TOGETHER, load, element);
}

#define DEFINE_ADD_ROWS(type, bytes32, element)                                                \
    void fy_add_rows_##type##__neon(float *y, const float *p, const void *W, size_t row_bytes, \
                                    const int32_t *rows, int64_t n, int64_t n_cols)            \
    {                                                                                          \
        add_rows(y, p, W, row_bytes, rows, n, n_cols, bytes32, load32_##type, element);        \
    }

DEFINE_ADD_ROWS(f16, 2 * FY_QK, element_f16)
DEFINE_ADD_ROWS(q8_0, sizeof(fy_block_q8_0), NULL)
DEFINE_ADD_ROWS(q4_0, sizeof(fy_block_q4_0), NULL)
