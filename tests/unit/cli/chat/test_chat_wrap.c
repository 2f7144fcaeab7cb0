/* Wrapping at words, seen through a small terminal: rows that are as long as it is wide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/chat/chat_wrap.h"

/* What a terminal of so many columns shows: ASCII, \n, CSI n G, CSI K, and the wrap of a full row.
 */
static void screen(const fy_str *bytes, int columns, fy_str *rows)
{
    fy_str row = {0};
    size_t at = 0;
    fy_str_clear(rows);
    for (const char *p = fy_str_z(bytes); *p != '\0'; p++) {
        if (p[0] == '\033' && p[1] == '[') {
            char *end;
            size_t n = strtoul(p + 2, &end, 10);
            p = end;
            if (*p == 'G') {
                assert_true(n >= 1 && n <= (size_t)columns);
                at = n - 1;
            } else {
                assert_int_equal(*p, 'K');
                assert_true(at <= row.len);
                row.len = at;
            }
            continue;
        }
        if (*p == '\n' || at == (size_t)columns) {
            fy_str_add(rows, row.ptr, row.len);
            fy_str_putc(rows, '|');
            fy_str_clear(&row);
            at = 0;
        }
        if (*p != '\n') {
            assert_int_equal(at, row.len);
            fy_str_putc(&row, *p);
            at++;
        }
    }
    fy_str_add(rows, row.ptr, row.len);
    fy_str_release(&row);
}

static uint32_t seed = 3;
static size_t draw(size_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return ((uint64_t)seed * below) >> 32;
}

static void shows(const char *text, int columns, const char *want)
{
    for (int round = 0; round < 30; round++) {
        fy_chat_wrap w = {.columns = columns};
        fy_str out = {0}, rows = {0};
        size_t n = strlen(text), step;
        for (size_t i = 0; i < n; i += step) {
            step = 1 + draw(round < 10 ? 1 : 7);
            step = step < n - i ? step : n - i;
            fy_chat_wrap_put(&w, (fy_span){text + i, step}, &out);
        }
        screen(&out, columns, &rows);
        assert_string_equal(fy_str_z(&rows), want);
        fy_str_release(&out);
        fy_str_release(&rows);
    }
}

static void lines_end_at_words(void **state)
{
    (void)state;
    shows("one two three", 80, "one two three");
    shows("one two three", 9, "one two |three");
    shows("one two three", 7, "one two|three");
    shows("one two three", 6, "one |two |three");
    shows("one\ntwo  three\n", 9, "one|two  |three|");
    shows("one two\nthree", 7, "one two|three");
}

static void a_word_that_is_longer_than_a_line_is_left_to_the_terminal(void **state)
{
    (void)state;
    shows("abcdefghijkl mno", 5, "abcde|fghij|kl |mno");
    shows("a bcdefghijkl", 5, "a |bcdef|ghijk|l");
    char text[400], want[500];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = text[2] = '\0';
    text[2] = ' ';
    snprintf(want, sizeof want, "xx %.297s|%.99s", text + 3, text + 3);
    shows(text, 300, want);
}

static void code_is_left_alone(void **state)
{
    (void)state;
    shows("a bcd\n```c\nint a = 1;\n```\na bcd", 4, "a |bcd|```c|int |a = |1;|```|a |bcd");
    shows("a `bc` d", 6, "a `bc`|d");
}

static void wide_characters_take_two_columns_and_end_a_word(void **state)
{
    (void)state;
    fy_chat_wrap w = {.columns = 5};
    fy_str out = {0};
    fy_chat_wrap_put(&w, FY_SPAN("\xE4\xBD\xA0\xE5\xA5\xBD\xE5\x90\x97"), &out);
    assert_string_equal(fy_str_z(&out), "\xE4\xBD\xA0\xE5\xA5\xBD\n\xE5\x90\x97");
    assert_int_equal(w.at, 2);
    fy_chat_wrap_put(&w, FY_SPAN(" e\xCC\x81\xCC\x81"), &out); /* marks take none */
    assert_int_equal(w.at, 4);
    fy_str_release(&out);
}

static void no_columns_mean_no_wrapping(void **state)
{
    (void)state;
    fy_chat_wrap w = {0};
    fy_str out = {0};
    fy_chat_wrap_put(&w, FY_SPAN("one two three\nfour"), &out);
    assert_string_equal(fy_str_z(&out), "one two three\nfour");
    fy_str_release(&out);
}

/* Any text of short words: each row is as full as it can be. */
static void rows_are_as_full_as_they_can_be(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        fy_str text = {0}, want = {0};
        int columns = 8 + (int)draw(20), at = 0;
        for (int i = 0; i < 30; i++) {
            int n = 1 + (int)draw(7);
            if (i > 0) {
                fy_str_putc(&text, ' ');
                fy_str_puts(&want, at < columns ? " " : "");
                at++;
            }
            if (at + n > columns) {
                fy_str_putc(&want, '|');
                at = 0;
            }
            for (int k = 0; k < n; k++) {
                fy_str_putc(&text, (char)('a' + i % 26));
                fy_str_putc(&want, (char)('a' + i % 26));
            }
            at += n;
        }
        shows(fy_str_z(&text), columns, fy_str_z(&want));
        fy_str_release(&text);
        fy_str_release(&want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_at_words),
        cmocka_unit_test(a_word_that_is_longer_than_a_line_is_left_to_the_terminal),
        cmocka_unit_test(code_is_left_alone),
        cmocka_unit_test(wide_characters_take_two_columns_and_end_a_word),
        cmocka_unit_test(no_columns_mean_no_wrapping),
        cmocka_unit_test(rows_are_as_full_as_they_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
