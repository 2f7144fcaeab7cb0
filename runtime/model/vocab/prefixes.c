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

void fy_prefixes_sort(fy_prefixes *p)
{
    if (p->n > 0)
        qsort(p->item, p->n, sizeof *p->item, by_text);
    uint32_t i = 0;
    for (uint32_t b = 0; b < 256; b++) {
        while (i < p->n && p->item[i].text.len == 0)
            i++;
        p->first[b] = i;
        while (i < p->n && (uint8_t)p->item[i].text.ptr[0] == b)
            i++;
    }
    p->first[256] = i;
}

/* First item of [lo, hi) whose byte at `depth`, which all of them have, is at least b. */
static uint32_t lower_bound(const fy_prefixes *p, uint32_t lo, uint32_t hi, size_t depth, int b)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if ((uint8_t)p->item[mid].text.ptr[depth] < b)
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
        /* Texts that end here were reported by the step before; of equal ones all do. */
        while (w->lo < w->hi && p->item[w->lo].text.len == w->depth)
            w->lo++;
        w->lo = lower_bound(p, w->lo, w->hi, w->depth, byte);
        w->hi = lower_bound(p, w->lo, w->hi, w->depth, byte + 1);
    }
    w->depth++;
    bool ends = w->lo < w->hi && p->item[w->lo].text.len == w->depth;
    *id = ends ? p->item[w->lo].id : -1;
    return w->lo < w->hi;
}

size_t fy_prefixes_longest(const fy_prefixes *p, fy_span s, int32_t *id)
{
    fy_prefix_walk w = {0};
    size_t found = 0;
    int32_t here;
    for (size_t i = 0; i < s.len && fy_prefixes_step(p, &w, (uint8_t)s.ptr[i], &here); i++) {
        if (here >= 0) {
            found = i + 1;
            *id = here;
        }
    }
    return found;
}
