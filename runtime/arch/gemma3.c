/* Gemma 3: Gemma 2 without soft caps, with RMS norms of each head of q and k, five windowed layers
 * to each full one, and another theta, never scaled, on the windowed ones. The vision tower of
 * Gemma3ForConditionalGeneration is left out. */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    LAYER_VECTOR_ADD_ONE(FY_T_ATTN_NORM, "attn_norm", "input_layernorm", FY_D_EMBD),
    ROW_ATTN_Q(FY_X_COPY),
    LAYER_VECTOR_ADD_ONE(FY_T_ATTN_Q_NORM, "attn_q_norm", "self_attn.q_norm", FY_D_HEAD),
    ROW_ATTN_K(FY_X_COPY),
    LAYER_VECTOR_ADD_ONE(FY_T_ATTN_K_NORM, "attn_k_norm", "self_attn.k_norm", FY_D_HEAD),
    ROW_ATTN_V,
    ROW_ATTN_OUT,
    LAYER_VECTOR_ADD_ONE(FY_T_ATTN_POST_NORM, "post_attention_norm", "post_attention_layernorm",
                         FY_D_EMBD),
    LAYER_VECTOR_ADD_ONE(FY_T_FFN_NORM, "ffn_norm", "pre_feedforward_layernorm", FY_D_EMBD),
    ROW_FFN_GATE,
    ROW_FFN_UP,
    ROW_FFN_DOWN,
    LAYER_VECTOR_ADD_ONE(FY_T_FFN_POST_NORM, "post_ffw_norm", "post_feedforward_layernorm",
                         FY_D_EMBD),
    ROW_OUTPUT_NORM_ADD_ONE,
    ROW_OUTPUT,
};

static const fy_config_key keys[] = {
    {"query_pre_attn_scalar", offsetof(fy_hparams, attn_scale), FY_OP_INV_SQRT, 256, NULL},
};

static const fy_config_rule rules[] = {
    {"attention_bias", "false", NULL},
    {"use_bidirectional_attention", "false", NULL},
    {"attn_logit_softcapping", "null", NULL},
};

static const char *const hf_archs[] = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", NULL};

const fy_family fy_family_gemma3 = {
    .name = "gemma3",
    .gguf_arch = "gemma3",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 262208,
            .n_ctx_train = 131072,
            .n_embd = 2304,
            .n_layer = 26,
            .n_ff = 9216,
            .n_head = 8,
            .n_head_kv = 4,
            .head_dim = 256,
            .n_swa = 4096,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 1e6F,
            .rope_theta_swa = 10000.0F,
            .act = FY_ACT_GELU_TANH,
        },
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .sqrt_embedding = true,
    .wide_scale_layers = 62,
    .full_attention = {.period = 6},
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
