#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "convert/tokenizer/vocab_files.h"

typedef struct {
    fy_token_table t;
    fy_err e;
    int rc;
} parsed;

static parsed parse(fy_span text)
{
    parsed r = {.rc = 0};
    r.rc = fy_rwkv_vocab_parse(text.ptr, text.len, &r.t, &r.e);
    return r;
}

static void spells(const char *line, uint32_t id, const char *want)
{
    parsed r = parse(fy_span_of(line));
    if (r.rc != 0)
        fail_msg("%s: %s", line, r.e.msg);
    if (id >= r.t.n || !fy_span_is(r.t.rows[id].text, want))
        fail_msg("%s: '%.*s', expected '%s'", line, (int)r.t.rows[id].text.len,
                 r.t.rows[id].text.ptr, want);
    assert_int_equal(r.t.rows[id].type, FY_TOKEN_NORMAL);
    fy_token_table_release(&r.t);
}

static void literals_of_python_become_its_repr(void **state)
{
    (void)state;
    spells("5 'a' 1\n", 5, "a");
    spells("1 ' ' 1", 1, " ");
    spells("1 '  x ' 4\r\n", 1, "  x ");
    spells("1 \"'\" 1", 1, "'");
    spells("1 '\"' 1", 1, "\"");
    spells("1 '\\'\"' 2", 1, "\\'\""); /* both quotes: one is escaped */
    spells("1 '\\\\' 1", 1, "\\\\");
    spells("1 '\\t\\n\\r' 3", 1, "\\t\\n\\r");
    spells("1 '\\x80' 2", 1, "\\xc2\\x80"); /* a text: U+0080 */
    spells("1 b'\\x80' 1", 1, "\\x80");     /* bytes */
    spells("1 '\\u65e5' 3", 1, "\\xe6\\x97\\xa5");
    spells("1 '\xE6\x97\xA5' 3", 1, "\\xe6\\x97\\xa5");
    spells("1 b'\\x41\\x00\\x7f' 3", 1, "A\\x00\\x7f");
    spells("1 b\"'\" 1", 1, "'");
}

static void id_0_is_the_end_of_text(void **state)
{
    (void)state;
    parsed r = parse(FY_SPAN("1 'a' 1\n\n3 'b' 1\n"));
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.t.n, 4);
    assert_true(fy_span_is(r.t.rows[0].text, "<s>"));
    assert_int_equal(r.t.rows[0].type, FY_TOKEN_CONTROL);
    assert_int_equal(r.t.rows[2].type, FY_TOKEN_UNDEFINED);
    fy_token_table_release(&r.t);
}

static void of_equal_texts_the_highest_id_counts(void **state)
{
    (void)state;
    parsed r = parse(FY_SPAN("1 'a' 1\n2 'b' 1\n3 b'a' 1\n"));
    uint32_t id;
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.t.rows[1].type, FY_TOKEN_UNDEFINED);
    assert_true(fy_span_is(r.t.rows[3].text, "a"));
    assert_true(fy_token_table_find(&r.t, FY_SPAN("a"), &id) && id == 3);
    fy_token_table_release(&r.t);
    r = parse(FY_SPAN("9 'a' 1\n2 'a' 1\n"));
    assert_int_equal(r.rc, 0);
    assert_true(fy_span_is(r.t.rows[9].text, "a"));
    assert_int_equal(r.t.rows[2].type, FY_TOKEN_UNDEFINED);
    fy_token_table_release(&r.t);
}

static void broken_lines_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "the vocabulary is empty"},
        {"\n\n", "the vocabulary is empty"},
        {"x", "line 1: 'x', expected an id"},
        {"1 'a' 1\n2 'b'\n", "line 2: "},
        {"1 'a'  1\n", "line 1: "},
        {"1 a 1\n", "line 1: "},
        {"1 'a 1\n", "line 1: "},
        {"1 'a\" 1\n", "line 1: "},
        {"1 ' 1\n", "line 1: "},
        {"1 b 1\n", "line 1: "},
        {"1 'a'b' 3\n", "line 1: "},
        {"1 '\\' 1\n", "line 1: "},
        {"1 '\\q' 1\n", "line 1: "},
        {"1 '\\x4' 1\n", "line 1: "},
        {"1 '\\ud800' 3\n", "line 1: "},
        {"1 b'\\u0041' 1\n", "line 1: "},
        {"-1 'a' 1\n", "line 1: "},
        {"1234567 'a' 1\n", "line 1: "},
        {"1 'a' 2\n", "line 1: token 1 has 1 bytes and is declared with 2"},
        {"1 '' 0\n", "line 1: token 1 has 0 bytes"},
        {"0 'a' 1\n", "line 1: token 0 has 1 bytes"},
        {"1 'a' 1\n1 'b' 1\n", "line 2: id 1: taken by two tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parsed r = parse(fy_span_of(cases[i].text));
        if (r.rc != -1 || r.e.code != FY_EFORMAT || strstr(r.e.msg, cases[i].message) != r.e.msg)
            fail_msg("case %zu: %d, %s", i, r.rc, r.e.msg);
        fy_token_table_release(&r.t);
    }
}

static void such_a_file_is_known_by_its_first_line(void **state)
{
    (void)state;
    assert_true(fy_rwkv_vocab_is("1 '\\x00' 1\n", 11));
    assert_true(fy_rwkv_vocab_is("7 b'a' 1", 8));
    assert_false(fy_rwkv_vocab_is("", 0));
    assert_false(fy_rwkv_vocab_is("IQ== 0\n", 7));
    assert_false(fy_rwkv_vocab_is("{\"a\": 1}", 8));
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed; n++) {
        alloc_fail_after(n);
        parsed r = parse(FY_SPAN("1 'a' 1\n2 '\\n\\n' 2\n"));
        failed = alloc_fail_end();
        if (r.rc != (failed ? -1 : 0) || r.e.code != (failed ? FY_ENOMEM : FY_OK))
            fail_msg("allocation %ld: %d, %s", n, r.rc, r.e.msg);
        fy_token_table_release(&r.t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_of_python_become_its_repr),
        cmocka_unit_test(id_0_is_the_end_of_text),
        cmocka_unit_test(of_equal_texts_the_highest_id_counts),
        cmocka_unit_test(broken_lines_are_refused),
        cmocka_unit_test(such_a_file_is_known_by_its_first_line),
        cmocka_unit_test(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
