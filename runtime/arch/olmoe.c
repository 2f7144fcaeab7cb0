/* OLMoE: RMS norms over the whole of q and of k, experts whose weights are not divided by their
 * sum. */
#include "arch/moe_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_B(FY_X_COPY, "attention_bias"),
    LAYER_VECTOR(FY_T_ATTN_Q_NORM, "attn_q_norm", "self_attn.q_norm", FY_D_Q),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_B(FY_X_COPY, "attention_bias"),
    LAYER_VECTOR(FY_T_ATTN_K_NORM, "attn_k_norm", "self_attn.k_norm", FY_D_K),
    ROW_ATTN_V,
    ROW_ATTN_V_B("attention_bias"),
    ROW_ATTN_OUT,
    ROW_ATTN_OUT_B("attention_bias"),
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("mlp.gate", 0),
    ROWS_MLP_EXPERTS,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"OlmoeForCausalLM", NULL};

static const fy_config_rule rules[] = {{"clip_qkv", "null", NULL}};

const fy_family fy_family_olmoe = {
    .name = "olmoe",
    .gguf_arch = "olmoe",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 50304,
            .n_ctx_train = 4096,
            .n_embd = 2048,
            .n_layer = 16,
            .n_ff = 2048,
            .n_head = 16,
            .norm_rms_eps = 1e-5F,
            .rope_theta = 10000.0F,
            .n_expert = 64,
            .n_expert_used = 8,
            .gating = FY_GATING_SOFTMAX,
            .expert_norm = false,
        },
    .tied_default = false,
    .rope = FY_ROPE_NEOX,
    .moe = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
