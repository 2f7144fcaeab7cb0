/* What the checks know of block types on their own: where an element's bits lie and what they mean,
 * and blocks of random bytes. */
#include <math.h>
#include <string.h>

#include "tests/kcheck/kernel_check.h"

/* The f16 numbers of a block. */
static const struct {
    fy_type type;
    int n;
    size_t at[2];
} half_fields[] = {
    {FY_Q8_0, 1, {0}},      {FY_Q4_0, 1, {0}},    {FY_Q4_1, 2, {0, 2}}, {FY_Q5_0, 1, {0}},
    {FY_Q5_1, 2, {0, 2}},   {FY_Q4_K, 2, {0, 2}}, {FY_Q5_K, 2, {0, 2}}, {FY_Q6_K, 1, {208}},
    {FY_Q2_K, 2, {80, 82}}, {FY_Q3_K, 1, {108}},  {FY_IQ4_NL, 1, {0}},  {FY_IQ4_XS, 1, {0}},
    {FY_Q1_0, 1, {0}},      {FY_Q2_0, 1, {0}},    {FY_TQ1_0, 1, {52}},  {FY_TQ2_0, 1, {64}},
    {FY_IQ1_S, 1, {0}},     {FY_IQ2_XXS, 1, {0}}, {FY_IQ2_XS, 1, {0}},  {FY_IQ2_S, 1, {0}},
    {FY_IQ3_XXS, 1, {0}},   {FY_IQ3_S, 1, {0}},
};
enum { N_HALF_FIELDS = sizeof half_fields / sizeof half_fields[0] };

void fy_kc_set_scales(fy_type type, uint8_t *block, uint16_t d, uint16_t m)
{
    if (type == FY_MXFP4) /* a power of two of about that size */
        block[0] = (uint8_t)(127 - 15 + (d >> 10 & 31) + 1);
    for (int i = 0; i < 4 && type == FY_IQ1_M; i++)
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (d >> 4 * i & 15) << 4);
    for (int i = 0; i < 4 && type == FY_NVFP4; i++)
        block[i] = (uint8_t)(block[i] & 0x7f);
    for (int i = 0; i < N_HALF_FIELDS; i++) {
        if (half_fields[i].type != type)
            continue;
        memcpy(block + half_fields[i].at[0], &d, sizeof d);
        if (half_fields[i].n > 1)
            memcpy(block + half_fields[i].at[1], &m, sizeof m);
    }
}

static double half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return (double)fy_f16_to_f32(h);
}

static int nibble(const uint8_t *p, int i) /* of 16 bytes: low ones first */
{
    return i < 16 ? p[i] & 15 : p[i - 16] >> 4;
}

static int bit(const uint8_t *p, int i)
{
    return p[i / 8] >> i % 8 & 1;
}

/* q4_K and q5_K: number `s` of the 16 that are packed in twelve bytes, scales before minimums. */
static int six_bits(const uint8_t *p, int s, bool min)
{
    const int low = s < 4 ? p[s + 4 * min] & 63 : p[s + 4] >> 4 * min & 15;
    return s < 4 ? low : low + (p[s - 4 + 4 * min] >> 6) * 16;
}

static fy_kc_element k_element(const uint8_t *p, int i, bool five)
{
    const int s = i / 32, l = i % 32;
    const uint8_t *qs = p + (five ? 48 : 16) + s / 2 * 32;
    const int q = (s % 2 ? qs[l] >> 4 : qs[l] & 15) + (five ? (p[16 + l] >> s & 1) * 16 : 0);
    return (fy_kc_element){q, half_at(p) * six_bits(p + 4, s, false),
                           -(half_at(p + 2) * six_bits(p + 4, s, true)), true};
}

static fy_kc_element q6_k_element(const uint8_t *p, int i)
{
    const int half = i / 128, s = i % 128 / 32, l = i % 32;
    const uint8_t low = p[64 * half + 32 * (s % 2) + l];
    const int high = p[128 + 32 * half + l] >> 2 * s & 3;
    return (fy_kc_element){(s < 2 ? low & 15 : low >> 4) + 16 * high - 32,
                           half_at(p + 208) * (int8_t)p[192 + i / 16], 0, false};
}

static int two_bits(const uint8_t *p, int i) /* of q2_K, q3_K and tq2_0 */
{
    return p[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static fy_kc_element q2_k_element(const uint8_t *p, int i)
{
    const uint8_t both = p[i / 16];
    return (fy_kc_element){two_bits(p + 16, i), half_at(p + 80) * (both & 15),
                           -(half_at(p + 82) * (both >> 4)), true};
}

static fy_kc_element q3_k_element(const uint8_t *p, int i)
{
    const int g = i / 16, low = g < 8 ? p[96 + g] & 15 : p[96 + g - 8] >> 4;
    const int scale = low + 16 * (p[104 + g % 4] >> g / 4 * 2 & 3) - 32;
    return (fy_kc_element){two_bits(p + 32, i) - (p[i % 32] >> i / 32 & 1 ? 0 : 4),
                           half_at(p + 108) * scale, 0, false};
}

static fy_kc_element iq4_element(const uint8_t *p, int i, bool super)
{
    static const int values[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};
    const int s = i / 32;
    const int scale = (p[4 + s / 2] >> s % 2 * 4 & 15) + 16 * ((p[2] + 256 * p[3]) >> 2 * s & 3);
    return super ? (fy_kc_element){values[nibble(p + 8 + 16 * s, i % 32)],
                                   half_at(p) * (scale - 32), 0, false}
                 : (fy_kc_element){values[nibble(p + 2, i)], half_at(p), 0, false};
}

static fy_kc_element fp4_element(int code, double scale)
{
    static const int values[] = {0, 1, 2, 3, 4, 6, 8, 12};
    return (fy_kc_element){code & 8 ? -values[code & 7] : values[code & 7], scale, 0, false};
}

static double nvfp4_scale(uint8_t e4m3)
{
    const int e = e4m3 >> 3 & 15, m = e4m3 & 7;
    return e4m3 == 0x7f ? 0 : e == 0 ? ldexp(m, -10) : ldexp(8 + m, e - 11);
}

/* The types of tables, which are written down in one place: as the specification decodes them. What
 * it gives is that of ggml in tests/unit/kernels/golden_decode_table.h. */
static fy_kc_element table_element(fy_type type, const uint8_t *p, int i)
{
    static _Thread_local uint8_t block[FY_QK_K];
    static _Thread_local float y[FY_QK_K];
    static _Thread_local fy_type last = FY_TYPE_COUNT;
    const fy_type_info *info = fy_type_get((uint32_t)type);
    if (type != last || memcmp(block, p, info->bytes) != 0) {
        const fy_kernels spec = fy_kernels_for(0);
        last = type;
        memcpy(block, p, info->bytes);
        fy_kc_decode(&spec, type, y, block, info->block);
    }
    return (fy_kc_element){1, (double)y[i], 0, false};
}

fy_kc_element fy_kc_element_at(fy_type type, const uint8_t *row, int64_t index)
{
    const fy_type_info *info = fy_type_get((uint32_t)type);
    const uint8_t *p = row + index / info->block * info->bytes;
    const int i = (int)(index % info->block);
    switch ((int)type) {
    case FY_Q8_0:
        return (fy_kc_element){(int8_t)p[2 + i], half_at(p), 0, false};
    case FY_Q4_0:
        return (fy_kc_element){nibble(p + 2, i) - 8, half_at(p), 0, false};
    case FY_Q4_1:
        return (fy_kc_element){nibble(p + 4, i), half_at(p), half_at(p + 2), true};
    case FY_Q5_0:
        return (fy_kc_element){nibble(p + 6, i) + 16 * bit(p + 2, i) - 16, half_at(p), 0, false};
    case FY_Q5_1:
        return (fy_kc_element){nibble(p + 8, i) + 16 * bit(p + 4, i), half_at(p), half_at(p + 2),
                               true};
    case FY_Q6_K:
        return q6_k_element(p, i);
    case FY_Q4_K:
    case FY_Q5_K:
        return k_element(p, i, type == FY_Q5_K);
    case FY_Q2_K:
        return q2_k_element(p, i);
    case FY_Q3_K:
        return q3_k_element(p, i);
    case FY_IQ4_NL:
    case FY_IQ4_XS:
        return iq4_element(p, i, type == FY_IQ4_XS);
    case FY_MXFP4:
        return fp4_element(nibble(p + 1, i), ldexp(1, p[0] - 128));
    case FY_NVFP4:
        return fp4_element(p[4 + i / 16 * 8 + i % 8] >> i % 16 / 8 * 4 & 15,
                           nvfp4_scale(p[i / 16]));
    case FY_Q1_0:
        return (fy_kc_element){bit(p + 2, i) ? 1 : -1, half_at(p), 0, false};
    case FY_Q2_0:
        return (fy_kc_element){(p[2 + i / 4] >> i % 4 * 2 & 3) - 1, half_at(p), 0, false};
    case FY_TQ2_0:
        return (fy_kc_element){two_bits(p, i) - 1, half_at(p + 64), 0, false};
    default:
        return table_element(type, p, i);
    }
}

/* --- random blocks --- */

static uint16_t pick_scale(fy_kc_random *r, fy_kc_fill how)
{
    static const uint16_t odd_scales[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff,
                                          0xfbff, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00};
    const float usual = fy_kc_usual_scale(r);
    if (how == FY_KC_ODD) /* seldom infinite or NaN: such a row checks nothing else */
        return odd_scales[fy_kc_between(r, 0, fy_kc_between(r, 0, 99) == 0 ? 11 : 8)];
    return fy_f32_to_f16((fy_kc_next(r) & 1) ? usual : -usual);
}

float fy_kc_usual_scale(fy_kc_random *r)
{
    return 0.01f * (1.5f + fy_kc_uniform(r));
}

bool fy_kc_pick_high(fy_kc_random *r, int pattern, int i)
{
    return pattern == 3 ? (fy_kc_next(r) & 1) != 0 : pattern == 2 ? (i & 1) != 0 : pattern == 1;
}

void fy_kc_fill_block(fy_kc_random *r, fy_type type, fy_kc_fill how, uint8_t *block)
{
    const int n = fy_type_get((uint32_t)type)->bytes;
    const int pattern = fy_kc_between(r, 0, 3);
    for (int i = 0; i < n; i++) {
        const bool is_signed = type == FY_Q8_0 || (type == FY_Q6_K && i >= 192);
        const bool high = how == FY_KC_ENDS && fy_kc_pick_high(r, pattern, i);
        if (how == FY_KC_ENDS)
            block[i] = is_signed ? (high ? 0x7f : 0x80) : (high ? 0xff : 0x00);
        else
            block[i] = (uint8_t)fy_kc_next(r);
    }
    const uint16_t d = pick_scale(r, how);
    fy_kc_set_scales(type, block, d, pick_scale(r, how));
}

/* --- coders --- */

enum { MAX_BLOCKS = 40 };

/* X(type's id, its name in the members of fy_kernels) */
#define WRITTEN(X)                                                                       \
    X(FY_Q8_0, q8_0)                                                                     \
    X(FY_Q4_0, q4_0)                                                                     \
    X(FY_Q4_1, q4_1) X(FY_Q5_0, q5_0) X(FY_Q5_1, q5_1) X(FY_Q4_K, q4_k) X(FY_Q5_K, q5_k) \
        X(FY_Q6_K, q6_k)
#define READ_ONLY(X)                                                                               \
    X(FY_Q2_K, q2_k)                                                                               \
    X(FY_Q3_K, q3_k)                                                                               \
    X(FY_IQ4_NL, iq4_nl) X(FY_IQ4_XS, iq4_xs) X(FY_MXFP4, mxfp4) X(FY_NVFP4, nvfp4)                \
        X(FY_Q1_0, q1_0) X(FY_Q2_0, q2_0) X(FY_TQ1_0, tq1_0) X(FY_TQ2_0, tq2_0) X(FY_IQ1_S, iq1_s) \
            X(FY_IQ1_M, iq1_m) X(FY_IQ2_XXS, iq2_xxs) X(FY_IQ2_XS, iq2_xs) X(FY_IQ2_S, iq2_s)      \
                X(FY_IQ3_XXS, iq3_xxs) X(FY_IQ3_S, iq3_s)

void fy_kc_decode(const fy_kernels *k, fy_type type, float *y, const void *x, int64_t n)
{
#define CASE(id, name)             \
    case id:                       \
        k->decode_##name(y, x, n); \
        break;
    switch ((int)type) {
        WRITTEN(CASE)
        READ_ONLY(CASE)
    default:
        break;
    }
#undef CASE
}

void fy_kc_encode(const fy_kernels *k, fy_type type, void *y, const float *x, int64_t n)
{
#define CASE(id, name)             \
    case id:                       \
        k->encode_##name(y, x, n); \
        break;
    switch ((int)type) {
        WRITTEN(CASE)
    default:
        break;
    }
#undef CASE
}

/* Every f16 scale, also not finite, one of eight for the super-blocks, with any minimum and bytes.
 * Codes times scales are exact in f32; with a minimum the sum is, in double: multiples of 2^-24
 * below 2^28. */
bool fy_kc_decode_exact(fy_kc_case *t)
{
    const fy_type_info *info = fy_type_get((uint32_t)t->type);
    const int step = info->block / FY_QK, first = fy_kc_between(&t->random, 0, step - 1);
    uint8_t *blocks = t->work;
    for (int scale = first, n; scale < 65536; scale += n * step) {
        n = fy_kc_between(&t->random, 1, MAX_BLOCKS);
        n = n < (65535 - scale) / step + 1 ? n : (65535 - scale) / step + 1;
        for (int b = 0; b < n; b++) {
            uint8_t *block = blocks + (size_t)b * info->bytes;
            fy_kc_fill_block(&t->random, t->type, FY_KC_USUAL, block);
            fy_kc_set_scales(t->type, block, (uint16_t)(scale + b * step),
                             (uint16_t)fy_kc_next(&t->random));
        }
        const int n_elems = n * info->block;
        const void *x = fy_kc_place_copy(t, FY_KC_X, blocks, (size_t)n * info->bytes);
        float *y = fy_kc_place(t, FY_KC_V, (size_t)n_elems * sizeof *y);
        fy_kc_decode(&t->k, t->type, y, x, n_elems);
        for (int e = 0; e < n_elems; e++) {
            const fy_kc_element v = fy_kc_element_at(t->type, blocks, e);
            const double product = v.scale * v.q;
            const float want = (float)(v.has_min ? product + v.min : product);
            if (!fy_kc_same(y[e], want))
                return fy_kc_fail(t, "%d * %.9g + %.9g is %.9g, expected %.9g", v.q, v.scale, v.min,
                                  (double)y[e], (double)want);
        }
    }
    return true;
}
