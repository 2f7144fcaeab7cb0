/* Bamboo: Mistral whose feed-forward network is relu(gate) * relu(up), which its config.json calls
 * "relu". The GGUF architecture is PowerInfer's; no other program would compute it as "llama". */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_PERMUTE_Q),
    ROW_ATTN_K(FY_X_PERMUTE_K),
    ROW_ATTN_V,
    ROW_ATTN_OUT,
    ROW_FFN_NORM,
    ROW_FFN_GATE,
    ROW_FFN_UP,
    ROW_FFN_DOWN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"BambooForCausalLM", NULL};

const fy_family fy_family_bamboo = {
    .name = "bamboo",
    .gguf_arch = "bamboo",
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
            .n_swa = 4096,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 10000.0F,
            .act = FY_ACT_DRELU,
        },
    .tied_default = false,
    .rope = FY_ROPE_NORM,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
};
