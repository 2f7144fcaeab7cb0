/* A list of texts, the one that was used last first. */
#include "server/prefix_store.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct fy_prefix_store {
    size_t max_bytes, used;
    uint64_t evicted;
    fy_prefix *first, *last;
};

fy_prefix_store *fy_prefix_store_new(size_t max_bytes, fy_err *e)
{
    fy_prefix_store *s = calloc(1, sizeof *s);
    if (s == NULL)
        fy_nomem(e);
    else
        s->max_bytes = max_bytes;
    return s;
}

static size_t cost(uint32_t n, size_t n_bytes)
{
    return n_bytes + n * sizeof(int32_t) + sizeof(fy_prefix);
}

static void unlink_prefix(fy_prefix_store *s, fy_prefix *p)
{
    *(p->prev != NULL ? &p->prev->next : &s->first) = p->next;
    *(p->next != NULL ? &p->next->prev : &s->last) = p->prev;
}

static void put_first(fy_prefix_store *s, fy_prefix *p)
{
    p->prev = NULL;
    p->next = s->first;
    *(p->next != NULL ? &p->next->prev : &s->last) = p;
    s->first = p;
}

void fy_prefix_drop(fy_prefix_store *s, fy_prefix *p)
{
    unlink_prefix(s, p);
    s->used -= cost(p->n, p->n_bytes);
    free(p->ids);
    free(p->bytes);
    free(p);
}

void fy_prefix_store_free(fy_prefix_store *s)
{
    while (s != NULL && s->first != NULL)
        fy_prefix_drop(s, s->first);
    free(s);
}

static uint32_t common(const fy_prefix *p, const int32_t *ids, uint32_t most)
{
    uint32_t n = 0;
    most = most < p->n ? most : p->n;
    while (n < most && p->ids[n] == ids[n])
        n++;
    return n;
}

fy_prefix *fy_prefix_find(fy_prefix_store *s, int user, const int32_t *ids, uint32_t most,
                          uint32_t *n)
{
    fy_prefix *best = NULL;
    *n = 0;
    for (fy_prefix *p = s->first; p != NULL; p = p->next) {
        const uint32_t k = p->user == user ? common(p, ids, most) : 0;
        if (k > *n) {
            *n = k;
            best = p;
        }
    }
    if (best != NULL) {
        unlink_prefix(s, best);
        put_first(s, best);
    }
    return best;
}

void fy_prefix_erase(fy_prefix_store *s, int user, const int32_t *ids, uint32_t n, uint32_t least)
{
    for (fy_prefix *p = s->first, *next; p != NULL; p = next) {
        next = p->next;
        if (p->user == user && common(p, ids, n) >= least)
            fy_prefix_drop(s, p);
    }
}

/* Is the text there already? Those that it continues are dropped. */
static bool has_text(fy_prefix_store *s, int user, const int32_t *ids, uint32_t n)
{
    for (fy_prefix *p = s->first, *next; p != NULL; p = next) {
        next = p->next;
        const uint32_t k = p->user == user ? common(p, ids, n) : 0;
        if (k == n)
            return true;
        if (p->user == user && k == p->n)
            fy_prefix_drop(s, p);
    }
    return false;
}

fy_prefix *fy_prefix_add(fy_prefix_store *s, int user, const int32_t *ids, uint32_t n,
                         size_t n_bytes)
{
    const size_t more = cost(n, n_bytes);
    if (n == 0 || n_bytes > s->max_bytes || more > s->max_bytes || has_text(s, user, ids, n))
        return NULL;
    while (s->used > s->max_bytes - more) {
        fy_prefix_drop(s, s->last);
        s->evicted++;
    }
    fy_prefix *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    *p = (fy_prefix){.n = n, .user = user, .n_bytes = n_bytes};
    p->ids = malloc(n * sizeof *p->ids);
    p->bytes = malloc(n_bytes > 0 ? n_bytes : 1);
    if (p->ids == NULL || p->bytes == NULL) {
        free(p->ids);
        free(p->bytes);
        free(p);
        return NULL;
    }
    memcpy(p->ids, ids, n * sizeof *p->ids);
    s->used += more;
    put_first(s, p);
    return p;
}

size_t fy_prefix_store_bytes(const fy_prefix_store *s)
{
    return s->used;
}

uint64_t fy_prefix_store_evicted(const fy_prefix_store *s)
{
    return s->evicted;
}
