/* Gemma 2: Gemma with four norms a layer, soft caps, a window on the even layers, and a scale of
 * its own in attention, which llama.cpp guesses from the number of layers. */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    LAYER_VECTOR_ADD_ONE(FY_T_ATTN_NORM, "attn_norm", "input_layernorm", FY_D_EMBD),
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_K(FY_X_COPY),
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

static const fy_config_rule rules[] = {{"attention_bias", "false", NULL}};

static const char *const hf_archs[] = {"Gemma2ForCausalLM", NULL};

const fy_family fy_family_gemma2 = {
    .name = "gemma2",
    .gguf_arch = "gemma2",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 256000,
            .n_ctx_train = 8192,
            .n_embd = 2304,
            .n_layer = 26,
            .n_ff = 9216,
            .n_head = 8,
            .n_head_kv = 4,
            .head_dim = 256,
            .n_swa = 4096,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 10000.0F,
            .act = FY_ACT_GELU_TANH,
            .attn_softcap = 50.0F,
            .logit_softcap = 30.0F,
        },
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .sqrt_embedding = true,
    .wide_scale_layers = 46,
    .full_attention = {.period = 2},
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
