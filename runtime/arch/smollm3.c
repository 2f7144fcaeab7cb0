/* SmolLM3: Llama whose every fourth layer does not rotate. */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
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
    ROW_FFN_GATE_B("mlp_bias"),
    ROW_FFN_UP,
    ROW_FFN_UP_B("mlp_bias"),
    ROW_FFN_DOWN,
    ROW_FFN_DOWN_B("mlp_bias"),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"SmolLM3ForCausalLM", NULL};

/* The class has a window, over the layers that do not rotate, but none by default. */
static const char *const window_keys[] = {"sliding_window", NULL};

const fy_family fy_family_smollm3 = {
    .name = "smollm3",
    .gguf_arch = "smollm3",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 128256,
            .n_ctx_train = 32768,
            .n_embd = 2048,
            .n_layer = 36,
            .n_ff = 11008,
            .n_head = 16,
            .n_head_kv = 4,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 2e6F,
        },
    .tied_default = true,
    .rope = FY_ROPE_NORM,
    .no_rope = {.period = 4},
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .window_flag = "use_sliding_window",
    .window_keys = window_keys,
};
