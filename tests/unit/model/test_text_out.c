/* Generated tokens as text: characters that span tokens, bytes that are not UTF-8, stop strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/vocab/small_vocab.h"
#include "base/str.h"
#include "model/text_out.h"

static fy_vocab *v;

static int load(void **state)
{
    (void)state;
    small_vocab b = {0};
    small_spm(&b, true);
    v = small_vocab_load(&b, NULL);
    return v != NULL ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    fy_vocab_free(v);
    return 0;
}

static int32_t id_of(const char *piece)
{
    int32_t id = fy_vocab_find(v, fy_span_of(piece));
    assert_true(id >= 0);
    return id;
}

#define NO "\xEF\xBF\xBD" /* U+FFFD */

/* The text of ids, shown token by token. */
static void shows(const int32_t *ids, size_t n, bool begun, const char *want)
{
    fy_text_out t;
    fy_str s = {0};
    fy_text_out_begin(&t, v, NULL, begun);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(fy_text_out_token(&t, ids[i], &s, NULL), 0);
        assert_true(fy_utf8_valid(fy_str_z(&s), s.len));
    }
    assert_int_equal(fy_text_out_end(&t, &s, NULL), 0);
    assert_string_equal(fy_str_z(&s), want);
    fy_str_release(&s);
    fy_text_out_release(&t);
}

static void the_first_blank_is_left_out_only_where_no_text_stands(void **state)
{
    (void)state;
    const int32_t ids[] = {id_of(FY_BLANK "a"), id_of(FY_BLANK "ab")};
    shows(ids, 2, false, "a ab");
    shows(ids, 2, true, " a ab");
    const int32_t after_control[] = {id_of("<s>"), id_of(FY_BLANK "a"), id_of("</s>"),
                                     id_of(FY_BLANK "a")};
    shows(after_control, 4, false, "a a");
}

static void a_character_is_shown_when_its_last_byte_is_there(void **state)
{
    (void)state;
    const int32_t fox[] = {SMALL_SPM_FIRST_BYTE + 0xF0, SMALL_SPM_FIRST_BYTE + 0x9F,
                           SMALL_SPM_FIRST_BYTE + 0xA6, SMALL_SPM_FIRST_BYTE + 0x8A};
    fy_text_out t;
    fy_str s = {0};
    fy_text_out_begin(&t, v, NULL, true);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(s.len, 0);
        assert_int_equal(fy_text_out_token(&t, fox[i], &s, NULL), 0);
    }
    assert_string_equal(fy_str_z(&s), "\xF0\x9F\xA6\x8A");
    fy_str_release(&s);
    fy_text_out_release(&t);
}

static void a_character_that_never_ends_is_marked_at_the_end(void **state)
{
    (void)state;
    const int32_t cut[] = {id_of("a"), SMALL_SPM_FIRST_BYTE + 0xF0, SMALL_SPM_FIRST_BYTE + 0x9F};
    shows(cut, 3, true, "a" NO);
    const int32_t broken[] = {SMALL_SPM_FIRST_BYTE + 0xE2, SMALL_SPM_FIRST_BYTE + 0x82, id_of("b")};
    shows(broken, 3, true, NO "b");
}

/* However bytes fall on tokens, the stream shows what the whole text shows. */
static void a_stream_of_any_bytes_shows_what_the_whole_shows(void **state)
{
    (void)state;
    static const uint8_t likely[] = {0x41, 0x80, 0xBF, 0xC3, 0xA9, 0xE0, 0xE2, 0x82,
                                     0xED, 0xA0, 0xF0, 0x9F, 0x90, 0xF4, 0x8F, 0xFF};
    uint32_t x = 1;
    for (int round = 0; round < 20000; round++) {
        char bytes[12];
        int32_t ids[12];
        for (int i = 0; i < 12; i++) {
            x = x * 1664525u + 1013904223u;
            bytes[i] = (char)likely[x >> 28];
            ids[i] = SMALL_SPM_FIRST_BYTE + (uint8_t)bytes[i];
        }
        fy_str whole = {0};
        fy_put_lossy(&whole, (fy_span){bytes, sizeof bytes});
        assert_true(fy_utf8_valid(whole.ptr, whole.len));
        shows(ids, 12, true, whole.ptr);
        fy_str_release(&whole);
    }
}

/* --- stop strings --- */

static fy_stops *stops_of(const char *const *texts, size_t n)
{
    fy_span spans[FY_STOPS_MAX];
    for (size_t i = 0; i < n; i++)
        spans[i] = fy_span_of(texts[i]);
    fy_stops *s = fy_stops_new(spans, n, NULL);
    assert_non_null(s);
    return s;
}

/* Feeds pieces until a stop string is found. `steps`: what has been shown after each, "|" between.
 */
static void stops_show(const char *stop, const char *const *pieces, size_t n, const char *steps)
{
    fy_stops *stops = stops_of(&stop, 1);
    fy_text_out t;
    fy_str s = {0};
    fy_text_out_begin(&t, v, stops, true);
    for (size_t i = 0; i < n; i++) {
        int rc = fy_text_out_bytes(&t, fy_span_of(pieces[i]), &s, NULL);
        assert_int_equal(rc, t.found >= 0);
        fy_str_putc(&s, '|');
    }
    assert_int_equal(fy_text_out_end(&t, &s, NULL), 0);
    assert_string_equal(fy_str_z(&s), steps);
    fy_str_release(&s);
    fy_text_out_release(&t);
    fy_stops_free(stops);
}
#define STOPS_SHOW(stop, steps, ...)                \
    stops_show(stop, (const char *[]){__VA_ARGS__}, \
               sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *), steps)

static void the_beginning_of_a_stop_string_waits(void **state)
{
    (void)state;
    STOPS_SHOW("User:", "a\n||", "a\nUs", "er: no");
    STOPS_SHOW("User:", "a|User b|", "aUse", "r b");
    STOPS_SHOW("User:", "a||Use", "aU", "se");
    STOPS_SHOW("\n\n", "a||", "a\n", "\nb");
    STOPS_SHOW("\n\n", "a|\nb|", "a\n", "b");
    STOPS_SHOW("b", "a|||", "ab", "c", "d"); /* nothing comes after the end */
}

static void a_stop_string_may_begin_or_end_inside_a_character(void **state)
{
    (void)state;
    STOPS_SHOW("\x9F\xA6", "a||" NO "|", "a", "\xF0\x9F", "\xA6\x8A");
    STOPS_SHOW("\xF0\x9F\xA6\x8A", "a|||", "a\xF0\x9F", "\xA6", "\x8A!");
    STOPS_SHOW("\xF0\x9F\xA6\x8A", "a||\xF0\x9F\xA6\x8B|", "a\xF0\x9F", "\xA6", "\x8B");
    STOPS_SHOW("\xF0\x9F\xA6\x8A", "a||" NO, "a\xF0\x9F", "\xA6"); /* once, at the end */
}

static void a_stop_string_ends_the_tokens_text(void **state)
{
    (void)state;
    const char *stop = "b a";
    fy_stops *stops = stops_of(&stop, 1);
    const int32_t ids[] = {id_of(FY_BLANK "ab"), id_of(FY_BLANK "a")};
    fy_text_out t;
    fy_str s = {0};
    fy_text_out_begin(&t, v, stops, false);
    assert_int_equal(fy_text_out_token(&t, ids[0], &s, NULL), 0);
    assert_string_equal(fy_str_z(&s), "a");
    assert_int_equal(fy_text_out_token(&t, ids[1], &s, NULL), 1);
    assert_int_equal(t.found, 0);
    assert_int_equal(fy_text_out_token(&t, ids[1], &s, NULL), 1);
    assert_int_equal(fy_text_out_end(&t, &s, NULL), 0);
    assert_string_equal(fy_str_z(&s), "a");
    fy_str_release(&s);
    fy_text_out_release(&t);
    fy_stops_free(stops);
}

/* Any bytes, any stop strings, any tokens: what is shown is the text before the first, as a whole.
 */
static void however_it_falls_on_tokens_the_text_is_the_same(void **state)
{
    (void)state;
    static const char likely[] = {'a', 'b', '\x9F', '\xC3', '\xA9', '\xF0', 'a', 'b'};
    const char *texts[] = {"ab\xC3", "\xA9\xC3\xA9", "bbb", "\x9F"};
    fy_stops *stops = stops_of(texts, 4);
    uint32_t x = 7;
    for (int round = 0; round < 20000; round++) {
        char bytes[16];
        fy_str whole = {0}, s = {0};
        fy_stop_search search = {0};
        fy_text_out t;
        size_t n = 0, n_text = 0;
        for (int i = 0; i < 16; i++) {
            x = x * 1664525u + 1013904223u;
            bytes[i] = likely[x >> 29];
        }
        int found = fy_stop_next(stops, &search, bytes, 16, &n_text);
        n_text -= found >= 0 ? fy_stops_text(stops, found).len : 0;
        fy_put_lossy(&whole, (fy_span){bytes, n_text});
        fy_text_out_begin(&t, v, stops, true);
        while (n < 16) {
            x = x * 1664525u + 1013904223u;
            size_t k = 1 + (x >> 30) < 16 - n ? 1 + (x >> 30) : 16 - n;
            assert_true(fy_text_out_bytes(&t, (fy_span){bytes + n, k}, &s, NULL) >= 0);
            assert_true(fy_utf8_valid(fy_str_z(&s), s.len));
            n += k;
        }
        assert_int_equal(fy_text_out_end(&t, &s, NULL), 0);
        assert_int_equal(t.found, found);
        assert_string_equal(fy_str_z(&s), fy_str_z(&whole));
        fy_str_release(&whole);
        fy_str_release(&s);
        fy_text_out_release(&t);
    }
    fy_stops_free(stops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_blank_is_left_out_only_where_no_text_stands),
        cmocka_unit_test(a_character_is_shown_when_its_last_byte_is_there),
        cmocka_unit_test(a_character_that_never_ends_is_marked_at_the_end),
        cmocka_unit_test(a_stream_of_any_bytes_shows_what_the_whole_shows),
        cmocka_unit_test(the_beginning_of_a_stop_string_waits),
        cmocka_unit_test(a_stop_string_may_begin_or_end_inside_a_character),
        cmocka_unit_test(a_stop_string_ends_the_tokens_text),
        cmocka_unit_test(however_it_falls_on_tokens_the_text_is_the_same),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
