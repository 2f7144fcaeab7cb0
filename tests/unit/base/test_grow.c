#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void items_stay_while_the_array_grows(void **state)
{
    (void)state;
    int *items = NULL;
    size_t cap = 0;
    for (int i = 0; i < 1000; i++) {
        int *p = fy_grow(items, (size_t)i, &cap, sizeof *p);
        assert_non_null(p);
        assert_true(cap > (size_t)i);
        items = p;
        items[i] = i;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(items[i], i);
    free(items);
}

static void a_size_beyond_memory_leaves_the_array_alone(void **state)
{
    (void)state;
    size_t cap = SIZE_MAX / 2 + 1;
    assert_null(fy_grow(NULL, cap, &cap, 1)); /* 2 * cap */
    assert_true(cap == SIZE_MAX / 2 + 1);
    cap = 0;
    assert_null(fy_grow(NULL, 0, &cap, SIZE_MAX / 4)); /* cap * bytes of an item */
    assert_true(cap == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_stay_while_the_array_grows),
        cmocka_unit_test(a_size_beyond_memory_leaves_the_array_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
