#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

/* --- UTF-8 -------------------------------------------------------------------------------------- */

static void every_code_point_survives_encoding_and_decoding(void **state)
{
    (void)state;
    fy_str s = {0};
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        if (cp >= 0xD800 && cp < 0xE000)
            continue;
        uint32_t back = ~cp;
        fy_str_clear(&s);
        fy_str_put_utf8(&s, cp);
        if (fy_utf8_next(s.ptr, s.len, &back) != (int)s.len || back != cp)
            fail_msg("U+%04X does not survive", (unsigned)cp);
        for (size_t n = 1; n < s.len; n++) {
            if (fy_utf8_next(s.ptr, n, &back) != 0 || fy_utf8_complete(s.ptr, n) != 0)
                fail_msg("U+%04X is accepted when cut", (unsigned)cp);
        }
        if (fy_utf8_complete(s.ptr, s.len) != s.len)
            fail_msg("U+%04X is not seen as complete", (unsigned)cp);
    }
    fy_str_release(&s);
}

static const char *const invalid[] = {
    "\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x80\x80", "\xE0\x9F\xBF",
    "\xED\xA0\x80", "\xED\xBF\xBF", "\xE2\x82", "\xE2\x28\xA1", "\xF0\x80\x80\x80",
    "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF8\x88\x80\x80\x80", "\xFE",
    "\xFF", "ok\xFFok",
};

static void invalid_sequences_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++)
        assert_false(fy_utf8_valid(invalid[i], strlen(invalid[i])));
    assert_true(fy_utf8_valid("", 0));
    assert_true(fy_utf8_valid("a\0b\xC3\xA9", 5));
}

static void an_open_character_is_held_back_and_garbage_is_not(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t complete;
    } cases[] = {
        {"", 0},
        {"ab", 2},
        {"a\xC3", 1},
        {"a\xC3\xA9", 3},
        {"a\xE2\x82", 1},
        {"a\xE2\x82\xAC", 4},
        {"a\xF0\x9F\x98", 1},
        {"a\xF0\x9F\x98\x80", 5},
        {"a\xF4", 1},
        {"a\xED", 1},
        {"a\xE0", 1},
        {"\x80\x80\x80\x80", 4},
        {"a\xC0", 2},
        {"a\xFF", 2},
        {"a\xF5", 2},
        {"a\xE0\x80", 3},
        {"a\xED\xA0", 3},
        {"a\xF4\x90", 3},
        {"a\xF0\x80", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(fy_utf8_complete(cases[i].text, strlen(cases[i].text)), cases[i].complete);
}

/* --- escaping ----------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    size_t len;
    const char *want;
} cases[] = {
    {"plain name", 10, "plain name"},
    {"gr\xC3\xBC\xC3\x9F \xE4\xBD\xA0", 10, "gr\xC3\xBC\xC3\x9F \xE4\xBD\xA0"},
    {"a\nb\tc\rd\\e", 9, "a\\nb\\tc\\rd\\\\e"},
    {"a\0b\x1B[31m\x7F", 9, "a\\x00b\\x1b[31m\\x7f"},
    {"\xFF\xC3", 2, "\\xff\\xc3"},
    {"\xC2\x9B", 2, "\\u{9b}"},
    {"\xE2\x80\xAE" "evil", 7, "\\u{202e}evil"},
    {"\xE2\x80\xA8", 3, "\\u{2028}"},
    {"\xC2\x80\xC2\x9F\xC2\xA0", 6, "\\u{80}\\u{9f}\xC2\xA0"},
    {"", 0, ""},
};

static void escaped_are_exactly_the_ranges_of_the_rule(void **state)
{
    (void)state;
    static const uint32_t ranges[][2] = {
        {0, 0x1F},          {0x5C, 0x5C},       {0x7F, 0x9F},         {0x61C, 0x61C},
        {0x180E, 0x180E},   {0x200B, 0x200B},   {0x200E, 0x200F},     {0x2028, 0x202E},
        {0x2060, 0x206F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},     {0xE0000, 0xE007F},
    };
    fy_str one = {0}, name = {0}, shown = {0};
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        if (cp >= 0xD800 && cp < 0xE000)
            continue;
        bool escaped = false;
        for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
            escaped |= cp >= ranges[i][0] && cp <= ranges[i][1];
        fy_str_clear(&one);
        fy_str_clear(&name);
        fy_str_clear(&shown);
        fy_str_put_utf8(&one, cp);
        const fy_span text = {fy_str_z(&one), one.len};
        fy_str_put_quoted(&name, text, SIZE_MAX);
        fy_str_put_shown(&shown, text);
        if (fy_span_eq((fy_span){fy_str_z(&name), name.len}, text) == escaped)
            fail_msg("U+%04X in a name", (unsigned)cp);
        const bool stays = cp == '\n' || cp == '\t' || cp == '\\';
        if (fy_span_eq((fy_span){fy_str_z(&shown), shown.len}, text) == (escaped && !stays))
            fail_msg("U+%04X in running text", (unsigned)cp);
    }
    fy_str_release(&one);
    fy_str_release(&name);
    fy_str_release(&shown);
}

static void running_text_keeps_its_lines_and_no_escape_of_a_terminal(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_str_put_shown(&s, FY_SPAN("a\\b\n\tc\r\x1B]0;x\x07\xC2\x9B" "2J\xE2\x80\xAE\xFF\xF3\xA0\x81\x81"));
    assert_string_equal(fy_str_z(&s), "a\\b\n\tc\\r\\x1b]0;x\\x07\\u{9b}2J\\u{202e}\\xff\\u{e0041}");
    fy_str_release(&s);
}

static void harmful_characters_are_escaped_and_others_kept(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buf[FY_QUOTE_BYTES];
        fy_str s = {0};
        fy_span text = {cases[i].text, cases[i].len};
        assert_string_equal(fy_quote(buf, sizeof buf, text), cases[i].want);
        fy_str_put_quoted(&s, text, SIZE_MAX);
        assert_string_equal(fy_str_z(&s), cases[i].want);
        fy_str_release(&s);
    }
}

static void text_that_does_not_fit_ends_in_dots(void **state)
{
    (void)state;
    char buf[12];
    assert_string_equal(fy_quote(buf, sizeof buf, FY_SPAN("0123456789a")), "0123456789a");
    assert_string_equal(fy_quote(buf, sizeof buf, FY_SPAN("0123456789ab")), "01234567...");
    assert_string_equal(fy_quote(buf, sizeof buf, FY_SPAN("0123456\n\n\n\n")), "0123456...");
    assert_string_equal(fy_quote(buf, 8, FY_SPAN("\xE2\x80\xAE\xE2\x80\xAE")), "...");
    fy_str s = {0};
    fy_str_put_quoted(&s, FY_SPAN("0123456789"), 4);
    assert_string_equal(fy_str_z(&s), "0123...");
    fy_str_clear(&s);
    fy_str_put_quoted(&s, FY_SPAN("012\n4"), 4);
    assert_string_equal(fy_str_z(&s), "012...");
    fy_str_release(&s);
}

static void every_length_fits_its_buffer(void **state)
{
    (void)state;
    char text[200];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 37);
    for (size_t size = 8; size < 80; size++) {
        for (size_t n = 0; n < sizeof text; n++) {
            char *buf = malloc(size);
            assert_true(strlen(fy_quote(buf, size, (fy_span){text, n})) < size);
            free(buf);
        }
    }
}

static void a_list_of_names_says_how_many_more_there_are(void **state)
{
    (void)state;
    fy_name_list l = {0};
    assert_string_equal(fy_name_list_end(&l), "");
    fy_name_list_add(&l, fy_span_of("a"));
    fy_name_list_add(&l, FY_SPAN("b\n"));
    assert_string_equal(fy_name_list_end(&l), "a, b\\n");
    for (int i = 0; i < 109; i++)
        fy_name_list_add(&l, fy_span_of("c"));
    assert_int_equal(l.n, 111);
    assert_non_null(strstr(fy_name_list_end(&l), "a, b\\n, c, c, c, "));
    assert_non_null(strstr(l.text.ptr, ", c, c and 10 more"));
    assert_true(l.text.len < 330);
    fy_str_release(&l.text);
}

static void words_are_found_whole(void **state)
{
    (void)state;
    assert_true(fy_list_has("shell_v2,cmd,stat_v2", ',', "shell_v2"));
    assert_true(fy_list_has("shell_v2,cmd,stat_v2", ',', "stat_v2"));
    assert_true(fy_list_has("cmd", '|', "cmd"));
    assert_true(fy_list_has("a  b", ' ', "b"));
    assert_false(fy_list_has("shell_v2x,xcmd", ',', "cmd"));
    assert_false(fy_list_has("shell_v2x", ',', "shell_v2"));
    assert_false(fy_list_has("", ',', "cmd"));
    fy_span rest = FY_SPAN(" \tone two\t");
    assert_true(fy_span_is(fy_span_cut_word(&rest), "one"));
    assert_true(fy_span_is(fy_span_cut_word(&rest), "two"));
    assert_int_equal(fy_span_cut_word(&rest).len, 0);
    assert_int_equal(rest.len, 0);
}

static void lossy_is(const char *bytes, size_t n, const char *want)
{
    fy_str s = {0};
    fy_put_lossy(&s, (fy_span){bytes, n});
    assert_string_equal(fy_str_z(&s), want);
    fy_str_release(&s);
}

#define LOSSY(bytes, want) lossy_is("" bytes, sizeof(bytes) - 1, want)
#define NO                 "\xEF\xBF\xBD" /* U+FFFD */

static void what_is_no_character_becomes_one_mark_per_maximal_part(void **state)
{
    (void)state;
    LOSSY("", "");
    LOSSY("a\xC3\xA9\xF0\x9F\xA6\x8A", "a\xC3\xA9\xF0\x9F\xA6\x8A");
    LOSSY("\x80", NO);
    LOSSY("\x80\x80", NO NO);
    LOSSY("\xE2\x82", NO);
    LOSSY("\xE2\x82"
          "A",
          NO "A");
    LOSSY("\xF0\x9F\xA6", NO);
    LOSSY("\xF0\x9F\xA6\xC3\xA9", NO "\xC3\xA9");
    /* Unicode 3.9, tables 3-8, 3-9 and 3-11: overlong forms, surrogates, and parts. */
    LOSSY("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", NO NO NO NO NO NO NO NO "A");
    LOSSY("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", NO NO NO NO NO NO NO NO "A");
    LOSSY("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", NO NO NO NO "A");
    LOSSY("\xF4\x90\x80\x80", NO NO NO NO);
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
        cmocka_unit_test(every_code_point_survives_encoding_and_decoding),
        cmocka_unit_test(invalid_sequences_are_refused),
        cmocka_unit_test(an_open_character_is_held_back_and_garbage_is_not),
        cmocka_unit_test(what_is_no_character_becomes_one_mark_per_maximal_part),
        cmocka_unit_test(harmful_characters_are_escaped_and_others_kept),
        cmocka_unit_test(escaped_are_exactly_the_ranges_of_the_rule),
        cmocka_unit_test(running_text_keeps_its_lines_and_no_escape_of_a_terminal),
        cmocka_unit_test(text_that_does_not_fit_ends_in_dots),
        cmocka_unit_test(every_length_fits_its_buffer),
        cmocka_unit_test(a_list_of_names_says_how_many_more_there_are),
        cmocka_unit_test(words_are_found_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
