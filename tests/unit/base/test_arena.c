#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static void pieces_are_aligned_and_keep_their_contents(void **state)
{
    (void)state;
    enum { N = 300 };
    fy_arena a = {0};
    unsigned char *p[N];
    for (size_t i = 0; i < N; i++) {
        p[i] = fy_arena_alloc(&a, i);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        memset(p[i], (int)i, i);
    }
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < i; k++)
            assert_int_equal(p[i][k], (unsigned char)i);
    }
    fy_arena_release(&a);
    assert_null(a.head);
    assert_int_equal(a.total, 0);
}

static void a_large_piece_does_not_end_the_open_block(void **state)
{
    (void)state;
    fy_arena a = {0};
    char *before = fy_arena_alloc(&a, 16);
    char *large = fy_arena_alloc(&a, 1u << 20);
    char *after = fy_arena_alloc(&a, 16);
    assert_non_null(large);
    memset(large, 1, 1u << 20);
    assert_ptr_equal(after, before + 16);
    fy_arena_release(&a);
}

static void a_large_piece_may_be_the_first(void **state)
{
    (void)state;
    fy_arena a = {0};
    char *large = fy_arena_alloc(&a, 1u << 20), *small = fy_arena_alloc(&a, 16);
    memset(large, 1, 1u << 20);
    memset(small, 2, 16);
    assert_int_equal(large[(1u << 20) - 1], 1);
    fy_arena_release(&a);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    fy_arena a = {0};
    assert_null(fy_arena_alloc(&a, SIZE_MAX));
    assert_null(fy_arena_calloc(&a, SIZE_MAX / 2, 3));
    assert_null(fy_arena_strndup(&a, "x", SIZE_MAX));
    fy_arena_release(&a);
}

static void arrays_are_cleared_and_copies_end_with_nul(void **state)
{
    (void)state;
    fy_arena a = {0};
    memset(fy_arena_alloc(&a, 256), 0xFF, 256);
    unsigned char *zero = fy_arena_calloc(&a, 100, 3);
    for (int i = 0; i < 300; i++)
        assert_int_equal(zero[i], 0);
    const char *copy = fy_arena_strndup(&a, "a\0bc", 3);
    assert_memory_equal(copy, "a\0b", 4);
    assert_string_equal(fy_arena_strndup(&a, NULL, 0), "");
    fy_arena_release(&a);
}

/* --- growing arrays ----------------------------------------------------------------------------- */

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
        cmocka_unit_test(pieces_are_aligned_and_keep_their_contents),
        cmocka_unit_test(a_large_piece_does_not_end_the_open_block),
        cmocka_unit_test(a_large_piece_may_be_the_first),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(arrays_are_cleared_and_copies_end_with_nul),
        cmocka_unit_test(items_stay_while_the_array_grows),
        cmocka_unit_test(a_size_beyond_memory_leaves_the_array_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
