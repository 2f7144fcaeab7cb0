/* InternLM 3: Llama with a flag for the biases of q, k, v and another for those of the rest.
 * Written as GGUF architecture "llama". */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ROPE_FREQS,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_PERMUTE_Q),
    ROW_ATTN_Q_B(FY_X_PERMUTE_Q, "qkv_bias"),
    ROW_ATTN_K(FY_X_PERMUTE_K),
    ROW_ATTN_K_B(FY_X_PERMUTE_K, "qkv_bias"),
    ROW_ATTN_V,
    ROW_ATTN_V_B("qkv_bias"),
    ROW_ATTN_OUT,
    ROW_ATTN_OUT_B("bias"),
    ROW_FFN_NORM,
    ROW_FFN_GATE,
    ROW_FFN_GATE_B("bias"),
    ROW_FFN_UP,
    ROW_FFN_UP_B("bias"),
    ROW_FFN_DOWN,
    ROW_FFN_DOWN_B("bias"),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"InternLM3ForCausalLM", NULL};

const fy_family fy_family_internlm3 = {
    .name = "internlm3",
    .gguf_arch = "llama",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 128512,
            .n_ctx_train = 32768,
            .n_embd = 4096,
            .n_layer = 32,
            .n_ff = 11008,
            .n_head = 32,
            .n_head_kv = 32,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 10000.0F,
        },
    .tied_default = false,
    .rope = FY_ROPE_NORM,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
};
