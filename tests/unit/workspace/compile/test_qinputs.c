/* Sampled inputs: which tokens are kept, what is written reads back, and files that are no good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/unit/alloc_fail.h"
#include "workspace/compile/qinputs.h"

enum { COLS = 3, BATCH = 32 };
static char path[] = "/tmp/inputs-XXXXXX";

/* Value of column c of a token. */
static float value(uint64_t token, uint32_t c)
{
    return (float)(token * 10 + c);
}

/* n tokens of one tensor, and half as wide ones of another, each batch given twice: q and k read
 * the same. */
static int sample(fy_q_sampler *s, uint64_t n, fy_err *e)
{
    float v[BATCH * COLS];
    fy_q_sampler_init(s, n);
    for (uint64_t first = 0; first < n; first += BATCH) {
        const uint32_t rows = n - first < BATCH ? (uint32_t)(n - first) : BATCH;
        for (uint32_t i = 0; i < rows * COLS; i++)
            v[i] = value(first + i / COLS, i % COLS);
        if (fy_q_sampler_add(s, "L0.norm", first, v, rows, COLS, e) != 0 ||
            fy_q_sampler_add(s, "L0.norm", first, v, rows, COLS, e) != 0 ||
            fy_q_sampler_add(s, "L0.one", first, v, rows, 1, e) != 0)
            return -1;
    }
    return 0;
}

static void write_sample(uint64_t n)
{
    fy_q_sampler s;
    fy_err e = {0};
    if (sample(&s, n, &e) != 0 || fy_q_sampler_write(&s, "abc", path, &e) != 0)
        fail_msg("%s", e.msg);
    fy_q_sampler_release(&s);
}

static fy_gguf *open_sample(void)
{
    fy_err e = {0};
    fy_gguf *g = fy_q_inputs_open(path, "abc", &e);
    if (g == NULL)
        fail_msg("%s", e.msg);
    return g;
}

static void tokens_are_taken_evenly(void **state)
{
    static const struct {
        uint64_t n, stride;
        uint32_t rows;
    } cases[] = {{1, 1, 1},     {100, 1, 100}, {128, 1, 128},
                 {160, 1, 128}, {256, 2, 128}, {2048, 16, 128}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t n = 0;
        write_sample(cases[i].n);
        fy_gguf *g = open_sample();
        const float *rows = fy_q_inputs_find(g, "L0.norm", COLS, &n, NULL);
        assert_non_null(rows);
        assert_int_equal(n, cases[i].rows);
        for (uint32_t k = 0; k < n * COLS; k++)
            assert_true(rows[k] ==
                        value(k / COLS * cases[i].stride + cases[i].stride / 2, k % COLS));
        assert_non_null(fy_q_inputs_find(g, "L0.one", 1, &n, NULL));
        fy_gguf_close(g);
    }
}

static void the_same_bytes_again(void **state)
{
    fy_map a, b;
    (void)state;
    write_sample(300);
    assert_int_equal(fy_map_open(&a, path, NULL), 0);
    write_sample(300);
    assert_int_equal(fy_map_open(&b, path, NULL), 0);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    fy_map_close(&a);
    fy_map_close(&b);
}

static void what_is_not_there_is_named(void **state)
{
    (void)state;
    uint32_t n;
    fy_err e = {0};
    write_sample(64);
    assert_null(fy_q_inputs_open(path, "abd", &e));
    assert_int_equal(e.code, FY_EARG);
    assert_non_null(strstr(e.msg, "of another model (abc...), not of abd..."));
    fy_gguf *g = open_sample();
    e = (fy_err){0};
    assert_null(fy_q_inputs_find(g, "L1.norm", COLS, &n, &e));
    assert_int_equal(e.code, FY_EFORMAT);
    assert_non_null(strstr(e.msg, "no rows of 3 inputs named 'L1.norm'; calibrate again"));
    assert_null(fy_q_inputs_find(g, "L0.norm", COLS + 1, &n, NULL));
    fy_gguf_close(g);
}

/* A tensor of one width is not of another, and a NaN chooses no scale. */
static void values_that_are_no_good(void **state)
{
    (void)state;
    const float bad[COLS] = {1, NAN, 2};
    uint32_t n;
    fy_q_sampler s;
    fy_err e = {0};
    fy_q_sampler_init(&s, 2);
    assert_int_equal(fy_q_sampler_add(&s, "x", 0, bad, 1, COLS, &e), 0);
    assert_int_equal(fy_q_sampler_add(&s, "x", 1, bad, 1, COLS - 1, &e), -1);
    e = (fy_err){0};
    assert_int_equal(fy_q_sampler_write(&s, "abc", path, &e), 0);
    fy_q_sampler_release(&s);
    fy_gguf *g = open_sample();
    assert_null(fy_q_inputs_find(g, "x", COLS, &n, &e));
    assert_non_null(strstr(e.msg, "'x': a value is not finite"));
    fy_gguf_close(g);
}

static void a_damaged_file_is_refused(void **state)
{
    fy_map m;
    (void)state;
    write_sample(64);
    assert_int_equal(fy_map_open(&m, path, NULL), 0);
    for (size_t size = 0; size < m.size; size += 97) {
        fy_gguf *g = fy_gguf_parse(m.data, size, "inputs", false, NULL);
        assert_null(g);
    }
    fy_map_close(&m);
    assert_int_equal(truncate(path, 200), 0);
    assert_null(fy_q_inputs_open(path, "abc", NULL));
}

static void no_memory(void **state)
{
    bool failed = true;
    (void)state;
    for (long n = 0; failed; n++) {
        fy_q_sampler s;
        fy_err e = {0};
        alloc_fail_after(n);
        const int rc = sample(&s, 64, &e);
        failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        assert_int_equal(e.code, failed ? FY_ENOMEM : FY_OK);
        fy_q_sampler_release(&s);
    }
}

static int begin(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int end(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_taken_evenly),    cmocka_unit_test(the_same_bytes_again),
        cmocka_unit_test(what_is_not_there_is_named), cmocka_unit_test(values_that_are_no_good),
        cmocka_unit_test(a_damaged_file_is_refused),  cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests_name("qinputs", tests, begin, end);
}
