/* GLM-4-0414 and GLM-Z1: GLM with norms behind attention and feed-forward. Beware of the names: the
 * checkpoint's post_attention_layernorm stands before the feed-forward. */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_B(FY_X_COPY, "attention_bias"),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_B(FY_X_COPY, "attention_bias"),
    ROW_ATTN_V,
    ROW_ATTN_V_B("attention_bias"),
    ROW_ATTN_OUT,
    LAYER_VECTOR(FY_T_ATTN_POST_NORM, "post_attention_norm", "post_self_attn_layernorm", FY_D_EMBD),
    ROW_FFN_NORM,
    ROW_FFN_GATE_UP,
    ROW_FFN_DOWN,
    LAYER_VECTOR(FY_T_FFN_POST_NORM, "post_ffw_norm", "post_mlp_layernorm", FY_D_EMBD),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"Glm4ForCausalLM", NULL};
static const char *const flags_on[] = {"attention_bias", NULL};

const fy_family fy_family_glm4 = {
    .name = "glm4",
    .gguf_arch = "glm4",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 151552,
            .n_ctx_train = 131072,
            .n_embd = 4096,
            .n_layer = 40,
            .n_ff = 13696,
            .n_head = 32,
            .n_head_kv = 2,
            .head_dim = 128,
            .norm_rms_eps = 1.5625e-7F,
            .rope_theta = 10000.0F,
        },
    .tied_default = false,
    .rope = FY_ROPE_NORM,
    .rot_part = 0.5F,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .flags_on = flags_on,
};
