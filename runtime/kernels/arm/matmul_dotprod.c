/* Block weights with the dot product instructions of Armv8.2 (SDOT): few columns from the file's
 * layout, many in tiles. q8_0 and q4_0, which ferry writes, have code of their own for few columns;
 * that is decoding.
 *
 * The tile is SDOT by element: four rows times four elements in a register, and the elements of a
 * column broadcast by the instruction; a vector of sums has four rows of one column. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

static inline int32x4_t dot16(int8x16_t w, int8x16_t x)
{
    return vdotq_s32(vdupq_n_s32(0), w, x);
}

#define FY_TILE_LANES 8

#include "kernels/arm/matmul_rows.h"
#include "kernels/arm/matmul_tile.h"

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

FY_INLINE void tile_put_scales(float *at, float32x4_t rows, int quad)
{
    vst1q_f32(at + 4 * quad, rows);
}

FY_INLINE void tile_put_parts(int32_t *at, int32x4_t rows, int quad)
{
    vst1q_s32(at + 4 * quad, rows);
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

FY_INLINE void tile_put_values(float *to, float32x4_t columns)
{
    vst1q_f32(to, columns);
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

FY_INLINE int tile_rows_of(int i)
{
    return i % 2;
}

FY_INLINE float32x4_t tile_columns_of(const float *x, int i)
{
    return vdupq_n_f32(vld1q_f32(x)[i / 2]);
}

FY_INLINE void tile_from_y(float32x4_t acc[FY_TILE_SUMS], float32x4_t y[FY_TILE_COLS][2])
{
    FY_UNROLL
    for (int i = 0; i < FY_TILE_SUMS; i++)
        acc[i] = y[i / 2][i % 2];
}

FY_INLINE void tile_to_y(float32x4_t y[FY_TILE_COLS][2], const float32x4_t acc[FY_TILE_SUMS])
{
    FY_UNROLL
    for (int i = 0; i < FY_TILE_SUMS; i++)
        y[i / 2][i % 2] = acc[i];
}

/* --- q8_0 and q4_0 times one column ---------------------------------------------------------- */

/* Eight rows at a time, whose lanes are two vectors of chains. Per row and block: a load of the
 * scale that moves the row's pointer on, a load of the codes, the dot products, and three quarters
 * of a pairwise add; the rest is shared by four rows or more. The sums are never cleared: they run
 * through the row in wrapping arithmetic, and a block's is the difference of what stood before and
 * after, exact as it fits 32 bits. That is one subtraction for four rows instead of four moves. */
enum { FY_VEC_ROWS = 8, FY_VEC_BLOCKS = 4 };

/* dots += the products of a block of four rows, scale = their f16 scales, and the rows move on. */
typedef void vec_dots4_fn(int32x4_t dots[4], uint16x4_t *scale, const uint8_t *row[4], int8x16_t x0,
                          int8x16_t x1);

/* The scales of four rows: %[s], the rows in %[p0] .. %[p3], %[step] bytes in a block. Loads that
 * move the pointer on leave the codes at a fixed distance before it; compilers spend an addition
 * on each, a tenth of all instructions here, and move the sums about besides. */
#define LOAD_SCALES                         \
    "ldr %h[s], [%[p0]], %[bytes]\n\t"      \
    "ld1 {%[s].h}[1], [%[p1]], %[step]\n\t" \
    "ld1 {%[s].h}[2], [%[p2]], %[step]\n\t" \
    "ld1 {%[s].h}[3], [%[p3]], %[step]\n\t"

typedef struct {
    const uint8_t *row[FY_VEC_ROWS];
    int32x4_t dots[FY_VEC_ROWS]; /* running: the lanes of a row add up to its sum so far */
    uint32x4_t sum[2];           /* of four rows, before the block */
    float32x4_t acc[2];
    int32x4_t above; /* what the stored codes are too large by */
} vec_rows;

FY_INLINE int32x4_t sums_of(const int32x4_t dots[4])
{
    return vpaddq_s32(vpaddq_s32(dots[0], dots[1]), vpaddq_s32(dots[2], dots[3]));
}

/* v - above * a lane of sum. The lane is a constant once the loops are unrolled. */
FY_INLINE int32x4_t less_above(int32x4_t v, int32x4_t above, int32x4_t sum, int lane)
{
    switch (lane) {
    case 0:
        return vmlsq_laneq_s32(v, above, sum, 0);
    case 1:
        return vmlsq_laneq_s32(v, above, sum, 1);
    case 2:
        return vmlsq_laneq_s32(v, above, sum, 2);
    default:
        return vmlsq_laneq_s32(v, above, sum, 3);
    }
}

/* One block of eight rows: d and a lane of sum are the column's. */
FY_INLINE void vec_block(vec_rows *v, const int8_t *x, float d, int32x4_t sum, int lane, int above,
                         vec_dots4_fn *block_dots)
{
    const int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
    uint16x4_t scale[2];
    block_dots(v->dots, &scale[0], v->row, x0, x1);
    block_dots(v->dots + 4, &scale[1], v->row + 4, x0, x1);
    FY_UNROLL
    for (int i = 0; i < 2; i++) {
        const uint32x4_t after = vreinterpretq_u32_s32(sums_of(v->dots + 4 * i));
        int32x4_t block = vreinterpretq_s32_u32(vsubq_u32(after, v->sum[i]));
        v->sum[i] = after;
        if (above != 0)
            block = less_above(block, v->above, sum, lane);
        const float32x4_t w = vcvt_f32_f16(vreinterpret_f16_u16(scale[i]));
        v->acc[i] = vfmaq_f32(v->acc[i], vmulq_n_f32(w, d), vcvtq_f32_s32(block));
    }
    /* Or the chains of several blocks are put off, and there are not enough registers for them. */
    __asm__ volatile("" : : "w"(v->acc[0]), "w"(v->acc[1]));
}

/* y[r] of up to eight rows. Rows that are missing repeat the last one. */
FY_INLINE void vec_eight(float *y, const uint8_t *W, size_t row_bytes, int n_rows, const int8_t *x,
                         const float *d, const int32_t *sum, int64_t n_blocks, int above,
                         vec_dots4_fn *block_dots)
{
    vec_rows v;
    FY_UNROLL
    for (int r = 0; r < FY_VEC_ROWS; r++) {
        v.row[r] = W + (size_t)(r < n_rows ? r : n_rows - 1) * row_bytes;
        v.dots[r] = vdupq_n_s32(0);
    }
    v.sum[0] = v.sum[1] = vdupq_n_u32(0);
    v.acc[0] = v.acc[1] = vdupq_n_f32(0);
    v.above = vdupq_n_s32(above);
    FY_KEEP_IN_REGISTER(v.above); /* or 8 times a lane takes a copy of it and a shift */
    int64_t b = 0;
    for (; b + FY_VEC_BLOCKS <= n_blocks; b += FY_VEC_BLOCKS) {
        float32x4_t d4 = vld1q_f32(d + b);
        int32x4_t sum4 = vld1q_s32(sum + b);
        FY_KEEP_IN_REGISTER(d4);
        FY_KEEP_IN_REGISTER(sum4);
        FY_UNROLL
        for (int i = 0; i < FY_VEC_BLOCKS; i++)
            vec_block(&v, x + (b + i) * FY_QK, d4[i], sum4, i, above, block_dots);
    }
    for (; b < n_blocks; b++)
        vec_block(&v, x + b * FY_QK, d[b], vdupq_n_s32(sum[b]), 0, above, block_dots);
    float out[FY_VEC_ROWS];
    vst1q_f32(out, v.acc[0]);
    vst1q_f32(out + 4, v.acc[1]);
    memcpy(y, out, (size_t)n_rows * sizeof *y);
}

/* A few columns: eight rows stay in the first cache for all of them. */
FY_INLINE void matmul_vec(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, int above,
                          vec_dots4_fn *block_dots)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t r = row_begin; r < row_end; r += FY_VEC_ROWS) {
        const int n = row_end - r < FY_VEC_ROWS ? (int)(row_end - r) : FY_VEC_ROWS;
        for (int64_t c = 0; c < n_cols; c++)
            vec_eight(y + c * ldy + r, (const uint8_t *)W + (size_t)r * row_bytes, row_bytes, n,
                      a->q + c * a->k, a->d + c * n_blocks, a->sum + c * n_blocks, n_blocks, above,
                      block_dots);
    }
}

FY_INLINE void vec_dots4_q8_0(int32x4_t dots[4], uint16x4_t *scale, const uint8_t *row[4],
                              int8x16_t x0, int8x16_t x1)
{
    int32x4_t d0 = dots[0], d1 = dots[1], d2 = dots[2], d3 = dots[3];
    const uint8_t *p0 = row[0], *p1 = row[1], *p2 = row[2], *p3 = row[3];
    uint16x4_t d;
    __asm__ volatile(LOAD_SCALES "ldp q24, q25, [%[p0], #-32]\n\t"
                                 "ldp q26, q27, [%[p1], #-32]\n\t"
                                 "ldp q28, q29, [%[p2], #-32]\n\t"
                                 "ldp q30, q31, [%[p3], #-32]\n\t"
                                 "sdot %[d0].4s, v24.16b, %[x0].16b\n\t"
                                 "sdot %[d1].4s, v26.16b, %[x0].16b\n\t"
                                 "sdot %[d2].4s, v28.16b, %[x0].16b\n\t"
                                 "sdot %[d3].4s, v30.16b, %[x0].16b\n\t"
                                 "sdot %[d0].4s, v25.16b, %[x1].16b\n\t"
                                 "sdot %[d1].4s, v27.16b, %[x1].16b\n\t"
                                 "sdot %[d2].4s, v29.16b, %[x1].16b\n\t"
                                 "sdot %[d3].4s, v31.16b, %[x1].16b\n\t"
                     : [d0] "+w"(d0), [d1] "+w"(d1), [d2] "+w"(d2), [d3] "+w"(d3), [s] "=&w"(d),
                       [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [p3] "+r"(p3)
                     : [x0] "w"(x0), [x1] "w"(x1), [step] "r"(sizeof(fy_block_q8_0)),
                       [bytes] "i"(sizeof(fy_block_q8_0))
                     : "memory", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
    dots[0] = d0, dots[1] = d1, dots[2] = d2, dots[3] = d3;
    row[0] = p0, row[1] = p1, row[2] = p2, row[3] = p3;
    *scale = d;
}

FY_INLINE void vec_dots4_q4_0(int32x4_t dots[4], uint16x4_t *scale, const uint8_t *row[4],
                              int8x16_t x0, int8x16_t x1)
{
    int32x4_t d0 = dots[0], d1 = dots[1], d2 = dots[2], d3 = dots[3];
    const uint8_t *p0 = row[0], *p1 = row[1], *p2 = row[2], *p3 = row[3];
    uint16x4_t d;
    __asm__ volatile(LOAD_SCALES "ldur q28, [%[p0], #-16]\n\t"
                                 "ldur q29, [%[p1], #-16]\n\t"
                                 "ldur q30, [%[p2], #-16]\n\t"
                                 "ldur q31, [%[p3], #-16]\n\t"
                                 "and v24.16b, v28.16b, %[low].16b\n\t"
                                 "and v25.16b, v29.16b, %[low].16b\n\t"
                                 "and v26.16b, v30.16b, %[low].16b\n\t"
                                 "and v27.16b, v31.16b, %[low].16b\n\t"
                                 "ushr v28.16b, v28.16b, #4\n\t"
                                 "ushr v29.16b, v29.16b, #4\n\t"
                                 "ushr v30.16b, v30.16b, #4\n\t"
                                 "ushr v31.16b, v31.16b, #4\n\t"
                                 "sdot %[d0].4s, v24.16b, %[x0].16b\n\t"
                                 "sdot %[d1].4s, v25.16b, %[x0].16b\n\t"
                                 "sdot %[d2].4s, v26.16b, %[x0].16b\n\t"
                                 "sdot %[d3].4s, v27.16b, %[x0].16b\n\t"
                                 "sdot %[d0].4s, v28.16b, %[x1].16b\n\t"
                                 "sdot %[d1].4s, v29.16b, %[x1].16b\n\t"
                                 "sdot %[d2].4s, v30.16b, %[x1].16b\n\t"
                                 "sdot %[d3].4s, v31.16b, %[x1].16b"
                     : [d0] "+w"(d0), [d1] "+w"(d1), [d2] "+w"(d2), [d3] "+w"(d3), [s] "=&w"(d),
                       [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [p3] "+r"(p3)
                     : [x0] "w"(x0), [x1] "w"(x1), [step] "r"(sizeof(fy_block_q4_0)),
                       [bytes] "i"(sizeof(fy_block_q4_0)), [low] "w"(vdupq_n_u8(15))
                     : "memory", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
    dots[0] = d0, dots[1] = d1, dots[2] = d2, dots[3] = d3;
    row[0] = p0, row[1] = p1, row[2] = p2, row[3] = p3;
    *scale = d;
}

/* --- kernels --------------------------------------------------------------------------------- */

#define DEFINE_MATMUL_VEC(type, above)                                                       \
    void fy_matmul_##type##__dotprod(float *y, int64_t ldy, const void *W, size_t row_bytes, \
                                     int64_t row_begin, int64_t row_end, const fy_act *a,    \
                                     int64_t n_cols, void *scratch)                          \
    {                                                                                        \
        if (n_cols < FY_TILE_COLS)                                                           \
            matmul_vec(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, above,           \
                       vec_dots4_##type);                                                    \
        else                                                                                 \
            matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,       \
                         sizeof(fy_block_##type), 1, false, false, fy_quants32_##type,       \
                         fy_scales_d);                                                       \
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
