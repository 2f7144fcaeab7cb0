/* The decoder graph and the memory it works in. One graph for all families: the family's traits and
 * the slots that are bound decide what is computed. */
#ifndef FY_MODEL_FORWARD_H
#define FY_MODEL_FORWARD_H

#include "model/kv.h"
#include "model/moe.h"
#include "model/rope.h"
#include "model/weights.h"

/* Activations of a batch of n tokens, row by row; sized for n_batch. */
typedef struct {
    int32_t *ids;      /* [n] */
    fy_place *at;      /* [n] where the tokens stand */
    int32_t *pos;      /* [n] the positions alone */
    int32_t *wanted;   /* [n] tokens whose logits are asked for, ascending */
    float *x;          /* [n][n_embd] the residual stream */
    float *h;          /* [n][n_embd] x, normed */
    float *h_ffn;      /* [n][n_embd] the same for the feed-forward network of a parallel block */
    float *branch;     /* [n][n_embd] what a block adds to x */
    float *q;          /* [n][n_head * head_dim] */
    float *k;          /* [n][n_head_kv * head_dim] */
    float *v;          /* [n][n_head_kv * head_dim_v] */
    float *att;        /* [n][n_head * head_dim_v] */
    float *gate;       /* [n][ff_len] */
    float *up;         /* [n][ff_len] */
    float *angles;     /* [n][n_rot] */
    float *angles_swa; /* [n][n_rot] of the layers with the window; NULL: as the others */
    fy_experts experts;
    float *logits; /* [logit_rows][n_vocab] */
} fy_activations;

struct fy_session {
    const fy_model *model; /* view */
    fy_backend *backend;   /* owned */
    fy_kv kv;
    fy_rope rope, rope_swa;
    fy_activations act; /* in `memory` */
    uint32_t *n_past;   /* [n_seq], in `memory` */
    uint32_t *next;     /* [n_seq], in `memory`: n_past behind the steps of a call so far */
    uint32_t *end;      /* [n_seq], in `memory`: n_past when the call succeeds */
    uint8_t *memory;    /* owned */
    uint32_t n_ctx, n_batch, n_seq, logit_rows;
};

/* Runs the n <= n_batch tokens act.ids, which stand at act.at and act.pos, through all layers, the
 * last one only for those in act.wanted [n_wanted]: their residual stream behind it is act.x
 * [n_wanted], what the other activations held is lost. `first`: what the sinks call the first
 * token. A sink for the residual stream sees that of all n. */
int fy_forward(fy_session *s, uint32_t n, uint32_t n_wanted, uint32_t first,
               const fy_eval_sinks *sinks, fy_err *e);

/* logits [n][n_vocab] of the wanted tokens [first, first + n). act.h is lost. */
void fy_forward_logits(fy_session *s, uint32_t first, uint32_t n, float *logits);

#endif
