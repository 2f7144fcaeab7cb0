/* Granite 3: Llama with multipliers for the embedding, the scores, what a block adds, and the
 * logits, which are divided. */
#include "arch/decoder_rows.h"
#include "arch/granite_keys.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ROPE_FREQS,
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

static const char *const hf_archs[] = {"GraniteForCausalLM", NULL};

static const fy_config_key keys[] = {GRANITE_KEYS};

static const fy_config_rule rules[] = {{"position_embedding_type", "\"rope\"", NULL}};

const fy_family fy_family_granite = {
    .name = "granite",
    .gguf_arch = "granite",
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
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
