/* One chunk of a cut model becomes a context binary, in a process of its own.
 *
 *     fy_compile_compose(&job, false, &g, e)     the graphs, from headers alone
 *     fy_compile_encode(&g, ranges, e)           their encodings
 *     fy_compile_chunk(&job, &g, &answer, e)     the binary and its sidecar
 *     fy_compile_release(&g)
 *
 * The binary is NAME.bin.part until it and its sidecar are on the disk. */
#ifndef FY_WORKSPACE_COMPILE_CHUNK_H
#define FY_WORKSPACE_COMPILE_CHUNK_H

#include "model/model.h"
#include "workspace/compile/qencode.h"
#include "workspace/npu/npu_plan.h"

typedef struct {
    const char *gguf;    /* the chunk */
    const char *out;     /* OUT/qnn/NAME.bin */
    const char *library; /* path of the QNN library; NULL: graphs are only composed */
    const char *library_sha256;
    const fy_soc *soc;
    const fy_npu_recipe *recipe;
    const fy_q_ranges *ranges; /* NULL: no graph needs any */
    const fy_gguf *inputs;     /* rows to try scales on (qinputs.h); NULL: none are tried */
    const char *inputs_sha256; /* of that file */
    uint32_t n_candidates;
    const char *name[FY_NPU_BATCHES]; /* of the graphs */
    uint32_t batch[FY_NPU_BATCHES];   /* largest first */
    uint32_t n_graphs, n_cache, n_ctx, kv_bits;
    bool no_sharing; /* each graph keeps weights of its own */
    int n_threads;   /* that encode weights */
} fy_compile_job;

/* Of a chip of which it is unknown, the least that chips with 16-bit floats have. */
static inline uint32_t fy_compile_vtcm_mb(const fy_soc *soc)
{
    return soc->vtcm_mb > 0 ? soc->vtcm_mb : 8;
}

/* --- the graphs of a chunk -------------------------------------------------------------------- */

typedef struct {
    fy_model *model; /* owned */
    fy_qgraph graph[FY_NPU_BATCHES];
    fy_q_encodings encodings[FY_NPU_BATCHES];
    uint32_t n;
} fy_compile_graphs;

/* rope_nodes: for a library that refuses RotaryEmbedding. */
int fy_compile_compose(const fy_compile_job *job, bool rope_nodes, fy_compile_graphs *out,
                       fy_err *e);
int fy_compile_encode(fy_compile_graphs *g, const fy_q_ranges *ranges, fy_err *e);
void fy_compile_release(fy_compile_graphs *g);

typedef struct {
    uint32_t n_nodes; /* of all graphs */
    uint64_t weights; /* bytes in the binary; once when the graphs share them */
    uint64_t binary;  /* bytes, with code and tables of the operations */
    uint64_t memory;  /* bytes that the library takes */
    bool shared;
} fy_compile_count; /* estimates: npu_ops.h */

/* Has any of the tensors a fixed type whose range calibration finds? */
bool fy_compile_needs_ranges(const fy_compile_graphs *g);

/* Do the graphs of the binary share their weights? */
bool fy_compile_shares(const fy_compile_job *job);
void fy_compile_count_of(const fy_compile_graphs *g, const fy_compile_job *job,
                         fy_compile_count *out);

/* --- the binary ------------------------------------------------------------------------------- */

typedef struct {
    uint64_t bytes, peak_bytes; /* of the binary; memory of the process */
    double seconds;
    uint32_t n_nodes;
    bool rope_nodes;            /* rotation took six nodes */
    char build_id[64];          /* of the library */
    bool kept;                  /* it was there already, and nothing was done */
    fy_q_loss weights, outputs; /* of fy_q_emitted */
} fy_compiled;

/* Sets out->kept when the binary that this would make is there. */
int fy_compile_find(const fy_compile_job *job, const fy_compile_graphs *g, fy_compiled *out,
                    fy_err *e);
/* FY_EUNSUPPORTED lists every kind of node that the library refuses; FY_EDEVICE: it crashed, hung
 * or failed. */
int fy_compile_chunk(const fy_compile_job *job, const fy_compile_graphs *g, fy_compiled *out,
                     fy_err *e);

#endif
