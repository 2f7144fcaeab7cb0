/* Arenas (a chain of blocks that grows at its head), layouts, and growing arrays. */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"

#ifndef FY_ARENA_BLOCK
#define FY_ARENA_BLOCK (64u << 10) /* test builds shrink it */
#endif

struct fy_arena_block {
    fy_arena_block *next; /* owned */
    size_t pad;           /* keeps data 16-byte aligned */
    unsigned char data[];
};

/* The next `bytes`, up to a multiple of `align`, of memory of which `used` are taken. False: they
 * do not fit. */
static bool take(uint64_t *used, uint64_t size, uint64_t bytes, uint64_t align, uint64_t *begin)
{
    uint64_t end;
    *begin = *used;
    if (!fy_add_u64(*used, bytes, &end) || !fy_align_u64(end, align, &end) || end > size)
        return false;
    *used = end;
    return true;
}

void *fy_lay_out(fy_layout *l, uint64_t rows, uint64_t len, uint64_t element_bytes)
{
    uint64_t bytes, begin = 0;
    if (!fy_mul_u64(rows, len, &bytes) || !fy_mul_u64(bytes, element_bytes, &bytes) ||
        !take(&l->used, UINT64_MAX, bytes, FY_LAYOUT_ALIGN, &begin))
        l->overflow = true;
    return l->base != NULL && !l->overflow ? l->base + begin : NULL;
}

void *fy_arena_alloc(fy_arena *a, size_t n)
{
    uint64_t at = 0;
    if (n > SIZE_MAX / 2)
        return NULL;
    n = n > 0 ? (n + 15) & ~(size_t)15 : 16;
    if (a->head == NULL || !take(&a->used, a->size, n, 16, &at)) {
        size_t size = n > FY_ARENA_BLOCK / 4 ? n : FY_ARENA_BLOCK;
        fy_arena_block *b = malloc(sizeof *b + size);
        if (b == NULL)
            return NULL;
        a->total += size;
        if (size == n && a->head != NULL) { /* a large one must not waste the rest of the head */
            b->next = a->head->next;
            a->head->next = b;
            return b->data;
        }
        b->next = a->head;
        a->head = b;
        a->size = size;
        a->used = n;
        at = 0;
    }
    return a->head->data + at;
}

void *fy_arena_calloc(fy_arena *a, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        return NULL;
    void *p = fy_arena_alloc(a, n);
    if (p != NULL)
        memset(p, 0, n);
    return p;
}

char *fy_arena_strndup(fy_arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX)
        return NULL;
    char *p = fy_arena_alloc(a, n + 1);
    if (p != NULL) {
        if (n > 0)
            memcpy(p, s, n);
        p[n] = '\0';
    }
    return p;
}

void fy_arena_release(fy_arena *a)
{
    for (fy_arena_block *b = a->head; b != NULL;) {
        fy_arena_block *next = b->next;
        free(b);
        b = next;
    }
    *a = (fy_arena){0};
}

void *fy_grow(void *items, size_t n, size_t *cap, size_t item_bytes)
{
    if (n < *cap)
        return items;
    size_t more, bytes;
    if (__builtin_mul_overflow(*cap > 0 ? *cap : 8, (size_t)2, &more) ||
        __builtin_mul_overflow(more, item_bytes, &bytes))
        return NULL;
    void *p = realloc(items, bytes);
    if (p != NULL)
        *cap = more;
    return p;
}

int fy_append(void *array, size_t *n, size_t *cap, const void *item, size_t item_bytes, fy_err *e)
{
    char *items;
    memcpy(&items, array, sizeof items);
    items = fy_grow(items, *n, cap, item_bytes);
    if (items == NULL)
        return fy_nomem(e);
    memcpy(items + (*n)++ * item_bytes, item, item_bytes);
    memcpy(array, &items, sizeof items);
    return 0;
}
