/* Qwen3 (dense): RMS norm over each head of q and k before rotation, head_dim always explicit, NEOX
 * pairs. */
#include "arch/decoder_rows.h"

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
    ROW_FFN_GATE,
    ROW_FFN_UP,
    ROW_FFN_DOWN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"Qwen3ForCausalLM", NULL};

const fy_family fy_family_qwen3 = {
    .name = "qwen3",
    .gguf_arch = "qwen3",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 151936,
            .n_ctx_train = 32768,
            .n_embd = 4096,
            .n_layer = 32,
            .n_ff = 22016,
            .n_head = 32,
            .n_head_kv = 32,
            .head_dim = 128,
            .n_swa = 4096,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 10000.0F,
        },
    .tied_default = false,
    .rope = FY_ROPE_NEOX,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .window_flag = "use_sliding_window",
};
