/* q4_K, q5_K and q6_K rows. The four lanes are four groups of 16 or sub-blocks of 32 elements, so
 * that each lane takes the steps of encode_k_scalar.c in their order and arrives at their bytes.
 * Bound by the floating-point units: per four elements and candidate 9 operations for q6_K's 19
 * candidates, 17 for the 22 of q4_K and the 17 of q5_K. */
#include <string.h>

#include "kernels/arm/vec_neon.h"
#include "kernels/kernel_impl.h"
#include "kernels/scalar/encode_k_scalar.h"

enum { LANES = 4, GROUP = FY_Q6_K_GROUP };

/* i = 0 .. n-1, n a multiple of four, four to a turn. */
#define FOR_EACH(i, n)                           \
    for (int i##_0 = 0; i##_0 < (n); i##_0 += 4) \
        FY_UNROLL                                \
    for (int i = i##_0; i < i##_0 + 4; i++)

/* out[i] = element i of four runs of n elements, one after the other. */
FY_INLINE void load_lanes(float32x4_t *out, const float *x, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + n + i);
        const float32x4_t c = vld1q_f32(x + 2 * n + i), d = vld1q_f32(x + 3 * n + i);
        const float64x2_t ab[2] = {vreinterpretq_f64_f32(vtrn1q_f32(a, b)),
                                   vreinterpretq_f64_f32(vtrn2q_f32(a, b))};
        const float64x2_t cd[2] = {vreinterpretq_f64_f32(vtrn1q_f32(c, d)),
                                   vreinterpretq_f64_f32(vtrn2q_f32(c, d))};
        out[i] = vreinterpretq_f32_f64(vzip1q_f64(ab[0], cd[0]));
        out[i + 1] = vreinterpretq_f32_f64(vzip1q_f64(ab[1], cd[1]));
        out[i + 2] = vreinterpretq_f32_f64(vzip2q_f64(ab[0], cd[0]));
        out[i + 3] = vreinterpretq_f32_f64(vzip2q_f64(ab[1], cd[1]));
    }
}

FY_INLINE float32x4_t select_mask(uint32x4_t mask, float32x4_t v)
{
    return vreinterpretq_f32_u32(vandq_u32(mask, vreinterpretq_u32_f32(v)));
}

/* As fy_k_nearest_between, for any v: of the sum only the mantissa counts. */
FY_INLINE float32x4_t nearest_between(float32x4_t v, float low, float high)
{
    const float32x4_t zero = vdupq_n_f32(12582912.0f);
    const float32x4_t sum = vbslq_f32(vdupq_n_u32(0x007fffff), vaddq_f32(v, zero), zero);
    const float32x4_t q = vminq_f32(vmaxq_f32(sum, vaddq_f32(zero, vdupq_n_f32(low))),
                                    vaddq_f32(zero, vdupq_n_f32(high)));
    return vsubq_f32(q, zero);
}

/* The same of |v| < 2^22, but that a code of 0 may be -0. */
FY_INLINE float32x4_t small_nearest_between(float32x4_t v, float low, float high)
{
    return vrndnq_f32(vminq_f32(vmaxq_f32(v, vdupq_n_f32(low)), vdupq_n_f32(high)));
}

/* --- q6_K ------------------------------------------------------------------------------------ */

typedef struct {
    float32x4_t x[GROUP], x2[GROUP], x3[GROUP]; /* element i of every group, and its powers */
} powers;

typedef struct {
    float32x4_t xq, qq;
} sums;

/* Element i joins the sums of the codes that an inverse scale gives. No value times its group's
 * inverse scale is beyond 33, and a code of -0 changes no sum. */
FY_INLINE void add_element(sums *s, const powers *p, int i, float32x4_t inverse)
{
    const float32x4_t q = small_nearest_between(vmulq_f32(inverse, p->x[i]), -32, 31);
    s->xq = vaddq_f32(s->xq, vmulq_f32(p->x3[i], q));
    s->qq = vaddq_f32(s->qq, vmulq_f32(vmulq_f32(p->x2[i], q), q));
}

/* The scales of four groups, and the inverse scales that gave their codes; 0 and 0 where there is
 * nothing. */
static void search_groups(float scales[LANES], float inverses[LANES], const float *values)
{
    enum { AT_ONCE = 3 }; /* candidates, which share the loads */
    powers p;
    float32x4_t m = vdupq_n_f32(0);
    load_lanes(p.x, values, GROUP);
    for (int i = 0; i < GROUP; i++) {
        p.x2[i] = vmulq_f32(p.x[i], p.x[i]);
        p.x3[i] = vmulq_f32(p.x2[i], p.x[i]);
        m = vbslq_f32(vcagtq_f32(p.x[i], m), p.x[i], m);
    }
    const sums none = {vdupq_n_f32(0), vdupq_n_f32(0)};
    float32x4_t candidate[AT_ONCE], inverse = vdivq_f32(vdupq_n_f32(-32), m);
    sums first = none, s[AT_ONCE];
    FOR_EACH(i, GROUP)
    add_element(&first, &p, i, inverse);
    float32x4_t scale = select_mask(vmvnq_u32(vceqzq_f32(first.qq)), vdivq_f32(first.xq, first.qq));
    float32x4_t best = vmulq_f32(scale, first.xq);
    for (int step = -9; step <= 7; step += step == -AT_ONCE ? AT_ONCE + 1 : AT_ONCE) {
        FY_UNROLL
        for (int c = 0; c < AT_ONCE; c++) {
            candidate[c] = vdivq_f32(vdupq_n_f32(-(32.0f + 0.1f * (float)(step + c))), m);
            s[c] = none;
        }
        FOR_EACH(i, GROUP)
        {
            add_element(&s[0], &p, i, candidate[0]);
            add_element(&s[1], &p, i, candidate[1]);
            add_element(&s[2], &p, i, candidate[2]);
        }
        FY_UNROLL
        for (int c = 0; c < AT_ONCE; c++) {
            const float32x4_t xq = s[c].xq, qq = s[c].qq, fit = vdivq_f32(xq, qq);
            const uint32x4_t better =
                vandq_u32(vcgtzq_f32(qq), vcgtq_f32(vmulq_f32(xq, xq), vmulq_f32(best, qq)));
            inverse = vbslq_f32(better, candidate[c], inverse);
            scale = vbslq_f32(better, fit, scale);
            best = vbslq_f32(better, vmulq_f32(fit, xq), best);
        }
    }
    const uint32x4_t something = vmvnq_u32(vcaltq_f32(m, vdupq_n_f32(FY_Q6_K_NOTHING)));
    vst1q_f32(scales, select_mask(something, scale));
    vst1q_f32(inverses, select_mask(something, inverse));
}

/* Four codes of values over d, or times it. */
FY_INLINE int32x4_t q6_quants(const float *x, float d, bool over)
{
    const float32x4_t v = vld1q_f32(x), by = vdupq_n_f32(d);
    return vcvtq_s32_f32(nearest_between(over ? vdivq_f32(v, by) : vmulq_f32(v, by), -32, 31));
}

/* A group's, with the offset they have in the file. */
FY_INLINE void put_group(uint8_t q[GROUP], const float *x, float d, bool over)
{
    int32x4_t wide[GROUP / LANES];
    FY_UNROLL
    for (int i = 0; i < GROUP / LANES; i++)
        wide[i] = q6_quants(x + i * LANES, d, over);
    vst1q_u8(q, vaddq_u8(vreinterpretq_u8_s8(low_bytes(wide)), vdupq_n_u8(32)));
}

/* Codes 0 .. 63 of 128 elements into their places. */
FY_INLINE void pack_half(uint8_t ql[64], uint8_t qh[FY_QK], const uint8_t q[128])
{
    FY_UNROLL
    for (int i = 0; i < FY_QK; i += 16) {
        const uint8x16_t a = vld1q_u8(q + i), b = vld1q_u8(q + FY_QK + i);
        const uint8x16_t c = vld1q_u8(q + 2 * FY_QK + i), d = vld1q_u8(q + 3 * FY_QK + i);
        vst1q_u8(ql + i, vsliq_n_u8(a, c, 4));
        vst1q_u8(ql + FY_QK + i, vsliq_n_u8(b, d, 4));
        const uint8x16_t low = vsliq_n_u8(vshrq_n_u8(a, 4), vshrq_n_u8(b, 4), 2);
        const uint8x16_t high = vsliq_n_u8(vshrq_n_u8(c, 4), vshrq_n_u8(d, 4), 2);
        vst1q_u8(qh + i, vsliq_n_u8(low, high, 4));
    }
}

static void encode_q6_k_block(fy_block_q6_k *y, const float *x)
{
    uint8_t q[FY_QK_K];
    float scales[FY_Q6_K_GROUPS], inverses[FY_Q6_K_GROUPS], step[FY_Q6_K_GROUPS];
    for (int g = 0; g < FY_Q6_K_GROUPS; g += LANES)
        search_groups(scales + g, inverses + g, x + g * GROUP);
    if (!fy_q6_k_round_scales(y, step, scales))
        return;
    for (int g = 0; g < FY_Q6_K_GROUPS; g++) {
        if (step[g] != 0.0f)
            put_group(q + g * GROUP, x + g * GROUP, step[g], true);
        else if (inverses[g] != 0.0f)
            put_group(q + g * GROUP, x + g * GROUP, inverses[g], false);
        else
            memset(q + g * GROUP, 0, GROUP);
    }
    for (int half = 0; half < 2; half++)
        pack_half(y->ql + half * 64, y->qh + half * FY_QK, q + half * 128);
}

void fy_encode_q6_k__neon(fy_block_q6_k *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        encode_q6_k_block(y + b, x + b * FY_QK_K);
}

/* --- q4_K, q5_K ------------------------------------------------------------------------------ */

/* Element i of every sub-block, what it weighs, and a code for it. */
typedef struct {
    float32x4_t x[FY_QK], weight[FY_QK], q[FY_QK];
    float32x4_t lowest, highest;
    float32x4_t w, wx; /* sums of the weights and of weights times values */
} subs;

typedef struct {
    float32x4_t scale, min; /* value scale * q + min, min <= 0 */
} line;

FY_INLINE void fill_subs(subs *s, const float *values)
{
    float32x4_t squares = vdupq_n_f32(0);
    load_lanes(s->x, values, FY_QK);
    for (int i = 0; i < FY_QK; i++)
        squares = vaddq_f32(squares, vmulq_f32(s->x[i], s->x[i]));
    const float32x4_t mean = vsqrtq_f32(vdivq_f32(squares, vdupq_n_f32(FY_QK)));
    s->lowest = s->highest = s->x[0];
    s->w = s->wx = vdupq_n_f32(0);
    FOR_EACH(i, FY_QK)
    {
        s->weight[i] = vaddq_f32(mean, vabsq_f32(s->x[i]));
        s->lowest = vminq_f32(s->lowest, s->x[i]);
        s->highest = vmaxq_f32(s->highest, s->x[i]);
        s->w = vaddq_f32(s->w, s->weight[i]);
        s->wx = vaddq_f32(s->wx, vmulq_f32(s->weight[i], s->x[i]));
    }
}

/* Sums over the elements, weighted: of the codes, their squares, their products with the values.
 */
typedef struct {
    float32x4_t l, l2, xl;
} quant_sums;

FY_INLINE quant_sums put_quants_as(subs *s, float32x4_t inverse, float32x4_t base, int top,
                                   bool small)
{
    const float32x4_t zero = vdupq_n_f32(0);
    quant_sums t = {zero, zero, zero};
    FOR_EACH(i, FY_QK)
    {
        const float32x4_t v = vmulq_f32(inverse, vsubq_f32(s->x[i], base));
        const float32x4_t q =
            small ? small_nearest_between(v, 0, (float)top) : nearest_between(v, 0, (float)top);
        const float32x4_t wq = vmulq_f32(s->weight[i], q);
        s->q[i] = q;
        t.l = vaddq_f32(t.l, wq);
        t.l2 = vaddq_f32(t.l2, vmulq_f32(wq, q));
        t.xl = vaddq_f32(t.xl, vmulq_f32(wq, s->x[i]));
    }
    return t;
}

/* The codes of inverse * (x - base), which is monotonous in x: all are small if the ends are. */
FY_INLINE quant_sums put_quants(subs *s, float32x4_t inverse, float32x4_t base, int top)
{
    const float32x4_t low = vmulq_f32(inverse, vsubq_f32(s->lowest, base));
    const float32x4_t high = vmulq_f32(inverse, vsubq_f32(s->highest, base));
    const float32x4_t limit = vdupq_n_f32(0x1p22f);
    const uint32x4_t small = vandq_u32(vcaltq_f32(low, limit), vcaltq_f32(high, limit));
    return vminvq_u32(small) != 0 ? put_quants_as(s, inverse, base, top, true)
                                  : put_quants_as(s, inverse, base, top, false);
}

FY_INLINE float32x4_t error_of(const subs *s, line f)
{
    float32x4_t error = vdupq_n_f32(0);
    FOR_EACH(i, FY_QK)
    {
        const float32x4_t v = vaddq_f32(vmulq_f32(f.scale, s->q[i]), f.min);
        const float32x4_t diff = vsubq_f32(v, s->x[i]);
        error = vaddq_f32(error, vmulq_f32(s->weight[i], vmulq_f32(diff, diff)));
    }
    return error;
}

/* The scale and minimum that fit the codes best, where *valid. */
FY_INLINE line regress(uint32x4_t *valid, quant_sums t, const subs *s)
{
    const float32x4_t w = s->w, wx = s->wx;
    const float32x4_t det = vsubq_f32(vmulq_f32(w, t.l2), vmulq_f32(t.l, t.l));
    const float32x4_t scale = vsubq_f32(vmulq_f32(w, t.xl), vmulq_f32(wx, t.l));
    const float32x4_t min = vsubq_f32(vmulq_f32(t.l2, wx), vmulq_f32(t.l, t.xl));
    line f = {vdivq_f32(scale, det), vdivq_f32(min, det)};
    const uint32x4_t above = vcgtzq_f32(f.min);
    f.scale = vbslq_f32(above, vdivq_f32(t.xl, t.l2), f.scale);
    f.min = vbslq_f32(above, vdupq_n_f32(0), f.min);
    *valid = vcgtzq_f32(det);
    return f;
}

/* What was found for a superblock, and what gave the codes. */
typedef struct {
    float scales[FY_K_SUBS], mins[FY_K_SUBS];    /* value scale * q - min */
    float inverses[FY_K_SUBS], bases[FY_K_SUBS]; /* q = inverse * (value - base) */
} found;

/* Of four sub-blocks, from number `at` on. Where all values are the same every error is 0 and
 * nothing beats the scale of 1 / infinity. */
static void search_subs(found *out, int at, const fy_k_search *how, const float *values)
{
    subs s;
    fill_subs(&s, values + at * FY_QK);
    const float32x4_t min = vminq_f32(s.lowest, vdupq_n_f32(0)), top = vdupq_n_f32((float)how->top);
    float32x4_t inverse = vdivq_f32(top, vsubq_f32(s.highest, min)), base = min;
    line best = {vdivq_f32(vdupq_n_f32(1), inverse), min};
    put_quants(&s, inverse, base, how->top);
    float32x4_t best_error = error_of(&s, best);
    for (int step = 0; step <= how->steps; step++) {
        const float32x4_t from = best.min, range = vsubq_f32(s.highest, from);
        const float32x4_t candidate = vdivq_f32(vdupq_n_f32(fy_k_candidate(how, step)), range);
        uint32x4_t valid;
        const line f = regress(&valid, put_quants(&s, candidate, from, how->top), &s);
        const float32x4_t error = error_of(&s, f);
        const uint32x4_t better = vandq_u32(valid, vcltq_f32(error, best_error));
        best.scale = vbslq_f32(better, f.scale, best.scale);
        best.min = vbslq_f32(better, f.min, best.min);
        best_error = vbslq_f32(better, error, best_error);
        inverse = vbslq_f32(better, candidate, inverse);
        base = vbslq_f32(better, from, base);
    }
    vst1q_f32(out->scales + at, best.scale);
    vst1q_f32(out->mins + at, vnegq_f32(best.min));
    vst1q_f32(out->inverses + at, inverse);
    vst1q_f32(out->bases + at, base);
}

/* Codes of sub-block s, as they are in the file. */
FY_INLINE void put_sub(uint8_t q[FY_QK], const float *x, const fy_k_scales *k, const found *f,
                       int s, int top)
{
    const float32x4_t d = vdupq_n_f32(k->step[s]), m = vdupq_n_f32(k->min[s]);
    const float32x4_t inverse = vdupq_n_f32(f->inverses[s]), base = vdupq_n_f32(f->bases[s]);
    int32x4_t wide[FY_QK / LANES];
    FY_UNROLL
    for (int i = 0; i < FY_QK / LANES; i++) {
        const float32x4_t v = vld1q_f32(x + i * LANES);
        const float32x4_t scaled = k->step[s] != 0.0f ? vdivq_f32(vaddq_f32(v, m), d)
                                                      : vmulq_f32(inverse, vsubq_f32(v, base));
        wide[i] = vcvtq_s32_f32(nearest_between(scaled, 0, (float)top));
    }
    vst1q_u8(q, vreinterpretq_u8_s8(low_bytes(wide)));
    vst1q_u8(q + FY_QK / 2, vreinterpretq_u8_s8(low_bytes(wide + 4)));
}

static fy_k_scales encode_k(uint8_t q[FY_QK_K], const fy_k_search *how, const float *x)
{
    found f;
    for (int s = 0; s < FY_K_SUBS; s += LANES)
        search_subs(&f, s, how, x);
    const fy_k_scales k = fy_k_round_scales(f.scales, f.mins);
    for (int s = 0; s < FY_K_SUBS; s++)
        put_sub(q + s * FY_QK, x + s * FY_QK, &k, &f, s, how->top);
    return k;
}

/* The low four bits: the even sub-block of a pair in the low nibbles, the odd one in the high. */
FY_INLINE void put_nibbles(uint8_t qs[FY_QK_K / 2], const uint8_t q[FY_QK_K])
{
    for (int i = 0; i < FY_QK_K / 2; i += 16) {
        const uint8_t *even = q + i / FY_QK * 2 * FY_QK + i % FY_QK;
        vst1q_u8(qs + i, vsliq_n_u8(vld1q_u8(even), vld1q_u8(even + FY_QK), 4));
    }
}

/* Bit s of a byte is the fifth of sub-block s. */
FY_INLINE void put_fifth_bits(uint8_t qh[FY_QK], const uint8_t q[FY_QK_K])
{
    for (int i = 0; i < FY_QK; i += 16) {
        uint8x16_t bits = vdupq_n_u8(0);
        for (int s = 0; s < FY_K_SUBS; s++) {
            const uint8x16_t fifth = vshrq_n_u8(vld1q_u8(q + s * FY_QK + i), 4);
            bits = vorrq_u8(bits, vshlq_u8(fifth, vdupq_n_s8((int8_t)s)));
        }
        vst1q_u8(qh + i, bits);
    }
}

void fy_encode_q4_k__neon(fy_block_q4_k *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++) {
        uint8_t q[FY_QK_K];
        const fy_k_scales k = encode_k(q, &fy_q4_k_search, x + b * FY_QK_K);
        y[b].d = k.d;
        y[b].dmin = k.dmin;
        memcpy(y[b].scales, k.packed, sizeof k.packed);
        put_nibbles(y[b].qs, q);
    }
}

void fy_encode_q5_k__neon(fy_block_q5_k *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++) {
        uint8_t q[FY_QK_K];
        const fy_k_scales k = encode_k(q, &fy_q5_k_search, x + b * FY_QK_K);
        y[b].d = k.d;
        y[b].dmin = k.dmin;
        memcpy(y[b].scales, k.packed, sizeof k.packed);
        put_nibbles(y[b].qs, q);
        put_fifth_bits(y[b].qh, q);
    }
}
