/* Attention of one head, RMS norm: bit for bit the specification, and near the same in
 * double within bounds that follow from the lengths. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/kernel_check.h"

/* Unit roundoff of f32; what fy_exp may be off by, relatively. */
#define U         0x1p-24
#define EXP_ERROR 4e-7

enum { MAX_KEYS = 300, MAX_DIM = 256, MAX_CACHE = MAX_KEYS * (MAX_DIM + 8), MAX_N = 4099 };

/* What lies in fy_kc_case.work: the cache as values, one row after the other without gaps, and as
 * placed; the vectors of the elementwise operations. */
typedef struct {
    float query[MAX_DIM], head[MAX_DIM];
    float cache_k[MAX_KEYS * MAX_DIM], cache_v[MAX_KEYS * MAX_DIM];
    uint8_t spread[MAX_CACHE * sizeof(float)];
    double p[MAX_KEYS];
    float xs[MAX_N], ws[MAX_N], expected[MAX_N];
} work;
static_assert(sizeof(work) <= FY_KC_WORK_BYTES, "work memory");

typedef struct {
    int64_t n_keys;
    int dim, dim_v;
    int64_t k_stride, v_stride;
    float scale, cap;
} head;

static float stored(fy_type type, float f)
{
    return type == FY_F16 ? fy_f16_to_f32(fy_f32_to_f16(f)) : f;
}

static void fill_cache(fy_kc_case *t, const head *h)
{
    work *w = t->work;
    for (int i = 0; i < h->dim; i++)
        w->query[i] = fy_kc_normal(&t->random);
    for (int64_t i = 0; i < h->n_keys * h->dim; i++)
        w->cache_k[i] = stored(t->type, fy_kc_normal(&t->random));
    for (int64_t i = 0; i < h->n_keys * h->dim_v; i++)
        w->cache_v[i] = stored(t->type, fy_kc_normal(&t->random));
}

/* Rows `stride` apart in the cache's type; what lies between is NaN. */
static const void *place_rows(fy_kc_case *t, fy_kc_slot slot, const float *from, int64_t n, int dim,
                              int64_t stride)
{
    work *w = t->work;
    const size_t size = t->type == FY_F16 ? 2 : 4, n_elems = (size_t)((n - 1) * stride + dim);
    memset(w->spread, 0xff, n_elems * size);
    for (int64_t j = 0; j < n; j++) {
        for (int i = 0; i < dim; i++) {
            const float f = from[j * dim + i];
            const uint16_t half = fy_f32_to_f16(f);
            memcpy(w->spread + (size_t)(j * stride + i) * size,
                   size == 2 ? (const void *)&half : &f, size);
        }
    }
    return fy_kc_place_copy(t, slot, w->spread, n_elems * size);
}

static float *attend(fy_kc_case *t, const fy_kernels *k, const head *h)
{
    work *w = t->work;
    const float *q = fy_kc_place_copy(t, FY_KC_Q, w->query, (size_t)h->dim * sizeof *q);
    const void *K = place_rows(t, FY_KC_K, w->cache_k, h->n_keys, h->dim, h->k_stride);
    const void *V = place_rows(t, FY_KC_V, w->cache_v, h->n_keys, h->dim_v, h->v_stride);
    float *out = fy_kc_place(t, FY_KC_Y, (size_t)h->dim_v * sizeof *out);
    float *scores = fy_kc_place(t, FY_KC_SCORES, (size_t)h->n_keys * sizeof *scores);
    memset(out, 0xff, (size_t)h->dim_v * sizeof *out);
    memset(scores, 0xff, (size_t)h->n_keys * sizeof *scores);
    fy_attend_fn *f = t->type == FY_F16 ? k->attend_f16 : k->attend_f32;
    f(out, q, K, V, h->n_keys, h->dim, h->dim_v, h->k_stride, h->v_stride, h->scale, h->cap,
      scores);
    return out;
}

/* p[j] = exp(s_j - max), not divided by their sum. Returns how far off relatively a kernel's p may
 * be: a dot product of eight partial sums, the product with scale, the soft cap and the difference
 * to the maximum are rounded to f32. */
static double softmax_weights(work *w, const head *h)
{
    double *p = w->p;
    double max = -INFINITY, max_magnitude = 0, dot_error = 0;
    for (int64_t j = 0; j < h->n_keys; j++) {
        double dot = 0, size = 0;
        for (int i = 0; i < h->dim; i++) {
            const double term = (double)w->query[i] * (double)w->cache_k[j * h->dim + i];
            dot += term;
            size += fabs(term);
        }
        p[j] = (double)h->scale * dot;
        if (h->cap != 0)
            p[j] = (double)h->cap * tanh(p[j] / (double)h->cap);
        max = fmax(max, p[j]);
        max_magnitude = fmax(max_magnitude, fabs(p[j]));
        dot_error = fmax(dot_error, (double)h->scale * ((double)h->dim / 8 + 20) * U * size);
    }
    for (int64_t j = 0; j < h->n_keys; j++)
        p[j] = exp(p[j] - max);
    return 2 * (dot_error + 4 * U * max_magnitude + (double)h->cap * EXP_ERROR) + 2 * EXP_ERROR;
}

static bool attend_is_near(fy_kc_case *t, const head *h)
{
    work *w = t->work;
    fill_cache(t, h);
    const float *out = attend(t, &t->k, h);
    const double error = softmax_weights(w, h) + ((double)h->n_keys + 16) * U;
    for (int i = 0; i < h->dim_v; i++) {
        double value = 0, size = 0, sum = 0;
        for (int64_t j = 0; j < h->n_keys; j++) {
            const double v = (double)w->cache_v[j * h->dim_v + i];
            value += w->p[j] * v;
            size += w->p[j] * fabs(v);
            sum += w->p[j];
        }
        if (!(fabs((double)out[i] - value / sum) <= error * size / sum + 1e-30))
            return fy_kc_fail(
                t, "%d keys, dimensions %d and %d: out[%d] is %.9g, expected %.9g within %.2g",
                (int)h->n_keys, h->dim, h->dim_v, i, (double)out[i], value / sum,
                error * size / sum);
    }
    return true;
}

static const int dims[] = {1,  2,  3,  4,  5,  7,  8,  9,  12,  15,  16,  17,  24,
                           31, 32, 33, 48, 64, 72, 80, 96, 112, 127, 128, 129, 256};
static const int few_keys[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 18, 37};
enum { N_DIMS = sizeof dims / sizeof dims[0], N_FEW_KEYS = sizeof few_keys / sizeof few_keys[0] };

/* Scales from even to nearly one key alone, half of them without a soft cap. */
static head pick_head(fy_kc_random *r, int dim, int n_keys)
{
    static const float caps[] = {0.0f, 0.0f, 5.0f, 50.0f};
    static const float sharpness[] = {0.0f, 1.0f, 1.0f, 8.0f, 100.0f};
    head h = {.n_keys = n_keys, .dim = dim, .dim_v = dims[fy_kc_between(r, 0, N_DIMS - 1)]};
    h.k_stride = dim + fy_kc_between(r, 0, 8);
    h.v_stride = h.dim_v + fy_kc_between(r, 0, 8);
    h.scale = sharpness[fy_kc_between(r, 0, 4)] / sqrtf((float)dim);
    h.cap = caps[fy_kc_between(r, 0, 3)];
    return h;
}

static bool attend_equals_spec(fy_kc_case *t, const head *h)
{
    work *w = t->work;
    fill_cache(t, h);
    memcpy(w->head, attend(t, &t->spec, h), (size_t)h->dim_v * sizeof *w->head);
    return fy_kc_same_all(t, "out", attend(t, &t->k, h), w->head, h->dim_v);
}

/* Every dimension of the list with every number of keys of the list, and some long caches. */
static bool every_head(fy_kc_case *t, bool (*check)(fy_kc_case *t, const head *h))
{
    for (int d = 0; d < N_DIMS; d++) {
        for (int i = 0; i < N_FEW_KEYS; i++) {
            const head h = pick_head(&t->random, dims[d], few_keys[i]);
            if (!check(t, &h))
                return false;
        }
    }
    for (int n_keys = 63; n_keys <= MAX_KEYS; n_keys += 79) {
        const head h = pick_head(&t->random, 64, n_keys);
        if (!check(t, &h))
            return false;
    }
    return true;
}

bool fy_kc_attend_equals_spec(fy_kc_case *t)
{
    return every_head(t, attend_equals_spec);
}

bool fy_kc_attend_near(fy_kc_case *t)
{
    return every_head(t, attend_is_near);
}

bool fy_kc_attend_any_stride(fy_kc_case *t)
{
    work *w = t->work;
    for (int d = 0; d < N_DIMS; d++) {
        head h = pick_head(&t->random, dims[d], fy_kc_between(&t->random, 1, 50));
        fill_cache(t, &h);
        memcpy(w->head, attend(t, &t->k, &h), (size_t)h.dim_v * sizeof *w->head);
        for (int extra = 0; extra <= 8; extra++) {
            h.k_stride = h.dim + extra;
            h.v_stride = h.dim_v + 8 - extra;
            if (!fy_kc_same_all(t, "out", attend(t, &t->k, &h), w->head, h.dim_v))
                return false;
        }
    }
    return true;
}

bool fy_kc_attend_keeps_nan(fy_kc_case *t)
{
    work *w = t->work;
    for (int n_keys = 1; n_keys <= 20; n_keys++) {
        const head h = {.n_keys = n_keys,
                        .dim = 37,
                        .dim_v = 13,
                        .k_stride = 37,
                        .v_stride = 13,
                        .scale = 0.2f,
                        .cap = n_keys % 2 == 0 ? 5.0f : 0.0f};
        fill_cache(t, &h);
        const int key = fy_kc_between(&t->random, 0, n_keys - 1),
                  element = fy_kc_between(&t->random, 0, 12);
        w->cache_v[key * h.dim_v + element] = NAN;
        const float *out = attend(t, &t->k, &h);
        for (int i = 0; i < h.dim_v; i++) {
            if ((isnan(out[i]) != 0) != (i == element))
                return fy_kc_fail(t, "V[%d][%d] of %d keys is NaN, out[%d] is %.9g", key, element,
                                  n_keys, i, (double)out[i]);
        }
        w->cache_k[key * h.dim + element] = NAN;
        out = attend(t, &t->k, &h);
        for (int i = 0; i < h.dim_v; i++) {
            if (!isnan(out[i]))
                return fy_kc_fail(t, "K[%d][%d] of %d keys is NaN, out[%d] is %.9g", key, element,
                                  n_keys, i, (double)out[i]);
        }
    }
    return true;
}

/* --- elementwise --- */

static const int sizes[] = {96, 127, 128, 129, 1000, 4096, MAX_N};
enum { N_SIZES = 71 + sizeof sizes / sizeof sizes[0] };

static int size_at(int i)
{
    return i <= 70 ? i : sizes[i - 71];
}

static void fill_vector(fy_kc_random *r, float *x, int n, float magnitude)
{
    for (int i = 0; i < n; i++)
        x[i] = magnitude * fy_kc_normal(r);
}

static float *rms_norm(fy_kc_case *t, const fy_kernels *k, int n, float eps)
{
    work *w = t->work;
    const float *x = fy_kc_place_copy(t, FY_KC_X, w->xs, (size_t)n * sizeof *x);
    const float *weights = fy_kc_place_copy(t, FY_KC_W, w->ws, (size_t)n * sizeof *weights);
    float *y = fy_kc_place(t, FY_KC_Y, (size_t)n * sizeof *y);
    k->rms_norm(y, x, weights, n, eps);
    return y;
}

bool fy_kc_rms_norm_equals_spec(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < N_SIZES; i++) {
        const int n = size_at(i);
        fill_vector(&t->random, w->xs, n, 1.0f);
        fill_vector(&t->random, w->ws, n, 1.0f);
        if (n > 0)
            memcpy(w->expected, rms_norm(t, &t->spec, n, 1e-6f), (size_t)n * sizeof *w->expected);
        if (!fy_kc_same_all(t, "y", rms_norm(t, &t->k, n, 1e-6f), w->expected, n))
            return false;
    }
    return true;
}

/* Three roundings: the factor, and two products. Magnitudes whose square overflows f32 are in. */
bool fy_kc_rms_norm_near(fy_kc_case *t)
{
    work *w = t->work;
    static const float magnitudes[] = {1.0f, 1e-10f, 1e25f, 0.0f};
    for (int i = 1; i < N_SIZES * 4; i++) {
        const int n = size_at(i / 4) + (i < 4);
        const float eps = 1e-5f;
        fill_vector(&t->random, w->xs, n, magnitudes[i % 4]);
        fill_vector(&t->random, w->ws, n, 1.0f);
        const float *y = rms_norm(t, &t->k, n, eps);
        double sum = 0;
        for (int e = 0; e < n; e++)
            sum += (double)w->xs[e] * (double)w->xs[e];
        const double factor = 1 / sqrt(sum / n + (double)eps);
        for (int e = 0; e < n; e++) {
            const double want = (double)w->xs[e] * factor * (double)w->ws[e];
            if (!(fabs((double)y[e] - want) <= 3.1 * U * fabs(want) + 1e-44))
                return fy_kc_fail(t, "y[%d] of %d is %.9g, expected %.9g", e, n, (double)y[e],
                                  want);
        }
    }
    fill_vector(&t->random, w->xs, 21, 1.0f);
    for (int bad = 0; bad < 21; bad++) {
        w->xs[bad] = NAN;
        const float *y = rms_norm(t, &t->k, 21, 1e-5f);
        if (!isnan(y[0]) || !isnan(y[20]))
            return fy_kc_fail(t, "a NaN at element %d of 21 is hidden", bad);
        w->xs[bad] = 0.0f;
    }
    return true;
}

bool fy_kc_rms_norm_in_place(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < N_SIZES; i++) {
        const int n = size_at(i);
        fill_vector(&t->random, w->xs, n, 1.0f);
        fill_vector(&t->random, w->ws, n, 1.0f);
        const float *y = rms_norm(t, &t->k, n, 1e-6f);
        float *x = fy_kc_place_copy(t, FY_KC_X, w->xs, (size_t)n * sizeof *x);
        const float *weights = fy_kc_place_copy(t, FY_KC_W, w->ws, (size_t)n * sizeof *weights);
        t->k.rms_norm(x, x, weights, n, 1e-6f);
        if (!fy_kc_same_all(t, "y", x, y, n))
            return false;
    }
    return true;
}
