/* Threads are stopped at any point of their work, any of them, for longer than a whole job takes:
 * whoever takes over what they leave, logits and greedy ids are the bits of one thread and one
 * token at a time. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"
#include "tests/unit/model/tiny_model.h"

enum { T = 64, V = 96, N_GREEDY = 24, STALL_NS = 300000, PAUSE_NS = 500000 };

/* --- who stops threads ------------------------------------------------------------------------ */

static atomic_bool harass;
static atomic_int n_stalls;

static void wait_ns(long ns)
{
    const struct timespec t = {.tv_nsec = ns};
    pselect(0, NULL, NULL, NULL, &t, NULL);
}

static void stall(int sig)
{
    (void)sig;
    const int before = errno;
    atomic_fetch_add(&n_stalls, 1);
    wait_ns(STALL_NS);
    errno = before;
}

/* One after the other; SIGTRAP is one of the few signals that workers of a pool do not block. */
static void stall_each_thread(long self)
{
    DIR *d = opendir("/proc/self/task");
    assert_non_null(d);
    for (struct dirent *entry; atomic_load(&harass) && (entry = readdir(d)) != NULL;) {
        const long tid = strtol(entry->d_name, NULL, 10);
        if (tid <= 0 || tid == self)
            continue;
        syscall(SYS_tgkill, (long)getpid(), tid, (long)SIGTRAP);
        wait_ns(PAUSE_NS);
    }
    closedir(d);
}

static void *harass_threads(void *arg)
{
    (void)arg;
    while (atomic_load(&harass))
        stall_each_thread(syscall(SYS_gettid));
    return NULL;
}

/* --- what is computed ------------------------------------------------------------------------- */

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ferry-timing-XXXXXX");
    const int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

typedef struct {
    float logits[T * V];
    int32_t greedy[N_GREEDY];
} result;

static int keep_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    (void)e;
    memcpy((float *)user + pos * V, logits, n * V * sizeof(float));
    return 0;
}

static int32_t largest(const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < V; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static void compute(const fy_model *m, uint32_t n_batch, int n_threads, result *out)
{
    fy_err e = {0};
    const fy_session_params p = {.n_batch = n_batch, .n_threads = n_threads};
    fy_session *s = fy_session_new(m, &p, &e);
    if (s == NULL)
        fail_msg("%s", e.msg);
    int32_t ids[T];
    for (int i = 0; i < T; i++)
        ids[i] = (i * 37 + 11) % V;
    const fy_eval_sinks sinks = {.logits = keep_logits, .user = out->logits};
    const float *last = NULL;
    assert_int_equal(fy_session_eval(s, ids, T, &sinks, &last, &e), 0);
    for (int i = 0; i < N_GREEDY; i++) {
        out->greedy[i] = largest(last);
        assert_int_equal(fy_session_eval(s, &out->greedy[i], 1, NULL, &last, &e), 0);
    }
    fy_session_free(s);
}

typedef struct {
    uint32_t n_batch;
    int n_threads;
} split;

static const split all_splits[] = {{512, 1}, {63, 1},  {7, 1},  {2, 1},   {1, 2},   {2, 2},
                                   {63, 2},  {512, 2}, {1, 3},  {16, 3},  {512, 3}, {1, 4},
                                   {7, 4},   {16, 4},  {63, 4}, {512, 4}, {2, 7},   {63, 7},
                                   {512, 7}, {1, 16},  {7, 16}, {512, 16}};
static const split slow_splits[] = {{1, 2}, {512, 2}, {1, 4}, {7, 4}, {512, 4}, {63, 16}};

static void check_splits(const char *name, const fy_model *m, const split *splits, int n,
                         const result *want)
{
    static result got;
    for (int i = 0; i < n; i++) {
        compute(m, splits[i].n_batch, splits[i].n_threads, &got);
        if (memcmp(&got, want, sizeof got) != 0)
            fail_msg("%s: %d threads, batches of %u: other bits", name, splits[i].n_threads,
                     splits[i].n_batch);
    }
}

/* Dense, with experts, and with a window in every second layer. */
static tiny_model model_at(int i)
{
    tiny_model t = tiny_of(i == 1 ? "qwen2moe" : i == 2 ? "gemma2" : "llama", i == 1);
    t.type = i == 1 ? FY_Q4_0 : FY_Q8_0;
    t.hp.n_ff = 512; /* products that are worth a second thread, also of one token */
    t.hp.n_ff_shexp = i == 1 ? 64 : 0;
    t.hp.n_swa = i == 2 ? 4 : 0;
    t.tied = i == 2;
    return t;
}

static void check_models(const split *splits, int n)
{
    static const char *const names[] = {"dense", "with experts", "with a window"};
    static result want;
    for (int i = 0; i < 3; i++) {
        tiny_model t = model_at(i);
        fy_err e = {0};
        if (tiny_write(&t, path, &e) != 0)
            fail_msg("%s", e.msg);
        fy_model *m = fy_model_open(path, &e);
        if (m == NULL)
            fail_msg("%s", e.msg);
        compute(m, 1, 1, &want);
        for (int at = 0; at < T * V; at++)
            assert_true(isfinite(want.logits[at]));
        check_splits(names[i], m, splits, n, &want);
        fy_model_close(m);
    }
}

static void results_are_the_same_bits_for_any_split(void **state)
{
    (void)state;
    check_models(all_splits, sizeof all_splits / sizeof all_splits[0]);
}

static void results_are_the_same_bits_whichever_thread_is_stopped(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* the sanitizer has a thread of its own, which a signal's handler must not run on */
#endif
    struct sigaction action = {.sa_handler = stall, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
    atomic_store(&harass, true);
    pthread_t id;
    assert_int_equal(pthread_create(&id, NULL, harass_threads, NULL), 0);
    check_models(slow_splits, sizeof slow_splits / sizeof slow_splits[0]);
    atomic_store(&harass, false);
    pthread_join(id, NULL);
    assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
    assert_true(atomic_load(&n_stalls) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_the_same_bits_for_any_split),
        cmocka_unit_test(results_are_the_same_bits_whichever_thread_is_stopped),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
