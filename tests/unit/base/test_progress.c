#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"

static int shows;

static void show(fy_progress *p)
{
    shows++;
    assert_true(p->done_bytes <= p->total_bytes);
}

static void progress_adds_up_and_is_shown(void **state)
{
    (void)state;
    fy_progress p = {.what = "testing", .total_bytes = 30, .show = show};
    fy_progress_add(&p, 10);
    fy_progress_add(&p, 20);
    assert_int_equal(p.done_bytes, 30);
    assert_int_equal(shows, 2);
    fy_progress_add(NULL, 5);
    p.show = NULL;
    fy_progress_add(&p, 0);
    assert_int_equal(shows, 2);
}

static void an_interrupt_ends_the_work_with_its_own_code(void **state)
{
    (void)state;
    fy_err e = {0};
    assert_int_equal(fy_check_interrupt(&e), 0);
    fy_interrupted = 1;
    assert_int_equal(fy_check_interrupt(&e), -1);
    fy_interrupted = 0;
    assert_int_equal(e.code, FY_EINTR);
    assert_int_equal(fy_check_interrupt(&e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_adds_up_and_is_shown),
        cmocka_unit_test(an_interrupt_ends_the_work_with_its_own_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
