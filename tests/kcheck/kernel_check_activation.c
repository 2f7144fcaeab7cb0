/* Layer norm, the activations of feed-forward networks and the soft cap: bit for bit the
 * specification, and near the same in double. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "tests/kcheck/kernel_check.h"

#define U 0x1p-24 /* unit roundoff of f32 */

enum { MAX_N = 4099 };

typedef struct {
    float xs[MAX_N], ups[MAX_N], biases[MAX_N], expected[MAX_N];
} work;
static_assert(sizeof(work) <= FY_KC_WORK_BYTES, "work memory");

static const int sizes[] = {96, 127, 128, 129, 1000, 4096, MAX_N};
enum { N_SIZES = 71 + sizeof sizes / sizeof sizes[0] };

static int size_at(int i)
{
    return i <= 70 ? i : sizes[i - 71];
}

static void fill_vector(fy_kc_random *r, float *x, int n, float magnitude, float offset)
{
    for (int i = 0; i < n; i++)
        x[i] = offset + magnitude * fy_kc_normal(r);
}

/* Any bits for some elements: NaN, infinity, subnormals. */
static void sprinkle_bits(fy_kc_random *r, float *x, int n, int every)
{
    for (int i = every > 1 ? fy_kc_between(r, 0, every - 1) : 0; i < n; i += every) {
        const uint32_t bits = (uint32_t)fy_kc_next(r);
        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* --- layer norm --- */

static float *layer_norm(fy_kc_case *t, const fy_kernels *k, int n, bool biased)
{
    work *w = t->work;
    const size_t bytes = (size_t)n * sizeof(float);
    const float *x = fy_kc_place_copy(t, FY_KC_X, w->xs, bytes);
    const float *weights = fy_kc_place_copy(t, FY_KC_W, w->ups, bytes);
    const float *bias = biased ? fy_kc_place_copy(t, FY_KC_D, w->biases, bytes) : NULL;
    float *y = fy_kc_place(t, FY_KC_Y, bytes);
    k->layer_norm(y, x, weights, bias, n, 1e-5f);
    return y;
}

static void fill_norm(fy_kc_case *t, int n, float magnitude, float offset)
{
    work *w = t->work;
    fill_vector(&t->random, w->xs, n, magnitude, offset);
    fill_vector(&t->random, w->ups, n, 1.0f, 1.0f);
    fill_vector(&t->random, w->biases, n, 1.0f, 0.0f);
}

bool fy_kc_layer_norm_equals_spec(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < 2 * N_SIZES; i++) {
        const int n = size_at(i / 2);
        fill_norm(t, n, 1.0f, i % 3 ? 0.0f : 10.0f);
        if (n > 0)
            memcpy(w->expected, layer_norm(t, &t->spec, n, i % 2 == 0),
                   (size_t)n * sizeof *w->expected);
        if (!fy_kc_same_all(t, "y", layer_norm(t, &t->k, n, i % 2 == 0), w->expected, n))
            return false;
    }
    return true;
}

/* Four roundings, that of the mean, and a NaN reaches every element. */
static bool layer_norm_is_near(fy_kc_case *t, int n, bool biased)
{
    const work *w = t->work;
    const float *y = layer_norm(t, &t->k, n, biased);
    double mean = 0, variance = 0;
    for (int i = 0; i < n; i++)
        mean += (double)w->xs[i] / n;
    for (int i = 0; i < n; i++)
        variance += ((double)w->xs[i] - mean) * ((double)w->xs[i] - mean) / n;
    const double factor = 1 / sqrt(variance + (double)1e-5f);
    for (int i = 0; i < n; i++) {
        const double scaled = ((double)w->xs[i] - mean) * factor * (double)w->ups[i];
        const double want = scaled + (biased ? (double)w->biases[i] : 0);
        const double error = 5 * U * (fabs(scaled) + fabs(want)) +
                             2 * U * fabs(mean) * factor * fabs((double)w->ups[i]);
        if (!(fabs((double)y[i] - want) <= error + 1e-30))
            return fy_kc_fail(t, "y[%d] of %d is %.9g, expected %.9g", i, n, (double)y[i], want);
    }
    return true;
}

bool fy_kc_layer_norm_near(fy_kc_case *t)
{
    work *w = t->work;
    static const float magnitudes[] = {1.0f, 1e-10f, 1e17f, 0.0f}, offsets[] = {0.0f, 3.0f};
    for (int i = 8; i < N_SIZES * 8; i++) {
        fill_norm(t, size_at(i / 8), magnitudes[i % 4], offsets[i / 4 % 2]);
        if (!layer_norm_is_near(t, size_at(i / 8), i % 3 == 0))
            return false;
    }
    fill_norm(t, 21, 1.0f, 0.0f);
    for (int bad = 0; bad < 21; bad++) {
        w->xs[bad] = NAN;
        const float *y = layer_norm(t, &t->k, 21, true);
        if (!isnan(y[0]) || !isnan(y[20]))
            return fy_kc_fail(t, "a NaN at element %d of 21 is hidden", bad);
        w->xs[bad] = 0.0f;
    }
    return true;
}

bool fy_kc_layer_norm_in_place(fy_kc_case *t)
{
    work *w = t->work;
    for (int i = 0; i < N_SIZES; i++) {
        const int n = size_at(i);
        const size_t bytes = (size_t)n * sizeof(float);
        fill_norm(t, n, 1.0f, 1.0f);
        const float *y = layer_norm(t, &t->k, n, true);
        float *x = fy_kc_place_copy(t, FY_KC_X, w->xs, bytes);
        const float *weights = fy_kc_place_copy(t, FY_KC_W, w->ups, bytes);
        const float *bias = fy_kc_place_copy(t, FY_KC_D, w->biases, bytes);
        t->k.layer_norm(x, x, weights, bias, n, 1e-5f);
        if (!fy_kc_same_all(t, "y", x, y, n))
            return false;
    }
    return true;
}

/* --- activations --- */

typedef struct {
    void (*run)(const fy_kernels *k, float *x, const float *up, int n);
    double (*exact)(double x, double up);
    double error;  /* of |x * up|, or of |x| (1 + |up|) */
    bool one_more; /* up counts as 1 + up, and as 1 when there is none */
} activation;

static float *activate(fy_kc_case *t, const fy_kernels *k, const activation *a, int n, bool plain)
{
    work *w = t->work;
    float *x = fy_kc_place_copy(t, FY_KC_Y, w->xs, (size_t)n * sizeof *x);
    const float *up = plain ? NULL : fy_kc_place_copy(t, FY_KC_X, w->ups, (size_t)n * sizeof *up);
    a->run(k, x, up, n);
    return x;
}

static bool activation_equals_spec(fy_kc_case *t, const activation *a)
{
    work *w = t->work;
    for (int i = 0; i < N_SIZES + 40; i++) {
        const int n = i < N_SIZES ? size_at(i) : MAX_N;
        const bool plain = i % 3 == 0;
        fill_vector(&t->random, w->xs, n, i % 2 ? 2.0f : 30.0f, 0.0f);
        fill_vector(&t->random, w->ups, n, 2.0f, 0.0f);
        sprinkle_bits(&t->random, w->xs, n, 3);
        memcpy(w->expected, activate(t, &t->spec, a, n, plain), (size_t)n * sizeof *w->expected);
        if (!fy_kc_same_all(t, "x", activate(t, &t->k, a, n, plain), w->expected, n))
            return false;
    }
    return true;
}

/* From the linear end to where exponentials overflow, and a NaN stays one. */
static bool activation_is_near(fy_kc_case *t, const activation *a)
{
    work *w = t->work;
    static const float edges[] = {0.0f, -0.0f, 1e-30f, 0.01f, -0.01f, 0.5f,   0.3f, 1.0f, -1.0f,
                                  4.0f, -4.0f, 6.0f,   -6.0f, 14.0f,  -14.0f, 1e9f, -1e9f};
    const int n_edges = sizeof edges / sizeof edges[0];
    for (int i = 0; i < N_SIZES; i++) {
        const int n = size_at(i);
        const bool plain = i % 2 == 0;
        fill_vector(&t->random, w->xs, n, i % 2 ? 3.0f : 20.0f, 0.0f);
        fill_vector(&t->random, w->ups, n, 2.0f, 0.0f);
        for (int e = i % 3; e < n; e += 3)
            w->xs[e] = edges[fy_kc_between(&t->random, 0, n_edges - 1)];
        const int bad = n > 0 ? fy_kc_between(&t->random, 0, n - 1) : 0;
        w->xs[bad] = NAN;
        const float *x = activate(t, &t->k, a, n, plain);
        for (int e = 0; e < n; e++) {
            const double v = (double)w->xs[e];
            const double up = plain ? (a->one_more ? 0 : 1) : (double)w->ups[e];
            const double want = a->exact(v, up);
            const bool ok = fabs((double)x[e] - want) <=
                            a->error * fabs(v * (a->one_more ? 1 + fabs(up) : up)) + 1e-36;
            if (e == bad ? !isnan(x[e]) : !ok)
                return fy_kc_fail(t, "of %.9g and %.9g it is %.9g, expected %.9g", v, up,
                                  (double)x[e], want);
        }
    }
    return true;
}

static void run_gelu(const fy_kernels *k, float *x, const float *up, int n)
{
    k->gelu_mul(x, up, n);
}

static double exact_gelu(double x, double up)
{
    return 0.5 * x * erfc(-x / sqrt(2)) * up;
}

static void run_gelu_tanh(const fy_kernels *k, float *x, const float *up, int n)
{
    k->gelu_tanh_mul(x, up, n);
}

static double exact_gelu_tanh(double x, double up)
{
    return 0.5 * x * (1 + tanh(sqrt(0.5 / atan(1)) * (x + 0.044715 * x * x * x))) * up;
}

static void run_relu(const fy_kernels *k, float *x, const float *up, int n)
{
    k->relu_mul(x, up, n, 0.01f);
}

static double exact_relu(double x, double up)
{
    return x > (double)0.01f ? x * up : 0;
}

static void run_drelu(const fy_kernels *k, float *x, const float *up, int n)
{
    k->drelu_mul(x, up, n);
}

static double exact_drelu(double x, double up)
{
    return x > 0 && up > 0 ? x * up : 0;
}

static void run_softcap(const fy_kernels *k, float *x, const float *up, int n)
{
    (void)up;
    k->softcap(x, n, 30.0f);
}

static void run_silu(const fy_kernels *k, float *x, const float *up, int n)
{
    k->silu_mul(x, up, n);
}

static double exact_silu(double x, double up)
{
    return x / (1 + exp(-x)) * up;
}

static void run_swiglu_oai(const fy_kernels *k, float *x, const float *up, int n)
{
    k->swiglu_oai_mul(x, up, n);
}

static double exact_swiglu_oai(double x, double up)
{
    const double v = fmin(x, 7);
    return v / (1 + exp(-1.702 * v)) * (1 + fmax(fmin(up, 7), -7));
}

static const activation silu = {run_silu, exact_silu, 3e-7, false};
static const activation gelu = {run_gelu, exact_gelu, 3e-7, false};
static const activation gelu_tanh = {run_gelu_tanh, exact_gelu_tanh, 3e-7, false};
static const activation relu = {run_relu, exact_relu, U, false};
static const activation drelu = {run_drelu, exact_drelu, U, false};
static const activation swiglu_oai = {run_swiglu_oai, exact_swiglu_oai, 3e-7, true};
static const activation softcap = {run_softcap, NULL, 0, false};

bool fy_kc_silu_equals_spec(fy_kc_case *t)
{
    return activation_equals_spec(t, &silu);
}

bool fy_kc_silu_near(fy_kc_case *t)
{
    return activation_is_near(t, &silu);
}

bool fy_kc_gelu_equals_spec(fy_kc_case *t)
{
    return activation_equals_spec(t, &gelu);
}

bool fy_kc_gelu_near(fy_kc_case *t)
{
    return activation_is_near(t, &gelu);
}

bool fy_kc_gelu_tanh_equals_spec(fy_kc_case *t)
{
    return activation_equals_spec(t, &gelu_tanh);
}

bool fy_kc_gelu_tanh_near(fy_kc_case *t)
{
    return activation_is_near(t, &gelu_tanh);
}

bool fy_kc_relu_equals_spec(fy_kc_case *t)
{
    return activation_equals_spec(t, &relu);
}

bool fy_kc_relu_near(fy_kc_case *t)
{
    return activation_is_near(t, &relu);
}

bool fy_kc_drelu_equals_spec(fy_kc_case *t)
{
    return activation_equals_spec(t, &drelu);
}

bool fy_kc_drelu_near(fy_kc_case *t)
{
    return activation_is_near(t, &drelu);
}

bool fy_kc_swiglu_oai_equals_spec(fy_kc_case *t)
{
    return activation_equals_spec(t, &swiglu_oai);
}

bool fy_kc_swiglu_oai_near(fy_kc_case *t)
{
    return activation_is_near(t, &swiglu_oai);
}

bool fy_kc_softcap_equals_spec(fy_kc_case *t)
{
    return activation_equals_spec(t, &softcap);
}

/* Within a few roundings of 1, times the cap: the subtraction cancels near 0. */
bool fy_kc_softcap_near(fy_kc_case *t)
{
    static const float magnitudes[] = {0.01f, 1.0f, 40.0f, 1e6f};
    work *w = t->work;
    for (int i = 0; i < N_SIZES; i++) {
        const int n = size_at(i);
        const float cap = i % 2 ? 50.0f : 30.0f;
        fill_vector(&t->random, w->xs, n, magnitudes[i % 4], 0.0f);
        float *x = fy_kc_place_copy(t, FY_KC_Y, w->xs, (size_t)n * sizeof *x);
        t->k.softcap(x, n, cap);
        for (int e = 0; e < n; e++) {
            const double want = (double)cap * tanh((double)w->xs[e] / (double)cap);
            if (!(fabs((double)x[e] - want) <= 4e-7 * (double)cap))
                return fy_kc_fail(t, "of %.9g below %g it is %.9g, expected %.9g", (double)w->xs[e],
                                  (double)cap, (double)x[e], want);
        }
    }
    return true;
}
