/* Heap memory in two shapes.
 * Arena: many small allocations that die together. Blocks grow as needed; pointers stay valid until
 * fy_arena_release. Zero-initialise with fy_arena a = {0}. Not thread-safe.
 * fy_grow: arrays of unknown length. */
#ifndef FY_BASE_ARENA_H
#define FY_BASE_ARENA_H

#include <stddef.h>

typedef struct fy_arena_block fy_arena_block;
typedef struct {
    fy_arena_block *head; /* owned */
    size_t used, size;    /* of the head block, bytes */
    size_t total;         /* bytes taken from the system */
} fy_arena;

/* `n` bytes aligned to 16 and not cleared; NULL when out of memory. n == 0 gives a valid pointer.
 */
void *fy_arena_alloc(fy_arena *a, size_t n);

/* As fy_arena_alloc for an array of count * size bytes, cleared; NULL also when the product
 * overflows. */
void *fy_arena_calloc(fy_arena *a, size_t count, size_t size);

/* A NUL-terminated copy of s[0..n). */
char *fy_arena_strndup(fy_arena *a, const char *s, size_t n);

void fy_arena_release(fy_arena *a);

/* Makes room for one more item after the n that `items` holds. Returns the array, perhaps moved,
 * with room for *cap items of item_bytes. NULL when out of memory; the old array stays valid. */
void *fy_grow(void *items, size_t n, size_t *cap, size_t item_bytes);

#endif
