/* Phi-3, Phi-3.5, Phi-4 and Phi-4-mini: q, k and v in one matrix, gate and up in another, LongRoPE
 * with two sets of factors. GGUF keeps both matrices whole. */
#include "arch/decoder_rows.h"

#define FACTORS(slot, name, transform)                                     \
    {                                                                      \
        slot, name, NULL, {FY_D_ROT2}, transform, .flags = FY_ROW_OPTIONAL \
    }

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    FACTORS(FY_T_ROPE_LONG, "rope_factors_long.weight", FY_X_LONG_FACTORS),
    FACTORS(FY_T_ROPE_SHORT, "rope_factors_short.weight", FY_X_SHORT_FACTORS),
    ROW_ATTN_NORM,
    LAYER_MATRIX(FY_T_ATTN_QKV, "attn_qkv", "self_attn.qkv_proj", FY_D_QKV, FY_D_EMBD, FY_X_COPY),
    ROW_ATTN_OUT,
    ROW_FFN_NORM,
    ROW_FFN_GATE_UP,
    ROW_FFN_DOWN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_rule rules[] = {
    {"attention_bias", "false", NULL},
    {"mlp_bias", "false", NULL},
};

static const char *const hf_archs[] = {"Phi3ForCausalLM", NULL};
static const char *const window_keys[] = {"sliding_window", NULL};

const fy_family fy_family_phi3 = {
    .name = "phi3",
    .gguf_arch = "phi3",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 32064,
            .n_ctx_train = 4096,
            .n_embd = 3072,
            .n_layer = 32,
            .n_ff = 8192,
            .n_head = 32,
            .norm_rms_eps = 1e-5F,
            .rope_theta = 10000.0F,
        },
    .tied_default = false,
    .rope = FY_ROPE_NEOX,
    .rot_part = 1, /* less in Phi-4-mini */
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .window_keys = window_keys, /* absent or null: none */
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
