#include "convert/look/tensor_diff.h"

#include <math.h>
#include <stdbool.h>

enum { BLOCK = 1024 };

static bool is_same(float x, float y)
{
    return x == y || (isnan(x) && isnan(y));
}

static void note_first(fy_tensor_diff *d, const float *a, const float *b, uint64_t at)
{
    uint64_t i = 0;
    while (is_same(a[i], b[i]))
        i++;
    d->first = at + i;
    d->first_a = a[i];
    d->first_b = b[i];
}

/* One value at a time: where some are not finite. */
static void add_slowly(fy_tensor_diff *d, const float *a, const float *b, uint64_t n, uint64_t at)
{
    uint64_t differ = 0;
    for (uint64_t i = 0; i < n; i++) {
        double x = (double)a[i], y = (double)b[i], diff = fabs(x - y);
        differ += !is_same(a[i], b[i]);
        if (isfinite(a[i]))
            d->largest = fmax(d->largest, fabs(x));
        if (isfinite(a[i]) && isfinite(b[i])) {
            d->max_diff = fmax(d->max_diff, diff);
            d->sum_diff2 += diff * diff;
            d->sum_a2 += x * x;
            d->sum_b2 += y * y;
            d->sum_ab += x * y;
        } else if (!is_same(a[i], b[i])) {
            d->n_wild++;
            d->max_diff = INFINITY;
        }
    }
    if (differ > 0 && d->n_different == 0)
        note_first(d, a, b, at);
    d->n_different += differ;
}

/* Of finite values, of a block. */
static void count_different(fy_tensor_diff *d, const float *a, const float *b, uint64_t n,
                            uint64_t at)
{
    uint32_t differ = 0;
    for (uint64_t i = 0; i < n; i++)
        differ += a[i] != b[i];
    if (differ > 0 && d->n_different == 0)
        note_first(d, a, b, at);
    d->n_different += differ;
}

static void add_block(fy_tensor_diff *d, const fy_kernels *k, const float *a, const float *b,
                      uint64_t n, uint64_t at)
{
    fy_error_sums s = {0};
    k->error_sums(&s, a, b, NULL, (int64_t)n);
    /* Squares of finite f32 are finite; a difference of two may be too large for one. */
    if (!isfinite(s.xx) || !isfinite(s.yy) || isinf(s.max_e)) {
        add_slowly(d, a, b, n, at);
        return;
    }
    d->sum_diff2 += s.ee;
    d->sum_a2 += s.xx;
    d->sum_b2 += s.yy;
    d->sum_ab += s.xy;
    d->max_diff = fmax(d->max_diff, (double)s.max_e);
    d->largest = fmax(d->largest, (double)s.max_x);
    if (s.ee > 0)
        count_different(d, a, b, n, at);
}

void fy_tensor_diff_of(fy_tensor_diff *d, const fy_kernels *k, const float *a, const float *b,
                       uint64_t n, uint64_t at)
{
    *d = (fy_tensor_diff){.n = n};
    for (uint64_t i = 0; i < n; i += BLOCK)
        add_block(d, k, a + i, b + i, n - i < BLOCK ? n - i : BLOCK, at + i);
}

void fy_tensor_diff_join(fy_tensor_diff *d, const fy_tensor_diff *next)
{
    if (d->n_different == 0) {
        d->first = next->first;
        d->first_a = next->first_a;
        d->first_b = next->first_b;
    }
    d->n += next->n;
    d->n_different += next->n_different;
    d->n_wild += next->n_wild;
    d->max_diff = fmax(d->max_diff, next->max_diff);
    d->largest = fmax(d->largest, next->largest);
    d->sum_diff2 += next->sum_diff2;
    d->sum_a2 += next->sum_a2;
    d->sum_b2 += next->sum_b2;
    d->sum_ab += next->sum_ab;
}

double fy_tensor_diff_relative(const fy_tensor_diff *d)
{
    return d->max_diff > 0 ? d->max_diff / d->largest : 0;
}

double fy_tensor_diff_rmse(const fy_tensor_diff *d)
{
    return d->n_wild > 0 ? INFINITY : d->n > 0 ? sqrt(d->sum_diff2 / (double)d->n) : 0;
}

double fy_tensor_diff_cosine(const fy_tensor_diff *d)
{
    if (d->n_different == 0)
        return 1;
    double norms = sqrt(d->sum_a2) * sqrt(d->sum_b2);
    return norms > 0 ? d->sum_ab / norms : 0;
}
