/* A model that was cut into chunks (arch/chunk_info.h), put together again: the embedding on the
 * CPU, and the graphs of its layers and lm_head on a device (backend/graph_backend.h).
 *
 * fy_model_chain makes the embedding chunk the whole model: sessions on it run graph after graph,
 * one session at a time. The caller describes the graphs (from qnn/config.json); the description is
 * checked against the model, and the files against the description. */
#ifndef FY_MODEL_CHAIN_H
#define FY_MODEL_CHAIN_H

#include <stdbool.h>

#include "arch/graph_io.h"
#include "backend/backend_cpu.h"
#include "backend/graph_backend.h"
#include "base/file.h"
#include "model/model.h"

struct fy_model;

typedef struct {
    const char *path, *name;       /* of the chunk's file; of the graph in it */
    const char *x_name, *out_name; /* of its x, and its out or logits, where a backend describes its
                                      tensors; NULL: those */
    uint32_t n_batch;
    uint32_t first_layer, end_layer; /* empty: a graph of the lm_head, with these tokens: */
    uint32_t first_token, end_token;
} fy_chain_graph_spec;

/* Tokens that texts begin with, computed before the graphs were compiled: what the caches hold of
 * them, in floats. Without them in its ranges an encoding is finer: the first tokens of many models
 * have activations a thousand times larger than those of all others. */
typedef struct {
    uint32_t n;             /* 0: there is none */
    int32_t *ids;           /* NULL: not known; every text goes on after them */
    float **keys, **values; /* [n_layer * n_head_kv], each [n][head_dim] and [n][head_dim_v] */
    size_t n_pairs;
} fy_chain_preset;

void fy_chain_preset_release(fy_chain_preset *p); /* of memory from malloc */

typedef struct {
    const fy_chain_graph_spec *graphs;
    size_t n_graphs;
    uint32_t n_cache, n_ctx; /* cache_size, context_size */
    float mask_value;
    const char *model;       /* fy_chunk_info.model of the cut; "": not known */
    bool rotate_keys;        /* the graphs multiply keys by the Hadamard matrix */
    fy_chain_preset *preset; /* becomes the chain's, and is zeroed; NULL: none */
} fy_chain_spec;

typedef struct {
    char *path;             /* owned */
    fy_chunk_info info;     /* kind and ranges */
    fy_graph_chunk *loaded; /* owned */
} fy_chain_chunk;

typedef struct {
    char *name;              /* owned */
    char *x_name, *out_name; /* owned; NULL: as arch/graph_io.h has them */
    size_t chunk;
    uint32_t n_batch;
} fy_chain_graph;

typedef struct fy_chain {
    fy_graph_device *device; /* owned */
    fy_chain_chunk *chunks;  /* owned */
    fy_chain_graph *graphs;  /* owned: those of layers, then those of the lm_head; of each, larger
                                batches first, then in order of layers or tokens */
    size_t n_chunks, n_graphs, n_layer_graphs; /* no others: the CPU computes the lm_head */
    uint32_t n_cache, n_ctx;
    float mask_value;
    uint16_t shows, hides; /* words of a mask: f16, or codes */
    bool fixed;            /* the graphs fix what their caches, or states, are made of: kv */
    fy_element kv;
    bool rotate_keys;       /* fy_chain_spec.rotate_keys */
    bool coded;             /* activations are fixed, so that their ranges matter */
    fy_chain_preset preset; /* owned */
    bool in_use;            /* by a session */
} fy_chain;

/* m: the embedding chunk, or the whole model, of which the embedding is used then. The device
 * becomes the model's, or is closed on failure. */
int fy_model_chain(struct fy_model *m, fy_graph_device *device, const fy_chain_spec *spec,
                   fy_err *e);

void fy_chain_free(fy_chain *c); /* NULL is fine */

/* --- a session's side: the memory of the graphs' tensors, and the calls, which any backend gets
 * the same way. A slot of the KV cache is a position and nothing in the cache ever moves, but the
 * path of a tree that became text: before a call the masks show the slots that are filled, after a
 * graph the keys and values of its real tokens are put into the slots after them ("smart mask"). A
 * call has as many tokens as one of the graphs' batch sizes; those it lacks are zeros, which no
 * token before them sees and no slot keeps --- */

typedef struct fy_chain_run fy_chain_run;

typedef struct {
    uint32_t n, n_past;        /* tokens, at most fy_chain_max_batch; slots in use */
    const fy_token_tree *tree; /* that the tokens are nodes of: node i goes to slot n_past + i;
                            NULL: they follow one another */
    const float *angles;       /* [n][n_rot] cos and sin of each pair */
    const float *angles_swa; /* of layers with the window where they rotate differently, or NULL */
    const float *angles_q;   /* of queries where they are scaled by their position, or NULL */
    fy_hidden_sink *show;    /* sees what enters each chunk and what leaves the last; NULL: none */
    void *user;              /* of show */
    uint32_t first;          /* what show calls the first token */
    uint8_t state_from, state_to; /* which of two states, 0 and 1, the call goes on from and which
                                     one it makes, of layers with states; equal: it goes on from
                                     the call before, and the other one stays */
} fy_chain_call;

uint32_t fy_chain_max_batch(const fy_chain *c);
/* Positions that a preset of unknown tokens takes from every text: its first token has this one. */
uint32_t fy_chain_first_position(const fy_chain *c);
/* Does the CPU compute the lm_head, with the model's own weights? */
bool fy_chain_lacks_head(const fy_chain *c);

/* What fy_chain_run_new takes: the KV cache, and all other tensors with what the device works in.
 */
int fy_chain_run_bytes(const fy_chain *c, const fy_hparams *hp, fy_type kv, int n_threads,
                       uint64_t *kv_bytes, uint64_t *other_bytes, fy_err *e);

/* kv: FY_F16 or FY_F32, of no meaning where the graphs fix it. hp: of the model, which outlives the
 * run. FY_EARG while the chain has another one. */
fy_chain_run *fy_chain_run_new(fy_chain *c, const fy_hparams *hp, fy_type kv, int n_threads,
                               fy_err *e);
void fy_chain_run_free(fy_chain_run *r); /* NULL is fine */

/* Where the embedding of a call's tokens goes, [n][n_embd]. */
float *fy_chain_run_x(fy_chain_run *r);
/* Through all layers: what comes out of the last one, [n][n_embd], valid until the next call. NULL
 * on failure; the slots in use are what they were. */
float *fy_chain_run_layers(fy_chain_run *r, const fy_chain_call *call, fy_err *e);
/* Slots n_past + path[i] become n_past + i, path ascending. */
void fy_chain_run_keep(fy_chain_run *r, uint32_t n_past, const int32_t *path, uint32_t n);
/* A session's run; NULL: it computes the whole model. */
struct fy_session;
const fy_chain_run *fy_session_chain(const struct fy_session *s);
bool fy_session_on_npu(const struct fy_session *s); /* has it graphs, and not on the CPU? */
/* How often graphs of a chunk ran since the run was made, and how long that took. */
typedef struct {
    uint64_t n_calls;
    double seconds;
} fy_chain_time;
fy_chain_time fy_chain_run_time(const fy_chain_run *r, size_t chunk);
/* Fills the first slots with the preset. */
void fy_chain_run_preset(fy_chain_run *r);
/* Keys [n][head_dim] or values [n][head_dim_v] of n slots from fy_chain_first_position on, as the
 * graphs made them, in floats. */
void fy_chain_run_cached(const fy_chain_run *r, uint32_t layer, uint32_t head, bool values,
                         uint32_t n, float *out);
/* logits [n][n_vocab] of any number of rows x [n][n_embd]: neither scaled nor capped. */
int fy_chain_run_head(fy_chain_run *r, const float *x, uint32_t n, float *logits, fy_err *e);

/* Memory of the device, or where it has none of its own, of the process. */
void *fy_graph_take(fy_graph_device *d, uint64_t bytes, fy_err *e);
void fy_graph_give(fy_graph_device *d, void *memory); /* NULL is fine */

/* --- graph_cpu.c: the CPU in place of an NPU --- */

#define FY_GRAPH_CPU_NAME "chunks"
/* map: how the chunk files are mapped (fy_model_open_as). NULL on failure. */
fy_graph_device *fy_graph_cpu_open(const fy_map_options *map, fy_err *e);

/* For every device that reads GGUF chunks: the file, when it is the chunk that it should be (NULL
 * on failure), and whether a graph's tensors are those of arch/graph_io.h. */
struct fy_model *fy_graph_open_chunk(const fy_graph_file *f, const fy_map_options *map, fy_err *e);
int fy_graph_check_tensors(const fy_graph_shape *shape, const fy_graph_binding *b, fy_err *e);

#endif
