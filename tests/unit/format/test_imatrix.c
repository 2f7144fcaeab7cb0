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

#include "base/str.h"
#include "format/gguf_write.h"
#include "format/imatrix.h"

typedef struct {
    const char *name;
    fy_type type;
    uint64_t ne0, ne1;
    const float *values; /* NULL: 0 */
} part;

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    (void)thread;
    (void)e;
    const part *p = (const part *)user + i;
    size_t bytes = fy_type_row_bytes(p->type, p->ne0) * n_rows;
    if (p->values != NULL)
        memcpy(out, p->values + row * p->ne0, bytes);
    else
        memset(out, 0, bytes);
    return 0;
}

enum { NO_TYPE = 1, MODEL_TYPE = 2, NO_DATASETS = 4, NO_COUNT = 8, NO_SIZE = 16, EMPTY_SETS = 32 };

static const char *path(void)
{
    static char p[256];
    const char *dir = getenv("TMPDIR");
    snprintf(p, sizeof p, "%s/test_imatrix.%d.gguf", dir != NULL ? dir : "/tmp", (int)getpid());
    return p;
}

/* Writes a file of these parts and opens it. */
static fy_imatrix *open_parts(const part *parts, size_t n, int how, fy_err *e)
{
    fy_err w_err = {0};
    fy_gguf_writer *w = fy_gguf_writer_new(&w_err);
    assert_non_null(w);
    if ((how & NO_TYPE) == 0)
        fy_gguf_add_str(w, "general.type", fy_span_of(how & MODEL_TYPE ? "model" : "imatrix"),
                        &w_err);
    if ((how & NO_DATASETS) == 0) {
        fy_gguf_begin_strings(w, "imatrix.datasets", &w_err);
        if ((how & EMPTY_SETS) == 0) {
            fy_gguf_add_string(w, FY_SPAN("tales.txt"), &w_err);
            fy_gguf_add_string(w, FY_SPAN("more.txt"), &w_err);
        }
        fy_gguf_end_strings(w, &w_err);
    }
    if ((how & NO_COUNT) == 0)
        fy_gguf_add_u32(w, "imatrix.chunk_count", 7, &w_err);
    if ((how & NO_SIZE) == 0)
        fy_gguf_add_u32(w, "imatrix.chunk_size", 512, &w_err);
    for (size_t i = 0; i < n; i++)
        fy_gguf_add_tensor(w, parts[i].name, parts[i].type, 2,
                           (uint64_t[]){parts[i].ne0, parts[i].ne1}, &w_err);
    void *user = (void *)(uintptr_t)parts;
    assert_int_equal(fy_gguf_write(w, path(), fill, user, NULL, NULL, &w_err), 0);
    fy_gguf_writer_free(w);
    fy_imatrix *m = fy_imatrix_open(path(), e);
    remove(path());
    return m;
}

#define OPEN(parts, how, e) open_parts(parts, sizeof(parts) / sizeof(parts)[0], how, e)

static const float sums[6] = {2, 4, 6, 8, 10, 0};
static const float counts[2] = {2, 0};
static const float sum_1[3] = {1, -2, 3};

/* All of them at once, and every part of them. */
static void expect_means(const fy_imatrix *m, const char *name, uint64_t n_cols, uint64_t n_mat,
                         const float *expected)
{
    fy_err e = {0};
    float found[6];
    const uint64_t all = n_cols * n_mat;
    const fy_imatrix_entry *x = fy_imatrix_find(m, fy_span_of(name), n_cols, n_mat, &e);
    assert_non_null(x);
    for (uint64_t at = 0; at < all; at++) {
        for (uint64_t n = 1; n <= all - at; n++) {
            fy_imatrix_means(x, at, n, found);
            assert_memory_equal(found, expected + at, n * sizeof *found);
        }
    }
}

static void means_are_sums_over_counts(void **state)
{
    (void)state;
    const part parts[] = {{"blk.1.w.weight.counts", FY_F32, 1, 1, counts},
                          {"blk.0.x.weight.in_sum2", FY_F32, 3, 2, sums},
                          {"blk.0.x.weight.counts", FY_F32, 1, 2, counts},
                          {"other", FY_F32, 1, 1, sums},
                          {"blk.1.w.weight.in_sum2", FY_F32, 3, 1, sums + 3},
                          {"blk.1.w.weight.in_sum", FY_F32, 3, 1, sum_1}};
    fy_err e = {0};
    fy_imatrix *m = OPEN(parts, 0, &e);
    assert_string_equal(e.msg, "");
    assert_int_equal(fy_imatrix_n(m), 2);
    assert_int_equal(fy_imatrix_n_chunks(m), 7);
    assert_true(fy_span_is(fy_imatrix_dataset(m), "tales.txt"));
    assert_true(fy_span_is(fy_imatrix_name(m, 0), "blk.1.w.weight"));
    assert_true(fy_span_is(fy_imatrix_name(m, 1), "blk.0.x.weight"));
    const float expected[6] = {1, 2, 3, 1, 1, 1}; /* the second was never used */
    expect_means(m, "blk.0.x.weight", 3, 2, expected);
    expect_means(m, "blk.1.w.weight", 3, 1, (const float[]){4, 5, 0});
    assert_null(fy_imatrix_find(m, FY_SPAN("blk.2.w.weight"), 3, 1, &e));
    assert_int_equal(e.code, FY_OK);
    fy_imatrix_close(m);
}

static void matrices_counted_together_have_one_count(void **state)
{
    (void)state;
    const part parts[] = {{"k_b.in_sum2", FY_F32, 6, 1, sums},
                          {"k_b.counts", FY_F32, 1, 1, counts}};
    fy_err e = {0};
    fy_imatrix *m = OPEN(parts, NO_TYPE | EMPTY_SETS, &e);
    assert_string_equal(e.msg, "");
    assert_int_equal(fy_imatrix_dataset(m).len, 0);
    expect_means(m, "k_b", 3, 2, (const float[]){1, 2, 3, 4, 5, 0});
    fy_imatrix_close(m);
}

static void counts_are_rounded(void **state)
{
    (void)state;
    const float fractions[2] = {1.75f, 0.25f};
    const part parts[] = {{"a.in_sum2", FY_F32, 3, 2, sums}, {"a.counts", FY_F32, 1, 2, fractions}};
    fy_err e = {0};
    fy_imatrix *m = OPEN(parts, 0, &e);
    expect_means(m, "a", 3, 2, (const float[]){1, 2, 3, 1, 1, 1});
    fy_imatrix_close(m);
}

static void another_shape_is_refused(void **state)
{
    (void)state;
    const part parts[] = {{"a.in_sum2", FY_F32, 3, 2, sums}, {"a.counts", FY_F32, 1, 2, counts}};
    const uint64_t shape[][2] = {{2, 3}, {3, 1}, {6, 1}, {1, 6}, {0, 0}, {UINT64_MAX, 2}};
    fy_err e = {0};
    fy_imatrix *m = OPEN(parts, 0, &e);
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        fy_err f = {0};
        assert_null(fy_imatrix_find(m, FY_SPAN("a"), shape[i][0], shape[i][1], &f));
        assert_int_equal(f.code, FY_EFORMAT);
        assert_non_null(strstr(f.msg, "'a': sums [3, 2] and 2 counts"));
    }
    fy_imatrix_close(m);
}

static void expect_refused(const part *parts, size_t n, int how, const char *said)
{
    fy_err e = {0};
    assert_null(open_parts(parts, n, how, &e));
    if (strstr(e.msg, said) == NULL || e.code != FY_EFORMAT)
        fail_msg("code %d, '%s', expected '%s'", (int)e.code, e.msg, said);
}

#define REFUSED(how, said, ...)                                              \
    do {                                                                     \
        const part parts_[] = {__VA_ARGS__};                                 \
        expect_refused(parts_, sizeof parts_ / sizeof parts_[0], how, said); \
    } while (0)

static void wrong_files_are_refused(void **state)
{
    (void)state;
    const part in = {"a.in_sum2", FY_F32, 3, 2, sums}, co = {"a.counts", FY_F32, 1, 2, counts};
    const float nan_sum[3] = {1, NAN, 3}, negative[2] = {-1, 2}, endless[2] = {2, INFINITY};
    REFUSED(MODEL_TYPE, "general.type is 'model', expected 'imatrix'", in, co);
    REFUSED(NO_DATASETS, "key 'imatrix.datasets' is absent", in, co);
    REFUSED(NO_COUNT, "key 'imatrix.chunk_count' is absent", in, co);
    REFUSED(NO_SIZE, "key 'imatrix.chunk_size' is absent", in, co);
    REFUSED(0, "none is NAME.in_sum2", {"a.weight", FY_F32, 3, 1, sums});
    REFUSED(0, "'a' has no tensor 'a.counts'", in);
    REFUSED(0, "'a' has no tensor 'a.in_sum2'", co);
    REFUSED(0, "'b' has no tensor 'b.in_sum2'", in, co, {"b.in_sum", FY_F32, 3, 2, sums});
    REFUSED(0, "tensor 'a.in_sum2': type f16, expected f32", {"a.in_sum2", FY_F16, 4, 2, NULL}, co);
    REFUSED(0, "tensor 'a.counts': type f16, expected f32", in, {"a.counts", FY_F16, 1, 2, NULL});
    REFUSED(0, "4 counts", in, {"a.counts", FY_F32, 4, 1, sums});
    REFUSED(0, "6 sums of squares, 3 sums, 2 counts", in, co, {"a.in_sum", FY_F32, 3, 1, sums});
    REFUSED(0, "tensor 'a.in_sum2': value nan at 1", {"a.in_sum2", FY_F32, 3, 1, nan_sum},
            {"a.counts", FY_F32, 1, 1, counts});
    REFUSED(0, "tensor 'a.counts': value -1 at 0", in, {"a.counts", FY_F32, 1, 2, negative});
    REFUSED(0, "tensor 'a.counts': value inf at 1", in, {"a.counts", FY_F32, 1, 2, endless});
}

static void the_older_form_is_refused_with_what_converts_it(void **state)
{
    (void)state;
    fy_str s = {0};
    const uint32_t n = 1, len = 5, ncall = 3, nval = 1;
    fy_str_add(&s, &n, 4);
    fy_str_add(&s, &len, 4);
    fy_str_add(&s, "a.wei", 5);
    fy_str_add(&s, &ncall, 4);
    fy_str_add(&s, &nval, 4);
    fy_str_add(&s, sums, 4);
    fy_err e = {0};
    assert_null(fy_imatrix_parse(s.ptr, s.len, "old.dat", &e));
    assert_int_equal(e.code, FY_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "llama-imatrix -m MODEL.gguf --in-file old.dat -o"));
    e = (fy_err){0}; /* not that either: the name would not fit */
    assert_null(fy_imatrix_parse(s.ptr, 12, "cut.dat", &e));
    assert_int_equal(e.code, FY_EFORMAT);
    fy_str_release(&s);
}

static void files_that_are_not_there_are_named(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_null(fy_imatrix_open("/nonexistent/i.gguf", &e));
    assert_int_equal(e.code, FY_EIO);
    assert_non_null(strstr(e.msg, "/nonexistent/i.gguf"));
    fy_imatrix_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_sums_over_counts),
        cmocka_unit_test(matrices_counted_together_have_one_count),
        cmocka_unit_test(counts_are_rounded),
        cmocka_unit_test(another_shape_is_refused),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(the_older_form_is_refused_with_what_converts_it),
        cmocka_unit_test(files_that_are_not_there_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
