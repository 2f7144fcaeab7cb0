#include "base/grow.h"

#include <stdlib.h>

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
