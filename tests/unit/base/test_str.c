#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"

static void appends_grow_and_keep_a_nul_behind_them(void **state)
{
    (void)state;
    fy_str s = {0};
    assert_string_equal(fy_str_z(&s), "");
    for (int i = 0; i < 1000; i++)
        fy_str_putc(&s, (char)('a' + i % 26));
    assert_int_equal(s.len, 1000);
    assert_int_equal(strlen(s.ptr), 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(s.ptr[i], 'a' + i % 26);
    fy_str_clear(&s);
    assert_string_equal(fy_str_z(&s), "");
    fy_str_puts(&s, "again");
    assert_string_equal(fy_str_z(&s), "again");
    fy_str_release(&s);
    assert_null(s.ptr);
}

static void bytes_may_be_nul(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_str_add(&s, "a\0b", 3);
    fy_str_add(&s, NULL, 0);
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.ptr, "a\0b", 4);
    fy_str_release(&s);
}

static void formatted_text_of_any_length_fits(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_str_printf(&s, "%d-%s", 7, "x");
    fy_str_printf(&s, "%*d", 500, 1);
    fy_str_printf(&s, "%s", "");
    assert_int_equal(s.len, 503);
    assert_memory_equal(s.ptr, "7-x   ", 6);
    assert_int_equal(s.ptr[502], '1');
    fy_str_release(&s);
}

static void code_points_become_utf8(void **state)
{
    (void)state;
    fy_str s = {0};
    static const uint32_t cps[] = {0x41, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFD, 0x10000, 0x10FFFF};
    for (size_t i = 0; i < sizeof cps / sizeof cps[0]; i++)
        fy_str_put_utf8(&s, cps[i]);
    assert_string_equal(
        fy_str_z(&s),
        "A\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBD\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
    fy_str_release(&s);
}

static void running_out_of_memory_sticks(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_str_puts(&s, "kept");
    fy_str_add(&s, "x", SIZE_MAX / 2);
    assert_true(s.oom);
    fy_str_puts(&s, "not added");
    assert_string_equal(fy_str_z(&s), "kept");
    fy_str_release(&s);
    assert_false(s.oom);
}

static void spans_compare_by_content(void **state)
{
    (void)state;
    assert_true(fy_span_is(FY_SPAN("abc"), "abc"));
    assert_false(fy_span_is(FY_SPAN("abc"), "ab"));
    assert_false(fy_span_is(FY_SPAN("a\0c"), "a"));
    assert_true(fy_span_eq((fy_span){NULL, 0}, FY_SPAN("")));
    assert_true(fy_span_eq(fy_span_of("x"), FY_SPAN("x")));
}

static void ends_of_a_span_are_compared(void **state)
{
    (void)state;
    assert_true(fy_span_begins(FY_SPAN("model.bin"), "model."));
    assert_true(fy_span_begins(FY_SPAN("a"), "a"));
    assert_true(fy_span_begins((fy_span){NULL, 0}, ""));
    assert_false(fy_span_begins(FY_SPAN("mode"), "model"));
    assert_true(fy_span_ends(FY_SPAN("model.bin"), ".bin"));
    assert_true(fy_span_ends((fy_span){NULL, 0}, ""));
    assert_false(fy_span_ends(FY_SPAN("bin"), ".bin"));
    assert_false(fy_span_ends(FY_SPAN("model.bin"), ".bi"));
}

static void lines_are_cut_off_a_span(void **state)
{
    (void)state;
    static const char *const want[] = {"a", "", "b\r", "c"};
    fy_span rest = FY_SPAN("a\n\r\nb\r\r\nc");
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_true(fy_span_is(fy_span_cut_line(&rest), want[i]));
    assert_int_equal(rest.len, 0);
    assert_int_equal(fy_span_cut_line(&rest).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_grow_and_keep_a_nul_behind_them),
        cmocka_unit_test(bytes_may_be_nul),
        cmocka_unit_test(formatted_text_of_any_length_fits),
        cmocka_unit_test(code_points_become_utf8),
        cmocka_unit_test(running_out_of_memory_sticks),
        cmocka_unit_test(spans_compare_by_content),
        cmocka_unit_test(ends_of_a_span_are_compared),
        cmocka_unit_test(lines_are_cut_off_a_span),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
