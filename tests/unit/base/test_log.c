#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_reach_the_sink_and_nobody_else),
        cmocka_unit_test(a_thread_may_have_a_sink_of_its_own),
        cmocka_unit_test(a_long_line_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
