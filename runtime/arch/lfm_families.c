/* Liquid's LFM2, LFM2-MoE and LFM3: in most layers a gated short convolution takes the place of
 * attention. */
#include "arch/expert_rows.h"

#define H_CONV HF_LAYER "conv."

/* What mixes the tokens of a layer, and the feed-forward. */
#define ROWS_CONV                                                                             \
    COPY(FY_T_CONV_IN, "blk.%u.shortconv.in_proj", H_CONV "in_proj", FY_D_EMBD_3, FY_D_EMBD), \
        {FY_T_CONV,                                                                           \
         "blk.%u.shortconv.conv.weight",                                                      \
         H_CONV "conv.weight",                                                                \
         {FY_D_EMBD, FY_D_CONV},                                                              \
         FY_X_COPY,                                                                           \
         .hf_dims = {FY_D_EMBD, FY_D_ONE, FY_D_CONV}},                                        \
        COPY(FY_T_CONV_OUT, "blk.%u.shortconv.out_proj", H_CONV "out_proj", FY_D_EMBD, FY_D_EMBD)
#define ROWS_OPERATOR                                                                       \
    NORM(FY_T_ATTN_NORM, G_ATTN_NORM, "operator_norm"), ROW_ATTN_Q(FY_X_COPY),              \
        VECTOR(FY_T_ATTN_Q_NORM, "blk.%u.attn_q_norm", H_ATTN "q_layernorm", FY_D_HEAD,     \
               FY_X_COPY),                                                                  \
        ROW_ATTN_K(FY_X_COPY),                                                              \
        VECTOR(FY_T_ATTN_K_NORM, "blk.%u.attn_k_norm", H_ATTN "k_layernorm", FY_D_HEAD,     \
               FY_X_COPY),                                                                  \
        ROW_ATTN_V, COPY(FY_T_ATTN_OUT, G_ATTN_OUT, H_ATTN "out_proj", FY_D_EMBD, FY_D_QV), \
        ROWS_CONV
#define ROWS_FEED_FORWARD                                                                \
    NORM(FY_T_FFN_NORM, G_FFN_NORM, "ffn_norm"),                                         \
        COPY(FY_T_FFN_GATE, G_FFN_GATE, HF_LAYER "feed_forward.w1", FY_D_FF, FY_D_EMBD), \
        COPY(FY_T_FFN_UP, G_FFN_UP, HF_LAYER "feed_forward.w3", FY_D_FF, FY_D_EMBD),     \
        COPY(FY_T_FFN_DOWN, G_FFN_DOWN, HF_LAYER "feed_forward.w2", FY_D_EMBD, FY_D_FF)
/* the final norm, in spite of both names */
#define ROW_EMBEDDING_NORM \
    VECTOR(FY_T_OUTPUT_NORM, "token_embd_norm", "model.embedding_norm", FY_D_EMBD, FY_X_COPY)

static const fy_tensor_row lfm2_rows[] = {
    ROW_TOKEN_EMBD, ROWS_OPERATOR, ROWS_FEED_FORWARD, ROW_EMBEDDING_NORM, ROW_OUTPUT,
};

static const fy_config_key lfm2_keys[] = {
    {"block_ff_dim", FIELD(n_ff), FY_OP_SET, 0, NULL},
    {"block_auto_adjust_ff_dim", FIELD(n_ff), FY_OP_LFM2_WIDTH, 1, NULL},
};

static const fy_config_rule lfm2_rules[] = {{"conv_bias", "false", NULL}};

const fy_family fy_family_lfm2 = {
    .name = "lfm2",
    .gguf_arch = "lfm2",
    CLASSES("Lfm2ForCausalLM"),
    .defaults = {SIZES(65536, 128000, 2560, 32, 32, 12288), .n_head_kv = 8, .conv_len = 3,
                 RMS(1e-5F, 1e6F)},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    ROWS(lfm2_rows),
    KEYS(lfm2_keys),
    RULES(lfm2_rules),
};

/* LFM2 with experts after its first layers: a sigmoid router with a bias that only chooses. The
 * class divides the weights by their sum + 1e-6, readers of the format by the sum. */
static const fy_tensor_row lfm2moe_rows[] = {
    ROW_TOKEN_EMBD,
    ROWS_OPERATOR,
    ROWS_FEED_FORWARD,
    ROW_FFN_ROUTER("feed_forward.gate", 0),
    {FY_T_FFN_CHOICE_B,
     "blk.%u.exp_probs_b.bias",
     HF_LAYER "feed_forward.expert_bias",
     {FY_D_EXPERT},
     FY_X_COPY,
     .flags = 0},
    ROWS_EXPERTS("feed_forward.experts.%e.w1.weight", "feed_forward.experts.%e.w3.weight",
                 "feed_forward.experts.%e.w2.weight", "feed_forward.experts"),
    ROW_EMBEDDING_NORM,
    ROW_OUTPUT,
};

static const fy_config_rule lfm2moe_rules[] = {
    {"conv_bias", "false", NULL},
    {"use_expert_bias", "true", NULL},
    {"norm_topk_prob", "true", NULL},
    {"routed_scaling_factor", "1", NULL},
};

const fy_family fy_family_lfm2moe = {
    .name = "lfm2_moe",
    .gguf_arch = "lfm2moe",
    CLASSES("Lfm2MoeForCausalLM"),
    .defaults = {SIZES(65536, 128000, 2048, 32, 32, 7168), .n_head_kv = 8, .conv_len = 3,
                 RMS(1e-5F, 1e6F), .n_expert = 32, .n_expert_used = 4, .n_dense_layers = 2,
                 .n_ff_exp = 1792, .gating = FY_GATING_SIGMOID, .expert_norm = true},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .moe = true,
    ROWS(lfm2moe_rows),
    RULES(lfm2moe_rules),
};

/* LFM3: norms after the blocks, too, a gate for each head of attention, and windows with a base of
 * their own; in layers without one a part of each head rotates, which rope_freqs says. No other
 * program has named an architecture for it: names and keys are ours (docs/gguf.md). */
static const fy_tensor_row lfm3_rows[] = {
    ROW_TOKEN_EMBD,
    ROPE_FACTORS(FY_T_ROPE_FREQS, "rope_freqs.weight", FY_X_PART_FREQS),
    NORM(FY_T_ATTN_NORM, G_ATTN_NORM, "operator_norm"),
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_NORM(FY_D_HEAD),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_NORM(FY_D_HEAD),
    ROW_ATTN_V,
    COPY(FY_T_ATTN_GATE, "blk.%u.attn_gate", H_ATTN "gate_proj", FY_D_HEADS, FY_D_EMBD),
    ROW_ATTN_OUT,
    ROWS_CONV,
    ROW_ATTN_POST_NORM("post_operator_norm"),
    ROWS_FEED_FORWARD,
    ROW_FFN_POST_NORM("post_ffn_norm"),
    ROW_EMBEDDING_NORM,
    ROW_OUTPUT,
};

static const fy_config_rule lfm3_rules[] = {
    {"conv_bias", "false", NULL},
    {"attention_bias", "false", NULL},
    {"use_sandwich_norm", "true", NULL},
    {"use_attention_gate", "true", NULL},
};

const fy_family fy_family_lfm3 = {
    .name = "lfm3",
    .gguf_arch = "lfm3",
    .own_arch = true,
    CLASSES("Lfm3ForCausalLM"),
    .defaults = {SIZES(128000, 262144, 2048, 24, 16, 7680), .n_head_kv = 4, .head_dim = 128,
                 .n_swa = 256, .conv_len = 7, RMS(1e-5F, 1e6F), .rope_theta_swa = 10000},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .lists_swa_layers = true,
    ROWS(lfm3_rows),
    RULES(lfm3_rules),
};
