#include "cli/measure/read_speed.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"

/* One thread that reads from one place to the next waits for page walks and for the prefetcher at
 * every page; several streams and huge pages give up to twice the rate, which is what the memory
 * can do and no decoding exceeds. */
enum { CHUNK = 1 << 20, STREAMS = 4, HUGE_PAGE = 2 << 20 };

typedef uint64_t words __attribute__((vector_size(32)));

typedef struct {
    const uint8_t *p;
    uint64_t *sum; /* per thread; keeps the loads alive */
} reader;

static uint64_t sum_chunk(const uint8_t *p)
{
    enum { STEP = CHUNK / STREAMS / sizeof(words) };
    const words *w = (const words *)(const void *)p;
    words a[STREAMS] = {{0}};
    for (size_t k = 0; k < STEP; k += 2) {
        for (size_t i = 0; i < STREAMS; i++)
            a[i] += w[k + i * STEP] + w[k + 1 + i * STEP];
    }
    for (size_t i = 1; i < STREAMS; i++)
        a[0] += a[i];
    return a[0][0] + a[0][1] + a[0][2] + a[0][3];
}

static void read_chunks(void *ctx, int64_t begin, int64_t end, int thread)
{
    const reader *r = ctx;
    for (int64_t i = begin; i < end; i++)
        r->sum[thread] += sum_chunk(r->p + (size_t)i * CHUNK);
}

static int read_rounds(fy_pool *pool, reader *r, unsigned n_chunks, double seconds, double *best,
                       fy_err *e)
{
    double end = fy_now_s() + seconds, bytes = (double)n_chunks * (double)CHUNK;
    *best = 0;
    do {
        double begin = fy_now_s();
        fy_pool_run(pool, n_chunks, 1, read_chunks, r);
        double took = fy_now_s() - begin, now = took > 0 ? bytes / took : 0;
        *best = now > *best ? now : *best;
        if (fy_check_interrupt(e) != 0)
            return -1;
    } while (fy_now_s() < end);
    return 0;
}

int fy_read_speed(int n_threads, unsigned megabytes, double seconds, double *rate, fy_err *e)
{
    fy_pool *pool = fy_pool_new(n_threads, e);
    if (pool == NULL)
        return -1;
    const size_t bytes = ((size_t)megabytes * CHUNK + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uint8_t *p = aligned_alloc(HUGE_PAGE, bytes);
    uint64_t *sum = calloc((size_t)n_threads, sizeof *sum);
    int rc = p != NULL && sum != NULL ? 0 : fy_nomem(e);
    double best = 0;
    if (rc == 0) {
        madvise(p, bytes, MADV_HUGEPAGE); /* where there are none, the rate is lower */
        memset(p, 1, bytes);
        rc = read_rounds(pool, &(reader){p, sum}, megabytes, seconds, &best, e);
    }
    if (rc == 0)
        *rate = best;
    free(sum);
    free(p);
    fy_pool_free(pool);
    return rc;
}
