/* A graph's life on the reference library: composed, executed, written, read back; and the calls
 * that it refuses on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compose.h"

enum { ROWS = 3, DEPTH = 300, COLS = 70 };

typedef struct {
    client c;
    abi_tensor *x, *y;
    int8_t w[DEPTH * COLS];
    float scales[COLS];
    uint16_t in[ROWS * DEPTH], out[ROWS * COLS];
} linear;

static abi_quant axis_quant(int32_t axis, uint32_t n, abi_scale_offset *list, const float *scales)
{
    for (uint32_t i = 0; i < n; i++)
        list[i] = (abi_scale_offset){scales[i], 0};
    abi_quant q = {.definition = 1, .encoding = ABI_AXIS};
    q.u.axis.axis = axis;
    q.u.axis.n = n;
    q.u.axis.scales = list;
    return q;
}

static void open_client(client *c)
{
    assert_int_equal(client_open(c, reference_path("libQnnRef.so")), 0);
    assert_int_equal(client_device(c, 57, 75, 8), 0);
}

/* One linear layer, not finalized. */
static void compose_linear(linear *l, const char *graph)
{
    abi_scale_offset list[COLS];
    uint32_t seed = 1;
    for (int i = 0; i < DEPTH * COLS; i++)
        l->w[i] = (int8_t)((seed = seed * 1664525 + 1013904223) >> 24);
    for (int i = 0; i < ROWS * DEPTH; i++)
        l->in[i] = (uint16_t)((seed = seed * 1664525 + 1013904223) >> 16);
    for (int i = 0; i < COLS; i++)
        l->scales[i] = 0.001f * (float)(1 + i % 5);
    assert_int_equal(client_graph(&l->c, graph), 0);
    l->x = tensor(&l->c, "x", ABI_APP_WRITE, ABI_U16, scale_offset(1e-4, -32768), NULL,
                  DIMS(1, 1, ROWS, DEPTH));
    l->y = tensor(&l->c, "y", ABI_APP_READ, ABI_U16, scale_offset(5e-3, -32768), NULL,
                  DIMS(1, 1, ROWS, COLS));
    abi_tensor *w = tensor(&l->c, "w", ABI_STATIC, ABI_S8, axis_quant(3, COLS, list, l->scales),
                           l->w, DIMS(1, 1, DEPTH, COLS));
    conv(&l->c, l->y, l->x, w, NULL);
    assert_int_equal(l->c.tensor_error, 0);
    assert_int_equal(l->c.validate_error, 0);
    assert_int_equal(l->c.add_error, 0);
}

static void check_linear(const linear *l)
{
    for (int m = 0; m < ROWS; m++) {
        for (int n = 0; n < COLS; n++) {
            double sum = 0;
            for (int k = 0; k < DEPTH; k++)
                sum += (l->in[m * DEPTH + k] - 32768.0) * l->w[k * COLS + n];
            double y = sum * (double)1e-4f * (double)l->scales[n] / (double)5e-3f;
            double d = l->out[m * COLS + n] - 32768.0 - y;
            assert_true(d < 1.01 && d > -1.01);
        }
    }
}

static abi_error run_linear(linear *l)
{
    void *in = l->in, *out = l->out;
    memset(l->out, 0, sizeof l->out);
    return client_execute(&l->c, 1, &l->x, &in, 1, &l->y, &out);
}

static void a_composed_graph_executes_and_comes_back_from_its_binary(void **state)
{
    (void)state;
    static linear l;
    uint64_t size = 0, written = 0;
    uint16_t first[ROWS * COLS];
    open_client(&l.c);
    assert_int_equal(client_context(&l.c, false), 0);
    compose_linear(&l, "g");
    assert_int_equal(SLOT(&l.c, 11, binary_size_fn)(l.c.context, &size), ABI_CONTEXT_NOT_FINALIZED);
    assert_int_equal(client_finalize(&l.c), 0);
    assert_int_equal(run_linear(&l), 0);
    check_linear(&l);
    memcpy(first, l.out, sizeof first);
    assert_int_equal(SLOT(&l.c, 11, binary_size_fn)(l.c.context, &size), 0);
    assert_in_range(size, DEPTH * COLS, DEPTH * COLS + 4096);
    uint8_t *binary = malloc(size);
    assert_int_equal(SLOT(&l.c, 12, binary_fn)(l.c.context, binary, size - 1, &written),
                     ABI_CONTEXT_SIZE);
    assert_int_equal(SLOT(&l.c, 12, binary_fn)(l.c.context, binary, size, &written), 0);
    assert_int_equal(written, size);
    assert_int_equal(SLOT(&l.c, 14, context_free_fn)(l.c.context, NULL), 0);
    assert_int_equal(run_linear(&l), ABI_GRAPH_HANDLE);
    from_binary_fn *load = SLOT(&l.c, 13, from_binary_fn);
    assert_int_equal(load(l.c.backend, l.c.device, NULL, binary, size, &l.c.context, NULL), 0);
    memset(binary, 0, size);
    assert_int_equal(SLOT(&l.c, 20, retrieve_fn)(l.c.context, "h", &l.c.graph), ABI_GRAPH_NAME);
    assert_int_equal(SLOT(&l.c, 20, retrieve_fn)(l.c.context, "g", &l.c.graph), 0);
    assert_int_equal(run_linear(&l), 0);
    assert_memory_equal(first, l.out, sizeof first);
    free(binary);
    client_close(&l.c, true);
}

static void shared_weights_are_stored_once(void **state)
{
    (void)state;
    static linear l;
    uint64_t sizes[2];
    open_client(&l.c);
    for (int sharing = 0; sharing < 2; sharing++) {
        assert_int_equal(client_context(&l.c, sharing != 0), 0);
        compose_linear(&l, "a");
        assert_int_equal(client_finalize(&l.c), 0);
        compose_linear(&l, "b");
        assert_int_equal(client_finalize(&l.c), 0);
        assert_int_equal(SLOT(&l.c, 11, binary_size_fn)(l.c.context, &sizes[sharing]), 0);
        client_drop_context(&l.c);
    }
    assert_in_range(sizes[0] - sizes[1], DEPTH * COLS, DEPTH * COLS + 1024);
    client_close(&l.c, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_composed_graph_executes_and_comes_back_from_its_binary),
        cmocka_unit_test(shared_weights_are_stored_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
