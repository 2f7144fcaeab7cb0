#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static char seen[2048];
static fy_log_level seen_level;

static void keep(void *user, fy_log_level level, const char *text)
{
    *(int *)user += 1;
    seen_level = level;
    strcpy(seen, text);
}

static void words_reach_the_sink_and_nobody_else(void **state)
{
    (void)state;
    int n = 0;
    fy_log(FY_LOG_ERROR, "dropped %d", 1);
    fy_log_set(keep, &n);
    fy_log(FY_LOG_WARN, "key '%s' twice", "a");
    assert_int_equal(n, 1);
    assert_int_equal(seen_level, FY_LOG_WARN);
    assert_string_equal(seen, "key 'a' twice");
    fy_log_set(NULL, NULL);
    fy_log(FY_LOG_ERROR, "dropped %d", 2);
    assert_int_equal(n, 1);
}

static void a_thread_may_have_a_sink_of_its_own(void **state)
{
    (void)state;
    int process = 0, own = 0;
    fy_log_set(keep, &process);
    fy_log_target before = fy_log_use((fy_log_target){keep, &own});
    assert_null(before.sink);
    fy_log(FY_LOG_INFO, "mine");
    before = fy_log_use(before);
    assert_ptr_equal(before.user, &own);
    fy_log(FY_LOG_INFO, "all's");
    fy_log_set(NULL, NULL);
    assert_int_equal(own, 1);
    assert_int_equal(process, 1);
}

static void a_long_line_is_cut(void **state)
{
    (void)state;
    int n = 0;
    fy_log_set(keep, &n);
    fy_log(FY_LOG_INFO, "%5000d", 1);
    fy_log_set(NULL, NULL);
    assert_int_equal(strlen(seen), 1023);
}

/* --- progress ----------------------------------------------------------------------------------- */

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
        cmocka_unit_test(words_reach_the_sink_and_nobody_else),
        cmocka_unit_test(a_thread_may_have_a_sink_of_its_own),
        cmocka_unit_test(a_long_line_is_cut),
        cmocka_unit_test(progress_adds_up_and_is_shown),
        cmocka_unit_test(an_interrupt_ends_the_work_with_its_own_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
