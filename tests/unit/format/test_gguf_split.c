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
#include "format/gguf.h"
#include "format/gguf_write.h"

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ferry-split-XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

static const char *in_dir(const char *name)
{
    static char path[4][128];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static const char *part(int no, int count)
{
    char name[64];
    snprintf(name, sizeof name, "m-%05d-of-%05d.gguf", no, count);
    return in_dir(name);
}

static void names_are_those_of_the_other_tools(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        uint32_t no, count;
        const char *want;
    } cases[] = {
        {"a/m.gguf", 0, 3, "a/m-00001-of-00003.gguf"},
        {"a/m.gguf", 0, 1, "a/m.gguf"},
        {"m", 9, 12, "m-00010-of-00012.gguf"},
        {"a/.gguf", 1, 2, "a/.gguf-00002-of-00002.gguf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *name = fy_gguf_split_name(cases[i].path, cases[i].no, cases[i].count);
        assert_string_equal(name, cases[i].want);
        free(name);
    }
    bool oom;
    char *name = fy_gguf_split_sibling("a/m-00001-of-00003.gguf", 0, 2, 3, &oom);
    assert_string_equal(name, "a/m-00003-of-00003.gguf");
    free(name);
    assert_null(fy_gguf_split_sibling("a/m-00001-of-00003.gguf", 1, 2, 3, &oom));
    assert_null(fy_gguf_split_sibling("a/m-00001-of-00003.gguf", 0, 2, 4, &oom));
    assert_null(fy_gguf_split_sibling("m.gguf", 0, 2, 3, &oom));
    assert_false(oom);
}

enum { N_TENSORS = 7 };

/* Tensor i has 10 (i + 1) numbers: 40 (i + 1) bytes. */
static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    (void)user;
    (void)thread;
    (void)e;
    float *y = out;
    for (uint64_t k = 0; k < n_rows * 10; k++)
        y[k] = (float)(1000 * i + (int64_t)(row * 10 + k));
    return 0;
}

/* *n: how many files it became. */
static void make(uint64_t split, uint32_t alignment, uint32_t *n)
{
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    assert_int_equal(fy_gguf_add_str(w, "general.name", FY_SPAN("split"), &e), 0);
    if (alignment != FY_GGUF_ALIGNMENT)
        assert_int_equal(fy_gguf_add_u32(w, "general.alignment", alignment, &e), 0);
    assert_int_equal(fy_gguf_writer_split(w, split, &e), 0);
    for (uint64_t i = 0; i < N_TENSORS; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", (int)i);
        assert_true(fy_gguf_add_tensor(w, name, FY_F32, 2, (uint64_t[]){10, i + 1}, &e) >= 0);
    }
    assert_int_equal(fy_gguf_writer_split(w, split, &e), -1); /* too late */
    e = (fy_err){0};
    *n = fy_gguf_writer_n_files(w);
    assert_int_equal(fy_gguf_write(w, in_dir("m.gguf"), fill, NULL, NULL, NULL, &e), 0);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < *n; i++) {
        fy_map m;
        const char *name = *n == 1 ? in_dir("m.gguf") : part((int)i + 1, (int)*n);
        assert_int_equal(fy_map_open(&m, name, &e), 0);
        sum += m.size;
        fy_map_close(&m);
    }
    assert_int_equal(sum, fy_gguf_writer_file_bytes(w));
    fy_gguf_writer_free(w);
}

static void clear(uint32_t n)
{
    for (uint32_t i = 1; i <= n; i++)
        unlink(part((int)i, (int)n));
    unlink(in_dir("m.gguf"));
}

static void check_contents(const fy_gguf *g)
{
    assert_int_equal(fy_gguf_n_tensors(g), N_TENSORS);
    for (size_t i = 0; i < N_TENSORS; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%zu", i);
        const fy_gguf_tensor *t = fy_gguf_tensor_find(g, name);
        assert_ptr_equal(t, fy_gguf_tensor_at(g, i));
        assert_int_equal(t->ne[1], i + 1);
        for (size_t k = 0; k < 10 * (i + 1); k++) {
            float v;
            memcpy(&v, t->data + 4 * k, 4);
            assert_true(v == (float)(1000 * i + k));
        }
        fy_gguf_drop(g, t, 0, t->bytes);
    }
}

static void split_files_are_read_as_one_model(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        uint32_t want;
    } sizes[] = {{0, 1}, {1120, 1}, {1119, 2}, {600, 2}, {599, 3}, {280, 5}, {120, 6}, {1, 7}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (uint32_t alignment = 32; alignment <= 256; alignment *= 8) {
            uint32_t n;
            fy_err e = {0};
            make(sizes[i].bytes, alignment, &n);
            assert_int_equal(n, sizes[i].want);
            fy_gguf *g = fy_gguf_open(n == 1 ? in_dir("m.gguf") : part(1, (int)n), &e);
            assert_non_null(g);
            assert_int_equal(fy_gguf_n_files(g), n);
            assert_int_equal(fy_gguf_alignment(g), alignment);
            assert_int_equal(fy_gguf_find(g, "split.count") != NULL, n > 1);
            assert_non_null(fy_gguf_find(g, "general.name"));
            check_contents(g);
            fy_gguf_close(g);
            clear(n);
        }
    }
}

static void the_keys_are_those_of_the_other_tools(void **state)
{
    (void)state;
    uint32_t n;
    fy_err e = {0};
    make(599, 32, &n);
    uint64_t first = 0;
    for (uint32_t i = 0; i < n; i++) {
        fy_map m;
        assert_int_equal(fy_map_open(&m, part((int)i + 1, (int)n), &e), 0);
        fy_gguf *g = fy_gguf_parse(m.data, m.size, "part", false, &e);
        const fy_gguf_kv *no = fy_gguf_find(g, "split.no"), *count = fy_gguf_find(g, "split.count"),
                         *all = fy_gguf_find(g, "split.tensors.count");
        assert_int_equal(no->type, FY_KV_U16);
        assert_int_equal(fy_gguf_int_at(no, 0), i);
        assert_int_equal(count->type, FY_KV_U16);
        assert_int_equal(fy_gguf_int_at(count, 0), n);
        assert_int_equal(all->type, FY_KV_I32);
        assert_int_equal(fy_gguf_int_at(all, 0), N_TENSORS);
        assert_int_equal(fy_gguf_n_kv(g), i == 0 ? 4 : 3);
        first += fy_gguf_n_tensors(g);
        fy_gguf_close(g);
        fy_map_close(&m);
    }
    assert_int_equal(first, N_TENSORS);
    clear(n);
}

static void refused(const char *path, fy_code code, const char *text)
{
    fy_err e = {0};
    assert_null(fy_gguf_open(path, &e));
    assert_int_equal(e.code, code);
    if (strstr(e.msg, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, e.msg);
}

static void a_model_that_is_not_whole_is_refused(void **state)
{
    (void)state;
    uint32_t n;
    make(599, 32, &n);
    assert_int_equal(n, 3);
    refused(part(2, 3), FY_EARG, "is file 2 of 3 of a split model; give the first one");
    refused(part(2, 3), FY_EARG, "m-00001-of-00003.gguf");
    assert_int_equal(rename(part(1, 3), in_dir("other.gguf")), 0);
    refused(in_dir("other.gguf"), FY_EFORMAT, "ends in -00001-of-00003.gguf");
    assert_int_equal(rename(in_dir("other.gguf"), part(1, 3)), 0);

    assert_int_equal(rename(part(3, 3), in_dir("hidden")), 0);
    refused(part(1, 3), FY_EIO, "m-00003-of-00003.gguf: is absent, file 3 of 3");
    assert_int_equal(link(part(2, 3), part(3, 3)), 0);
    refused(part(1, 3), FY_EFORMAT, "claims to be file 2 of 3, expected 3 of 3");
    assert_int_equal(unlink(part(3, 3)), 0);
    assert_int_equal(rename(in_dir("hidden"), part(3, 3)), 0);

    /* a tensor's name of the second file becomes one that the first has */
    static char bytes[4096];
    FILE *f = fopen(part(2, 3), "r+");
    size_t got = fread(bytes, 1, sizeof bytes, f);
    char *at = memmem(bytes, got, "t5", 2);
    assert_non_null(at);
    fseek(f, at - bytes, SEEK_SET);
    fputs("t0", f);
    fclose(f);
    refused(part(1, 3), FY_EFORMAT, "tensor 't0' is also in an earlier file");
    clear(n);

    uint32_t other;
    make(599, 32, &n);
    f = fopen(part(1, 3), "r+");
    got = fread(bytes, 1, sizeof bytes, f);
    at = memmem(bytes, got, "split.tensors.count", 19);
    fseek(f, at + 19 + 4 - bytes, SEEK_SET);
    fputc(N_TENSORS + 1, f);
    fclose(f);
    refused(part(1, 3), FY_EFORMAT, "its 3 files hold 7 tensors, expected 8");
    clear(n);
    make(1, 32, &other);
    assert_int_equal(truncate(part(4, (int)other), 50), 0);
    refused(part(1, (int)other), FY_EFORMAT, "m-00004-of-00007.gguf: ");
    clear(other);
}

static void too_many_files_are_refused(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&e);
    fy_gguf_writer_split(w, 1, &e);
    for (int i = 0; i <= FY_GGUF_MAX_FILES; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", i);
        fy_gguf_add_tensor(w, name, FY_F32, 1, (uint64_t[]){1}, &e);
    }
    assert_int_equal(fy_gguf_write(w, in_dir("m.gguf"), fill, NULL, NULL, NULL, &e), -1);
    assert_non_null(strstr(e.msg, "split into 501 files, at most 500"));
    fy_gguf_writer_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_other_tools),
        cmocka_unit_test(split_files_are_read_as_one_model),
        cmocka_unit_test(the_keys_are_those_of_the_other_tools),
        cmocka_unit_test(a_model_that_is_not_whole_is_refused),
        cmocka_unit_test(too_many_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
