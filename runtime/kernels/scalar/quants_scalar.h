/* The block types one block of 32 elements at a time: what decoding and the products share. A block
 * is codes with a scale and, in some types, a minimum; the super-blocks of the K types are eight
 * of them. Rows have any alignment. */
#ifndef FY_KERNELS_SCALAR_QUANTS_SCALAR_H
#define FY_KERNELS_SCALAR_QUANTS_SCALAR_H

#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

typedef struct {
    int8_t q[FY_QK];
    float d, m;      /* value q * d + m; m only in the types that have it */
    int8_t scale[2]; /* of elements 0..15 and 16..31, times d; 1 in types that have none */
    int8_t min[2];   /* the same, times m, of q2_K */
} fy_quants;

/* Reads block b of a row. */
typedef fy_quants fy_quants_fn(const uint8_t *row, int64_t b);

/* Bytes in element order, nibbles of 16 bytes: low ones first. */
static inline void fy_put_nibbles(fy_quants *out, const uint8_t qs[FY_QK / 2], int offset)
{
    for (int i = 0; i < FY_QK / 2; i++) {
        out->q[i] = (int8_t)((qs[i] & 15) - offset);
        out->q[i + FY_QK / 2] = (int8_t)((qs[i] >> 4) - offset);
    }
}

static inline void fy_put_fifth_bits(fy_quants *out, const uint8_t qh[FY_QK / 8])
{
    for (int i = 0; i < FY_QK; i++)
        out->q[i] = (int8_t)(out->q[i] + ((qh[i / 8] >> i % 8 & 1) << 4));
}

static inline fy_quants fy_quants_q8_0(const uint8_t *row, int64_t b)
{
    const uint8_t *w = row + b * (int64_t)sizeof(fy_block_q8_0);
    uint16_t d;
    memcpy(&d, w, sizeof d);
    fy_quants out = {.d = fy_f16_to_f32(d), .scale = {1, 1}};
    memcpy(out.q, w + sizeof d, sizeof out.q);
    return out;
}

static inline fy_quants fy_quants_q4_0(const uint8_t *row, int64_t b)
{
    fy_block_q4_0 w;
    memcpy(&w, row + b * (int64_t)sizeof w, sizeof w);
    fy_quants out = {.d = fy_f16_to_f32(w.d), .scale = {1, 1}};
    fy_put_nibbles(&out, w.qs, 8);
    return out;
}

static inline fy_quants fy_quants_q4_1(const uint8_t *row, int64_t b)
{
    fy_block_q4_1 w;
    memcpy(&w, row + b * (int64_t)sizeof w, sizeof w);
    fy_quants out = {.d = fy_f16_to_f32(w.d), .m = fy_f16_to_f32(w.m), .scale = {1, 1}};
    fy_put_nibbles(&out, w.qs, 0);
    return out;
}

static inline fy_quants fy_quants_q5_0(const uint8_t *row, int64_t b)
{
    fy_block_q5_0 w;
    memcpy(&w, row + b * (int64_t)sizeof w, sizeof w);
    fy_quants out = {.d = fy_f16_to_f32(w.d), .scale = {1, 1}};
    fy_put_nibbles(&out, w.qs, 16);
    fy_put_fifth_bits(&out, w.qh);
    return out;
}

static inline fy_quants fy_quants_q5_1(const uint8_t *row, int64_t b)
{
    fy_block_q5_1 w;
    memcpy(&w, row + b * (int64_t)sizeof w, sizeof w);
    fy_quants out = {.d = fy_f16_to_f32(w.d), .m = fy_f16_to_f32(w.m), .scale = {1, 1}};
    fy_put_nibbles(&out, w.qs, 0);
    fy_put_fifth_bits(&out, w.qh);
    return out;
}

enum { FY_K_SUBS = FY_QK_K / FY_QK };

/* Sub-block s of q4_K and q5_K: scale and minimum of 6 bits. The first four have theirs in the low
 * bits of bytes 0..3 and 4..7; the last four have the low halves in bytes 8..11 and the upper two
 * bits where the first four left them. */
static inline void fy_k_scale_min(fy_quants *out, uint16_t d, uint16_t dmin,
                                  const uint8_t p[FY_K_SCALE_BYTES], int s)
{
    const int scale = s < 4 ? p[s] & 63 : (p[s + 4] & 15) | p[s - 4] >> 6 << 4;
    const int min = s < 4 ? p[s + 4] & 63 : p[s + 4] >> 4 | p[s] >> 6 << 4;
    out->d = fy_f16_to_f32(d) * (float)scale;
    out->m = -(fy_f16_to_f32(dmin) * (float)min);
    out->scale[0] = out->scale[1] = 1;
}

static inline fy_quants fy_quants_q4_k(const uint8_t *row, int64_t b)
{
    fy_block_q4_k w;
    memcpy(&w, row + b / FY_K_SUBS * (int64_t)sizeof w, sizeof w);
    const int s = (int)(b % FY_K_SUBS);
    fy_quants out;
    fy_k_scale_min(&out, w.d, w.dmin, w.scales, s);
    for (int i = 0; i < FY_QK; i++)
        out.q[i] = w.qs[s / 2 * FY_QK + i] >> s % 2 * 4 & 15;
    return out;
}

static inline fy_quants fy_quants_q5_k(const uint8_t *row, int64_t b)
{
    fy_block_q5_k w;
    memcpy(&w, row + b / FY_K_SUBS * (int64_t)sizeof w, sizeof w);
    const int s = (int)(b % FY_K_SUBS);
    fy_quants out;
    fy_k_scale_min(&out, w.d, w.dmin, w.scales, s);
    for (int i = 0; i < FY_QK; i++)
        out.q[i] = (int8_t)((w.qs[s / 2 * FY_QK + i] >> s % 2 * 4 & 15) | (w.qh[i] >> s & 1) << 4);
    return out;
}

static inline fy_quants fy_quants_q6_k(const uint8_t *row, int64_t b)
{
    fy_block_q6_k w;
    memcpy(&w, row + b / FY_K_SUBS * (int64_t)sizeof w, sizeof w);
    const int half = (int)(b % FY_K_SUBS) / 4, s = (int)(b % 4);
    fy_quants out = {.d = fy_f16_to_f32(w.d)};
    memcpy(out.scale, w.scales + b % FY_K_SUBS * 2, sizeof out.scale);
    for (int i = 0; i < FY_QK; i++) {
        const int low = w.ql[half * 64 + s % 2 * FY_QK + i] >> s / 2 * 4 & 15;
        const int high = w.qh[half * FY_QK + i] >> 2 * s & 3;
        out.q[i] = (int8_t)((low | high << 4) - 32);
    }
    return out;
}

/* The types that only the files of others have (quants_more_scalar.c), where each is read by one
 * function for all kernels. */
#define FY_MORE_TYPES(X)    \
    X(q2_k, FY_MIN_OF_16)   \
    X(q3_k, FY_NO_MIN)      \
    X(iq4_nl, FY_NO_MIN)    \
    X(iq4_xs, FY_NO_MIN)    \
    X(mxfp4, FY_NO_MIN)     \
    X(nvfp4, FY_TWO_SCALES) \
    X(q1_0, FY_NO_MIN)      \
    X(q2_0, FY_NO_MIN)      \
    X(tq1_0, FY_NO_MIN)     \
    X(tq2_0, FY_NO_MIN)     \
    X(iq1_s, FY_NO_MIN)     \
    X(iq1_m, FY_NO_MIN)     \
    X(iq2_xxs, FY_NO_MIN)   \
    X(iq2_xs, FY_NO_MIN)    \
    X(iq2_s, FY_NO_MIN)     \
    X(iq3_xxs, FY_NO_MIN)   \
    X(iq3_s, FY_NO_MIN)

/* What a block has besides codes and a scale: a minimum m; minimums of 16 elements; m, the scale of
 * the last 16 elements, d being that of the first. */
typedef enum { FY_NO_MIN, FY_MIN, FY_MIN_OF_16, FY_TWO_SCALES } fy_quants_form;

#define FY_DECLARE_QUANTS(type, form) fy_quants_fn fy_quants_##type;
FY_MORE_TYPES(FY_DECLARE_QUANTS)

/* --- where the encoders of the types of 32 elements put codes, which are not negative ------- */

/* Four bits each: of the first half in the low nibbles, of the second in the high ones. */
static inline void fy_put_low_bits(uint8_t qs[FY_QK / 2], const uint8_t q[FY_QK])
{
    for (int i = 0; i < FY_QK / 2; i++)
        qs[i] = (uint8_t)((q[i] & 15) | (q[i + FY_QK / 2] & 15) << 4);
}

static inline void fy_put_high_bits(uint8_t qh[FY_QK / 8], const uint8_t q[FY_QK])
{
    for (int i = 0; i < FY_QK / 8; i++)
        qh[i] = 0;
    for (int i = 0; i < FY_QK; i++)
        qh[i / 8] = (uint8_t)(qh[i / 8] | q[i] >> 4 << i % 8);
}

#endif
