/* Jobs in a child process, with the reference library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "tests/unit/qnnref/compose.h"
#include "backend/qnn/qnn_child.h"

typedef struct {
    uint32_t n; /* messages so far */
    uint64_t bytes;
    bool ordered, refuse, interrupt;
} taken;

static int take(void *user, const void *p, size_t n, fy_err *e)
{
    taken *t = user;
    uint32_t number = UINT32_MAX;
    if (n >= sizeof number)
        memcpy(&number, p, sizeof number);
    t->ordered &= n == 0 || number == t->n;
    t->n++;
    t->bytes += n;
    if (t->interrupt)
        fy_interrupted = 1;
    return t->refuse ? fy_fail(e, FY_EVERIFY, "this message is refused") : 0;
}

static int send_hundred(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    static uint32_t data[100000];
    (void)user;
    if (lib->backend == NULL)
        return fy_fail(e, FY_EVERIFY, "no backend");
    puts("what the library writes is not seen");
    for (data[0] = 0; data[0] < 100; data[0]++) {
        if (fy_qnn_send(to, data, data[0] % 10 == 9 ? sizeof data : sizeof data[0], e) != 0)
            return -1;
    }
    return fy_qnn_send(to, data, 0, e);
}

static int send_and_fail(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    const uint32_t number = 0;
    (void)lib, (void)user;
    (void)fy_qnn_send(to, &number, sizeof number, e);
    return fy_fail(e, FY_EFIT, "100%% of the memory");
}

static int crash(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    const uint32_t number = 0;
    (void)lib, (void)user;
    (void)fy_qnn_send(to, &number, sizeof number, e);
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return 0;
}

static int hang(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    const uint32_t number = 0;
    (void)lib, (void)user;
    (void)fy_qnn_send(to, &number, sizeof number, e);
    while (number == 0)
        pause();
    return 0;
}

static int send_too_much(fy_qnn_lib *lib, fy_qnn_pipe *to, void *user, fy_err *e)
{
    (void)lib, (void)user;
    return fy_qnn_send(to, "", ((size_t)64 << 20) + 1, e);
}

static int run(fy_qnn_job *job, taken *t, fy_qnn_end *how, fy_err *e)
{
    t->ordered = true;
    return fy_qnn_child(reference_path("libQnnRef.so"), NULL, job, take, t, 1, how, e);
}

static int begin(void **state)
{
    (void)state;
    fy_interrupted = 0;
    if (access(reference_path("libQnnRef.so"), R_OK) != 0) {
        print_message("libQnnRef.so is not built; 'make qnnref' builds it\n");
        skip();
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    fy_interrupted = 0;
    return 0;
}

static void messages_arrive_whole_and_in_order(void **state)
{
    (void)state;
    taken t = {0};
    fy_qnn_end how = FY_QNN_HUNG;
    fy_err e = {0};
    if (run(send_hundred, &t, &how, &e) != 0)
        fail_msg("%s", e.msg);
    assert_int_equal(how, FY_QNN_DONE);
    assert_int_equal(t.n, 101);
    assert_true(t.ordered);
    assert_int_equal(t.bytes, 90 * 4 + 10 * 400000);
}

static void an_error_of_the_child_is_an_error_here(void **state)
{
    (void)state;
    taken t = {0};
    fy_qnn_end how = FY_QNN_HUNG;
    fy_err e = {0};
    assert_int_equal(run(send_and_fail, &t, &how, &e), -1);
    assert_int_equal(e.code, FY_EFIT);
    assert_string_equal(e.msg, "100% of the memory");
    assert_int_equal(t.n, 1);
}

static void a_library_that_does_not_load_is_an_error_here(void **state)
{
    (void)state;
    taken t = {0};
    fy_qnn_end how = FY_QNN_HUNG;
    fy_err e = {0};
    assert_int_equal(
        fy_qnn_child("/nowhere/libQnnHtp.so", NULL, send_hundred, take, &t, 1, &how, &e), -1);
    assert_int_equal(e.code, FY_EDEVICE);
    assert_non_null(strstr(e.msg, "cannot load the QNN library"));
    assert_int_equal(t.n, 0);
}

static void a_crash_is_no_error(void **state)
{
    (void)state;
    taken t = {0};
    fy_qnn_end how = FY_QNN_DONE;
    fy_err e = {0};
    assert_int_equal(run(crash, &t, &how, &e), 0);
    assert_int_equal(how, FY_QNN_CRASHED);
    assert_int_equal(t.n, 1);
    assert_int_equal(e.code, FY_OK);
}

static void a_child_that_hangs_is_ended(void **state)
{
    (void)state;
    taken t = {0};
    fy_qnn_end how = FY_QNN_DONE;
    fy_err e = {0};
    const double since = fy_now_s();
    assert_int_equal(run(hang, &t, &how, &e), 0);
    assert_int_equal(how, FY_QNN_HUNG);
    assert_int_equal(t.n, 1);
    assert_int_equal(e.code, FY_OK);
    assert_true(fy_now_s() - since >= 0.9);
}

static void a_message_that_is_too_large_is_not_sent(void **state)
{
    (void)state;
    taken t = {0};
    fy_qnn_end how = FY_QNN_HUNG;
    fy_err e = {0};
    assert_int_equal(run(send_too_much, &t, &how, &e), -1);
    assert_int_equal(e.code, FY_EARG);
    assert_string_equal(e.msg, "a message of 67108865 bytes");
    assert_int_equal(t.n, 0);
}

static void a_message_that_is_refused_ends_the_child(void **state)
{
    (void)state;
    taken t = {.refuse = true};
    fy_qnn_end how = FY_QNN_HUNG;
    fy_err e = {0};
    assert_int_equal(run(send_hundred, &t, &how, &e), -1);
    assert_int_equal(e.code, FY_EVERIFY);
    assert_int_equal(t.n, 1);
}

static void an_interrupt_ends_the_child(void **state)
{
    (void)state;
    taken t = {.interrupt = true};
    fy_qnn_end how = FY_QNN_HUNG;
    fy_err e = {0};
    assert_int_equal(run(hang, &t, &how, &e), -1);
    assert_int_equal(e.code, FY_EINTR);
    assert_int_equal(t.n, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_arrive_whole_and_in_order),
        TEST(an_error_of_the_child_is_an_error_here),
        TEST(a_library_that_does_not_load_is_an_error_here),
        TEST(a_crash_is_no_error),
        TEST(a_child_that_hangs_is_ended),
        TEST(a_message_that_is_too_large_is_not_sent),
        TEST(a_message_that_is_refused_ends_the_child),
        TEST(an_interrupt_ends_the_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
