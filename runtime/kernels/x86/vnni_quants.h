/* The block types as the VNNI kernels read them, for the vectors of the file that includes this
 * (matmul_blocks_avx512.c, matmul_blocks_avxvnni.c): unsigned codes of a group of rows, 16 bytes of
 * a row in a part, and scales and minimums, a lane per row.
 *
 * Rows are a pointer and a step. The step is hidden from the compiler inside the loops: it would
 * compute all the addresses before, keep them on the stack, and load each before its use. */
#ifndef FY_KERNELS_X86_VNNI_QUANTS_H
#define FY_KERNELS_X86_VNNI_QUANTS_H

#include <stddef.h>

#include "kernels/kernels.h"

/* The operations of the vectors, by FY_V_OP(op) and FY_V_BITS(op), the intrinsic of their width. */
#define fy_v_and      FY_V_BITS(and)
#define fy_v_or       FY_V_BITS(or)
#define fy_v_xor      FY_V_BITS(xor)
#define fy_v_zero     FY_V_BITS(setzero)
#define fy_v_shl16    FY_V_OP(slli_epi16)
#define fy_v_shr16    FY_V_OP(srli_epi16)
#define fy_v_shl32    FY_V_OP(slli_epi32)
#define fy_v_shr32    FY_V_OP(srli_epi32)
#define fy_v_sar32    FY_V_OP(srai_epi32)
#define fy_v_shuffle8 FY_V_OP(shuffle_epi8) /* in each part */
#define fy_v_set8     FY_V_OP(set1_epi8)
#define fy_v_set32    FY_V_OP(set1_epi32)
#define fy_v_add32    FY_V_OP(add_epi32)
#define fy_v_sub32    FY_V_OP(sub_epi32)
#define fy_v_add8     FY_V_OP(add_epi8)
#define fy_v_sub8     FY_V_OP(sub_epi8)
#define fy_v_mul32    FY_V_OP(mullo_epi32)
#define fy_v_low32    FY_V_OP(unpacklo_epi32)
#define fy_v_high32   FY_V_OP(unpackhi_epi32)
#define fy_v_low64    FY_V_OP(unpacklo_epi64)
#define fy_v_high64   FY_V_OP(unpackhi_epi64)
#define fy_v_to_float FY_V_OP(cvtepi32_ps)
#define fy_v_setf     FY_V_OP(set1_ps)
#define fy_v_zerof    FY_V_OP(setzero_ps)
#define fy_v_mulf     FY_V_OP(mul_ps)
#define fy_v_fmaf     FY_V_OP(fmadd_ps)
#define fy_v_loadf    FY_V_OP(loadu_ps)
#define fy_v_storef   FY_V_OP(storeu_ps)

enum { FY_V_SUBS = FY_QK_K / FY_QK }; /* blocks of 32 in a stored block, at most */

/* A stored block of a group of FY_V_ROWS rows. */
typedef struct {
    const uint8_t *at;
    size_t step; /* to the same block of the next row */
} fy_v_block;

/* Codes 16 half .. 16 half + 15 of sub-block s of rows i, i + 4, .. */
typedef fy_vi fy_v_quants_fn(fy_v_block w, int i, int s, int half);

FY_INLINE fy_vi fy_v_bytes(fy_v_block w, int i, size_t offset)
{
    return fy_v_load_parts(w.at + (size_t)i * w.step + offset, w.step);
}

/* Bits from `from` on of every byte, moved to bit `to` and on; `mask` is what stays there. */
FY_INLINE fy_vi fy_v_move_bits(fy_vi bytes, int from, int to, int8_t mask)
{
    const fy_vi moved = from < to   ? fy_v_shl16(bytes, (unsigned)(to - from))
                        : from > to ? fy_v_shr16(bytes, (unsigned)(from - to))
                                    : bytes;
    return fy_v_and(moved, fy_v_set8(mask));
}

FY_INLINE fy_vi fy_v_nibbles(fy_v_block w, int i, size_t offset, int half)
{
    return fy_v_move_bits(fy_v_bytes(w, i, offset), 4 * half, 0, 15);
}

/* 16 where the bit of an element is set, of 32 bits at `offset`. */
FY_INLINE fy_vi fy_v_fifth_bits(fy_v_block w, int i, size_t offset, int half)
{
    const __m128i byte_of = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m128i bit_of = _mm_set1_epi64x((int64_t)0x8040201008040201);
    const fy_vi byte = fy_v_same_part(_mm_add_epi8(byte_of, _mm_set1_epi8((char)(2 * half))));
    return fy_v_sixteen_if(fy_v_shuffle8(fy_v_bytes(w, i, offset), byte), fy_v_same_part(bit_of));
}

FY_INLINE fy_vi fy_v_quants_q8_0(fy_v_block w, int i, int s, int half)
{
    (void)s;
    const size_t at = offsetof(fy_block_q8_0, qs) + 16 * (size_t)half;
    return fy_v_xor(fy_v_bytes(w, i, at), fy_v_set8(-128));
}

FY_INLINE fy_vi fy_v_quants_q4_0(fy_v_block w, int i, int s, int half)
{
    (void)s;
    return fy_v_nibbles(w, i, offsetof(fy_block_q4_0, qs), half);
}

FY_INLINE fy_vi fy_v_quants_q4_1(fy_v_block w, int i, int s, int half)
{
    (void)s;
    return fy_v_nibbles(w, i, offsetof(fy_block_q4_1, qs), half);
}

FY_INLINE fy_vi fy_v_quants_q5_0(fy_v_block w, int i, int s, int half)
{
    (void)s;
    return fy_v_or(fy_v_nibbles(w, i, offsetof(fy_block_q5_0, qs), half),
                   fy_v_fifth_bits(w, i, offsetof(fy_block_q5_0, qh), half));
}

FY_INLINE fy_vi fy_v_quants_q5_1(fy_v_block w, int i, int s, int half)
{
    (void)s;
    return fy_v_or(fy_v_nibbles(w, i, offsetof(fy_block_q5_1, qs), half),
                   fy_v_fifth_bits(w, i, offsetof(fy_block_q5_1, qh), half));
}

FY_INLINE fy_vi fy_v_quants_q4_k(fy_v_block w, int i, int s, int half)
{
    const size_t at = offsetof(fy_block_q4_k, qs) + (size_t)(s / 2 * FY_QK + 16 * half);
    return fy_v_move_bits(fy_v_bytes(w, i, at), s % 2 * 4, 0, 15);
}

FY_INLINE fy_vi fy_v_quants_q5_k(fy_v_block w, int i, int s, int half)
{
    const size_t at = offsetof(fy_block_q5_k, qs) + (size_t)(s / 2 * FY_QK + 16 * half);
    const size_t bits_at = offsetof(fy_block_q5_k, qh) + 16 * (size_t)half;
    return fy_v_or(fy_v_move_bits(fy_v_bytes(w, i, at), s % 2 * 4, 0, 15),
                   fy_v_sixteen_if(fy_v_bytes(w, i, bits_at), fy_v_set8((int8_t)(1 << s))));
}

FY_INLINE fy_vi fy_v_quants_q6_k(fy_v_block w, int i, int s, int half)
{
    const size_t at =
        offsetof(fy_block_q6_k, ql) + (size_t)(s / 4 * 64 + s % 2 * FY_QK + 16 * half);
    const size_t bits_at = offsetof(fy_block_q6_k, qh) + (size_t)(s / 4 * FY_QK + 16 * half);
    return fy_v_or(fy_v_move_bits(fy_v_bytes(w, i, at), s % 4 / 2 * 4, 0, 15),
                   fy_v_move_bits(fy_v_bytes(w, i, bits_at), s % 4 * 2, 4, 0x30));
}

/* v[i]: 16 bytes of rows i, i + 4, ..  ->  v[j]: bytes 4j .. 4j+3 of all rows, in order. */
FY_INLINE void fy_v_transpose(fy_vi v[4])
{
    const fy_vi a = fy_v_low32(v[0], v[1]), b = fy_v_high32(v[0], v[1]);
    const fy_vi c = fy_v_low32(v[2], v[3]), d = fy_v_high32(v[2], v[3]);
    v[0] = fy_v_low64(a, c);
    v[1] = fy_v_high64(a, c);
    v[2] = fy_v_low64(b, d);
    v[3] = fy_v_high64(b, d);
}

/* The codes of one sub-block or two that share their bytes, from sub-block s on; [j]: elements 4j
 * .. 4j+3 of all rows. Whole blocks are put in order before they are taken apart. */
typedef void fy_v_codes_fn(fy_vi q[2][8], fy_v_block w, int s);

/* The 16 bytes at `offset`, four in a lane. Where only some of v are used, only they are made. */
FY_INLINE void fy_v_ordered_bytes(fy_vi v[4], fy_v_block w, size_t offset)
{
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = fy_v_bytes(w, i, offset);
    fy_v_transpose(v);
}

FY_INLINE void fy_v_codes(fy_vi q[8], fy_v_block w, int s, fy_v_quants_fn *quants)
{
    FY_UNROLL
    for (int half = 0; half < 2; half++) {
        FY_UNROLL
        for (int i = 0; i < 4; i++)
            q[4 * half + i] = quants(w, i, s, half);
        fy_v_transpose(q + 4 * half);
    }
}

/* The low nibbles of v are n vectors of codes, the high ones others. */
FY_INLINE void fy_v_split_nibbles(fy_vi *low, fy_vi *high, const fy_vi *v, int n)
{
    FY_UNROLL
    for (int i = 0; i < n; i++) {
        const fy_vi bytes = v[i]; /* low or high may be v */
        high[i] = fy_v_move_bits(bytes, 4, 0, 15);
        low[i] = fy_v_move_bits(bytes, 0, 0, 15);
    }
}

FY_INLINE void fy_v_codes_q8_0(fy_vi q[2][8], fy_v_block w, int s)
{
    fy_v_codes(q[0], w, s, fy_v_quants_q8_0);
}

FY_INLINE void fy_v_codes_q4_0(fy_vi q[2][8], fy_v_block w, int s)
{
    (void)s;
    fy_v_ordered_bytes(q[0], w, offsetof(fy_block_q4_0, qs));
    fy_v_split_nibbles(q[0], q[0] + 4, q[0], 4);
}

FY_INLINE void fy_v_codes_q4_1(fy_vi q[2][8], fy_v_block w, int s)
{
    (void)s;
    fy_v_ordered_bytes(q[0], w, offsetof(fy_block_q4_1, qs));
    fy_v_split_nibbles(q[0], q[0] + 4, q[0], 4);
}

FY_INLINE void fy_v_codes_q5_0(fy_vi q[2][8], fy_v_block w, int s)
{
    fy_v_codes(q[0], w, s, fy_v_quants_q5_0);
}

FY_INLINE void fy_v_codes_q5_1(fy_vi q[2][8], fy_v_block w, int s)
{
    fy_v_codes(q[0], w, s, fy_v_quants_q5_1);
}

/* Two sub-blocks have the nibbles of 32 bytes. */
FY_INLINE void fy_v_codes_q4_k(fy_vi q[2][8], fy_v_block w, int s)
{
    const size_t at = offsetof(fy_block_q4_k, qs) + (size_t)(s / 2 * FY_QK);
    fy_v_ordered_bytes(q[0], w, at);
    fy_v_ordered_bytes(q[0] + 4, w, at + 16);
    fy_v_split_nibbles(q[0], q[1], q[0], 8);
}

FY_INLINE void fy_v_codes_q5_k(fy_vi q[2][8], fy_v_block w, int s)
{
    const size_t at = offsetof(fy_block_q5_k, qs) + (size_t)(s / 2 * FY_QK);
    const fy_vi bit = fy_v_set8((int8_t)(1 << s)), next = fy_v_add8(bit, bit);
    FY_UNROLL
    for (int half = 0; half < 2; half++) {
        fy_vi v[4], fifth[4];
        fy_v_ordered_bytes(v, w, at + 16 * (size_t)half);
        fy_v_ordered_bytes(fifth, w, offsetof(fy_block_q5_k, qh) + 16 * (size_t)half);
        fy_v_split_nibbles(q[0] + 4 * half, q[1] + 4 * half, v, 4);
        FY_UNROLL
        for (int i = 0; i < 4; i++) {
            fy_vi *const low = &q[0][4 * half + i], *const high = &q[1][4 * half + i];
            *low = fy_v_or(*low, fy_v_sixteen_if(fifth[i], bit));
            *high = fy_v_or(*high, fy_v_sixteen_if(fifth[i], next));
        }
    }
}

/* --- scales ---------------------------------------------------------------------------------- */

typedef struct {
    fy_vf d[FY_V_SUBS], m[FY_V_SUBS]; /* value q * d + m */
} fy_v_scales;

typedef void fy_v_scales_fn(fy_v_scales *out, fy_v_block w);

FY_INLINE void fy_v_scales_d(fy_v_scales *out, fy_v_block w)
{
    out->d[0] = fy_v_widen_f16(fy_v_load_dwords(w.at, w.step));
}

FY_INLINE void fy_v_scales_dm(fy_v_scales *out, fy_v_block w)
{
    const fy_vi both = fy_v_load_dwords(w.at, w.step);
    out->d[0] = fy_v_widen_f16(both);
    out->m[0] = fy_v_widen_f16(fy_v_shr32(both, 16));
}

/* Bytes s of `scale` and `min` are those of four sub-blocks. */
FY_INLINE void fy_v_put_k_scales(fy_v_scales *out, int first, fy_vf d, fy_vf dmin, fy_vi scale,
                                 fy_vi min)
{
    const fy_vi byte = fy_v_set32(255);
    FY_UNROLL
    for (int s = 0; s < 4; s++) {
        const unsigned at = 8 * (unsigned)s;
        const fy_vi sc = fy_v_and(fy_v_shr32(scale, at), byte);
        const fy_vi mn = fy_v_and(fy_v_shr32(min, at), byte);
        out->d[first + s] = fy_v_mulf(d, fy_v_to_float(sc));
        out->m[first + s] = fy_v_mulf(dmin, fy_v_to_float(mn));
    }
}

/* q4_K and q5_K begin with d, dmin and the 12 bytes of their 6-bit scales and minimums. */
FY_INLINE void fy_v_scales_k(fy_v_scales *out, fy_v_block w)
{
    const fy_vi six = fy_v_set8(63), four = fy_v_set8(15);
    fy_vi v[4];
    fy_v_ordered_bytes(v, w, 0);
    const fy_vf d = fy_v_widen_f16(v[0]);
    const fy_vf dmin = fy_v_mulf(fy_v_widen_f16(fy_v_shr32(v[0], 16)), fy_v_setf(-1.0f));
    fy_v_put_k_scales(out, 0, d, dmin, fy_v_and(v[1], six), fy_v_and(v[2], six));
    fy_v_put_k_scales(out, 4, d, dmin,
                      fy_v_or(fy_v_and(v[3], four), fy_v_move_bits(v[1], 6, 4, 0x30)),
                      fy_v_or(fy_v_move_bits(v[3], 4, 0, 15), fy_v_move_bits(v[2], 6, 4, 0x30)));
}

#endif
