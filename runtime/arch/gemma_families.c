/* Gemma 1, 2 and 3: norms hold w - 1, the embedding is scaled by sqrt(n_embd), tanh GELU, the
 * output matrix is the embedding. */
#include "arch/tensor_rows.h"

#define NORM_ADD_ONE(slot, gguf, hf, dim) VECTOR(slot, gguf, HF_LAYER hf, dim, FY_X_ADD_ONE)
#define ROW_IN_NORM                       NORM_ADD_ONE(FY_T_ATTN_NORM, G_ATTN_NORM, "input_layernorm", FY_D_EMBD)
#define ROWS_OUT \
    VECTOR(FY_T_OUTPUT_NORM, "output_norm", "model.norm", FY_D_EMBD, FY_X_ADD_ONE), ROW_OUTPUT
/* From Gemma 2 on: norms around attention and feed-forward. */
#define ROW_AFTER_ATTN                                                                          \
    NORM_ADD_ONE(FY_T_ATTN_POST_NORM, "blk.%u.post_attention_norm", "post_attention_layernorm", \
                 FY_D_EMBD)
#define ROWS_FFN_AND_NORMS                                                                     \
    NORM_ADD_ONE(FY_T_FFN_NORM, G_FFN_NORM, "pre_feedforward_layernorm", FY_D_EMBD), ROWS_FFN, \
        NORM_ADD_ONE(FY_T_FFN_POST_NORM, "blk.%u.post_ffw_norm", "post_feedforward_layernorm", \
                     FY_D_EMBD)

static const fy_tensor_row gemma_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_IN_NORM,
    ROWS_ATTN(FY_X_COPY, FY_X_COPY),
    NORM_ADD_ONE(FY_T_FFN_NORM, G_FFN_NORM, "post_attention_layernorm", FY_D_EMBD),
    ROWS_FFN,
    ROWS_OUT,
};

static const fy_config_rule no_bias_rules[] = {{"attention_bias", "false", NULL}};

const fy_family fy_family_gemma = {
    .name = "gemma",
    .gguf_arch = "gemma",
    CLASSES("GemmaForCausalLM"),
    .defaults = {SIZES(256000, 8192, 3072, 28, 16, 24576), .n_head_kv = 16, .head_dim = 256,
                 RMS(1e-6F, 10000), .act = FY_ACT_GELU_TANH},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .sqrt_embedding = true,
    ROWS(gemma_rows),
    RULES(no_bias_rules),
};

/* Gemma 2: four norms a layer, soft caps, a window on the even layers, and a scale of its own
 * in attention, which llama.cpp guesses from the number of layers. */
static const fy_tensor_row gemma2_rows[] = {
    ROW_TOKEN_EMBD, ROW_IN_NORM,        ROWS_ATTN(FY_X_COPY, FY_X_COPY),
    ROW_AFTER_ATTN, ROWS_FFN_AND_NORMS, ROWS_OUT,
};

static const fy_config_key gemma_keys[] = {
    {"query_pre_attn_scalar", FIELD(attn_scale), FY_OP_INV_SQRT, 256, NULL},
};

const fy_family fy_family_gemma2 = {
    .name = "gemma2",
    .gguf_arch = "gemma2",
    CLASSES("Gemma2ForCausalLM"),
    .defaults = {SIZES(256000, 8192, 2304, 26, 8, 9216), .n_head_kv = 4, .head_dim = 256,
                 .n_swa = 4096, RMS(1e-6F, 10000), .act = FY_ACT_GELU_TANH, .attn_softcap = 50,
                 .logit_softcap = 30},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .sqrt_embedding = true,
    .wide_scale_layers = 46,
    .full_attention = {.period = 2},
    ROWS(gemma2_rows),
    KEYS(gemma_keys),
    RULES(no_bias_rules),
};

/* Gemma 3: no soft caps, RMS norms of each head of q and k, five windowed layers to each full
 * one, and another theta, never scaled, on the windowed ones. The vision tower of
 * Gemma3ForConditionalGeneration is left out. */
static const fy_tensor_row gemma3_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_IN_NORM,
    ROW_ATTN_Q(FY_X_COPY),
    NORM_ADD_ONE(FY_T_ATTN_Q_NORM, "blk.%u.attn_q_norm", "self_attn.q_norm", FY_D_HEAD),
    ROW_ATTN_K(FY_X_COPY),
    NORM_ADD_ONE(FY_T_ATTN_K_NORM, "blk.%u.attn_k_norm", "self_attn.k_norm", FY_D_HEAD),
    ROW_ATTN_V,
    ROW_ATTN_OUT,
    ROW_AFTER_ATTN,
    ROWS_FFN_AND_NORMS,
    ROWS_OUT,
};

static const fy_config_rule gemma3_rules[] = {
    {"attention_bias", "false", NULL},
    {"use_bidirectional_attention", "false", NULL},
    {"attn_logit_softcapping", "null", NULL},
};

const fy_family fy_family_gemma3 = {
    .name = "gemma3",
    .gguf_arch = "gemma3",
    CLASSES("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
    .defaults = {SIZES(262208, 131072, 2304, 26, 8, 9216), .n_head_kv = 4, .head_dim = 256,
                 .n_swa = 4096, RMS(1e-6F, 1e6F), .rope_theta_swa = 10000, .act = FY_ACT_GELU_TANH},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .sqrt_embedding = true,
    .wide_scale_layers = 62,
    .full_attention = {.period = 6},
    ROWS(gemma3_rows),
    KEYS(gemma_keys),
    RULES(gemma3_rules),
};
