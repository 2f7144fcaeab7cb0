#include "convert/tensor_diff.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Sums side by side, so that compilers can use vectors without changing the order of additions. */
enum { LANES = 4, BLOCK = 1024 };

typedef struct {
    double diff2[LANES], a2[LANES], b2[LANES], ab[LANES];
    float max_diff[LANES], largest[LANES];
} lanes;

static void add_lanes(lanes *s, const float *restrict a, const float *restrict b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            double x = (double)a[i + (uint64_t)l], y = (double)b[i + (uint64_t)l], d = x - y;
            s->diff2[l] += d * d;
            s->a2[l] += x * x;
            s->b2[l] += y * y;
            s->ab[l] += x * y;
        }
        for (int l = 0; l < LANES; l++) {
            float x = fabsf(a[i + (uint64_t)l]), d = fabsf(a[i + (uint64_t)l] - b[i + (uint64_t)l]);
            s->largest[l] = x > s->largest[l] ? x : s->largest[l];
            s->max_diff[l] = d > s->max_diff[l] ? d : s->max_diff[l];
        }
    }
}

/* The same of two blocks of the same bytes, but that only a2 and largest are added up. */
static void add_equal_lanes(lanes *s, const float *a, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += LANES) {
        for (int l = 0; l < LANES; l++) {
            double x = (double)a[i + (uint64_t)l];
            float size = fabsf(a[i + (uint64_t)l]);
            s->a2[l] += x * x;
            s->largest[l] = size > s->largest[l] ? size : s->largest[l];
        }
    }
    memcpy(s->b2, s->a2, sizeof s->b2);
    memcpy(s->ab, s->a2, sizeof s->ab);
}

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

/* One value at a time: what no vector handles, and values that are not finite. */
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

static double sum_of(const double s[LANES])
{
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* A block, the length of which is a multiple of LANES. */
static void add_block(fy_tensor_diff *d, const float *a, const float *b, uint64_t n, uint64_t at)
{
    lanes s = {0};
    if (memcmp(a, b, (size_t)n * sizeof *a) == 0)
        add_equal_lanes(&s, a, n);
    else
        add_lanes(&s, a, b, n);
    double diff2 = sum_of(s.diff2), a2 = sum_of(s.a2), b2 = sum_of(s.b2);
    float worst = 0;
    for (int l = 0; l < LANES; l++)
        worst = s.max_diff[l] > worst ? s.max_diff[l] : worst;
    /* Squares of finite f32 are finite; a difference of two may be too large for one. */
    if (!isfinite(a2) || !isfinite(b2) || isinf(worst)) {
        add_slowly(d, a, b, n, at);
        return;
    }
    d->sum_diff2 += diff2;
    d->sum_a2 += a2;
    d->sum_b2 += b2;
    d->sum_ab += sum_of(s.ab);
    d->max_diff = fmax(d->max_diff, (double)worst);
    for (int l = 0; l < LANES; l++)
        d->largest = fmax(d->largest, (double)s.largest[l]);
    if (diff2 > 0)
        count_different(d, a, b, n, at);
}

void fy_tensor_diff_of(fy_tensor_diff *d, const float *a, const float *b, uint64_t n, uint64_t at)
{
    *d = (fy_tensor_diff){.n = n};
    uint64_t i = 0;
    while (n - i >= LANES) {
        uint64_t m = n - i < BLOCK ? (n - i) / LANES * LANES : BLOCK;
        add_block(d, a + i, b + i, m, at + i);
        i += m;
    }
    add_slowly(d, a + i, b + i, n - i, at + i);
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
