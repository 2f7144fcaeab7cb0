/* Memory of weights that are not kept there: pages of the map of a file. */
#include <fcntl.h>
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

void fy_paged_rows_drop(const fy_matrix *w)
{
#ifdef MADV_PAGEOUT
    const size_t kept = (size_t)(w->n_rows - w->n_paged) * w->row_bytes;
    if (w->n_paged > 0)
        advise(pages_of((const uint8_t *)w->data + kept, (size_t)w->n_paged * w->row_bytes, false,
                        false),
               MADV_PAGEOUT);
#else
    (void)w;
#endif
}

size_t fy_mapped_page_bytes(const fy_mapped *m)
{
    const range r = pages_of(m->p, m->n, true, true);
    return r.end - r.begin;
}

void fy_mapped_alone(const fy_mapped *m)
{
    advise(pages_of(m->p, m->n, true, true), MADV_RANDOM);
}

void fy_mapped_ask(const fy_mapped *m)
{
    const range all = pages_of(m->p, m->n, true, true);
    for (range r = all; r.begin < all.end; r.begin = r.end) {
        r.end = all.end - r.begin > ASK_BYTES ? r.begin + ASK_BYTES : all.end;
        advise(r, MADV_WILLNEED);
    }
}

/* The process lets go of them and of what came with the pages at their ends; then the system's
 * cache does. MADV_PAGEOUT does both, but takes 3.5 times as long and needs the right to write the
 * file. */
void fy_mapped_drop(const fy_mapped *m, size_t before, size_t after)
{
    const uintptr_t unit = FAULT_BYTES, begin = (uintptr_t)m->p;
    const range own = pages_of(m->p, m->n, before > 0, after > 0),
                most =
                    pages_of((const uint8_t *)m->p - before, before + m->n + after, false, false),
                around = {own.begin & ~(unit - 1), (own.end + unit - 1) & ~(unit - 1)};
    range r = own;
    if (before > 0)
        r.begin = around.begin > most.begin ? around.begin : most.begin;
    if (after > 0)
        r.end = around.end < most.end ? around.end : most.end;
    advise(r, MADV_DONTNEED);
    if (m->fd >= 0 && own.end > own.begin)
        posix_fadvise(m->fd, (off_t)(m->offset + own.begin - begin), (off_t)(own.end - own.begin),
                      POSIX_FADV_DONTNEED);
}
