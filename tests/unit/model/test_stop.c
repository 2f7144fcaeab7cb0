/* Stop strings: what is found is what a search of the whole text for each of them finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/alloc_fail.h"
#include "model/stop.h"

static uint32_t seed = 1;
static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)seed * below) >> 32);
}

/* The index of the stop string that is complete first, of those the longest, of those the first. */
static int reference(const fy_span *stops, size_t n, fy_span text, size_t *end)
{
    for (size_t at = 1; at <= text.len; at++) {
        int best = -1;
        for (size_t i = 0; i < n; i++) {
            if (stops[i].len <= at && (best < 0 || stops[i].len > stops[best].len) &&
                memcmp(text.ptr + at - stops[i].len, stops[i].ptr, stops[i].len) == 0)
                best = (int)i;
        }
        if (best >= 0) {
            *end = at;
            return best;
        }
    }
    *end = text.len;
    return -1;
}

/* The longest end of the text that begins a stop string. */
static size_t reference_held(const fy_span *stops, size_t n, fy_span text)
{
    for (size_t k = text.len; k > 0; k--) {
        for (size_t i = 0; i < n; i++) {
            if (stops[i].len >= k && memcmp(text.ptr + text.len - k, stops[i].ptr, k) == 0)
                return k;
        }
    }
    return 0;
}

static int search(const fy_stops *s, fy_span text, size_t *end, size_t *held)
{
    fy_stop_search at = {0};
    int found = -1;
    *end = 0;
    while (*end < text.len && found < 0) {
        size_t n = 1 + draw(3), taken;
        if (n > text.len - *end)
            n = text.len - *end;
        found = fy_stop_next(s, &at, text.ptr + *end, n, &taken);
        assert_true(found >= 0 || taken == n);
        *end += taken;
    }
    *held = at.n_held;
    return found;
}

static void a_search_of_any_text_for_any_strings_finds_the_first(void **state)
{
    (void)state;
    for (int round = 0; round < 30000; round++) {
        char bytes[FY_STOPS_MAX][8], text[40];
        fy_span stops[FY_STOPS_MAX];
        size_t n = 1 + draw(FY_STOPS_MAX), end, held, want_end;
        uint32_t letters = 2 + draw(3);
        for (size_t i = 0; i < n; i++) {
            stops[i] = (fy_span){bytes[i], 1 + draw(8)};
            for (size_t k = 0; k < stops[i].len; k++)
                bytes[i][k] = (char)(0xFE + draw(letters)); /* FE FF 00 01 */
        }
        for (size_t k = 0; k < sizeof text; k++)
            text[k] = (char)(0xFE + draw(letters + 1));
        fy_span all = {text, draw(sizeof text + 1)};
        fy_stops *s = fy_stops_new(stops, n, NULL);
        assert_non_null(s);
        assert_int_equal(search(s, all, &end, &held), reference(stops, n, all, &want_end));
        assert_int_equal(end, want_end);
        assert_int_equal(held, reference_held(stops, n, (fy_span){text, end}));
        fy_stops_free(s);
    }
}

static void of_two_that_end_together_the_longer_is_reported(void **state)
{
    (void)state;
    const fy_span stops[] = {FY_SPAN("c"), FY_SPAN("bc"), FY_SPAN("abcd"), FY_SPAN("bc")};
    fy_stops *s = fy_stops_new(stops, 4, NULL);
    size_t end, held;
    assert_int_equal(search(s, FY_SPAN("xabcd"), &end, &held), 1);
    assert_int_equal(end, 4);
    assert_true(fy_span_is(fy_stops_text(s, 1), "bc"));
    assert_int_equal(search(s, FY_SPAN("abab"), &end, &held), -1);
    assert_int_equal(held, 2);
    fy_stops_free(s);
}

static void limits_are_met_and_said(void **state)
{
    (void)state;
    static char long_text[FY_STOPS_MAX][FY_STOP_MAX_BYTES + 1];
    fy_span stops[FY_STOPS_MAX + 1];
    for (size_t i = 0; i < FY_STOPS_MAX; i++) { /* no two share more than a byte */
        memset(long_text[i], 'a' + (int)i, sizeof long_text[i]);
        stops[i] = (fy_span){long_text[i], FY_STOP_MAX_BYTES};
    }
    fy_err e = {0};
    size_t end, held;
    fy_stops *s = fy_stops_new(stops, FY_STOPS_MAX, &e);
    assert_non_null(s);
    assert_int_equal(search(s, (fy_span){long_text[15], FY_STOP_MAX_BYTES}, &end, &held), 15);
    assert_int_equal(end, FY_STOP_MAX_BYTES);
    fy_stops_free(s);

    stops[FY_STOPS_MAX] = FY_SPAN("z");
    assert_null(fy_stops_new(stops, FY_STOPS_MAX + 1, &e));
    assert_int_equal(e.code, FY_EARG);
    assert_string_equal(e.msg, "17 stop strings, at most 16");
    e = (fy_err){0};
    stops[1].len++;
    assert_null(fy_stops_new(stops, 2, &e));
    assert_string_equal(e.msg, "stop string 2 has 1025 bytes, at most 1024");
    e = (fy_err){0};
    stops[0].len = 0;
    assert_null(fy_stops_new(stops, 1, &e));
    assert_string_equal(e.msg, "stop string 1 is empty");
}

static void running_out_of_memory_is_reported(void **state)
{
    (void)state;
    const fy_span stops[] = {FY_SPAN("User:"), FY_SPAN("\n\n")};
    for (long n = 0;; n++) {
        fy_err e = {0};
        alloc_fail_after(n);
        fy_stops *s = fy_stops_new(stops, 2, &e);
        bool failed = alloc_fail_end();
        assert_true(failed == (s == NULL));
        if (!failed) {
            fy_stops_free(s);
            break;
        }
        assert_int_equal(e.code, FY_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_of_any_text_for_any_strings_finds_the_first),
        cmocka_unit_test(of_two_that_end_together_the_longer_is_reported),
        cmocka_unit_test(limits_are_met_and_said),
        cmocka_unit_test(running_out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
