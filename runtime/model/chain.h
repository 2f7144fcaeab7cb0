/* A model that was cut into chunks (arch/chunk_info.h), put together again: the embedding on the
 * CPU, and the graphs of its layers and lm_head on a device (backend/graph_backend.h).
 *
 * fy_model_chain makes the embedding chunk the whole model: sessions on it run graph after graph,
 * one session at a time. What the graphs are is the caller's to know (qnn/config.json says it);
 * they are checked against the model, and the files against what they should be. */
#ifndef FY_MODEL_CHAIN_H
#define FY_MODEL_CHAIN_H

#include <stdbool.h>

#include "arch/chunk_info.h"
#include "backend/graph_backend.h"

struct fy_model;

typedef struct {
    const char *path, *name; /* of its chunk's file; of the graph in it */
    uint32_t n_batch;
    uint32_t first_layer, end_layer; /* none: it is of the lm_head, with these tokens: */
    uint32_t first_token, end_token;
} fy_chain_graph_spec;

typedef struct {
    const fy_chain_graph_spec *graphs;
    size_t n_graphs;
    uint32_t n_cache, n_ctx; /* cache_size, context_size */
    float mask_value;
    const char *model; /* fy_chunk_info.model of the cut; "": not known */
} fy_chain_spec;

typedef struct {
    char *path;             /* owned */
    fy_chunk_info info;     /* kind and ranges */
    fy_graph_chunk *loaded; /* owned */
} fy_chain_chunk;

typedef struct {
    char *name; /* owned */
    size_t chunk;
    uint32_t n_batch;
} fy_chain_graph;

typedef struct fy_chain {
    fy_graph_device *device; /* owned */
    fy_chain_chunk *chunks;  /* owned */
    fy_chain_graph *graphs;  /* owned: those of layers, then those of the lm_head; of each, larger
                                batches first, then in order of layers or tokens */
    size_t n_chunks, n_graphs, n_layer_graphs;
    uint32_t n_cache, n_ctx;
    float mask_value;
    bool in_use; /* by a session */
} fy_chain;

/* m: the embedding chunk, or the whole model, of which the embedding is used then. The device
 * becomes the model's, or is closed on failure. */
int fy_model_chain(struct fy_model *m, fy_graph_device *device, const fy_chain_spec *spec,
                   fy_err *e);

void fy_chain_free(fy_chain *c); /* NULL is fine */

#endif
