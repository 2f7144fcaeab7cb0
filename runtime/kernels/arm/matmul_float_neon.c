/* f32, f16 and bf16 weights against f32 activations, in the 8 lanes of kernels.h: four rows times
 * two columns, so that what is loaded and widened serves twice. */
#include <arm_neon.h>
#include <string.h>

#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"

enum { ROWS = 4, COLS = 2, LANES = 8 };

typedef struct {
    float32x4_t low, high;
} lanes8;

/* Reads eight weights. */
typedef lanes8 load8_fn(const uint8_t *p);

FY_INLINE lanes8 load8_f32(const uint8_t *p)
{
    return (lanes8){vreinterpretq_f32_u8(vld1q_u8(p)), vreinterpretq_f32_u8(vld1q_u8(p + 16))};
}

FY_INLINE lanes8 load8_f16(const uint8_t *p)
{
    const float16x8_t h = vreinterpretq_f16_u8(vld1q_u8(p));
    return (lanes8){vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)};
}

FY_INLINE lanes8 load8_bf16(const uint8_t *p)
{
    const uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8(p));
    return (lanes8){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
                    vreinterpretq_f32_u32(vshll_high_n_u16(h, 16))};
}

FY_INLINE float sum_of(lanes8 v)
{
    const float32x4_t u = vaddq_f32(v.low, v.high);
    const float32x2_t two = vadd_f32(vget_low_f32(u), vget_high_f32(u));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

FY_INLINE void add8(lanes8 acc[ROWS][COLS], const uint8_t *const row[ROWS], const float *x,
                    int64_t ldx, int rows, int cols, load8_fn *load8)
{
    lanes8 column[COLS];
    FY_UNROLL
    for (int c = 0; c < cols; c++)
        column[c] = (lanes8){vld1q_f32(x + c * ldx), vld1q_f32(x + c * ldx + 4)};
    FY_UNROLL
    for (int r = 0; r < rows; r++) {
        const lanes8 w = load8(row[r]);
        FY_UNROLL
        for (int c = 0; c < cols; c++) {
            acc[r][c].low = vfmaq_f32(acc[r][c].low, w.low, column[c].low);
            acc[r][c].high = vfmaq_f32(acc[r][c].high, w.high, column[c].high);
        }
    }
}

/* y[c][r] of `rows` rows and `cols` columns, constants. */
FY_INLINE void dots(float *y, int64_t ldy, const uint8_t *w, size_t row_bytes, const float *x,
                    int64_t k, int rows, int cols, size_t size, load8_fn *load8)
{
    lanes8 acc[ROWS][COLS];
    FY_UNROLL
    for (int r = 0; r < rows; r++) {
        FY_UNROLL
        for (int c = 0; c < cols; c++)
            acc[r][c] = (lanes8){vdupq_n_f32(0), vdupq_n_f32(0)};
    }
    const uint8_t *row[ROWS];
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES) {
        FY_UNROLL
        for (int r = 0; r < rows; r++)
            row[r] = w + (size_t)r * row_bytes + (size_t)i * size;
        add8(acc, row, x + i, k, rows, cols, load8);
    }
    if (i < k) { /* the rest, padded with zeros */
        uint8_t rest[ROWS][LANES * sizeof(float)] = {{0}};
        float x_rest[COLS * LANES] = {0};
        FY_UNROLL
        for (int c = 0; c < cols; c++)
            memcpy(x_rest + c * LANES, x + c * k + i, (size_t)(k - i) * sizeof *x);
        FY_UNROLL
        for (int r = 0; r < rows; r++) {
            row[r] = rest[r];
            memcpy(rest[r], w + (size_t)r * row_bytes + (size_t)i * size, (size_t)(k - i) * size);
        }
        add8(acc, row, x_rest, LANES, rows, cols, load8);
    }
    FY_UNROLL
    for (int r = 0; r < rows; r++) {
        FY_UNROLL
        for (int c = 0; c < cols; c++)
            y[c * ldy + r] = sum_of(acc[r][c]);
    }
}

FY_INLINE void matmul(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                      int64_t row_end, const fy_act *a, int64_t n_cols, size_t size,
                      load8_fn *load8)
{
    const int64_t whole = row_begin + (row_end - row_begin) / ROWS * ROWS;
    for (int64_t r = row_begin; r < row_end; r += r < whole ? ROWS : 1) {
        const uint8_t *w = (const uint8_t *)W + (size_t)r * row_bytes;
        for (int64_t c = 0; c < n_cols; c += COLS) {
            float *out = y + c * ldy + r;
            const float *x = a->x + c * a->k;
            if (r < whole && n_cols - c >= COLS)
                dots(out, ldy, w, row_bytes, x, a->k, ROWS, COLS, size, load8);
            else if (r < whole)
                dots(out, ldy, w, row_bytes, x, a->k, ROWS, 1, size, load8);
            else if (n_cols - c >= COLS)
                dots(out, ldy, w, row_bytes, x, a->k, 1, COLS, size, load8);
            else
                dots(out, ldy, w, row_bytes, x, a->k, 1, 1, size, load8);
        }
    }
}

#define DEFINE_MATMUL(type, size)                                                         \
    void fy_matmul_##type##__neon(float *y, int64_t ldy, const void *W, size_t row_bytes, \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,    \
                                  int64_t n_cols, void *scratch)                          \
    {                                                                                     \
        (void)scratch;                                                                    \
        matmul(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, size, load8_##type);  \
    }

DEFINE_MATMUL(f32, sizeof(float))
DEFINE_MATMUL(f16, sizeof(uint16_t))
DEFINE_MATMUL(bf16, sizeof(uint16_t))
