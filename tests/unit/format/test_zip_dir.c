#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "format/zip_dir.h"
#include "tests/unit/format/torch_bytes.h"

static int read_copy(const char *p, size_t n, fy_zip_dir *z, char **copy, fy_err *e)
{
    *copy = exact_copy(p, n);
    return fy_zip_dir_read(z, *copy, n, e);
}

static void expect_words(const zip_maker *m, const char *words)
{
    fy_zip_dir z = {0};
    fy_err e = {0};
    char *copy;
    assert_int_equal(read_copy(m->bytes.ptr, m->bytes.len, &z, &copy, &e), -1);
    if (strstr(e.msg, words) == NULL)
        fail_msg("'%s' is not in: %s", words, e.msg);
    fy_zip_dir_release(&z);
    free(copy);
}

static void entries_are_found_in_every_form_of_archive(void **state)
{
    (void)state;
    for (unsigned form = 0; form < 8; form++) {
        zip_maker m = {.zip64 = form & 1, .descriptor = form & 2, .padding = form & 4 ? 37 : 0};
        fy_zip_dir z = {0};
        fy_err e = {0};
        char *copy;
        zip_add(&m, "a/data.pkl", "pickle", 6);
        zip_add(&m, "a/", "", 0);
        zip_add(&m, "a/data/0", "\1\2\3\4", 4);
        zip_end(&m);
        if (read_copy(m.bytes.ptr, m.bytes.len, &z, &copy, &e) != 0)
            fail_msg("form %u: %s", form, e.msg);
        assert_int_equal(z.n, 3);
        const fy_zip_entry *x = fy_zip_dir_find(&z, FY_SPAN("a/data/0"));
        assert_non_null(x);
        assert_ptr_equal(x, &z.entries[2]);
        assert_int_equal(x->bytes, 4);
        assert_memory_equal(x->data, "\1\2\3\4", 4);
        assert_memory_equal(z.entries[0].data, "pickle", 6);
        assert_int_equal(z.entries[1].bytes, 0);
        assert_null(fy_zip_dir_find(&z, FY_SPAN("a/data/1")));
        fy_zip_dir_release(&z);
        free(copy);
        zip_release(&m);
    }
}

static void a_comment_may_follow_and_an_archive_may_be_empty(void **state)
{
    (void)state;
    zip_maker m = {0};
    fy_zip_dir z = {0};
    fy_err e = {0};
    zip_end(&m);
    assert_int_equal(m.bytes.len, 22);
    m.bytes.ptr[20] = 5;
    fy_str_puts(&m.bytes, "hello");
    assert_int_equal(fy_zip_dir_read(&z, m.bytes.ptr, m.bytes.len, &e), 0);
    assert_int_equal(z.n, 0);
    fy_zip_dir_release(&z);
    zip_release(&m);
}

static void what_pytorch_does_not_write_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        zip_maker how;
        const char *words;
    } cases[] = {
        {{.flags = 1}, "zip entry 'x': is encrypted"},
        {{.more_bytes = 1000}, "zip entry 'x': its 1003 bytes at byte 31 reach beyond the end"},
        {{.more_bytes = UINT64_MAX - 3, .zip64 = true}, "reach beyond the end of the file"},
        {{.more_bytes = 1000, .zip64 = true}, "reach beyond the end of the file"},
        {{.more_bytes = 1000, .descriptor = true}, "reach beyond the end of the file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        zip_maker m = cases[i].how;
        zip_add(&m, "x", "abc", 3);
        zip_end(&m);
        expect_words(&m, cases[i].words);
        zip_release(&m);
    }
}

static void compressed_entries_are_listed_without_their_bytes(void **state)
{
    (void)state;
    zip_maker m = {0};
    fy_zip_dir z = {0};
    fy_err e = {0};
    zip_add(&m, "x", "a", 1);
    m.method = 8;
    zip_add(&m, "y", "abc", 3);
    zip_end(&m);
    assert_int_equal(fy_zip_dir_read(&z, m.bytes.ptr, m.bytes.len, &e), 0);
    assert_int_equal(z.n, 2);
    assert_int_equal(z.entries[0].method, 0);
    assert_int_equal(fy_zip_need_stored(&z.entries[0], &e), 0);
    assert_int_equal(z.entries[1].method, 8);
    assert_null(z.entries[1].data);
    assert_int_equal(z.entries[1].bytes, 0);
    assert_int_equal(fy_zip_need_stored(&z.entries[1], &e), -1);
    assert_non_null(strstr(e.msg, "zip entry 'y': is compressed (method 8), expected stored"));
    fy_zip_dir_release(&z);
    zip_release(&m);
}

static void two_entries_of_one_name_are_refused(void **state)
{
    (void)state;
    zip_maker m = {0};
    zip_add(&m, "x", "a", 1);
    zip_add(&m, "y", "a", 1);
    zip_add(&m, "x", "b", 1);
    zip_end(&m);
    expect_words(&m, "the zip archive has two entries 'x'");
    zip_release(&m);
}

static void a_directory_that_lies_is_refused(void **state)
{
    (void)state;
    static const struct {
        bool zip64;
        uint64_t count, at, bytes;
        const char *words;
    } cases[] = {
        {false, 2, 34, 47, "cannot hold 2 entries"},
        {true, UINT64_MAX, 34, 75, "cannot hold 18446744073709551615 entries"},
        {true, 2, 34, UINT64_MAX, "reaches beyond its end record"},
        {true, 1, UINT64_MAX - 40, 75, "reaches beyond its end record"},
        {false, 1, 35, 47, "reaches beyond its end record"},
        {false, 1, 33, 47, "entry 0 of the zip directory is damaged"},
        {false, 1, 34, 46, "entry 0 of the zip directory is cut off"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        zip_maker m = {.zip64 = cases[i].zip64};
        zip_add(&m, "x", "abc", 3);
        assert_int_equal(m.bytes.len, 34);
        zip_end_as(&m, cases[i].count, cases[i].at, cases[i].bytes);
        expect_words(&m, cases[i].words);
        zip_release(&m);
    }
}

static void archives_in_parts_and_wild_pointers_are_refused(void **state)
{
    (void)state;
    zip_maker m = {0};
    zip_add(&m, "x", "abc", 3);
    zip_end(&m);
    m.bytes.ptr[m.bytes.len - 18] = 1; /* number of this part */
    expect_words(&m, "one part of several");
    zip_release(&m);

    m = (zip_maker){.zip64 = true};
    zip_add(&m, "x", "abc", 3);
    zip_end(&m);
    m.bytes.ptr[m.bytes.len - 22 - 12] ^= 1; /* the locator's pointer */
    expect_words(&m, "the zip64 record is not at byte");
    memset(m.bytes.ptr + m.bytes.len - 22 - 12, 0xFF, 8);
    expect_words(&m, "the zip64 record is not at byte 18446744073709551615");
    zip_release(&m);

    m = (zip_maker){0};
    zip_add(&m, "x", "abc", 3);
    memset(m.central.ptr + 42, 0xEE, 4); /* where the entry is */
    zip_end(&m);
    expect_words(&m, "zip entry 'x': has no header at byte 4008636142");
    zip_release(&m);

    m = (zip_maker){.zip64 = true};
    zip_add(&m, "x", "abc", 3);
    m.central.ptr[46 + 1 + 2] = 16; /* a field of two numbers where three are needed */
    zip_end(&m);
    expect_words(&m, "zip entry 'x': its zip64 field is too short");
    zip_release(&m);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    zip_maker m = {.zip64 = true, .descriptor = true, .padding = 3};
    zip_add(&m, "a/data.pkl", "pickle", 6);
    zip_add(&m, "a/data/0", "\1\2\3\4", 4);
    zip_end(&m);
    for (size_t n = 0; n < m.bytes.len; n++) {
        fy_zip_dir z = {0};
        fy_err e = {0};
        char *copy;
        assert_int_equal(read_copy(m.bytes.ptr, n, &z, &copy, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        fy_zip_dir_release(&z);
        free(copy);
    }
    zip_release(&m);
}

static void a_failing_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    zip_maker m = {0};
    char name[16];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "data/%d", i);
        zip_add(&m, name, "abc", 3);
    }
    zip_end(&m);
    bool done = false;
    for (long n = 0; !done; n++) {
        fy_zip_dir z = {0};
        fy_err e = {0};
        alloc_fail_after(n);
        int rc = fy_zip_dir_read(&z, m.bytes.ptr, m.bytes.len, &e);
        done = !alloc_fail_end();
        assert_int_equal(rc, done ? 0 : -1);
        assert_int_equal(e.code, done ? FY_OK : FY_ENOMEM);
        fy_zip_dir_release(&z);
    }
    zip_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_found_in_every_form_of_archive),
        cmocka_unit_test(a_comment_may_follow_and_an_archive_may_be_empty),
        cmocka_unit_test(what_pytorch_does_not_write_is_refused_by_name),
        cmocka_unit_test(compressed_entries_are_listed_without_their_bytes),
        cmocka_unit_test(two_entries_of_one_name_are_refused),
        cmocka_unit_test(a_directory_that_lies_is_refused),
        cmocka_unit_test(archives_in_parts_and_wild_pointers_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_failing_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
