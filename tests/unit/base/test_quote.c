#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(harmful_characters_are_escaped_and_others_kept),
        cmocka_unit_test(escaped_are_exactly_the_ranges_of_the_rule),
        cmocka_unit_test(running_text_keeps_its_lines_and_no_escape_of_a_terminal),
        cmocka_unit_test(text_that_does_not_fit_ends_in_dots),
        cmocka_unit_test(every_length_fits_its_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
