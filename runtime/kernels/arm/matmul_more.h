/* The types that only the files of others have, times columns: four rows at a time, as in
 * matmul_rows.h. Of q2_K, q3_K, iq4_nl, iq4_xs and mxfp4 blocks are taken apart in registers; of
 * the rest by the scalar reader, once for all columns. A file that includes this defines dot16
 * before, as for matmul_rows.h, for codes of any size, and MORE_ISA. */
#ifndef FY_KERNELS_ARM_MATMUL_MORE_H
#define FY_KERNELS_ARM_MATMUL_MORE_H

#include "kernels/arm/matmul_rows.h"
#include "kernels/scalar/quant_grids.h"
#include "kernels/scalar/quants_scalar.h"

/* A block of 32 of four rows. */
typedef struct {
    fy_quants32 q[FY_Q_ROWS];
    float32x4_t d, m;
    int32x4_t scale[2], min[2]; /* of 16 elements, times d and m */
} four;

/* What of it a type has. */
typedef enum { PLAIN, SCALES, MINS } form;

/* Sub-block s of a stored block at `offset`. */
typedef void four_fn(four *out, const uint8_t *const row[FY_Q_ROWS], size_t offset, int s);

/* Bits `from` on of every lane, masked. */
FY_INLINE int32x4_t lane_bits(uint32x4_t v, int from, uint32_t mask)
{
    return vreinterpretq_s32_u32(vandq_u32(vshlq_u32(v, vdupq_n_s32(-from)), vdupq_n_u32(mask)));
}

/* --- blocks of four rows -----------------------------------------------------------------------
 */

FY_INLINE void four_q2_k(four *out, const uint8_t *const row[FY_Q_ROWS], size_t offset, int s)
{
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++) {
        const uint8_t *qs = row[r] + offset + offsetof(fy_block_q2_k, qs) + s / 4 * FY_QK;
        out->q[r] = quants_of(bits_from(vld1q_u8(qs), s % 4 * 2, 3),
                              bits_from(vld1q_u8(qs + 16), s % 4 * 2, 3), 0);
    }
    const uint32x4_t both = dwords4(row, offset + (size_t)(s / 2 * 4));
    FY_UNROLL
    for (int half = 0; half < 2; half++) {
        const int byte = s % 2 * 16 + half * 8;
        out->scale[half] = lane_bits(both, byte, 15);
        out->min[half] = lane_bits(both, byte + 4, 15);
    }
    out->d = halves4(row, offset + offsetof(fy_block_q2_k, d));
    out->m = vnegq_f32(halves4(row, offset + offsetof(fy_block_q2_k, dmin)));
}

FY_INLINE void four_q3_k(four *out, const uint8_t *const row[FY_Q_ROWS], size_t offset, int s)
{
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++) {
        const uint8_t *high = row[r] + offset;
        const uint8_t *qs = high + offsetof(fy_block_q3_k, qs) + s / 4 * FY_QK;
        const uint8x16_t lo = vshlq_n_u8(bits_from(vld1q_u8(high), s, 1), 2);
        const uint8x16_t hi = vshlq_n_u8(bits_from(vld1q_u8(high + 16), s, 1), 2);
        out->q[r] = quants_of(vorrq_u8(bits_from(vld1q_u8(qs), s % 4 * 2, 3), lo),
                              vorrq_u8(bits_from(vld1q_u8(qs + 16), s % 4 * 2, 3), hi), 4);
    }
    const size_t at = offset + offsetof(fy_block_q3_k, scales);
    const uint32x4_t low = dwords4(row, at + (size_t)(s % 4 / 2 * 4)), high = dwords4(row, at + 8);
    FY_UNROLL
    for (int half = 0; half < 2; half++) {
        const int byte = 8 * (s % 2 * 2 + half);
        const int32x4_t scale = vorrq_s32(lane_bits(low, byte + s / 4 * 4, 15),
                                          vshlq_n_s32(lane_bits(high, byte + s / 2 * 2, 3), 4));
        out->scale[half] = vsubq_s32(scale, vdupq_n_s32(32));
    }
    out->d = halves4(row, offset + offsetof(fy_block_q3_k, d));
}

/* 16 bytes of nibbles of each row at `offset`, as values of a table. */
FY_INLINE void four_values(four *out, const uint8_t *const row[FY_Q_ROWS], size_t offset,
                           const int8_t values[16])
{
    const int8x16_t table = vld1q_s8(values);
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++) {
        const uint8x16_t bytes = vld1q_u8(row[r] + offset);
        out->q[r] = (fy_quants32){vqtbl1q_s8(table, vandq_u8(bytes, vdupq_n_u8(15))),
                                  vqtbl1q_s8(table, vshrq_n_u8(bytes, 4))};
    }
}

FY_INLINE void four_iq4_nl(four *out, const uint8_t *const row[FY_Q_ROWS], size_t offset, int s)
{
    (void)s;
    four_values(out, row, offset + offsetof(fy_block_iq4_nl, qs), fy_iq4_values);
    out->d = halves4(row, offset);
}

FY_INLINE void four_iq4_xs(four *out, const uint8_t *const row[FY_Q_ROWS], size_t offset, int s)
{
    four_values(out, row, offset + offsetof(fy_block_iq4_xs, qs) + (size_t)(16 * s), fy_iq4_values);
    const uint32x4_t high = dwords4(row, offset); /* d, and two bits of every scale */
    const uint32x4_t low = dwords4(row, offset + offsetof(fy_block_iq4_xs, scales_l));
    const int32x4_t scale =
        vorrq_s32(lane_bits(low, 4 * s, 15), vshlq_n_s32(lane_bits(high, 16 + 2 * s, 3), 4));
    out->d = vmulq_f32(halves4(row, offset), vcvtq_f32_s32(vsubq_s32(scale, vdupq_n_s32(32))));
}

FY_INLINE void four_mxfp4(four *out, const uint8_t *const row[FY_Q_ROWS], size_t offset, int s)
{
    (void)s;
    four_values(out, row, offset + offsetof(fy_block_mxfp4, qs), fy_fp4_values);
    const int32x4_t e = lane_bits(dwords4(row, offset), 0, 255);
    const int32x4_t usual = vshlq_n_s32(vsubq_s32(e, vdupq_n_s32(1)), 23);
    const int32x4_t tiny = vshlq_s32(vdupq_n_s32(0x00200000), e);
    out->d = vreinterpretq_f32_s32(vbslq_s32(vcltq_s32(e, vdupq_n_s32(2)), tiny, usual));
}

/* By the scalar reader: block b from the rows on. */
FY_INLINE void four_by_scalar(four *out, const uint8_t *const row[FY_Q_ROWS], int64_t b,
                              fy_quants_fn *quants)
{
    float d[FY_Q_ROWS];
    int32_t scale[2][FY_Q_ROWS];
    for (int r = 0; r < FY_Q_ROWS; r++) {
        const fy_quants w = quants(row[r], b);
        out->q[r] = (fy_quants32){vld1q_s8(w.q), vld1q_s8(w.q + 16)};
        d[r] = w.d;
        scale[0][r] = w.scale[0];
        scale[1][r] = w.scale[1];
    }
    out->d = vld1q_f32(d);
    out->scale[0] = vld1q_s32(scale[0]);
    out->scale[1] = vld1q_s32(scale[1]);
}

/* --- products ----------------------------------------------------------------------------------
 */

FY_INLINE float32x4_t add_four(float32x4_t acc, const four *w, const fy_act *a, int64_t col,
                               int64_t b, form f)
{
    const int8_t *x = a->q + col * a->k + b * FY_QK;
    const float d = a->d[col * (a->k / FY_QK) + b];
    const int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
    const int32x4_t sum =
        f == PLAIN ? dots4(w->q, x0, x1) : dots4_parts(w->q, x0, x1, w->scale[0], w->scale[1]);
    acc = vfmaq_f32(acc, vmulq_n_f32(w->d, d), vcvtq_f32_s32(sum));
    if (f != MINS)
        return acc;
    const int32x4_t mins =
        vmlaq_n_s32(vmulq_n_s32(w->min[0], vaddlvq_s8(x0)), w->min[1], vaddlvq_s8(x1));
    return vfmaq_f32(acc, vmulq_n_f32(w->m, d), vcvtq_f32_s32(mins));
}

/* y[c][r] for n_rows <= 4 rows and `cols` columns from `col` on. Rows that are missing repeat the
 * last one. quants: of a rare type, NULL: unpack. */
FY_INLINE void more_rows(float *y, int64_t ldy, const uint8_t *W, size_t row_bytes, int n_rows,
                         const fy_act *a, int64_t col, int cols, size_t block_bytes, int subs,
                         form f, four_fn *unpack, fy_quants_fn *quants)
{
    const uint8_t *row[FY_Q_ROWS];
    FY_UNROLL
    for (int r = 0; r < FY_Q_ROWS; r++)
        row[r] = W + (size_t)(r < n_rows ? r : n_rows - 1) * row_bytes;
    float32x4_t acc[FY_Q_COLS];
    FY_UNROLL
    for (int i = 0; i < FY_Q_COLS; i++)
        acc[i] = vdupq_n_f32(0);
    for (int64_t b = 0; b < a->k / FY_QK; b++) {
        four w;
        if (quants != NULL)
            four_by_scalar(&w, row, b, quants);
        else
            unpack(&w, row, (size_t)(b / subs) * block_bytes, (int)(b % subs));
        FY_UNROLL
        for (int i = 0; i < cols; i++)
            acc[i] = add_four(acc[i], &w, a, col + i, b, f);
    }
    FY_UNROLL
    for (int i = 0; i < cols; i++) {
        float out[FY_Q_ROWS];
        vst1q_f32(out, acc[i]);
        memcpy(y + (col + i) * ldy, out, (size_t)n_rows * sizeof *y);
    }
}

FY_INLINE void more_all(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                        int64_t row_end, const fy_act *a, int64_t n_cols, size_t block_bytes,
                        int subs, form f, four_fn *unpack, fy_quants_fn *quants)
{
    for (int64_t r = row_begin; r < row_end; r += FY_Q_ROWS) {
        const int n = row_end - r < FY_Q_ROWS ? (int)(row_end - r) : FY_Q_ROWS;
        const uint8_t *w = (const uint8_t *)W + (size_t)r * row_bytes;
        int64_t c = 0;
        for (; c + FY_Q_COLS <= n_cols; c += FY_Q_COLS)
            more_rows(y + r, ldy, w, row_bytes, n, a, c, FY_Q_COLS, block_bytes, subs, f, unpack,
                      quants);
        for (; c < n_cols; c++)
            more_rows(y + r, ldy, w, row_bytes, n, a, c, 1, block_bytes, subs, f, unpack, quants);
    }
}

static __attribute__((noinline)) void rare(float *y, int64_t ldy, const void *W, size_t row_bytes,
                                           int64_t row_begin, int64_t row_end, const fy_act *a,
                                           int64_t n_cols, fy_quants_fn *quants)
{
    more_all(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, 0, 1, SCALES, NULL, quants);
}

#define MORE_NAME2(type, isa) fy_matmul_##type##__##isa
#define MORE_NAME(type, isa)  MORE_NAME2(type, isa)
#define MORE_ARGS                                                                               \
    float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin, int64_t row_end, \
        const fy_act *a, int64_t n_cols, void *scratch

#define DEFINE_MORE(type, subs, f)                                                             \
    void MORE_NAME(type, MORE_ISA)(MORE_ARGS)                                                  \
    {                                                                                          \
        (void)scratch;                                                                         \
        more_all(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, sizeof(fy_block_##type), \
                 subs, f, four_##type, NULL);                                                  \
    }
#define DEFINE_RARE(type)                                                            \
    void MORE_NAME(type, MORE_ISA)(MORE_ARGS)                                        \
    {                                                                                \
        (void)scratch;                                                               \
        rare(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, fy_quants_##type); \
    }

DEFINE_MORE(q2_k, FY_SUBS_MAX, MINS)
DEFINE_MORE(q3_k, FY_SUBS_MAX, SCALES)
DEFINE_MORE(iq4_nl, 1, PLAIN)
DEFINE_MORE(iq4_xs, FY_SUBS_MAX, PLAIN)
DEFINE_MORE(mxfp4, 1, PLAIN)
DEFINE_RARE(q1_0)
DEFINE_RARE(q2_0)
DEFINE_RARE(tq1_0)
DEFINE_RARE(tq2_0)
DEFINE_RARE(iq1_s)
DEFINE_RARE(iq1_m)
DEFINE_RARE(iq2_xxs)
DEFINE_RARE(iq2_xs)
DEFINE_RARE(iq2_s)
DEFINE_RARE(iq3_xxs)
DEFINE_RARE(iq3_s)

#endif
