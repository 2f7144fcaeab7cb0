/* Block weights on plain Armv8.0 NEON. Many columns of types with small codes in tiles;
 * four or more by rows (matmul_rows.h), with widening multiplies; one to three of q8_0 and q4_0 by
 * code of their own (matmul_vec.h). */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

/* Two products of at most 32 * 127 fit int16; the pairwise adds widen before there are more. */
static inline int32x4_t dot16(int32x4_t s, int8x16_t w, int8x16_t x)
{
    return vpadalq_s16(s, vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x));
}

#define FY_TILE_REPEATS 8

#include "kernels/arm/matmul_rows.h"
#include "kernels/arm/matmul_tile_quads.h"
#include "kernels/arm/matmul_vec.h"

/* --- q8_0 and q4_0 by rows ------------------------------------------------------------------- */

/* Two products of at most 128 * 127 fit int16. */
FY_INLINE int32x4_t dot32_q8_0(fy_quants32 q, int8x16_t x0, int8x16_t x1)
{
    int16x8_t a = vmlal_high_s8(vmull_s8(vget_low_s8(q.lo), vget_low_s8(x0)), q.lo, x0);
    int16x8_t b = vmlal_high_s8(vmull_s8(vget_low_s8(q.hi), vget_low_s8(x1)), q.hi, x1);
    return vpadalq_s16(vpaddlq_s16(a), b);
}

FY_INLINE int32x4_t sums_of_rows(int32x4_t s0, int32x4_t s1, int32x4_t s2, int32x4_t s3)
{
    return vpaddq_s32(vpaddq_s32(s0, s1), vpaddq_s32(s2, s3));
}

FY_INLINE int32x4_t dots4_q8_0(const fy_quants32 q[FY_Q_ROWS], int8x16_t x0, int8x16_t x1)
{
    return sums_of_rows(dot32_q8_0(q[0], x0, x1), dot32_q8_0(q[1], x0, x1),
                        dot32_q8_0(q[2], x0, x1), dot32_q8_0(q[3], x0, x1));
}

/* Codes of 0 .. 15 as they are stored and activations of at most 127: all 16 products of a lane
 * after the pairwise adds of four rows fit int16, so that nothing widens before they are sums of
 * half a block. */
FY_INLINE fy_quants32 stored_q4_0(const uint8_t *block, int s)
{
    (void)s;
    const uint8x16_t bytes = vld1q_u8(block + offsetof(fy_block_q4_0, qs));
    return (fy_quants32){vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15))),
                         vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4))};
}

FY_INLINE int32x4_t sums_of_pairs(int16x8_t s0, int16x8_t s1, int16x8_t s2, int16x8_t s3)
{
    return vpaddlq_s16(vpaddq_s16(vpaddq_s16(s0, s1), vpaddq_s16(s2, s3)));
}

/* Four products of at most 15 * 127 a lane. */
FY_INLINE int16x8_t dot32_q4_0(fy_quants32 q, int8x16_t x0, int8x16_t x1)
{
    int16x8_t s = vmlal_high_s8(vmull_s8(vget_low_s8(q.lo), vget_low_s8(x0)), q.lo, x0);
    return vmlal_high_s8(vmlal_s8(s, vget_low_s8(q.hi), vget_low_s8(x1)), q.hi, x1);
}

FY_INLINE int32x4_t dots4_q4_0(const fy_quants32 q[FY_Q_ROWS], int8x16_t x0, int8x16_t x1)
{
    return sums_of_pairs(dot32_q4_0(q[0], x0, x1), dot32_q4_0(q[1], x0, x1),
                         dot32_q4_0(q[2], x0, x1), dot32_q4_0(q[3], x0, x1));
}

/* --- q8_0 and q4_0 times one column ---------------------------------------------------------- */

#define VEC_Q8_0_PRODUCTS                     \
    "smull %[a0].8h, v21.8b, %[x0].8b\n\t"    \
    "smull %[a1].8h, v24.8b, %[x0].8b\n\t"    \
    "smull %[a2].8h, v27.8b, %[x0].8b\n\t"    \
    "smull %[a3].8h, v30.8b, %[x0].8b\n\t"    \
    "smull %[b0].8h, v22.8b, %[x1].8b\n\t"    \
    "smull %[b1].8h, v25.8b, %[x1].8b\n\t"    \
    "smull %[b2].8h, v28.8b, %[x1].8b\n\t"    \
    "smull %[b3].8h, v31.8b, %[x1].8b\n\t"    \
    "smlal2 %[a0].8h, v21.16b, %[x0].16b\n\t" \
    "smlal2 %[a1].8h, v24.16b, %[x0].16b\n\t" \
    "smlal2 %[a2].8h, v27.16b, %[x0].16b\n\t" \
    "smlal2 %[a3].8h, v30.16b, %[x0].16b\n\t" \
    "smlal2 %[b0].8h, v22.16b, %[x1].16b\n\t" \
    "smlal2 %[b1].8h, v25.16b, %[x1].16b\n\t" \
    "smlal2 %[b2].8h, v28.16b, %[x1].16b\n\t" \
    "smlal2 %[b3].8h, v31.16b, %[x1].16b\n\t"

FY_INLINE int32x4_t vec_sums4_q8_0(vec_rows *v, int half, int8x16_t x0, int8x16_t x1, int lane,
                                   uint16x8_t *scale)
{
    (void)lane;
    const uint8_t **const row = v->row + 4 * half;
    int16x8_t a0, a1, a2, a3, b0, b1, b2, b3;
    __asm__ volatile(VEC_Q8_0_LOAD VEC_Q8_0_PRODUCTS
                     : [a0] "=&w"(a0), [a1] "=&w"(a1), [a2] "=&w"(a2), [a3] "=&w"(a3),
                       [b0] "=&w"(b0), [b1] "=&w"(b1), [b2] "=&w"(b2), [b3] "=&w"(b3),
                       VEC_ROWS:VEC_Q8_0_INPUTS
                     : VEC_Q8_0_CLOBBERS);
    return sums_of_rows(vpadalq_s16(vpaddlq_s16(a0), b0), vpadalq_s16(vpaddlq_s16(a1), b1),
                        vpadalq_s16(vpaddlq_s16(a2), b2), vpadalq_s16(vpaddlq_s16(a3), b3));
}

#define VEC_Q4_0_PRODUCTS                     \
    "smull %[s0].8h, v24.8b, %[x0].8b\n\t"    \
    "smull %[s1].8h, v26.8b, %[x0].8b\n\t"    \
    "smull %[s2].8h, v28.8b, %[x0].8b\n\t"    \
    "smull %[s3].8h, v30.8b, %[x0].8b\n\t"    \
    "smlal2 %[s0].8h, v24.16b, %[x0].16b\n\t" \
    "smlal2 %[s1].8h, v26.16b, %[x0].16b\n\t" \
    "smlal2 %[s2].8h, v28.16b, %[x0].16b\n\t" \
    "smlal2 %[s3].8h, v30.16b, %[x0].16b\n\t" \
    "smlal %[s0].8h, v25.8b, %[x1].8b\n\t"    \
    "smlal %[s1].8h, v27.8b, %[x1].8b\n\t"    \
    "smlal %[s2].8h, v29.8b, %[x1].8b\n\t"    \
    "smlal %[s3].8h, v31.8b, %[x1].8b\n\t"    \
    "smlal2 %[s0].8h, v25.16b, %[x1].16b\n\t" \
    "smlal2 %[s1].8h, v27.16b, %[x1].16b\n\t" \
    "smlal2 %[s2].8h, v29.16b, %[x1].16b\n\t" \
    "smlal2 %[s3].8h, v31.16b, %[x1].16b\n\t"

FY_INLINE int32x4_t vec_sums4_q4_0(vec_rows *v, int half, int8x16_t x0, int8x16_t x1, int lane,
                                   uint16x8_t *scale)
{
    const uint8_t **const row = v->row + 4 * half;
    int16x8_t s0, s1, s2, s3;
    __asm__ volatile(VEC_Q4_0_LOAD VEC_Q4_0_PRODUCTS
                     : [s0] "=&w"(s0), [s1] "=&w"(s1), [s2] "=&w"(s2), [s3] "=&w"(s3),
                       VEC_ROWS:VEC_Q4_0_INPUTS
                     : VEC_Q4_0_CLOBBERS);
    return less_product(sums_of_pairs(s0, s1, s2, s3), v->above, v->column_sum, lane);
}

/* --- the tile --------------------------------------------------------------------------------- */

/* Codes of at most 16 in size: 16 products with activations of at most 127 fit int16. A widening
 * multiply-add takes an element of eight rows and that of a column eight times, so that nothing is
 * added up across a vector. (By element, in 16 bits, it takes two cycles on many cores.) */
enum {
    NEON_TILE_FROM = 12,  /* columns, from which on repacking pays */
    NEON_TILE_CODES = 16, /* of a half */
    TILED_q4_0 = true,
    TILED_q4_1 = true,
    TILED_q5_0 = true,
    TILED_q4_k = true,
    TILED_q8_0 = false,
    TILED_q5_1 = false,
    TILED_q5_k = false,
    TILED_q6_k = false,
};

/* [element][row] */
FY_INLINE void tile_put_quants(int8_t *q, const fy_quants32 rows[FY_Q_ROWS], int quad)
{
    FY_UNROLL
    for (int half = 0; half < 2; half++) {
        int8x16_t r[FY_Q_ROWS], four[4]; /* four elements of four rows */
        FY_UNROLL
        for (int i = 0; i < FY_Q_ROWS; i++)
            r[i] = half == 0 ? rows[i].lo : rows[i].hi;
        const int8x16_t low02 = vzip1q_s8(r[0], r[2]), low13 = vzip1q_s8(r[1], r[3]);
        const int8x16_t high02 = vzip2q_s8(r[0], r[2]), high13 = vzip2q_s8(r[1], r[3]);
        four[0] = vzip1q_s8(low02, low13);
        four[1] = vzip2q_s8(low02, low13);
        four[2] = vzip1q_s8(high02, high13);
        four[3] = vzip2q_s8(high02, high13);
        FY_UNROLL
        for (int i = 0; i < 4; i++) {
            const int32x4_t v = vreinterpretq_s32_s8(four[i]);
            int8_t *to = q + (half * NEON_TILE_CODES + 4 * i) * FY_TILE_ROWS + 4 * quad;
            const int32_t element[4] = {v[0], v[1], v[2], v[3]};
            FY_UNROLL
            for (int e = 0; e < 4; e++)
                memcpy(to + e * FY_TILE_ROWS, &element[e], sizeof element[e]);
        }
    }
}

/* [half][pair of elements][column]: eight times one element, eight times the other. */
FY_INLINE void tile_put_columns(int8_t *to, const int8_t *const q[FY_TILE_COLS])
{
    FY_UNROLL
    for (int c = 0; c < FY_TILE_COLS; c++) {
        FY_UNROLL
        for (int i = 0; i < 4; i++, to += 4 * 16 * FY_TILE_COLS) { /* eight elements */
            const int8x16_t x = vcombine_s8(vld1_s8(q[c] + 8 * i), vdup_n_s8(0));
            const int8x16_t two = vzip1q_s8(x, x);
            const int8x16_t four[2] = {vzip1q_s8(two, two), vzip2q_s8(two, two)};
            FY_UNROLL
            for (int k = 0; k < 2; k++) {
                int8_t *at = to + (2 * k * FY_TILE_COLS + c) * 16;
                vst1q_s8(at, vzip1q_s8(four[k], four[k]));
                vst1q_s8(at + FY_TILE_COLS * 16, vzip2q_s8(four[k], four[k]));
            }
        }
        to -= 4 * 4 * 16 * FY_TILE_COLS;
    }
}

FY_INLINE void tile_dots(int32x4_t s[FY_TILE_SUMS], const int8_t *w, const int8_t *x, int half)
{
    int16x8_t sum[FY_TILE_COLS];
    FY_UNROLL
    for (int c = 0; c < FY_TILE_COLS; c++)
        sum[c] = vdupq_n_s16(0);
    FY_UNROLL
    for (int pair = 0; pair < NEON_TILE_CODES / 2; pair++) {
        const int at = half * NEON_TILE_CODES / 2 + pair;
        const int8x16_t rows = vld1q_s8(w + at * 2 * FY_TILE_ROWS);
        FY_UNROLL
        for (int c = 0; c < FY_TILE_COLS; c++) {
            const int8x16_t column = vld1q_s8(x + (at * FY_TILE_COLS + c) * 16);
            sum[c] = vmlal_s8(sum[c], vget_low_s8(rows), vget_low_s8(column));
            sum[c] = vmlal_high_s8(sum[c], rows, column);
        }
        /* Or loads are moved up until there are not enough registers. */
        __asm__ volatile("" : : "w"(sum[0]), "w"(sum[1]), "w"(sum[2]), "w"(sum[3]) : "memory");
    }
    FY_UNROLL
    for (int c = 0; c < FY_TILE_COLS; c++) {
        s[2 * c] = vaddw_s16(s[2 * c], vget_low_s16(sum[c]));
        s[2 * c + 1] = vaddw_high_s16(s[2 * c + 1], sum[c]);
    }
}

/* --- kernels --------------------------------------------------------------------------------- */

#define DEFINE_MATMUL_VEC(type, above, quants)                                                     \
    static __attribute__((noinline)) void matvec_##type(float *y, const void *W, size_t row_bytes, \
                                                        int64_t row_begin, int64_t row_end,        \
                                                        const fy_act *a)                           \
    {                                                                                              \
        matmul_vec(y, W, row_bytes, row_begin, row_end, a, sizeof(fy_block_##type), above,         \
                   vec_sums4_##type);                                                              \
    }                                                                                              \
    void fy_matmul_##type##__neon(float *y, int64_t ldy, const void *W, size_t row_bytes,          \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,             \
                                  int64_t n_cols, void *scratch)                                   \
    {                                                                                              \
        if (n_cols < FY_Q_COLS)                                                                    \
            matvec_columns(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, matvec_##type);    \
        else if (TILED_##type && n_cols >= NEON_TILE_FROM)                                         \
            matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,             \
                         sizeof(fy_block_##type), 1, false, false, fy_quants32_##type,             \
                         fy_scales_d);                                                             \
        else                                                                                       \
            matmul_by_rows(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols,                    \
                           sizeof(fy_block_##type), 1, false, false, quants, fy_scales_d, above,   \
                           dots4_##type);                                                          \
    }

DEFINE_MATMUL_VEC(q8_0, 0, fy_quants32_q8_0)
DEFINE_MATMUL_VEC(q4_0, 8, stored_q4_0)

#define DEFINE_MATMUL(type, subs, has_min, has_parts, scales)                                     \
    void fy_matmul_##type##__neon(float *y, int64_t ldy, const void *W, size_t row_bytes,         \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,            \
                                  int64_t n_cols, void *scratch)                                  \
    {                                                                                             \
        if (TILED_##type && n_cols >= NEON_TILE_FROM)                                             \
            matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,            \
                         sizeof(fy_block_##type), subs, has_min, has_parts, fy_quants32_##type,   \
                         scales);                                                                 \
        else                                                                                      \
            matmul_by_rows(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols,                   \
                           sizeof(fy_block_##type), subs, has_min, has_parts, fy_quants32_##type, \
                           scales, 0, dots4);                                                     \
    }

FY_QUANT_TYPES(DEFINE_MATMUL)

FY_DEFINE_DOT_ROWS(q8_0, neon)
FY_DEFINE_DOT_ROWS(q4_0, neon)
