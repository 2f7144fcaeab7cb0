/* What the checks know of block types on their own: where an element's bits lie and what they mean,
 * and blocks of random bytes. */
#include <string.h>

#include "tests/kcheck/kernel_check.h"

/* The f16 numbers of a block. */
static const struct {
    fy_type type;
    int n;
    size_t at[2];
} half_fields[] = {
    {FY_Q8_0, 1, {0}},    {FY_Q4_0, 1, {0}},    {FY_Q4_1, 2, {0, 2}}, {FY_Q5_0, 1, {0}},
    {FY_Q5_1, 2, {0, 2}}, {FY_Q4_K, 2, {0, 2}}, {FY_Q5_K, 2, {0, 2}}, {FY_Q6_K, 1, {208}},
};
enum { N_HALF_FIELDS = sizeof half_fields / sizeof half_fields[0] };

void fy_kc_set_scales(fy_type type, uint8_t *block, uint16_t d, uint16_t m)
{
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
    default:
        return k_element(p, i, type == FY_Q5_K);
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

void fy_kc_decode(const fy_kernels *k, fy_type type, float *y, const void *x, int64_t n)
{
    switch ((int)type) {
    case FY_Q8_0:
        k->decode_q8_0(y, x, n);
        break;
    case FY_Q4_0:
        k->decode_q4_0(y, x, n);
        break;
    case FY_Q4_1:
        k->decode_q4_1(y, x, n);
        break;
    case FY_Q5_0:
        k->decode_q5_0(y, x, n);
        break;
    case FY_Q5_1:
        k->decode_q5_1(y, x, n);
        break;
    case FY_Q4_K:
        k->decode_q4_k(y, x, n);
        break;
    case FY_Q5_K:
        k->decode_q5_k(y, x, n);
        break;
    default:
        k->decode_q6_k(y, x, n);
        break;
    }
}

void fy_kc_encode(const fy_kernels *k, fy_type type, void *y, const float *x, int64_t n)
{
    switch ((int)type) {
    case FY_Q8_0:
        k->encode_q8_0(y, x, n);
        break;
    case FY_Q4_0:
        k->encode_q4_0(y, x, n);
        break;
    case FY_Q4_1:
        k->encode_q4_1(y, x, n);
        break;
    case FY_Q5_0:
        k->encode_q5_0(y, x, n);
        break;
    case FY_Q5_1:
        k->encode_q5_1(y, x, n);
        break;
    case FY_Q4_K:
        k->encode_q4_k(y, x, n);
        break;
    case FY_Q5_K:
        k->encode_q5_k(y, x, n);
        break;
    default:
        k->encode_q6_k(y, x, n);
        break;
    }
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
