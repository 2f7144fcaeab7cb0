/* What a graph's mask shows, as attention on the CPU wants it. Columns get ranks: those of the
 * cache that some row shows, and those hidden from all in front of them, then the tokens of the
 * call. A row must show one run of ranks that ends with its own token. */
#ifndef FY_MODEL_GRAPH_MASK_H
#define FY_MODEL_GRAPH_MASK_H

#include "backend/backend_cpu.h"
#include "base/arena.h"

typedef struct {
    int32_t *slots;               /* [n_cache] the column of a rank */
    uint8_t *shown;               /* [n_cache] scratch */
    fy_place *at;                 /* [n_batch] the rank of a token of the call */
    int32_t *first;               /* [n_batch] the first rank that it sees */
    int64_t n_slots, first_shown; /* ranks of the cache; of them hidden from all */
} fy_graph_mask;

typedef struct {
    const char *name;     /* for messages */
    const uint16_t *bits; /* f16 [n_batch][n_ctx] */
    uint16_t hidden;      /* f16 */
    uint32_t n_batch, n_cache, n_ctx;
} fy_graph_mask_in;

void fy_graph_mask_lay_out(fy_graph_mask *m, uint32_t n_batch, uint32_t n_cache, fy_layout *c);
/* FY_EUNSUPPORTED for a mask that is none of those. */
int fy_graph_mask_read(fy_graph_mask *m, const fy_graph_mask_in *in, fy_err *e);

#endif
