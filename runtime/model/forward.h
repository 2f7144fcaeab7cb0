/* A session from the inside: tokens through the embedding, all layers, and the output matrix. */
#ifndef FY_MODEL_FORWARD_H
#define FY_MODEL_FORWARD_H

#include "model/chain_run.h"
#include "model/decoder.h"
#include "model/kv.h"
#include "model/rope.h"

struct fy_session {
    const fy_model *model; /* view */
    fy_decoder d;          /* its backend: owned; its activations: sized for n_batch */
    fy_chain_run *chain;   /* owned; NULL: the model is whole, and these two are in use: */
    fy_kv kv;
    fy_rope rope, rope_swa;
    int32_t *ids;     /* [n_batch], in `memory`, as all of the following */
    int32_t *pos;     /* [n_batch] where they stand in their sequence */
    int32_t *wanted;  /* [n_batch] tokens whose logits are asked for, ascending */
    float *logits;    /* [logit_rows][n_vocab] */
    uint32_t *n_past; /* [n_seq] */
    uint32_t *next;   /* [n_seq] n_past behind the steps of a call so far */
    uint32_t *end;    /* [n_seq] n_past when the call succeeds */
    uint8_t *memory;  /* owned */
    uint32_t n_ctx, n_batch, n_seq, logit_rows;
};

/* Runs the n <= n_batch tokens `ids`, which stand at d.act.at and `pos`, through all layers, the
 * last one only for those in `wanted` [n_wanted]: their residual stream behind it is d.act.x
 * [n_wanted], what the other activations held is lost. `first`: what the sinks call the first
 * token. A sink for the residual stream sees that of all n. */
int fy_forward(fy_session *s, uint32_t n, uint32_t n_wanted, uint32_t first,
               const fy_eval_sinks *sinks, fy_err *e);

/* logits [n][n_vocab] of the wanted tokens [first, first + n). d.act.h is lost. */
int fy_forward_logits(fy_session *s, uint32_t first, uint32_t n, float *logits, fy_err *e);

#endif
