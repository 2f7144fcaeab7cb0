/* Arrays one behind the other in memory that is taken once: a function that carves runs twice,
 * first with base NULL, which only counts. */
#ifndef FY_MODEL_CARVER_H
#define FY_MODEL_CARVER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/math.h"

#define FY_CARVE_ALIGN 64

typedef struct {
    uint8_t *base; /* aligned to FY_CARVE_ALIGN; NULL: only `used` is found */
    uint64_t used;
    bool overflow; /* more than 64 bits count */
} fy_carver;

static inline void *fy_carve(fy_carver *c, uint64_t rows, uint64_t len, uint64_t element_bytes)
{
    uint64_t bytes, begin = c->used, end;
    if (!fy_mul_u64(rows, len, &bytes) || !fy_mul_u64(bytes, element_bytes, &bytes) ||
        !fy_add_u64(begin, bytes, &end) || !fy_align_u64(end, FY_CARVE_ALIGN, &c->used))
        c->overflow = true;
    return c->base != NULL && !c->overflow ? c->base + begin : NULL;
}

#endif
