/* Block weights times many columns with the matrix instructions of Armv8.6 (SMMLA): two rows times
 * two columns, eight elements of each. A vector of sums has rows 2p and 2p + 1 of columns 2c and
 * 2c + 1: r0c0, r0c1, r1c0, r1c1. Up to four columns are the business of SDOT, whose tile takes
 * fewer instructions to repack. */
#include "kernels/kernel_impl.h"

#define FY_TILE_LANES   16
#define FY_TILE_REPEATS 1

#include "kernels/arm/matmul_tile.h"

/* [j][pair of rows]: elements 8j .. 8j+7 of both. */
FY_INLINE void tile_put_quants(int8_t *q, const fy_quants32 rows[FY_Q_ROWS], int quad)
{
    FY_UNROLL
    for (int i = 0; i < FY_Q_ROWS; i += 2) {
        const int64x2_t lo[2] = {vreinterpretq_s64_s8(rows[i].lo),
                                 vreinterpretq_s64_s8(rows[i + 1].lo)};
        const int64x2_t hi[2] = {vreinterpretq_s64_s8(rows[i].hi),
                                 vreinterpretq_s64_s8(rows[i + 1].hi)};
        int8_t *to = q + (2 * quad + i / 2) * 16;
        vst1q_s8(to, vreinterpretq_s8_s64(vzip1q_s64(lo[0], lo[1])));
        vst1q_s8(to + 64, vreinterpretq_s8_s64(vzip2q_s64(lo[0], lo[1])));
        vst1q_s8(to + 128, vreinterpretq_s8_s64(vzip1q_s64(hi[0], hi[1])));
        vst1q_s8(to + 192, vreinterpretq_s8_s64(vzip2q_s64(hi[0], hi[1])));
    }
}

FY_INLINE void tile_put_scales(float *at, float32x4_t rows, int quad)
{
    vst1q_f32(at + 8 * quad, vzip1q_f32(rows, rows));
    vst1q_f32(at + 8 * quad + 4, vzip2q_f32(rows, rows));
}

FY_INLINE void tile_put_parts(int32_t *at, int32x4_t rows, int quad)
{
    vst1q_s32(at + 8 * quad, vzip1q_s32(rows, rows));
    vst1q_s32(at + 8 * quad + 4, vzip2q_s32(rows, rows));
}

/* [j][pair of columns] */
FY_INLINE void tile_put_columns(int8_t *to, const int8_t *const q[FY_TILE_COLS])
{
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        const int c = i / 2 * 2, half = i % 2;
        const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(q[c] + 16 * half));
        const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(q[c + 1] + 16 * half));
        int8_t *at = to + 64 * half + c / 2 * 16;
        vst1q_s8(at, vreinterpretq_s8_s64(vzip1q_s64(a, b)));
        vst1q_s8(at + 32, vreinterpretq_s8_s64(vzip2q_s64(a, b)));
    }
}

/* For each pair of columns its two values twice. */
FY_INLINE void tile_put_values(float *to, float32x4_t columns)
{
    const float64x2_t pairs = vreinterpretq_f64_f32(columns);
    vst1q_f32(to, vreinterpretq_f32_f64(vdupq_laneq_f64(pairs, 0)));
    vst1q_f32(to + 4, vreinterpretq_f32_f64(vdupq_laneq_f64(pairs, 1)));
}

FY_INLINE void tile_dots(int32x4_t s[FY_TILE_SUMS], const int8_t *w, const int8_t *x, int half)
{
    FY_UNROLL
    for (int j = 2 * half; j < 2 * half + 2; j++) {
        const int8x16_t x0 = vld1q_s8(x + 32 * j), x1 = vld1q_s8(x + 32 * j + 16);
        FY_UNROLL
        for (int p = 0; p < 4; p++) {
            const int8x16_t rows = vld1q_s8(w + 64 * j + 16 * p);
            s[2 * p] = vmmlaq_s32(s[2 * p], rows, x0);
            s[2 * p + 1] = vmmlaq_s32(s[2 * p + 1], rows, x1);
        }
    }
}

FY_INLINE int tile_rows_of(int i)
{
    return i / 2;
}

FY_INLINE float32x4_t tile_columns_of(const float *x, int i)
{
    return vld1q_f32(x + i % 2 * 4);
}

FY_INLINE void tile_from_y(float32x4_t acc[FY_TILE_SUMS], float32x4_t y[FY_TILE_COLS][2])
{
    FY_UNROLL
    for (int i = 0; i < FY_TILE_SUMS; i += 4) {
        FY_UNROLL
        for (int c = 0; c < 2; c++) {
            acc[i + c] = vzip1q_f32(y[2 * c][i / 4], y[2 * c + 1][i / 4]);
            acc[i + 2 + c] = vzip2q_f32(y[2 * c][i / 4], y[2 * c + 1][i / 4]);
        }
    }
}

FY_INLINE void tile_to_y(float32x4_t y[FY_TILE_COLS][2], const float32x4_t acc[FY_TILE_SUMS])
{
    FY_UNROLL
    for (int i = 0; i < FY_TILE_SUMS; i += 4) {
        FY_UNROLL
        for (int c = 0; c < 2; c++) {
            y[2 * c][i / 4] = vuzp1q_f32(acc[i + c], acc[i + 2 + c]);
            y[2 * c + 1][i / 4] = vuzp2q_f32(acc[i + c], acc[i + 2 + c]);
        }
    }
}

#define DEFINE_MATMUL(type, subs, has_min, has_parts, scales)                                   \
    void fy_matmul_##type##__i8mm(float *y, int64_t ldy, const void *W, size_t row_bytes,       \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,          \
                                  int64_t n_cols, void *scratch)                                \
    {                                                                                           \
        if (n_cols <= FY_TILE_COLS)                                                             \
            fy_matmul_##type##__dotprod(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols,    \
                                        scratch);                                               \
        else                                                                                    \
            matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,          \
                         sizeof(fy_block_##type), subs, has_min, has_parts, fy_quants32_##type, \
                         scales);                                                               \
    }

DEFINE_MATMUL(q8_0, 1, false, false, fy_scales_d)
DEFINE_MATMUL(q4_0, 1, false, false, fy_scales_d)
FY_QUANT_TYPES(DEFINE_MATMUL)
