/* How many chunks a model must be cut into for an NPU, and whether they fit: everything in bytes,
 * from a header alone. docs/npu.md derives each number; figures that were not measured but follow
 * from published sizes are marked there.
 *
 *     fy_npu_model_of(&m, gguf, e)           which matrices there are
 *     fy_npu_plan_make(&m, &params, &p, e)   cut, counted, compared with the limits of the chip
 *     if (!p.fits) fy_npu_suggest(...)       the cheapest change with which it fits
 *
 * Nothing here reads a clock, a file or the machine: same input, same plan. */
#ifndef FY_WORKSPACE_NPU_PLAN_H
#define FY_WORKSPACE_NPU_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "format/gguf.h"
#include "workspace/npu/npu_recipe.h"
#include "workspace/npu/soc_table.h"

/* --- the model -------------------------------------------------------------------------------- */

typedef struct {
    fy_slot slot;
    uint32_t layer; /* of no meaning for tensors of the whole model */
    bool per_layer, matrix;
    uint64_t n_out, n_in; /* rows and row length; a vector has one row */
    uint64_t file_bytes;  /* in the type it has in the file */
} fy_npu_tensor;

typedef struct {
    const fy_family *family; /* view of a static table */
    fy_hparams hp;
    fy_npu_tensor *tensors; /* owned: those of the whole model, then layer by layer */
    size_t n_tensors;
    bool tied;           /* the output matrix is the embedding */
    uint64_t file_bytes; /* of all tensors */
} fy_npu_model;

/* FY_EUNSUPPORTED for families whose graphs are not fixed (fy_cut_refusal). header may have no
 * data. */
int fy_npu_model_of(fy_npu_model *m, const fy_gguf *header, fy_err *e);
void fy_npu_model_release(fy_npu_model *m);

/* --- the plan --------------------------------------------------------------------------------- */

#define FY_NPU_BATCHES 8
#define FY_NPU_CHUNKS  1024
#define FY_NPU_HEADS   256

typedef struct {
    const fy_soc *soc;           /* view */
    const fy_npu_recipe *recipe; /* view */
    uint32_t n_ctx; /* columns of the attention; the cache has the largest batch less */
    uint32_t batch[FY_NPU_BATCHES], n_batches; /* each once, largest first */
    uint32_t n_chunks;                         /* 0: as few as fit */
    uint32_t kv_bits;                          /* 0: the recipe's */
    uint32_t n_layers;                         /* the first so many alone; 0: all */
    uint64_t memory_bytes;                     /* of the device; 0: the chip's */
} fy_npu_params;

/* A context binary: a range of layers, or a slice of the lm_head. */
typedef struct {
    uint32_t first_layer, end_layer; /* of a slice: equal */
    uint32_t first_token, end_token; /* of a chunk: equal */
    uint64_t weights;      /* as the recipe has them; once per batch size without weight sharing */
    uint64_t op_bytes;     /* code and tables of the operations, of all graphs: estimated */
    uint64_t file_bytes;   /* weights + op_bytes: the context binary */
    uint64_t io_bytes;     /* of the largest graph, KV cache included; smaller ones share it */
    uint64_t kv_bytes;     /* the KV cache of these layers: part of io_bytes */
    uint64_t scratch;      /* spill-fill: activations that do not fit VTCM; estimated */
    uint64_t bytes;        /* file_bytes + io_bytes + scratch: what it takes of its session */
    uint64_t compile_peak; /* memory of the PC that compiles it; estimated */
    uint32_t session;      /* first fit, in order */
} fy_npu_chunk;

typedef enum {
    FY_NPU_LIMIT_NONE,
    FY_NPU_LIMIT_LAYER,    /* one layer alone, or any slice of the lm_head, is
                              more than a context or a binary may have */
    FY_NPU_LIMIT_CHUNKS,   /* the chunks asked for are too large */
    FY_NPU_LIMIT_SESSIONS, /* all chunks together are more than the sessions hold */
    FY_NPU_LIMIT_MEMORY,   /* ... than the device has */
    FY_NPU_LIMIT_CONTEXT,  /* the batch leaves no room for a cache, or beyond the trained context */
    FY_NPU_LIMIT_VTCM,     /* one row of an operation does not fit */
    FY_NPU_LIMIT_FLOOR,    /* the architecture cannot do it: fy_npu_recipe_check */
} fy_npu_limit;

typedef struct {
    fy_npu_params params;         /* every 0 replaced */
    uint32_t n_cache;             /* positions that can be used: n_ctx less the largest batch */
    fy_npu_chunk *chunks, *heads; /* owned */
    uint32_t n_chunks, n_heads;
    uint32_t n_sessions;      /* used */
    uint64_t embedding;       /* on the CPU, bytes in the file's type */
    uint64_t weights, io, kv; /* sums over all chunks */
    uint64_t npu_peak;        /* memory of the phone when all of it runs on the NPU */
    uint64_t cpu_peak; /* when the CPU runs it instead: the file's pages, f16 KV cache of n_ctx,
                          scratch of 512 tokens */
    uint64_t compile_peak, compile_seconds; /* of the largest chunk; of all of them; estimated */
    bool weights_shared;                    /* the graphs of a context share them */
    bool fits;
    fy_npu_limit limit; /* the first one that it breaks */
    fy_err why;         /* what was found and what may be; code FY_EFIT */
} fy_npu_plan;

/* The layers' chunks, then the slices of the lm_head: i below n_chunks + n_heads. */
static inline fy_npu_chunk *fy_npu_chunk_at(const fy_npu_plan *p, uint32_t i)
{
    return i < p->n_chunks ? &p->chunks[i] : &p->heads[i - p->n_chunks];
}

/* Default context: 2048, or the model's trained context if that is shorter. */
uint32_t fy_npu_default_ctx(const fy_hparams *hp);

/* FY_EARG for parameters that mean nothing (a batch of 0, more chunks than layers). A plan that
 * does not fit is not a failure: out->fits is false, and the rest is filled as far as it could be
 * counted. */
int fy_npu_plan_make(const fy_npu_model *m, const fy_npu_params *p, fy_npu_plan *out, fy_err *e);
void fy_npu_plan_release(fy_npu_plan *p);
/* Only whether it fits: cheap enough to call in a search. */
int fy_npu_plan_fits(const fy_npu_model *m, const fy_npu_params *p, bool *fits, fy_err *e);

/* --- what would fit --------------------------------------------------------------------------- */

typedef enum {
    FY_NPU_CHANGE_CHUNKS,  /* the chunks as few as fit, instead of the number asked for */
    FY_NPU_CHANGE_CONTEXT, /* -c */
    FY_NPU_CHANGE_KV,      /* --kv-bits */
    FY_NPU_CHANGE_BATCH,   /* fewer batch sizes, or a smaller one */
    FY_NPU_CHANGE_RECIPE,
    FY_NPU_CHANGE_LAYERS, /* no change of this model: a smaller one of the same shape */
    FY_NPU_CHANGE_COUNT,
} fy_npu_change;

typedef struct {
    bool found;
    bool changed[FY_NPU_CHANGE_COUNT];
    fy_npu_params params; /* with these it fits */
} fy_npu_suggestion;

/* Tries single changes, cheapest first (in the order of fy_npu_change), then pairs and so on; fewer
 * layers only where no set of the others does. Of a quantity the value nearest to what was asked
 * for; of contexts multiples of 128, and one below a quarter of what was asked for only where no
 * set of changes does with more. recipes: those that may be suggested, but for those that were
 * published for one model; NULL: none. A plan that fits is found as it is. */
int fy_npu_suggest(const fy_npu_model *m, const fy_npu_params *p, const fy_npu_recipes *recipes,
                   fy_npu_suggestion *out, fy_err *e);
/* The option that makes a change, "-c"; appends its value. */
const char *fy_npu_change_option(fy_npu_change c, const fy_npu_params *p, fy_str *value);
/* Appends the options: "-c 1024", "--recipe lpbq-64 -c 1024", "at most 27 of 80 layers would fit".
 */
void fy_npu_suggestion_text(const fy_npu_suggestion *s, const fy_npu_model *m, fy_str *out);

#endif
