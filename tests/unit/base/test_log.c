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
        cmocka_unit_test(a_long_line_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
