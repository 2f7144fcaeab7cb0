/* The block types that only the files of others have, one block of 32 elements at a time
 * (quants_scalar.h). Layouts: base/types.h; values: those of ggml's dequantize_row_*, in which
 * every product is exact, so that a scale may be taken apart into d and a small integer. */
#include <stddef.h>

#include "kernels/scalar/quant_grids.h"
#include "kernels/scalar/quants_scalar.h"

enum { QK16 = 16 };

/* Where block b of 32 elements of a row lies: in block b / subs. */
#define READ_BLOCK(type, w, subs) \
    fy_block_##type w;            \
    memcpy(&(w), row + b / (subs) * (int64_t)sizeof(w), sizeof(w))

/* --- q2_K, q3_K --------------------------------------------------------------------------------
 */

/* Two bits of sub-block s. */
static int two_bits(const uint8_t *qs, int s, int i)
{
    return qs[s / 4 * FY_QK + i] >> s % 4 * 2 & 3;
}

fy_quants fy_quants_q2_k(const uint8_t *row, int64_t b)
{
    READ_BLOCK(q2_k, w, FY_K_SUBS);
    const int s = (int)(b % FY_K_SUBS);
    const uint8_t *scales = w.scales + 2 * s;
    fy_quants out = {.d = fy_f16_to_f32(w.d),
                     .m = -fy_f16_to_f32(w.dmin),
                     .scale = {(int8_t)(scales[0] & 15), (int8_t)(scales[1] & 15)},
                     .min = {(int8_t)(scales[0] >> 4), (int8_t)(scales[1] >> 4)}};
    for (int i = 0; i < FY_QK; i++)
        out.q[i] = (int8_t)two_bits(w.qs, s, i);
    return out;
}

fy_quants fy_quants_q3_k(const uint8_t *row, int64_t b)
{
    READ_BLOCK(q3_k, w, FY_K_SUBS);
    const int s = (int)(b % FY_K_SUBS);
    fy_quants out = {.d = fy_f16_to_f32(w.d)};
    for (int half = 0; half < 2; half++) {
        const int i = 2 * s + half;
        const int low = w.scales[i % 8] >> i / 8 * 4 & 15,
                  high = w.scales[8 + i % 4] >> i / 4 * 2 & 3;
        out.scale[half] = (int8_t)((low | high << 4) - 32);
    }
    for (int i = 0; i < FY_QK; i++)
        out.q[i] = (int8_t)(two_bits(w.qs, s, i) + (w.hmask[i] >> s & 1) * 4 - 4);
    return out;
}

/* --- tables of 16 values ------------------------------------------------------------------------
 */

/* n bytes of nibbles become 2 n values, the low ones first. */
static void put_values(int8_t *q, const uint8_t *qs, int n, const int8_t values[16])
{
    for (int i = 0; i < n; i++) {
        q[i] = values[qs[i] & 15];
        q[i + n] = values[qs[i] >> 4];
    }
}

fy_quants fy_quants_iq4_nl(const uint8_t *row, int64_t b)
{
    READ_BLOCK(iq4_nl, w, 1);
    fy_quants out = {.d = fy_f16_to_f32(w.d), .scale = {1, 1}};
    put_values(out.q, w.qs, QK16, fy_iq4_values);
    return out;
}

fy_quants fy_quants_iq4_xs(const uint8_t *row, int64_t b)
{
    READ_BLOCK(iq4_xs, w, FY_K_SUBS);
    const int s = (int)(b % FY_K_SUBS);
    const int scale = (w.scales_l[s / 2] >> s % 2 * 4 & 15) | (w.scales_h >> 2 * s & 3) << 4;
    fy_quants out = {.d = fy_f16_to_f32(w.d) * (float)(scale - 32), .scale = {1, 1}};
    put_values(out.q, w.qs + s * QK16, QK16, fy_iq4_values);
    return out;
}

/* 2^(e - 128), of which the two least are subnormal. */
static float power_of_two(uint8_t e)
{
    const uint32_t bits = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

fy_quants fy_quants_mxfp4(const uint8_t *row, int64_t b)
{
    READ_BLOCK(mxfp4, w, 1);
    fy_quants out = {.d = power_of_two(w.e), .scale = {1, 1}};
    put_values(out.q, w.qs, QK16, fy_fp4_values);
    return out;
}

/* Half of a number without sign, 4 bits of exponent and 3 of mantissa; ggml reads 0x7f as 0. */
static float half_of_e4m3(uint8_t e4m3)
{
    const int e = e4m3 >> 3 & 15, mantissa = e4m3 & 7;
    if (e4m3 == 0x7f)
        return 0;
    return e == 0 ? (float)mantissa * 0x1p-10f
                  : (float)(8 + mantissa) * power_of_two((uint8_t)(e + 128 - 11));
}

fy_quants fy_quants_nvfp4(const uint8_t *row, int64_t b)
{
    READ_BLOCK(nvfp4, w, 2);
    const int s = (int)(b % 2) * 2;
    fy_quants out = {.d = half_of_e4m3(w.d[s]), .m = half_of_e4m3(w.d[s + 1]), .scale = {1, 1}};
    put_values(out.q, w.qs + s * 8, 8, fy_fp4_values);
    put_values(out.q + QK16, w.qs + (s + 1) * 8, 8, fy_fp4_values);
    return out;
}

/* --- one or two bits
 * ------------------------------------------------------------------------------ */

fy_quants fy_quants_q1_0(const uint8_t *row, int64_t b)
{
    enum { SUBS = FY_QK_Q1_0 / FY_QK };
    READ_BLOCK(q1_0, w, SUBS);
    const uint8_t *bits = w.qs + b % SUBS * (FY_QK / 8);
    fy_quants out = {.d = fy_f16_to_f32(w.d), .scale = {1, 1}};
    for (int i = 0; i < FY_QK; i++)
        out.q[i] = (int8_t)((bits[i / 8] >> i % 8 & 1) * 2 - 1);
    return out;
}

fy_quants fy_quants_q2_0(const uint8_t *row, int64_t b)
{
    enum { SUBS = FY_QK_Q2_0 / FY_QK };
    READ_BLOCK(q2_0, w, SUBS);
    const uint8_t *bits = w.qs + b % SUBS * (FY_QK / 4);
    fy_quants out = {.d = fy_f16_to_f32(w.d), .scale = {1, 1}};
    for (int i = 0; i < FY_QK; i++)
        out.q[i] = (int8_t)((bits[i / 4] >> i % 4 * 2 & 3) - 1);
    return out;
}

/* Digit n of a byte that is the fraction of 256 with these digits to the base of 3. */
static int digit(uint8_t byte, int n)
{
    static const uint8_t powers[] = {1, 3, 9, 27, 81};
    const uint8_t rest = (uint8_t)(byte * powers[n]);
    return rest * 3 >> 8;
}

fy_quants fy_quants_tq1_0(const uint8_t *row, int64_t b)
{
    READ_BLOCK(tq1_0, w, FY_K_SUBS);
    const int first = (int)(b % FY_K_SUBS) * FY_QK;
    fy_quants out = {.d = fy_f16_to_f32(w.d), .scale = {1, 1}};
    for (int i = 0; i < FY_QK; i++) { /* 32 bytes for 160 elements, 16 for 80, 4 for 16 */
        const int e = first + i;
        const int d = e < 160   ? digit(w.qs[e % 32], e / 32)
                      : e < 240 ? digit(w.qs[32 + e % 16], (e - 160) / 16)
                                : digit(w.qh[e % 4], (e - 240) / 4);
        out.q[i] = (int8_t)(d - 1);
    }
    return out;
}

fy_quants fy_quants_tq2_0(const uint8_t *row, int64_t b)
{
    READ_BLOCK(tq2_0, w, FY_K_SUBS);
    fy_quants out = {.d = fy_f16_to_f32(w.d), .scale = {1, 1}};
    for (int i = 0; i < FY_QK; i++)
        out.q[i] = (int8_t)(two_bits(w.qs, (int)(b % FY_K_SUBS), i) - 1);
    return out;
}

/* --- rows of a table
 * ------------------------------------------------------------------------------ */

static uint32_t dword(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Of eight signs the last is what makes their number even. */
static int even_signs(uint32_t seven)
{
    const uint32_t bits = seven & 127;
    return (int)(bits | (uint32_t)(__builtin_popcount(bits) & 1) << 7);
}

/* Eight elements of iq2. */
static void put_iq2(int8_t *q, uint16_t levels, int signs)
{
    for (int i = 0; i < 8; i++) {
        const int8_t v = fy_iq2_levels[levels >> 2 * i & 3];
        q[i] = (int8_t)(signs >> i & 1 ? -v : v);
    }
}

static int8_t odd(uint32_t n) /* iq types scale by 2 n + 1 */
{
    return (int8_t)(2 * n + 1);
}

fy_quants fy_quants_iq2_xxs(const uint8_t *row, int64_t b)
{
    READ_BLOCK(iq2_xxs, w, FY_K_SUBS);
    const uint8_t *p = (const uint8_t *)w.qs + b % FY_K_SUBS * 8;
    const uint32_t rest = dword(p + 4);
    fy_quants out = {.d = fy_f16_to_f32(w.d) * 0.125f, .scale = {odd(rest >> 28), odd(rest >> 28)}};
    for (int l = 0; l < 4; l++)
        put_iq2(out.q + 8 * l, fy_grid_iq2_xxs[p[l]], even_signs(rest >> 7 * l));
    return out;
}

/* Two nibbles of scales. */
static fy_quants iq2_scales(uint16_t d, uint8_t scales)
{
    return (fy_quants){.d = fy_f16_to_f32(d) * 0.125f,
                       .scale = {odd(scales & 15), odd(scales >> 4)}};
}

fy_quants fy_quants_iq2_xs(const uint8_t *row, int64_t b)
{
    READ_BLOCK(iq2_xs, w, FY_K_SUBS);
    const int s = (int)(b % FY_K_SUBS);
    fy_quants out = iq2_scales(w.d, w.scales[s]);
    for (int l = 0; l < 4; l++) {
        const uint16_t q = w.qs[4 * s + l];
        put_iq2(out.q + 8 * l, fy_grid_iq2_xs[q & 511], even_signs(q >> 9));
    }
    return out;
}

fy_quants fy_quants_iq2_s(const uint8_t *row, int64_t b)
{
    READ_BLOCK(iq2_s, w, FY_K_SUBS);
    const int s = (int)(b % FY_K_SUBS);
    fy_quants out = iq2_scales(w.d, w.scales[s]);
    for (int l = 0; l < 4; l++) {
        const int index = w.qs[4 * s + l] | (w.qh[s] >> 2 * l & 3) << 8;
        put_iq2(out.q + 8 * l, fy_grid_iq2_s[index], w.signs[4 * s + l]);
    }
    return out;
}

/* Four elements of a row of iq3. */
static void put_iq3(int8_t *q, uint16_t levels, const int8_t values[8], int signs)
{
    for (int i = 0; i < 4; i++) {
        const int8_t v = values[levels >> 3 * i & 7];
        q[i] = (int8_t)(signs >> i & 1 ? -v : v);
    }
}

fy_quants fy_quants_iq3_xxs(const uint8_t *row, int64_t b)
{
    READ_BLOCK(iq3_xxs, w, FY_K_SUBS);
    const int s = (int)(b % FY_K_SUBS);
    const uint32_t rest = dword(w.signs + 4 * s);
    fy_quants out = {.d = fy_f16_to_f32(w.d) * 0.25f, .scale = {odd(rest >> 28), odd(rest >> 28)}};
    for (int l = 0; l < 8; l++) {
        const int signs = even_signs(rest >> 7 * (l / 2)) >> l % 2 * 4;
        put_iq3(out.q + 4 * l, fy_grid_iq3_xxs[w.qs[8 * s + l]], fy_iq3_xxs_levels, signs);
    }
    return out;
}

fy_quants fy_quants_iq3_s(const uint8_t *row, int64_t b)
{
    static const int8_t levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    READ_BLOCK(iq3_s, w, FY_K_SUBS);
    const int s = (int)(b % FY_K_SUBS);
    const int8_t scale = odd(w.scales[s / 2] >> s % 2 * 4 & 15);
    fy_quants out = {.d = fy_f16_to_f32(w.d), .scale = {scale, scale}};
    for (int l = 0; l < 8; l++) {
        const int index = w.qs[8 * s + l] | (w.qh[s] >> l & 1) << 8;
        put_iq3(out.q + 4 * l, fy_grid_iq3_s[index], levels, w.signs[4 * s + l / 2] >> l % 2 * 4);
    }
    return out;
}

/* Eight elements of iq1, eight times as large: -8, 0 or 8, and 1 more or less. */
static void put_iq1(int8_t *q, int index, bool less)
{
    const uint16_t levels = fy_grid_iq1[index];
    for (int i = 0; i < 8; i++)
        q[i] = (int8_t)(((levels >> 2 * i & 3) - 1) * 8 + (less ? -1 : 1));
}

fy_quants fy_quants_iq1_s(const uint8_t *row, int64_t b)
{
    READ_BLOCK(iq1_s, w, FY_K_SUBS);
    const int s = (int)(b % FY_K_SUBS);
    const uint32_t high = w.qh[s];
    const int8_t scale = odd(high >> 12 & 7);
    fy_quants out = {.d = fy_f16_to_f32(w.d) * 0.125f, .scale = {scale, scale}};
    for (int l = 0; l < 4; l++)
        put_iq1(out.q + 8 * l, (int)(w.qs[4 * s + l] | (high >> 3 * l & 7) << 8), high >> 15);
    return out;
}

fy_quants fy_quants_iq1_m(const uint8_t *row, int64_t b)
{
    READ_BLOCK(iq1_m, w, FY_K_SUBS);
    const int s = (int)(b % FY_K_SUBS);
    uint16_t scales[4], d = 0;
    memcpy(scales, w.scales, sizeof scales);
    for (int i = 0; i < 4; i++)
        d = (uint16_t)(d | scales[i] >> 12 << 4 * i);
    const uint32_t both = (uint32_t)scales[s / 2] >> s % 2 * 6;
    fy_quants out = {.d = fy_f16_to_f32(d) * 0.125f, .scale = {odd(both & 7), odd(both >> 3 & 7)}};
    for (int l = 0; l < 4; l++) {
        const int high = w.qh[2 * s + l / 2] >> l % 2 * 4;
        put_iq1(out.q + 8 * l, w.qs[4 * s + l] | (high & 7) << 8, high & 8);
    }
    return out;
}
