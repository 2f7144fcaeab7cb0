/* The sums of errors. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "tests/kcheck/kernel_check.h"

enum { MAX_N = 1100, MAX_LIMITS = (MAX_N / FY_LIMIT_ELEMS + 1) * 2, N_KINDS = 6 };

/* What lies in fy_kc_case.work. */
typedef struct {
    float xs[MAX_N], ys[MAX_N], limits[MAX_LIMITS];
} work;
static_assert(sizeof(work) <= FY_KC_WORK_BYTES, "work memory");

static const int sizes[] = {96, 127, 128, 129, 1000, MAX_N};
enum { N_SIZES = 71 + sizeof sizes / sizeof sizes[0] };

static int size_at(int i)
{
    return i <= 70 ? i : sizes[i - 71];
}

/* Weights and what is near them; tiny and huge ones; zeros; y that has nothing to do with x. */
static void fill(fy_kc_case *t, int kind, int n)
{
    static const float magnitudes[N_KINDS] = {0.02f, 1e-42f, 3e38f, 0.0f, 1.0f, 1.0f};
    work *w = t->work;
    fy_kc_random *r = &t->random;
    for (int i = 0; i < n; i++) {
        w->xs[i] = magnitudes[kind] * fy_kc_uniform(r);
        w->ys[i] = kind < 4 ? w->xs[i] * (1 + 0.1f * fy_kc_uniform(r)) : fy_kc_uniform(r);
    }
    if (kind == 5 && n > 0) {
        static const float culprits[] = {NAN, INFINITY, -INFINITY};
        w->xs[fy_kc_between(r, 0, n - 1)] = culprits[fy_kc_between(r, 0, 2)];
        w->ys[fy_kc_between(r, 0, n - 1)] = culprits[fy_kc_between(r, 0, 2)];
    }
    for (int i = 0; i < MAX_LIMITS; i += 2) { /* some groups are on one side of zero */
        const float one = magnitudes[kind] * fy_kc_uniform(r),
                    other = magnitudes[kind] * fy_kc_uniform(r);
        w->limits[i] = fminf(one, other);
        w->limits[i + 1] = fmaxf(one, other);
    }
}

static void add(fy_kc_case *t, const fy_kernels *k, fy_error_sums *s, int n, bool limited)
{
    const work *w = t->work;
    const size_t groups = ((size_t)n + FY_LIMIT_ELEMS - 1) / FY_LIMIT_ELEMS;
    const float *x = fy_kc_place_copy(t, FY_KC_X, w->xs, (size_t)n * sizeof *x),
                *y = fy_kc_place_copy(t, FY_KC_W, w->ys, (size_t)n * sizeof *y),
                *limits = fy_kc_place_copy(t, FY_KC_D, w->limits, groups * 2 * sizeof *limits);
    k->error_sums(s, x, y, limited ? limits : NULL, n);
}

static bool same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

bool fy_kc_error_equals_spec(fy_kc_case *t)
{
    for (int i = 0; i < N_SIZES * N_KINDS; i++) {
        const int n = size_at(i / N_KINDS);
        fy_error_sums got = {0}, want = {0};
        for (int call = 0; call < 3; call++) { /* they add up */
            fill(t, i % N_KINDS, n);
            add(t, &t->spec, &want, n, call > 0);
            add(t, &t->k, &got, n, call > 0);
        }
        if (!same(got.xx, want.xx) || !same(got.yy, want.yy) || !same(got.xy, want.xy) ||
            !same(got.ee, want.ee))
            return fy_kc_fail(
                t, "sums of %d are %.17g %.17g %.17g %.17g, not %.17g %.17g %.17g %.17g", n, got.xx,
                got.yy, got.xy, got.ee, want.xx, want.yy, want.xy, want.ee);
        if (got.max_x != want.max_x || got.max_e != want.max_e)
            return fy_kc_fail(t, "largest of %d are %.9g %.9g, expected %.9g %.9g", n,
                              (double)got.max_x, (double)got.max_e, (double)want.max_x,
                              (double)want.max_e);
        if (got.n != want.n || got.n_outside != want.n_outside)
            return fy_kc_fail(t, "%d of %d are outside, expected %d", (int)got.n_outside,
                              (int)got.n, (int)want.n_outside);
    }
    return true;
}

static bool near(fy_kc_case *t, const char *what, double got, long double want,
                 long double sizes_sum, int n)
{
    if (fabsl((long double)got - want) <= 0x1p-52L * (long double)(n + 2) * sizes_sum)
        return true;
    return fy_kc_fail(t, "%s of %d is %.17g, expected %.17Lg", what, n, got, want);
}

bool fy_kc_error_near(fy_kc_case *t)
{
    const work *w = t->work;
    for (int i = 0; i < N_SIZES * 5; i++) { /* all but what is not finite */
        const int n = size_at(i / 5);
        fy_error_sums s = {0};
        long double xx = 0, yy = 0, xy = 0, xy_sizes = 0, ee = 0;
        double max_x = 0, max_e = 0;
        int64_t n_outside = 0;
        fill(t, i % 5, n);
        add(t, &t->k, &s, n, true);
        for (int e = 0; e < n; e++) {
            const long double x = (long double)w->xs[e], y = (long double)w->ys[e];
            const float *limit = w->limits + e / 16 * 2;
            xx += x * x;
            yy += y * y;
            xy += x * y;
            xy_sizes += fabsl(x * y);
            ee += (x - y) * (x - y);
            max_x = fmax(max_x, fabs((double)w->xs[e]));
            max_e = fmax(max_e, fabs((double)w->xs[e] - (double)w->ys[e]));
            n_outside += !(w->xs[e] >= limit[0] && w->xs[e] <= limit[1]);
        }
        if (!near(t, "sum of x^2", s.xx, xx, xx, n) || !near(t, "sum of y^2", s.yy, yy, yy, n) ||
            !near(t, "sum of x y", s.xy, xy, xy_sizes, n) ||
            !near(t, "sum of (x - y)^2", s.ee, ee, ee, n))
            return false;
        if ((double)s.max_x != max_x || fabs((double)s.max_e - max_e) > 0x1p-24 * max_e)
            return fy_kc_fail(t, "largest of %d are %.9g %.9g, expected %.9g %.9g", n,
                              (double)s.max_x, (double)s.max_e, max_x, max_e);
        if (s.n != n || s.n_outside != n_outside)
            return fy_kc_fail(t, "%d of %d are outside, expected %d", (int)s.n_outside, (int)s.n,
                              (int)n_outside);
    }
    return true;
}
