/* GPT-2: learned positions, layer norms and biases everywhere, tanh GELU, weights stored as
 * [in, out]. */
#include "arch/layernorm_rows.h"

#define LAYER "transformer.h.%u."

static const fy_tensor_row rows[] = {
    TOKEN_EMBD("transformer.wte"),
    POSITION_EMBD("transformer.wpe", FY_X_COPY, FY_D_CTX),
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, LAYER "ln_1"),
    CONV1D_AND_BIAS(FY_T_ATTN_QKV, G_ATTN_QKV, LAYER "attn.c_attn", FY_D_QKV, FY_D_EMBD),
    CONV1D_AND_BIAS(FY_T_ATTN_OUT, G_ATTN_OUT, LAYER "attn.c_proj", FY_D_EMBD, FY_D_QV),
    NORM_AND_BIAS(FY_T_FFN_NORM, G_FFN_NORM, LAYER "ln_2"),
    CONV1D_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, LAYER "mlp.c_fc", FY_D_FF, FY_D_EMBD),
    CONV1D_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, LAYER "mlp.c_proj", FY_D_EMBD, FY_D_FF),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "transformer.ln_f"),
    OUTPUT_MATRIX("lm_head"),
};

static const fy_config_rule rules[] = {
    {"scale_attn_weights", "true", NULL},
    {"scale_attn_by_inverse_layer_idx", "false", NULL},
    {"add_cross_attention", "false", NULL},
};

static const char *const hf_archs[] = {"GPT2LMHeadModel", NULL};

const fy_family fy_family_gpt2 = {
    .name = "gpt2",
    .gguf_arch = "gpt2",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 50257,
            .n_ctx_train = 1024,
            .n_embd = 768,
            .n_layer = 12,
            .n_head = 12,
            .norm_eps = 1e-5F,
            .act = FY_ACT_GELU_TANH,
        },
    .tied_default = true,
    .rope = FY_ROPE_NO,
    .layer_norm = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
