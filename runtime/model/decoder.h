/* The layers of a decoder, one call a layer, and what comes after the last one. One graph for all
 * families: the family's traits and the slots that are bound decide what is computed. Whoever calls
 * says where the tokens stand, how they rotate, and where keys and values lie: a session has a
 * cache of its own (decode.c), a chunk of a cut model is given one with every call (graph_cpu.c).
 */
#ifndef FY_MODEL_DECODER_H
#define FY_MODEL_DECODER_H

#include "base/arena.h"
#include "model/weights.h"

/* --- moe.c: A mixture of experts in place of the feed-forward network: a router gives every token
 * a weight for each expert, the token goes through the n_expert_used heaviest, and their weighted
 * outputs are added in ascending order of the expert, so that a result does not depend on the
 * batch.
 *
 * The tokens of a batch that chose the same expert go through it together: its matrices are read
 * once. --- */

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

/* --- decoder.c --- */

/* Activations of a batch of n tokens, row by row. */
typedef struct {
    fy_place *at;         /* [n] where the tokens stand */
    const int32_t *first; /* [n] the first position that they see; NULL: as the window says */
    float *x;             /* [n][n_embd] the residual stream */
    float *h;             /* [n][n_embd] x, normed */
    float *h_ffn;      /* [n][n_embd] the same for the feed-forward network of a parallel block */
    float *branch;     /* [n][n_embd] what a block adds to x */
    float *q;          /* [n][n_head * head_dim] */
    float *k;          /* [n][n_head_kv * head_dim] */
    float *v;          /* [n][n_head_kv * head_dim_v] */
    float *att;        /* [n][n_head * head_dim_v] */
    float *gate;       /* [n][n_ff] */
    float *up;         /* [n][n_ff] */
    float *angles;     /* [n][n_rot] */
    float *angles_swa; /* [n][n_rot] of the layers with the window; NULL: as the others */
    fy_experts experts;
} fy_activations;

typedef struct {
    const fy_model *model; /* view */
    fy_backend *backend;   /* of whoever has the decoder */
    fy_activations act;
    fy_kv_layer kv; /* of the layer that is computed */
} fy_decoder;

/* What a pass of tokens through a layer computes. */
typedef enum {
    FY_KEYS = 1,    /* and values: into the cache */
    FY_QUERIES = 2, /* and all that follows from them */
    FY_WHOLE = FY_KEYS | FY_QUERIES,
} fy_layer_part;

/* act.x [n], which stand at act.at and rotate by act.angles, through a layer. Their keys go to
 * kv before they are read. */
void fy_decoder_layer(fy_decoder *d, uint32_t layer, const fy_kv_layer *kv, fy_layer_part part,
                      uint32_t n);

/* logits [n][rows of the output matrix] = Wout norm(x) + b. act.h is lost. */
void fy_decoder_head(fy_decoder *d, const float *x, uint32_t n, float *logits);

/* Where the activations of n tokens lie; n_ff: of the widest feed-forward network, or expert. */
void fy_activations_lay_out(fy_activations *a, const fy_hparams *hp, uint64_t n, uint64_t n_ff,
                            fy_layout *c);

#endif
