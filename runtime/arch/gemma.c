/* Gemma 1: norms hold w - 1, the embedding is scaled by sqrt(n_embd), tanh GELU, output tied. */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    LAYER_VECTOR_ADD_ONE(FY_T_ATTN_NORM, "attn_norm", "input_layernorm", FY_D_EMBD),
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_V,
    ROW_ATTN_OUT,
    LAYER_VECTOR_ADD_ONE(FY_T_FFN_NORM, "ffn_norm", "post_attention_layernorm", FY_D_EMBD),
    ROW_FFN_GATE,
    ROW_FFN_UP,
    ROW_FFN_DOWN,
    ROW_OUTPUT_NORM_ADD_ONE,
    ROW_OUTPUT,
};

static const fy_config_rule rules[] = {{"attention_bias", "false", NULL}};

static const char *const hf_archs[] = {"GemmaForCausalLM", NULL};

const fy_family fy_family_gemma = {
    .name = "gemma",
    .gguf_arch = "gemma",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 256000,
            .n_ctx_train = 8192,
            .n_embd = 3072,
            .n_layer = 28,
            .n_ff = 24576,
            .n_head = 16,
            .n_head_kv = 16,
            .head_dim = 256,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 10000.0F,
            .act = FY_ACT_GELU_TANH,
        },
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .sqrt_embedding = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
