/* The file encoders of the K types, and of all types that have one under an importance matrix, for
 * the lanes of the file that includes this (scalar/lanes_scalar.h): a lane is a group of elements
 * with a scale of its own, a block or sub-block of 32 or q6_K's 16, so that it takes the steps of
 * encode_k_scalar.c and encode_weighted_scalar.c in their order and arrives at their bytes. Such a
 * file also defines, before it includes this:
 *
 *   FY_L_ISA, FY_L_SMALLER          its name; whose kernels take less than fill its lanes
 *   FY_L_EACH(i, n)                 the head of a loop from 0 to n - 1, 16 or 32, partly unrolled
 *   FY_L_TOGETHER                   candidates of a scale that share their loads, a divisor of 18
 *   fy_l_codes                      32 codes of a row
 *   fy_l_quants(x, add, by, divide, top)   codes 0 .. top: nearest((x + add) / by), or * by
 *   fy_l_put_nibbles, fy_l_put_fifth_bits, fy_l_q6_quants, fy_l_q6_pack   bytes of a superblock
 *
 * Bound by the passes over the elements, one or two for each of 16 to 37 candidates, in L1. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"
#include "kernels/scalar/encode_k_scalar.h"

/* --- a scale and a minimum ------------------------------------------------------------------- */

enum {
    FY_L_SUPERS = (int)FY_LANES > FY_K_SUBS ? FY_LANES / FY_K_SUBS : 1, /* superblocks at once */
    FY_L_FOUND = FY_L_SUPERS * FY_K_SUBS,
};

/* Value scale * q + min; the codes are those of inverse * (x - base), held between 0 and the top
 * before they are rounded where `held` is 1. */
typedef struct {
    fy_lanes scale, min, inverse, base, held;
} fy_l_range;

/* Element i of every sub-block, its weight, its code. */
typedef struct {
    fy_lanes x[FY_QK], q[FY_QK], w[FY_QK];
    fy_lanes lowest, highest; /* of x */
    fy_lanes sum_w, sum_wx;
    int top;
} fy_l_subs;

/* Sums of weight * code, * code again, * value. */
typedef struct {
    fy_lanes l, l2, xl;
} fy_l_sums;

FY_INLINE fy_lanes fy_l_held(fy_lanes v, int top)
{
    return fy_l_round(fy_l_min(fy_l_max(v, fy_l_set(0.0f)), fy_l_set((float)top)));
}

typedef enum { FY_L_ANY, FY_L_SMALL, FY_L_HELD } fy_l_way;

FY_INLINE fy_l_sums fy_l_quantize_as(fy_l_subs *s, fy_lanes inverse, fy_lanes base, fy_l_way way)
{
    fy_l_sums sums = {fy_l_set(0.0f), fy_l_set(0.0f), fy_l_set(0.0f)};
    FY_L_EACH(i, FY_QK)
    {
        const fy_lanes x = s->x[i], v = inverse * (x - base);
        const fy_lanes q = way == FY_L_HELD    ? fy_l_held(v, s->top)
                           : way == FY_L_SMALL ? fy_l_small_nearest_to(v, s->top)
                                               : fy_l_nearest_between(v, 0, s->top);
        const fy_lanes wq = s->w[i] * q;
        s->q[i] = q;
        sums.l += wq;
        sums.l2 += wq * q;
        sums.xl += wq * x;
    }
    return sums;
}

/* The codes of inverse * (x - base), which is monotonous in x: all are small if the ends are. */
FY_INLINE fy_l_sums fy_l_quantize(fy_l_subs *s, fy_lanes inverse, fy_lanes base)
{
    const fy_lanes limit = fy_l_set(0x1p22f);
    const fy_lanes_mask small = fy_l_and(fy_l_less(fy_l_abs(inverse * (s->lowest - base)), limit),
                                         fy_l_less(fy_l_abs(inverse * (s->highest - base)), limit));
    return fy_l_all(small) ? fy_l_quantize_as(s, inverse, base, FY_L_SMALL)
                           : fy_l_quantize_as(s, inverse, base, FY_L_ANY);
}

FY_INLINE fy_lanes fy_l_error(const fy_l_subs *s, fy_lanes scale, fy_lanes min)
{
    fy_lanes error = fy_l_set(0.0f);
    FY_L_EACH(i, FY_QK)
    {
        const fy_lanes diff = scale * s->q[i] + min - s->x[i];
        error += s->w[i] * (diff * diff);
    }
    return error;
}

FY_INLINE void fy_l_weigh(fy_l_subs *s)
{
    fy_lanes squares = fy_l_set(0.0f);
    for (int i = 0; i < FY_QK; i++)
        squares += s->x[i] * s->x[i];
    const fy_lanes mean = fy_l_sqrt(squares / fy_l_set(FY_QK));
    for (int i = 0; i < FY_QK; i++)
        s->w[i] = mean + fy_l_abs(s->x[i]);
}

FY_INLINE void fy_l_sum_weights(fy_l_subs *s)
{
    s->lowest = s->highest = s->x[0];
    s->sum_w = s->w[0];
    s->sum_wx = s->w[0] * s->x[0];
    for (int i = 1; i < FY_QK; i++) {
        s->lowest = fy_l_min(s->x[i], s->lowest);
        s->highest = fy_l_max(s->x[i], s->highest);
        s->sum_w += s->w[i];
        s->sum_wx += s->w[i] * s->x[i];
    }
}

/* x and w are set. */
FY_INLINE fy_l_range fy_l_search(fy_l_subs *s, const fy_k_search *how)
{
    s->top = how->top;
    fy_l_sum_weights(s);
    const fy_lanes zero = fy_l_set(0.0f), w = s->sum_w, wx = s->sum_wx;
    fy_lanes base = fy_l_min(zero, s->lowest), min = base, inverse, scale, best, held = zero;
    /* where all values are equal there is nothing to look for: codes 0 of a range of any length */
    const fy_lanes_mask flat = fy_l_equal(s->highest, min);
    inverse = fy_l_set((float)how->top) / fy_l_select(flat, fy_l_set(1.0f), s->highest - min);
    scale = fy_l_select(flat, zero, fy_l_set(1.0f) / inverse);
    fy_l_quantize(s, inverse, base);
    best = fy_l_select(flat, zero, fy_l_error(s, scale, min));
    for (int step = 0; step <= how->steps; step++) {
        const fy_lanes range = fy_l_select(flat, fy_l_set(1.0f), s->highest - min);
        const fy_lanes candidate = fy_l_set(fy_k_candidate(how, step)) / range;
        const fy_l_sums f = how->bounded ? fy_l_quantize_as(s, candidate, min, FY_L_HELD)
                                         : fy_l_quantize(s, candidate, min);
        const fy_lanes det = w * f.l2 - f.l * f.l;
        fy_lanes new_scale = (w * f.xl - wx * f.l) / det, new_min = (f.l2 * wx - f.l * f.xl) / det;
        const fy_lanes_mask above = fy_l_less(zero, new_min);
        new_scale = fy_l_select(above, f.xl / f.l2, new_scale);
        new_min = fy_l_select(above, zero, new_min);
        const fy_lanes error = fy_l_error(s, new_scale, new_min);
        const fy_lanes_mask better = fy_l_and(fy_l_less(zero, det), fy_l_less(error, best));
        inverse = fy_l_select(better, candidate, inverse);
        base = fy_l_select(better, min, base);
        scale = fy_l_select(better, new_scale, scale);
        min = fy_l_select(better, new_min, min);
        best = fy_l_select(better, error, best);
        held = fy_l_select(better, fy_l_set(1.0f), held);
    }
    return (fy_l_range){scale, min, inverse, base, held};
}

/* --- q4_K, q5_K ------------------------------------------------------------------------------ */

/* fy_l_range of sub-blocks. */
typedef struct {
    float scale[FY_L_FOUND], min[FY_L_FOUND], inverse[FY_L_FOUND], base[FY_L_FOUND];
} fy_l_found;

/* Sub-blocks from number `at` on. */
static void fy_l_search_subs(fy_l_found *out, int at, const fy_k_search *how, const float *x)
{
    fy_l_subs s;
    fy_l_transpose(s.x, x + at * FY_QK, FY_QK);
    fy_l_weigh(&s);
    const fy_l_range r = fy_l_search(&s, how);
    fy_l_store(out->scale + at, r.scale);
    fy_l_store(out->min + at, r.min);
    fy_l_store(out->inverse + at, r.inverse);
    fy_l_store(out->base + at, r.base);
}

/* Scales and codes, a sub-block each, of superblock i of those that were searched. */
FY_INLINE fy_k_scales fy_l_finish(fy_l_codes q[FY_K_SUBS], const fy_l_found *f, int i, int top,
                                  const float *x)
{
    float mins[FY_K_SUBS];
    const int first = i * FY_K_SUBS;
    for (int s = 0; s < FY_K_SUBS; s++)
        mins[s] = -f->min[first + s];
    const fy_k_scales k = fy_k_round_scales(f->scale + first, mins);
    for (int s = 0; s < FY_K_SUBS; s++, x += FY_QK) {
        const bool as_found = k.step[s] == 0.0f;
        q[s] = as_found ? fy_l_quants(x, -f->base[first + s], f->inverse[first + s], false, top)
                        : fy_l_quants(x, k.min[s], k.step[s], true, top);
    }
    return k;
}

FY_INLINE void fy_l_put_q4_k(fy_block_q4_k *y, const fy_k_scales *k, const fy_l_codes q[FY_K_SUBS])
{
    y->d = k->d;
    y->dmin = k->dmin;
    memcpy(y->scales, k->packed, sizeof k->packed);
    fy_l_put_nibbles(y->qs, q);
}

FY_INLINE void fy_l_put_q5_k(fy_block_q5_k *y, const fy_k_scales *k, const fy_l_codes q[FY_K_SUBS])
{
    y->d = k->d;
    y->dmin = k->dmin;
    memcpy(y->scales, k->packed, sizeof k->packed);
    fy_l_put_nibbles(y->qs, q);
    fy_l_put_fifth_bits(y->qh, q);
}

#define FY_L_NAME2(type, isa) fy_encode_##type##__##isa
#define FY_L_NAME(type, isa)  FY_L_NAME2(type, isa)

#define FY_L_DEFINE_ENCODE(type)                                                            \
    void FY_L_NAME(type, FY_L_ISA)(fy_block_##type * y, const float *x, int64_t n)          \
    {                                                                                       \
        fy_l_found found;                                                                   \
        for (; n >= FY_L_SUPERS * FY_QK_K; n -= FY_L_SUPERS * FY_QK_K) {                    \
            for (int at = 0; at < FY_L_FOUND; at += FY_LANES)                               \
                fy_l_search_subs(&found, at, &fy_##type##_search, x);                       \
            for (int i = 0; i < FY_L_SUPERS; i++, x += FY_QK_K, y++) {                      \
                fy_l_codes q[FY_K_SUBS];                                                    \
                const fy_k_scales k = fy_l_finish(q, &found, i, fy_##type##_search.top, x); \
                fy_l_put_##type(y, &k, q);                                                  \
            }                                                                               \
        }                                                                                   \
        if (n > 0)                                                                          \
            FY_L_NAME(type, FY_L_SMALLER)(y, x, n);                                         \
    }

FY_L_DEFINE_ENCODE(q4_k)
FY_L_DEFINE_ENCODE(q5_k)

/* --- a scale --------------------------------------------------------------------------------- */

/* Element i of every group, its weight, and their product. */
typedef struct {
    fy_lanes x[FY_QK], w[FY_QK], wx[FY_QK];
} fy_l_groups;

/* Sums of weight * value * code, and of weight * code * code. */
typedef struct {
    fy_lanes xq, qq;
} fy_l_fit;

/* Of n candidates. No group's x * inverse is beyond zero + 1, but for groups of nothing. */
FY_INLINE void fy_l_fits_of(fy_l_fit *s, const fy_l_groups *g, int elements, int zero,
                            const fy_lanes *inverse, int n)
{
    FY_UNROLL
    for (int c = 0; c < n; c++)
        s[c] = (fy_l_fit){fy_l_set(0.0f), fy_l_set(0.0f)};
    FY_L_EACH(i, elements)
    {
        FY_UNROLL
        for (int c = 0; c < n; c++) {
            const fy_lanes q = fy_l_small_nearest_between(inverse[c] * g->x[i], -zero, zero - 1);
            s[c].xq += g->wx[i] * q;
            s[c].qq += g->w[i] * q * q;
        }
    }
}

/* The scales of groups whose x and w are set, and the inverse scales that gave their codes; 0 and 0
 * where there is nothing. */
FY_INLINE fy_lanes fy_l_search_scale(fy_lanes *inverse_out, fy_l_groups *g, int elements,
                                     int around)
{
    const fy_lanes zero = fy_l_set(0.0f);
    fy_lanes m = zero;
    for (int i = 0; i < elements; i++) {
        g->wx[i] = g->w[i] * g->x[i];
        m = fy_l_select(fy_l_less(fy_l_abs(m), fy_l_abs(g->x[i])), g->x[i], m);
    }
    fy_lanes inverse = fy_l_set((float)-around) / m, candidate[FY_L_TOGETHER];
    fy_l_fit s[FY_L_TOGETHER];
    fy_l_fits_of(s, g, elements, around, &inverse, 1);
    fy_lanes scale = fy_l_select(fy_l_equal(s->qq, zero), zero, s->xq / s->qq);
    fy_lanes best = scale * s->xq;
    for (int step = -9; step <= 9;
         step += step == -FY_L_TOGETHER ? FY_L_TOGETHER + 1 : FY_L_TOGETHER) {
        FY_UNROLL
        for (int c = 0; c < FY_L_TOGETHER; c++)
            candidate[c] = fy_l_set(-((float)around + 0.1f * (float)(step + c))) / m;
        fy_l_fits_of(s, g, elements, around, candidate, FY_L_TOGETHER);
        FY_UNROLL
        for (int c = 0; c < FY_L_TOGETHER; c++) {
            const fy_lanes xq = s[c].xq, qq = s[c].qq, fit = xq / qq;
            const fy_lanes_mask better =
                fy_l_and(fy_l_less(zero, qq), fy_l_less(best * qq, xq * xq));
            inverse = fy_l_select(better, candidate[c], inverse);
            scale = fy_l_select(better, fit, scale);
            best = fy_l_select(better, fit * xq, best);
        }
    }
    const fy_lanes_mask nothing = fy_l_less(fy_l_abs(m), fy_l_set(FY_Q6_K_NOTHING));
    *inverse_out = fy_l_select(nothing, zero, inverse);
    return fy_l_select(nothing, zero, scale);
}

/* --- q6_K ------------------------------------------------------------------------------------ */

/* A value's weight is its importance; NULL: its square. */
static void fy_l_q6_search(float *scales, float *inverses, const float *x, const float *importance)
{
    fy_l_groups g;
    fy_lanes inverse;
    fy_l_transpose(g.x, x, FY_Q6_K_GROUP);
    if (importance != NULL)
        fy_l_transpose(g.w, importance, FY_Q6_K_GROUP);
    for (int i = 0; i < FY_Q6_K_GROUP && importance == NULL; i++)
        g.w[i] = g.x[i] * g.x[i];
    fy_l_store(scales, fy_l_search_scale(&inverse, &g, FY_Q6_K_GROUP, 32));
    fy_l_store(inverses, inverse);
}

static void fy_l_q6_block(fy_block_q6_k *y, const float *x, const float *importance)
{
    uint8_t q[FY_QK_K];
    float scales[FY_Q6_K_GROUPS], inverses[FY_Q6_K_GROUPS], step[FY_Q6_K_GROUPS];
    for (int g = 0; g < FY_Q6_K_GROUPS; g += FY_LANES) {
        const int at = g * FY_Q6_K_GROUP;
        fy_l_q6_search(scales + g, inverses + g, x + at,
                       importance != NULL ? importance + at : NULL);
    }
    if (!fy_q6_k_round_scales(y, step, scales))
        return;
    for (int g = 0; g < FY_Q6_K_GROUPS; g++) {
        const float *v = x + g * FY_Q6_K_GROUP;
        uint8_t *to = q + g * FY_Q6_K_GROUP;
        if (step[g] != 0.0f)
            fy_l_q6_quants(to, v, step[g], true);
        else if (inverses[g] != 0.0f)
            fy_l_q6_quants(to, v, inverses[g], false);
        else
            memset(to, 0, FY_Q6_K_GROUP);
    }
    for (int half = 0; half < 2; half++)
        fy_l_q6_pack(y->ql + half * 2 * FY_QK, y->qh + half * FY_QK, q + half * 4 * FY_QK);
}

void FY_L_NAME(q6_k, FY_L_ISA)(fy_block_q6_k *y, const float *x, int64_t n)
{
    for (int64_t b = 0; b < n / FY_QK_K; b++)
        fy_l_q6_block(y + b, x + b * FY_QK_K, NULL);
}
