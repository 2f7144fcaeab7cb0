#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/thread.h"

enum { MAX_ITEMS = 5000, MAX_THREADS = 16 };

typedef struct {
    _Atomic int hits[MAX_ITEMS];
    int plain[MAX_ITEMS]; /* written without atomics: each item belongs to one thread */
    _Atomic int bad;
    int64_t n, chunk;
    int threads;
} job;

static void touch(void *ctx, int64_t begin, int64_t end, int thread)
{
    job *j = ctx;
    if (begin < 0 || end > j->n || begin >= end || end - begin > j->chunk || thread < 0 ||
        thread >= j->threads)
        atomic_fetch_add(&j->bad, 1);
    for (int64_t i = begin; i < end; i++) {
        atomic_fetch_add(&j->hits[i], 1);
        j->plain[i] = (int)i + 1;
    }
}

static void every_item_is_handed_out_exactly_once(void **state)
{
    (void)state;
    static job j;
    static const int64_t sizes[] = {0, 1, 2, 7, 8, 9, 100, 4999, 5000},
                         chunks[] = {1, 2, 8, 1000, 5000, INT64_MAX};
    for (int threads = 1; threads <= 5; threads++) {
        fy_err e = {0};
        fy_pool *p = fy_pool_new(threads, &e);
        assert_non_null(p);
        assert_int_equal(fy_pool_threads(p), threads);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++) {
                memset(&j, 0, sizeof j);
                j.n = sizes[s];
                j.chunk = chunks[c];
                j.threads = threads;
                fy_pool_run(p, j.n, j.chunk, touch, &j);
                assert_int_equal(j.bad, 0);
                for (int64_t i = 0; i < MAX_ITEMS; i++) {
                    assert_int_equal(j.hits[i], i < j.n);
                    assert_int_equal(j.plain[i], i < j.n ? (int)i + 1 : 0);
                }
            }
        }
        fy_pool_free(p);
    }
}

static void add_one(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    int *v = ctx;
    for (int64_t i = begin; i < end; i++)
        v[i]++;
}

static void results_of_one_job_are_seen_by_the_next(void **state)
{
    (void)state;
    enum { N = 64, RUNS = 3000 };
    fy_err e = {0};
    fy_pool *p = fy_pool_new(4, &e);
    int v[N] = {0};
    for (int r = 0; r < RUNS; r++)
        fy_pool_run(p, N, 3, add_one, v);
    for (int i = 0; i < N; i++)
        assert_int_equal(v[i], RUNS);
    fy_pool_free(p);
}

static void jobs_after_a_pause_wake_sleeping_threads(void **state)
{
    (void)state;
    enum { N = 64, RUNS = 50 };
    fy_err e = {0};
    fy_pool *p = fy_pool_new(3, &e);
    int v[N] = {0};
    for (int r = 0; r < RUNS; r++) {
        nanosleep(&(struct timespec){.tv_nsec = 200000 * (r % 5)}, NULL);
        fy_pool_run(p, N, 1, add_one, v);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(v[i], RUNS);
    fy_pool_free(p);
}

static void wait_for_others(void *ctx, int64_t begin, int64_t end, int thread)
{
    _Atomic int *arrived = ctx;
    (void)begin;
    (void)end;
    (void)thread;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < 3)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void threads_really_work_side_by_side(void **state)
{
    (void)state;
    fy_err e = {0};
    fy_pool *p = fy_pool_new(3, &e);
    _Atomic int arrived = 0;
    fy_pool_run(p, 3, 1, wait_for_others, &arrived); /* ends only when all three are inside */
    assert_int_equal(arrived, 3);
    fy_pool_free(p);
}

static void a_pool_may_be_freed_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        fy_err e = {0};
        fy_pool *p = fy_pool_new(1 + i % 6, &e);
        assert_non_null(p);
        fy_pool_free(p);
    }
    fy_pool_free(NULL);
}

static void impossible_thread_counts_are_refused(void **state)
{
    (void)state;
    static const int bad[] = {0, -1, 257, INT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_err e = {0};
        assert_null(fy_pool_new(bad[i], &e));
        assert_int_equal(e.code, FY_EARG);
    }
    assert_in_range(fy_default_threads(), 1, MAX_THREADS);
}

static volatile sig_atomic_t signals_seen;

static void on_signal(int sig)
{
    (void)sig;
    signals_seen++;
}

static void idle(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)ctx;
    (void)begin;
    (void)end;
    (void)thread;
}

/* Who waits for a signal blocks it while he looks: no worker may take it meanwhile. */
static void workers_leave_signals_to_others(void **state)
{
    (void)state;
    struct sigaction sa = {.sa_handler = on_signal}, before;
    sigset_t set, old, pending;
    sigaction(SIGUSR1, &sa, &before);
    fy_pool *p = fy_pool_new(4, NULL);
    assert_non_null(p);
    fy_pool_run(p, 64, 1, idle, NULL); /* the workers are there */
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL); /* time to take it */
    sigpending(&pending);
    assert_true(sigismember(&pending, SIGUSR1));
    assert_int_equal(signals_seen, 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    assert_int_equal(signals_seen, 1);
    fy_pool_free(p);
    sigaction(SIGUSR1, &before, NULL);
}

/* Ends when all of them sleep; while one goes on spinning it does not end. */
static void threads_without_work_sleep(void **state)
{
    (void)state;
    enum { N = 64 };
    int v[N] = {0};
    fy_pool *p = fy_pool_new(3, NULL);
    assert_non_null(p);
    for (int runs = 1; runs <= 3; runs++) {
        fy_pool_run(p, N, 1, add_one, v);
        while (fy_pool_sleepers(p) < 2)
            sched_yield();
        assert_int_equal(fy_pool_sleepers(p), 2);
        assert_int_equal(v[N - 1], runs);
    }
    fy_pool_free(p);
}

typedef struct {
    _Atomic int arrived;
    fy_cpus where[3];
} places;

static void note_place(void *ctx, int64_t begin, int64_t end, int thread)
{
    places *w = ctx;
    w->where[thread] = fy_cpus_usable();
    wait_for_others(&w->arrived, begin, end, thread); /* so that each thread takes one item */
}

static void threads_run_where_their_maker_may(void **state)
{
    (void)state;
    const fy_cpus before = fy_cpus_usable();
    fy_cpus one = {0};
    for (int i = 0; fy_cpus_count(&one) == 0; i++) {
        if (fy_cpus_has(&before, i))
            fy_cpus_add(&one, i);
    }
    assert_int_equal(fy_cpus_pin(&one, NULL, NULL), 0);
    assert_int_equal(fy_default_threads(), 1);
    fy_pool *p = fy_pool_new(3, NULL);
    assert_int_equal(fy_cpus_pin(&before, NULL, NULL), 0);
    assert_non_null(p);
    places w = {0};
    fy_pool_run(p, 3, 1, note_place, &w);
    fy_pool_free(p);
    assert_memory_equal(&w.where[0], &before, sizeof before); /* the caller goes where it likes */
    assert_memory_equal(&w.where[1], &one, sizeof one);
    assert_memory_equal(&w.where[2], &one, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_handed_out_exactly_once),
        cmocka_unit_test(results_of_one_job_are_seen_by_the_next),
        cmocka_unit_test(jobs_after_a_pause_wake_sleeping_threads),
        cmocka_unit_test(threads_really_work_side_by_side),
        cmocka_unit_test(a_pool_may_be_freed_at_once),
        cmocka_unit_test(impossible_thread_counts_are_refused),
        cmocka_unit_test(workers_leave_signals_to_others),
        cmocka_unit_test(threads_without_work_sleep),
        cmocka_unit_test(threads_run_where_their_maker_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
