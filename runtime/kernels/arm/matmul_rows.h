/* Block weights times columns, from the file's layout: few columns on every arm64 ISA, many on
 * plain NEON. A file that includes this defines before: dot16(s, w, x), which adds to s int32x4_t
 * whose lanes add up to the exact sum of 16 products of signed bytes.
 *
 * Four rows make one vector: the sums of four blocks are folded to one int32x4 by pairwise adds, so
 * that each lane is one row's chain acc = fmaf(d_w * d_x, isum, acc), in the order and rounding of
 * the scalar specification. A block of 32 becomes two registers of signed bytes in element order,
 * which four columns share; the scales of a super-block are unpacked for four rows at once, as the
 * lanes are rows already. */
#ifndef FY_KERNELS_ARM_MATMUL_ROWS_H
#define FY_KERNELS_ARM_MATMUL_ROWS_H

#include "kernels/arm/quants_neon.h"

enum { FY_Q_COLS = 4 };

/* Constants of the type: `subs` blocks of 32 in a stored block, has_min, has_parts, and what its
 * quants are too large by, as `quants` gives them (`above`). */

FY_INLINE int32x4_t sums4(const int32x4_t s[FY_Q_ROWS])
{
    return vpaddq_s32(vpaddq_s32(s[0], s[1]), vpaddq_s32(s[2], s[3]));
}

/* The sums of 32 products of four rows, a lane each. */
typedef int32x4_t fy_dots4_fn(const fy_quants32 q[FY_Q_ROWS], int8x16_t x0, int8x16_t x1);

FY_INLINE int32x4_t dots4(const fy_quants32 q[FY_Q_ROWS], int8x16_t x0, int8x16_t x1)
{
    int32x4_t s[FY_Q_ROWS];
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++)
        s[r] = dot16(dot16(vdupq_n_s32(0), q[r].lo, x0), q[r].hi, x1);
    return sums4(s);
}

/* The same of q6_K: each half times its scale. */
FY_INLINE int32x4_t dots4_parts(const fy_quants32 q[FY_Q_ROWS], int8x16_t x0, int8x16_t x1,
                                int32x4_t scale_lo, int32x4_t scale_hi)
{
    int32x4_t lo[FY_Q_ROWS], hi[FY_Q_ROWS];
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++) {
        lo[r] = dot16(vdupq_n_s32(0), q[r].lo, x0);
        hi[r] = dot16(vdupq_n_s32(0), q[r].hi, x1);
    }
    return vmlaq_s32(vmulq_s32(sums4(lo), scale_lo), sums4(hi), scale_hi);
}

/* Continues the chains of column `col` over block b, sub-block s of what the scales are for. */
FY_INLINE float32x4_t add_block(float32x4_t acc, const fy_quants32 q[FY_Q_ROWS], const q_scales *w,
                                int s, const fy_act *a, int64_t col, int64_t b, bool has_min,
                                bool has_parts, int above, fy_dots4_fn *dots)
{
    const int64_t at = col * (a->k / FY_QK) + b;
    const int8_t *x = a->q + col * a->k + b * FY_QK;
    const int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
    int32x4_t sum = has_parts ? dots4_parts(q, x0, x1, w->lo[s], w->hi[s]) : dots(q, x0, x1);
    if (above != 0)
        sum = vsubq_s32(sum, vdupq_n_s32(above * a->sum[at]));
    acc = vfmaq_f32(acc, vmulq_n_f32(w->d[s], a->d[at]), vcvtq_f32_s32(sum));
    if (has_min)
        acc = vfmaq_f32(acc, vmulq_n_f32(w->m[s], a->d[at]), vdupq_n_f32((float)a->sum[at]));
    return acc;
}

/* y[c][r] for n_rows <= 4 rows and `cols` columns from `col` on, a constant. Rows that are missing
 * repeat the last one. */
FY_INLINE void matmul_rows(float *y, int64_t ldy, const uint8_t *W, size_t row_bytes, int n_rows,
                           const fy_act *a, int64_t col, int cols, size_t block_bytes, int subs,
                           bool has_min, bool has_parts, fy_quants32_fn *quants,
                           fy_scales_fn *scales, int above, fy_dots4_fn *dots)
{
    const uint8_t *row[FY_Q_ROWS];
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++)
        row[r] = W + (size_t)(r < n_rows ? r : n_rows - 1) * row_bytes;
    float32x4_t acc[FY_Q_COLS];
    FY_UNROLL
    for (int i = 0; i < cols; i++)
        acc[i] = vdupq_n_f32(0);
    for (int64_t stored = 0; stored < a->k / FY_QK / subs; stored++) {
        const size_t offset = (size_t)stored * block_bytes;
        q_scales w;
        scales(&w, row, offset);
        for (int s = 0; s < subs; s++) {
            fy_quants32 q[FY_Q_ROWS];
            FY_UNROLL
            for (int r = 0; r < FY_Q_ROWS; r++)
                q[r] = quants(row[r] + offset, s);
            FY_UNROLL
            for (int i = 0; i < cols; i++)
                acc[i] = add_block(acc[i], q, &w, s, a, col + i, stored * subs + s, has_min,
                                   has_parts, above, dots);
        }
    }
    FY_UNROLL
    for (int i = 0; i < cols; i++) {
        float out[FY_Q_ROWS];
        vst1q_f32(out, acc[i]);
        memcpy(y + (col + i) * ldy, out, (size_t)n_rows * sizeof *y);
    }
}

/* y[list[i]] of one column, four listed rows at a time; while they are read, the next four are
 * asked for. Of q4_0, or q8_0: one piece of code, as it is bound by reading. */
static __attribute__((noinline, unused)) void dot_listed(float *y, const uint8_t *W,
                                                         size_t row_bytes, const int32_t *list,
                                                         int64_t n, const fy_act *a, bool q4_0)
{
    for (int64_t i = 0; i < n; i += FY_Q_ROWS) {
        const uint8_t *row[FY_Q_ROWS], *next[FY_Q_ROWS];
        FY_UNROLL
        for (int r = 0; r < FY_Q_ROWS; r++) {
            row[r] = W + (size_t)list[i + r < n ? i + r : n - 1] * row_bytes;
            next[r] =
                W + (size_t)list[i + r + FY_Q_ROWS < n ? i + r + FY_Q_ROWS : n - 1] * row_bytes;
        }
        float32x4_t acc = vdupq_n_f32(0);
        for (int64_t b = 0; b < a->k / FY_QK; b++) {
            const size_t offset =
                (size_t)b * (q4_0 ? sizeof(fy_block_q4_0) : sizeof(fy_block_q8_0));
            q_scales w;
            fy_quants32 q[FY_Q_ROWS];
            FY_UNROLL
            for (int r = 0; r < FY_Q_ROWS; r++)
                __builtin_prefetch(next[r] + offset);
            fy_scales_d(&w, row, offset);
            FY_UNROLL
            for (int r = 0; r < FY_Q_ROWS; r++)
                q[r] = q4_0 ? fy_quants32_q4_0(row[r] + offset, 0)
                            : fy_quants32_q8_0(row[r] + offset, 0);
            acc = add_block(acc, q, &w, 0, a, 0, b, false, false, 0, dots4);
        }
        float out[FY_Q_ROWS];
        vst1q_f32(out, acc);
        for (int64_t r = 0; r < FY_Q_ROWS && i + r < n; r++)
            y[list[i + r]] = out[r];
    }
}

#define FY_DEFINE_DOT_ROWS(type, isa)                                                         \
    void fy_dot_rows_##type##__##isa(float *y, const void *W, size_t row_bytes,               \
                                     const int32_t *rows, int64_t n, const fy_act *a)         \
    {                                                                                         \
        dot_listed(y, W, row_bytes, rows, n, a, sizeof(fy_block_##type) == sizeof(fy_block_q4_0)); \
    }

/* Columns go together by fours, and what is left of them together. */
FY_INLINE void matmul_by_rows(float *y, int64_t ldy, const void *W, size_t row_bytes,
                              int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                              size_t block_bytes, int subs, bool has_min, bool has_parts,
                              fy_quants32_fn *quants, fy_scales_fn *scales, int above,
                              fy_dots4_fn *dots)
{
    for (int64_t r = row_begin; r < row_end; r += FY_Q_ROWS) {
        const int n = row_end - r < FY_Q_ROWS ? (int)(row_end - r) : FY_Q_ROWS;
        const uint8_t *w = (const uint8_t *)W + (size_t)r * row_bytes;
        for (int64_t c = 0; c < n_cols; c += FY_Q_COLS) {
#define ROWS(cols)                                                                              \
    matmul_rows(y + r, ldy, w, row_bytes, n, a, c, cols, block_bytes, subs, has_min, has_parts, \
                quants, scales, above, dots)
            switch (n_cols - c) {
            case 1:
                ROWS(1);
                break;
            case 2:
                ROWS(2);
                break;
            case 3:
                ROWS(3);
                break;
            default:
                ROWS(FY_Q_COLS);
            }
#undef ROWS
        }
    }
}

#endif
