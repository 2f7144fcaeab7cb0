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

#include "base/file.h"
#include "format/gguf_write.h"
#include "format/neuron_counts.h"

static char dir[64], path[96];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-counts-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/counts.gguf", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return fy_tree_remove(dir);
}

static double sum(const fy_layer_counts *l)
{
    double s = 0;
    for (uint64_t i = 0; i < l->n; i++)
        s += l->of[i];
    return s;
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_neuron_counts c, back;
    assert_int_equal(fy_neuron_counts_init(&c, 3, &e), 0);
    c.n_tokens = 70;
    assert_int_equal(fy_neuron_counts_add_layer(&c, 0, 5, &e), 0); /* layer 1 has no neurons */
    assert_int_equal(fy_neuron_counts_add_layer(&c, 2, 2, &e), 0);
    c.layers[0].of[3] = 70;
    c.layers[2].of[1] = 16777217; /* no f32 */
    assert_int_equal(fy_neuron_counts_write(&c, path, FY_SPAN("text"), &e), 0);
    assert_int_equal(fy_neuron_counts_open(&back, path, &e), 0);
    assert_int_equal(back.n_layer, 3);
    assert_int_equal(back.n_tokens, 70);
    assert_int_equal(back.layers[0].n, 5);
    assert_int_equal(back.layers[1].n, 0);
    assert_true(back.layers[0].of[3] == 70 && sum(&back.layers[0]) == 70);
    assert_true(back.layers[2].of[1] == 16777217);
    fy_neuron_counts_release(&back);

    c.layers[2].of[1] = 1e10;
    assert_int_equal(fy_neuron_counts_write(&c, path, FY_SPAN("text"), &e), -1);
    assert_int_equal(e.code, FY_EARG);
    fy_neuron_counts_release(&c);
}

/* The reference's: 1 - zeros, of 4,997 tokens and 1,024 neurons. */
static void powerinfers_statistics_are_read_by_their_number(void **state)
{
    (void)state;
    static const double zeros[] = {0.6647, 0.7768, 0.8013, 0.6868};
    fy_err e = {0};
    fy_neuron_counts c;
    assert_int_equal(fy_neuron_counts_open(&c, "tests/data/sparse/relu/activation", &e), 0);
    assert_int_equal(c.n_layer, 4);
    for (uint32_t l = 0; l < 4; l++) {
        assert_int_equal(c.layers[l].n, 1024);
        assert_true(fabs(1 - sum(&c.layers[l]) / (1024.0 * 4997) - zeros[l]) < 5.1e-5);
    }
    fy_neuron_counts_release(&c);
}

static void copy(const char *from, const char *name, size_t cut)
{
    char to[128];
    fy_map m;
    fy_err e = {0};
    snprintf(to, sizeof to, "%s/%s", dir, name);
    assert_int_equal(fy_map_open(&m, from, &e), 0);
    assert_int_equal(fy_file_write(to, m.data, m.size - cut, &e), 0);
    fy_map_close(&m);
}

static void eleven_layers_are_in_the_order_of_their_numbers(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_neuron_counts c;
    char name[40];
    for (int i = 0; i < 11; i++) {
        snprintf(name, sizeof name, "activation_%d.pt", i);
        copy(i == 10 ? "tests/data/sparse/relu/activation/activation_1.pt"
                     : "tests/data/sparse/relu/activation/activation_0.pt",
             name, 0);
    }
    assert_int_equal(fy_neuron_counts_open(&c, dir, &e), 0);
    assert_int_equal(c.n_layer, 11);
    assert_true(sum(&c.layers[2]) == sum(&c.layers[0]));
    assert_true(sum(&c.layers[10]) != sum(&c.layers[0]));
    fy_neuron_counts_release(&c);

    copy("tests/data/sparse/relu/activation/activation_0.pt", "activation_3.pt", 4000);
    assert_int_equal(fy_neuron_counts_open(&c, dir, &e), -1);
    assert_non_null(strstr(e.msg, "activation_3.pt"));
}

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    (void)i, (void)row, (void)n_rows, (void)thread, (void)e;
    memcpy(out, user, 2 * sizeof(int32_t));
    return 0;
}

/* A file of one tensor [2]; NULL: no key of that kind. */
static void refused(const char *tensor, fy_type type, const int32_t *values, uint32_t n_layer,
                    const char *message)
{
    fy_err e = {0};
    fy_neuron_counts c;
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    int32_t copied[2] = {values[0], values[1]};
    fy_gguf_add_str(w, "general.type", FY_SPAN("activations"), &e);
    if (n_layer > 0)
        fy_gguf_add_u32(w, "activations.block_count", n_layer, &e);
    fy_gguf_add_u32(w, "activations.tokens", 9, &e);
    assert_true(fy_gguf_add_tensor(w, tensor, type, 1, (uint64_t[]){2}, &e) == 0);
    assert_int_equal(fy_gguf_write(w, path, fill, copied, NULL, NULL, &e), 0);
    fy_gguf_writer_free(w);
    assert_int_equal(fy_neuron_counts_open(&c, path, &e), -1);
    if (strstr(e.msg, message) == NULL)
        fail_msg("found: %s\nexpected: %s", e.msg, message);
    assert_null(c.layers);
}

static void what_is_no_count_is_refused(void **state)
{
    (void)state;
    const int32_t good[] = {1, 2}, below[] = {1, -2};
    refused("blk.0.activations", FY_F32, good, 1, "f32 in 1 dimensions, expected i32 in one");
    refused("blk.0.activations", FY_I32, below, 1, "layer 0: neuron 1 has count -2");
    refused("blk.0.activations", FY_I32, good, 0, "key 'activations.block_count' is absent");
    refused("blk.0.activations", FY_I32, good, 70000, "70000 layers, at most 65535");
    refused("blk.3.activations", FY_I32, good, 2, "0 of its 1 tensors");
    refused("blk.0.ffn_up", FY_I32, good, 2, "0 of its 1 tensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read_again, make_dir, remove_dir),
        cmocka_unit_test(powerinfers_statistics_are_read_by_their_number),
        cmocka_unit_test_setup_teardown(eleven_layers_are_in_the_order_of_their_numbers, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_is_no_count_is_refused, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
