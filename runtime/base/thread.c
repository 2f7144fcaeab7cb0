/* A job is open while workers may join it. `state` packs everything a worker needs to join safely:
 * the job's number, whether it is open, and how many workers are inside; joining is one
 * compare-and-swap. So the caller waits only for workers that joined, never for one that is still
 * waking up: on a busy machine a short job costs what it costs on one thread. Job fields are
 * written only while the job is closed and nobody is inside.
 *
 * Waiting spins SPIN_NS first (decode runs a few hundred short jobs per token, tens of microseconds
 * apart), then sleeps. Each side announces that it sleeps before it looks a last time, and the
 * other side publishes before it looks for sleepers; with sequentially consistent atomics one of
 * them sees the other. Such a store is an exchange: QEMU 7.2 lets a plain
 * sequentially consistent store of arm64 be overtaken by the load after it. */
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"

enum { MAX_DEFAULT = 16, SPIN_NS = 40000 };

#define INSIDE_MASK ((uint64_t)0xFFFF)
#define OPEN        ((uint64_t)1 << 16)
#define JOB_SHIFT   17

typedef struct {
    fy_pool *pool; /* view */
    pthread_t id;
    int index;
} worker;

/* The chunks a thread begins with, which are adjacent; a thread that is done takes from others. */
typedef struct {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
} share;

struct fy_pool {
    int n_threads;
    int64_t spin_ns;

    _Atomic uint64_t state;
    _Atomic int sleepers;       /* workers in or before cond_wait */
    _Atomic bool caller_sleeps; /* the caller waits for the last worker to leave */
    _Atomic bool stop;

    fy_pool_fn *fn;
    void *ctx;
    int64_t n_items, chunk;

    _Alignas(64) pthread_mutex_t lock;
    pthread_cond_t wake, done;
    int n_workers;   /* started */
    worker *workers; /* [n_threads - 1], after the shares */
    share shares[];  /* [n_threads] */
};

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* "yield" does nothing on the cores we target */
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void work(fy_pool *p, int thread)
{
    for (int i = 0; i < p->n_threads; i++) {
        const int other = thread + i;
        share *s = &p->shares[other < p->n_threads ? other : other - p->n_threads];
        int64_t c;
        while ((c = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->end) {
            int64_t begin = c * p->chunk;
            int64_t end = p->n_items - begin < p->chunk ? p->n_items : begin + p->chunk;
            p->fn(p->ctx, begin, end, thread);
        }
    }
}

/* The shares differ by one chunk at most. */
static void share_out(fy_pool *p, int64_t n_chunks)
{
    const int64_t each = n_chunks / p->n_threads, rest = n_chunks % p->n_threads;
    int64_t begin = 0;
    for (int i = 0; i < p->n_threads; i++) {
        atomic_store_explicit(&p->shares[i].next, begin, memory_order_relaxed);
        begin += each + (i < rest);
        p->shares[i].end = begin;
    }
}

/* Joins the open job unless it is `*last`, which this worker has done already. */
static bool join(fy_pool *p, uint64_t *last)
{
    uint64_t s = atomic_load(&p->state);
    while ((s & OPEN) && s >> JOB_SHIFT != *last) {
        if (atomic_compare_exchange_weak(&p->state, &s, s + 1)) {
            *last = s >> JOB_SHIFT;
            return true;
        }
    }
    return false;
}

static void leave(fy_pool *p)
{
    uint64_t s = atomic_fetch_sub(&p->state, 1) - 1;
    if (!(s & OPEN) && !(s & INSIDE_MASK) && atomic_load(&p->caller_sleeps)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->lock);
    }
}

static bool has_news(fy_pool *p, uint64_t last)
{
    uint64_t s = atomic_load(&p->state);
    return ((s & OPEN) && s >> JOB_SHIFT != last) || atomic_load(&p->stop);
}

static void wait_for_news(fy_pool *p, uint64_t last)
{
    for (int64_t end = p->spin_ns > 0 ? now_ns() + p->spin_ns : 0; end > 0;) {
        for (int i = 0; i < 16; i++) {
            if (has_news(p, last))
                return;
            cpu_relax();
        }
        if (now_ns() >= end)
            break;
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (!has_news(p, last))
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    fy_pool *p = w->pool;
    uint64_t last = 0;
    for (;;) {
        wait_for_news(p, last);
        if (atomic_load(&p->stop))
            return NULL;
        if (join(p, &last)) {
            work(p, w->index);
            leave(p);
        }
    }
}

static void wake_workers(fy_pool *p)
{
    if (atomic_load(&p->sleepers) == 0)
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static void wait_until_empty(fy_pool *p)
{
    for (int64_t end = p->spin_ns > 0 ? now_ns() + p->spin_ns : 0; end > 0;) {
        for (int i = 0; i < 16; i++) {
            if (!(atomic_load(&p->state) & INSIDE_MASK))
                return;
            cpu_relax();
        }
        if (now_ns() >= end)
            break;
    }
    pthread_mutex_lock(&p->lock);
    atomic_exchange(&p->caller_sleeps, true);
    while (atomic_load(&p->state) & INSIDE_MASK)
        pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->caller_sleeps, false);
    pthread_mutex_unlock(&p->lock);
}

void fy_pool_run(fy_pool *p, int64_t n_items, int64_t chunk, fy_pool_fn *fn, void *ctx)
{
    if (n_items <= 0)
        return;
    if (n_items <= chunk) {
        fn(ctx, 0, n_items, 0);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    p->n_items = n_items;
    p->chunk = chunk;
    share_out(p, n_items / chunk + (n_items % chunk != 0));
    if (p->n_workers == 0) {
        work(p, 0);
        return;
    }
    uint64_t job = (atomic_load(&p->state) >> JOB_SHIFT) + 1;
    atomic_exchange(&p->state, job << JOB_SHIFT | OPEN);
    wake_workers(p);
    work(p, 0);
    atomic_fetch_and(&p->state, ~OPEN);
    wait_until_empty(p);
}

/* Falls back to all CPUs of the machine. */
static int count_cpus(const fy_cpus *s)
{
    int n = fy_cpus_count(s);
    n = n > 0 ? n : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n;
}

static int available_cpus(void)
{
    const fy_cpus usable = fy_cpus_usable();
    return count_cpus(&usable);
}

int fy_default_threads(void)
{
    const fy_cpus usable = fy_cpus_usable();
    const fy_cpus fast = fy_cpus_fast(&usable, "/sys/devices/system/cpu");
    const int n = count_cpus(&fast);
    return n > MAX_DEFAULT ? MAX_DEFAULT : n;
}

/* Signals of the program go to the thread that waits for them; a thread's own faults reach it. */
static void block_signals(sigset_t *before)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&set, faults[i]);
    pthread_sigmask(SIG_BLOCK, &set, before);
}

int fy_thread_start(pthread_t *id, void *(*run)(void *), void *arg, fy_err *e)
{
    sigset_t before;
    block_signals(&before);
    int err = pthread_create(id, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err == 0 ? 0 : fy_fail(e, FY_ENOMEM, "cannot start a thread: %s", strerror(err));
}

fy_pool *fy_pool_new(int n_threads, fy_err *e)
{
    if (n_threads < 1 || n_threads > FY_THREADS_MAX) {
        fy_fail(e, FY_EARG, "%d threads, expected 1 to %d", n_threads, FY_THREADS_MAX);
        return NULL;
    }
    size_t shares = sizeof(fy_pool) + (size_t)n_threads * sizeof(share);
    size_t bytes = (shares + (size_t)(n_threads - 1) * sizeof(worker) + 63) & ~(size_t)63;
    fy_pool *p = aligned_alloc(64, bytes);
    if (p == NULL) {
        fy_nomem(e);
        return NULL;
    }
    memset(p, 0, bytes);
    p->n_threads = n_threads;
    p->workers = (worker *)(void *)((uint8_t *)p + shares);
    p->spin_ns = n_threads <= available_cpus()
                     ? SPIN_NS
                     : 0; /* spinning would only keep others off the CPU */
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    for (int i = 1; i < n_threads; i++) {
        worker *w = &p->workers[i - 1];
        *w = (worker){.pool = p, .index = i};
        if (fy_thread_start(&w->id, worker_main, w, e) != 0) {
            fy_ctx(e, "thread %d of %d (try fewer, -t)", i + 1, n_threads);
            fy_pool_free(p);
            return NULL;
        }
        p->n_workers = i;
    }
    return p;
}

void fy_pool_free(fy_pool *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_workers; i++)
        pthread_join(p->workers[i].id, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

int fy_pool_threads(const fy_pool *p)
{
    return p->n_threads;
}

int fy_pool_sleepers(const fy_pool *p)
{
    return atomic_load(&p->sleepers);
}
