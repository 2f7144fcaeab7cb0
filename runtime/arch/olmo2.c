/* OLMo 2: attention and feed-forward read the residual stream itself, and what they add to it is
 * normed; RMS norms over the whole of q and of k. */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
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
    LAYER_VECTOR(FY_T_ATTN_POST_NORM, "post_attention_norm", "post_attention_layernorm", FY_D_EMBD),
    ROW_FFN_GATE,
    ROW_FFN_UP,
    ROW_FFN_DOWN,
    LAYER_VECTOR(FY_T_FFN_POST_NORM, "post_ffw_norm", "post_feedforward_layernorm", FY_D_EMBD),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"Olmo2ForCausalLM", NULL};

const fy_family fy_family_olmo2 = {
    .name = "olmo2",
    .gguf_arch = "olmo2",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 50304,
            .n_ctx_train = 2048,
            .n_embd = 4096,
            .n_layer = 32,
            .n_ff = 11008,
            .n_head = 32,
            .norm_rms_eps = 1e-5F,
            .rope_theta = 10000.0F,
        },
    .tied_default = false,
    .rope = FY_ROPE_NEOX,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
};
