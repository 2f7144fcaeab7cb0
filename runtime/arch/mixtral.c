/* Mixtral: Mistral with several experts instead of one feed-forward network, softmax over all, the
 * chosen ones' weights divided by their sum. Reads every GGUF file of architecture "llama" with
 * experts. */
#include "arch/moe_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ROPE_FREQS,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_PERMUTE_Q),
    ROW_ATTN_K(FY_X_PERMUTE_K),
    ROW_ATTN_V,
    ROW_ATTN_OUT,
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("block_sparse_moe.gate", 0),
    ROW_FFN_ROUTER("mlp.gate", FY_ROW_ALT),
    ROWS_EXPERTS("block_sparse_moe.experts.%e.w1.weight", "block_sparse_moe.experts.%e.w3.weight",
                 "block_sparse_moe.experts.%e.w2.weight", "mlp.experts"),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"MixtralForCausalLM", NULL};

/* The class has a window, but none by default. */
static const char *const window_keys[] = {"sliding_window", NULL};

const fy_family fy_family_mixtral = {
    .name = "mixtral",
    .gguf_arch = "llama",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 32000,
            .n_ctx_train = 131072,
            .n_embd = 4096,
            .n_layer = 32,
            .n_ff = 14336,
            .n_head = 32,
            .n_head_kv = 8,
            .norm_rms_eps = 1e-5F,
            .rope_theta = 1e6F,
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
    .window_keys = window_keys,
};
