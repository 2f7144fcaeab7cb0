/* A session's side of a chain: the memory of the graphs' tensors, and the calls, which any backend
 * gets the same way. A slot of the KV cache is a position and nothing in the cache ever moves:
 * before a call the masks show the slots that are filled, after a graph the keys and values of its
 * real tokens are put into the slots behind them ("smart mask"). A call has as many tokens as one
 * of the graphs' batch sizes; those it lacks are zeros, which no token before them sees and no slot
 * keeps.
 */
#ifndef FY_MODEL_CHAIN_RUN_H
#define FY_MODEL_CHAIN_RUN_H

#include "model/chain.h"

typedef struct fy_chain_run fy_chain_run;

typedef struct {
    uint32_t n, n_past;      /* tokens, at most fy_chain_max_batch; slots in use */
    const float *angles;     /* [n][n_rot] cos and sin of each pair */
    const float *angles_swa; /* of layers with the window where they turn otherwise, or NULL */
} fy_chain_call;

uint32_t fy_chain_max_batch(const fy_chain *c);

/* What fy_chain_run_new takes: the KV cache, and all other tensors with what the device works in.
 */
int fy_chain_run_bytes(const fy_chain *c, const fy_hparams *hp, fy_type kv, int n_threads,
                       uint64_t *kv_bytes, uint64_t *other_bytes, fy_err *e);

/* kv: FY_F16 or FY_F32. hp: of the model, which outlives the run. FY_EARG while the chain has
 * another one. */
fy_chain_run *fy_chain_run_new(fy_chain *c, const fy_hparams *hp, fy_type kv, int n_threads,
                               fy_err *e);
void fy_chain_run_free(fy_chain_run *r); /* NULL is fine */

/* Where the embedding of a call's tokens goes, [n][n_embd]. */
float *fy_chain_run_x(fy_chain_run *r);
/* Through all layers: what comes out of the last one, [n][n_embd], valid until the next call. NULL
 * on failure; the slots in use are what they were. */
float *fy_chain_run_layers(fy_chain_run *r, const fy_chain_call *call, fy_err *e);
/* logits [n][n_vocab] of any number of rows x [n][n_embd]: neither scaled nor capped. */
int fy_chain_run_head(fy_chain_run *r, const float *x, uint32_t n, float *logits, fy_err *e);

#endif
