/* Texts that begin alike: sorted, so that the texts with a common beginning are one range, which a
 * walk narrows byte by byte. */
#include <stdlib.h>
#include <string.h>

#include "model/vocab/vocab_impl.h"

static int by_text(const void *pa, const void *pb)
{
    const fy_prefix_item *a = pa, *b = pb;
    size_t n = a->text.len < b->text.len ? a->text.len : b->text.len;
    int c = n > 0 ? memcmp(a->text.ptr, b->text.ptr, n) : 0;
    if (c != 0)
        return c;
    if (a->text.len != b->text.len)
        return a->text.len < b->text.len ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Both runs are sorted: [0, mid) and [mid, n) of `from` become one in `to`. */
static int merge(const fy_prefix_item *from, uint32_t mid, uint32_t n, fy_prefix_item *to,
                 fy_err *e)
{
    for (uint32_t i = 0, j = mid, k = 0; k < n; k++) {
        if (fy_vocab_poll(k, e) != 0)
            return -1;
        const bool left = j == n || (i < mid && by_text(&from[i], &from[j]) <= 0);
        to[k] = left ? from[i++] : from[j++];
    }
    return 0;
}

/* Runs that qsort takes little time for, then merged: a file may have millions of items, and the
 * user may interrupt. */
static int sort(fy_prefix_item *item, uint32_t n, fy_err *e)
{
    enum { RUN = 65536 };
    for (uint32_t i = 0; i < n; i += n - i < RUN ? n - i : RUN) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        qsort(item + i, n - i < RUN ? n - i : RUN, sizeof *item, by_text);
    }
    if (n <= RUN)
        return 0;
    fy_prefix_item *const other = malloc(n * sizeof *other);
    if (other == NULL)
        return fy_nomem(e);
    fy_prefix_item *from = item, *to = other;
    int rc = 0;
    for (uint64_t run = RUN; rc == 0 && run < n; run *= 2) {
        for (uint64_t i = 0; rc == 0 && i < n; i += 2 * run) {
            const uint32_t left = n - (uint32_t)i;
            const uint32_t mid = run < left ? (uint32_t)run : left;
            rc = merge(from + i, mid, 2 * run < left ? (uint32_t)(2 * run) : left, to + i, e);
        }
        fy_prefix_item *swap = from;
        from = to;
        to = swap;
    }
    if (rc == 0 && from != item)
        memcpy(item, from, n * sizeof *item);
    free(other);
    return rc;
}

int fy_prefixes_sort(fy_prefixes *p, fy_err *e)
{
    if (sort(p->item, p->n, e) != 0)
        return -1;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        if (n == 0 || !fy_span_eq(p->item[n - 1].text, p->item[i].text))
            p->item[n++] = p->item[i];
    }
    p->n = n;
    for (uint32_t b = 0, i = 0; b <= 256; b++) {
        p->first[b] = i;
        while (b < 256 && i < n && (uint8_t)p->item[i].text.ptr[0] == b)
            i++;
    }
    return 0;
}

static int byte_at(const fy_prefixes *p, uint32_t i, size_t depth)
{
    return (uint8_t)p->item[i].text.ptr[depth];
}

/* First item of [lo, hi) whose byte at `depth`, which all of them have, is at least b. */
static uint32_t lower_bound(const fy_prefixes *p, uint32_t lo, uint32_t hi, size_t depth, int b)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (byte_at(p, mid, depth) < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool fy_prefixes_step(const fy_prefixes *p, fy_prefix_walk *w, uint8_t byte, int32_t *id)
{
    if (w->depth == 0) {
        w->lo = p->first[byte];
        w->hi = p->first[byte + 1];
    } else {
        /* The text that ends here was reported by the step before. */
        w->lo += p->item[w->lo].text.len == w->depth;
        const bool one_byte =
            w->lo < w->hi && byte_at(p, w->lo, w->depth) == byte_at(p, w->hi - 1, w->depth);
        if (!one_byte || byte_at(p, w->lo, w->depth) != byte) {
            w->lo = one_byte ? w->hi : lower_bound(p, w->lo, w->hi, w->depth, byte);
            w->hi = one_byte ? w->hi : lower_bound(p, w->lo, w->hi, w->depth, byte + 1);
        }
    }
    w->depth++;
    bool ends = w->lo < w->hi && p->item[w->lo].text.len == w->depth;
    *id = ends ? p->item[w->lo].id : -1;
    return w->lo < w->hi;
}

size_t fy_prefixes_longest(const fy_prefixes *p, fy_span s, int32_t *id, size_t *work)
{
    fy_prefix_walk w = {0};
    size_t found = 0;
    int32_t here;
    while (w.depth < s.len && fy_prefixes_step(p, &w, (uint8_t)s.ptr[w.depth], &here)) {
        if (here >= 0) {
            found = w.depth;
            *id = here;
        }
    }
    *work += w.depth;
    return found;
}
