/* Qwen 1.5 and 2 with experts: Qwen 2's attention; the weights of the chosen experts are not
 * divided by their sum, and a shared expert counts sigmoid(w x) times. */
#include "arch/moe_rows.h"

#define SHARED(slot, gguf, hf, rows, cols) \
    LAYER_MATRIX(slot, gguf, "mlp.shared_expert." hf, rows, cols, FY_X_COPY)

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_B(FY_X_COPY, "qkv_bias"),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_B(FY_X_COPY, "qkv_bias"),
    ROW_ATTN_V,
    ROW_ATTN_V_B("qkv_bias"),
    ROW_ATTN_OUT,
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("mlp.gate", 0),
    ROWS_MLP_EXPERTS,
    {FY_T_FFN_SHEXP_ROUTER,
     "blk.%u.ffn_gate_inp_shexp.weight",
     "model.layers.%u.mlp.shared_expert_gate.weight",
     {FY_D_EMBD},
     FY_X_COPY,
     .hf_dims = {FY_D_ONE, FY_D_EMBD}},
    SHARED(FY_T_FFN_GATE_SHEXP, "ffn_gate_shexp", "gate_proj", FY_D_FF_SHEXP, FY_D_EMBD),
    SHARED(FY_T_FFN_UP_SHEXP, "ffn_up_shexp", "up_proj", FY_D_FF_SHEXP, FY_D_EMBD),
    SHARED(FY_T_FFN_DOWN_SHEXP, "ffn_down_shexp", "down_proj", FY_D_EMBD, FY_D_FF_SHEXP),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"Qwen2MoeForCausalLM", NULL};

/* Every layer has experts; a window over some of the layers has no published model. */
static const fy_config_rule rules[] = {
    {"decoder_sparse_step", "1", NULL},
    {"mlp_only_layers", "[]", NULL},
    {"use_sliding_window", "false", NULL},
};

static const char *const flags_on[] = {"qkv_bias", NULL};

const fy_family fy_family_qwen2moe = {
    .name = "qwen2_moe",
    .gguf_arch = "qwen2moe",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 151936,
            .n_ctx_train = 32768,
            .n_embd = 2048,
            .n_layer = 24,
            .n_ff = 5632,
            .n_head = 16,
            .n_head_kv = 16,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 10000.0F,
            .n_expert = 60,
            .n_expert_used = 4,
            .n_ff_exp = 1408,
            .n_ff_shexp = 5632,
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
    .flags_on = flags_on,
};
