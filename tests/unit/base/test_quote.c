#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/quote.h"

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
    {"", 0, ""},
};

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
        cmocka_unit_test(text_that_does_not_fit_ends_in_dots),
        cmocka_unit_test(every_length_fits_its_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
