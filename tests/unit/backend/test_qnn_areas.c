/* Areas: what rpcmem gives, what it refuses, and memory of the process in its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backend/qnn/qnn_areas.h"

enum { BIG = 100 << 20 };

static int n_taken; /* by rpcmem, and not freed */

static void *take(int heap, uint32_t flags, int bytes)
{
    assert_int_equal(heap, 25);
    assert_int_equal(flags, 1);
    assert_int_equal(bytes % FY_QNN_AREA_ALIGN, 0);
    void *p = bytes < BIG ? aligned_alloc(FY_QNN_AREA_ALIGN, (size_t)bytes) : NULL;
    n_taken += p != NULL;
    return p != NULL ? memset(p, 1, (size_t)bytes) : NULL;
}

static void give(void *p)
{
    n_taken--;
    free(p);
}

static int to_fd(void *p)
{
    (void)p;
    return 3;
}

static bool is_clear(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (i < n && p[i] == 0)
        i++;
    return i == n;
}

static void areas_are_cleared_and_given_back(void **state)
{
    fy_qnn_areas a = {.rpcmem = {take, give, to_fd}};
    fy_err e = {0};
    (void)state;
    uint8_t *small = fy_qnn_area_take(&a, 5000, &e), *other = fy_qnn_area_take(&a, 1, &e);
    assert_int_equal(n_taken, 2);
    assert_true(is_clear(small, 5000) && is_clear(other, 1));
    assert_string_equal(a.why, "");
    uint8_t *big = fy_qnn_area_take(&a, BIG, &e); /* refused: the process's own */
    assert_int_equal(n_taken, 2);
    assert_true(is_clear(big, BIG));
    assert_string_equal(a.why, "rpcmem_alloc of 100 MB fails");
    fy_qnn_area_give(&a, small);
    fy_qnn_area_give(&a, big);
    fy_qnn_area_give(&a, other);
    assert_int_equal(n_taken, 0);
    fy_qnn_areas_release(&a);
}

static void only_shared_areas_have_a_largest_size(void **state)
{
    fy_qnn_areas a = {.rpcmem = {take, give, to_fd}}, own = {0};
    const uint64_t bytes = (uint64_t)3 << 30;
    fy_err e = {0};
    (void)state;
    assert_null(fy_qnn_area_take(&a, bytes, &e));
    assert_int_equal(e.code, FY_EFIT);
    assert_non_null(strstr(e.msg, "take 3072 MB, and memory that is shared with an NPU comes in "));
    uint8_t *p = fy_qnn_area_take(&own, bytes, &e);
    assert_non_null(p);
    p[bytes - 1] = 1;
    fy_qnn_area_give(&own, p);
    e = (fy_err){0};
    assert_null(fy_qnn_area_take(&own, UINT64_MAX, &e));
    assert_null(fy_qnn_area_take(&own, UINT64_MAX / 4, &e));
    assert_int_equal(e.code, FY_EFIT);
    fy_qnn_areas_release(&a);
    fy_qnn_areas_release(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(areas_are_cleared_and_given_back),
        cmocka_unit_test(only_shared_areas_have_a_largest_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
