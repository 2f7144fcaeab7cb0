/* Families with Mamba-2 mixers: Granite 4 has them in place of attention in most layers, Falcon-H1
 * beside it in every layer, a layer of Nemotron-H is a mixer, attention or a feed-forward network.
 * Granite 4 with experts is in moe_families.c. */
#include "arch/mamba_rows.h"

#define GRANITE4_FFN                                                                            \
    SHARED_MLP(FY_T_FFN_GATE, "ffn_gate", "input_linear", FY_D_FF, FY_D_EMBD, FY_X_FIRST_HALF,  \
               FY_D_FF_2, FY_D_EMBD),                                                           \
        SHARED_MLP(FY_T_FFN_UP, "ffn_up", "input_linear", FY_D_FF, FY_D_EMBD, FY_X_SECOND_HALF, \
                   FY_D_FF_2, FY_D_EMBD),                                                       \
        SHARED_MLP(FY_T_FFN_DOWN, "ffn_down", "output_linear", FY_D_EMBD, FY_D_FF, FY_X_COPY,   \
                   FY_D_EMBD, FY_D_FF)

/* The shared feed-forward is the only one. */
static const fy_tensor_row granite4h_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN_BIAS(FY_X_PERMUTE_Q, FY_X_PERMUTE_K, "attention_bias"),
    ROWS_SSM(HF_LAYER "mamba."),
    ROW_SSM_NORM(HF_LAYER "mamba.", NULL),
    ROW_FFN_NORM,
    GRANITE4_FFN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_key granite4h_keys[] = {
    GRANITE_KEYS{"shared_intermediate_size", FIELD(n_ff), FY_OP_SET, 1024, NULL},
    {"shared_intermediate_size", FIELD(n_ff_shexp), FY_OP_SET, 1024, NULL},
};

static const fy_config_rule granite4_rules[] = {GRANITE4_RULES};

const fy_family fy_family_granite4h = {
    .name = "granitemoehybrid",
    .gguf_arch = "granitehybrid",
    CLASSES("GraniteMoeHybridForCausalLM"),
    .defaults = {GRANITE4_DEFAULTS, GRANITE4_MIXER},
    .rope = FY_ROPE_NORM,
    .rope_switch = true,
    .nope_default = true,
    .ssm_place = FY_SSM_INSTEAD,
    ROWS(granite4h_rows),
    KEYS(granite4h_keys),
    RULES(granite4_rules),
};

/* Granite 4 with attention in all layers, which is Granite 3 to readers. */
static const fy_tensor_row granite4_rows[] = {
    ROW_TOKEN_EMBD, ROW_ATTN_NORM, ROWS_ATTN_BIAS(FY_X_PERMUTE_Q, FY_X_PERMUTE_K, "attention_bias"),
    ROW_FFN_NORM,   GRANITE4_FFN,  ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_key granite4_keys[] = {
    GRANITE_KEYS{"shared_intermediate_size", FIELD(n_ff), FY_OP_SET, 1024, NULL},
};

const fy_family fy_family_granite4 = {
    .name = "granite4",
    .gguf_arch = "granite",
    CLASSES("GraniteMoeHybridForCausalLM"),
    .defaults = {GRANITE4_DEFAULTS},
    .rope = FY_ROPE_NORM,
    .rope_switch = true,
    .nope_default = true,
    ROWS(granite4_rows),
    KEYS(granite4_keys),
    RULES(granite4_rules),
};

/* Falcon-H1: attention and mixer read the same, and are added. Its multipliers become part of the
 * weights (fy_hf_fold). The norm before the feed-forward has no ending in files. */
#define FALCON_FFN HF_LAYER "feed_forward."

static const fy_tensor_row falcon_h1_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN(FY_X_COPY, FY_X_COPY),
    ROWS_SSM(HF_LAYER "mamba."),
    ROW_SSM_NORM(HF_LAYER "mamba.", "mamba_rms_norm"),
    {FY_T_FFN_NORM,
     "blk.%u.ffn_norm",
     HF_LAYER "pre_ff_layernorm.weight",
     {FY_D_EMBD},
     FY_X_COPY,
     .flags = 0},
    COPY(FY_T_FFN_GATE, G_FFN_GATE, FALCON_FFN "gate_proj", FY_D_FF, FY_D_EMBD),
    COPY(FY_T_FFN_UP, G_FFN_UP, FALCON_FFN "up_proj", FY_D_FF, FY_D_EMBD),
    COPY(FY_T_FFN_DOWN, G_FFN_DOWN, FALCON_FFN "down_proj", FY_D_EMBD, FY_D_FF),
    VECTOR(FY_T_OUTPUT_NORM, "output_norm", "model.final_layernorm", FY_D_EMBD, FY_X_COPY),
    ROW_OUTPUT,
};

static const fy_config_rule falcon_h1_rules[] = {
    {"attention_bias", "false", NULL},  {"mlp_bias", "false", NULL},
    {"projectors_bias", "false", NULL}, {"mamba_proj_bias", "false", NULL},
    {"mamba_conv_bias", "true", NULL},  {"mamba_use_mlp", "true", NULL},
};

const fy_family fy_family_falcon_h1 = {
    .name = "falcon_h1",
    .gguf_arch = "falcon-h1",
    CLASSES("FalconH1ForCausalLM"),
    .defaults = {SIZES(128000, 8192, 4096, 32, 32, 14336), .n_head_kv = 8, RMS(1e-5F, 1e5F),
                 .ssm_conv = 4, .ssm_state = 256, .ssm_groups = 1, .ssm_heads = 128,
                 .ssm_inner = 1024},
    .rope = FY_ROPE_NEOX,
    .ssm_place = FY_SSM_BESIDE,
    ROWS(falcon_h1_rows),
    RULES(falcon_h1_rules),
};

/* Nemotron-H and Nemotron Nano: one norm and one of mixer, attention and feed-forward a layer; relu
 * squared, no gate, no rotation. */
#define NEMOTRON_LAYER "backbone.layers.%u."
#define NEMOTRON_MIXER NEMOTRON_LAYER "mixer."

static const fy_tensor_row nemotron_h_rows[] = {
    TOKEN_EMBD("backbone.embeddings"),
    VECTOR(FY_T_ATTN_NORM, G_ATTN_NORM, NEMOTRON_LAYER "norm", FY_D_EMBD, FY_X_COPY),
    COPY(FY_T_ATTN_Q, G_ATTN_Q, NEMOTRON_MIXER "q_proj", FY_D_Q, FY_D_EMBD),
    COPY(FY_T_ATTN_K, G_ATTN_K, NEMOTRON_MIXER "k_proj", FY_D_K, FY_D_EMBD),
    COPY(FY_T_ATTN_V, G_ATTN_V, NEMOTRON_MIXER "v_proj", FY_D_V, FY_D_EMBD),
    COPY(FY_T_ATTN_OUT, G_ATTN_OUT, NEMOTRON_MIXER "o_proj", FY_D_EMBD, FY_D_QV),
    ROWS_SSM(NEMOTRON_MIXER),
    ROW_SSM_NORM(NEMOTRON_MIXER, NULL),
    COPY(FY_T_FFN_UP, G_FFN_UP, NEMOTRON_MIXER "up_proj", FY_D_FF, FY_D_EMBD),
    COPY(FY_T_FFN_DOWN, G_FFN_DOWN, NEMOTRON_MIXER "down_proj", FY_D_EMBD, FY_D_FF),
    VECTOR(FY_T_OUTPUT_NORM, "output_norm", "backbone.norm_f", FY_D_EMBD, FY_X_COPY),
    ROW_OUTPUT,
};

static const fy_config_key nemotron_h_keys[] = {
    {"layer_norm_epsilon", FIELD(norm_rms_eps), FY_OP_SET, 0, NULL},
    {"attention_head_dim", FIELD(head_dim), FY_OP_SET, 0, NULL},
};

static const fy_config_rule nemotron_h_rules[] = {
    {"attention_bias", "false", NULL}, {"mlp_bias", "false", NULL},
    {"use_bias", "false", NULL},       {"mamba_proj_bias", "false", NULL},
    {"use_conv_bias", "true", NULL},   {"mamba_hidden_act", "\"silu\"", NULL},
};

const fy_family fy_family_nemotron_h = {
    .name = "nemotron_h",
    .gguf_arch = "nemotron_h",
    CLASSES("NemotronHForCausalLM"),
    .defaults = {SIZES(131072, 4096, 4096, 52, 32, 21504), .n_head_kv = 8, .head_dim = 128,
                 RMS(1e-5F, 10000), .act = FY_ACT_RELU2, .ssm_conv = 4, .ssm_state = 128,
                 .ssm_groups = 8, .ssm_heads = 128},
    .rope = FY_ROPE_NEOX,
    .no_rope = {.period = 1},
    .rope_switch = true,
    .both_eps = true,
    .ssm_place = FY_SSM_ALONE,
    ROWS(nemotron_h_rows),
    KEYS(nemotron_h_keys),
    RULES(nemotron_h_rules),
};
