/* Granite 3 with experts, with or without a shared one that counts once. Its softmax over the
 * chosen experts is one over all whose weights are divided by their sum. */
#include "arch/granite_keys.h"
#include "arch/moe_rows.h"

#define FUSED_IN  "block_sparse_moe.input_linear.weight"
#define FUSED_OUT "block_sparse_moe.output_linear.weight"
/* as transformers 5 holds them */
#define FUSED_IN_5  "block_sparse_moe.experts.gate_up_proj"
#define FUSED_OUT_5 "block_sparse_moe.experts.down_proj"

#define SHARED(slot, gguf, hf, rows, cols, x, ...)                                                \
    {                                                                                             \
        slot, "blk.%u." gguf ".weight", "model.layers.%u.shared_mlp." hf ".weight", {rows, cols}, \
            x, .flags = FY_ROW_MATRIX, .hf_dims = {                                               \
                __VA_ARGS__                                                                       \
            }                                                                                     \
    }

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ROPE_FREQS,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_PERMUTE_Q),
    ROW_ATTN_Q_B(FY_X_PERMUTE_Q, "attention_bias"),
    ROW_ATTN_K(FY_X_PERMUTE_K),
    ROW_ATTN_K_B(FY_X_PERMUTE_K, "attention_bias"),
    ROW_ATTN_V,
    ROW_ATTN_V_B("attention_bias"),
    ROW_ATTN_OUT,
    ROW_ATTN_OUT_B("attention_bias"),
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("block_sparse_moe.router.layer", 0),
    ROW_FFN_ROUTER("block_sparse_moe.router", FY_ROW_ALT),
    ROW_GATE_FUSED(FUSED_IN, 0),
    ROW_GATE_FUSED(FUSED_IN_5, FY_ROW_ALT),
    ROW_UP_FUSED(FUSED_IN, 0),
    ROW_UP_FUSED(FUSED_IN_5, FY_ROW_ALT),
    ROW_DOWN_FUSED(FUSED_OUT, 0),
    ROW_DOWN_FUSED(FUSED_OUT_5, FY_ROW_ALT),
    SHARED(FY_T_FFN_GATE_SHEXP, "ffn_gate_shexp", "input_linear", FY_D_FF_SHEXP, FY_D_EMBD,
           FY_X_FIRST_HALF, FY_D_FF_SHEXP_2, FY_D_EMBD),
    SHARED(FY_T_FFN_UP_SHEXP, "ffn_up_shexp", "input_linear", FY_D_FF_SHEXP, FY_D_EMBD,
           FY_X_SECOND_HALF, FY_D_FF_SHEXP_2, FY_D_EMBD),
    SHARED(FY_T_FFN_DOWN_SHEXP, "ffn_down_shexp", "output_linear", FY_D_EMBD, FY_D_FF_SHEXP,
           FY_X_COPY, FY_D_EMBD, FY_D_FF_SHEXP),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM",
                                       NULL};

static const fy_config_key keys[] = {GRANITE_KEYS};

static const fy_config_rule rules[] = {{"position_embedding_type", "\"rope\"", NULL}};

const fy_family fy_family_granitemoe = {
    .name = "granitemoe",
    .gguf_arch = "granitemoe",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 32000,
            .n_ctx_train = 2048,
            .n_embd = 4096,
            .n_layer = 32,
            .n_ff = 11008,
            .n_head = 32,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 10000.0F,
            .n_expert = 8,
            .n_expert_used = 2,
            .gating = FY_GATING_SOFTMAX,
            .expert_norm = true,
        },
    .tied_default = false,
    .rope = FY_ROPE_NORM,
    .moe = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
