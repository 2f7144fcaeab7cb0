/* The decoder graph and the memory it works in. One graph for all families: the family's traits and
 * the slots that are bound decide what is computed. */
#ifndef FY_MODEL_FORWARD_H
#define FY_MODEL_FORWARD_H

#include "model/kv.h"
#include "model/moe.h"
#include "model/rope.h"
#include "model/weights.h"

#define FY_LOGIT_ROWS 16 /* positions whose logits are held at once */

/* Activations of a batch of n tokens, row by row; sized for n_batch. */
typedef struct {
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
    float *logits; /* [FY_LOGIT_ROWS][n_vocab] */
} fy_activations;

struct fy_session {
    const fy_model *model; /* view */
    fy_backend *backend;   /* owned */
    fy_kv kv;
    fy_rope rope, rope_swa;
    fy_activations act; /* in `memory` */
    uint8_t *memory;    /* owned */
    uint32_t n_ctx, n_batch, n_past;
};

/* Runs n <= n_batch tokens at positions n_past.. through all layers: act.x is the residual stream
 * behind the last one. Does not move n_past. */
int fy_forward(fy_session *s, const int32_t *ids, uint32_t n, const fy_eval_sinks *sinks,
               fy_err *e);

/* act.logits[0..n) = logits of the tokens [first, first + n) of the batch, n <= FY_LOGIT_ROWS. */
void fy_forward_logits(fy_session *s, uint32_t first, uint32_t n);

#endif
