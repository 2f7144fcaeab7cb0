/* Growing arrays on the heap. */
#ifndef FY_BASE_GROW_H
#define FY_BASE_GROW_H

#include <stddef.h>

/* Room for one more item behind the n that `items` holds: the array, at another address perhaps,
 * with *cap items of item_bytes each. NULL when out of memory; then the old array is as it was. */
void *fy_grow(void *items, size_t n, size_t *cap, size_t item_bytes);

#endif
