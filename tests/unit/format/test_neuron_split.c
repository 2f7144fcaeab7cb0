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
#include "format/neuron_split.h"

static char dir[64], path[96];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-split-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/model.gpuidx", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return fy_tree_remove(dir);
}

static void make_split(fy_neuron_split *s)
{
    fy_err e = {0};
    assert_int_equal(fy_neuron_split_init(s, 2, &e), 0);
    s->capacity_bytes = UINT64_C(5) << 32;
    assert_int_equal(fy_neuron_split_add_layer(s, 0, 6, 3, &e), 0);
    assert_int_equal(fy_neuron_split_add_layer(s, 1, 4, 0, &e), 0);
    memcpy(s->layers[0].hot, (int32_t[]){0, 2, 5}, 3 * sizeof(int32_t));
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_neuron_split s, back;
    fy_map m;
    make_split(&s);
    assert_int_equal(fy_neuron_split_write(&s, path, &e), 0);
    assert_int_equal(fy_map_open(&m, path, &e), 0);
    assert_memory_equal(m.data, "PWRI\3\0\0\0", 8);
    const uint8_t *info = memmem(m.data, m.size, "blk.0.gpu_idx", 13);
    assert_non_null(info);
    /* one dimension of 6, and PowerInfer's number for i32 */
    assert_memory_equal(info + 13, "\1\0\0\0\6\0\0\0\0\0\0\0\22\0\0\0", 16);
    fy_map_close(&m);
    assert_int_equal(fy_neuron_split_open(&back, path, &e), 0);
    assert_int_equal(back.n_layer, 2);
    assert_true(back.capacity_bytes == s.capacity_bytes);
    assert_int_equal(back.layers[0].n, 6);
    assert_int_equal(back.layers[0].n_hot, 3);
    assert_memory_equal(back.layers[0].hot, s.layers[0].hot, 3 * sizeof(int32_t));
    assert_int_equal(back.layers[1].n, 4);
    assert_int_equal(back.layers[1].n_hot, 0);
    fy_neuron_split_release(&back);
    fy_neuron_split_release(&s);
}

static void every_shorter_file_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_neuron_split s;
    fy_map m;
    make_split(&s);
    assert_int_equal(fy_neuron_split_write(&s, path, &e), 0);
    fy_neuron_split_release(&s);
    assert_int_equal(fy_map_open(&m, path, &e), 0);
    for (size_t n = 0; n < m.size - 16; n++) { /* its last bytes are padding, and an empty list */
        e = (fy_err){0};
        uint8_t *cut = malloc(n + 1);
        memcpy(cut, m.data, n);
        assert_int_equal(fy_neuron_split_parse(&s, cut, n, "f", &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        free(cut);
    }
    fy_map_close(&m);
}

typedef struct {
    const char *arch;
    uint32_t n_layer;
    fy_kv_type capacity;
    fy_type type;
    int32_t idx[4];
    uint64_t n_bucket;
    int32_t bucket[4];
    const char *bucket_name;
} made;

static const made good = {.arch = "generic.gpu_index",
                          .n_layer = 1,
                          .capacity = FY_KV_U64,
                          .type = FY_I32,
                          .idx = {0, 1, 0, 1},
                          .n_bucket = 2,
                          .bucket = {1, 3},
                          .bucket_name = "blk.0.gpu_bucket"};

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    (void)row, (void)n_rows, (void)thread, (void)e;
    const made *m = user;
    memcpy(out, i == 0 ? m->idx : m->bucket, i == 0 ? sizeof m->idx : 4 * m->n_bucket);
    return 0;
}

static int read_made(made m, fy_neuron_split *s, fy_err *e)
{
    fy_gguf_writer *w = fy_gguf_writer_new(e);
    const uint8_t bytes[8] = {7};
    const fy_gguf_kv kv = {.key = fy_span_of("split.vram_capacity"),
                           .type = m.capacity,
                           .elem = m.capacity,
                           .count = 1,
                           .data = bytes,
                           .bytes = fy_kv_type_bytes(m.capacity)};
    fy_gguf_add_str(w, "general.architecture", fy_span_of(m.arch), e);
    fy_gguf_add_u32(w, "generic.gpu_index.block_count", m.n_layer, e);
    fy_gguf_add_kv(w, &kv, e);
    fy_gguf_add_tensor(w, "blk.0.gpu_idx", m.type, 1, (uint64_t[]){4}, e);
    if (m.n_bucket > 0)
        fy_gguf_add_tensor(w, m.bucket_name, FY_I32, 1, &m.n_bucket, e);
    assert_int_equal(fy_gguf_write(w, path, fill, &m, NULL, NULL, e), 0);
    fy_gguf_writer_free(w);
    return fy_neuron_split_open(s, path, e);
}

static void refused(made m, const char *message)
{
    fy_err e = {0};
    fy_neuron_split s;
    assert_int_equal(read_made(m, &s, &e), -1);
    assert_int_equal(e.code, FY_EFORMAT);
    if (strstr(e.msg, message) == NULL)
        fail_msg("found: %s\nexpected: %s", e.msg, message);
    assert_null(s.layers);
}

static void what_disagrees_is_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_neuron_split s;
    assert_int_equal(read_made(good, &s, &e), 0);
    assert_true(s.capacity_bytes == 7 && s.layers[0].hot[1] == 3);
    fy_neuron_split_release(&s);

    made m = good;
    m.n_bucket = 0; /* as newer versions of PowerInfer write it: gpu_idx alone */
    assert_int_equal(read_made(m, &s, &e), 0);
    assert_int_equal(s.layers[0].n_hot, 2);
    fy_neuron_split_release(&s);

    m = good, m.arch = "llama";
    refused(m, "general.architecture is 'llama', expected 'generic.gpu_index'");
    m = good, m.capacity = FY_KV_F32;
    refused(m, "key 'split.vram_capacity' is f32, expected u64");
    m = good, m.n_layer = 0;
    refused(m, "0 layers, but 2 tensors");
    m = good, m.n_layer = 3;
    refused(m, "3 layers, but 2 tensors");
    m = good, m.n_layer = 2;
    refused(m, "tensor 'blk.1.gpu_idx' is missing");
    m = good, m.type = FY_F32;
    refused(m, "tensor 'blk.0.gpu_idx': f32 in 1 dimensions, expected i32 in one");
    m = good, m.idx[2] = 2;
    refused(m, "layer 0: gpu_idx of neuron 2 is 2, expected 0 or 1");
    m = good, m.bucket[1] = 1;
    refused(m, "layer 0: gpu_bucket lists neuron 1 twice");
    m = good, m.bucket[1] = 2;
    refused(m, "lists neuron 2 at place 1, but gpu_idx marks neuron 3 there");
    m = good, m.n_bucket = 1;
    refused(m, "gpu_bucket has 1 neurons, but gpu_idx marks 2");
    m = good, m.bucket_name = "blk.1.gpu_bucket";
    refused(m, "2 tensors, but only 1 are those of its 1 layers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read_again, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(every_shorter_file_is_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_disagrees_is_refused, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
