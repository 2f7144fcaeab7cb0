/* Memory in three shapes.
 * Arena: many small allocations that die together. Blocks grow as needed; pointers stay valid until
 * fy_arena_release. Zero-initialise with fy_arena a = {0}. Not thread-safe.
 * Layout: arrays one after the other in memory that is taken once; a function that lays out runs
 * twice, first without memory, which only counts.
 * fy_grow, fy_append: arrays of unknown length. */
#ifndef FY_BASE_ARENA_H
#define FY_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct fy_arena_block fy_arena_block;
typedef struct {
    fy_arena_block *head; /* owned */
    uint64_t used, size;  /* of the head block, bytes */
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

#define FY_LAYOUT_ALIGN 64
typedef struct {
    uint8_t *base; /* aligned to FY_LAYOUT_ALIGN; NULL: only `used` is found */
    uint64_t used;
    bool overflow; /* more than 64 bits count */
} fy_layout;

/* The next array of rows * len elements; NULL without memory or after an overflow. */
void *fy_lay_out(fy_layout *l, uint64_t rows, uint64_t len, uint64_t element_bytes);

/* Makes room for one more item after the n that `items` holds. Returns the array, perhaps moved,
 * with room for *cap items of item_bytes. NULL when out of memory; the old array stays valid. */
void *fy_grow(void *items, size_t n, size_t *cap, size_t item_bytes);

/* Appends a copy of *item, of item_bytes, to the *n items of an array; `array` is the address of
 * the pointer to it. 0, or FY_ENOMEM and nothing has changed. */
int fy_append(void *array, size_t *n, size_t *cap, const void *item, size_t item_bytes, fy_err *e);

#endif
