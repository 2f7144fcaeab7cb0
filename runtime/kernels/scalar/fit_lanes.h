/* The kernels of encode_fit_scalar.c with a block in each lane, which takes the same steps: written
 * once for every instruction set. Before it is included:
 *
 *   LANES, lanes                          their number; LANES floats: + - * / work on them
 *   all(f), load(p), store(p, v)
 *   most(a, b), least(a, b)               a > b ? a : b, a < b ? a : b
 *   rounded(v)                            to an integer, halves to even
 *   halved(v)                             as it comes back from f16
 *   where_more(a, b, yes, no)             a > b ? yes : no
 *   magnitude(v)
 *
 * and after it DEFINE_FITS(isa).
 *
 * Bound by the eight operations for each candidate and element; everything lies in L1. */
#include <math.h>
#include <stdbool.h>

#include "kernels/scalar/fit_scalar.h"

/* Element i of the blocks; with importance their weights, and values times weights. */
typedef struct {
    lanes x[FY_QK], w[FY_QK], wx[FY_QK];
} blocks;

FY_INLINE void turn(lanes to[FY_QK], const float *from)
{
    float turned[FY_QK][LANES];
    for (int b = 0; b < LANES; b++) {
        for (int i = 0; i < FY_QK; i++)
            turned[i][b] = from[b * FY_QK + i];
    }
    for (int i = 0; i < FY_QK; i++)
        to[i] = load(turned[i]);
}

FY_INLINE lanes nearest(lanes v, lanes low, lanes high)
{
    return rounded(least(most(v, low), high));
}

FY_INLINE lanes inverse_of(lanes d)
{
    const lanes id = all(1.0f) / d, zero = all(0.0f);
    return where_more(all(INFINITY), magnitude(id), id, zero);
}

FY_INLINE lanes weigh(lanes w, lanes v, bool weighted)
{
    if (weighted)
        v = w * v;
    return v;
}

typedef struct {
    lanes d, m, error;
} fitted;

FY_INLINE fitted settle(lanes d, lanes m, lanes low, lanes high, const blocks *t, bool weighted)
{
    fitted f = {halved(d), halved(m), all(0.0f)};
    const lanes id = inverse_of(f.d);
    for (int i = 0; i < FY_QK; i++) {
        const lanes q = nearest((t->x[i] - f.m) * id, low, high);
        const lanes off = t->x[i] - (q * f.d + f.m);
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
    lanes scale, gain, mean_q;
} found;

/* Candidates that are tried side by side, so that the chains of sums do not wait for each other. */
enum { TOGETHER = 4 };

FY_INLINE void try_scales(found *best, lanes low, lanes high, const blocks *t, bool weighted,
                          const float steps[TOGETHER], lanes unit)
{
    lanes inverse[TOGETHER], xq[TOGETHER], qq[TOGETHER];
    FY_UNROLL
    for (int c = 0; c < TOGETHER; c++) {
        inverse[c] = all(steps[c]) * unit;
        xq[c] = qq[c] = all(0.0f);
    }
    for (int i = 0; i < FY_QK; i++) {
        const lanes x = t->x[i], wx = weighted ? t->wx[i] : x;
        FY_UNROLL
        for (int c = 0; c < TOGETHER; c++) {
            const lanes q = nearest(x * inverse[c], low, high);
            xq[c] = xq[c] + wx * q;
            qq[c] = qq[c] + weigh(t->w[i], q, weighted) * q;
        }
    }
    FY_UNROLL
    for (int c = 0; c < TOGETHER; c++) {
        const lanes scale = xq[c] / qq[c], gain = xq[c] * scale;
        best->scale = where_more(gain, best->gain, scale, best->scale);
        best->gain = where_more(gain, best->gain, gain, best->gain);
    }
}

FY_INLINE fitted fit_around(const fy_fit_around *f, bool negative, const blocks *t, bool weighted)
{
    const lanes low = all((float)f->low), high = all((float)f->high), zero = all(0.0f);
    lanes m = zero;
    for (int i = 0; i < FY_QK; i++)
        m = where_more(magnitude(t->x[i]), magnitude(m), t->x[i], m);
    if (negative)
        m = all(-1.0f) * magnitude(m);
    const lanes something = where_more(all(FY_FIT_NOTHING), magnitude(m), zero, all(1.0f));
    const lanes unit = where_more(something, zero, all(1.0f) / m, zero);
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
    lanes x[FY_QK], wx[FY_QK]; /* less the mean */
    lanes sum_w, low;
} centred;

/* All shifts of one width. */
FY_INLINE void try_range(found *best, lanes top, const centred *v, const lanes w[FY_QK],
                         bool weighted, lanes inverse, float more)
{
    lanes l[FY_FIT_SHIFTS], ll[FY_FIT_SHIFTS], xl[FY_FIT_SHIFTS], shift[FY_FIT_SHIFTS];
    const lanes zero = all(0.0f);
    FY_UNROLL
    for (int k = 0; k < FY_FIT_SHIFTS; k++) {
        shift[k] = all(-0.5f * more + (-0.375f + 0.25f * (float)k));
        l[k] = ll[k] = xl[k] = zero;
    }
    for (int i = 0; i < FY_QK; i++) {
        const lanes place = (v->x[i] - v->low) * inverse;
        FY_UNROLL
        for (int k = 0; k < FY_FIT_SHIFTS; k++) {
            const lanes q = nearest(place + shift[k], zero, top);
            const lanes wq = weigh(w[i], q, weighted);
            l[k] = l[k] + wq;
            ll[k] = ll[k] + wq * q;
            xl[k] = xl[k] + v->wx[i] * q;
        }
    }
    FY_UNROLL
    for (int k = 0; k < FY_FIT_SHIFTS; k++) {
        const lanes mean = l[k] / v->sum_w, spread = ll[k] - l[k] * mean;
        const lanes scale = xl[k] / spread, gain = xl[k] * scale;
        const lanes wins = where_more(spread, ll[k] * all(0x1p-12f), gain, all(-1.0f));
        best->mean_q = where_more(wins, best->gain, mean, best->mean_q);
        best->scale = where_more(wins, best->gain, scale, best->scale);
        best->gain = where_more(wins, best->gain, gain, best->gain);
    }
}

FY_INLINE fitted fit_between(const fy_fit_between *f, bool unused, const blocks *t, bool weighted)
{
    lanes min = t->x[0], max = min, sum_w = all(0.0f), sum_x = sum_w;
    const lanes zero = sum_w, top = all((float)f->top);
    centred v;
    (void)unused;
    for (int i = 0; i < FY_QK; i++) {
        min = least(t->x[i], min);
        max = most(t->x[i], max);
        sum_w = sum_w + (weighted ? t->w[i] : all(1.0f));
        sum_x = sum_x + (weighted ? t->wx[i] : t->x[i]);
    }
    const lanes mean = sum_x / sum_w, range = max - min;
    const lanes something = where_more(all(FY_FIT_NOTHING), range, zero, all(1.0f));
    const lanes unit = where_more(something, zero, all(1.0f) / range, zero);
    for (int i = 0; i < FY_QK; i++) {
        v.x[i] = t->x[i] - mean;
        v.wx[i] = weigh(t->w[i], v.x[i], weighted);
    }
    v.sum_w = sum_w;
    v.low = min - mean;
    found best = {zero, zero, zero};
    for (int i = 0; i < FY_FIT_WIDTHS; i++) {
        const float more = f->first + 0.5f * (float)i;
        try_range(&best, top, &v, t->w, weighted, all((float)f->top + more) * unit, more);
    }
    const fitted a =
        settle(best.scale, mean - halved(best.scale) * best.mean_q, zero, top, t, weighted);
    const fitted b = settle(range / top, min, zero, top, t, weighted);
    return better_of(a, b);
}

/* The codes of the stored scales and minimums, in the order of the blocks. */
FY_INLINE void quants(uint8_t q[LANES * FY_QK], const fitted *f, int low, int high, const blocks *t)
{
    const lanes id = inverse_of(f->d);
    for (int i = 0; i < FY_QK; i++) {
        float v[LANES];
        store(v, nearest((t->x[i] - f->m) * id, all((float)low), all((float)high)));
        for (int b = 0; b < LANES; b++)
            q[b * FY_QK + i] = (uint8_t)((int)v[b] - low);
    }
}

FY_INLINE void fill(blocks *t, const float *x, const float *importance)
{
    turn(t->x, x);
    if (importance == NULL)
        return;
    turn(t->w, importance);
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
        for (; b + LANES <= n_blocks; b += LANES) {                                      \
            blocks t;                                                                    \
            uint8_t q[LANES * FY_QK];                                                    \
            float d[LANES], m[LANES];                                                    \
            fill(&t, x + b * FY_QK, importance != NULL ? importance + b * FY_QK : NULL); \
            const fitted f = importance != NULL ? fit_blocks(how, negative, &t, true)    \
                                                : fit_blocks(how, negative, &t, false);  \
            quants(q, &f, low, high, &t);                                                \
            store(d, f.d);                                                               \
            store(m, f.m);                                                               \
            for (int i = 0; i < LANES; i++)                                              \
                fy_fit_put_##type(y + b + i, fy_f32_to_f16(d[i]), fy_f32_to_f16(m[i]),   \
                                  q + i * FY_QK);                                        \
        }                                                                                \
        fy_fit_##type##__scalar(y + b, x + b * FY_QK, n - b * FY_QK,                     \
                                importance != NULL ? importance + b * FY_QK : NULL);     \
    }

#define DEFINE_FITS(isa)                                                                      \
    DEFINE_FIT(q8_0, isa, fit_around, &fy_fit_q8_0, true, fy_fit_q8_0.low, fy_fit_q8_0.high)  \
    DEFINE_FIT(q4_0, isa, fit_around, &fy_fit_q4_0, false, fy_fit_q4_0.low, fy_fit_q4_0.high) \
    DEFINE_FIT(q5_0, isa, fit_around, &fy_fit_q5_0, false, fy_fit_q5_0.low, fy_fit_q5_0.high) \
    DEFINE_FIT(q4_1, isa, fit_between, &fy_fit_q4_1, false, 0, fy_fit_q4_1.top)               \
    DEFINE_FIT(q5_1, isa, fit_between, &fy_fit_q5_1, false, 0, fy_fit_q5_1.top)
