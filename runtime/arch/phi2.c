/* Phi 1, 1.5 and 2: attention and feed-forward read the same layer norm, biases everywhere, the
 * output's included; half of each head rotates. CodeGen is written in the same architecture. */
#include "arch/layernorm_rows.h"

#define LAYER "model.layers.%u."

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, LAYER "input_layernorm"),
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_B(FY_X_COPY, NULL),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_B(FY_X_COPY, NULL),
    ROW_ATTN_V,
    ROW_ATTN_V_B(NULL),
    MATRIX_AND_BIAS(FY_T_ATTN_OUT, G_ATTN_OUT, LAYER "self_attn.dense", FY_D_EMBD, FY_D_QV,
                    FY_X_COPY, NULL),
    MATRIX_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, LAYER "mlp.fc1", FY_D_FF, FY_D_EMBD, FY_X_COPY, NULL),
    MATRIX_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, LAYER "mlp.fc2", FY_D_EMBD, FY_D_FF, FY_X_COPY,
                    NULL),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "model.final_layernorm"),
    MATRIX_AND_BIAS(FY_T_OUTPUT, "output", "lm_head", FY_D_VOCAB, FY_D_EMBD, FY_X_COPY, NULL),
};

static const fy_config_rule rules[] = {{"qk_layernorm", "false", NULL}};

static const char *const hf_archs[] = {"PhiForCausalLM", NULL};

const fy_family fy_family_phi2 = {
    .name = "phi",
    .gguf_arch = "phi2",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 51200,
            .n_ctx_train = 2048,
            .n_embd = 2048,
            .n_layer = 24,
            .n_ff = 8192,
            .n_head = 32,
            .norm_eps = 1e-5F,
            .rope_theta = 10000.0F,
            .act = FY_ACT_GELU_TANH,
            .parallel = true,
        },
    .tied_default = false,
    .rope = FY_ROPE_NEOX,
    .rot_part = 0.5F,
    .layer_norm = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
