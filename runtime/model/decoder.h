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
    float *score;         /* [n_expert] what a token chooses by, where that is not the logits */
    int32_t *choice;      /* [n][n_expert_used] experts of a token, ascending */
    float *choice_weight; /* [n][n_expert_used] */
    int32_t *first;       /* [n_expert + 1] where the tokens of an expert begin in `token` */
    int32_t *token;       /* [n * n_expert_used] by expert, then ascending */
    float *token_weight;
    float *shared_weight;   /* [n] */
    float *rows;            /* [n][n_embd] what goes into one expert, then what comes out */
    fy_expert_cache *cache; /* view of the model; NULL: all experts may stay in memory */
    uint32_t layer;         /* of the model, that is routed */
    uint32_t next;          /* experts before it are asked for already */
    int32_t *wanted;        /* [n_expert_used] scratch */
} fy_experts;

/* Chooses the experts of n tokens from what the router reads, x [n][n_embd]. */
void fy_moe_route(fy_backend *b, const fy_hparams *hp, const fy_weights *layer, fy_experts *m,
                  const float *x, uint32_t n);

/* sum [n][n_embd] = what the chosen experts, and the shared one, make of h [n][n_embd]. gate, up:
 * scratch, n rows of the widest expert. */
void fy_moe_ffn(fy_backend *b, const fy_hparams *hp, const fy_weights *layer, fy_experts *m,
                const float *h, float *gate, float *up, float *sum, uint32_t n);

/* The n_expert_used experts of the highest scores [n_expert], ascending, and the weights that the
 * logits [n_expert] give them: the scores are the logits, or have a bias. Of equal ones the lower
 * is chosen. */
void fy_moe_choose(const fy_hparams *hp, const float *logits, const float *score, int32_t *choice,
                   float *weight);

/* What RWKV's time mix makes of a batch of n tokens. */
typedef struct {
    float *dx;                  /* [n][n_embd] what the token before had more */
    float *decay, *iclr, *gate; /* [n][n_embd] */
    float *more;    /* [n][n_embd] of version 6, added to a lerp; of 7, the share of v_first */
    float *v_first; /* [n][n_embd] values of the first layer */
    float *low;     /* [n] of low rank */
} fy_time_mix;

/* What a pass of tokens through a layer computes. */
typedef enum {
    FY_KEYS = 1,    /* and values: into the cache */
    FY_QUERIES = 2, /* and all that follows from them */
    FY_WHOLE = FY_KEYS | FY_QUERIES,
} fy_layer_part;

/* --- latent.c: queries, keys and values out of two narrow vectors of a token --- */

/* Sized for a batch of n tokens. Families without latent attention have none of it. */
typedef struct {
    float *q_latent;  /* [n][q_lora_rank] */
    float *kv_a;      /* [n][kv_lora_rank + n_rot], the rotated elements of the keys at the end */
    float *kv_latent; /* [n][kv_lora_rank] */
    float *kv;        /* [n][n_head][head_dim - n_rot + head_dim_v] */
} fy_latents;

/* q [n][n_head][head_dim], or k alike and v [n][n_head][head_dim_v], or all, not rotated yet. */
void fy_latent_project(fy_backend *b, const fy_hparams *hp, const fy_weights *layer,
                       const fy_latents *a, fy_layer_part part, const float *h, float *q, float *k,
                       float *v, uint32_t n);
void fy_latents_lay_out(fy_latents *a, const fy_hparams *hp, uint64_t n, fy_layout *c);

/* --- decoder.c --- */

/* Activations of a batch of n tokens, row by row. */
typedef struct {
    fy_place *at;              /* [n] where the tokens stand */
    const int32_t *first;      /* [n] the first position that they see; NULL: as the window says */
    fy_place *row;             /* [n] where their keys and values go; NULL: where they stand */
    const fy_token_tree *tree; /* the tree that they are of; NULL: none */
    float *x;                  /* [n][n_embd] the residual stream */
    float *h;                  /* [n][n_embd] x, normed */
    float *h_ffn;     /* [n][n_embd] the same for the feed-forward network of a parallel block */
    float *branch;    /* [n][n_embd] what a block adds to x */
    float *q;         /* [n][n_head * head_dim] */
    float *k;         /* [n][n_head_kv * head_dim] */
    float *v;         /* [n][n_head_kv * head_dim_v] */
    float *att;       /* [n][n_head * head_dim_v] */
    float *bcx;       /* [n][3 n_embd] what a short convolution reads, [n][FY_D_SSM_IN] a Mamba-2
                         mixer, in four parts what a delta net reads; NULL, as mix: the model has
                         none */
    float *mix;       /* [n][mix_len] what it makes of that */
    size_t mix_len;   /* floats of a token */
    float *head_gate; /* [n][n_head]; NULL: attention has no such gate */
    float *gated_q; /* [n][n_head][2][head_dim] queries and gates; NULL: there are no such gates */
    float *pl;      /* [n][n_layer][n_embd_pl] what the layers get of each token; NULL, as the next
                       three: nothing */
    float *pl_row;  /* [n_layer * n_embd_pl] of one token */
    float *pl_gate; /* [n][n_embd_pl] */
    float *pl_part; /* [n][n_embd_pl] of one layer */
    float *streams[FY_STREAMS_MAX - 1]; /* each [n][n_embd]: those beside x; NULL, as the next five:
                                           none */
    float *predicted;                   /* [n][n_embd] the prediction of x */
    float *laurel;                      /* [n][n_embd] */
    float *low;                         /* [n][n_laurel] */
    float *route;                       /* [n][n_altup] */
    float *coefs;                       /* [n][n_altup^2] */
    float *gate;                        /* [n][n_ff] */
    float *up;                          /* [n][n_ff] */
    int32_t *neuron;                    /* [n_ff] of one token */
    fy_neurons *neurons;                /* [n] */
    float *predictor;                   /* [n][rank] what fc2 reads; NULL: nothing is predicted */
    float *gpu_x;                       /* [n][n_embd] what a GPU reads; NULL, as gpu_y: no GPU */
    float *gpu_y;                       /* [n][n_embd] and what it gives */
    float *angles;                      /* [n][n_rot] */
    float *angles_q;   /* [n][n_rot] of the queries, times their factor (temp_scale); NULL: as the
                          keys */
    float *angles_swa; /* [n][n_rot] of the layers with the window; NULL: as the others */
    fy_experts experts;
    fy_time_mix rwkv; /* families without RWKV's layers have none of it */
    fy_latents latents;
} fy_activations;

/* Sees the gates [n][n_ff] of a layer (without one: the neurons), before the activation. */
typedef void fy_gate_watch(void *user, const fy_hparams *hp, uint32_t layer, const float *gate,
                           uint32_t n);

typedef struct {
    const fy_model *model; /* view */
    fy_backend *backend;   /* of whoever has the decoder */
    fy_gate_watch *gates;  /* NULL: none; networks whose neurons are all computed show theirs */
    void *gates_user;
    fy_activations act;
    fy_sparse sparse;
    float sparse_threshold;
    uint64_t n_neurons, n_kept; /* that predictors scored, and not below the threshold */
    fy_err gpu_failed;          /* the first failure of the model's GPU: activations are wrong */
    fy_kv_layer kv;             /* of the layer that is computed */
    fy_state_view state;        /* the same, where it has no attention */
} fy_decoder;

/* act.x [n], which stand at act.at and rotate by act.angles, through a layer. Their keys go to
 * kv before they are read. state: of a layer without attention; NULL where it has one. */
void fy_decoder_layer(fy_decoder *d, uint32_t layer, const fy_kv_layer *kv,
                      const fy_state_view *state, fy_layer_part part, uint32_t n);

/* --- neuron_ffn.c: feed-forward networks by neuron --- */

/* Is the layer's network computed by neuron? Of files with a row for each in any case, and where
 * neurons are predicted; else a single token is, where that spares rows of up. */
bool fy_ffn_is_by_neuron(const fy_decoder *d, uint32_t layer, uint32_t n);
/* Where neurons are predicted: shows act.x [n][n_embd] to the layer's predictor, the residual
 * stream that PowerInfer's read: after attention, or in a parallel block before the layer. */
void fy_ffn_predict(fy_decoder *d, uint32_t layer, uint32_t n);
/* act.branch [n][n_embd] = what it makes of h [n][n_embd], with the bias; added to `sum`, too,
 * where that is not NULL. */
void fy_neuron_ffn(fy_decoder *d, uint32_t layer, const float *h, uint32_t n, float *sum);
/* decoder.c: act.gate [n][n_ff] = f(Wgate h) * Wup h, or f(Wup h) without a gate. */
void fy_gated_product(fy_decoder *d, uint32_t layer, const fy_weights *l, const float *h,
                      uint32_t n);

/* --- per_layer.c: what each layer gets of every token beside the residual stream, from a table of
 * its own and from the embedding --- */

/* act.pl, from the ids and from act.x as the first layer gets it. */
void fy_per_layer_begin(fy_decoder *d, const int32_t *ids, uint32_t n);
/* act.branch [n][n_embd] = what the layer adds for it, of x [n][n_embd]; not yet normed. */
void fy_per_layer_branch(fy_decoder *d, uint32_t layer, const float *x, uint32_t n);

/* --- altup.c: residual streams beside act.x --- */

void fy_altup_begin(fy_decoder *d, uint32_t n); /* from the embedding, act.x */
void fy_altup_end(fy_decoder *d, uint32_t n);   /* act.x becomes what the lm_head norms */
/* A layer: the streams become predictions; what stands beside attention, of u [n][n_embd], which
 * keeps the prediction of act.x; its sum with act.x after attention; the streams after act.x is
 * complete. */
void fy_altup_predict(fy_decoder *d, uint32_t layer, uint32_t n);
void fy_altup_laurel(fy_decoder *d, uint32_t layer, const float *u, uint32_t n);
void fy_altup_join(fy_decoder *d, uint32_t n);
void fy_altup_correct(fy_decoder *d, uint32_t layer, uint32_t n);

/* --- rwkv_layer.c: a layer of RWKV. part: FY_QUERIES alone is nothing, FY_KEYS is all. --- */
void fy_rwkv_layer(fy_decoder *d, uint32_t layer, fy_layer_part part, uint32_t n);
void fy_time_mix_lay_out(fy_time_mix *m, const fy_hparams *hp, uint64_t n, fy_layout *c);

/* What the lm_head reads of x [n][n_embd]: act.h. */
const float *fy_decoder_norm(fy_decoder *d, const float *x, uint32_t n);
/* logits [n][rows of the output matrix] = Wout norm(x) + b. act.h is lost. */
void fy_decoder_head(fy_decoder *d, const float *x, uint32_t n, float *logits);

/* Where the activations of n tokens lie; n_ff: of the widest feed-forward network, or expert. */
void fy_activations_lay_out(fy_activations *a, const fy_hparams *hp, uint64_t n, uint64_t n_ff,
                            fy_layout *c);

#endif
