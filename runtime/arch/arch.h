/* Model families as data. A family is one table file in this directory plus a line in registry.c:
 * Hugging Face class names, defaults of the HF config class, traits, and its tensor rows. convert
 * walks the rows HF -> GGUF, quantize reads their flags, the runtime binds slots and checks shapes
 * by them, workspace cuts along them.
 *
 * Hyperparameters are one struct; hparam_rows (arch.c) says for each field its GGUF key and its HF
 * config keys. */
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

typedef enum {
    FY_ROPE_NORM,
    FY_ROPE_NEOX
} fy_rope_kind; /* pairs (2i, 2i+1) or (i, i + n_rot/2) rotate */
typedef enum { FY_ROPE_SCALING_NONE, FY_ROPE_SCALING_LINEAR, FY_ROPE_SCALING_YARN } fy_rope_scaling;

typedef struct {
    uint32_t n_vocab;     /* rows of token_embd */
    uint32_t n_ctx_train; /* context_length */
    uint32_t n_embd, n_layer, n_ff;
    uint32_t n_head, n_head_kv;
    uint32_t head_dim, head_dim_v; /* key_length, value_length */
    uint32_t n_rot;                /* rotated elements of a head */
    uint32_t n_swa; /* sliding window in tokens: key j is visible to query p iff p - j < n_swa; 0:
                       none */
    float norm_rms_eps;
    float rope_theta;
    fy_rope_scaling rope_scaling; /* llama3 scaling is the rope_freqs tensor, not a value here */
    float rope_factor;            /* linear, yarn */
    uint32_t rope_orig_ctx;       /* yarn: context before scaling */
    float rope_attn_factor;       /* multiplies cos and sin on top of yarn's own 1 + 0.1 ln factor;
                                     default 1 */
    float yarn_beta_fast, yarn_beta_slow;
} fy_hparams;

/* Symbolic dimensions of a tensor row. */
typedef enum {
    FY_D_END = 0, /* no further dimension */
    FY_D_VOCAB,
    FY_D_EMBD,
    FY_D_FF,
    FY_D_Q,    /* n_head * head_dim */
    FY_D_K,    /* n_head_kv * head_dim */
    FY_D_V,    /* n_head_kv * head_dim_v */
    FY_D_QV,   /* n_head * head_dim_v: what attn_output reads */
    FY_D_HEAD, /* head_dim */
    FY_D_ROT2, /* n_rot / 2 */
} fy_dim;

typedef enum {
    /* one per model */
    FY_T_TOKEN_EMBD,
    FY_T_OUTPUT_NORM,
    FY_T_OUTPUT,
    FY_T_ROPE_FREQS,
    /* one per layer */
    FY_T_ATTN_NORM,
    FY_T_ATTN_Q,
    FY_T_ATTN_Q_B,
    FY_T_ATTN_K,
    FY_T_ATTN_K_B,
    FY_T_ATTN_V,
    FY_T_ATTN_V_B,
    FY_T_ATTN_OUT,
    FY_T_ATTN_OUT_B,
    FY_T_ATTN_Q_NORM,
    FY_T_ATTN_K_NORM,
    FY_T_FFN_NORM,
    FY_T_FFN_GATE,
    FY_T_FFN_GATE_B,
    FY_T_FFN_UP,
    FY_T_FFN_UP_B,
    FY_T_FFN_DOWN,
    FY_T_FFN_DOWN_B,
    FY_T_COUNT,
} fy_slot;

/* How the rows of the HF tensor become the rows of the GGUF tensor. */
typedef enum {
    FY_X_COPY,
    FY_X_PERMUTE_Q, /* per head of head_dim rows: row half*head_dim/2 + j -> row 2j + half (NEOX ->
                       NORM), n_head heads */
    FY_X_PERMUTE_K, /* the same over n_head_kv heads */
    FY_X_LLAMA3_FREQS, /* no HF source: computed from rope_scaling of type llama3 */
} fy_transform;

enum {
    FY_ROW_MATRIX = 1u << 0,   /* takes the output type; other tensors stay F32 */
    FY_ROW_OPTIONAL = 1u << 1, /* may be absent (biases, tied output, rope_freqs) */
};

typedef struct {
    fy_slot slot;
    const char *gguf; /* "blk.%u.attn_q.weight"; with %u: one per layer */
    const char *hf;   /* "model.layers.%u.self_attn.q_proj.weight"; NULL: no source */
    fy_dim dims[3];   /* torch order, rows first: {FY_D_Q, FY_D_EMBD}; FY_D_END-terminated */
    fy_transform transform;
    unsigned flags;
    const char *required_by; /* HF config flag that makes an optional row required:
                                "attention_bias"; or NULL */
} fy_tensor_row;

typedef struct {
    const char *name;            /* "mistral" */
    const char *gguf_arch;       /* general.architecture: "llama" */
    const char *const *hf_archs; /* NULL-terminated: {"MistralForCausalLM", NULL} */
    fy_hparams defaults; /* of the HF config class; 0: no default, the key is required. n_swa 0: the
                          * class knows no window and sliding_window means nothing to it */
    bool tied_default;   /* tie_word_embeddings when absent */
    fy_rope_kind rope;
    const fy_tensor_row *rows;
    size_t n_rows;
    const char *window_flag; /* HF config flag without which sliding_window is ignored; or NULL */
} fy_family;

extern const fy_family *const fy_families[];       /* registry.c, NULL-terminated */
const fy_family *fy_family_of_gguf(fy_span arch);  /* first with that general.architecture; NULL */
const fy_family *fy_family_of_hf(fy_span hf_arch); /* NULL when unknown */

typedef enum { FY_HP_U32, FY_HP_F32, FY_HP_SCALING } fy_hparam_kind;
enum {
    FY_HP_REQUIRED = 1u << 0, /* in a GGUF file */
    FY_HP_MAY_BE_0 = 1u << 2, /* in a GGUF file: llama.cpp writes 0 for "none" */
    FY_HP_NULL_DERIVES =
        1u << 1, /* null in config.json means "derive", not "the default of the class" */
};
typedef struct {
    fy_hparam_kind kind;
    size_t offset;    /* of the field in fy_hparams */
    const char *gguf; /* key without "<arch>.": "attention.head_count" */
    const char *const
        *hf; /* config.json keys, first present wins; NULL: derived or read specially by convert */
    unsigned flags;
    float absent; /* what the key's absence means; a field with this value is not written */
} fy_hparam_row;
extern const fy_hparam_row fy_hparam_rows[];
extern const size_t fy_n_hparam_rows;

/* Fills in what follows from other fields when it is 0 (n_head_kv, head_dim, head_dim_v, n_rot,
 * factors). */
void fy_hparams_derive(fy_hparams *hp);
/* Every field in the range the runtime can compute with; names the offending key, value and the
 * rule. */
int fy_hparams_check(const fy_hparams *hp, fy_err *e);
/* Reads, derives and checks. n_vocab comes from vocab_size, else from the token count. */
int fy_hparams_from_gguf(const fy_gguf *g, const fy_family *f, fy_hparams *out, fy_err *e);
/* Adds every "<arch>.*" key. */
int fy_hparams_to_gguf(fy_gguf_writer *w, const fy_family *f, const fy_hparams *hp, fy_err *e);

uint64_t fy_dim_of(const fy_hparams *hp, fy_dim d);
/* Expected GGUF shape of a row: ne[0] = row length. Returns the number of dimensions. */
uint32_t fy_row_shape(const fy_hparams *hp, const fy_tensor_row *row,
                      uint64_t ne[FY_GGUF_MAX_DIMS]);
bool fy_row_is_layer(const fy_tensor_row *row);
#define FY_ROW_NAME_BYTES 128
/* pattern (row->gguf or row->hf) with the layer number put in. */
void fy_row_name(const char *pattern, uint32_t layer, char out[FY_ROW_NAME_BYTES]);
/* The row and layer of a GGUF tensor name; NULL when the family has no such tensor. */
const fy_tensor_row *fy_row_of_gguf(const fy_family *f, fy_span name, uint32_t *layer);

#endif
