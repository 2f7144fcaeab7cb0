#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* (cmocka.h needs the four above first) */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/alloc_fail.h"
#include "base/json_tree.h"
#include "cli/measure/eval.h"

static json_t *data_of(const char *text)
{
    fy_err e = {0};
    json_t *v = fy_json_data(fy_span_of(text), &e);
    if (v == NULL)
        fail_msg("%s", e.msg);
    return v;
}

static void data_keeps_integers_and_a_configuration_does_not(void **state)
{
    (void)state;
    static const char text[] = "[1,-9223372036854775808,9223372036854775808,1.0,1e2]";
    json_t *data = data_of(text), *config = fy_json_tree(text, sizeof text - 1, NULL);
    for (size_t i = 0; i < json_array_size(data); i++) {
        assert_int_equal(json_is_integer(json_array_get(data, i)), i < 2);
        assert_true(json_is_real(json_array_get(config, i)));
        assert_true(json_number_value(json_array_get(data, i)) ==
                    json_number_value(json_array_get(config, i)));
    }
    assert_true(json_integer_value(json_array_get(data, 1)) == INT64_MIN);
    json_decref(data);
    json_decref(config);
}

static void only_data_may_hold_nul_and_no_key_may(void **state)
{
    (void)state;
    static const char text[] = "\"a\\u0000b\"", key[] = "{\"a\\u0000b\":1}";
    fy_err e = {0};
    json_t *v = data_of(text);
    assert_int_equal(json_string_length(v), 3);
    assert_memory_equal(json_string_value(v), "a\0b", 4);
    json_decref(v);
    assert_null(fy_json_tree(text, sizeof text - 1, &e));
    assert_non_null(strstr(e.msg, "NUL"));
    assert_null(fy_json_data(FY_SPAN(key), NULL));
    assert_null(fy_json_tree(key, sizeof key - 1, NULL));
}

static void a_line_is_located_by_its_column(void **state)
{
    (void)state;
    fy_err line = {0}, file = {0};
    assert_null(fy_json_data_line(FY_SPAN("{\"a\":}"), &line));
    assert_null(fy_json_data(FY_SPAN("{\"a\":}"), &file));
    assert_string_equal(line.msg, "column 6: found '}', expected a value");
    assert_string_equal(file.msg, "line 1, column 6: found '}', expected a value");
    assert_int_equal(line.code, FY_EFORMAT);
}

static void a_second_key_is_refused(void **state)
{
    (void)state;
    assert_null(fy_json_data(FY_SPAN("{\"a\":1,\"a\":2}"), NULL));
}

/* (jansson's own parser fails this: it returns strings with letters missing) */
static void no_letter_is_lost_when_memory_runs_out(void **state)
{
    (void)state;
    fy_str text = {0};
    fy_str_puts(&text, "{\"context\":\"");
    for (int i = 0; i < 100; i++)
        fy_str_puts(&text, "some words of a text \\u00e9\\n ");
    fy_str_puts(&text, "\",\"list\":[1,2.5,\"three\",null,true],\"continuation\":\" end\"}");
    const fy_span line = {fy_str_z(&text), text.len};
    json_t *whole = data_of(line.ptr);
    for (long n = 0, failed = true; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        json_t *v = fy_eval_line_json(line, &e);
        failed = alloc_fail_end();
        if (v == NULL)
            assert_int_equal(e.code, FY_ENOMEM);
        else
            assert_true(json_equal(v, whole));
        json_decref(v);
    }
    json_decref(whole);
    fy_str_release(&text);
}

static void what_json_cannot_hold_becomes_a_string(void **state)
{
    (void)state;
    fy_json_maker m = {0};
    fy_str out = {0};
    json_t *top = json_object();
    fy_make_set(&m, top, "u64", fy_make_u64(UINT64_MAX));
    fy_make_set(&m, top, "inf", fy_make_number(INFINITY));
    fy_make_set_name(&m, top, FY_SPAN("a\0\x1B\xFF"), fy_make_text(FY_SPAN("\xC3\xA9")));
    assert_int_equal(fy_make_end(&m, top, &out, NULL), 0);
    assert_string_equal(fy_str_z(&out), "{\n \"u64\": \"18446744073709551615\",\n \"inf\": \"inf\",\n"
                                        " \"a\\\\x00\\\\x1b\\\\xff\": \"\xC3\xA9\"\n}\n");
    fy_make_append(&m, NULL, NULL);
    assert_int_equal(fy_make_end(&m, json_object(), &out, NULL), -1);
    fy_str_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_keeps_integers_and_a_configuration_does_not),
        cmocka_unit_test(only_data_may_hold_nul_and_no_key_may),
        cmocka_unit_test(a_line_is_located_by_its_column),
        cmocka_unit_test(a_second_key_is_refused),
        cmocka_unit_test(no_letter_is_lost_when_memory_runs_out),
        cmocka_unit_test(what_json_cannot_hold_becomes_a_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
