#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/names.h"

static void names_are_found_and_added_once(void **state)
{
    (void)state;
    enum { N = 5000 };
    static char text[N][16];
    fy_names t = {0};
    assert_false(fy_names_find(&t, FY_SPAN("x"), NULL));
    for (uint32_t i = 0; i < N; i++) {
        int n = snprintf(text[i], sizeof text[i], "blk.%u.w", (unsigned)i);
        assert_int_equal(fy_names_add(&t, (fy_span){text[i], (size_t)n}, i), 0);
    }
    for (uint32_t i = 0; i < N; i++) {
        uint32_t v = UINT32_MAX;
        assert_true(fy_names_find(&t, fy_span_of(text[i]), &v));
        assert_int_equal(v, i);
        assert_int_equal(fy_names_add(&t, fy_span_of(text[i]), 7), 1);
    }
    assert_false(fy_names_find(&t, FY_SPAN("blk.5000.w"), NULL));
    fy_names_clear(&t);
    assert_int_equal(t.n, 0);
    assert_false(fy_names_find(&t, fy_span_of(text[0]), NULL));
    assert_int_equal(fy_names_add(&t, fy_span_of(text[0]), 1), 0);
    fy_names_clear(&t);
    assert_false(fy_names_find(&t, fy_span_of(text[0]), NULL));
    fy_names_release(&t);
}

static void empty_names_and_names_with_nul_are_names(void **state)
{
    (void)state;
    fy_names t = {0};
    uint32_t v;
    assert_int_equal(fy_names_add(&t, (fy_span){NULL, 0}, 1), 0);
    assert_int_equal(fy_names_add(&t, FY_SPAN(""), 2), 1);
    assert_int_equal(fy_names_add(&t, FY_SPAN("a\0b"), 3), 0);
    assert_int_equal(fy_names_add(&t, FY_SPAN("a\0c"), 4), 0);
    assert_int_equal(fy_names_add(&t, FY_SPAN("a"), 5), 0);
    assert_true(fy_names_find(&t, FY_SPAN("a\0c"), &v));
    assert_int_equal(v, 4);
    fy_names_release(&t);
}

static void many_names_are_found_at_once(void **state)
{
    (void)state;
    enum { N = 1000 };
    static char text[N][8];
    static fy_span name[2 * N];
    static uint32_t value[2 * N];
    fy_names t = {0};
    for (uint32_t i = 0; i < 2 * N; i++)
        name[i] = FY_SPAN("x");
    fy_names_find_many(&t, name, value, 2 * N);
    assert_int_equal(value[2 * N - 1], FY_NAMES_ABSENT);
    fy_names_expect(&t, name[0]);
    assert_int_equal(fy_names_reserve(&t, N), 0);
    size_t cap = t.cap;
    for (uint32_t i = 0; i < N; i++) {
        name[2 * i] = (fy_span){text[i], (size_t)snprintf(text[i], sizeof text[i], "n%u", i)};
        fy_names_expect(&t, name[2 * i]);
        assert_int_equal(fy_names_add(&t, name[2 * i], i), 0);
    }
    assert_int_equal(t.cap, cap); /* the room was there */
    fy_names_find_many(&t, name, value, 2 * N);
    for (uint32_t i = 0; i < N; i++)
        assert_true(value[2 * i] == i && value[2 * i + 1] == FY_NAMES_ABSENT);
    assert_int_equal(fy_names_reserve(&t, SIZE_MAX / 2), -1);
    fy_names_release(&t);
}

/* The tail of a name is read in two overlapping pieces: every length must tell its bytes apart. */
static void names_that_differ_in_one_byte_are_two(void **state)
{
    (void)state;
    static char text[24][24][24];
    fy_names t = {0};
    for (size_t len = 1; len < 24; len++) {
        for (size_t at = 0; at < len; at++) {
            memset(text[len][at], 'a', len);
            text[len][at][at] = 'b';
            assert_int_equal(fy_names_add(&t, (fy_span){text[len][at], len}, 0), 0);
            for (size_t other = 0; other < at; other++)
                assert_true(fy_names_hash((fy_span){text[len][at], len}) !=
                            fy_names_hash((fy_span){text[len][other], len}));
        }
    }
    fy_names_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_and_added_once),
        cmocka_unit_test(empty_names_and_names_with_nul_are_names),
        cmocka_unit_test(many_names_are_found_at_once),
        cmocka_unit_test(names_that_differ_in_one_byte_are_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
