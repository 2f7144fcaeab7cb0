/* MiniCPM 1B, 2B and MiniCPM4: Llama with three scales. MiniCPM4 adds rotation factors (LongRoPE).
 */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ROPE_FREQS,
    ROW_ROPE_LONG,
    ROW_ROPE_SHORT,
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
    ROW_FFN_GATE,
    ROW_FFN_UP,
    ROW_FFN_DOWN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"MiniCPMForCausalLM", NULL};

static const fy_config_key keys[] = {
    {"scale_emb", offsetof(fy_hparams, embedding_scale), FY_OP_SET, 1, NULL},
    {"scale_depth", offsetof(fy_hparams, residual_scale), FY_OP_OVER_SQRT_LAYERS, 1, NULL},
    {"dim_model_base", offsetof(fy_hparams, logit_scale), FY_OP_EMBD_OVER, 1, NULL},
};

const fy_family fy_family_minicpm = {
    .name = "minicpm",
    .gguf_arch = "minicpm",
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
        },
    .tied_default = true,
    .rope = FY_ROPE_NORM,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
};
