#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "format/neuron_split.h"
#include "model/golden.h"
#include "quantize/requantize.h"

enum { NEURONS = 256, HOT = 40, LAYERS = 2 };

static char dir[64], split[96], out[96];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-hot-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(split, sizeof split, "%s/model.gpuidx", dir);
    snprintf(out, sizeof out, "%s/out.gguf", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return fy_tree_remove(dir);
}

/* Hot are 5, 11, 17, ... in layer 0 and none in layer 1; n_layer: of the file. */
static void write_split(uint32_t n_layer, uint64_t n)
{
    fy_err e = {0};
    fy_neuron_split s;
    assert_int_equal(fy_neuron_split_init(&s, n_layer, &e), 0);
    for (uint32_t l = 0; l < n_layer; l++)
        assert_int_equal(fy_neuron_split_add_layer(&s, l, n, l == 0 ? HOT : 0, &e), 0);
    for (int i = 0; i < HOT; i++)
        s.layers[0].hot[i] = 5 + 6 * i;
    assert_int_equal(fy_neuron_split_write(&s, split, &e), 0);
    fy_neuron_split_release(&s);
}

static int order(const char *in, fy_err *e)
{
    const fy_part_options whole = {0};
    const fy_requant_params p = {.file = {.type = FY_F16}, .hot = split, .parts = &whole};
    fy_requant *q = fy_requant_open(in, &p, e);
    const int rc = q != NULL ? fy_requant_write(q, out, NULL, NULL, e) : -1;
    fy_requant_close(q);
    return rc;
}

/* The neuron of the input at a place of the output. */
static uint64_t neuron_at(uint64_t place)
{
    if (place < HOT)
        return 5 + 6 * place;
    uint64_t cold = HOT, i = 0;
    for (; i < NEURONS; i++) {
        if (i >= 5 && (i - 5) % 6 == 0 && (i - 5) / 6 < HOT)
            continue;
        if (cold++ == place)
            break;
    }
    return i;
}

static void check_rows(const char *in, const char *name, uint64_t row_bytes)
{
    fy_err e = {0};
    fy_gguf *a = fy_gguf_open(in, &e), *b = fy_gguf_open(out, &e);
    const fy_gguf_tensor *from = fy_gguf_tensor_find(a, name), *to = fy_gguf_tensor_find(b, name);
    assert_non_null(from);
    assert_non_null(to);
    assert_true(from->bytes == row_bytes * NEURONS && to->bytes == from->bytes);
    for (uint64_t i = 0; i < NEURONS; i++)
        assert_memory_equal(to->data + i * row_bytes, from->data + neuron_at(i) * row_bytes,
                            row_bytes);
    fy_gguf_close(a);
    fy_gguf_close(b);
}

static void check_golden(const char *golden)
{
    fy_err e = {0};
    fy_golden_report r;
    fy_model *m = fy_model_open(out, &e);
    assert_non_null(m);
    fy_golden *g = fy_golden_open(golden, fy_model_hparams(m), &e);
    assert_non_null(g);
    const fy_session_params p = {.n_ctx = fy_golden_n_ctx(g), .type_k = FY_F32, .type_v = FY_F32};
    fy_session *s = fy_session_new(m, &p, &e);
    assert_non_null(s);
    assert_int_equal(fy_golden_compare(g, s, 1e-4, &r, &e), 0);
    assert_true(r.within);
    fy_golden_report_release(&r);
    fy_session_free(s);
    fy_golden_close(g);
    fy_model_close(m);
}

/* Biases and predictors move with the rows. */
static void hot_neurons_come_first_and_the_model_computes_the_same(void **state)
{
    (void)state;
    static const char *const names[] = {"opt", "falcon"};
    for (int i = 0; i < 2; i++) {
        char in[96], golden[96];
        fy_err e = {0};
        snprintf(in, sizeof in, "tests/data/sparse/%s/model.powerinfer.gguf", names[i]);
        snprintf(golden, sizeof golden, "tests/data/sparse/%s/golden.safetensors", names[i]);
        write_split(LAYERS, NEURONS);
        assert_int_equal(order(in, &e), 0);
        check_rows(in, "blk.0.ffn_up.weight", 64 * 2);
        check_rows(in, "blk.0.ffn_down_t.weight", 64 * 2);
        check_rows(in, "blk.0.fc2.weight", i == 0 ? 16 * 2 : 12 * 2);
        if (i == 0)
            check_rows(in, "blk.0.ffn_up.bias", 4);
        check_golden(golden);
    }
    fy_err e = {0};
    fy_gguf *g = fy_gguf_open(out, &e);
    const fy_gguf_kv *kv = fy_gguf_find(g, "ferry.hot_neurons");
    assert_true(kv != NULL && kv->elem == FY_KV_U32 && kv->count == LAYERS);
    assert_int_equal(fy_gguf_int_at(kv, 0), HOT);
    assert_int_equal(fy_gguf_int_at(kv, 1), 0);
    fy_gguf_close(g);
}

static void refused(const char *in, const char *message)
{
    fy_err e = {0};
    assert_int_equal(order(in, &e), -1);
    if (strstr(e.msg, message) == NULL)
        fail_msg("found: %s\nexpected: %s", e.msg, message);
}

static void a_split_of_another_model_is_refused(void **state)
{
    (void)state;
    const char *in = "tests/data/sparse/opt/model.powerinfer.gguf";
    write_split(LAYERS, NEURONS + 1);
    refused(in, "layer 0: 257 neurons, but");
    write_split(LAYERS + 1, NEURONS);
    refused(in, "layer 2: 256 neurons, but");
    write_split(LAYERS - 1, NEURONS);
    refused(in, "1 layers, but");
    assert_int_equal(unlink(split), 0);
    refused(in, "cannot open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hot_neurons_come_first_and_the_model_computes_the_same,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_split_of_another_model_is_refused, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
