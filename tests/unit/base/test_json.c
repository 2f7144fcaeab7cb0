#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "tests/unit/alloc_fail.h"
#include "base/json.h"
#include "base/log.h"

/* Reads one value of any kind and the end of the document. */
static int check(const char *p, size_t n, fy_err *e)
{
    char *exact = malloc(n > 0 ? n : 1); /* a read past the end is a read past the heap block */
    memcpy(exact, p, n);
    fy_json *j = fy_json_new(exact, n, e);
    int rc = j == NULL || fy_json_skip(j, e) != 0 || fy_json_end(j, e) != 0 ? -1 : 0;
    fy_json_free(j);
    free(exact);
    return rc;
}

#define T(s) {s, sizeof(s) - 1}
typedef struct {
    const char *p;
    size_t n;
} sample;

static const sample good[] = {
    T("{}"), T("[]"), T("\"\""), T("0"), T("-0"), T("1"), T("-12"), T("1.5"), T("1e5"), T("1E+5"),
    T("0e-1"), T("0.0"), T("true"), T("false"), T("null"), T(" \t\r\n[ 1 , 2 ] \n"),
    T("{\"a\":1,\"b\":{\"a\":[{}]}}"),
    T("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uD83D\\uDE00\\uffff\"]"),
    T("\"\xC3\xA9\xF0\x9F\x98\x80\x7F\""), T("[[[[]]],{}]"), T("{\"\":0}"), T("1e999"),
    T("123456789012345678901234567890"), T("[1,\n2]"), T("[{\"a\":1},{\"a\":1}]"),
};

static const sample bad[] = {
    T(""), T(" "), T("\xEF\xBB\xBF{}"), T("{"), T("["), T("]"), T("}"), T("[1"), T("[1,"),
    T("[1,]"), T("[,1]"), T("[1 2]"), T("{\"a\"}"), T("{\"a\":}"), T("{\"a\":1,}"), T("{,}"),
    T("{a:1}"), T("{'a':1}"), T("{1:1}"), T("{\"a\" 1}"), T("{\"a\":1 \"b\":2}"), T("{} {}"),
    T("{}x"), T("[]]"), T("nul"), T("nulls"), T("True"), T("truefalse"), T("NaN"), T("Infinity"),
    T("-"), T("+1"), T("01"), T("-01"), T("1."), T(".5"), T("1e"), T("1e+"), T("0x10"), T("1_0"),
    T("\""), T("\"a"), T("\"\\"), T("\"\\\""), T("\"\\x\""), T("\"\\u12\""), T("\"\\u123g\""),
    T("\"\\uD800\""), T("\"\\uD800x\""), T("\"\\uD800\\n\""), T("\"\\uD800\\uD800\""),
    T("\"\\uDC00\""), T("\"\\uD83D\\uDE0\""), T("\"\n\""), T("\"\0\""), T("\"\x1F\""),
    T("\"\xFF\""), T("\"\xC3\""), T("\"\xED\xA0\x80\""), T("\"\\\xC3\xA9\""), T("[1]\0"), T("\0"),
    T("// c\n1"), T("[1/**/]"), T("\xC2\xA0" "1"), T("{\"a\":1,\"a\":2}"),
    T("{\"a\":1,\"\\u0061\":2}"), T("[[{\"k\":0,\"k\":0}]]"), T("[\"a\",]"), T("{\"a\":[}"),
    T("{\"a\":{]"), T("[}"), T("{]"), T(","), T(":"),
};

static void texts_of_rfc_8259_are_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        fy_err e = {0};
        if (check(good[i].p, good[i].n, &e) != 0)
            fail_msg("%s: %s", good[i].p, e.msg);
    }
}

static void everything_else_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_err e = {0};
        if (check(bad[i].p, bad[i].n, &e) == 0)
            fail_msg("accepted: %s", bad[i].p);
        assert_int_equal(e.code, FY_EFORMAT);
    }
}

static void every_cut_of_a_document_is_refused(void **state)
{
    (void)state;
    static const char doc[] = "{\"k\\n\": [1, -2.5e3, \"\\uD83D\\uDE00 \xC3\xA9\", true, false, "
                              "null, {}], \"\xE2\x82\xAC\": {}}";
    fy_err e = {0};
    assert_int_equal(check(doc, sizeof doc - 1, &e), 0);
    for (size_t n = 0; n < sizeof doc - 1; n++) {
        e = (fy_err){0};
        assert_int_equal(check(doc, n, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
    }
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    char text[2 * FY_JSON_DEPTH + 2];
    for (size_t depth = FY_JSON_DEPTH; depth <= FY_JSON_DEPTH + 1; depth++) {
        fy_err e = {0};
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(check(text, 2 * depth, &e), depth == FY_JSON_DEPTH ? 0 : -1);
    }
}

static void a_million_open_brackets_fail_at_once(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *text = malloc(N);
    fy_err e = {0};
    memset(text, '[', N);
    assert_int_equal(check(text, N, &e), -1);
    assert_string_equal(e.msg,
                        "line 1, column 65: found deeper nesting, expected at most 64 levels");
    free(text);
}

static void values_come_out_as_written(void **state)
{
    (void)state;
    static const char doc[] =
        "{\"u\":18446744073709551615,\"i\":-9223372036854775808,\"d\":-2.5e-3,\"t\":true,"
        "\"f\":false,\"n\":null,\"s\":\"plain\",\"e\":\"a\\u0000\\u00e9\\ud83d\\ude00\\/"
        "\",\"a\":[1,[],2]}";
    fy_err e = {0};
    fy_json *j = fy_json_new(doc, sizeof doc - 1, &e);
    fy_span key, s;
    uint64_t u = 0;
    int64_t i = 0;
    double d = 0;
    bool flag = false, in_input = false;
    assert_int_equal(fy_json_peek(j), FY_JSON_OBJECT);
    assert_int_equal(fy_json_object_begin(j, &e), 0);
    assert_int_equal(fy_json_object_next(j, &key, &e), 1);
    assert_true(fy_span_is(key, "u"));
    assert_int_equal(fy_json_u64(j, &u, &e), 0);
    assert_true(u == UINT64_MAX);
    assert_int_equal(fy_json_object_next(j, &key, &e), 1);
    assert_int_equal(fy_json_i64(j, &i, &e), 0);
    assert_true(i == INT64_MIN);
    assert_int_equal(fy_json_object_next(j, &key, &e), 1);
    assert_int_equal(fy_json_double(j, &d, &e), 0);
    assert_true(d == -2.5e-3);
    assert_int_equal(fy_json_object_next(j, &key, &e), 1);
    assert_int_equal(fy_json_bool(j, &flag, &e), 0);
    assert_true(flag);
    assert_int_equal(fy_json_object_next(j, &key, &e), 1);
    assert_int_equal(fy_json_bool(j, &flag, &e), 0);
    assert_false(flag);
    assert_int_equal(fy_json_object_next(j, &key, &e), 1);
    assert_int_equal(fy_json_null(j, &e), 0);
    assert_int_equal(fy_json_object_next(j, &key, &e), 1);
    assert_int_equal(fy_json_string(j, &s, &in_input, &e), 0);
    assert_true(fy_span_is(s, "plain"));
    assert_true(in_input && s.ptr > doc && s.ptr < doc + sizeof doc);
    assert_int_equal(fy_json_object_next(j, &key, &e), 1);
    assert_int_equal(fy_json_string(j, &s, &in_input, &e), 0);
    assert_true(fy_span_eq(s, FY_SPAN("a\0\xC3\xA9\xF0\x9F\x98\x80/")));
    assert_false(in_input);
    assert_int_equal(fy_json_object_next(j, &key, &e), 1);
    assert_int_equal(fy_json_array_begin(j, &e), 0);
    assert_int_equal(fy_json_array_next(j, &e), 1);
    assert_int_equal(fy_json_u64(j, &u, &e), 0);
    assert_int_equal(fy_json_array_next(j, &e), 1);
    assert_int_equal(fy_json_skip(j, &e), 0);
    assert_int_equal(fy_json_array_next(j, &e), 1);
    assert_int_equal(fy_json_u64(j, &u, &e), 0);
    assert_int_equal(u, 2);
    assert_int_equal(fy_json_array_next(j, &e), 0);
    assert_int_equal(fy_json_object_next(j, &key, &e), 0);
    assert_int_equal(fy_json_end(j, &e), 0);
    fy_json_free(j);
    fy_json_free(NULL);
}

/* What a typed reader says to a text of one value. */
enum { U64, I64, DOUBLE, STRING, BOOLEAN, NUL, OBJECT, ARRAY };
static int read_as(int kind, const char *text, fy_err *e)
{
    uint64_t u;
    int64_t i;
    double d;
    bool b;
    fy_span s;
    fy_json *j = fy_json_new(text, strlen(text), e);
    int rc = kind == U64       ? fy_json_u64(j, &u, e)
             : kind == I64     ? fy_json_i64(j, &i, e)
             : kind == DOUBLE  ? fy_json_double(j, &d, e)
             : kind == STRING  ? fy_json_string(j, &s, NULL, e)
             : kind == BOOLEAN ? fy_json_bool(j, &b, e)
             : kind == NUL     ? fy_json_null(j, e)
             : kind == OBJECT  ? fy_json_object_begin(j, e)
                               : fy_json_array_begin(j, e);
    fy_json_free(j);
    return rc;
}

static void a_wrong_kind_is_told_with_what_was_found(void **state)
{
    (void)state;
    static const struct {
        int kind;
        const char *text, *words;
    } cases[] = {
        {U64, "-1", "found -1, expected an integer from 0 to 2^64-1"},
        {U64, "1.0", "found 1.0, expected an integer"},
        {U64, "1e3", "found 1e3"},
        {U64, "18446744073709551616", "found 18446744073709551616"},
        {U64, "\"1\"", "found a string, expected a number"},
        {I64, "9223372036854775808", "expected an integer from -2^63"},
        {I64, "-9223372036854775809", "found -9223372036854775809"},
        {DOUBLE, "1e999", "a number that a double can hold"},
        {DOUBLE, "true", "found true, expected a number"},
        {STRING, "[1]", "found an array, expected a string"},
        {BOOLEAN, "null", "found null, expected true or false"},
        {BOOLEAN, "tru", "expected true, false or null"},
        {NUL, "{}", "found an object, expected null"},
        {OBJECT, "[]", "found an array, expected an object"},
        {ARRAY, "\n\n  false", "line 3, column 3: found false, expected an array"},
        {ARRAY, "", "line 1, column 1: found the end of the text, expected an array"},
        {ARRAY, "\x1B[", "found '\\x1b', expected an array"},
        {OBJECT, "\xEF\xBB\xBF{}", "found a byte order mark"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        assert_int_equal(read_as(cases[i].kind, cases[i].text, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, cases[i].words) == NULL)
            fail_msg("'%s' says: %s", cases[i].text, e.msg);
    }
}

static void the_first_failure_is_repeated_by_later_calls(void **state)
{
    (void)state;
    fy_err e = {0}, later = {0};
    fy_span key;
    fy_json *j = fy_json_new("[1", 2, &e);
    assert_int_equal(fy_json_object_begin(j, &e), -1);
    assert_int_equal(fy_json_object_next(j, &key, &later), -1);
    assert_string_equal(later.msg, e.msg);
    assert_int_equal(fy_json_skip(j, NULL), -1);
    assert_int_equal(fy_json_end(j, NULL), -1);
    fy_json_free(j);
}

static void a_long_or_hostile_key_is_cut_and_escaped_in_the_message(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_err e = {0};
    fy_str_puts(&s, "{");
    for (int twice = 0; twice < 2; twice++) {
        fy_str_puts(&s, twice ? ",\"\\u001b[31m" : "\"\\u001b[31m");
        for (int i = 0; i < 1000; i++)
            fy_str_putc(&s, 'k');
        fy_str_puts(&s, "\":0");
    }
    fy_str_puts(&s, "}");
    assert_int_equal(check(s.ptr, s.len, &e), -1);
    assert_non_null(strstr(e.msg, "a second key '\\x1b[31mkkk"));
    assert_non_null(strstr(e.msg, "...'"));
    assert_true(strlen(e.msg) < 160);
    fy_str_release(&s);
}

static void huge_objects_are_read_in_linear_time(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_err e = {0};
    fy_str_puts(&s, "{");
    for (int i = 0; i < 300000; i++)
        fy_str_printf(&s, "%s\"key%d\":%d", i > 0 ? "," : "", i, i);
    size_t n = s.len;
    fy_str_puts(&s, "}");
    assert_int_equal(check(s.ptr, s.len, &e), 0);
    s.len = n;
    fy_str_puts(&s, ",\"key299998\":0}");
    assert_int_equal(check(s.ptr, s.len, &e), -1);
    assert_non_null(strstr(e.msg, "a second key 'key299998'"));
    fy_str_release(&s);
}

static void offsets_let_a_value_be_read_again(void **state)
{
    (void)state;
    static const char doc[] = "{\"a\": [1, 2], \"b\": 3}";
    fy_err e = {0};
    fy_span key;
    uint64_t v = 0;
    fy_json *j = fy_json_new(doc, sizeof doc - 1, &e);
    fy_json_object_begin(j, &e);
    fy_json_object_next(j, &key, &e);
    size_t at = fy_json_offset(j);
    assert_int_equal(doc[at], '[');
    assert_int_equal(fy_json_skip(j, &e), 0);
    fy_json *again = fy_json_new(doc + at, sizeof doc - 1 - at, &e);
    assert_int_equal(fy_json_array_begin(again, &e), 0);
    assert_int_equal(fy_json_array_next(again, &e), 1);
    assert_int_equal(fy_json_u64(again, &v, &e), 0);
    assert_int_equal(v, 1);
    fy_json_free(again);
    fy_json_free(j);
}

static void any_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_str_puts(&s, "[{");
    for (int i = 0; i < 50; i++)
        fy_str_printf(&s, "\"k%d\\n\":[{\"a\":\"x\\ty\"}],", i);
    fy_str_puts(&s, "\"end\":1.5}]");
    bool failed = true;
    long n = 0;
    for (; failed; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_json *j = fy_json_new(s.ptr, s.len, &e);
        int rc = j == NULL ? -1 : fy_json_skip(j, &e);
        fy_json_free(j);
        failed = alloc_fail_end();
        assert_int_equal(rc, failed ? -1 : 0);
        assert_int_equal(e.code, failed ? FY_ENOMEM : FY_OK);
    }
    assert_true(n > 6);
    fy_str_release(&s);
}

static void an_unchecked_object_leaves_second_keys_to_its_reader(void **state)
{
    (void)state;
    const char text[] = "{\"a\":{\"b\":1,\"b\":2},\"\\u0061\":3}";
    fy_err e = {0};
    fy_span key;
    fy_json *j = fy_json_new(text, sizeof text - 1, &e);
    assert_int_equal(fy_json_object_begin_unchecked(j, &e), 0);
    assert_int_equal(fy_json_object_next(j, &key, &e), 1);
    assert_int_equal(fy_json_skip(j, &e), -1); /* of that object only */
    assert_non_null(strstr(e.msg, "a second key 'b'"));
    fy_json_free(j);
    const char twice[] = "[{\"a\":1,\"\\u0061\":2},{\"c\":1,\"c\":1}]";
    e = (fy_err){0};
    j = fy_json_new(twice, sizeof twice - 1, &e);
    uint64_t v;
    int n = 0;
    assert_int_equal(fy_json_array_begin(j, &e), 0);
    assert_int_equal(fy_json_array_next(j, &e), 1);
    assert_int_equal(fy_json_object_begin_unchecked(j, &e), 0);
    for (; fy_json_object_next(j, &key, &e) == 1; n++) {
        assert_true(fy_span_is(key, "a"));
        assert_int_equal(fy_json_u64(j, &v, &e), 0);
    }
    assert_int_equal(n, 2);
    assert_int_equal(fy_json_array_next(j, &e), 1);
    assert_int_equal(fy_json_skip(j, &e), -1); /* the next object at that depth is checked */
    fy_json_free(j);
}

/* A small document is read whole: the interrupt of an answer does not keep its request from being
 * read. */
static void a_long_document_can_be_interrupted(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        fy_str s = {0};
        fy_err e = {0};
        fy_str_putc(&s, '[');
        for (int i = 0; i < (large ? 100000 : 1000); i++)
            fy_str_puts(&s, "1,");
        fy_str_puts(&s, "1]");
        fy_json *j = fy_json_new(s.ptr, s.len, &e);
        fy_interrupted = 1;
        assert_int_equal(fy_json_skip(j, &e), large ? -1 : 0);
        fy_interrupted = 0;
        assert_int_equal(e.code, large ? FY_EINTR : FY_OK);
        fy_json_free(j);
        fy_str_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_rfc_8259_are_accepted),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(every_cut_of_a_document_is_refused),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(a_million_open_brackets_fail_at_once),
        cmocka_unit_test(values_come_out_as_written),
        cmocka_unit_test(a_wrong_kind_is_told_with_what_was_found),
        cmocka_unit_test(the_first_failure_is_repeated_by_later_calls),
        cmocka_unit_test(a_long_or_hostile_key_is_cut_and_escaped_in_the_message),
        cmocka_unit_test(huge_objects_are_read_in_linear_time),
        cmocka_unit_test(offsets_let_a_value_be_read_again),
        cmocka_unit_test(an_unchecked_object_leaves_second_keys_to_its_reader),
        cmocka_unit_test(a_long_document_can_be_interrupted),
        cmocka_unit_test(any_failing_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
