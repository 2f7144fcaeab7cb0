/* ProSparse: Llama 2 whose gate passes values above a threshold only, under a class name of its own
 * when its config.json does not say LlamaForCausalLM. Another model with that name computes sparse
 * attention, so the activation is what tells them apart. */
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

static const char *const hf_archs[] = {"SparseLlamaForCausalLM", NULL};

static const fy_config_rule rules[] = {{"hidden_act", "\"fatrelu\"", "\"silu\""}};

const fy_family fy_family_prosparse = {
    .name = "sparsellama",
    .gguf_arch = "llama",
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
    .tied_default = false,
    .rope = FY_ROPE_NORM,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
