/* Generated tokens as text: characters that span tokens, and bytes that are not UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/vocab/small_vocab.h"
#include "base/str.h"
#include "cli/text_io.h"

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

/* The text of ids, shown token by token. */
static void shows(const int32_t *ids, size_t n, bool begun, const char *want)
{
    fy_text_out t;
    fy_str s = {0};
    fy_text_out_begin(&t, v, begun);
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
    fy_text_out_begin(&t, v, true);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_character_becomes_one_mark_per_maximal_part),
        cmocka_unit_test(the_first_blank_is_left_out_only_where_no_text_stands),
        cmocka_unit_test(a_character_is_shown_when_its_last_byte_is_there),
        cmocka_unit_test(a_character_that_never_ends_is_marked_at_the_end),
        cmocka_unit_test(a_stream_of_any_bytes_shows_what_the_whole_shows),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
