/* Families with experts instead of one feed-forward network. */
#include "arch/expert_rows.h"
#include "arch/mamba_rows.h"

/* Mixtral: Mistral with experts, softmax over all, the chosen ones' weights divided by their
 * sum. Reads every GGUF file of architecture "llama" with experts. The class has a window, but none
 * by default. */
static const fy_tensor_row mixtral_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ROPE_FREQS,
    ROW_ATTN_NORM,
    ROWS_ATTN(FY_X_PERMUTE_Q, FY_X_PERMUTE_K),
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("block_sparse_moe.gate", 0),
    ROW_FFN_ROUTER("mlp.gate", FY_ROW_ALT),
    ROWS_EXPERTS("block_sparse_moe.experts.%e.w1.weight", "block_sparse_moe.experts.%e.w3.weight",
                 "block_sparse_moe.experts.%e.w2.weight", "mlp.experts"),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

const fy_family fy_family_mixtral = {
    .name = "mixtral",
    .gguf_arch = "llama",
    CLASSES("MixtralForCausalLM"),
    .defaults = {SIZES(32000, 131072, 4096, 32, 32, 14336), .n_head_kv = 8, RMS(1e-5F, 1e6F),
                 .n_expert = 8, .n_expert_used = 2, .gating = FY_GATING_SOFTMAX,
                 .expert_norm = true},
    .rope = FY_ROPE_NORM,
    .moe = true,
    ROWS(mixtral_rows),
    WINDOW_KEYS("sliding_window"),
};

/* Qwen 1.5 and 2 with experts: Qwen 2's attention; the weights of the chosen experts are not
 * divided by their sum, and a shared expert counts sigmoid(w x) times. */
#define QWEN_SHARED(slot, gguf, hf, rows, cols) \
    COPY(slot, "blk.%u." gguf, H_MLP "shared_expert." hf, rows, cols)

static const fy_tensor_row qwen2moe_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN_QKV_BIAS(FY_X_COPY, FY_X_COPY, "qkv_bias"),
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("mlp.gate", 0),
    ROWS_MLP_EXPERTS,
    {FY_T_FFN_SHEXP_ROUTER,
     "blk.%u.ffn_gate_inp_shexp.weight",
     H_MLP "shared_expert_gate.weight",
     {FY_D_EMBD},
     FY_X_COPY,
     .hf_dims = {FY_D_ONE, FY_D_EMBD}},
    QWEN_SHARED(FY_T_FFN_GATE_SHEXP, "ffn_gate_shexp", "gate_proj", FY_D_FF_SHEXP, FY_D_EMBD),
    QWEN_SHARED(FY_T_FFN_UP_SHEXP, "ffn_up_shexp", "up_proj", FY_D_FF_SHEXP, FY_D_EMBD),
    QWEN_SHARED(FY_T_FFN_DOWN_SHEXP, "ffn_down_shexp", "down_proj", FY_D_EMBD, FY_D_FF_SHEXP),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

/* Every layer has experts; a window over some of the layers has no published model. */
static const fy_config_rule qwen_moe_rules[] = {
    {"decoder_sparse_step", "1", NULL},
    {"mlp_only_layers", "[]", NULL},
    {"use_sliding_window", "false", NULL},
};

const fy_family fy_family_qwen2moe = {
    .name = "qwen2_moe",
    .gguf_arch = "qwen2moe",
    CLASSES("Qwen2MoeForCausalLM"),
    .defaults = {SIZES(151936, 32768, 2048, 24, 16, 5632), .n_head_kv = 16, RMS(1e-6F, 10000),
                 .n_expert = 60, .n_expert_used = 4, .n_ff_exp = 1408, .n_ff_shexp = 5632,
                 .gating = FY_GATING_SOFTMAX},
    .rope = FY_ROPE_NEOX,
    .moe = true,
    ROWS(qwen2moe_rows),
    RULES(qwen_moe_rules),
    FLAGS_ON("qkv_bias"),
};

/* Qwen3 with experts: Qwen3's attention, the weights of the chosen experts divided by their
 * sum. The class divides only if its config asks for it; readers of a GGUF file without the key
 * do. */
static const fy_tensor_row qwen3moe_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN_NORMED(FY_D_HEAD, FY_D_HEAD),
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("mlp.gate", 0),
    ROWS_MLP_EXPERTS,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_key qwen3moe_keys[] = {
    {"norm_topk_prob", FIELD(expert_norm), FY_OP_FLAG, 0, NULL},
};

const fy_family fy_family_qwen3moe = {
    .name = "qwen3_moe",
    .gguf_arch = "qwen3moe",
    CLASSES("Qwen3MoeForCausalLM"),
    .defaults = {SIZES(151936, 32768, 2048, 24, 32, 6144), .n_head_kv = 4, RMS(1e-6F, 10000),
                 .n_expert = 128, .n_expert_used = 8, .n_ff_exp = 768, .gating = FY_GATING_SOFTMAX,
                 .expert_norm = true},
    .rope = FY_ROPE_NEOX,
    .moe = true,
    ROWS(qwen3moe_rows),
    KEYS(qwen3moe_keys),
    RULES(qwen_moe_rules),
};

/* OLMoE: RMS norms over the whole of q and of k, experts whose weights are not divided by their
 * sum. */
static const fy_tensor_row olmoe_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN_NORMED(FY_D_Q, FY_D_K),
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("mlp.gate", 0),
    ROWS_MLP_EXPERTS,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_rule olmoe_rules[] = {{"clip_qkv", "null", NULL}};

const fy_family fy_family_olmoe = {
    .name = "olmoe",
    .gguf_arch = "olmoe",
    CLASSES("OlmoeForCausalLM"),
    .defaults = {SIZES(50304, 4096, 2048, 16, 16, 2048), RMS(1e-5F, 10000), .n_expert = 64,
                 .n_expert_used = 8, .gating = FY_GATING_SOFTMAX},
    .rope = FY_ROPE_NEOX,
    .moe = true,
    ROWS(olmoe_rows),
    RULES(olmoe_rules),
};

/* Granite 3 with experts, with or without a shared one that counts once. Its softmax over the
 * chosen experts is one over all whose weights are divided by their sum. */
#define FUSED_IN  "block_sparse_moe.input_linear.weight"
#define FUSED_OUT "block_sparse_moe.output_linear.weight"
/* as transformers 5 holds them */
#define FUSED_IN_5  "block_sparse_moe.experts.gate_up_proj"
#define FUSED_OUT_5 "block_sparse_moe.experts.down_proj"

#define GRANITE_EXPERTS                                                                         \
    ROW_FFN_ROUTER("block_sparse_moe.router.layer", 0),                                         \
        ROW_FFN_ROUTER("block_sparse_moe.router", FY_ROW_ALT), ROW_GATE_FUSED(FUSED_IN, 0),     \
        ROW_GATE_FUSED(FUSED_IN_5, FY_ROW_ALT), ROW_UP_FUSED(FUSED_IN, 0),                      \
        ROW_UP_FUSED(FUSED_IN_5, FY_ROW_ALT), ROW_DOWN_FUSED(FUSED_OUT, 0),                     \
        ROW_DOWN_FUSED(FUSED_OUT_5, FY_ROW_ALT),                                                \
        SHARED_MLP(FY_T_FFN_GATE_SHEXP, "ffn_gate_shexp", "input_linear", FY_D_FF_SHEXP,        \
                   FY_D_EMBD, FY_X_FIRST_HALF, FY_D_FF_SHEXP_2, FY_D_EMBD),                     \
        SHARED_MLP(FY_T_FFN_UP_SHEXP, "ffn_up_shexp", "input_linear", FY_D_FF_SHEXP, FY_D_EMBD, \
                   FY_X_SECOND_HALF, FY_D_FF_SHEXP_2, FY_D_EMBD),                               \
        SHARED_MLP(FY_T_FFN_DOWN_SHEXP, "ffn_down_shexp", "output_linear", FY_D_EMBD,           \
                   FY_D_FF_SHEXP, FY_X_COPY, FY_D_EMBD, FY_D_FF_SHEXP)

static const fy_tensor_row granitemoe_rows[] = {
    ROW_TOKEN_EMBD,  ROW_ROPE_FREQS,
    ROW_ATTN_NORM,   ROWS_ATTN_BIAS(FY_X_PERMUTE_Q, FY_X_PERMUTE_K, "attention_bias"),
    ROW_FFN_NORM,    GRANITE_EXPERTS,
    ROW_OUTPUT_NORM, ROW_OUTPUT,
};

static const fy_config_key granitemoe_keys[] = {GRANITE_KEYS};

static const fy_config_rule granitemoe_rules[] = {{"position_embedding_type", "\"rope\"", NULL}};

const fy_family fy_family_granitemoe = {
    .name = "granitemoe",
    .gguf_arch = "granitemoe",
    CLASSES("GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"),
    .defaults = {SIZES(32000, 2048, 4096, 32, 32, 11008), RMS(1e-6F, 10000), .n_expert = 8,
                 .n_expert_used = 2, .gating = FY_GATING_SOFTMAX, .expert_norm = true},
    .rope = FY_ROPE_NORM,
    .moe = true,
    .rope_switch = true,
    ROWS(granitemoe_rows),
    KEYS(granitemoe_keys),
    RULES(granitemoe_rules),
};

/* Granite 4 with experts, whose shared one stands beside them, and Mamba-2 mixers in place of
 * attention in most layers (mamba_families.c); then with attention in all, which is Granite 3 to
 * readers. */
static const fy_tensor_row granite4hmoe_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN_BIAS(FY_X_PERMUTE_Q, FY_X_PERMUTE_K, "attention_bias"),
    ROWS_SSM(HF_LAYER "mamba."),
    ROW_SSM_NORM(HF_LAYER "mamba.", NULL),
    ROW_FFN_NORM,
    GRANITE_EXPERTS,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_rule granite4_rules[] = {GRANITE4_RULES};

#define GRANITE4_MOE_DEFAULTS                                                 \
    GRANITE4_DEFAULTS, .n_expert = 8, .n_expert_used = 2, .n_ff_shexp = 1024, \
                       .gating = FY_GATING_SOFTMAX, .expert_norm = true

const fy_family fy_family_granite4hmoe = {
    .name = "granitemoehybrid-moe",
    .gguf_arch = "granitehybrid",
    CLASSES("GraniteMoeHybridForCausalLM"),
    .defaults = {GRANITE4_MOE_DEFAULTS, GRANITE4_MIXER},
    .rope = FY_ROPE_NORM,
    .moe = true,
    .rope_switch = true,
    .nope_default = true,
    .ssm_place = FY_SSM_INSTEAD,
    ROWS(granite4hmoe_rows),
    KEYS(granitemoe_keys),
    RULES(granite4_rules),
};

const fy_family fy_family_granite4moe = {
    .name = "granite4-moe",
    .gguf_arch = "granitemoe",
    CLASSES("GraniteMoeHybridForCausalLM"),
    .defaults = {GRANITE4_MOE_DEFAULTS},
    .rope = FY_ROPE_NORM,
    .moe = true,
    .rope_switch = true,
    .nope_default = true,
    ROWS(granitemoe_rows),
    KEYS(granitemoe_keys),
    RULES(granite4_rules),
};

/* SmallThinker 4B-A0.6B and 21B-A3B: experts with relu gates, chosen by the residual stream as
 * it enters the layer, by default by sigmoid. Layers of 21B come in fours, the first with full
 * attention and no rotation, the others with a window; those of 4B all rotate and have none. */
#define SMALL_EXPERT(name) "block_sparse_moe.experts.%e." name ".weight"

static const fy_tensor_row smallthinker_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN(FY_X_COPY, FY_X_COPY),
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("block_sparse_moe.primary_router", 0),
    ROW_GATE_EACH(SMALL_EXPERT("gate")),
    ROW_UP_EACH(SMALL_EXPERT("up")),
    ROW_DOWN_EACH(SMALL_EXPERT("down")),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_key smallthinker_keys[] = {
    {"moe_num_primary_experts", FIELD(n_expert), FY_OP_SET, 0, NULL},
    {"moe_num_active_primary_experts", FIELD(n_expert_used), FY_OP_SET, 0, NULL},
    {"moe_primary_router_apply_softmax", FIELD(gating), FY_OP_ROUTER_IS_SOFTMAX, 0, NULL},
};

const fy_family fy_family_smallthinker = {
    .name = "smallthinker",
    .gguf_arch = "smallthinker",
    CLASSES("SmallThinkerForCausalLM"),
    .defaults = {SIZES(151936, 131072, 1536, 32, 12, 768), .n_head_kv = 2, .head_dim = 128,
                 .n_swa = 4096, RMS(1e-6F, 1e6F), .act = FY_ACT_RELU, .n_expert = 32,
                 .n_expert_used = 4, .n_ff_exp = 768, .gating = FY_GATING_SIGMOID,
                 .expert_norm = true},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .moe = true,
    .early_router = true,
    .nope_follows_swa = true,
    .full_attention = {.period = 4, .first = true},
    .no_rope = {.period = 4, .first = true},
    ROWS(smallthinker_rows),
    WINDOW_KEYS("sliding_window_size"),
    KEYS(smallthinker_keys),
};

/* gpt-oss: biases everywhere, a sink in the softmax of each head, every other layer with a window,
 * and a clamped gate. Experts are MXFP4 in the published checkpoints, else [in, out]; the rows of
 * gate and up take turns. The weights are a softmax over the chosen experts, which is one over all,
 * divided by their sum. llama.cpp's name of the norm before the experts is that of another. */
#define OSS_EXPERTS(slot, gguf, hf, rows, cols, x, x_t, wide)                                      \
    EXPERTS_ROW(slot, gguf, "mlp.experts." hf "_blocks", rows, cols, x, 0, FY_D_EXPERT, wide,      \
                cols),                                                                             \
        EXPERTS_ROW(slot, gguf, "mlp.experts." hf, rows, cols, x_t, FY_ROW_ALT, FY_D_EXPERT, cols, \
                    wide)
#define OSS_BIAS(slot, gguf, hf, dim, x, source_dim)                                      \
    {                                                                                     \
        slot, "blk.%u." gguf ".bias", H_MLP "experts." hf "_bias", {FY_D_EXPERT, dim}, x, \
            .hf_dims = {                                                                  \
                FY_D_EXPERT,                                                              \
                source_dim                                                                \
            }                                                                             \
    }

static const fy_tensor_row gpt_oss_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN_BIAS(FY_X_COPY, FY_X_COPY, "attention_bias"),
    {FY_T_ATTN_SINKS,
     "blk.%u.attn_sinks.weight",
     H_ATTN "sinks",
     {FY_D_HEADS},
     FY_X_COPY,
     .flags = 0},
    NORM(FY_T_FFN_NORM, "blk.%u.post_attention_norm", "post_attention_layernorm"),
    ROW_FFN_ROUTER("mlp.router", 0),
    BIAS(FY_T_FFN_ROUTER_B, "blk.%u.ffn_gate_inp", H_MLP "router", FY_D_EXPERT, FY_X_COPY, NULL),
    OSS_EXPERTS(FY_T_FFN_GATE_EXPS, "ffn_gate_exps", "gate_up_proj", FY_D_FF_EXP, FY_D_EMBD,
                FY_X_EVEN, FY_X_TRANSPOSE_EVEN, FY_D_FF_EXP_2),
    OSS_BIAS(FY_T_FFN_GATE_EXPS_B, "ffn_gate_exps", "gate_up_proj", FY_D_FF_EXP, FY_X_EVEN,
             FY_D_FF_EXP_2),
    OSS_EXPERTS(FY_T_FFN_UP_EXPS, "ffn_up_exps", "gate_up_proj", FY_D_FF_EXP, FY_D_EMBD, FY_X_ODD,
                FY_X_TRANSPOSE_ODD, FY_D_FF_EXP_2),
    OSS_BIAS(FY_T_FFN_UP_EXPS_B, "ffn_up_exps", "gate_up_proj", FY_D_FF_EXP, FY_X_ODD,
             FY_D_FF_EXP_2),
    OSS_EXPERTS(FY_T_FFN_DOWN_EXPS, "ffn_down_exps", "down_proj", FY_D_EMBD, FY_D_FF_EXP, FY_X_COPY,
                FY_X_TRANSPOSE, FY_D_EMBD),
    OSS_BIAS(FY_T_FFN_DOWN_EXPS_B, "ffn_down_exps", "down_proj", FY_D_EMBD, FY_X_COPY, FY_D_EMBD),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

/* What llama.cpp has as constants. The experts do not look at hidden_act. */
static const fy_config_rule gpt_oss_rules[] = {
    {"hidden_act", "\"silu\"", NULL},
    {"swiglu_alpha", "1.702", NULL},
    {"swiglu_limit", "7", NULL},
};

const fy_family fy_family_gpt_oss = {
    .name = "gpt_oss",
    .gguf_arch = "gpt-oss",
    CLASSES("GptOssForCausalLM"),
    .defaults = {SIZES(201088, 131072, 2880, 36, 64, 2880), .n_head_kv = 8, .head_dim = 64,
                 .n_swa = 128, RMS(1e-5F, 150000), .yarn_unrounded = true, .act = FY_ACT_SWIGLU_OAI,
                 .n_expert = 128, .n_expert_used = 4, .gating = FY_GATING_SOFTMAX,
                 .expert_norm = true},
    .rope = FY_ROPE_NEOX,
    .moe = true,
    .full_attention = {.period = 2},
    ROWS(gpt_oss_rows),
    RULES(gpt_oss_rules),
    FLAGS_ON("attention_bias"),
};
