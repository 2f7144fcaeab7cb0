/* q8_0 and q4_0, which ferry writes, times one column: decoding, and a step of two or three tokens,
 * where their columns one by one take fewer instructions than together.
 *
 * Eight rows at a time, whose lanes are two vectors of chains. What every row and block costs is
 * one load, the products, and three quarters of a pairwise add; the rest is shared by four rows.
 *
 * The load takes the 16 bytes before the codes too, whose last two are the scale, and moves the
 * row's pointer on; three zips gather the scales of four rows. Nothing may be read before the first
 * row of the call, so its first blocks are copied to where there is something before them; the
 * other rows have a row before them. Compilers would spend an addition on each pointer, and cannot
 * be held to registers in a row, which the load wants: hence the assembler. */
#ifndef FY_KERNELS_ARM_MATMUL_VEC_H
#define FY_KERNELS_ARM_MATMUL_VEC_H

#include "kernels/arm/quants_neon.h"

enum {
    FY_VEC_ROWS = 8,
    FY_VEC_BLOCKS = 8, /* of a turn of the loop; the column's scales are loaded for four */
    FY_VEC_BEFORE = 14,
    FY_VEC_CALL_ROWS = 32, /* that stay in the first cache for all of a few columns */
};

typedef struct {
    const uint8_t *row[FY_VEC_ROWS]; /* FY_VEC_BEFORE bytes before the block */
    float32x4_t acc[2];
    float32x4_t d; /* the column's, of up to four blocks */
    int32x4_t column_sum;
    int32x4_t above; /* what the stored codes are too large by */
    /* Where products are added up over a whole row: lanes that add up to a row's sum so far, and
     * the sums of four rows before the block. */
    int32x4_t dots[FY_VEC_ROWS], before[2];
} vec_rows;

/* The sums of products of a block of four rows, the first ones or the last, and in the upper half
 * of `scale` their f16 scales; the rows move on. The lane of the column's values is a constant. */
typedef int32x4_t vec_sums4_fn(vec_rows *v, int half, int8x16_t x0, int8x16_t x1, int lane,
                               uint16x8_t *scale);

/* --- for vec_sums4_fn ------------------------------------------------------------------------- */

/* One row into the registers: `quants` hold the quants, the last two bytes of `before` the scale.
 */
#define VEC_LOAD(p, before, quants) "ld1 {" before ".16b-" quants ".16b}, [%[" p "]], %[step]\n\t"

/* The upper half of %[s]: the last two bytes of four registers, which are lost. */
#define VEC_SCALES(r0, r1, r2, r3)             \
    "zip2 " r0 ".8h, " r0 ".8h, " r1 ".8h\n\t" \
    "zip2 " r2 ".8h, " r2 ".8h, " r3 ".8h\n\t" \
    "zip2 %[s].4s, " r0 ".4s, " r2 ".4s\n\t"
/* What is read and written besides the products. */
#define VEC_ROWS \
    [s] "=&w"(*scale), [p0] "+r"(row[0]), [p1] "+r"(row[1]), [p2] "+r"(row[2]), [p3] "+r"(row[3])

/* Four rows into v20 .. v31, of each a register of its own and two with the codes. */
#define VEC_Q8_0_LOAD            \
    VEC_LOAD("p0", "v20", "v22") \
    VEC_LOAD("p1", "v23", "v25") \
    VEC_LOAD("p2", "v26", "v28") VEC_LOAD("p3", "v29", "v31") VEC_SCALES("v20", "v23", "v26", "v29")
#define VEC_Q8_0_INPUTS [x0] "w"(x0), [x1] "w"(x1), [step] "r"(sizeof(fy_block_q8_0))
#define VEC_Q8_0_CLOBBERS \
    "memory", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

/* Four rows into v24 .. v31, of each the codes 0 .. 15 and after them 16 .. 31. */
#define VEC_Q4_0_LOAD                      \
    VEC_LOAD("p0", "v24", "v25")           \
    VEC_LOAD("p1", "v26", "v27")           \
    VEC_LOAD("p2", "v28", "v29")           \
    VEC_LOAD("p3", "v30", "v31")           \
    VEC_SCALES("v24", "v26", "v28", "v30") \
    "and v24.16b, v25.16b, %[low].16b\n\t" \
    "and v26.16b, v27.16b, %[low].16b\n\t" \
    "and v28.16b, v29.16b, %[low].16b\n\t" \
    "and v30.16b, v31.16b, %[low].16b\n\t" \
    "ushr v25.16b, v25.16b, #4\n\t"        \
    "ushr v27.16b, v27.16b, #4\n\t"        \
    "ushr v29.16b, v29.16b, #4\n\t"        \
    "ushr v31.16b, v31.16b, #4\n\t"

#define VEC_Q4_0_INPUTS \
    [x0] "w"(x0), [x1] "w"(x1), [low] "w"(vdupq_n_u8(15)), [step] "r"(sizeof(fy_block_q4_0))
#define VEC_Q4_0_CLOBBERS "memory", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

/* Of the intrinsics compilers share the product or a copy of the lane between the halves, which is
 * more and not less. The lane is a constant once the loops are unrolled. */
#define BY_LANE(name, to, lane) __asm__(name ", %2.s[" #lane "]" : to(v) : "w"(a), "w"(lanes))
#define BY_ANY_LANE(name, to) \
    switch (lane) {           \
    case 0:                   \
        BY_LANE(name, to, 0); \
        break;                \
    case 1:                   \
        BY_LANE(name, to, 1); \
        break;                \
    case 2:                   \
        BY_LANE(name, to, 2); \
        break;                \
    default:                  \
        BY_LANE(name, to, 3); \
    }

/* v + a * a lane. */
FY_INLINE int32x4_t plus_product(int32x4_t v, int32x4_t a, int32x4_t lanes, int lane)
{
    BY_ANY_LANE("mla %0.4s, %1.4s", "+w")
    return v;
}

/* v - a * a lane. */
FY_INLINE int32x4_t less_product(int32x4_t v, int32x4_t a, int32x4_t lanes, int lane)
{
    BY_ANY_LANE("mls %0.4s, %1.4s", "+w")
    return v;
}

/* --- rows --------------------------------------------------------------------------------------
 */

/* a * a lane. */
FY_INLINE float32x4_t times_lane(float32x4_t a, float32x4_t lanes, int lane)
{
    float32x4_t v;
    BY_ANY_LANE("fmul %0.4s, %1.4s", "=w")
    return v;
}

/* Loads that move the pointer on. The vectors of two blocks go to registers that compilers take
 * last for anything else, or they copy what is in their way. */
FY_INLINE void next_x(int8x16_t to[4], const int8_t **x)
{
    register int8x16_t x0 __asm__("v12"), x1 __asm__("v13"), x2 __asm__("v14"), x3 __asm__("v15");
    __asm__ volatile("ld1 {v12.16b-v15.16b}, [%4], #64"
                     : "=w"(x0), "=w"(x1), "=w"(x2), "=w"(x3), "+r"(*x)
                     :
                     : "memory");
    to[0] = x0, to[1] = x1, to[2] = x2, to[3] = x3;
}

FY_INLINE float32x4_t next_d(const float **d)
{
    float32x4_t v;
    __asm__ volatile("ldr %q0, [%1], #16" : "=w"(v), "+r"(*d) : : "memory");
    return v;
}

FY_INLINE int32x4_t next_sum(const int32_t **sum)
{
    int32x4_t v;
    __asm__ volatile("ldr %q0, [%1], #16" : "=w"(v), "+r"(*sum) : : "memory");
    return v;
}

/* One block of eight rows: lane of the column's d and sum. */
FY_INLINE void vec_block(vec_rows *v, int8x16_t x0, int8x16_t x1, int lane,
                         vec_sums4_fn *block_sums)
{
    FY_UNROLL
    for (int i = 0; i < 2; i++) {
        uint16x8_t scale;
        const int32x4_t block = block_sums(v, i, x0, x1, lane, &scale);
        const float32x4_t w = vcvt_high_f32_f16(vreinterpretq_f16_u16(scale));
        v->acc[i] = vfmaq_f32(v->acc[i], times_lane(w, v->d, lane), vcvtq_f32_s32(block));
    }
    /* Or the chains of several blocks are put off, and there are not enough registers for them. */
    __asm__ volatile("" : : "w"(v->acc[0]), "w"(v->acc[1]));
}

FY_INLINE void vec_one(vec_rows *v, const int8_t *x, float d, int32_t sum, vec_sums4_fn *block_sums)
{
    v->d = vdupq_n_f32(d);
    v->column_sum = vdupq_n_s32(sum);
    vec_block(v, vld1q_s8(x), vld1q_s8(x + 16), 0, block_sums);
}

/* FY_VEC_BLOCKS blocks. */
FY_INLINE void vec_blocks(vec_rows *v, const int8_t **x, const float **d, const int32_t **sum,
                          int above, vec_sums4_fn *block_sums)
{
    FY_UNROLL
    for (int i = 0; i < FY_VEC_BLOCKS; i += 2) {
        int8x16_t two[4];
        if (i % 4 == 0) {
            v->d = next_d(d);
            if (above != 0)
                v->column_sum = next_sum(sum);
        }
        next_x(two, x);
        vec_block(v, two[0], two[1], i % 4, block_sums);
        vec_block(v, two[2], two[3], i % 4 + 1, block_sums);
    }
}

/* The first row, and what repeats it, goes on at `to`. */
FY_INLINE void vec_move_first(vec_rows *v, int n_rows, const uint8_t *to)
{
    v->row[0] = to;
    FY_UNROLL
    for (int r = 1; r < FY_VEC_ROWS; r++)
        v->row[r] = n_rows == 1 ? to : v->row[r];
}

/* y[r] of up to eight rows. Rows that are missing repeat the last one. at_start: nothing may be
 * read before W. */
FY_INLINE void vec_eight(float *y, const uint8_t *W, size_t row_bytes, int n_rows, const int8_t *x,
                         const float *d, const int32_t *sum, int64_t n_blocks, bool at_start,
                         size_t block_bytes, int above, vec_sums4_fn *block_sums)
{
    vec_rows v;
    uint8_t copy[FY_VEC_BEFORE + FY_VEC_BLOCKS * sizeof(fy_block_q8_0)];
    const uint8_t *row = W - FY_VEC_BEFORE;
    FY_UNROLL
    for (int r = 0; r < FY_VEC_ROWS; r++) {
        v.row[r] = row;
        row += n_rows >= FY_VEC_ROWS || r + 1 < n_rows ? row_bytes : 0;
        /* Or compilers keep what the next rows add in memory. */
        __asm__("" : "+r"(row));
    }
    if (at_start) {
        if (n_blocks >= FY_VEC_BLOCKS) /* a constant number of bytes */
            memcpy(copy + FY_VEC_BEFORE, W, FY_VEC_BLOCKS * block_bytes);
        else
            memcpy(copy + FY_VEC_BEFORE, W, (size_t)n_blocks * block_bytes);
        vec_move_first(&v, n_rows, copy);
    }
    v.acc[0] = v.acc[1] = vdupq_n_f32(0);
    v.before[0] = v.before[1] = vdupq_n_s32(0);
    FY_UNROLL
    for (int r = 0; r < FY_VEC_ROWS; r++)
        v.dots[r] = vdupq_n_s32(0);
    v.above = vdupq_n_s32(above);
    FY_KEEP_IN_REGISTER(v.above); /* or 8 times a lane takes a copy of it and a shift */
    for (int64_t turns = n_blocks / FY_VEC_BLOCKS; turns > 0;) {
        const int64_t n = at_start ? 1 : turns;
        for (int64_t i = n; i > 0; i--)
            vec_blocks(&v, &x, &d, &sum, above, block_sums);
        if (at_start)
            vec_move_first(&v, n_rows, W - FY_VEC_BEFORE + FY_VEC_BLOCKS * block_bytes);
        at_start = false;
        turns -= n;
    }
    for (int64_t n = n_blocks % FY_VEC_BLOCKS; n > 0; n--, x += FY_QK)
        vec_one(&v, x, *d++, above != 0 ? *sum++ : 0, block_sums);
    float part[FY_VEC_ROWS], *const out = n_rows == FY_VEC_ROWS ? y : part;
    vst1q_f32(out, v.acc[0]);
    vst1q_f32(out + 4, v.acc[1]);
    if (out == part)
        memcpy(y, part, (size_t)n_rows * sizeof *y);
}

FY_INLINE void matmul_vec(float *y, const uint8_t *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, size_t block_bytes, int above,
                          vec_sums4_fn *block_sums)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t r = row_begin; r < row_end; r += FY_VEC_ROWS) {
        const int n = row_end - r < FY_VEC_ROWS ? (int)(row_end - r) : FY_VEC_ROWS;
        vec_eight(y + r, W + (size_t)r * row_bytes, row_bytes, n, a->q, a->d, a->sum, n_blocks,
                  r == row_begin, block_bytes, above, block_sums);
    }
}

/* matmul_vec of a type. */
typedef void matvec_fn(float *y, const void *W, size_t row_bytes, int64_t row_begin,
                       int64_t row_end, const fy_act *a);

/* A few columns, one by one. */
FY_INLINE void matvec_columns(float *y, int64_t ldy, const void *W, size_t row_bytes,
                              int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                              matvec_fn *matvec)
{
    if (n_cols == 1) {
        matvec(y, W, row_bytes, row_begin, row_end, a);
        return;
    }
    for (int64_t r = row_begin; r < row_end; r += FY_VEC_CALL_ROWS) {
        const int64_t end = r + FY_VEC_CALL_ROWS < row_end ? r + FY_VEC_CALL_ROWS : row_end;
        for (int64_t c = 0; c < n_cols; c++) {
            const int64_t at = c * (a->k / FY_QK);
            const fy_act column = {
                .x = NULL, .q = a->q + c * a->k, .d = a->d + at, .sum = a->sum + at, .k = a->k};
            matvec(y + c * ldy, W, row_bytes, r, end, &column);
        }
    }
}

#endif
