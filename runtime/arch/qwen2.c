/* Qwen 1.5, 2, 2.5, QwQ, DeepSeek-R1-Distill-Qwen: q, k and v with bias, halves rotate (NEOX),
 * nothing permuted. */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_B(FY_X_COPY, NULL),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_B(FY_X_COPY, NULL),
    ROW_ATTN_V,
    ROW_ATTN_V_B(NULL),
    ROW_ATTN_OUT,
    ROW_FFN_NORM,
    ROW_FFN_GATE,
    ROW_FFN_UP,
    ROW_FFN_DOWN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"Qwen2ForCausalLM", NULL};

const fy_family fy_family_qwen2 = {
    .name = "qwen2",
    .gguf_arch = "qwen2",
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
