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

/* Which numbers of the router become weights; values of the key expert_gating_func. */
typedef enum { FY_GATING_SOFTMAX = 1, FY_GATING_SIGMOID = 2 } fy_gating;

/* A set of layers. */
typedef struct {
    uint64_t word[(FY_N_LAYER_MAX + 63) / 64];
} fy_layer_set;

typedef struct {
    uint32_t n_vocab;     /* rows of token_embd */
    uint32_t n_ctx_train; /* context_length */
    uint32_t n_embd, n_layer, n_ff;
    uint32_t n_head, n_head_kv;
    uint32_t head_dim, head_dim_v; /* key_length, value_length */
    uint32_t n_rot;                /* rotated elements of a head; FY_ROPE_NO: 0 */
    uint32_t n_swa; /* sliding window in tokens: key j is visible to query p iff p - j < n_swa; 0:
                       none */
    fy_layer_set
        full_layers; /* the layers that do not have the window; of no meaning without n_swa */
    fy_layer_set nope_layers; /* the layers that do not rotate */
    float norm_rms_eps;       /* of RMS norms */
    float norm_eps;           /* of layer norms */
    float rope_theta;
    float rope_theta_swa; /* of layers with the window, which are not scaled; 0: as the others */
    fy_rope_scaling rope_scaling;
    float rope_factor;      /* linear, yarn */
    uint32_t rope_orig_ctx; /* yarn, longrope: context before scaling */
    float rope_attn_factor; /* multiplies cos and sin on top of yarn's own 1 + 0.1 ln factor;
                               default 1 */
    float yarn_beta_fast, yarn_beta_slow;
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
    uint32_t n_ff_exp;   /* rows of one expert's gate and up */
    uint32_t n_ff_shexp; /* of the shared expert; 0: there is none */
    fy_gating gating;
    bool expert_norm;      /* the weights of the chosen experts are divided by their sum */
    uint32_t n_qkv_groups; /* of a checkpoint that FY_X_CODEGEN_* read; not in GGUF files */
} fy_hparams;

/* Symbolic dimensions of a tensor row. */
typedef enum {
    FY_D_END = 0, /* no further dimension */
    FY_D_VOCAB,
    FY_D_EMBD,
    FY_D_FF,
    FY_D_FF_2,    /* 2 n_ff: gate, then up */
    FY_D_Q,       /* n_head * head_dim */
    FY_D_K,       /* n_head_kv * head_dim */
    FY_D_V,       /* n_head_kv * head_dim_v */
    FY_D_QKV,     /* Q + K + V */
    FY_D_QV,      /* n_head * head_dim_v: what attn_output reads */
    FY_D_HEAD,    /* head_dim */
    FY_D_ROT2,    /* n_rot / 2 */
    FY_D_CTX,     /* n_ctx_train */
    FY_D_CTX_OPT, /* n_ctx_train + 2: rows of OPT's positions */
    FY_D_EXPERT,
    FY_D_FF_EXP,
    FY_D_FF_EXP_2, /* 2 n_ff_exp */
    FY_D_FF_SHEXP,
    FY_D_FF_SHEXP_2,
    FY_D_ONE,
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
    FY_T_ATTN_OUT,
    FY_T_ATTN_OUT_B,
    FY_T_ATTN_Q_NORM, /* RMS before rotation: [head_dim] of each head, or [n_head * head_dim] of the
                         whole vector */
    FY_T_ATTN_K_NORM,
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
    FY_T_FFN_DOWN_B,
    FY_T_FFN_POST_NORM,
    FY_T_FFN_ROUTER,    /* ffn_gate_inp: [n_expert, n_embd], f32 */
    FY_T_FFN_GATE_EXPS, /* [n_expert, n_ff_exp, n_embd] */
    FY_T_FFN_UP_EXPS,
    FY_T_FFN_DOWN_EXPS,    /* [n_expert, n_embd, n_ff_exp] */
    FY_T_FFN_SHEXP_ROUTER, /* [n_embd]: the shared expert counts sigmoid(w x) times; absent: once */
    FY_T_FFN_GATE_SHEXP,
    FY_T_FFN_UP_SHEXP,
    FY_T_FFN_DOWN_SHEXP,
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
    FY_X_ZEROS,         /* a bias that a reader insists on */
    /* change of values or of order within rows */
    FY_X_ADD_ONE,               /* Gemma's norms hold w - 1 */
    FY_X_TRANSPOSE,             /* the last two dimensions are exchanged (Conv1D of GPT-2) */
    FY_X_TRANSPOSE_FIRST_HALF,  /* [.., in, 2 out] -> [.., out, in]: gate of fused experts */
    FY_X_TRANSPOSE_SECOND_HALF, /* up */
    /* choice of rows */
    FY_X_PERMUTE_Q,  /* n_head heads */
    FY_X_PERMUTE_K,  /* n_head_kv heads */
    FY_X_SKIP_2,     /* without the first two rows (OPT's positions) */
    FY_X_FIRST_HALF, /* [.., 2 n, in] -> [.., n, in] */
    FY_X_SECOND_HALF,
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
                         stacked; NULL: no source */
    fy_dim dims[3];   /* torch order, rows first: {FY_D_Q, FY_D_EMBD}; FY_D_END-terminated */
    fy_transform transform;
    unsigned flags;
    const char *required_by; /* HF config flag that makes an optional row required:
                                "attention_bias"; or NULL */
    fy_dim hf_dims[3];       /* of the source when it is not `dims`; of one expert's source: without
                                FY_D_EXPERT and always given */
} fy_tensor_row;

#define FY_FUSED_PARTS 3
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
    FY_OP_INV_SQRT,         /* 1 / sqrt(v) */
    FY_OP_OVER_SQRT_LAYERS, /* v / sqrt(n_layer) */
    FY_OP_EMBD_OVER,        /* n_embd / v */
    FY_OP_TIMES_10000,
    FY_OP_ONE_IF_TRUE,       /* a flag: 1 when it is true */
    FY_OP_FLAG,              /* a flag, false when it is absent */
    FY_OP_ROUTER_IS_SOFTMAX, /* a flag: FY_GATING_SOFTMAX or FY_GATING_SIGMOID */
    FY_OP_CODEGEN_GROUPS,    /* 8 when v is 128 or 256, else 4 */
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
    uint32_t wide_scale_layers; /* a GGUF file of so many layers without attention.scale means
                                   1 / sqrt(n_embd / n_head) (Gemma's 27B); 0: none does */
    bool nope_follows_swa;      /* without a window every layer rotates (SmallThinker) */
    uint32_t alibi_layers; /* a model of so many layers has ALiBi instead of rotation, which ferry
                              does not compute (Baichuan 13B); 0: none has */
    fy_layer_pattern full_attention; /* the exceptions have no window; period 0: all have it */
    fy_layer_pattern no_rope;        /* the exceptions do not rotate */
    const fy_tensor_row *rows;
    size_t n_rows;
    const char *window_flag; /* HF config flag without which sliding_window is ignored; or NULL */
    const char *const *window_keys; /* instead of "sliding_window"; NULL-terminated, or NULL */
    const fy_config_key *keys;
    size_t n_keys;
    const fy_config_rule *rules;
    size_t n_rules;
    const char *const *drop;     /* endings of HF tensor names that are no weights; or NULL */
    const char *const *flags_on; /* flags of rows (required_by) that an absent key means true; or
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
void fy_layer_put(fy_layer_set *s, uint32_t layer, bool in);
/* The exceptions below n_layer. */
fy_layer_set fy_layers_of(fy_layer_pattern p, uint32_t n_layer);
uint32_t fy_layers_count(const fy_layer_set *s);

typedef enum {
    FY_HP_U32,
    FY_HP_F32,
    FY_HP_BOOL,
    FY_HP_SCALING,
    FY_HP_ACT,
    FY_HP_SWA_LAYERS,  /* bool array, true: the layer has the window. Written when it is not the
                          family's pattern */
    FY_HP_ROPE_LAYERS, /* bool array, true: the layer rotates; the same */
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
    FY_HP_ROPE = 1u << 8, /* of families that rotate */
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
/* FY_EVERIFY names the first hyperparameter in which a file differs from another one of the same
 * model, which `says` names; both of the same family. */
int fy_hparams_compare(const fy_hparams *found, const fy_hparams *expected, const char *says,
                       fy_err *e);
/* Adds every "<arch>.*" key. */
int fy_hparams_to_gguf(fy_gguf_writer *w, const fy_family *f, const fy_hparams *hp, fy_err *e);

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
bool fy_row_is_stacked(const fy_tensor_row *row); /* %e in its HF name */
/* Which row of the source (all its dimensions but the last flattened) becomes row r of
 * the GGUF tensor (flattened alike). Transforms that choose rows only, FY_X_COPY included. */
uint64_t fy_transform_row(const fy_hparams *hp, const fy_tensor_row *row, uint64_t r);
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

#endif
