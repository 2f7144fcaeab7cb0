/* Qwen3 with experts: Qwen3's attention, the weights of the chosen experts divided by their sum. */
#include "arch/moe_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_B(FY_X_COPY, "attention_bias"),
    ROW_ATTN_Q_NORM,
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_B(FY_X_COPY, "attention_bias"),
    ROW_ATTN_K_NORM,
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

static const char *const hf_archs[] = {"Qwen3MoeForCausalLM", NULL};

/* The class does not divide by the sum unless it is told to; readers of a GGUF file without the key
 * do. */
static const fy_config_key keys[] = {
    {"norm_topk_prob", offsetof(fy_hparams, expert_norm), FY_OP_FLAG, 0, NULL},
};

static const fy_config_rule rules[] = {
    {"decoder_sparse_step", "1", NULL},
    {"mlp_only_layers", "[]", NULL},
    {"use_sliding_window", "false", NULL},
};

const fy_family fy_family_qwen3moe = {
    .name = "qwen3_moe",
    .gguf_arch = "qwen3moe",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 151936,
            .n_ctx_train = 32768,
            .n_embd = 2048,
            .n_layer = 24,
            .n_ff = 6144,
            .n_head = 32,
            .n_head_kv = 4,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 10000.0F,
            .n_expert = 128,
            .n_expert_used = 8,
            .n_ff_exp = 768,
            .gating = FY_GATING_SOFTMAX,
            .expert_norm = true,
        },
    .tied_default = false,
    .rope = FY_ROPE_NEOX,
    .moe = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
