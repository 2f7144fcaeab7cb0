/* Ranges: what is written reads back, and what no calibration writes is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/alloc_fail.h"
#include "workspace/compile/calibrate.h"

#define HEAD "{\"version\": 1, \"model\": \"abc\", \"tokens\": 4, "

static fy_q_ranges *parse(const char *text, fy_err *e)
{
    fy_q_ranges *r = NULL;
    return fy_q_ranges_parse(text, strlen(text), &r, e) == 0 ? r : NULL;
}

static fy_q_ranges *made(fy_err *e)
{
    fy_q_ranges *r = fy_q_ranges_new("abc", e);
    if (r == NULL)
        return NULL;
    *fy_q_ranges_tokens(r) = 4;
    *fy_q_ranges_preset(r) = 3;
    fy_q_range *a = fy_q_ranges_add(r, "L0.x", e);
    if (a != NULL)
        *a = (fy_q_range){-1.1f, 320, -0.3f, 3};
    fy_q_range *b = a != NULL ? fy_q_ranges_add(r, "L0.y", e) : NULL;
    if (b != NULL)
        *b = (fy_q_range){0, 1e-7f, -1e30f, 1e-7f};
    double *w = b != NULL ? fy_q_ranges_squares(r, "blk.0.attn_q.weight", 3, e) : NULL;
    if (w != NULL) {
        w[0] = 4;
        w[1] = 8;
        fy_q_ranges_mean(r);
        return r;
    }
    fy_q_ranges_free(r);
    return NULL;
}

static void test_what_is_written_reads_back(void **state)
{
    (void)state;
    char path[] = "/tmp/ranges-XXXXXX";
    fy_err e = {0};
    fy_q_ranges *r = made(&e), *again;
    close(mkstemp(path));
    assert_int_equal(fy_q_ranges_write(r, path, &e), 0);
    again = fy_q_ranges_read(path, &e);
    unlink(path);
    assert_non_null(again);
    assert_string_equal(fy_q_ranges_model(again), "abc");
    assert_int_equal(*fy_q_ranges_tokens(again), 4);
    assert_int_equal(*fy_q_ranges_preset(again), 3);
    assert_int_equal(fy_q_ranges_n(again), 2);
    for (size_t i = 0; i < 2; i++)
        assert_memory_equal(fy_q_ranges_at(r, i), fy_q_ranges_find(again, fy_q_ranges_name(r, i)),
                            sizeof(fy_q_range));
    const double *w = fy_q_ranges_importance(again, "blk.0.attn_q.weight", 3);
    assert_non_null(w);
    assert_true(w[0] == 1 && w[1] == 2 && w[2] == 0);
    assert_null(fy_q_ranges_importance(again, "blk.0.attn_q.weight", 4));
    assert_null(fy_q_ranges_find(again, "L0.z"));
    fy_q_ranges_free(r);
    fy_q_ranges_free(again);
}

static void test_what_no_calibration_writes_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"version\": 2, \"ranges\": {}}", "version 2"},
        {"{\"ranges\": {}}", "version 0"},
        {HEAD "\"ranges\": {\"a\": [0, 1, 0]}}", "too few numbers"},
        {HEAD "\"ranges\": {\"a\": [0, 1, 0, 1, 1]}}", "more than four numbers"},
        {HEAD "\"ranges\": {\"a\": [0, 1e31, 0, 1]}}", "up to 1e30"},
        {HEAD "\"ranges\": {\"a\": [2, 1, 0, 1]}}", "the smaller number first"},
        {HEAD "\"ranges\": {\"a\": 1}}", "expected"},
        {HEAD "\"ranges\": {\"a\": [0, 1, 0, 1], \"a\": [0, 1, 0, 1]}}", "a"},
        {HEAD "\"importance\": {\"a\": [-1]}}", "0 to 1e30"},
        {HEAD "\"ranges\": {}}x", "x"},
        {HEAD "\"ranges\": {", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        assert_null(parse(cases[i].text, &e));
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, cases[i].says) == NULL)
            fail_msg("%s: %s", cases[i].text, e.msg);
        assert_null(parse(cases[i].text, NULL));
    }
}

static void test_the_first_token_alone(void **state)
{
    (void)state;
    fy_err e = {0};
    const char *name = "";
    fy_q_ranges *r = made(&e);
    assert_int_equal(fy_q_massive(r, &name), 1);
    assert_string_equal(name, "L0.x");
    fy_q_ranges_free(r);
}

static void test_no_memory(void **state)
{
    (void)state;
    const char *text = HEAD "\"ranges\": {\"a\": [0, 1, 0, 1]}, \"importance\": {\"m\": [1, 2]}}";
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_q_ranges *r = parse(text, &e);
        failed = alloc_fail_end();
        assert_int_equal(r == NULL, failed);
        fy_q_ranges_free(r);
    }
    failed = true;
    for (long n = 0; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_q_ranges *r = made(&e);
        failed = alloc_fail_end();
        assert_int_equal(r == NULL, failed);
        fy_q_ranges_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_reads_back),
        cmocka_unit_test(test_what_no_calibration_writes_is_refused),
        cmocka_unit_test(test_the_first_token_alone),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
