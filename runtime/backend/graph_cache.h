/* The KV cache as a graph has it (a tensor a head, keys transposed) into rows that attention reads.
 */
#ifndef FY_BACKEND_GRAPH_CACHE_H
#define FY_BACKEND_GRAPH_CACHE_H

#include "backend/backend_cpu.h"

typedef struct {
    void *const *cache; /* [n_head_kv][2]: keys [head_dim][n_slots], values [n_slots][head_dim_v] */
    int64_t n_slots;
    const int32_t *slots; /* [end] slot i becomes row i, those before `first` are left out */
    int64_t first, end;
} fy_graph_cache;

/* Elements are f32 or f16, those of the cache and of kv alike. */
void fy_backend_load_cache(fy_backend *b, const fy_kv_layer *kv, const fy_graph_cache *c);

#endif
