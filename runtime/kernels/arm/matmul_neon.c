/* Block weights on plain Armv8.0 NEON: widening multiplies. Four or more columns by rows
 * (matmul_rows.h); one to three of q8_0 and q4_0, which ferry writes, by code of their own, which
 * is decoding. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

/* Two products of at most 32 * 127 fit int16; the pairwise adds widen before there are more. */
static inline int32x4_t dot16(int8x16_t w, int8x16_t x)
{
    return vpaddlq_s16(vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x));
}

#include "kernels/arm/matmul_rows.h"

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

/* Eight rows at a time, whose lanes are two vectors of chains. What every row and block costs is
 * one load, the products, and three quarters of a pairwise add; the rest is shared by four rows.
 *
 * The load takes the 16 bytes before the codes too, whose last two are the scale, and moves the
 * row's pointer on; a table lookup gathers the scales of two rows. Nothing may be read before the
 * first row of the call, so the first block of it and its neighbours is loaded in
 * parts; after it there is a row before the row. Compilers would spend an addition on each pointer,
 * and cannot be held to registers in a row, which the lookup wants: hence the assembler. */
enum { FY_VEC_ROWS = 8, FY_VEC_BLOCKS = 4, FY_VEC_BEFORE = 14 };

typedef struct {
    const uint8_t *row[FY_VEC_ROWS]; /* 14 bytes before the block, of the first one the block */
    float32x4_t acc[2];
    float32x4_t d; /* the column's, of up to four blocks */
    int32x4_t column_sum;
    int32x4_t above;        /* what the stored codes are too large by */
    uint8x8_t low01, low23; /* where the scales of two rows are in four registers */
} vec_rows;

/* The sums of products of a block of four rows, the first ones or the last; scale = their f16
 * scales, and the rows move on. `first` is a constant: the first block of the rows. */
typedef int32x4_t vec_sums4_fn(vec_rows *v, int half, int8x16_t x0, int8x16_t x1, bool first,
                               uint16x4_t *scale);

/* One row into the registers: `quants` hold the quants, the last two bytes of `before` the scale.
 */
#define VEC_LOAD(p, before, quants) "ld1 {" before ".16b-" quants ".16b}, [%[" p "]], %[step]\n\t"
#define VEC_LOAD_FIRST(load, p, before, quants)                                    \
    "ld1 {" before ".h}[7], [%[" p "]], #2\n\t" load " " quants ", [%[" p "]]\n\t" \
    "add %[" p "], %[" p "], %[first_step]\n\t"

/* Of the intrinsics compilers share the product or a copy of the lane between the halves, which is
 * more and not less. The lane is a constant once the loops are unrolled. */
#define BY_LANE(name, lane) __asm__(name ", %2.s[" #lane "]" : "+w"(v) : "w"(a), "w"(lanes))
#define BY_ANY_LANE(name) \
    switch (lane) {       \
    case 0:               \
        BY_LANE(name, 0); \
        break;            \
    case 1:               \
        BY_LANE(name, 1); \
        break;            \
    case 2:               \
        BY_LANE(name, 2); \
        break;            \
    default:              \
        BY_LANE(name, 3); \
    }

/* v - a * a lane. */
FY_INLINE int32x4_t less_product(int32x4_t v, int32x4_t a, int32x4_t lanes, int lane)
{
    BY_ANY_LANE("mls %0.4s, %1.4s")
    return v;
}

/* a * a lane. */
FY_INLINE float32x4_t times_lane(float32x4_t a, float32x4_t lanes, int lane)
{
    float32x4_t v = a;
    BY_ANY_LANE("fmul %0.4s, %0.4s")
    return v;
}

/* One block of eight rows: lane of the column's d and sum. */
FY_INLINE void vec_block(vec_rows *v, const int8_t *x, int lane, bool first, int above,
                         vec_sums4_fn *block_sums)
{
    const int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
    FY_UNROLL
    for (int i = 0; i < 2; i++) {
        uint16x4_t scale;
        int32x4_t block = block_sums(v, i, x0, x1, first, &scale);
        if (above != 0)
            block = less_product(block, v->above, v->column_sum, lane);
        const float32x4_t w = vcvt_f32_f16(vreinterpret_f16_u16(scale));
        v->acc[i] = vfmaq_f32(v->acc[i], times_lane(w, v->d, lane), vcvtq_f32_s32(block));
    }
    /* Or the chains of several blocks are put off, and there are not enough registers for them. */
    __asm__ volatile("" : : "w"(v->acc[0]), "w"(v->acc[1]));
}

FY_INLINE void vec_one(vec_rows *v, const int8_t *x, float d, int32_t sum, bool first, int above,
                       vec_sums4_fn *block_sums)
{
    v->d = vdupq_n_f32(d);
    v->column_sum = vdupq_n_s32(sum);
    vec_block(v, x, 0, first, above, block_sums);
}

/* y[r] of up to eight rows. Rows that are missing repeat the last one. at_start: nothing may be
 * read before W. */
FY_INLINE void vec_eight(float *y, const uint8_t *W, size_t row_bytes, int n_rows, const int8_t *x,
                         const float *d, const int32_t *sum, int64_t n_blocks, bool at_start,
                         int above, vec_sums4_fn *block_sums, uint64_t low01, uint64_t low23)
{
    vec_rows v;
    W -= at_start ? 0 : FY_VEC_BEFORE;
    FY_UNROLL
    for (int r = 0; r < FY_VEC_ROWS; r++) {
        v.row[r] = W;
        W += r + 1 < n_rows ? row_bytes : 0;
        /* Or compilers keep what the next rows add in memory. */
        __asm__("" : "+r"(W));
    }
    v.acc[0] = v.acc[1] = vdupq_n_f32(0);
    v.above = vdupq_n_s32(above);
    v.low01 = vcreate_u8(low01);
    v.low23 = vcreate_u8(low23);
    FY_KEEP_IN_REGISTER(v.above); /* or 8 times a lane takes a copy of it and a shift */
    FY_KEEP_IN_REGISTER(v.low01);
    FY_KEEP_IN_REGISTER(v.low23);
    const float *const d_end = d + n_blocks;
    if (at_start && d < d_end) {
        vec_one(&v, x, *d++, *sum++, true, above, block_sums);
        x += FY_QK;
    }
    for (; d_end - d >= FY_VEC_BLOCKS; x += FY_VEC_BLOCKS * FY_QK) {
        v.d = vld1q_f32(d);
        v.column_sum = vld1q_s32(sum);
        d += FY_VEC_BLOCKS, sum += FY_VEC_BLOCKS;
        FY_UNROLL
        for (int i = 0; i < FY_VEC_BLOCKS; i++)
            vec_block(&v, x + i * FY_QK, i, false, above, block_sums);
    }
    for (; d < d_end; x += FY_QK)
        vec_one(&v, x, *d++, *sum++, false, above, block_sums);
    float part[FY_VEC_ROWS], *const out = n_rows == FY_VEC_ROWS ? y : part;
    vst1q_f32(out, v.acc[0]);
    vst1q_f32(out + 4, v.acc[1]);
    if (out == part)
        memcpy(y, part, (size_t)n_rows * sizeof *y);
}

/* A few columns: eight rows stay in the first cache for all of them. */
FY_INLINE void matmul_vec(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, int above,
                          vec_sums4_fn *block_sums, uint64_t low01, uint64_t low23)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t r = row_begin; r < row_end; r += FY_VEC_ROWS) {
        const int n = row_end - r < FY_VEC_ROWS ? (int)(row_end - r) : FY_VEC_ROWS;
        for (int64_t c = 0; c < n_cols; c++)
            vec_eight(y + c * ldy + r, (const uint8_t *)W + (size_t)r * row_bytes, row_bytes, n,
                      a->q + c * a->k, a->d + c * n_blocks, a->sum + c * n_blocks, n_blocks,
                      r == row_begin, above, block_sums, low01, low23);
    }
}

/* Four rows into v20 .. v31, of each a register with the scale and two with the codes. */
#define VEC_Q8_0_LOAD            \
    VEC_LOAD("p0", "v20", "v22") \
    VEC_LOAD("p1", "v23", "v25") VEC_LOAD("p2", "v26", "v28") VEC_LOAD("p3", "v29", "v31")
#define VEC_Q8_0_LOAD_FIRST                        \
    VEC_LOAD_FIRST("ldp", "p0", "v20", "q21, q22") \
    VEC_LOAD_FIRST("ldp", "p1", "v23", "q24, q25") \
    VEC_LOAD_FIRST("ldp", "p2", "v26", "q27, q28") \
    VEC_LOAD_FIRST("ldp", "p3", "v29", "q30, q31")

#define VEC_Q8_0_SCALES                              \
    "tbl %[s].8b, {v20.16b-v23.16b}, %[at01].8b\n\t" \
    "tbx %[s].8b, {v26.16b-v29.16b}, %[at23].8b\n\t"

#define VEC_Q8_0_INPUTS                                                     \
    [x0] "w"(x0), [x1] "w"(x1), [at01] "w"(v->low01), [at23] "w"(v->low23), \
        [step] "r"(sizeof(fy_block_q8_0)), [first_step] "i"(sizeof(fy_block_q8_0) - 16)
#define VEC_Q8_0_CLOBBERS \
    "memory", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

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

#define VEC_Q8_0_ASM(load)                                                                      \
    __asm__ volatile(load VEC_Q8_0_SCALES VEC_Q8_0_PRODUCTS                                     \
                     : [a0] "=&w"(a0), [a1] "=&w"(a1), [a2] "=&w"(a2), [a3] "=&w"(a3),          \
                       [b0] "=&w"(b0), [b1] "=&w"(b1), [b2] "=&w"(b2), [b3] "=&w"(b3),          \
                       [s] "=&w"(d), [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [p3] "+r"(p3) \
                     : VEC_Q8_0_INPUTS                                                          \
                     : VEC_Q8_0_CLOBBERS)

FY_INLINE int32x4_t vec_sums4_q8_0(vec_rows *v, int half, int8x16_t x0, int8x16_t x1, bool first,
                                   uint16x4_t *scale)
{
    const uint8_t **const row = v->row + 4 * half;
    const uint8_t *p0 = row[0], *p1 = row[1], *p2 = row[2], *p3 = row[3];
    uint16x4_t d;
    int16x8_t a0, a1, a2, a3, b0, b1, b2, b3;
    if (first)
        VEC_Q8_0_ASM(VEC_Q8_0_LOAD_FIRST);
    else
        VEC_Q8_0_ASM(VEC_Q8_0_LOAD);
    row[0] = p0, row[1] = p1, row[2] = p2, row[3] = p3;
    *scale = d;
    return sums_of_rows(vpadalq_s16(vpaddlq_s16(a0), b0), vpadalq_s16(vpaddlq_s16(a1), b1),
                        vpadalq_s16(vpaddlq_s16(a2), b2), vpadalq_s16(vpaddlq_s16(a3), b3));
}

/* Four rows into v24 .. v31, of each the codes 0 .. 15 and after them 16 .. 31, once the scales
 * are gathered. */
#define VEC_Q4_0_LOAD            \
    VEC_LOAD("p0", "v24", "v25") \
    VEC_LOAD("p1", "v26", "v27") VEC_LOAD("p2", "v28", "v29") VEC_LOAD("p3", "v30", "v31")
#define VEC_Q4_0_LOAD_FIRST                   \
    VEC_LOAD_FIRST("ldr", "p0", "v24", "q25") \
    VEC_LOAD_FIRST("ldr", "p1", "v26", "q27") \
    VEC_LOAD_FIRST("ldr", "p2", "v28", "q29") VEC_LOAD_FIRST("ldr", "p3", "v30", "q31")

#define VEC_Q4_0_UNPACK                              \
    "tbl %[s].8b, {v24.16b-v27.16b}, %[at01].8b\n\t" \
    "tbx %[s].8b, {v28.16b-v31.16b}, %[at23].8b\n\t" \
    "and v24.16b, v25.16b, %[low].16b\n\t"           \
    "and v26.16b, v27.16b, %[low].16b\n\t"           \
    "and v28.16b, v29.16b, %[low].16b\n\t"           \
    "and v30.16b, v31.16b, %[low].16b\n\t"           \
    "ushr v25.16b, v25.16b, #4\n\t"                  \
    "ushr v27.16b, v27.16b, #4\n\t"                  \
    "ushr v29.16b, v29.16b, #4\n\t"                  \
    "ushr v31.16b, v31.16b, #4\n\t"

#define VEC_Q4_0_INPUTS                                                     \
    [x0] "w"(x0), [x1] "w"(x1), [at01] "w"(v->low01), [at23] "w"(v->low23), \
        [low] "w"(vdupq_n_u8(15)), [step] "r"(sizeof(fy_block_q4_0)),       \
        [first_step] "i"(sizeof(fy_block_q4_0) - 16)
#define VEC_Q4_0_CLOBBERS "memory", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

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

#define VEC_Q4_0_ASM(load)                                                                      \
    __asm__ volatile(load VEC_Q4_0_UNPACK VEC_Q4_0_PRODUCTS                                     \
                     : [s0] "=&w"(s0), [s1] "=&w"(s1), [s2] "=&w"(s2), [s3] "=&w"(s3),          \
                       [s] "=&w"(d), [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [p3] "+r"(p3) \
                     : VEC_Q4_0_INPUTS                                                          \
                     : VEC_Q4_0_CLOBBERS)

FY_INLINE int32x4_t vec_sums4_q4_0(vec_rows *v, int half, int8x16_t x0, int8x16_t x1, bool first,
                                   uint16x4_t *scale)
{
    const uint8_t **const row = v->row + 4 * half;
    const uint8_t *p0 = row[0], *p1 = row[1], *p2 = row[2], *p3 = row[3];
    uint16x4_t d;
    int16x8_t s0, s1, s2, s3;
    if (first)
        VEC_Q4_0_ASM(VEC_Q4_0_LOAD_FIRST);
    else
        VEC_Q4_0_ASM(VEC_Q4_0_LOAD);
    row[0] = p0, row[1] = p1, row[2] = p2, row[3] = p3;
    *scale = d;
    return sums_of_pairs(s0, s1, s2, s3);
}

/* --- kernels --------------------------------------------------------------------------------- */

/* low01 and low23: where the scales are in the first and the fourth (q4_0: third) register, bytes
 * 14 and 15, in the lanes of the two rows. */
#define DEFINE_MATMUL_VEC(type, above, quants, low01, low23)                                     \
    static __attribute__((noinline)) void matvec_##type(                                         \
        float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,               \
        int64_t row_end, const fy_act *a, int64_t n_cols)                                        \
    {                                                                                            \
        matmul_vec(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, above, vec_sums4_##type, \
                   low01, low23);                                                                \
    }                                                                                            \
    void fy_matmul_##type##__neon(float *y, int64_t ldy, const void *W, size_t row_bytes,        \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,           \
                                  int64_t n_cols, void *scratch)                                 \
    {                                                                                            \
        (void)scratch;                                                                           \
        if (n_cols < FY_Q_COLS)                                                                  \
            matvec_##type(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols);                  \
        else                                                                                     \
            matmul_by_rows(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols,                  \
                           sizeof(fy_block_##type), 1, false, false, quants, fy_scales_d, above, \
                           dots4_##type);                                                        \
    }

DEFINE_MATMUL_VEC(q8_0, 0, fy_quants32_q8_0, 0xffffffff3f3e0f0e, 0x3f3e0f0effffffff)
DEFINE_MATMUL_VEC(q4_0, 8, stored_q4_0, 0xffffffff2f2e0f0e, 0x2f2e0f0effffffff)

#define DEFINE_MATMUL(type, subs, has_min, has_parts, scales)                                 \
    void fy_matmul_##type##__neon(float *y, int64_t ldy, const void *W, size_t row_bytes,     \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,        \
                                  int64_t n_cols, void *scratch)                              \
    {                                                                                         \
        (void)scratch;                                                                        \
        matmul_by_rows(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols,                   \
                       sizeof(fy_block_##type), subs, has_min, has_parts, fy_quants32_##type, \
                       scales, 0, dots4);                                                     \
    }

FY_QUANT_TYPES(DEFINE_MATMUL)
