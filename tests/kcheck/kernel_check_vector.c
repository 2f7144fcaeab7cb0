/* Norms and gates: bit for bit the specification, and near the same in
 * double within bounds that follow from the lengths. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "tests/kcheck/kernel_check.h"

/* Unit roundoff of f32; what fy_exp may be off by, relatively. */
#define U         0x1p-24
#define EXP_ERROR 4e-7

enum { MAX_N = 4099 };

/* What lies in fy_kc_case.work. */
typedef struct {
    float xs[MAX_N], ws[MAX_N], expected[MAX_N];
} work;
static_assert(sizeof(work) <= FY_KC_WORK_BYTES, "work memory");

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
