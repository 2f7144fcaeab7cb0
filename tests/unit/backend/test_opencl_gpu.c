/* The share of a GPU through OpenCL: its products against the CPU's, for every type and activation,
 * on whatever device the system has (PoCL, for one); and with a library that fails at each of its
 * calls in turn, or that is none. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/opencl/opencl_gpu.h"
#include "backend/opencl/opencl_lib.h"
#include "kernels/row.h"

enum { N = 70, COLS = 96, TOKENS = 40, ROW_BYTES = COLS * 2 };

static float value(uint64_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return (float)(int32_t)(x >> 32) * 0x1p-31f;
}

typedef struct {
    uint8_t bytes[3][N * ROW_BYTES];
    float bias[2][N];
    fy_gpu_layer l;
} weights;

static fy_matrix make_matrix(uint8_t *to, fy_type t, uint64_t seed)
{
    const fy_kernels k = fy_kernels_for(0);
    const fy_matrix w = {.data = to,
                         .type = t,
                         .row_bytes = (size_t)fy_type_row_bytes(t, COLS),
                         .n_rows = N,
                         .n_cols = COLS};
    for (int r = 0; r < N; r++) {
        float row[COLS];
        fy_row_fault fault;
        for (int i = 0; i < COLS; i++)
            row[i] = value(seed + (uint64_t)(r * COLS + i));
        assert_int_equal(
            fy_row_encode(&k, t, to + (size_t)r * w.row_bytes, row, COLS, NULL, &fault), 0);
    }
    return w;
}

static void make_layer(weights *w, fy_type t, bool gated, bool biased)
{
    w->l = (fy_gpu_layer){.up = make_matrix(w->bytes[1], t, 1u << 20),
                          .down = make_matrix(w->bytes[2], t, 2u << 20)};
    if (gated)
        w->l.gate = make_matrix(w->bytes[0], t, 0);
    for (int i = 0; i < N; i++) {
        w->bias[0][i] = value((uint64_t)i + 5000);
        w->bias[1][i] = value((uint64_t)i + 9000);
    }
    w->l.gate_bias = biased && gated ? w->bias[0] : NULL;
    w->l.up_bias = biased ? w->bias[1] : NULL;
}

/* --- the kernels ------------------------------------------------------------------------------ */

static float x[TOKENS * COLS], rounded[TOKENS * COLS], y[TOKENS * COLS], expected[TOKENS * COLS];

/* The CPU's, and in x what the GPU reads. */
static void compute(const fy_gpu_layer *l, const fy_activation *f, int n)
{
    static float gate[TOKENS][N], up[TOKENS][N];
    int32_t id[TOKENS][N];
    fy_neurons tokens[TOKENS];
    fy_err e = {0};
    const fy_backend_params p = {.n_threads = 2, .n_tokens = TOKENS, .q8_len = COLS};
    fy_backend *b = fy_backend_new(&p, &e);
    assert_non_null(b);
    const bool gated = l->gate.data != NULL;
    const fy_product products[] = {{.w = &l->up, .bias = l->up_bias, .y = gated ? up[0] : gate[0]},
                                   {.w = &l->gate, .bias = l->gate_bias, .y = gate[0]}};
    const fy_product down = {.w = &l->down, .y = expected};
    fy_backend_matmul(b, x, n, products, gated ? 2 : 1);
    fy_backend_activate(b, f, gate[0], gated ? up[0] : NULL, n, N);
    for (int i = 0; i < n; i++)
        tokens[i] = (fy_neurons){gate[i], id[i], N};
    fy_backend_list_neurons(b, tokens, n);
    fy_backend_add_rows(b, tokens, n, &down);
    if (fy_kernels_wants_q8(l->up.type))
        fy_backend_round_q8(b, rounded, x, n, COLS);
    else
        memcpy(rounded, x, sizeof x);
    fy_backend_free(b);
}

static void check(fy_gpu *g, uint32_t layer, const fy_gpu_layer *l, const fy_activation *f, int n)
{
    fy_err e = {0};
    double most = 0;
    for (int i = 0; i < n * COLS; i++)
        x[i] = value((uint64_t)i + 777);
    compute(l, f, n);
    memset(y, 0xff, sizeof y);
    assert_int_equal(g->api->begin(g, layer, rounded, n, y, &e), 0);
    assert_int_equal(g->api->end(g, &e), 0);
    for (int i = 0; i < n * COLS; i++)
        most = fmax(most, fabs((double)expected[i]));
    assert_true(most > 0.1);
    for (int i = 0; i < n * COLS; i++) {
        if (!(fabs((double)y[i] - (double)expected[i]) <= 2e-6 * most))
            fail_msg("layer %u, %d tokens: y[%d] = %g, expected %g", layer, n, i, (double)y[i],
                     (double)expected[i]);
    }
}

static void the_products_are_those_of_the_cpu(void **state)
{
    (void)state;
    static const fy_type types[] = {FY_F16, FY_Q8_0, FY_Q4_0};
    static const fy_activation activations[] = {
        {FY_ACT_RELU, 0}, {FY_ACT_FATRELU, 0.3f}, {FY_ACT_DRELU, 0}, {FY_ACT_RELU2, 0}};
    static weights w[6];
    for (size_t a = 0; a < 4; a++) {
        fy_err e = {0};
        fy_gpu_layer layers[7] = {{.gate = {0}}}; /* one without a share */
        fy_gpu *g = fy_opencl_open(NULL, &e);
        if (g == NULL) {
            print_message("no OpenCL device here: %s\n", e.msg);
            skip();
        }
        for (uint32_t i = 0; i < 6; i++) {
            make_layer(&w[i], types[i / 2], i % 2 == 0 && activations[a].kind != FY_ACT_RELU2,
                       i != 0);
            layers[i + 1] = w[i].l;
        }
        assert_int_equal(g->api->load(g, layers, 7, &activations[a], &e), 0);
        for (uint32_t i = 1; i < 7; i++) {
            if (activations[a].kind == FY_ACT_DRELU && layers[i].gate.data == NULL)
                continue; /* it has no meaning there */
            check(g, i, &layers[i], &activations[a], 1);
            check(g, i, &layers[i], &activations[a], TOKENS);
        }
        g->api->close(g);
    }
}

/* --- a library that fails --------------------------------------------------------------------- */

static char fake[512];
static void (*fail_at)(long at, bool all_from, int32_t code);
static long (*n_calls)(void), (*n_live)(void);

static void find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    assert_non_null(symbol);
    memcpy(to, &symbol, sizeof symbol);
}

static void load_fake(void)
{
    void *library = dlopen(fake, RTLD_NOW);
    if (library == NULL)
        fail_msg("%s", dlerror());
    find(library, "fake_opencl_fail", &fail_at);
    find(library, "fake_opencl_calls", &n_calls);
    find(library, "fake_opencl_live", &n_live);
}

/* Everything once: 0, or -1 with an error. */
static int use_all(fy_err *e)
{
    static weights w[2];
    const fy_activation relu = {FY_ACT_RELU, 0};
    make_layer(&w[0], FY_Q4_0, true, true);
    make_layer(&w[1], FY_F16, false, false);
    const fy_gpu_layer layers[] = {w[0].l, w[1].l};
    fy_gpu *g = fy_opencl_open(fake, e);
    if (g == NULL)
        return -1;
    int rc = g->api->load(g, layers, 2, &relu, e);
    for (uint32_t i = 0; i < 2 && rc == 0; i++) {
        rc = g->api->begin(g, i, x, TOKENS, y, e);
        if (rc == 0)
            rc = g->api->end(g, e);
    }
    g->api->close(g);
    return rc;
}

static void every_call_may_fail(void **state)
{
    (void)state;
    fy_err e = {0};
    load_fake();
    fail_at(-1, false, 0);
    assert_int_equal(use_all(&e), 0);
    assert_int_equal(n_live(), 0);
    const long n = n_calls();
    assert_true(n > 60);
    for (long i = 0; i < 2 * n; i++) { /* alone, and with all that follow */
        e = (fy_err){0};
        fail_at(i / 2, i % 2 == 1, -5);
        assert_int_equal(use_all(&e), -1);
        assert_int_equal(e.code, FY_EDEVICE);
        assert_non_null(strstr(e.msg, "gave error -5"));
        assert_non_null(strstr(e.msg, "run without --gpu-hot"));
        assert_int_equal(n_live(), 0);
        e = (fy_err){0};
        fail_at(i / 2, i % 2 == 1, -4);
        assert_int_equal(use_all(&e), -1);
        assert_int_equal(e.code, FY_EFIT);
    }
}

static void what_a_driver_says_is_escaped(void **state)
{
    (void)state;
    fy_err e = {0};
    load_fake();
    setenv("FAKE_OPENCL_NAME", "GPU\033[31m", 1);
    setenv("FAKE_OPENCL_LOG", "1:1: \033[31mno such thing", 1);
    fail_at(-1, false, 0);
    fy_gpu *g = fy_opencl_open(fake, &e);
    assert_non_null(g);
    assert_string_equal(g->device, "GPU\\x1b[31m");
    g->api->close(g);
    for (long i = 0; strstr(e.msg, "did not compile") == NULL; i++) {
        assert_true(i < 20);
        e = (fy_err){0};
        fail_at(i, false, FY_CL_BUILD_PROGRAM_FAILURE);
        use_all(&e);
        assert_null(strchr(e.msg, '\033'));
    }
    assert_non_null(strstr(e.msg, "GPU\\x1b[31m: the driver did not compile the kernels: 1:1: "));
    unsetenv("FAKE_OPENCL_NAME");
    unsetenv("FAKE_OPENCL_LOG");
}

static void what_does_not_fit_is_refused_before_it_is_taken(void **state)
{
    (void)state;
    fy_err e = {0};
    load_fake();
    setenv("FAKE_OPENCL_MEMORY", "20000", 1);
    fail_at(-1, false, 0);
    assert_int_equal(use_all(&e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(e.msg, "make fewer hot"));
    assert_int_equal(n_live(), 0);
    unsetenv("FAKE_OPENCL_MEMORY");
}

static void refuse(const fy_gpu_layer *l, const fy_activation *f, const char *says)
{
    fy_err e = {0};
    fail_at(-1, false, 0);
    fy_gpu *g = fy_opencl_open(fake, &e);
    assert_non_null(g);
    assert_int_equal(g->api->load(g, l, 1, f, &e), -1);
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, says));
    g->api->close(g);
}

static void other_types_and_activations_are_refused_by_name(void **state)
{
    (void)state;
    static weights w;
    const fy_activation relu = {FY_ACT_RELU, 0}, silu = {FY_ACT_SILU, 0};
    load_fake();
    make_layer(&w, FY_F16, true, false);
    refuse(&w.l, &silu, "ReLU kind");
    w.l.down.type = FY_BF16;
    refuse(&w.l, &relu, "down of layer 0 is bf16");
    w.l.down.type = FY_F16;
    w.l.gate.type = FY_Q8_0;
    refuse(&w.l, &relu, "gate of layer 0 is q8_0 and up f16");
}

static void a_library_that_is_none_is_said(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_null(fy_opencl_open("/nonexistent/libOpenCL.so", &e));
    assert_int_equal(e.code, FY_EDEVICE);
    assert_non_null(strstr(e.msg, "cannot load the OpenCL library"));
    e = (fy_err){0};
    assert_null(fy_opencl_open("libm.so.6", &e));
    assert_int_equal(e.code, FY_EDEVICE);
    assert_non_null(strstr(e.msg, "libm.so.6 has no function 'clGetPlatformIDs'"));
}

/* What the drivers leave is theirs. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpocl\nleak:libOpenCL\nleak:libLLVM\nleak:libclang\n";
}

int main(int argc, char **argv)
{
    char cache[] = "/tmp/test_opencl_XXXXXX", remove[64];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_products_are_those_of_the_cpu),
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(what_a_driver_says_is_escaped),
        cmocka_unit_test(what_does_not_fit_is_refused_before_it_is_taken),
        cmocka_unit_test(other_types_and_activations_are_refused_by_name),
        cmocka_unit_test(a_library_that_is_none_is_said),
    };
    (void)argc;
    const char *slash = strrchr(argv[0], '/');
    const int dir = slash != NULL ? (int)(slash - argv[0]) : 1;
    snprintf(fake, sizeof fake, "%.*s/libOpenCL.so.1", dir, slash != NULL ? argv[0] : ".");
    if (mkdtemp(cache) == NULL)
        return 1;
    setenv("POCL_CACHE_DIR", cache, 1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(remove, sizeof remove, "rm -rf %s", cache);
    return system(remove) != 0 || failed != 0;
}
