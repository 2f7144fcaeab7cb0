/* Falcon 7B, 40B, 180B and 11B: attention and feed-forward in parallel, no bias but the norms', and
 * one matrix of q, k and v by groups of q heads. 40B and 180B give each branch its own norm. */
#include "arch/layernorm_rows.h"

#define LAYER "transformer.h.%u."

/* Where a layer has two, its attn_norm is the feed-forward's. */
#define NORM_ROW(slot, gguf, hf, more)                        \
    {                                                         \
        slot, gguf, hf, {FY_D_EMBD}, FY_X_COPY, .flags = more \
    }

static const fy_tensor_row rows[] = {
    TOKEN_EMBD("transformer.word_embeddings"),
    NORM_ROW(FY_T_ATTN_NORM, G_ATTN_NORM ".weight", LAYER "input_layernorm.weight", 0),
    NORM_ROW(FY_T_ATTN_NORM, G_ATTN_NORM ".weight", LAYER "ln_mlp.weight", FY_ROW_ALT),
    NORM_ROW(FY_T_ATTN_NORM_B, G_ATTN_NORM ".bias", LAYER "input_layernorm.bias", 0),
    NORM_ROW(FY_T_ATTN_NORM_B, G_ATTN_NORM ".bias", LAYER "ln_mlp.bias", FY_ROW_ALT),
    NORM_ROW(FY_T_ATTN_NORM_2, "blk.%u.attn_norm_2.weight", LAYER "ln_attn.weight",
             FY_ROW_OPTIONAL),
    NORM_ROW(FY_T_ATTN_NORM_2_B, "blk.%u.attn_norm_2.bias", LAYER "ln_attn.bias", FY_ROW_OPTIONAL),
    MATRIX(FY_T_ATTN_QKV, G_ATTN_QKV, LAYER "self_attention.query_key_value", FY_D_QKV, FY_D_EMBD,
           FY_X_GROUP_QKV),
    MATRIX(FY_T_ATTN_OUT, G_ATTN_OUT, LAYER "self_attention.dense", FY_D_EMBD, FY_D_QV, FY_X_COPY),
    MATRIX(FY_T_FFN_UP, G_FFN_UP, LAYER "mlp.dense_h_to_4h", FY_D_FF, FY_D_EMBD, FY_X_COPY),
    MATRIX(FY_T_FFN_DOWN, G_FFN_DOWN, LAYER "mlp.dense_4h_to_h", FY_D_EMBD, FY_D_FF, FY_X_COPY),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "transformer.ln_f"),
    OUTPUT_MATRIX("lm_head"),
};

/* num_kv_heads is there, and of no meaning, in configs of the old architecture, too. */
static const fy_config_key keys[] = {
    {"multi_query", offsetof(fy_hparams, n_head_kv), FY_OP_ONE_IF_TRUE, 1, NULL},
    {"n_head_kv", offsetof(fy_hparams, n_head_kv), FY_OP_SET, 0, NULL},
    {"num_kv_heads", offsetof(fy_hparams, n_head_kv), FY_OP_SET, 0, "new_decoder_architecture"},
};

static const fy_config_rule rules[] = {
    {"alibi", "false", NULL},
    {"bias", "false", NULL},
    {"parallel_attn", "true", NULL},
};

static const char *const hf_archs[] = {"FalconForCausalLM", "RWForCausalLM", NULL};

const fy_family fy_family_falcon = {
    .name = "falcon",
    .gguf_arch = "falcon",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 65024,
            .n_ctx_train = 2048,
            .n_embd = 4544,
            .n_layer = 32,
            .n_head = 71,
            .norm_eps = 1e-5F,
            .rope_theta = 10000.0F,
            .act = FY_ACT_GELU,
            .parallel = true,
        },
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .layer_norm = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
