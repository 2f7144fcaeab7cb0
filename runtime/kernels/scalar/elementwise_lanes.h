/* Operations on vectors of floats, for the lanes of the file that includes this (lanes_scalar.h)
 * and for fy_doubles, which it says in FY_E_ISA and the steps of the conversions: bound by reading
 * their rows from cache. A row is padded with zeros to whole lanes where sums are taken. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/scalar/activation_lanes.h"

/* --- norms ----------------------------------------------------------------------------------- */

enum { FY_E_PARTS = 8 / FY_DOUBLES }; /* vectors of doubles for the 8 lanes of a sum */

/* Eight elements of a row, of which n are there. */
FY_INLINE const float *fy_e_eight(const float *x, int64_t n, float padded[8])
{
    if (n >= 8)
        return x;
    memset(padded, 0, 8 * sizeof *padded);
    return memcpy(padded, x, (size_t)n * sizeof *x);
}

FY_INLINE void fy_e_add(fy_doubles sum[FY_E_PARTS], const float *x, bool squares)
{
    fy_doubles v[FY_E_PARTS];
    fy_d_widen(v, x);
    FY_UNROLL
    for (int p = 0; p < FY_E_PARTS; p++) {
        if (squares)
            sum[p] = fy_d_fma(v[p], v[p], sum[p]);
        else
            sum[p] += v[p];
    }
}

/* The sum of the elements, or of their squares. */
FY_INLINE double fy_e_sum(const float *x, int64_t n, bool squares)
{
    fy_doubles sum[FY_E_PARTS] = {fy_d_set(0.0)};
    float rest[8];
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        fy_e_add(sum, x + i, squares);
    if (i < n)
        fy_e_add(sum, fy_e_eight(x + i, n - i, rest), squares);
    return fy_d_sum(sum);
}

/* The squares are rounded before they are added: no fused multiply-add. */
FY_INLINE double fy_e_squares_from(const float *x, int64_t n, double mean)
{
    fy_doubles sum[FY_E_PARTS] = {fy_d_set(0.0)}, v[FY_E_PARTS];
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        fy_d_widen(v, x + i);
        FY_UNROLL
        for (int p = 0; p < FY_E_PARTS; p++)
            sum[p] += (v[p] - fy_d_set(mean)) * (v[p] - fy_d_set(mean));
    }
    double rest[8] = {0};
    for (int64_t j = i; j < n; j++)
        rest[j - i] = (double)x[j] - mean;
    memcpy(v, rest, sizeof v);
    for (int p = 0; p < FY_E_PARTS; p++)
        sum[p] += v[p] * v[p];
    return fy_d_sum(sum);
}

/* Of a row's n lanes from `i` on. */
FY_INLINE void fy_e_normalize(float *y, const float *x, const float *w, const float *bias,
                              int64_t i, int64_t n, bool centred, float mean, float scale)
{
    fy_lanes v = fy_l_load_some(x + i, n);
    if (centred)
        v = v - fy_l_set(mean);
    v = v * fy_l_set(scale);
    if (w != NULL)
        v = v * fy_l_load_some(w + i, n);
    if (bias != NULL)
        v = v + fy_l_load_some(bias + i, n);
    fy_l_store_some(y + i, v, n);
}

void FY_E_NAME(rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps)
{
    const float s = (float)(1.0 / sqrt(fy_e_sum(x, n, true) / (double)n + (double)eps));
    int64_t i = 0;
    for (; i + FY_LANES <= n; i += FY_LANES)
        fy_e_normalize(y, x, w, NULL, i, FY_LANES, false, 0.0f, s);
    if (i < n)
        fy_e_normalize(y, x, w, NULL, i, n - i, false, 0.0f, s);
}

void FY_E_NAME(layer_norm)(float *y, const float *x, const float *w, const float *bias, int64_t n,
                           float eps)
{
    const double mean = fy_e_sum(x, n, false) / (double)n;
    const double variance = fy_e_squares_from(x, n, mean) / (double)n;
    const float m = (float)mean, s = (float)(1.0 / sqrt(variance + (double)eps));
    int64_t i = 0;
    for (; i + FY_LANES <= n; i += FY_LANES)
        fy_e_normalize(y, x, w, bias, i, FY_LANES, true, m, s);
    if (i < n)
        fy_e_normalize(y, x, w, bias, i, n - i, true, m, s);
}

/* --- f16 and bf16 ---------------------------------------------------------------------------- */

/* Bound by memory. The instructions round and treat NaN exactly as elementwise_scalar.c does; the
 * last few values of a row go through its functions. <op>_step takes `step` values. */
#define FY_E_DEFINE_CONVERT(op, to, from, step)          \
    void FY_E_NAME(op)(to * y, const from *x, int64_t n) \
    {                                                    \
        int64_t i = 0;                                   \
        for (; i + (step) <= n; i += (step))             \
            op##_step(y + i, x + i);                     \
        for (; i < n; i++)                               \
            y[i] = fy_##op(x[i]);                        \
    }

FY_E_DEFINE_CONVERT(f16_to_f32, float, uint16_t, 8)
FY_E_DEFINE_CONVERT(f32_to_f16, uint16_t, float, 8)
FY_E_DEFINE_CONVERT(bf16_to_f32, float, uint16_t, 8)
FY_E_DEFINE_CONVERT(f32_to_bf16, uint16_t, float, FY_E_BF16_STEP)

/* --- errors ---------------------------------------------------------------------------------- */

/* The errors of encoded rows: bound by arithmetic in double, some 24 operations for 8 elements. */
typedef struct {
    fy_doubles xx[FY_E_PARTS], yy[FY_E_PARTS], xy[FY_E_PARTS], ee[FY_E_PARTS];
    fy_lanes max_x, max_e;
    fy_l_counts outside;
} fy_e_errors;

/* A product of two widened f32 is exact, so that it may be fused with its addition; the square of a
 * difference is not. A NaN is no maximum. */
FY_INLINE void fy_e_add_errors(fy_e_errors *s, const float *x, const float *y)
{
    fy_doubles a[FY_E_PARTS], b[FY_E_PARTS];
    fy_d_widen(a, x);
    fy_d_widen(b, y);
    FY_UNROLL
    for (int p = 0; p < FY_E_PARTS; p++) {
        s->xx[p] = fy_d_fma(a[p], a[p], s->xx[p]);
        s->yy[p] = fy_d_fma(b[p], b[p], s->yy[p]);
        s->xy[p] = fy_d_fma(a[p], b[p], s->xy[p]);
        s->ee[p] += (a[p] - b[p]) * (a[p] - b[p]);
    }
    FY_UNROLL
    for (int i = 0; i < 8; i += FY_LANES) {
        const fy_lanes v = fy_l_load(x + i);
        s->max_x = fy_l_max(fy_l_abs(v), s->max_x);
        s->max_e = fy_l_max(fy_l_abs(v - fy_l_load(y + i)), s->max_e);
    }
}

FY_INLINE void fy_e_count_outside(fy_e_errors *s, const float *x, const float *limit)
{
    FY_UNROLL
    for (int i = 0; i < 8; i += FY_LANES) {
        const fy_lanes v = fy_l_load(x + i);
        s->outside = fy_l_count(s->outside, fy_l_or(fy_l_less(v, fy_l_set(limit[0])),
                                                    fy_l_less(fy_l_set(limit[1]), v)));
    }
}

FY_INLINE void fy_e_add_row(fy_e_errors *s, int64_t *n_outside, const float *x, const float *y,
                            const float *limits, int64_t n)
{
    float rest_x[8], rest_y[8];
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        fy_e_add_errors(s, x + i, y + i);
        if (limits != NULL)
            fy_e_count_outside(s, x + i, limits + i / FY_LIMIT_ELEMS * 2);
    }
    if (i < n)
        fy_e_add_errors(s, fy_e_eight(x + i, n - i, rest_x), fy_e_eight(y + i, n - i, rest_y));
    for (; limits != NULL && i < n; i++) {
        const float *limit = limits + i / FY_LIMIT_ELEMS * 2;
        *n_outside += x[i] < limit[0] || x[i] > limit[1];
    }
}

FY_INLINE float fy_e_max_of(fy_lanes lanes, float most)
{
    float part[FY_LANES];
    fy_l_store(part, lanes);
    for (int i = 0; i < FY_LANES; i++)
        most = part[i] > most ? part[i] : most;
    return most;
}

void FY_E_NAME(error_sums)(fy_error_sums *to, const float *x, const float *y, const float *limits,
                           int64_t n)
{
    fy_e_errors s;
    memset(&s, 0, sizeof s);
    if (limits != NULL)
        fy_e_add_row(&s, &to->n_outside, x, y, limits, n);
    else
        fy_e_add_row(&s, &to->n_outside, x, y, NULL, n);
    to->xx += fy_d_sum(s.xx);
    to->yy += fy_d_sum(s.yy);
    to->xy += fy_d_sum(s.xy);
    to->ee += fy_d_sum(s.ee);
    to->max_x = fy_e_max_of(s.max_x, to->max_x);
    to->max_e = fy_e_max_of(s.max_e, to->max_e);
    to->n += n;
    uint32_t outside[FY_LANES];
    memcpy(outside, &s.outside, sizeof outside);
    for (int i = 0; i < FY_LANES; i++)
        to->n_outside += outside[i];
}
