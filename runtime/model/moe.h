/* A mixture of experts in place of the feed-forward network: a router gives every token a weight
 * for each expert, the token goes through the n_expert_used heaviest, and their weighted outputs
 * are added in ascending order of the expert, so that a result does not depend on the batch.
 *
 * The tokens of a batch that chose the same expert go through it together: its matrices are read
 * once. */
#ifndef FY_MODEL_MOE_H
#define FY_MODEL_MOE_H

#include "model/weights.h"

/* Sized for a batch of n tokens. Families without experts have none of it. */
typedef struct {
    float *logits;        /* [n][n_expert] of the router */
    int32_t *choice;      /* [n][n_expert_used] experts of a token, ascending */
    float *choice_weight; /* [n][n_expert_used] */
    int32_t *first;       /* [n_expert + 1] where the tokens of an expert begin in `token` */
    int32_t *token;       /* [n * n_expert_used] by expert, then ascending */
    float *token_weight;
    float *shared_weight; /* [n] */
    float *rows;          /* [n][n_embd] what goes into one expert, then what comes out */
} fy_experts;

/* Chooses the experts of n tokens from what the router reads, x [n][n_embd]. */
void fy_moe_route(fy_backend *b, const fy_hparams *hp, const fy_weights *layer, fy_experts *m,
                  const float *x, uint32_t n);

/* sum [n][n_embd] = what the chosen experts, and the shared one, make of h [n][n_embd]. gate, up:
 * scratch, n rows of the widest expert. */
void fy_moe_ffn(fy_backend *b, const fy_hparams *hp, const fy_weights *layer, fy_experts *m,
                const float *h, float *gate, float *up, float *sum, uint32_t n);

/* The experts that the logits [n_expert] of a token choose, ascending, and their weights. Of equal
 * ones the lower is chosen. */
void fy_moe_choose(const fy_hparams *hp, const float *logits, int32_t *choice, float *weight);

#endif
