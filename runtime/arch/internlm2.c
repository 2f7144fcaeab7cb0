/* InternLM 2 and 2.5: Llama with names of its own and q, k, v of each group of heads in one tensor.
 * The GGUF architecture rotates neighbours (NORM), the checkpoint halves: rows of q and k are
 * permuted on top of being taken apart. */
#include "arch/decoder_rows.h"

/* slot, GGUF module, dimension, transform: parts of the fused tensor. */
#define PART(slot, gguf, dim, x)                                                                   \
    {                                                                                              \
        slot, "blk.%u." gguf ".weight", "model.layers.%u.attention.wqkv.weight", {dim, FY_D_EMBD}, \
            x, .flags = FY_ROW_MATRIX, .hf_dims = {                                                \
                FY_D_QKV,                                                                          \
                FY_D_EMBD                                                                          \
            }                                                                                      \
    }
#define PART_B(slot, gguf, dim, x)                                                     \
    {                                                                                  \
        slot, "blk.%u." gguf ".bias", "model.layers.%u.attention.wqkv.bias", {dim}, x, \
            FY_ROW_OPTIONAL, .required_by = "bias", .hf_dims = {                       \
                FY_D_QKV                                                               \
            }                                                                          \
    }

static const fy_tensor_row rows[] = {
    {FY_T_TOKEN_EMBD,
     "token_embd.weight",
     "model.tok_embeddings.weight",
     {FY_D_VOCAB, FY_D_EMBD},
     FY_X_COPY,
     .flags = FY_ROW_MATRIX},
    LAYER_VECTOR(FY_T_ATTN_NORM, "attn_norm", "attention_norm", FY_D_EMBD),
    PART(FY_T_ATTN_Q, "attn_q", FY_D_Q, FY_X_GROUP_Q),
    PART_B(FY_T_ATTN_Q_B, "attn_q", FY_D_Q, FY_X_GROUP_Q),
    PART(FY_T_ATTN_K, "attn_k", FY_D_K, FY_X_GROUP_K),
    PART_B(FY_T_ATTN_K_B, "attn_k", FY_D_K, FY_X_GROUP_K),
    PART(FY_T_ATTN_V, "attn_v", FY_D_V, FY_X_GROUP_V),
    PART_B(FY_T_ATTN_V_B, "attn_v", FY_D_V, FY_X_GROUP_V),
    LAYER_MATRIX(FY_T_ATTN_OUT, "attn_output", "attention.wo", FY_D_EMBD, FY_D_QV, FY_X_COPY),
    LAYER_BIAS(FY_T_ATTN_OUT_B, "attn_output", "attention.wo", FY_D_EMBD, FY_X_COPY, "bias"),
    LAYER_VECTOR(FY_T_FFN_NORM, "ffn_norm", "ffn_norm", FY_D_EMBD),
    LAYER_MATRIX(FY_T_FFN_GATE, "ffn_gate", "feed_forward.w1", FY_D_FF, FY_D_EMBD, FY_X_COPY),
    LAYER_MATRIX(FY_T_FFN_UP, "ffn_up", "feed_forward.w3", FY_D_FF, FY_D_EMBD, FY_X_COPY),
    LAYER_MATRIX(FY_T_FFN_DOWN, "ffn_down", "feed_forward.w2", FY_D_EMBD, FY_D_FF, FY_X_COPY),
    ROW_OUTPUT_NORM,
    {FY_T_OUTPUT,
     "output.weight",
     "output.weight",
     {FY_D_VOCAB, FY_D_EMBD},
     FY_X_COPY,
     .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL},
};

static const char *const hf_archs[] = {"InternLM2ForCausalLM", NULL};

static const char *const flags_on[] = {"bias", NULL};

const fy_family fy_family_internlm2 = {
    .name = "internlm2",
    .gguf_arch = "internlm2",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 103168,
            .n_ctx_train = 2048,
            .n_embd = 4096,
            .n_layer = 32,
            .n_ff = 11008,
            .n_head = 32,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 10000.0F,
        },
    .tied_default = false,
    .rope = FY_ROPE_NORM,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .flags_on = flags_on,
};
