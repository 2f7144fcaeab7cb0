#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/log.h"

enum { MOST = 1 << 20 };

static int run(const char *script, size_t most, fy_str *out, fy_str *err, int *status, fy_err *e)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    return fy_child_run(argv, NULL, false, most, out, err, status, e);
}

static void streams_and_status_are_collected(void **state)
{
    (void)state;
    fy_str out = {0}, err = {0};
    fy_err e = {0};
    int status = -1;
    assert_int_equal(run("echo one; echo two >&2; exit 7", MOST, &out, &err, &status, &e), 0);
    assert_string_equal(fy_str_z(&out), "one\n");
    assert_string_equal(fy_str_z(&err), "two\n");
    assert_int_equal(status, 7);
    assert_int_equal(run("kill -KILL $$", MOST, NULL, NULL, &status, &e), 0);
    assert_int_equal(status, 128 + SIGKILL);
    fy_str_release(&out);
    fy_str_release(&err);
}

static void more_than_a_pipe_holds_is_read(void **state)
{
    (void)state;
    fy_str out = {0}, err = {0};
    fy_err e = {0};
    int status = -1;
    static const char script[] = "head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2";
    assert_int_equal(run(script, MOST, &out, &err, &status, &e), 0);
    assert_int_equal(out.len, 300000);
    assert_int_equal(err.len, 200000);
    fy_str_clear(&out);
    assert_int_equal(run(script, 1000, &out, NULL, &status, &e), 0);
    assert_int_equal(out.len, 1000);
    assert_int_equal(status, 0);
    fy_str_release(&out);
    fy_str_release(&err);
}

static void no_input_and_an_environment_of_its_own(void **state)
{
    (void)state;
    fy_str out = {0};
    fy_err e = {0};
    int status = -1;
    char name[] = "FARM_TEST=here";
    char *const env[] = {name, NULL};
    const char *const argv[] = {"/bin/sh", "-c", "cat; echo $FARM_TEST $HOME; trap", NULL};
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(fy_child_run(argv, env, false, MOST, &out, NULL, &status, &e), 0);
    assert_string_equal(fy_str_z(&out), "here\n");
    fy_str_release(&out);
}

static void a_program_that_is_not_there_is_named(void **state)
{
    (void)state;
    const char *const argv[] = {"no-such-program-here", NULL};
    fy_err e = {0};
    int status;
    assert_int_equal(fy_child_run(argv, NULL, false, MOST, NULL, NULL, &status, &e), -1);
    assert_int_equal(e.code, FY_EIO);
    assert_non_null(strstr(e.msg, "no-such-program-here"));
}

static void an_interrupt_ends_it(void **state)
{
    (void)state;
    fy_err e = {0};
    int status = -1;
    fy_interrupted = 1;
    assert_int_equal(run("sleep 600", MOST, NULL, NULL, &status, &e), -1);
    assert_int_equal(e.code, FY_EINTR);
    const char *const argv[] = {"sh", "-c", "exit 3", NULL};
    assert_int_equal(fy_child_run(argv, NULL, true, MOST, NULL, NULL, &status, &e), 0);
    assert_int_equal(status, 3);
    fy_interrupted = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_and_status_are_collected),
        cmocka_unit_test(more_than_a_pipe_holds_is_read),
        cmocka_unit_test(no_input_and_an_environment_of_its_own),
        cmocka_unit_test(a_program_that_is_not_there_is_named),
        cmocka_unit_test(an_interrupt_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
