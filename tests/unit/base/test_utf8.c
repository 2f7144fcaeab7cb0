#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_survives_encoding_and_decoding),
        cmocka_unit_test(invalid_sequences_are_refused),
        cmocka_unit_test(an_open_character_is_held_back_and_garbage_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
