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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_and_added_once),
        cmocka_unit_test(empty_names_and_names_with_nul_are_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
