/* The file encoders that look for the scale (and minimum) of a block with the least sum of w * (x -
 * decoded)^2, w the importance or 1, a block in each lane: for the lanes of the file that includes
 * this (lanes_scalar.h). The files are the types' usual ones.
 *
 * For each candidate of fit_scalar.h: the codes it gives, and the scale that fits these best, by
 * least squares. The best scale of all is rounded to f16, and so is the scale that the reference
 * takes; of the two, with the codes nearest for what is stored, the one of less error is written.
 * So no block is worse than the reference's.
 *
 * Every step is rounded on its own, sums go in the order of the elements, a NaN never wins.
 *
 * Bound by the eight operations for each candidate and element; everything lies in L1. */
#include <math.h>
#include <stdbool.h>

#include "kernels/scalar/fit_scalar.h"

/* Element i of the blocks; with importance their weights, and values times weights. */
typedef struct {
    fy_lanes x[FY_QK], w[FY_QK], wx[FY_QK];
} blocks;

FY_INLINE fy_lanes where_more(fy_lanes a, fy_lanes b, fy_lanes yes,
                              fy_lanes no) /* a > b ? yes : no */
{
    return fy_l_select(fy_l_less(b, a), yes, no);
}

FY_INLINE fy_lanes nearest(fy_lanes v, fy_lanes low, fy_lanes high)
{
    return fy_l_round(fy_l_min(fy_l_max(v, low), high));
}

FY_INLINE fy_lanes inverse_of(fy_lanes d)
{
    const fy_lanes id = fy_l_set(1.0f) / d, zero = fy_l_set(0.0f);
    return where_more(fy_l_set(INFINITY), fy_l_abs(id), id, zero);
}

FY_INLINE fy_lanes weigh(fy_lanes w, fy_lanes v, bool weighted)
{
    if (weighted)
        v = w * v;
    return v;
}

typedef struct {
    fy_lanes d, m, error;
} fitted;

FY_INLINE fitted settle(fy_lanes d, fy_lanes m, fy_lanes low, fy_lanes high, const blocks *t,
                        bool weighted)
{
    fitted f = {fy_l_halved(d), fy_l_halved(m), fy_l_set(0.0f)};
    const fy_lanes id = inverse_of(f.d);
    for (int i = 0; i < FY_QK; i++) {
        const fy_lanes q = nearest((t->x[i] - f.m) * id, low, high);
        const fy_lanes off = t->x[i] - (q * f.d + f.m);
        f.error = f.error + weigh(t->w[i], off, weighted) * off;
    }
    return f;
}

FY_INLINE fitted better_of(fitted a, fitted b)
{
    return (fitted){where_more(b.error, a.error, a.d, b.d), where_more(b.error, a.error, a.m, b.m),
                    b.error};
}

typedef struct {
    fy_lanes scale, gain, mean_q;
} found;

/* Candidates that are tried side by side, so that the chains of sums do not wait for each other. */
enum { TOGETHER = 4 };

FY_INLINE void try_scales(found *best, fy_lanes low, fy_lanes high, const blocks *t, bool weighted,
                          const float steps[TOGETHER], fy_lanes unit)
{
    fy_lanes inverse[TOGETHER], xq[TOGETHER], qq[TOGETHER];
    FY_UNROLL
    for (int c = 0; c < TOGETHER; c++) {
        inverse[c] = fy_l_set(steps[c]) * unit;
        xq[c] = qq[c] = fy_l_set(0.0f);
    }
    for (int i = 0; i < FY_QK; i++) {
        const fy_lanes x = t->x[i], wx = weighted ? t->wx[i] : x;
        FY_UNROLL
        for (int c = 0; c < TOGETHER; c++) {
            const fy_lanes q = nearest(x * inverse[c], low, high);
            xq[c] = xq[c] + wx * q;
            qq[c] = qq[c] + weigh(t->w[i], q, weighted) * q;
        }
    }
    FY_UNROLL
    for (int c = 0; c < TOGETHER; c++) {
        const fy_lanes scale = xq[c] / qq[c], gain = xq[c] * scale;
        best->scale = where_more(gain, best->gain, scale, best->scale);
        best->gain = where_more(gain, best->gain, gain, best->gain);
    }
}

FY_INLINE fitted fit_around(const fy_fit_around *f, bool negative, const blocks *t, bool weighted)
{
    const fy_lanes low = fy_l_set((float)f->low), high = fy_l_set((float)f->high),
                   zero = fy_l_set(0.0f);
    fy_lanes m = zero;
    for (int i = 0; i < FY_QK; i++)
        m = where_more(fy_l_abs(t->x[i]), fy_l_abs(m), t->x[i], m);
    if (negative)
        m = fy_l_set(-1.0f) * fy_l_abs(m);
    const fy_lanes nothing = fy_l_set(FY_FIT_NOTHING);
    const fy_lanes unit = where_more(nothing, fy_l_abs(m), zero, fy_l_set(1.0f) / m);
    found best = {zero, zero, zero};
    for (int i = 0; i < f->steps + f->other_steps; i += TOGETHER) {
        float steps[TOGETHER];
        for (int c = 0; c < TOGETHER; c++) {
            const int other = i + c - f->steps;
            steps[c] = other < 0 ? -(f->first + f->apart * (float)(i + c))
                                 : f->other_first + f->apart * (float)other;
        }
        try_scales(&best, low, high, t, weighted, steps, unit);
    }
    const fitted a = settle(best.scale, zero, low, high, t, weighted);
    const fitted b = settle(m / low, zero, low, high, t, weighted);
    return better_of(a, b);
}

typedef struct {
    fy_lanes x[FY_QK], wx[FY_QK]; /* less the mean */
    fy_lanes sum_w, low;
} centred;

/* All shifts of one width. */
FY_INLINE void try_range(found *best, fy_lanes top, const centred *v, const fy_lanes w[FY_QK],
                         bool weighted, fy_lanes inverse, float more)
{
    fy_lanes l[FY_FIT_SHIFTS], ll[FY_FIT_SHIFTS], xl[FY_FIT_SHIFTS], shift[FY_FIT_SHIFTS];
    const fy_lanes zero = fy_l_set(0.0f);
    FY_UNROLL
    for (int k = 0; k < FY_FIT_SHIFTS; k++) {
        shift[k] = fy_l_set(-0.5f * more + (-0.375f + 0.25f * (float)k));
        l[k] = ll[k] = xl[k] = zero;
    }
    for (int i = 0; i < FY_QK; i++) {
        const fy_lanes place = (v->x[i] - v->low) * inverse;
        FY_UNROLL
        for (int k = 0; k < FY_FIT_SHIFTS; k++) {
            const fy_lanes q = nearest(place + shift[k], zero, top);
            const fy_lanes wq = weigh(w[i], q, weighted);
            l[k] = l[k] + wq;
            ll[k] = ll[k] + wq * q;
            xl[k] = xl[k] + v->wx[i] * q;
        }
    }
    FY_UNROLL
    for (int k = 0; k < FY_FIT_SHIFTS; k++) {
        const fy_lanes mean = l[k] / v->sum_w, spread = ll[k] - l[k] * mean;
        const fy_lanes scale = xl[k] / spread, gain = xl[k] * scale;
        const fy_lanes wins = where_more(spread, ll[k] * fy_l_set(0x1p-12f), gain, fy_l_set(-1.0f));
        best->mean_q = where_more(wins, best->gain, mean, best->mean_q);
        best->scale = where_more(wins, best->gain, scale, best->scale);
        best->gain = where_more(wins, best->gain, gain, best->gain);
    }
}

FY_INLINE fitted fit_between(const fy_fit_between *f, bool unused, const blocks *t, bool weighted)
{
    fy_lanes min = t->x[0], max = min, sum_w = fy_l_set(0.0f), sum_x = sum_w;
    const fy_lanes zero = sum_w, top = fy_l_set((float)f->top);
    centred v;
    (void)unused;
    for (int i = 0; i < FY_QK; i++) {
        min = fy_l_min(t->x[i], min);
        max = fy_l_max(t->x[i], max);
        sum_w = sum_w + (weighted ? t->w[i] : fy_l_set(1.0f));
        sum_x = sum_x + (weighted ? t->wx[i] : t->x[i]);
    }
    const fy_lanes mean = sum_x / sum_w, range = max - min;
    const fy_lanes nothing = fy_l_set(FY_FIT_NOTHING);
    const fy_lanes unit = where_more(nothing, range, zero, fy_l_set(1.0f) / range);
    for (int i = 0; i < FY_QK; i++) {
        v.x[i] = t->x[i] - mean;
        v.wx[i] = weigh(t->w[i], v.x[i], weighted);
    }
    v.sum_w = sum_w;
    v.low = min - mean;
    found best = {zero, zero, zero};
    for (int i = 0; i < FY_FIT_WIDTHS; i++) {
        const float more = f->first + 0.5f * (float)i;
        try_range(&best, top, &v, t->w, weighted, fy_l_set((float)f->top + more) * unit, more);
    }
    const fitted a =
        settle(best.scale, mean - fy_l_halved(best.scale) * best.mean_q, zero, top, t, weighted);
    const fitted b = settle(range / top, min, zero, top, t, weighted);
    return better_of(a, b);
}

/* The codes of the stored scales and minimums, in the order of the blocks. */
FY_INLINE void quants(uint8_t q[FY_LANES * FY_QK], const fitted *f, int low, int high,
                      const blocks *t)
{
    const fy_lanes id = inverse_of(f->d);
    for (int i = 0; i < FY_QK; i++) {
        float v[FY_LANES];
        fy_l_store(v, nearest((t->x[i] - f->m) * id, fy_l_set((float)low), fy_l_set((float)high)));
        for (int b = 0; b < FY_LANES; b++)
            q[b * FY_QK + i] = (uint8_t)((int)v[b] - low);
    }
}

FY_INLINE void fill(blocks *t, const float *x, const float *importance)
{
    fy_l_transpose(t->x, x, FY_QK);
    if (importance == NULL)
        return;
    fy_l_transpose(t->w, importance, FY_QK);
    for (int i = 0; i < FY_QK; i++)
        t->wx[i] = t->w[i] * t->x[i];
}

/* The blocks that fill no lanes are the specification's. */
#define DEFINE_FIT(type, isa, fit_blocks, how, negative, low, high)                      \
    void fy_fit_##type##__##isa(fy_block_##type *y, const float *x, int64_t n,           \
                                const float *importance)                                 \
    {                                                                                    \
        const int64_t n_blocks = n / FY_QK;                                              \
        int64_t b = 0;                                                                   \
        for (; b + FY_LANES <= n_blocks; b += FY_LANES) {                                \
            blocks t;                                                                    \
            uint8_t q[FY_LANES * FY_QK];                                                 \
            float d[FY_LANES], m[FY_LANES];                                              \
            fill(&t, x + b * FY_QK, importance != NULL ? importance + b * FY_QK : NULL); \
            const fitted f = importance != NULL ? fit_blocks(how, negative, &t, true)    \
                                                : fit_blocks(how, negative, &t, false);  \
            quants(q, &f, low, high, &t);                                                \
            fy_l_store(d, f.d);                                                          \
            fy_l_store(m, f.m);                                                          \
            for (int i = 0; i < FY_LANES; i++)                                           \
                fy_fit_put_##type(y + b + i, fy_f32_to_f16(d[i]), fy_f32_to_f16(m[i]),   \
                                  q + i * FY_QK);                                        \
        }                                                                                \
        if (b < n_blocks)                                                                \
            fy_fit_##type##__scalar(y + b, x + b * FY_QK, n - b * FY_QK,                 \
                                    importance != NULL ? importance + b * FY_QK : NULL); \
    }

#define DEFINE_FITS(isa)                                                                      \
    DEFINE_FIT(q8_0, isa, fit_around, &fy_fit_q8_0, true, fy_fit_q8_0.low, fy_fit_q8_0.high)  \
    DEFINE_FIT(q4_0, isa, fit_around, &fy_fit_q4_0, false, fy_fit_q4_0.low, fy_fit_q4_0.high) \
    DEFINE_FIT(q5_0, isa, fit_around, &fy_fit_q5_0, false, fy_fit_q5_0.low, fy_fit_q5_0.high) \
    DEFINE_FIT(q4_1, isa, fit_between, &fy_fit_q4_1, false, 0, fy_fit_q4_1.top)               \
    DEFINE_FIT(q5_1, isa, fit_between, &fy_fit_q5_1, false, 0, fy_fit_q5_1.top)
