/* Memory of weights that are not kept there: pages of the map of a file. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/backend_cpu.h"

enum {
    ASK_BYTES = 128 << 10,  /* of one request the system reads no more ahead */
    FAULT_BYTES = 64 << 10, /* what is in its cache around a page that is touched it maps, too */
};

typedef struct {
    uintptr_t begin, end;
} range;

/* first, last: with pages of which only a part belongs to it. */
static range pages_of(const void *p, size_t n, bool first, bool last)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)p, end = begin + n;
    range r = {(first ? begin : begin + page - 1) & ~(page - 1),
               (last ? end + page - 1 : end) & ~(page - 1)};
    r.end = r.end > r.begin ? r.end : r.begin;
    return r;
}

/* Advice: what the system does not know it refuses, and that changes nothing. */
static void advise(range r, int advice)
{
    if (r.end > r.begin)
        madvise((void *)r.begin, r.end - r.begin, advice);
}

static void page_out(range r)
{
#ifdef MADV_PAGEOUT
    advise(r, MADV_PAGEOUT);
#else
    (void)r;
#endif
}

void fy_paged_rows_drop(const fy_matrix *w)
{
    const size_t kept = (size_t)(w->n_rows - w->n_paged) * w->row_bytes;
    if (w->n_paged > 0)
        page_out(pages_of((const uint8_t *)w->data + kept, (size_t)w->n_paged * w->row_bytes, false,
                          false));
}

size_t fy_pages_bytes(const void *p, size_t n)
{
    const range r = pages_of(p, n, true, true);
    return r.end - r.begin;
}

void fy_pages_alone(const void *p, size_t n)
{
    advise(pages_of(p, n, true, true), MADV_RANDOM);
}

void fy_pages_ask(const void *p, size_t n)
{
    const range all = pages_of(p, n, true, true);
    for (range r = all; r.begin < all.end; r.begin = r.end) {
        r.end = all.end - r.begin > ASK_BYTES ? r.begin + ASK_BYTES : all.end;
        advise(r, MADV_WILLNEED);
    }
}

/* What came with the pages at its ends goes with them. Who may not write the file may only let go
 * of its pages: they stay in the system's cache, which gives them up when it needs memory. */
void fy_pages_drop(const void *p, size_t n, size_t before, size_t after)
{
    const uintptr_t unit = FAULT_BYTES;
    range r = pages_of(p, n, before > 0, after > 0);
    page_out(r);
    const range most = pages_of((const uint8_t *)p - before, before + n + after, false, false),
                around = {r.begin & ~(unit - 1), (r.end + unit - 1) & ~(unit - 1)};
    if (before > 0)
        r.begin = around.begin > most.begin ? around.begin : most.begin;
    if (after > 0)
        r.end = around.end < most.end ? around.end : most.end;
    advise(r, MADV_DONTNEED);
}
