/* Qwen3.5: gated delta nets, and gated attention in every fourth layer. */
#include "arch/tensor_rows.h"

#define H_DELTA HF_LAYER "linear_attn."
/* Norms hold w - 1, but for the one of the delta net. */
#define NORM_1(slot, gguf, hf, dim) VECTOR(slot, gguf, hf, dim, FY_X_ADD_ONE)
#define VALUES(slot, gguf, hf, rows) \
    MATRIX(slot, "blk.%u." gguf, H_DELTA hf, rows, FY_D_EMBD, FY_X_VALUE_ROWS)

static const fy_tensor_row qwen35_rows[] = {
    ROW_TOKEN_EMBD,
    NORM_1(FY_T_ATTN_NORM, G_ATTN_NORM, HF_LAYER "input_layernorm", FY_D_EMBD),
    COPY(FY_T_ATTN_Q, G_ATTN_Q, H_ATTN "q_proj", FY_D_Q_2, FY_D_EMBD),
    NORM_1(FY_T_ATTN_Q_NORM, "blk.%u.attn_q_norm", H_ATTN "q_norm", FY_D_HEAD),
    ROW_ATTN_K(FY_X_COPY),
    NORM_1(FY_T_ATTN_K_NORM, "blk.%u.attn_k_norm", H_ATTN "k_norm", FY_D_HEAD),
    ROW_ATTN_V,
    ROW_ATTN_OUT,
    MATRIX(FY_T_SSM_QKV, G_ATTN_QKV, H_DELTA "in_proj_qkv", FY_D_SSM_CHANNELS, FY_D_EMBD,
           FY_X_VALUE_QKV),
    VALUES(FY_T_SSM_Z, "attn_gate", "in_proj_z", FY_D_SSM_INNER),
    VALUES(FY_T_SSM_ALPHA, "ssm_alpha", "in_proj_a", FY_D_SSM_HEADS),
    VALUES(FY_T_SSM_BETA, "ssm_beta", "in_proj_b", FY_D_SSM_HEADS),
    {FY_T_SSM_CONV,
     "blk.%u.ssm_conv1d.weight",
     H_DELTA "conv1d.weight",
     {FY_D_SSM_CHANNELS, FY_D_SSM_CONV},
     FY_X_VALUE_QKV,
     .hf_dims = {FY_D_SSM_CHANNELS, FY_D_ONE, FY_D_SSM_CONV}},
    {FY_T_SSM_DT_B,
     "blk.%u.ssm_dt.bias",
     H_DELTA "dt_bias",
     {FY_D_SSM_HEADS},
     FY_X_VALUE_ROWS,
     .flags = 0},
    {FY_T_SSM_A, "blk.%u.ssm_a", H_DELTA "A_log", {FY_D_SSM_HEADS}, FY_X_VALUE_NEG_EXP, .flags = 0},
    VECTOR(FY_T_SSM_NORM, "blk.%u.ssm_norm", H_DELTA "norm", FY_D_SSM_HEAD, FY_X_COPY),
    MATRIX(FY_T_SSM_OUT, "blk.%u.ssm_out", H_DELTA "out_proj", FY_D_EMBD, FY_D_SSM_INNER,
           FY_X_VALUE_COLUMNS),
    /* the norm before the feed-forward, in spite of both names */
    NORM_1(FY_T_FFN_NORM, "blk.%u.post_attention_norm", HF_LAYER "post_attention_layernorm",
           FY_D_EMBD),
    ROWS_FFN,
    NORM_1(FY_T_OUTPUT_NORM, "output_norm", "model.norm", FY_D_EMBD),
    ROW_OUTPUT,
};

static const fy_config_rule qwen35_rules[] = {
    {"attention_bias", "false", NULL},
    {"attn_output_gate", "true", NULL},
    {"mlp_only_layers", "[]", NULL},
};

const fy_family fy_family_qwen35 = {
    .name = "qwen3_5",
    .gguf_arch = "qwen35",
    CLASSES("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"),
    .defaults = {SIZES(248320, 32768, 4096, 32, 16, 12288), .n_head_kv = 4, .head_dim = 256,
                 RMS(1e-6F, 10000), .ssm_conv = 4, .ssm_state = 128, .ssm_groups = 16,
                 .ssm_heads = 32, .full_interval = 4},
    .rope = FY_ROPE_NEOX,
    .rot_part = 0.25F,
    .rope_keys = STRINGS("mrope_section", "mrope_interleaved"),
    .ssm_place = FY_SSM_DELTA,
    .gated_queries = true,
    ROWS(qwen35_rows),
    RULES(qwen35_rules),
};
