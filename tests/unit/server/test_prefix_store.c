/* The store keeps the texts that were used last, within its bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/prefix_store.h"

static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
static const int32_t others[] = {1, 2, 9, 9, 9, 9, 9, 9};

static void the_longest_beginning_is_found(void **state)
{
    fy_prefix_store *s = fy_prefix_store_new(10000, NULL);
    uint32_t n;
    (void)state;
    assert_null(fy_prefix_find(s, 0, ids, 8, &n));
    fy_prefix *a = fy_prefix_add(s, 0, ids, 6, 10), *b = fy_prefix_add(s, 0, others, 8, 10);
    assert_true(a != NULL && b != NULL);
    assert_ptr_equal(fy_prefix_find(s, 0, ids, 8, &n), a);
    assert_int_equal(n, 6);
    assert_ptr_equal(fy_prefix_find(s, 0, ids, 4, &n), a);
    assert_int_equal(n, 4);
    assert_ptr_equal(fy_prefix_find(s, 0, others, 8, &n), b);
    assert_null(fy_prefix_find(s, 1, ids, 8, &n));
    assert_null(fy_prefix_find(s, 0, others + 2, 6, &n));
    fy_prefix_store_free(s);
}

static void what_is_contained_is_not_kept_twice(void **state)
{
    fy_prefix_store *s = fy_prefix_store_new(10000, NULL);
    uint32_t n;
    (void)state;
    assert_non_null(fy_prefix_add(s, 0, ids, 4, 10));
    const size_t one = fy_prefix_store_bytes(s);
    assert_null(fy_prefix_add(s, 0, ids, 3, 10));
    assert_non_null(fy_prefix_add(s, 1, ids, 3, 10));
    assert_non_null(fy_prefix_add(s, 0, ids, 8, 10)); /* takes the place of its beginning */
    assert_true(fy_prefix_store_bytes(s) > one && fy_prefix_store_bytes(s) < 3 * one);
    assert_non_null(fy_prefix_find(s, 0, ids, 8, &n));
    assert_int_equal(n, 8);
    fy_prefix_store_free(s);
}

static void the_oldest_makes_room(void **state)
{
    fy_prefix_store *s = fy_prefix_store_new(4000, NULL);
    uint32_t n;
    (void)state;
    for (int user = 0; user < 4; user++)
        assert_non_null(fy_prefix_add(s, user, ids, 8, 1200));
    assert_int_equal(fy_prefix_store_evicted(s), 1);
    assert_true(fy_prefix_store_bytes(s) <= 4000);
    assert_null(fy_prefix_find(s, 0, ids, 8, &n));
    assert_non_null(fy_prefix_find(s, 1, ids, 8, &n)); /* used now: the next one goes */
    assert_non_null(fy_prefix_add(s, 5, ids, 8, 1200));
    assert_null(fy_prefix_find(s, 2, ids, 8, &n));
    assert_non_null(fy_prefix_find(s, 1, ids, 8, &n));
    assert_null(fy_prefix_add(s, 6, ids, 8, 4000)); /* never fits */
    assert_null(fy_prefix_add(s, 6, ids, 8, SIZE_MAX));
    fy_prefix_drop(s, fy_prefix_find(s, 1, ids, 8, &n));
    fy_prefix_drop(s, fy_prefix_find(s, 3, ids, 8, &n));
    fy_prefix_drop(s, fy_prefix_find(s, 5, ids, 8, &n));
    assert_int_equal(fy_prefix_store_bytes(s), 0);
    fy_prefix_store_free(s);
}

static void erasing_takes_all_with_the_same_beginning(void **state)
{
    fy_prefix_store *s = fy_prefix_store_new(10000, NULL);
    uint32_t n;
    (void)state;
    assert_non_null(fy_prefix_add(s, 0, ids, 8, 10));
    assert_non_null(fy_prefix_add(s, 1, ids, 3, 10));
    assert_non_null(fy_prefix_add(s, 0, others, 8, 10));
    fy_prefix_erase(s, 0, ids + 3, 5, 3);
    fy_prefix_erase(s, 0, ids, 2, 3);
    assert_int_equal((fy_prefix_find(s, 0, ids, 8, &n), n), 8);
    fy_prefix_erase(s, 0, ids, 4, 3);
    assert_int_equal((fy_prefix_find(s, 0, ids, 8, &n), n), 2); /* of the other one */
    assert_int_equal((fy_prefix_find(s, 1, ids, 8, &n), n), 3);
    fy_prefix_erase(s, 1, ids, 8, 3);
    assert_int_equal((fy_prefix_find(s, 1, ids, 8, &n), n), 0);
    fy_prefix_store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_beginning_is_found),
        cmocka_unit_test(what_is_contained_is_not_kept_twice),
        cmocka_unit_test(the_oldest_makes_room),
        cmocka_unit_test(erasing_takes_all_with_the_same_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
