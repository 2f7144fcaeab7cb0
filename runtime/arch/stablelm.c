/* StableLM 3B and StableLM 2 1.6B: Llama with layer norms, a quarter of each head rotating, and
 * biases of q, k and v in the second. The 12B, parallel and with norms of q and k, is refused. */
#include "arch/layernorm_rows.h"

#define LAYER "model.layers.%u."

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, LAYER "input_layernorm"),
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_B(FY_X_COPY, "use_qkv_bias"),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_B(FY_X_COPY, "use_qkv_bias"),
    ROW_ATTN_V,
    ROW_ATTN_V_B("use_qkv_bias"),
    ROW_ATTN_OUT,
    NORM_AND_BIAS(FY_T_FFN_NORM, G_FFN_NORM, LAYER "post_attention_layernorm"),
    ROW_FFN_GATE,
    ROW_FFN_UP,
    ROW_FFN_DOWN,
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "model.norm"),
    ROW_OUTPUT,
};

static const fy_config_rule rules[] = {
    {"qk_layernorm", "false", NULL},
    {"use_parallel_residual", "false", NULL},
};

static const char *const hf_archs[] = {"StableLmForCausalLM", NULL};

const fy_family fy_family_stablelm = {
    .name = "stablelm",
    .gguf_arch = "stablelm",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 50304,
            .n_ctx_train = 4096,
            .n_embd = 2560,
            .n_layer = 32,
            .n_ff = 6912,
            .n_head = 32,
            .norm_eps = 1e-5F,
            .rope_theta = 10000.0F,
        },
    .tied_default = false,
    .rope = FY_ROPE_NEOX,
    .rot_part = 0.25F,
    .layer_norm = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
