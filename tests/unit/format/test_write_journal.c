#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/write_journal.h"

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-journal-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

#define IDENTITY FY_SPAN("type f16\nsource a: 7 bytes\n")
enum { AT = 8192 };

/* A journal with so many marks, as the bytes after the contents. */
static void make(fy_str *bytes, const uint64_t *marks, int n)
{
    fy_err e = {0};
    fy_journal j;
    fy_out *out = fy_out_open_kept(path, &e);
    assert_non_null(out);
    assert_int_equal(fy_journal_begin(&j, out, AT, IDENTITY, &e), 0);
    for (int i = 0; i < n; i++)
        assert_int_equal(fy_journal_mark(&j, out, marks[i], &e), 0);
    assert_int_equal(fy_journal_read(&j, out, bytes, &e), 0);
    assert_int_equal(j.at, AT);
    assert_true(fy_span_eq(j.identity, IDENTITY));
    assert_int_equal(j.done, n > 0 ? marks[n - 1] : 0);
    fy_out_abort(out);
}

static void the_last_mark_is_read(void **state)
{
    (void)state;
    fy_str bytes = {0};
    for (int n = 0; n <= 5; n++) {
        fy_str_clear(&bytes);
        make(&bytes, (uint64_t[]){1, 2, 30, 40, UINT64_MAX}, n);
    }
    fy_str_release(&bytes);
}

static void a_garbled_byte_never_says_that_more_is_done(void **state)
{
    (void)state;
    fy_str bytes = {0};
    make(&bytes, (uint64_t[]){5, 9}, 2); /* the first slot has 5, the second 9 */
    const uint64_t size = AT + bytes.len;
    int none = 0, less = 0, same = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        for (int bit = 0; bit < 8; bit += 7) {
            fy_journal j;
            bytes.ptr[i] ^= (char)(1 << bit);
            if (!fy_journal_parse(&j, bytes.ptr, bytes.len, size)) {
                none++;
            } else {
                assert_true(fy_span_eq(j.identity, IDENTITY));
                assert_true(j.done == 9 || j.done == 5);
                assert_int_equal(j.slot, j.done == 9 ? 0 : 1); /* the better one is not written */
                less += j.done == 5;
                same += j.done == 9;
            }
            bytes.ptr[i] ^= (char)(1 << bit);
        }
    }
    assert_int_equal(none, 2 * (FY_JOURNAL_FOOT_BYTES + IDENTITY.len));
    assert_int_equal(less, 2 * 32);
    assert_true(same > 0);
    fy_str_release(&bytes);
}

static void a_journal_of_other_contents_or_cut_off_is_none(void **state)
{
    (void)state;
    fy_str bytes = {0};
    fy_journal j;
    make(&bytes, (uint64_t[]){5}, 1);
    for (size_t n = 0; n < bytes.len; n += n < 100 || n > bytes.len - 100 ? 1 : 97)
        assert_false(n >= FY_JOURNAL_FOOT_BYTES && fy_journal_parse(&j, bytes.ptr, n, AT + n));
    assert_false(fy_journal_parse(&j, bytes.ptr, bytes.len, AT + bytes.len + 1));
    assert_true(fy_journal_parse(&j, bytes.ptr, bytes.len, AT + bytes.len));
    fy_str_release(&bytes);
    fy_err e = {0};
    for (size_t n = 0; n <= 128; n += 64) { /* an empty file, and zeros */
        fy_out *out = fy_out_open_kept(path, &e);
        assert_int_equal(fy_out_resize(out, n, &e), 0);
        assert_int_equal(fy_journal_read(&j, out, &bytes, &e), 1);
        fy_out_abort(out);
    }
}

static void beginning_again_forgets_every_mark(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_journal j;
    fy_str bytes = {0};
    fy_out *out = fy_out_open_kept(path, &e);
    assert_int_equal(fy_journal_begin(&j, out, AT, IDENTITY, &e), 0);
    assert_int_equal(fy_journal_mark(&j, out, 3, &e), 0);
    fy_out_leave(out);
    out = fy_out_open_kept(path, &e);
    assert_int_equal(fy_journal_read(&j, out, &bytes, &e), 0);
    assert_int_equal(j.done, 3);
    fy_str_clear(&bytes);
    assert_int_equal(fy_journal_begin(&j, out, AT, IDENTITY, &e), 0);
    assert_int_equal(fy_journal_read(&j, out, &bytes, &e), 0);
    assert_int_equal(j.done, 0);
    fy_out_abort(out);
    fy_str_release(&bytes);
}

static void the_first_line_that_differs_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *was, *is, *want;
    } cases[] = {
        {"a\nb: 1\nc\n", "a\nb: 2\nc\n", "'b: 2', it was 'b: 1'"},
        {"a\n", "a\nb\n", "'b' is new"},
        {"a\nb", "a\n", "'b' is gone"},
        {"a\x1b[2J\n", "b\n", "'b', it was 'a\\x1b[2J'"},
        {"", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_str s = {0};
        fy_journal_difference(fy_span_of(cases[i].was), fy_span_of(cases[i].is), &s);
        assert_string_equal(fy_str_z(&s), cases[i].want);
        fy_str_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_mark_is_read),
        cmocka_unit_test(a_garbled_byte_never_says_that_more_is_done),
        cmocka_unit_test(a_journal_of_other_contents_or_cut_off_is_none),
        cmocka_unit_test(beginning_again_forgets_every_mark),
        cmocka_unit_test(the_first_line_that_differs_is_told),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
