#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/math.h"

static void checked_sums_and_products_never_wrap(void **state)
{
    (void)state;
    uint64_t v = 7;
    assert_true(fy_add_u64(UINT64_MAX - 1, 1, &v) && v == UINT64_MAX);
    assert_false(fy_add_u64(UINT64_MAX, 1, &v));
    assert_true(v == UINT64_MAX);
    assert_true(fy_mul_u64((uint64_t)1 << 32, UINT32_MAX, &v) && v == (uint64_t)UINT32_MAX << 32);
    v = 7;
    assert_false(fy_mul_u64((uint64_t)1 << 32, (uint64_t)1 << 32, &v));
    assert_int_equal(v, 7);
}

static void alignment_rounds_up_without_wrapping(void **state)
{
    (void)state;
    uint64_t v = 7;
    assert_true(fy_align_u64(0, 32, &v) && v == 0);
    assert_true(fy_align_u64(1, 32, &v) && v == 32);
    assert_true(fy_align_u64(32, 32, &v) && v == 32);
    assert_true(fy_align_u64(33, 1, &v) && v == 33);
    assert_false(fy_align_u64(UINT64_MAX - 3, 32, &v));
    assert_int_equal(v, 33);
}

static void little_endian_loads_take_any_address(void **state)
{
    (void)state;
    static const uint8_t b[] = {0xFF, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0xC0, 0x3F};
    assert_int_equal(fy_le16(b + 1), 0x0201);
    assert_int_equal(fy_le32(b + 1), 0x04030201);
    assert_true(fy_le64(b + 1) == 0x0807060504030201u);
    assert_true(fy_lef32(b + 9) == 1.5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_sums_and_products_never_wrap),
        cmocka_unit_test(alignment_rounds_up_without_wrapping),
        cmocka_unit_test(little_endian_loads_take_any_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
