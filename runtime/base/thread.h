/* A pool of threads that splits rows, never a reduction: every result is computed whole by one
 * thread, so results do not depend on the number of threads or their timing.
 *
 * Life: fy_pool_new starts n - 1 threads (the caller is thread 0); fy_pool_run hands out [0,
 * n_items) in chunks and returns when all are done; fy_pool_free joins. One fy_pool_run at a time
 * per pool. The threads may run where the thread that made the pool may (fy_cpus_pin). A pool
 * without work sleeps: its threads spin for some 40 us after a job, then wait in the kernel. */
#ifndef FY_BASE_THREAD_H
#define FY_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "base/err.h"

#define FY_THREADS_MAX 256

typedef struct fy_pool fy_pool;

/* n_threads 1..FY_THREADS_MAX; 1 starts none. NULL on failure. */
fy_pool *fy_pool_new(int n_threads, fy_err *e);
void fy_pool_free(fy_pool *p); /* NULL is fine */
int fy_pool_threads(const fy_pool *p);
int fy_pool_sleepers(const fy_pool *p); /* threads that wait in the kernel now */

/* Work on items [begin, end); `thread` in 0..n_threads-1 picks per-thread scratch. */
typedef void fy_pool_fn(void *ctx, int64_t begin, int64_t end, int thread);

/* Calls fn for chunks of at most `chunk` (>= 1) items until [0, n_items) is covered exactly once.
 * Each thread begins with adjacent chunks, which is good for caches, and then helps the others:
 * slow threads take fewer. Everything fn wrote is visible to the caller afterwards.
 */
void fy_pool_run(fy_pool *p, int64_t n_items, int64_t chunk, fy_pool_fn *fn, void *ctx);

/* Threads to use when the user does not say: the fast CPUs (fy_cpus_fast) of those that the calling
 * thread may run on, at most 16. Where they run is left to the system's scheduler, which moves busy
 * threads to fast cores by itself and knows which of them are hot or taken. */
int fy_default_threads(void);

/* A thread of its own, to which the program's signals do not go; for pthread_join. */
int fy_thread_start(pthread_t *id, void *(*run)(void *), void *arg, fy_err *e);

#endif
