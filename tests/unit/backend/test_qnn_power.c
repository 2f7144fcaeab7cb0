/* Votes for clocks: made before work, taken back after it, dropped with the device, and given up
 * when the library refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "backend/qnn/qnn_power.h"
#include "base/log.h"
#include "base/process.h"

/* What the library saw last. */
static struct {
    _Atomic int n_made, n_dropped, n_votes, n_warnings;
    _Atomic uint32_t corner, poll_us;
    fy_qnn_error infrastructure, create, clocks, others;
} seen;

static fy_qnn_error create(uint32_t device, uint32_t core, uint32_t *id)
{
    assert_int_equal(device + core, 0);
    *id = 7;
    seen.n_made += seen.create == 0;
    return seen.create;
}

static fy_qnn_error destroy(uint32_t id)
{
    assert_int_equal(id, 7);
    seen.n_dropped++;
    return 0;
}

static fy_qnn_error set(uint32_t id, const fy_qnn_power_config *const *list)
{
    assert_int_equal(id, 7);
    assert_null(list[1]);
    if (list[0]->option == FY_QNN_POWER_CLOCKS) {
        assert_int_equal(list[0]->u.words[0], 7);
        seen.corner = list[0]->u.words[15];
        seen.n_votes++;
        return seen.clocks;
    }
    if (list[0]->option == FY_QNN_POWER_POLL_US)
        seen.poll_us = list[0]->u.us;
    return seen.others;
}

static fy_qnn_error infrastructure(const fy_qnn_infrastructure **out)
{
    static const fy_qnn_infrastructure is = {0, create, destroy, set, NULL};
    *out = &is;
    return seen.infrastructure;
}

static const fy_qnn_table table = {.device_infrastructure = infrastructure}, older = {0};
static fy_qnn_lib lib = {.call = &table};

static void count_warning(void *user, fy_log_level level, const char *text)
{
    (void)user, (void)level;
    assert_non_null(strstr(text, "the clocks of the NPU are left as they are: "));
    seen.n_warnings++;
}

static void work(fy_qnn_power *p)
{
    fy_qnn_power_work(p);
    fy_qnn_power_rest(p);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void votes_are_taken_back_after_work(void **state)
{
    static const uint32_t corners[] = {0xa0, 0x60};
    (void)state;
    for (int level = FY_QNN_BURST; level <= FY_QNN_BALANCED; level++) {
        fy_err e = {0};
        memset(&seen, 0, sizeof seen);
        fy_qnn_power *p = fy_qnn_power_new(&lib, (fy_qnn_power_level)level, &e);
        assert_int_equal(seen.n_made, 0);
        const double since = fy_now_s();
        for (int i = 0; i < 5; i++)
            work(p);
        fy_qnn_power_work(p); /* long work is no rest */
        const int n = seen.n_votes;
        if (n != 1 && fy_now_s() - since < 0.25) /* (else the machine stood still) */
            fail_msg("%d votes", n);
        sleep_ms(700);
        assert_int_equal(seen.n_votes, n);
        assert_int_equal(seen.corner, corners[level]);
        assert_int_equal(seen.poll_us, level == FY_QNN_BURST ? 9999 : 0);
        fy_qnn_power_rest(p);
        for (int i = 0; i < 600 && seen.corner != 0x30; i++)
            sleep_ms(100);
        assert_int_equal(seen.corner, 0x30);
        fy_qnn_power_work(p);
        assert_int_equal(seen.n_votes, n + 2);
        assert_int_equal(seen.corner, corners[level]);
        fy_qnn_power_rest(p);
        fy_qnn_power_drop(p);
        assert_int_equal(seen.corner, 0x30);
        assert_int_equal(seen.n_dropped, 1);
        work(p);
        fy_qnn_power_free(p);
        assert_int_equal(seen.n_made, 2);
        assert_int_equal(seen.n_dropped, 2);
        assert_int_equal(seen.corner, 0x30);
    }
}

static void a_saver_never_votes(void **state)
{
    (void)state;
    fy_err e = {0};
    memset(&seen, 0, sizeof seen);
    fy_qnn_power *p = fy_qnn_power_new(&lib, FY_QNN_SAVER, &e);
    work(p);
    fy_qnn_power_free(p);
    fy_qnn_power_free(NULL);
    assert_int_equal(seen.n_made + seen.n_votes, 0);
}

static void what_fails_is_said_once(void **state)
{
    (void)state;
    const fy_log_target before = fy_log_use((fy_log_target){count_warning, NULL});
    for (int i = 0; i < 5; i++) {
        fy_err e = {0};
        memset(&seen, 0, sizeof seen);
        fy_qnn_error *const fails[] = {&seen.infrastructure, &seen.create, &seen.clocks,
                                       &seen.others};
        lib.call = i < 4 ? &table : &older;
        if (i < 4)
            *fails[i] = FY_QNN_ENOT_SUPPORTED;
        fy_qnn_power *p = fy_qnn_power_new(&lib, FY_QNN_BURST, &e);
        work(p);
        work(p);
        fy_qnn_power_free(p);
        assert_int_equal(seen.n_warnings, i != 3); /* what only some chips know does not matter */
        assert_int_equal(seen.n_made, seen.n_dropped);
    }
    lib.call = &table;
    fy_log_use(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(votes_are_taken_back_after_work),
        cmocka_unit_test(a_saver_never_votes),
        cmocka_unit_test(what_fails_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
