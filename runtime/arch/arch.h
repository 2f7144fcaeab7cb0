/* Model families as data. A family is one entry in one of the *_families.c files of this directory
 * plus a line in the list of arch.c: Hugging Face class names, defaults of the config class,
 * traits, and its tensor rows. convert walks the rows from Hugging Face to GGUF, quantize reads
 * their flags, the runtime binds slots and checks shapes by them, workspace cuts along them.
 *
 * Hyperparameters are one struct; fy_hparam_rows (hparams.c) has for each field its GGUF key and
 * its config.json keys. */
#ifndef FY_ARCH_ARCH_H
#define FY_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/types.h"
#include "format/gguf.h"
#include "format/gguf_write.h"
#include "kernels/kernels.h"

#define FY_N_LAYER_MAX 1000 /* a guard against nonsense: the deepest published model has 126 */

typedef enum {
    FY_ROPE_NORM, /* pairs (2i, 2i+1) rotate */
    FY_ROPE_NEOX, /* pairs (i, i + n_rot/2) */
    FY_ROPE_NO,   /* no rotation: positions are learned (position_embd) */
} fy_rope_kind;
typedef enum {
    FY_ROPE_SCALING_NONE, /* llama3 scaling is the rope_freqs tensor, not a value here */
    FY_ROPE_SCALING_LINEAR,
    FY_ROPE_SCALING_YARN,
    FY_ROPE_SCALING_LONGROPE, /* rope_factors_long beyond rope_orig_ctx, rope_factors_short within;
                                 chosen once, by the context of the session */
} fy_rope_scaling;

enum { FY_WKV_HEAD_MAX = 256 }; /* elements of a head of RWKV's time mix */

/* Which numbers of the router become weights; values of the key expert_gating_func. */
typedef enum { FY_GATING_SOFTMAX = 1, FY_GATING_SIGMOID = 2 } fy_gating;

/* Where the Mamba-2 mixers of a family are. */
typedef enum {
    FY_SSM_NONE,
    FY_SSM_INSTEAD, /* of attention, in the layers that have none */
    FY_SSM_BESIDE,  /* attention in every layer: both read the same and add to the same */
    FY_SSM_DELTA,   /* none: gated delta nets are where FY_SSM_INSTEAD has them */
    FY_SSM_ALONE,   /* a layer is one of mixer, attention and feed-forward, behind ATTN_NORM */
} fy_ssm_place;

/* A set of layers. */
typedef struct {
    uint64_t word[(FY_N_LAYER_MAX + 63) / 64];
} fy_layer_set;

/* Layers whose feed-forward network has another width. */
typedef struct {
    uint32_t n_ff; /* 0: unused */
    fy_layer_set layers;
} fy_ff_width;
enum { FY_ALTUP_MAX = 8 }; /* residual streams */
enum { FY_FF_WIDTHS = 4 }; /* besides the first layer's */

typedef struct {
    uint32_t n_vocab;     /* rows of token_embd */
    uint32_t n_ctx_train; /* context_length */
    uint32_t n_embd, n_layer, n_ff;
    uint32_t n_head, n_head_kv;
    uint32_t head_dim, head_dim_v; /* key_length, value_length */
    uint32_t n_rot;                /* rotated elements of a head; FY_ROPE_NO: 0 */
    uint32_t q_lora_rank, kv_lora_rank; /* of latent attention: what queries, and keys with values,
                                           are made of; 0: there is none */
    float latent_eps; /* of the norms of those: of the family, no key says it */
    uint32_t n_swa; /* sliding window in tokens: key j is visible to query p iff p - j < n_swa; 0:
                       none */
    fy_layer_set
        full_layers; /* the layers that do not have the window; of no meaning without n_swa */
    fy_layer_set nope_layers;    /* the layers that do not rotate */
    fy_layer_set no_attn_layers; /* the layers without attention: head_count_kv is 0 there, and a
                                    short convolution or a Mamba-2 mixer mixes the tokens */
    fy_layer_set no_ffn_layers;  /* FY_SSM_ALONE: feed_forward_length is 0 there */
    fy_ssm_place ssm_place;      /* the family's */
    uint32_t ssm_conv;  /* columns that the convolution of a Mamba-2 mixer, or of a delta net,
                           sees */
    uint32_t ssm_state; /* columns of a head's state; of a delta net, elements of a key */
    uint32_t ssm_groups, ssm_heads; /* of a delta net: heads of keys, and of values */
    uint32_t ssm_inner;             /* rows of all heads together; 0: the model has no such mixer */
    uint32_t full_interval;         /* FY_SSM_DELTA: the last of so many layers has attention */
    uint32_t rope_sections[4]; /* pairs that turn by each kind of position; text has one. 0: the
                                  file does not say */
    /* What differs between layers; fy_layer_shape_of has the sizes of one. */
    fy_ff_width ff_other[FY_FF_WIDTHS];
    uint32_t head_dim_swa, head_dim_v_swa; /* of layers with the window; 0, as the next two: as in
                                              the others */
    uint32_t n_rot_swa, n_head_kv_swa;
    uint32_t n_kv_shared; /* the last layers have no keys and values: they read those of the last
                             layer before them that has the window, or has none, as they */
    bool k_is_v;          /* without the window, values are the keys before norm and rotation */
    uint32_t n_altup;     /* residual streams, of which a layer computes one and predicts the others
                             (AltUp); 0: one, and nothing is predicted */
    uint32_t altup_active; /* which one */
    uint32_t n_laurel;     /* rows of laurel_l; in GGUF files the tensor's */
    float act_sparsity;    /* of sparse_layers: gates below mean + this times deviation count 0 */
    fy_layer_set sparse_layers;
    uint32_t n_vocab_pl; /* rows of a checkpoint's table for the layers; not in GGUF files */
    uint32_t n_embd_pl;  /* what each layer gets of every token beside the stream; 0: nothing */
    uint32_t conv_len;   /* columns that a short convolution sees, the token's own included; 0: the
                            model has none */
    float norm_rms_eps;  /* of RMS norms */
    float norm_eps;      /* of layer norms */
    float rope_theta;
    float rope_theta_swa; /* of layers with the window, which are not scaled; 0: as the others */
    fy_rope_scaling rope_scaling;
    float rope_factor;      /* linear, yarn */
    uint32_t rope_orig_ctx; /* yarn, longrope: context before scaling */
    float rope_attn_factor; /* multiplies cos and sin on top of yarn's own 1 + 0.1 ln factor;
                               default 1 */
    float yarn_beta_fast, yarn_beta_slow;
    bool yarn_unrounded; /* the ends of its ramp are not whole pairs (truncate of rope_scaling is
                            false): of the family, no key says it */
    float yarn_log_mul; /* m: cos and sin are divided by 1 + 0.1 m ln factor (mscale_all_dim; mscale
                           is 1), which then says rope_attn_factor; 0: it does not */
    float temp_scale;   /* b: a rotated query at position p is multiplied by
                           1 + b ln(1 + floor(p / rope_orig_ctx)); 0: it is not */
    fy_act_kind act;
    float act_threshold;   /* of fatrelu */
    bool parallel;         /* attention and feed-forward both read the layer's input */
    float attn_scale;      /* multiplies q.k; 0: 1 / sqrt(head_dim) */
    float attn_softcap;    /* c: scores become c tanh(score / c); 0: none */
    float logit_softcap;   /* the same of the logits */
    float embedding_scale; /* multiplies the embedding */
    float residual_scale;  /* multiplies what a block adds to the residual stream */
    float logit_scale;     /* divides the logits */
    uint32_t n_expert;     /* 0: no mixture of experts */
    uint32_t n_expert_used;
    uint32_t
        n_dense_layers;  /* the first layers, which have a feed-forward network of n_ff instead */
    uint32_t n_ff_exp;   /* rows of one expert's gate and up */
    uint32_t n_ff_shexp; /* of the shared expert; 0: there is none */
    fy_gating gating;
    bool expert_norm;      /* the weights of the chosen experts are divided by their sum */
    bool gated_queries;    /* the family's */
    bool gated_heads;      /* the family has FY_T_ATTN_GATE */
    uint32_t n_qkv_groups; /* of a checkpoint that FY_X_CODEGEN_* read; not in GGUF files */
    uint32_t wkv_head;     /* elements of a head of RWKV's time mix; 0: no layer has one */
    uint32_t n_rank_mix, n_rank_decay, n_rank_iclr, n_rank_value, n_rank_gate; /* of its low-rank
                                                                                  matrices */
    uint32_t rescale_every; /* after so many layers the residual stream is halved, for which the
                               file's weights are made; 0: it is not */
    float group_eps;        /* of the norm of each head of the time mix */
} fy_hparams;

/* Symbolic dimensions of a tensor row. */
typedef enum {
    FY_D_END = 0, /* no further dimension */
    FY_D_VOCAB,
    FY_D_EMBD,
    FY_D_EMBD_3, /* 3 n_embd: B, C, x of a short convolution */
    FY_D_CONV,   /* conv_len */
    FY_D_FF,
    FY_D_FF_2,    /* 2 n_ff: gate, then up */
    FY_D_HEADS,   /* n_head */
    FY_D_Q,       /* n_head * head_dim */
    FY_D_Q_2,     /* twice that: of each head its queries, then its gate */
    FY_D_K,       /* n_head_kv * head_dim */
    FY_D_V,       /* n_head_kv * head_dim_v */
    FY_D_QKV,     /* Q + K + V */
    FY_D_QV,      /* n_head * head_dim_v: what attn_output reads */
    FY_D_Q_RANK,  /* q_lora_rank */
    FY_D_KV_RANK, /* kv_lora_rank */
    FY_D_KV_A,    /* kv_lora_rank + n_rot */
    FY_D_KV_B,    /* n_head * (head_dim - n_rot + head_dim_v) */
    FY_D_HEAD,    /* head_dim */
    FY_D_ROT2,    /* n_rot / 2 */
    FY_D_CTX,     /* n_ctx_train */
    FY_D_CTX_OPT, /* n_ctx_train + 2: rows of OPT's positions */
    FY_D_EXPERT,
    FY_D_FF_EXP,
    FY_D_FF_EXP_2, /* 2 n_ff_exp */
    FY_D_FF_SHEXP,
    FY_D_FF_SHEXP_2,
    FY_D_PL,     /* n_embd_pl */
    FY_D_PL_ALL, /* of all layers */
    FY_D_WKV_HEADS, /* n_embd / wkv_head */
    FY_D_WKV,       /* wkv_head */
    FY_D_RANK_MIX,
    FY_D_RANK_MIX_5, /* 5 n_rank_mix */
    FY_D_RANK_DECAY,
    FY_D_RANK_ICLR,
    FY_D_RANK_VALUE,
    FY_D_RANK_GATE,
    FY_D_SSM_IN,       /* z, x, B, C and dt of a Mamba-2 mixer */
    FY_D_SSM_CHANNELS, /* x, B, C */
    FY_D_SSM_CONV,
    FY_D_SSM_HEADS,
    FY_D_SSM_GROUPS,
    FY_D_SSM_GROUP, /* ssm_inner / ssm_groups */
    FY_D_SSM_INNER,
    FY_D_SSM_HEAD, /* ssm_inner / ssm_heads */
    FY_D_VOCAB_PL,
    FY_D_ALTUP,   /* n_altup */
    FY_D_ALTUP_1, /* n_altup - 1 */
    FY_D_ALTUP_2, /* n_altup^2 */
    FY_D_LAUREL,
    FY_D_ONE,
    FY_D_5,
    FY_D_6,
} fy_dim;

/* Slots that hold several matrices one below the other are split when the model is opened: the
 * graph sees ATTN_Q, ATTN_K, ATTN_V and FFN_GATE, FFN_UP only. */
typedef enum {
    /* one per model */
    FY_T_TOKEN_EMBD,
    FY_T_POSITION_EMBD, /* [n_ctx_train, n_embd], added to the embedding */
    FY_T_OUTPUT_NORM,
    FY_T_OUTPUT_NORM_B,
    FY_T_OUTPUT,
    FY_T_OUTPUT_B,
    FY_T_ROPE_FREQS,
    FY_T_ROPE_LONG, /* rope_factors_long */
    FY_T_ROPE_SHORT,
    FY_T_PL_EMBD, /* [n_vocab, n_layer * n_embd_pl]: of every token a row, a part for each layer */
    FY_T_PL_MODEL_PROJ, /* [n_layer * n_embd_pl, n_embd] */
    FY_T_PL_MODEL_NORM, /* [n_embd_pl] */
    FY_T_ALTUP_PROJ,    /* [n_altup - 1, n_embd, n_embd]: the other streams of the embedding */
    FY_T_ALTUP_UNPROJ,  /* the same back */
    FY_T_EMBD_NORM, /* of the embedding */
    FY_T_EMBD_NORM_B,
    FY_T_UNUSED_0, /* what other readers ask for and no graph reads */
    FY_T_UNUSED_1,
    FY_T_UNUSED_2,
    /* one per layer */
    FY_T_ATTN_NORM, /* absent: attention reads the residual stream itself (OLMo 2) */
    FY_T_ATTN_NORM_B,
    FY_T_ATTN_NORM_2, /* of a parallel block: attention's own norm, ATTN_NORM is then the
                         feed-forward's (Falcon 40B) */
    FY_T_ATTN_NORM_2_B,
    FY_T_ATTN_QKV, /* q, k, v rows one below the other */
    FY_T_ATTN_QKV_B,
    FY_T_ATTN_Q,
    FY_T_ATTN_Q_B,
    FY_T_ATTN_K,
    FY_T_ATTN_K_B,
    FY_T_ATTN_V,
    FY_T_ATTN_V_B,
    FY_T_ATTN_Q_DOWN, /* of latent attention, instead of q, k and v: [q_lora_rank, n_embd] */
    FY_T_ATTN_Q_LATENT_NORM,
    FY_T_ATTN_Q_UP,    /* [n_head * head_dim, q_lora_rank] */
    FY_T_ATTN_KV_DOWN, /* [kv_lora_rank + n_rot, n_embd]; below the latent the rotated elements of
                          all keys */
    FY_T_ATTN_KV_LATENT_NORM,
    FY_T_ATTN_KV_UP, /* [n_head * (head_dim - n_rot + head_dim_v), kv_lora_rank] */
    FY_T_ATTN_OUT,
    FY_T_ATTN_OUT_B,
    FY_T_ATTN_GATE,   /* [n_head, n_embd]: what a head gives is multiplied by sigmoid(gate) */
    FY_T_ATTN_Q_NORM, /* RMS, before rotation unless norm_rotated: [head_dim] of each head, or
                         [n_head * head_dim] of the whole vector */
    FY_T_ATTN_K_NORM,
    FY_T_ATTN_SINKS, /* [n_head]: a score of each head's softmax that has no value */
    FY_T_CONV_IN,    /* [3 n_embd, n_embd] */
    FY_T_CONV,       /* [n_embd, conv_len], the oldest column first, f32 */
    FY_T_CONV_OUT,
    /* RWKV's time mix (model/rwkv_layer.c). LERP: how much of the token before goes into the input of a
     * product; LERP_5, LERP_6: several of them, one below the other */
    FY_T_MIX_LERP_5, /* w, k, v, r, g */
    FY_T_MIX_LERP_6, /* r, w, k, v, a, g */
    FY_T_MIX_LERP_X,
    FY_T_MIX_LERP_R,
    FY_T_MIX_LERP_W,
    FY_T_MIX_LERP_K,
    FY_T_MIX_LERP_V,
    FY_T_MIX_LERP_A,
    FY_T_MIX_LERP_G,
    FY_T_MIX_W1,    /* [5 n_rank_mix, n_embd]: what the tokens themselves add to the five LERPs */
    FY_T_MIX_W2,    /* [5, n_embd, n_rank_mix] */
    FY_T_MIX_DECAY, /* [n_embd]; of v5 [heads, wkv_head] */
    FY_T_MIX_DECAY_1,
    FY_T_MIX_DECAY_2,
    FY_T_MIX_ICLR, /* "in-context learning rate": a */
    FY_T_MIX_ICLR_1,
    FY_T_MIX_ICLR_2,
    FY_T_MIX_VALUE_0, /* the share of the first layer's values; not in the first layer */
    FY_T_MIX_VALUE_1,
    FY_T_MIX_VALUE_2,
    FY_T_MIX_GATE_1,
    FY_T_MIX_GATE_2,
    FY_T_MIX_FIRST, /* u: [heads, wkv_head] */
    FY_T_MIX_K_K,
    FY_T_MIX_K_A,
    FY_T_MIX_R_K,
    FY_T_MIX_R,
    FY_T_MIX_K,
    FY_T_MIX_V,
    FY_T_MIX_G,
    FY_T_MIX_OUT,
    FY_T_MIX_NORM, /* of each head */
    FY_T_MIX_NORM_B,
    FY_T_FFN_LERP_K, /* RWKV's channel mix: FFN_UP is its key, FFN_DOWN its value */
    FY_T_FFN_LERP_R,
    FY_T_FFN_R,
    FY_T_SSM_IN,    /* Mamba-2 (backend_cpu.h): [FY_D_SSM_IN, n_embd] */
    FY_T_SSM_QKV,   /* gated delta net: [FY_D_SSM_CHANNELS, n_embd], queries, keys, values */
    FY_T_SSM_Z,     /* [ssm_inner, n_embd] of the gate */
    FY_T_SSM_ALPHA, /* [ssm_heads, n_embd] of the decay */
    FY_T_SSM_BETA,  /* the same: how much of a value is written */
    FY_T_SSM_CONV,  /* [FY_D_SSM_CHANNELS, ssm_conv], the oldest column first, f32 as all but in and
                       out */
    FY_T_SSM_CONV_B,
    FY_T_SSM_DT_B,
    FY_T_SSM_A, /* the decay of each head: below 0 */
    FY_T_SSM_D,
    FY_T_SSM_NORM, /* absent: the gate alone */
    FY_T_SSM_OUT,
    FY_T_ATTN_POST_NORM, /* of what attention adds to the residual stream */
    FY_T_FFN_NORM, /* absent: a parallel block reads ATTN_NORM's output, others the residual stream
                      itself */
    FY_T_FFN_NORM_B,
    FY_T_FFN_GATE, /* absent: down(act(up x)) */
    FY_T_FFN_GATE_B,
    FY_T_FFN_UP,
    FY_T_FFN_UP_B,
    FY_T_FFN_GATE_UP, /* gate rows, then up rows */
    FY_T_FFN_DOWN,
    FY_T_FFN_DOWN_T, /* instead of it: [n_ff, n_embd], a row for each neuron */
    FY_T_FFN_PRED_1, /* [rank, n_embd] and [n_ff, rank]: PowerInfer's predictor, whose score for a
                        neuron is PRED_2 relu(PRED_1 x) */
    FY_T_FFN_PRED_2,
    FY_T_FFN_DOWN_B,
    FY_T_FFN_POST_NORM,
    FY_T_FFN_ROUTER,   /* ffn_gate_inp: [n_expert, n_embd], f32 */
    FY_T_FFN_ROUTER_B, /* [n_expert] */
    FY_T_FFN_CHOICE_B, /* [n_expert], f32: added to what the experts are chosen by (sigmoid), not to
                          their weights */
    FY_T_FFN_GATE_EXPS,   /* [n_expert, n_ff_exp, n_embd] */
    FY_T_FFN_GATE_EXPS_B, /* [n_expert, n_ff_exp] */
    FY_T_FFN_UP_EXPS,
    FY_T_FFN_UP_EXPS_B,
    FY_T_FFN_DOWN_EXPS,    /* [n_expert, n_embd, n_ff_exp] */
    FY_T_FFN_DOWN_EXPS_B,  /* [n_expert, n_embd] */
    FY_T_FFN_SHEXP_ROUTER, /* [n_embd]: the shared expert counts sigmoid(w x) times; absent: once */
    FY_T_FFN_GATE_SHEXP,
    FY_T_FFN_UP_SHEXP,
    FY_T_FFN_DOWN_SHEXP,
    FY_T_PL_GATE, /* [n_embd_pl, n_embd] */
    FY_T_PL_PROJ, /* [n_embd, n_embd_pl] */
    FY_T_PL_NORM,
    FY_T_ALTUP_ROUTER, /* [n_altup, n_embd] */
    FY_T_ALTUP_ROUTER_NORM,
    FY_T_ALTUP_PREDICT, /* [n_altup^2, n_altup], f32 */
    FY_T_ALTUP_CORRECT, /* [n_altup, n_altup], f32 */
    FY_T_ALTUP_SCALE,   /* [n_embd] */
    FY_T_LAUREL_L,      /* [n_laurel, n_embd] */
    FY_T_LAUREL_R,      /* [n_embd, n_laurel] */
    FY_T_LAUREL_NORM,
    FY_T_LAYER_SCALE, /* [1]: what leaves the layer is multiplied by it */
    FY_T_COUNT,
} fy_slot;

/* How the rows of the HF tensor become the rows of the GGUF tensor. Those from FY_X_PERMUTE_Q on
 * choose rows: fy_transform_row. "Permuted" is NEOX -> NORM: per head of head_dim rows, row
 * half * head_dim/2 + j -> row 2j + half. */
typedef enum {
    FY_X_COPY,
    /* no HF source: computed */
    FY_X_LLAMA3_FREQS,  /* from rope_scaling of type llama3 */
    FY_X_LONG_FACTORS,  /* long_factor of rope_scaling of type longrope */
    FY_X_SHORT_FACTORS, /* short_factor */
    FY_X_PART_FREQS,    /* from rope_parameters of type proportional */
    FY_X_ZEROS,         /* a bias that a reader insists on */
    /* change of values or of order within rows */
    FY_X_ADD_ONE,               /* Gemma's norms hold w - 1 */
    FY_X_ONE_MINUS,             /* 1 - w */
    FY_X_SPREAD,                /* one element of the source for each row */
    FY_X_EXP_SPREAD,            /* its exponential */
    FY_X_NEG_EXP,               /* -exp(w) (A_log of Mamba-2) */
    FY_X_VALUE_COLUMNS,         /* columns as FY_X_VALUE_ROWS */
    FY_X_TRANSPOSE,             /* the last two dimensions are exchanged (Conv1D of GPT-2) */
    FY_X_TRANSPOSE_FIRST_HALF,  /* [.., in, 2 out] -> [.., out, in]: gate of fused experts */
    FY_X_TRANSPOSE_SECOND_HALF, /* up */
    FY_X_TRANSPOSE_EVEN,        /* as the halves, of columns gate, up, gate, up, ... (gpt-oss) */
    FY_X_TRANSPOSE_ODD,
    /* choice of rows */
    FY_X_PERMUTE_Q,  /* n_head heads */
    FY_X_PERMUTE_K,  /* n_head_kv heads */
    FY_X_PAD_ROWS,   /* rows that the source does not have are 0 */
    FY_X_SKIP_2,     /* without the first two rows (OPT's positions) */
    FY_X_FIRST_HALF, /* [.., 2 n, in] -> [.., n, in] */
    FY_X_SECOND_HALF,
    FY_X_EVEN, /* of rows, or elements of a bias, gate, up, gate, up, ... (gpt-oss) */
    FY_X_ODD,
    FY_X_PACK_Q, /* of rows q | k | v; permuted (Baichuan) */
    FY_X_PACK_K,
    FY_X_PACK_V,
    FY_X_GROUP_Q, /* of rows [n_head_kv][n_head / n_head_kv q heads, k head, v head]; permuted
                     (InternLM2) */
    FY_X_GROUP_K,
    FY_X_GROUP_V,
    FY_X_GROUP_QKV, /* the same rows -> q | k | v, not permuted (Falcon; GPT-NeoX: one head a
                       group) */
    FY_X_CODEGEN_Q, /* of rows [n_qkv_groups][q, v, k]; the first n_rot rows of a head NORM ->
                       NEOX */
    FY_X_CODEGEN_K,
    FY_X_CODEGEN_V,
    FY_X_VALUE_ROWS, /* Qwen3.5: heads of values, in the checkpoint those of one head of keys after
                        another, here one of each head of keys after another */
    FY_X_VALUE_NEG_EXP, /* the same, and -exp(w) */
    FY_X_VALUE_QKV,     /* the same of the rows after those of queries and keys */
} fy_transform;

enum {
    FY_ROW_MATRIX = 1u << 0,   /* takes the output type; other tensors stay F32 */
    FY_ROW_OPTIONAL = 1u << 1, /* may be absent (biases, tied output, rope_freqs) */
    FY_ROW_ALT = 1u << 2, /* another HF form of the row above with the same GGUF name; the first
                             whose source is there in this shape counts */
};

typedef struct {
    fy_slot slot;
    const char *gguf; /* "blk.%u.attn_q.weight"; with %u: one per layer */
    const char *hf;   /* "model.layers.%u.self_attn.q_proj.weight"; with %e: one source per expert,
                         stacked; "x_{rwkvag}": one source per letter; NULL: no source */
    fy_dim dims[4];   /* torch order, rows first: {FY_D_Q, FY_D_EMBD}; FY_D_END-terminated */
    fy_transform transform;
    unsigned flags;
    const char *required_by; /* HF config flag that makes an optional row required:
                                "attention_bias"; or NULL */
    fy_dim hf_dims[3];       /* of the source when it is not `dims`; of one expert's source: without
                                FY_D_EXPERT and always given */
} fy_tensor_row;

#define FY_FUSED_PARTS 6
/* The slots of the parts of a tensor that holds several matrices one below the other. */
typedef struct {
    fy_slot slot;
    struct {
        fy_slot slot;
        fy_dim rows;
    } parts[FY_FUSED_PARTS]; /* the unused have no rows: FY_D_END */
} fy_fused_row;
extern const fy_fused_row fy_fused_rows[];
extern const size_t fy_n_fused_rows;

/* --- what config.json says beyond the keys that all families share (fy_hparam_rows) --------- */

typedef enum {
    FY_OP_SET,
    FY_OP_ADD,              /* to what the field has */
    FY_OP_INV_SQRT,         /* 1 / sqrt(v) */
    FY_OP_OVER_SQRT_LAYERS, /* v / sqrt(n_layer) */
    FY_OP_EMBD_OVER,        /* n_embd / v */
    FY_OP_TIMES_10000,
    FY_OP_ONE_IF_TRUE,       /* a flag: 1 when it is true */
    FY_OP_FLAG,              /* a flag, false when it is absent */
    FY_OP_ROUTER_IS_SOFTMAX, /* a flag: FY_GATING_SOFTMAX or FY_GATING_SIGMOID */
    FY_OP_CODEGEN_GROUPS,    /* 8 when v is 128 or 256, else 4 */
    FY_OP_SPARSITY,          /* a list: act_sparsity and sparse_layers */
    FY_OP_GLOBAL_HEADS,      /* n_head_kv of layers without the window */
    FY_OP_SHARED_TWICE,      /* a flag: layers without keys and values are twice as wide */
    FY_OP_GROUP_EPS,         /* 1e-5 v^2 */
    FY_OP_TIMES_HEAD,        /* v wkv_head */
    FY_OP_LFM2_WIDTH,        /* a flag: two thirds of n_ff, times block_ffn_dim_multiplier, up to a
                                multiple of block_multiple_of */
} fy_config_op;

typedef struct {
    const char *key;
    size_t field; /* offset in fy_hparams */
    fy_config_op op;
    double absent;       /* the value (before op) when the key is absent or null; 0: none */
    const char *only_if; /* a flag of config.json that has to be true; NULL: always */
} fy_config_key;

/* A key that must have one value, because the graph has no other: {"alibi", "false"}. An absent key
 * is the class's default, which is the `must` unless `absent` says otherwise. */
typedef struct {
    const char *key;
    const char *must;   /* JSON text: "true", "1", "null", "\"rope\"" */
    const char *absent; /* JSON text; NULL: as must */
} fy_config_rule;

/* Every period-th layer is the exception: the last of each group, or the first. period 0: none
 * is. */
typedef struct {
    uint32_t period;
    bool first;
} fy_layer_pattern;

typedef struct {
    const char *name;            /* "mistral": model_type of config.json */
    const char *gguf_arch;       /* general.architecture: "llama" */
    const char *const *hf_archs; /* NULL-terminated: {"MistralForCausalLM", NULL} */
    fy_hparams
        defaults;      /* of the HF config class; 0: no default, the key is required. n_swa 0: the
                        * class knows no window and sliding_window means nothing to it. Fields of
                        * rows with FY_HP_TRAIT are also what a GGUF file without the key means. */
    bool tied_default; /* tie_word_embeddings when absent */
    fy_rope_kind rope;
    float rot_part;      /* partial_rotary_factor when absent; 0: 1 */
    bool layer_norm;     /* mean and variance; RMS norms otherwise */
    bool moe;            /* of two families with one gguf_arch: this reads files with experts */
    bool early_router;   /* the router reads the residual stream at layer entry (SmallThinker) */
    bool sqrt_embedding; /* embedding_scale is sqrt(n_embd) and has no key (Gemma) */
    float depth_scale; /* a GGUF file without residual_scale means this / sqrt(n_layer); 0: 1 */
    float base_width;  /* one without logit_scale means n_embd / this; 0: 1 */
    uint32_t wide_scale_layers; /* a GGUF file of so many layers without attention.scale means
                                   1 / sqrt(n_embd / n_head) (Gemma's 27B); 0: none does */
    bool nope_follows_swa;      /* without a window every layer rotates (SmallThinker) */
    bool nope_is_full;          /* with a window the layers without it do not rotate (EXAONE 4) */
    bool swa_unscaled; /* layers with the window rotate with rope_theta without scaling, which
                          no key says (OLMo 3) */
    bool norm_rotated; /* norms of q and k come after the rotation (Hunyuan) */
    bool norm_values;  /* each head of the values is RMS-normed, without a weight (Gemma 4) */
    bool own_arch;     /* the architecture's name is ferry's: no other program reads its files */
    bool lists_swa_layers; /* readers insist on the list of the layers with the window */
    bool lists_widths;     /* and on that of the feed-forward's widths */
    bool both_eps;         /* they insist on the epsilon of layer norms, too (Nemotron-H) */
    bool rope_switch;      /* rope.scaling.finetuned false: no layer rotates (Granite) */
    bool nope_default;     /* nor does one unless position_embedding_type is "rope" (Granite 4) */
    fy_ssm_place ssm_place;
    bool gated_queries; /* FY_D_Q_2: attention's output is multiplied by sigmoid(gate) (Qwen3.5) */
    uint32_t alibi_layers; /* a model of so many layers has ALiBi instead of rotation, which ferry
                              does not compute (Baichuan 13B); 0: none has */
    fy_layer_pattern full_attention; /* the exceptions have no window; period 0: all have it */
    bool ends_full; /* whatever config.json says, the last layer has none (Gemma 4) */
    fy_layer_pattern no_rope;        /* the exceptions do not rotate */
    const fy_tensor_row *rows;
    size_t n_rows;
    const char *window_flag; /* HF config flag without which sliding_window is ignored; or NULL */
    const char *const *window_keys; /* instead of "sliding_window"; NULL-terminated, or NULL */
    const fy_config_key *keys;
    size_t n_keys;
    const fy_config_rule *rules;
    size_t n_rules;
    const char *const *rope_keys; /* what its rope_scaling or rope_parameters knows beyond the keys
                                     of all classes: alpha, llama_4_scaling_beta; or NULL */
    const char *const *drop;      /* endings of HF tensor names that are no weights; or NULL */
    const char *const *flags_on;  /* flags of rows (required_by) that an absent key means true; or
                                     NULL */
} fy_family;

extern const fy_family *const fy_families[]; /* NULL-terminated */
/* The first with that general.architecture that reads files with, or without, experts; NULL. */
const fy_family *fy_family_of_gguf(fy_span arch, bool has_experts);
/* The same for a file, whatever its keys say; NULL. */
const fy_family *fy_family_of_file(const fy_gguf *g);
const fy_family *fy_family_of_hf(fy_span hf_arch); /* NULL when unknown */

static inline bool fy_layer_in(const fy_layer_set *s, uint32_t layer)
{
    return (s->word[layer / 64] >> layer % 64 & 1) != 0;
}
/* How many of the layers below `layer` are in the set. */
uint32_t fy_layers_below(const fy_layer_set *s, uint32_t layer);
void fy_layer_put(fy_layer_set *s, uint32_t layer, bool in);
/* The exceptions below n_layer. */
fy_layer_set fy_layers_of(fy_layer_pattern p, uint32_t n_layer);
/* The layers of a model of that family that do not rotate when nothing says otherwise. hp:
 * n_layer, n_swa and full_layers. */
fy_layer_set fy_usual_nope_layers(const fy_family *f, const fy_hparams *hp);
uint32_t fy_layers_count(const fy_layer_set *s);

typedef enum {
    FY_HP_U32,
    FY_HP_F32,
    FY_HP_BOOL,
    FY_HP_SCALING,
    FY_HP_ACT,
    FY_HP_SWA_LAYERS,     /* bool array, true: the layer has the window. Written when it is not the
                             family's pattern */
    FY_HP_ROPE_LAYERS,    /* bool array, true: the layer rotates; the same */
    FY_HP_KV_HEADS,       /* a number, or a list: that number, or 0 in layers without attention;
                             where layers may differ, another in those with the window */
    FY_HP_FF,             /* a number, or a list with one for each layer; FY_SSM_ALONE: that number,
                             or 0 in layers without a feed-forward network */
    FY_HP_SPARSITY,       /* a list of numbers: act_sparsity, or -infinity: not one of sparse_layers */
    FY_HP_NO_ATTN_LAYERS, /* those layers, by the same key */
    FY_HP_NO_HEADS,       /* written as 0 and not read: the model has no attention */
    FY_HP_NO_FFN_LAYERS,
    FY_HP_SECTIONS,    /* up to four numbers */
    FY_HP_ROPE_SWITCH, /* false: no layer rotates. Of families with rope_switch */
} fy_hparam_kind;
enum {
    FY_HP_REQUIRED = 1u << 0, /* in a GGUF file */
    FY_HP_NULL_DERIVES =
        1u << 1, /* null in config.json means "derive", not "the default of the class" */
    FY_HP_MAY_BE_0 = 1u << 2, /* in a GGUF file: llama.cpp writes 0 for "none" */
    FY_HP_TRAIT = 1u << 3,    /* absent in a GGUF file: as in the defaults of the family that reads
                                 it; written unless it is that and `absent` */
    FY_HP_MOE = 1u << 4,      /* families with experts only, and required there */
    FY_HP_OWN = 1u << 5,      /* the key is `gguf` as it stands, without "<arch>." */
    FY_HP_LN = 1u << 6,       /* required of families with layer norms, absent in others */
    FY_HP_RMS = 1u << 7,
    FY_HP_ROPE = 1u << 8,   /* of families that rotate */
    FY_HP_CONV = 1u << 9,   /* of families with short convolutions, and required there */
    FY_HP_DENSE = 1u << 10, /* of families with experts whose first layers may have none */
    FY_HP_ALTUP = 1u << 19, /* of families with more than one residual stream, and required there */
    FY_HP_LAYERED = 1u << 11, /* of families whose layers may differ in size, share keys and values,
                                 and get a part of each token for themselves */
    FY_HP_ATTN = 1u << 12,  /* of families with attention */
    FY_HP_WKV = 1u << 13,   /* of RWKV's */
    FY_HP_WKV_6 = 1u << 14, /* of version 6, and required there */
    FY_HP_WKV_7 = 1u << 15, /* of version 7, and required there */
    FY_HP_LATENT = 1u << 16, /* of families with latent attention, and required there */
    FY_HP_SSM = 1u << 17,    /* of families with Mamba-2 mixers, the same */
    FY_HP_DELTA = 1u << 18,  /* of families with gated delta nets */
};
typedef struct {
    fy_hparam_kind kind;
    size_t offset;    /* of the field in fy_hparams */
    const char *gguf; /* key without "<arch>.": "attention.head_count" */
    const char *const
        *hf; /* config.json keys, first present wins; NULL: derived or read specially by convert */
    unsigned flags;
    float absent; /* what the key's absence means; a field with this value is not written, but for
                     families whose `keys` set it */
} fy_hparam_row;
extern const fy_hparam_row fy_hparam_rows[];
extern const size_t fy_n_hparam_rows;
/* Does the family know the field at all? */
bool fy_hp_applies(const fy_hparam_row *row, const fy_family *f);

/* "gelu" -> FY_ACT_GELU: names of transformers and ours; FY_ACT_COUNT when unknown. */
fy_act_kind fy_act_of(fy_span name);
const char *fy_act_name(fy_act_kind a); /* as written to GGUF */

/* Fills in what follows from other fields when it is 0 (n_head_kv, head_dim, head_dim_v, n_rot,
 * n_ff_exp, factors, scales). The layer sets are the caller's. */
void fy_hparams_derive(fy_hparams *hp, const fy_family *f);
/* Every field in the range the runtime can compute with; names the offending key, value and the
 * rule. */
int fy_hparams_check(const fy_hparams *hp, const fy_family *f, fy_err *e);
/* Reads, derives and checks. n_vocab comes from vocab_size, else from the token count. */
int fy_hparams_from_gguf(const fy_gguf *g, const fy_family *f, fy_hparams *out, fy_err *e);
/* Rows of position_embd before that of position 0: PowerInfer's files have all of the checkpoint.
 */
uint32_t fy_skipped_positions(const fy_gguf *g, const fy_family *f);
/* Does the activation make values exactly 0, so that their neurons can be left out? gated: it is
 * that of a gate. */
bool fy_act_makes_zeros(fy_act_kind a, bool gated);
/* Logs one line for each key that older converters leave out and that says something about the
 * arithmetic: its name, and what is taken. */
void fy_hparams_tell_missing(const fy_gguf *g, const fy_family *f, const fy_hparams *hp);
/* FY_EVERIFY names the first hyperparameter in which a file differs from another one of the same
 * model, which `says` names; both of the same family. */
int fy_hparams_compare(const fy_hparams *found, const fy_hparams *expected, const char *says,
                       fy_err *e);
/* Adds every "<arch>.*" key. */
int fy_hparams_to_gguf(fy_gguf_writer *w, const fy_family *f, const fy_hparams *hp, fy_err *e);

/* Does the layer keep a state of each sequence: something of a constant size, beside or instead of
 * a KV cache? */
bool fy_layer_has_state(const fy_hparams *hp, uint32_t layer);
/* Floats of it, the same in every layer that has one: columns of a convolution first. 0: no layer
 * has one. */
uint64_t fy_state_len(const fy_hparams *hp);

/* --- layer_shape.c: what differs from layer to layer --- */

typedef struct {
    uint32_t head_dim, head_dim_v, n_rot, n_head_kv, n_ff;
} fy_layer_shape;
fy_layer_shape fy_layer_shape_of(const fy_hparams *hp, uint32_t layer);
/* As if all layers were like this one: for the functions below. */
fy_hparams fy_hparams_of_layer(const fy_hparams *hp, uint32_t layer);
/* The largest of each over all layers. */
fy_layer_shape fy_layer_shape_max(const fy_hparams *hp);
/* Rotated elements of a head in layers with the window. */
static inline uint32_t fy_n_rot_swa(const fy_hparams *hp)
{
    return hp->n_rot_swa != 0 ? hp->n_rot_swa : hp->n_rot;
}
/* Are all layers of one shape, each with keys and values of its own? */
bool fy_layers_alike(const fy_hparams *hp);
/* Whose keys and values the layer reads: its own, or those of an earlier one. */
uint32_t fy_kv_owner(const fy_hparams *hp, uint32_t layer);
/* Sets the width of a layer's feed-forward; false: too many different ones. Ascending layers, from
 * 0 on. */
bool fy_put_width(fy_hparams *hp, uint32_t layer, uint32_t n_ff);
/* Does the family know such layers at all? */
bool fy_is_layered(const fy_family *f);

/* --- arch.c --- */

uint64_t fy_dim_of(const fy_hparams *hp, fy_dim d);
/* Expected GGUF shape of a row: ne[0] = row length, 1 beyond its dimensions. Returns the number of
 * dimensions. */
uint32_t fy_row_shape(const fy_hparams *hp, const fy_tensor_row *row,
                      uint64_t ne[FY_GGUF_MAX_DIMS]);
/* "[768 32000]" */
#define FY_SHAPE_BYTES 96
const char *fy_shape_text(const uint64_t *ne, uint32_t n, char out[FY_SHAPE_BYTES]);
/* Shape of its source in torch order, one source: without the experts that are stacked. */
uint32_t fy_row_source_shape(const fy_hparams *hp, const fy_tensor_row *row,
                             uint64_t dims[FY_GGUF_MAX_DIMS]);
bool fy_row_is_layer(const fy_tensor_row *row);
/* Has the model this tensor at all? Not when a dimension is 0: a shared expert of no width. */
bool fy_row_is_there(const fy_hparams *hp, const fy_tensor_row *row);
/* Has layer `layer` it? Each has the tensors of what it is made of: attention, a short convolution,
 * a Mamba-2 mixer, a feed-forward network; the first n_dense_layers have no experts. */
bool fy_row_is_in_layer(const fy_hparams *hp, const fy_tensor_row *row, uint32_t layer);
/* May a file have it there, though the graph does not read it? Keys and values of a layer that
 * reads those of another. */
bool fy_row_is_unused(const fy_hparams *hp, const fy_tensor_row *row, uint32_t layer);
/* How many sources are stacked to make it: its HF name has %e, or letters in braces; 0: it is made
 * of one. */
uint32_t fy_row_n_stacked(const fy_hparams *hp, const fy_tensor_row *row);
/* Which row of the source (all its dimensions but the last flattened) becomes row r of
 * the GGUF tensor (flattened alike). Transforms that choose rows only, FY_X_COPY included. */
uint64_t fy_transform_row(const fy_hparams *hp, const fy_tensor_row *row, uint64_t r);
/* The same for columns of FY_X_VALUE_COLUMNS. */
uint64_t fy_value_column(const fy_hparams *hp, uint64_t column);
bool fy_transform_is_transpose(fy_transform x);
bool fy_transform_is_computed(fy_transform x);
#define FY_ROW_NAME_BYTES 128
/* pattern (row->gguf or row->hf) with the layer number put in, and the expert's. */
void fy_row_name(const char *pattern, uint32_t layer, char out[FY_ROW_NAME_BYTES]);
void fy_row_expert_name(const char *pattern, uint32_t layer, uint32_t expert,
                        char out[FY_ROW_NAME_BYTES]);
/* The row of a slot, not one that is FY_ROW_ALT; NULL: the family has none. */
const fy_tensor_row *fy_row_of_slot(const fy_family *f, fy_slot slot);
/* The row and layer of a GGUF tensor name; NULL when the family has no such tensor. */
const fy_tensor_row *fy_row_of_gguf(const fy_family *f, fy_span name, uint32_t *layer);
/* The row that stands for FY_T_FFN_DOWN, or FY_T_FFN_DOWN_B, in files that have a row for each
 * neuron; NULL: of other slots, or the family has no such files. */
const fy_tensor_row *fy_row_by_neuron(const fy_family *f, fy_slot slot);
/* The same by name, and of the two matrices of a predictor, which have no shape of their own. */
const fy_tensor_row *fy_neuron_row_of_gguf(const fy_family *f, fy_span name, uint32_t *layer);

#endif
