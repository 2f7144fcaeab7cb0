/* Objects read by tables: every type of a row, ranges, absent and unknown members, lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "base/json_rows.h"

typedef struct {
    char *name; /* owned */
    uint32_t small;
} item;

typedef struct {
    int64_t whole;
    uint64_t wide, scaled;
    double real;
    bool flag;
    char word[5];
    item one;
    item *items; /* owned */
    size_t n_items;
    int taken;
} sample;

static bool is_lower(const char *s)
{
    return strspn(s, "abcdefghijklmnopqrstuvwxyz") == strlen(s);
}

static int take_list(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    *(int *)at = *(const int *)t->user;
    return fy_json_skip(j, e);
}

static int check(void *user, void *items, size_t i, fy_err *e)
{
    (void)user;
    const item *list = items;
    return i == 0 || strcmp(list[i - 1].name, list[i].name) < 0
               ? 0
               : fy_fail(e, FY_EFORMAT, "is out of order");
}

static const fy_json_row item_rows[] = {
    {.key = "name",
     .type = FY_JSON_ROW_TEXT,
     .offset = offsetof(item, name),
     .required = true,
     .min = 1,
     .max = 8,
     .fits = is_lower,
     .expected = "lower case"},
    FY_JSON_WITHIN(U32, "small", item, small, false, 1, 9),
    {.key = "other", .type = FY_JSON_ROW_BOOL, .in = 2},
};
static const fy_json_table strict = {FY_JSON_ROWS(item_rows), .in = 1, .strict = true};
static const item fresh = {NULL, 7};
static const fy_json_table list = {
    FY_JSON_ROWS(item_rows), .in = 1,       .item_bytes = sizeof(item), .most = 3, .fresh = &fresh,
    .named = true,           .check = check};
static const fy_json_row rows[] = {
    FY_JSON_FIELD(I64, "whole", sample, whole, true),
    FY_JSON_FIELD(U64, "wide", sample, wide, false),
    {.key = "scaled",
     .type = FY_JSON_ROW_U64,
     .offset = offsetof(sample, scaled),
     .min = 1,
     .max = 4,
     .unit = 1 << 20},
    FY_JSON_FIELD(REAL, "real", sample, real, false),
    FY_JSON_FIELD(BOOL, "flag", sample, flag, false),
    {.key = "word",
     .type = FY_JSON_ROW_CHARS,
     .offset = offsetof(sample, word),
     .min = 1,
     .max = 4,
     .fits = is_lower,
     .expected = "lower case"},
    {.key = "one", .type = FY_JSON_ROW_OBJECT, .offset = offsetof(sample, one), .table = &strict},
    {.key = "items",
     .type = FY_JSON_ROW_LIST,
     .offset = offsetof(sample, items),
     .min = 1,
     .n_at = offsetof(sample, n_items),
     .table = &list},
    {.key = "odd", .type = FY_JSON_ROW_TAKE, .offset = offsetof(sample, taken), .take = take_list},
};

static int read(const char *text, sample *out, fy_err *e)
{
    static int forty_two = 42;
    const fy_json_table t = {FY_JSON_ROWS(rows), .user = &forty_two};
    *out = (sample){0};
    return fy_json_document_of(fy_span_of(text), &t, out, e);
}

static void release(sample *s)
{
    free(s->one.name);
    for (size_t i = 0; i < s->n_items; i++)
        free(s->items[i].name);
    free(s->items);
}

static const char good[] =
    "{\"whole\": -3, \"wide\": 18446744073709551615, \"scaled\": 3, \"real\": 0.5, \"flag\": true,"
    " \"word\": \"abcd\", \"x\": [1, {}], \"one\": {\"name\": \"a\", \"small\": 9},"
    " \"items\": [{\"name\": \"b\"}, {\"small\": 1, \"name\": \"c\"}], \"odd\": []}";

static void every_type_is_read(void **state)
{
    (void)state;
    fy_err e = {0};
    sample s;
    assert_int_equal(read(good, &s, &e), 0);
    assert_int_equal(s.whole, -3);
    assert_true(s.wide == UINT64_MAX && s.scaled == 3u << 20 && s.real == 0.5 && s.flag);
    assert_string_equal(s.word, "abcd");
    assert_string_equal(s.one.name, "a");
    assert_int_equal(s.one.small, 9);
    assert_int_equal(s.n_items, 2);
    assert_int_equal(s.items[0].small, 7); /* as fresh has it */
    assert_string_equal(s.items[1].name, "c");
    assert_int_equal(s.taken, 42);
    release(&s);
}

static void what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{}", "lacks 'whole'"},
        {"{\"whole\": 1} x", ""},
        {"{\"whole\": 1.5}", "whole: "},
        {"{\"whole\": 1, \"whole\": 2}", ""},
        {"{\"wide\": -1}", "wide: "},
        {"{\"scaled\": 5}", "scaled: 5, expected 1 to 4"},
        {"{\"word\": \"abcde\"}", "word: 5 bytes of text, expected 1 to 4 without NUL"},
        {"{\"word\": \"aB\"}", "word: 'aB', expected lower case"},
        {"{\"word\": \"a\\u0000\"}", "word: 2 bytes of text"},
        {"{\"one\": {\"name\": \"A\"}}", "one: name: 'A', expected lower case"},
        {"{\"one\": {\"small\": 1}}", "one: lacks 'name'"},
        {"{\"one\": {\"smal\": 1}}", "one: unknown key 'smal'; did you mean 'small'?"},
        {"{\"one\": {\"\": 1}}", "one: unknown key '', expected one of name, small"},
        {"{\"one\": {\"other\": true}}", "one: unknown key 'other'"},
        {"{\"items\": []}", "items: 0 entries, expected at least 1"},
        {"{\"items\": [{\"small\": 2}]}", "items: [0]: lacks 'name'"},
        {"{\"items\": [{\"name\": \"b\"}, {\"name\": \"a\"}]}", "items: a: is out of order"},
        {"{\"items\": [{\"name\": \"a\"}, {\"name\": \"b\"}, {\"name\": \"c\"}, {}]}",
         "items: more than 3 entries"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_err e = {0};
        sample s;
        assert_int_equal(read(cases[i][0], &s, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        if (strstr(e.msg, cases[i][1]) == NULL)
            fail_msg("expected '%s' in '%s'", cases[i][1], e.msg);
        release(&s);
    }
}

static void running_out_of_memory_anywhere_is_an_error_and_no_leak(void **state)
{
    (void)state;
    int rc = -1;
    for (long n = 0; rc != 0; n++) {
        fy_err e = {0};
        sample s;
        alloc_fail_after(n);
        rc = read(good, &s, &e);
        alloc_fail_end();
        if (rc != 0)
            assert_int_equal(e.code, FY_ENOMEM);
        release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(running_out_of_memory_anywhere_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
