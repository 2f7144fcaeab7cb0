/* Gemma 1 to 4 and 3n: the embedding is scaled by sqrt(n_embd), tanh GELU, the output matrix is the
 * embedding. Norms of 1, 2 and 3 hold w - 1. */
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

/* From Gemma 3n on each layer gets a part of every token from a table of its own. */
#define ROWS_PER_LAYER_ONCE                                                                    \
    {FY_T_PL_EMBD,                                                                             \
     "per_layer_token_embd.weight",                                                            \
     "model.embed_tokens_per_layer.weight",                                                    \
     {FY_D_VOCAB, FY_D_PL_ALL},                                                                \
     FY_X_PAD_ROWS,                                                                            \
     .hf_dims = {FY_D_VOCAB_PL, FY_D_PL_ALL},                                                  \
     .flags = FY_ROW_MATRIX},                                                                  \
        MATRIX(FY_T_PL_MODEL_PROJ, "per_layer_model_proj", "model.per_layer_model_projection", \
               FY_D_PL_ALL, FY_D_EMBD, FY_X_COPY),                                             \
        VECTOR(FY_T_PL_MODEL_NORM, "per_layer_proj_norm", "model.per_layer_projection_norm",   \
               FY_D_PL, FY_X_COPY)
#define ROWS_PER_LAYER                                                                           \
    MATRIX(FY_T_PL_GATE, "blk.%u.inp_gate", HF_LAYER "per_layer_input_gate", FY_D_PL, FY_D_EMBD, \
           FY_X_COPY),                                                                           \
        MATRIX(FY_T_PL_PROJ, "blk.%u.proj", HF_LAYER "per_layer_projection", FY_D_EMBD, FY_D_PL, \
               FY_X_COPY),                                                                       \
        NORM(FY_T_PL_NORM, "blk.%u.post_norm", "post_per_layer_input_norm")

/* Gemma 3n: four residual streams, of which a layer computes one and predicts the others (AltUp); a
 * low-rank branch beside attention (LAuReL); in the first layers most gates count 0; the last
 * layers have no keys and values. Scores are not scaled; values are normed; norms hold w. */
#define H_ALTUP  HF_LAYER "altup."
#define H_LAUREL HF_LAYER "laurel."
/* One source for each stream but the first. */
#define ALTUP_STACK(slot, gguf, hf)                                                             \
    {                                                                                           \
        slot, gguf ".weight", hf ".%e.weight", {FY_D_ALTUP_1, FY_D_EMBD, FY_D_EMBD}, FY_X_COPY, \
            .hf_dims = {FY_D_EMBD, FY_D_EMBD}, .flags = FY_ROW_MATRIX                           \
    }
#define ALTUP_COEFS(slot, gguf, hf, rows)                                                     \
    {                                                                                         \
        slot, gguf ".weight", H_ALTUP hf ".weight", {rows, FY_D_ALTUP}, FY_X_COPY, .flags = 0 \
    }

static const fy_tensor_row gemma3n_rows[] = {
    ROW_TOKEN_EMBD,
    ROWS_PER_LAYER_ONCE,
    ALTUP_STACK(FY_T_ALTUP_PROJ, "altup_proj", "model.altup_projections"),
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_NORM(FY_D_HEAD),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_NORM(FY_D_HEAD),
    ROW_ATTN_V,
    ROW_ATTN_OUT,
    ROW_ATTN_POST_NORM("post_attention_layernorm"),
    MATRIX(FY_T_LAUREL_L, "blk.%u.laurel_l", H_LAUREL "linear_left", FY_D_LAUREL, FY_D_EMBD,
           FY_X_COPY),
    MATRIX(FY_T_LAUREL_R, "blk.%u.laurel_r", H_LAUREL "linear_right", FY_D_EMBD, FY_D_LAUREL,
           FY_X_COPY),
    VECTOR(FY_T_LAUREL_NORM, "blk.%u.laurel_post_norm", H_LAUREL "post_laurel_norm", FY_D_EMBD,
           FY_X_COPY),
    NORM(FY_T_FFN_NORM, G_FFN_NORM, "pre_feedforward_layernorm"),
    ROWS_FFN,
    ROW_FFN_POST_NORM("post_feedforward_layernorm"),
    MATRIX(FY_T_ALTUP_ROUTER, "blk.%u.altup_router", H_ALTUP "modality_router", FY_D_ALTUP,
           FY_D_EMBD, FY_X_COPY),
    VECTOR(FY_T_ALTUP_ROUTER_NORM, "blk.%u.altup_router_norm", H_ALTUP "router_norm", FY_D_EMBD,
           FY_X_COPY),
    ALTUP_COEFS(FY_T_ALTUP_PREDICT, "blk.%u.altup_predict_coef", "prediction_coefs", FY_D_ALTUP_2),
    ALTUP_COEFS(FY_T_ALTUP_CORRECT, "blk.%u.altup_correct_coef", "correction_coefs", FY_D_ALTUP),
    {FY_T_ALTUP_SCALE,
     "blk.%u.altup_correct_scale.weight",
     H_ALTUP "correct_output_scale",
     {FY_D_EMBD},
     FY_X_COPY,
     .flags = 0},
    ROWS_PER_LAYER,
    ALTUP_STACK(FY_T_ALTUP_UNPROJ, "altup_unembd_proj", "model.altup_unembed_projections"),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_key gemma3n_keys[] = {
    {"laurel_rank", FIELD(n_laurel), FY_OP_SET, 64, NULL},
    {"vocab_size_per_layer_input", FIELD(n_vocab_pl), FY_OP_SET, 262144, NULL},
    {"activation_sparsity_pattern", FIELD(act_sparsity), FY_OP_SPARSITY, 0, NULL},
};

static const fy_config_rule gemma3n_rules[] = {
    {"attention_bias", "false", NULL},
    {"altup_active_idx", "0", NULL},
    {"altup_correct_scale", "true", NULL},
};

const fy_family fy_family_gemma3n = {
    .name = "gemma3n",
    .gguf_arch = "gemma3n",
    CLASSES("Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"),
    .defaults = {SIZES(262400, 32768, 2048, 35, 8, 16384), .n_head_kv = 2, .head_dim = 256,
                 .n_swa = 512, .n_embd_pl = 256, .n_kv_shared = 15, .n_altup = 4, .n_laurel = 64,
                 RMS(1e-6F, 1e6F), .rope_theta_swa = 10000, .attn_scale = 1, .logit_softcap = 30,
                 .act = FY_ACT_GELU_TANH},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .sqrt_embedding = true,
    .norm_values = true,
    .lists_swa_layers = true,
    .lists_widths = true,
    .full_attention = {.period = 5},
    ROWS(gemma3n_rows),
    KEYS(gemma3n_keys),
    RULES(gemma3n_rules),
};

/* Gemma 4: heads are longer in the
 * layers without the window, where a part of each head rotates; the last layers have no keys and
 * values; scores are not scaled; values are normed. Norms hold w. The larger models have no table,
 * and in some layers no value matrix. */
static const fy_tensor_row gemma4_rows[] = {
    ROW_TOKEN_EMBD,
    ROWS_PER_LAYER_ONCE,
    ROPE_FACTORS(FY_T_ROPE_FREQS, "rope_freqs.weight", FY_X_PART_FREQS),
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_NORM(FY_D_HEAD),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_NORM(FY_D_HEAD),
    ROW_ATTN_V,
    ROW_ATTN_OUT,
    ROW_ATTN_POST_NORM("post_attention_layernorm"),
    NORM(FY_T_FFN_NORM, G_FFN_NORM, "pre_feedforward_layernorm"),
    ROWS_FFN,
    ROW_FFN_POST_NORM("post_feedforward_layernorm"),
    ROWS_PER_LAYER,
    {FY_T_LAYER_SCALE,
     "blk.%u.layer_output_scale.weight",
     HF_LAYER "layer_scalar",
     {FY_D_ONE},
     FY_X_COPY,
     .flags = 0},
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_key gemma4_keys[] = {
    {"head_dim", FIELD(head_dim_swa), FY_OP_SET, 256, NULL},
    {"global_head_dim", FIELD(head_dim), FY_OP_SET, 512, NULL},
    {"num_global_key_value_heads", FIELD(n_head_kv), FY_OP_GLOBAL_HEADS, 0, "attention_k_eq_v"},
    {"attention_k_eq_v", FIELD(k_is_v), FY_OP_FLAG, 0, NULL},
    {"use_double_wide_mlp", FIELD(n_ff), FY_OP_SHARED_TWICE, 0, NULL},
    {"vocab_size_per_layer_input", FIELD(n_vocab_pl), FY_OP_SET, 262144, NULL},
};

static const fy_config_rule gemma4_rules[] = {
    {"attention_bias", "false", NULL},
    {"enable_moe_block", "false", NULL},
    {"use_bidirectional_attention", "false", NULL},
};

/* width: of what a layer gets of each token */
#define GEMMA4_DEFAULTS(ctx, window, width)             \
    .defaults = {SIZES(262144, ctx, 2304, 30, 8, 9216), \
                 .n_head_kv = 4,                        \
                 .n_swa = window,                       \
                 .n_embd_pl = width,                    \
                 RMS(1e-6F, 1e6F),                      \
                 .rope_theta_swa = 10000,               \
                 .attn_scale = 1,                       \
                 .act = FY_ACT_GELU_TANH}
#define GEMMA4_TRAITS                                                                          \
    .gguf_arch = "gemma4", .tied_default = true, .rope = FY_ROPE_NEOX, .sqrt_embedding = true, \
    .norm_values = true, .lists_swa_layers = true, .full_attention = {.period = 6},            \
    .ends_full = true, ROWS(gemma4_rows), KEYS(gemma4_keys), RULES(gemma4_rules)

const fy_family fy_family_gemma4 = {
    .name = "gemma4",
    CLASSES("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"),
    GEMMA4_DEFAULTS(131072, 512, 256),
    GEMMA4_TRAITS,
};

/* The class of the 12B model: other defaults. */
const fy_family fy_family_gemma4_12b = {
    .name = "gemma4_unified",
    CLASSES("Gemma4UnifiedForCausalLM", "Gemma4UnifiedForConditionalGeneration"),
    GEMMA4_DEFAULTS(262144, 1024, 0),
    GEMMA4_TRAITS,
};
