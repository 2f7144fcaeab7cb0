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
#include "base/log.h"
#include "format/gguf_write.h"

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-gguf-write-XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

static const char *in_dir(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* Every f32 element is its own number in the tensor, plus 1000 times the tensor's. */
static int fill_counting(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out,
                         int thread, fy_err *e)
{
    (void)thread;
    (void)e;
    const fy_gguf_tensor *t = fy_gguf_writer_tensor(user, i);
    float *y = out;
    for (uint64_t k = 0; k < n_rows * t->ne[0]; k++)
        y[k] = (float)(row * t->ne[0] + k) + 1000.0f * (float)i;
    return 0;
}

static fy_gguf_writer *new_writer(void)
{
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_non_null(w);
    return w;
}

static void add_f32(fy_gguf_writer *w, const char *name, uint64_t ne0, uint64_t ne1)
{
    fy_err e = {0};
    assert_true(fy_gguf_add_tensor(w, name, FY_F32, 2, (uint64_t[]){ne0, ne1}, &e) >= 0);
}

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    fy_gguf_writer *w = new_writer();
    fy_err e = {0};
    const int32_t ints[] = {-1, 2, 3};
    assert_int_equal(fy_gguf_add_str(w, "general.architecture", FY_SPAN("llama"), &e), 0);
    assert_int_equal(fy_gguf_add_u32(w, "llama.block_count", 7, &e), 0);
    assert_int_equal(fy_gguf_add_i32(w, "x.i32", -9, &e), 0);
    assert_int_equal(fy_gguf_add_f32(w, "x.f32", 1.5f, &e), 0);
    assert_int_equal(fy_gguf_add_bool(w, "x.bool", true, &e), 0);
    assert_int_equal(fy_gguf_add_array(w, "x.ints", FY_KV_I32, ints, 3, &e), 0);
    assert_int_equal(fy_gguf_begin_strings(w, "x.strings", &e), 0);
    assert_int_equal(fy_gguf_add_string(w, FY_SPAN("one"), &e), 0);
    assert_int_equal(fy_gguf_add_string(w, FY_SPAN(""), &e), 0);
    assert_int_equal(fy_gguf_end_strings(w, &e), 0);
    assert_int_equal(fy_gguf_begin_strings(w, "x.none", &e), 0);
    assert_int_equal(fy_gguf_end_strings(w, &e), 0);
    add_f32(w, "a", 5, 3);
    add_f32(w, "b", 1, 1);
    assert_int_equal(fy_gguf_writer_tensor(w, 1)->offset, 64);
    uint64_t bytes = fy_gguf_writer_file_bytes(w);
    fy_progress progress = {0};
    assert_int_equal(fy_gguf_write(w, in_dir("m.gguf"), fill_counting, w, NULL, &progress, &e), 0);
    assert_int_equal(progress.done_bytes, bytes);
    fy_gguf_writer_free(w);

    fy_gguf *g = fy_gguf_open(in_dir("m.gguf"), &e);
    assert_non_null(g);
    uint32_t u;
    float f;
    bool b;
    fy_span s;
    const fy_gguf_kv *kv;
    assert_int_equal(fy_gguf_n_kv(g), 8);
    assert_int_equal(fy_gguf_version(g), 3);
    assert_true(fy_span_is(fy_gguf_kv_at(g, 0)->key, "general.architecture"));
    assert_int_equal(fy_gguf_get_str(g, "general.architecture", &s, &e), 0);
    assert_true(fy_span_is(s, "llama"));
    assert_int_equal(fy_gguf_get_u32(g, "llama.block_count", &u, &e), 0);
    assert_int_equal(u, 7);
    assert_int_equal(fy_gguf_int_at(fy_gguf_find(g, "x.i32"), 0), -9);
    assert_int_equal(fy_gguf_get_f32(g, "x.f32", &f, &e), 0);
    assert_true(f == 1.5f);
    assert_int_equal(fy_gguf_get_bool(g, "x.bool", &b, &e), 0);
    assert_true(b);
    assert_int_equal(fy_gguf_get_array(g, "x.ints", FY_KV_I32, &kv, &e), 0);
    assert_memory_equal(kv->data, ints, sizeof ints);
    assert_int_equal(fy_gguf_get_array(g, "x.strings", FY_KV_STRING, &kv, &e), 0);
    assert_int_equal(kv->count, 2);
    assert_int_equal(fy_gguf_get_array(g, "x.none", FY_KV_STRING, &kv, &e), 0);
    assert_int_equal(kv->count, 0);
    const fy_gguf_tensor *t = fy_gguf_tensor_find(g, "a");
    float v[15];
    memcpy(v, t->data, sizeof v);
    for (int k = 0; k < 15; k++)
        assert_true(v[k] == (float)k);
    static const char nothing[4];
    assert_memory_equal(t->data + t->bytes, nothing, sizeof nothing);
    memcpy(v, fy_gguf_tensor_find(g, "b")->data, sizeof v[0]);
    assert_true(v[0] == 1000.0f);
    fy_gguf_close(g);
    unlink(in_dir("m.gguf"));
}

/* Rows of every size around the piece, with and without a pool. */
static void write_mixed(const char *path, int n_threads)
{
    fy_err e = {0};
    fy_gguf_writer *w = new_writer();
    assert_int_equal(fy_gguf_begin_strings(w, "many.strings", &e), 0);
    for (int i = 0; i < 50000; i++) {
        char word[32];
        int n = snprintf(word, sizeof word, "word %d", i * 7);
        assert_int_equal(fy_gguf_add_string(w, (fy_span){word, (size_t)n}, &e), 0);
    }
    assert_int_equal(fy_gguf_end_strings(w, &e), 0);
    add_f32(w, "long.row", (1u << 20) + 3, 2);
    add_f32(w, "many.rows", 17, 100001);
    add_f32(w, "tiny", 1, 1);
    add_f32(w, "exact", 1u << 18, 3);
    fy_pool *pool = n_threads > 0 ? fy_pool_new(n_threads, &e) : NULL;
    assert_int_equal(fy_gguf_write(w, path, fill_counting, w, pool, NULL, &e), 0);
    fy_pool_free(pool);
    fy_gguf_writer_free(w);
}

static void any_number_of_threads_gives_the_same_bytes(void **state)
{
    (void)state;
    char first[128];
    snprintf(first, sizeof first, "%s", in_dir("t0.gguf"));
    write_mixed(first, 0);
    fy_err e = {0};
    fy_map a, b;
    assert_int_equal(fy_map_open(&a, first, &e), 0);
    for (int n = 1; n <= 4; n++) {
        write_mixed(in_dir("tn.gguf"), n);
        assert_int_equal(fy_map_open(&b, in_dir("tn.gguf"), &e), 0);
        assert_int_equal(a.size, b.size);
        assert_true(memcmp(a.data, b.data, a.size) == 0);
        fy_map_close(&b);
    }
    fy_map_close(&a);
    fy_gguf *g = fy_gguf_open(first, &e);
    assert_non_null(g);
    const fy_gguf_tensor *t = fy_gguf_tensor_find(g, "many.rows");
    for (uint64_t k = 0; k < t->ne[0] * t->ne[1]; k++) {
        float v;
        memcpy(&v, t->data + 4 * k, 4);
        assert_true(v == (float)k + 1000.0f);
    }
    fy_gguf_close(g);
    unlink(first);
    unlink(in_dir("tn.gguf"));
}

static void a_file_without_tensors_is_padded_and_readable(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_gguf_writer *w = new_writer();
    assert_int_equal(fy_gguf_add_u32(w, "a", 1, &e), 0);
    assert_int_equal(fy_gguf_write(w, in_dir("v.gguf"), NULL, NULL, NULL, NULL, &e), 0);
    assert_int_equal(fy_gguf_writer_file_bytes(w) % 32, 0);
    assert_int_equal(fy_gguf_write(w, in_dir("v.gguf"), NULL, NULL, NULL, NULL, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    fy_gguf_writer_free(w);
    e = (fy_err){0};
    fy_gguf *g = fy_gguf_open(in_dir("v.gguf"), &e);
    assert_non_null(g);
    fy_gguf_close(g);
    unlink(in_dir("v.gguf"));
}

static void keys_of_another_file_are_copied_byte_for_byte(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_gguf_writer *w = new_writer();
    assert_int_equal(fy_gguf_add_u32(w, "general.alignment", 128, &e), 0);
    assert_int_equal(fy_gguf_begin_strings(w, "s", &e), 0);
    assert_int_equal(fy_gguf_add_string(w, (fy_span){"a\0b", 3}, &e), 0);
    assert_int_equal(fy_gguf_end_strings(w, &e), 0);
    add_f32(w, "t", 3, 5);
    assert_int_equal(fy_gguf_write(w, in_dir("1.gguf"), fill_counting, w, NULL, NULL, &e), 0);
    fy_gguf_writer_free(w);

    fy_gguf *g = fy_gguf_open(in_dir("1.gguf"), &e);
    assert_non_null(g);
    assert_int_equal(fy_gguf_alignment(g), 128);
    w = new_writer();
    for (size_t i = 0; i < fy_gguf_n_kv(g); i++)
        assert_int_equal(fy_gguf_add_kv(w, fy_gguf_kv_at(g, i), &e), 0);
    add_f32(w, "t", 3, 5);
    assert_int_equal(fy_gguf_write(w, in_dir("2.gguf"), fill_counting, w, NULL, NULL, &e), 0);
    fy_gguf_writer_free(w);
    fy_gguf_close(g);
    fy_map a, b;
    assert_int_equal(fy_map_open(&a, in_dir("1.gguf"), &e), 0);
    assert_int_equal(fy_map_open(&b, in_dir("2.gguf"), &e), 0);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    fy_map_close(&a);
    fy_map_close(&b);
    unlink(in_dir("1.gguf"));
    unlink(in_dir("2.gguf"));
}

static void impossible_keys_and_tensors_are_refused(void **state)
{
    (void)state;
    fy_gguf_writer *w = new_writer();
    fy_err e = {0};
    assert_int_equal(fy_gguf_add_u32(w, "twin", 1, &e), 0);
#define REFUSED(call, text)                                                                        \
    do {                                                                                           \
        e = (fy_err){0};                                                                           \
        assert_int_equal((call), -1);                                                              \
        assert_int_equal(e.code, FY_EARG);                                                         \
        assert_non_null(strstr(e.msg, text));                                                      \
    } while (0)
    const uint64_t odd[] = {33, 2}, zero[] = {32, 0},
                   huge[] = {UINT64_C(1) << 31, UINT64_C(1) << 31};
    const uint64_t fine[] = {32, 2};
    REFUSED(fy_gguf_add_u32(w, "twin", 1, &e), "'twin' is added twice");
    REFUSED(fy_gguf_add_u32(w, "", 1, &e), "0 bytes");
    REFUSED(fy_gguf_add_u32(w, "a b", 1, &e), "malformed");
    REFUSED(fy_gguf_add_u32(w, "general.alignment", 12, &e), "power of two");
    REFUSED(fy_gguf_add_i32(w, "general.alignment", 32, &e), "expected u32");
    REFUSED(fy_gguf_add_array(w, "arr", FY_KV_STRING, NULL, 0, &e), "type string");
    REFUSED(fy_gguf_end_strings(w, &e), "no string array");
    REFUSED(fy_gguf_add_tensor(w, "a", FY_Q4_0, 2, odd, &e), "multiple of 32");
    REFUSED(fy_gguf_add_tensor(w, "a", FY_F32, 2, zero, &e), "dimension 1 is 0");
    REFUSED(fy_gguf_add_tensor(w, "a", FY_F32, 2, huge, &e), "do not fit any file");
    REFUSED(fy_gguf_add_tensor(w, "a", FY_F32, 5, fine, &e), "5 dimensions");
    REFUSED(fy_gguf_add_tensor(w, "a", FY_Q8_1, 2, fine, &e), "cannot be stored");
    REFUSED(fy_gguf_add_tensor(w, "", FY_F32, 2, fine, &e), "name of 0 bytes");
    REFUSED(fy_gguf_add_tensor(w,
                               "a234567890123456789012345678901234567890123456789012345678901234",
                               FY_F32, 2, fine, &e),
            "expected 1 to 63");
    e = (fy_err){0};
    assert_int_equal(fy_gguf_add_tensor(w, "a", FY_F32, 2, fine, &e), 0);
    REFUSED(fy_gguf_add_tensor(w, "a", FY_F32, 2, fine, &e), "added twice");
    REFUSED(fy_gguf_add_u32(w, "general.alignment", 64, &e), "before the first tensor");
    e = (fy_err){0};
    assert_int_equal(fy_gguf_begin_strings(w, "open", &e), 0);
    REFUSED(fy_gguf_add_u32(w, "x", 1, &e), "still open");
    REFUSED(fy_gguf_write(w, in_dir("x.gguf"), fill_counting, w, NULL, NULL, &e), "still open");
#undef REFUSED
    fy_gguf_writer_free(w);
    assert_false(fy_file_exists(in_dir("x.gguf")));
    assert_false(fy_file_exists(in_dir("x.gguf.part")));
}

static int fill_failing(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                        fy_err *e)
{
    (void)user;
    (void)thread;
    memset(out, 0, n_rows * 4096);
    return i == 1 && row > 100 ? fy_fail(e, FY_EFORMAT, "row %d is bad", 101) : 0;
}

static void a_failing_row_stops_everything_and_leaves_no_file(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        fy_gguf_writer *w = new_writer();
        add_f32(w, "a", 1024, 600);
        add_f32(w, "b", 1024, 6000);
        fy_err e = {0};
        fy_pool *pool = fy_pool_new(n_threads, &e);
        assert_int_equal(fy_gguf_write(w, in_dir("f.gguf"), fill_failing, NULL, pool, NULL, &e),
                         -1);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_string_equal(e.msg, "row 101 is bad");
        fy_pool_free(pool);
        fy_gguf_writer_free(w);
        assert_false(fy_file_exists(in_dir("f.gguf")));
        assert_false(fy_file_exists(in_dir("f.gguf.part")));
    }
}

static int fill_interrupting(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out,
                             int thread, fy_err *e)
{
    fy_interrupted = 1;
    return fill_counting(user, i, row, n_rows, out, thread, e);
}

static void an_interrupt_leaves_no_file(void **state)
{
    (void)state;
    fy_gguf_writer *w = new_writer();
    add_f32(w, "a", 1024, 2000);
    fy_err e = {0};
    assert_int_equal(fy_gguf_write(w, in_dir("i.gguf"), fill_interrupting, w, NULL, NULL, &e), -1);
    fy_interrupted = 0;
    assert_int_equal(e.code, FY_EINTR);
    fy_gguf_writer_free(w);
    assert_false(fy_file_exists(in_dir("i.gguf")));
    assert_false(fy_file_exists(in_dir("i.gguf.part")));
}

static void a_full_disk_is_found_before_the_work(void **state)
{
    (void)state;
    fy_gguf_writer *w = new_writer();
    add_f32(w, "a", 1u << 20, 1u << 30); /* 4 PiB */
    fy_err e = {0};
    assert_int_equal(fy_gguf_write(w, in_dir("d.gguf"), fill_counting, w, NULL, NULL, &e), -1);
    assert_int_equal(e.code, FY_ENOSPACE);
    assert_non_null(strstr(e.msg, "needs 4503599627370"));
    fy_gguf_writer_free(w);
    assert_false(fy_file_exists(in_dir("d.gguf.part")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bytes),
        cmocka_unit_test(a_file_without_tensors_is_padded_and_readable),
        cmocka_unit_test(keys_of_another_file_are_copied_byte_for_byte),
        cmocka_unit_test(impossible_keys_and_tensors_are_refused),
        cmocka_unit_test(a_failing_row_stops_everything_and_leaves_no_file),
        cmocka_unit_test(an_interrupt_leaves_no_file),
        cmocka_unit_test(a_full_disk_is_found_before_the_work),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
