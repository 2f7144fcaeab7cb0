/* StarCoder2: layer norms, biases, a plain feed-forward with tanh GELU, grouped-query attention,
 * in the larger ones a window over all layers. */
#include "arch/layernorm_rows.h"

#define LAYER "model.layers.%u."

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, LAYER "input_layernorm"),
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_B(FY_X_COPY, "use_bias"),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_B(FY_X_COPY, "use_bias"),
    ROW_ATTN_V,
    ROW_ATTN_V_B("use_bias"),
    ROW_ATTN_OUT,
    ROW_ATTN_OUT_B("use_bias"),
    NORM_AND_BIAS(FY_T_FFN_NORM, G_FFN_NORM, LAYER "post_attention_layernorm"),
    MATRIX_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, LAYER "mlp.c_fc", FY_D_FF, FY_D_EMBD, FY_X_COPY,
                    "use_bias"),
    MATRIX_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, LAYER "mlp.c_proj", FY_D_EMBD, FY_D_FF, FY_X_COPY,
                    "use_bias"),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "model.norm"),
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"Starcoder2ForCausalLM", NULL};
static const char *const flags_on[] = {"use_bias", NULL};
static const char *const window_keys[] = {"sliding_window", NULL};

const fy_family fy_family_starcoder2 = {
    .name = "starcoder2",
    .gguf_arch = "starcoder2",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 49152,
            .n_ctx_train = 4096,
            .n_embd = 3072,
            .n_layer = 30,
            .n_ff = 12288,
            .n_head = 24,
            .n_head_kv = 2,
            .norm_eps = 1e-5F,
            .rope_theta = 10000.0F,
            .act = FY_ACT_GELU_TANH,
        },
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .layer_norm = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .window_keys = window_keys, /* absent or null: none */
    .flags_on = flags_on,
};
