/* How far rows are from what became of them. */
#include <math.h>

#include "kernels/kernel_impl.h"

enum { LANES = 8 };

static double sum_of(const double lane[LANES])
{
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

void fy_error_sums__scalar(fy_error_sums *s, const float *x, const float *y, const float *limits,
                           int64_t n)
{
    double xx[LANES] = {0}, yy[LANES] = {0}, xy[LANES] = {0}, ee[LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        const double a = (double)x[i], b = (double)y[i], e = a - b;
        xx[i % LANES] += a * a;
        yy[i % LANES] += b * b;
        xy[i % LANES] += a * b;
        ee[i % LANES] += e * e;
        const float size = fabsf(x[i]), error = fabsf(x[i] - y[i]);
        s->max_x = size > s->max_x ? size : s->max_x;
        s->max_e = error > s->max_e ? error : s->max_e;
    }
    for (int64_t i = 0; limits != NULL && i < n; i++) {
        const float *limit = limits + i / FY_LIMIT_ELEMS * 2;
        s->n_outside += x[i] < limit[0] || x[i] > limit[1];
    }
    s->xx += sum_of(xx);
    s->yy += sum_of(yy);
    s->xy += sum_of(xy);
    s->ee += sum_of(ee);
    s->n += n;
}
