/* Block weights with the dot product instructions of Armv8.2 (SDOT): few columns from the file's
 * layout, many in tiles. q8_0 and q4_0, which ferry writes, have code of their own for few columns;
 * that is decoding.
 *
 * The tile is SDOT by element: four rows times four elements in a register, and the elements of a
 * column broadcast by the instruction; a vector of sums has four rows of one column. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

static inline int32x4_t dot16(int32x4_t s, int8x16_t w, int8x16_t x)
{
    return vdotq_s32(s, w, x);
}

#define FY_TILE_REPEATS 1

#include "kernels/arm/matmul_rows.h"
#include "kernels/arm/matmul_tile_quads.h"
#include "kernels/arm/matmul_vec.h"

/* --- the tile -------------------------------------------------------------------------------- */

/* [half][quad][j]: elements 4j .. 4j+3 of four rows, so that one load has four vectors. */
FY_INLINE void tile_put_quants(int8_t *q, const fy_quants32 rows[FY_Q_ROWS], int quad)
{
    int32x4x4_t lo, hi;
    FY_UNROLL
    for (int i = 0; i < FY_Q_ROWS; i++) {
        lo.val[i] = vreinterpretq_s32_s8(rows[i].lo);
        hi.val[i] = vreinterpretq_s32_s8(rows[i].hi);
    }
    vst4q_s32((int32_t *)(void *)(q + quad * 64), lo);
    vst4q_s32((int32_t *)(void *)(q + 128 + quad * 64), hi);
}

/* [half][column] */
FY_INLINE void tile_put_columns(int8_t *to, const int8_t *const q[FY_TILE_COLS])
{
    FY_UNROLL
    for (int c = 0; c < FY_TILE_COLS; c++) {
        vst1q_s8(to + c * 16, vld1q_s8(q[c]));
        vst1q_s8(to + 64 + c * 16, vld1q_s8(q[c] + 16));
    }
}

/* The lane is a constant once the loops are unrolled. */
FY_INLINE int32x4_t dot_lane(int32x4_t s, int8x16_t w, int8x16_t x, int lane)
{
    switch (lane) {
    case 0:
        return vdotq_laneq_s32(s, w, x, 0);
    case 1:
        return vdotq_laneq_s32(s, w, x, 1);
    case 2:
        return vdotq_laneq_s32(s, w, x, 2);
    default:
        return vdotq_laneq_s32(s, w, x, 3);
    }
}

FY_INLINE void tile_dots(int32x4_t s[FY_TILE_SUMS], const int8_t *w, const int8_t *x, int half)
{
    const int8x16x4_t columns = vld1q_s8_x4(x + 64 * half);
    FY_UNROLL
    for (int quad = 0; quad < 2; quad++) {
        const int8x16x4_t rows = vld1q_s8_x4(w + 128 * half + 64 * quad);
        FY_UNROLL
        for (int j = 0; j < 4; j++) {
            FY_UNROLL
            for (int c = 0; c < FY_TILE_COLS; c++)
                s[2 * c + quad] = dot_lane(s[2 * c + quad], rows.val[j], columns.val[c], j);
        }
        /* Or the next rows are loaded before these are free, and the chains go to memory. */
        __asm__ volatile("" : : "w"(s[quad]), "w"(s[6 + quad]) : "memory");
    }
}

/* --- q8_0 and q4_0 times one column ---------------------------------------------------------- */

/* The sums are never cleared: they run through the row in wrapping arithmetic, and a block's is the
 * difference of what stood before and after, exact as it fits 32 bits. That is one subtraction for
 * four rows instead of four moves; what the codes are too large by counts as having stood before.
 */
FY_INLINE int32x4_t vec_difference(vec_rows *v, int half, int lane, bool has_above)
{
    int32x4_t before = v->before[half];
    if (has_above)
        before = plus_product(before, v->above, v->column_sum, lane);
    v->before[half] = sums4(v->dots + 4 * half);
    return vreinterpretq_s32_u32(
        vsubq_u32(vreinterpretq_u32_s32(v->before[half]), vreinterpretq_u32_s32(before)));
}

#define VEC_DOTS(w0, w1, w2, w3, x)            \
    "sdot %[d0].4s, " w0 ".16b, " x ".16b\n\t" \
    "sdot %[d1].4s, " w1 ".16b, " x ".16b\n\t" \
    "sdot %[d2].4s, " w2 ".16b, " x ".16b\n\t" \
    "sdot %[d3].4s, " w3 ".16b, " x ".16b\n\t"

#define DEFINE_VEC_SUMS4(type, TYPE, has_above, products)                                       \
    FY_INLINE int32x4_t vec_sums4_##type(vec_rows *v, int half, int8x16_t x0, int8x16_t x1,     \
                                         int lane, uint16x8_t *scale)                           \
    {                                                                                           \
        const uint8_t **const row = v->row + 4 * half;                                          \
        int32x4_t *const to = v->dots + 4 * half;                                               \
        int32x4_t d0 = to[0], d1 = to[1], d2 = to[2], d3 = to[3];                               \
        __asm__ volatile(VEC_##TYPE##_LOAD products                                             \
                         : [d0] "+w"(d0), [d1] "+w"(d1), [d2] "+w"(d2), [d3] "+w"(d3), VEC_ROWS \
                         : VEC_##TYPE##_INPUTS                                                  \
                         : VEC_##TYPE##_CLOBBERS);                                              \
        to[0] = d0, to[1] = d1, to[2] = d2, to[3] = d3;                                         \
        return vec_difference(v, half, lane, has_above);                                        \
    }

DEFINE_VEC_SUMS4(q8_0, Q8_0, false,
                 VEC_DOTS("v21", "v24", "v27", "v30", "%[x0]")
                     VEC_DOTS("v22", "v25", "v28", "v31", "%[x1]"))
DEFINE_VEC_SUMS4(q4_0, Q4_0, true,
                 VEC_DOTS("v24", "v26", "v28", "v30", "%[x0]")
                     VEC_DOTS("v25", "v27", "v29", "v31", "%[x1]"))

/* --- kernels --------------------------------------------------------------------------------- */

/* Apart from the tiles, compilers keep all of a row's state in registers. */
#define DEFINE_MATMUL_VEC(type, above)                                                             \
    static __attribute__((noinline)) void matvec_##type(float *y, const void *W, size_t row_bytes, \
                                                        int64_t row_begin, int64_t row_end,        \
                                                        const fy_act *a)                           \
    {                                                                                              \
        matmul_vec(y, W, row_bytes, row_begin, row_end, a, sizeof(fy_block_##type), above,         \
                   vec_sums4_##type);                                                              \
    }                                                                                              \
    void fy_matmul_##type##__dotprod(float *y, int64_t ldy, const void *W, size_t row_bytes,       \
                                     int64_t row_begin, int64_t row_end, const fy_act *a,          \
                                     int64_t n_cols, void *scratch)                                \
    {                                                                                              \
        if (n_cols < FY_TILE_COLS)                                                                 \
            matvec_columns(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, matvec_##type);    \
        else                                                                                       \
            matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,             \
                         sizeof(fy_block_##type), 1, false, false, fy_quants32_##type,             \
                         fy_scales_d);                                                             \
    }

DEFINE_MATMUL_VEC(q8_0, 0)
DEFINE_MATMUL_VEC(q4_0, 8)

#define DEFINE_MATMUL(type, subs, has_min, has_parts, scales)                                     \
    void fy_matmul_##type##__dotprod(float *y, int64_t ldy, const void *W, size_t row_bytes,      \
                                     int64_t row_begin, int64_t row_end, const fy_act *a,         \
                                     int64_t n_cols, void *scratch)                               \
    {                                                                                             \
        if (n_cols < FY_TILE_COLS)                                                                \
            matmul_by_rows(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols,                   \
                           sizeof(fy_block_##type), subs, has_min, has_parts, fy_quants32_##type, \
                           scales, 0, dots4);                                                     \
        else                                                                                      \
            matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,            \
                         sizeof(fy_block_##type), subs, has_min, has_parts, fy_quants32_##type,   \
                         scales);                                                                 \
    }

FY_QUANT_TYPES(DEFINE_MATMUL)

FY_DEFINE_DOT_ROWS(q8_0, dotprod)
FY_DEFINE_DOT_ROWS(q4_0, dotprod)
