/* OPT: learned positions, whose first two rows stand for padding and are cut off, layer norms and
 * biases everywhere, ReLU. llama.cpp has no such architecture; names and keys are PowerInfer's. */
#include "arch/layernorm_rows.h"

#define MODEL "model.decoder."
#define LAYER MODEL "layers.%u."

static const fy_tensor_row rows[] = {
    TOKEN_EMBD(MODEL "embed_tokens"),
    POSITION_EMBD(MODEL "embed_positions", FY_X_SKIP_2, FY_D_CTX_OPT),
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, LAYER "self_attn_layer_norm"),
    MATRIX_AND_BIAS(FY_T_ATTN_Q, G_ATTN_Q, LAYER "self_attn.q_proj", FY_D_Q, FY_D_EMBD, FY_X_COPY,
                    NULL),
    MATRIX_AND_BIAS(FY_T_ATTN_K, G_ATTN_K, LAYER "self_attn.k_proj", FY_D_K, FY_D_EMBD, FY_X_COPY,
                    NULL),
    MATRIX_AND_BIAS(FY_T_ATTN_V, G_ATTN_V, LAYER "self_attn.v_proj", FY_D_V, FY_D_EMBD, FY_X_COPY,
                    NULL),
    MATRIX_AND_BIAS(FY_T_ATTN_OUT, G_ATTN_OUT, LAYER "self_attn.out_proj", FY_D_EMBD, FY_D_QV,
                    FY_X_COPY, NULL),
    NORM_AND_BIAS(FY_T_FFN_NORM, G_FFN_NORM, LAYER "final_layer_norm"),
    MATRIX_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, LAYER "fc1", FY_D_FF, FY_D_EMBD, FY_X_COPY, NULL),
    MATRIX_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, LAYER "fc2", FY_D_EMBD, FY_D_FF, FY_X_COPY, NULL),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", MODEL "final_layer_norm"),
    OUTPUT_MATRIX("lm_head"),
};

static const fy_config_rule rules[] = {
    {"do_layer_norm_before", "true", NULL},
    {"enable_bias", "true", NULL},
    {"layer_norm_elementwise_affine", "true", NULL},
    {"_remove_final_layer_norm", "false", NULL},
};

static const char *const hf_archs[] = {"OPTForCausalLM", NULL};

const fy_family fy_family_opt = {
    .name = "opt",
    .gguf_arch = "opt",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 50272,
            .n_ctx_train = 2048,
            .n_embd = 768,
            .n_layer = 12,
            .n_ff = 3072,
            .n_head = 12,
            .norm_eps = 1e-5F, /* no key has it */
            .act = FY_ACT_RELU,
        },
    .tied_default = true,
    .rope = FY_ROPE_NO,
    .layer_norm = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
