#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "convert/tokenizer/tokenizer_json.h"

static fy_merge_source source(fy_span s, bool lines)
{
    return (fy_merge_source){.data = s.ptr, .size = s.len, .lines = lines};
}

static void gives(fy_span text, bool lines, const char *const (*want)[2], size_t n)
{
    const fy_merge_source from = source(text, lines);
    for (int pass = 0; pass < 2; pass++) {
        fy_merges m;
        fy_err e = {0};
        assert_int_equal(fy_merges_open(&m, &from, &e), 0);
        for (size_t i = 0; i < n; i++) {
            if (fy_merges_next(&m, &e) != 1)
                fail_msg("merge %zu: %s", i, e.msg);
            assert_true(fy_span_is(m.left, want[i][0]) && fy_span_is(m.right, want[i][1]));
            assert_int_equal(m.n, i + 1);
        }
        assert_int_equal(fy_merges_next(&m, &e), 0);
        fy_merges_close(&m);
    }
}

/* The first merge is good, the second one is not. */
static void refuses(fy_span text, bool lines, const char *where)
{
    const fy_merge_source from = source(text, lines);
    fy_merges m;
    fy_err e = {0};
    assert_int_equal(fy_merges_open(&m, &from, &e), 0);
    assert_int_equal(fy_merges_next(&m, &e), 1);
    assert_int_equal(fy_merges_next(&m, &e), -1);
    if (e.code != FY_EFORMAT || strncmp(e.msg, where, strlen(where)) != 0)
        fail_msg("'%.*s': %s", (int)text.len, text.ptr, e.msg);
    fy_merges_close(&m);
}

static void an_array_holds_texts_or_pairs(void **state)
{
    (void)state;
    static const char *const want[][2] = {{"a", "b"}, {"c", "d"}, {"a ", "\""}, {"x", "\n"}};
    gives(FY_SPAN("[\"a b\",[\"c\",\"d\"],[\"\\u0061 \",\"\\\"\"],[\"x\",\"\\n\"]],\"rest\":1}"),
          false, want, 4);
    gives(FY_SPAN("[]"), false, NULL, 0);
}

static void lines_may_end_in_any_way_and_the_first_may_be_the_version(void **state)
{
    (void)state;
    static const char *const want[][2] = {{"a", "b"}, {"\xC4\xA0", "c"}, {"#", "#"}};
    gives(FY_SPAN("#version: 0.2\na b\n\xC4\xA0 c\n# #\n"), true, want, 3);
    gives(FY_SPAN("#version: 0.2\r\na b\r\n\xC4\xA0 c\r\n# #"), true, want, 3);
    gives(FY_SPAN("a b\n\n\xC4\xA0 c\n\r\n# #\n\n"), true, want, 3);
    gives(FY_SPAN("#version: 0.2\n"), true, NULL, 0);
    gives(FY_SPAN(""), true, NULL, 0);
}

static void malformed_merges_are_named(void **state)
{
    (void)state;
    static const char *const items[] = {
        "\"ab\"",       "\" b\"",    "\"a \"",  "\"a b c\"",
        "\"\"",         "[]",        "[\"a\"]", "[\"a\",\"b\",\"c\"]",
        "[\"\",\"b\"]", "[\"a\",1]", "7",       "{}",
        "null"};
    static const char *const lines[] = {"ab", " b", "a ", "a b c", " ", "#version: 0.2 b", "a  b"};
    fy_str s = {0};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        fy_str_clear(&s);
        fy_str_printf(&s, "[\"a b\",%s]", items[i]);
        refuses((fy_span){s.ptr, s.len}, false, "merges[1]: ");
    }
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        fy_str_clear(&s);
        fy_str_printf(&s, "#version: 0.2\na b\n%s\n", lines[i]);
        refuses((fy_span){s.ptr, s.len}, true, "line 3: ");
    }
    fy_str_release(&s);
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    const fy_merge_source from = source(FY_SPAN("[[\"a\",\"b\"],\"c \\u0064\"]"), false);
    bool failed = true;
    for (long n = 0; failed; n++) {
        fy_merges m;
        fy_err e = {0};
        alloc_fail_after(n);
        int rc = fy_merges_open(&m, &from, &e);
        if (rc == 0) {
            do
                rc = fy_merges_next(&m, &e);
            while (rc == 1);
            fy_merges_close(&m);
        }
        failed = alloc_fail_end();
        if (rc != (failed ? -1 : 0) || e.code != (failed ? FY_ENOMEM : FY_OK))
            fail_msg("allocation %ld: %d, %s", n, rc, e.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_holds_texts_or_pairs),
        cmocka_unit_test(lines_may_end_in_any_way_and_the_first_may_be_the_version),
        cmocka_unit_test(malformed_merges_are_named),
        cmocka_unit_test(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
