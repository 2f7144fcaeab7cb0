/* Families with experts instead of one feed-forward network. A checkpoint holds one matrix per
 * expert, or all experts of a layer in one tensor, gate rows above up rows; that tensor may be
 * transposed. Which form it is follows from the names and shapes that are there. */
#include "arch/tensor_rows.h"

/* hf: the tensor's name within its layer; what follows `more`: the source's dimensions. */
#define EXPERTS_ROW(slot, gguf, hf, rows, cols, transform, more, ...)                      \
    {                                                                                      \
        slot, "blk.%u." gguf ".weight", HF_LAYER hf, {FY_D_EXPERT, rows, cols}, transform, \
            FY_ROW_MATRIX | (more), .hf_dims = {                                           \
                __VA_ARGS__                                                                \
            }                                                                              \
    }
#define GATE_EXPS(hf, x, more, ...)                                                       \
    EXPERTS_ROW(FY_T_FFN_GATE_EXPS, "ffn_gate_exps", hf, FY_D_FF_EXP, FY_D_EMBD, x, more, \
                __VA_ARGS__)
#define UP_EXPS(hf, x, more, ...) \
    EXPERTS_ROW(FY_T_FFN_UP_EXPS, "ffn_up_exps", hf, FY_D_FF_EXP, FY_D_EMBD, x, more, __VA_ARGS__)
#define DOWN_EXPS(hf, x, more, ...)                                                       \
    EXPERTS_ROW(FY_T_FFN_DOWN_EXPS, "ffn_down_exps", hf, FY_D_EMBD, FY_D_FF_EXP, x, more, \
                __VA_ARGS__)

/* One tensor per expert: %e in the name is its number. */
#define ROW_GATE_EACH(hf) GATE_EXPS(hf, FY_X_COPY, 0, FY_D_FF_EXP, FY_D_EMBD)
#define ROW_UP_EACH(hf)   UP_EXPS(hf, FY_X_COPY, 0, FY_D_FF_EXP, FY_D_EMBD)
#define ROW_DOWN_EACH(hf) DOWN_EXPS(hf, FY_X_COPY, 0, FY_D_EMBD, FY_D_FF_EXP)

/* One tensor of gate and up for all experts, [out, in] or [in, out]; more: 0, or FY_ROW_ALT below
 * another form. */
#define ROW_GATE_FUSED(hf, more) \
    GATE_EXPS(hf, FY_X_FIRST_HALF, more, FY_D_EXPERT, FY_D_FF_EXP_2, FY_D_EMBD)
#define ROW_UP_FUSED(hf, more) \
    UP_EXPS(hf, FY_X_SECOND_HALF, more, FY_D_EXPERT, FY_D_FF_EXP_2, FY_D_EMBD)
#define ROW_DOWN_FUSED(hf, more) DOWN_EXPS(hf, FY_X_COPY, more, FY_D_EXPERT, FY_D_EMBD, FY_D_FF_EXP)
#define ROW_GATE_FUSED_T(hf) \
    GATE_EXPS(hf, FY_X_TRANSPOSE_FIRST_HALF, FY_ROW_ALT, FY_D_EXPERT, FY_D_EMBD, FY_D_FF_EXP_2)
#define ROW_UP_FUSED_T(hf) \
    UP_EXPS(hf, FY_X_TRANSPOSE_SECOND_HALF, FY_ROW_ALT, FY_D_EXPERT, FY_D_EMBD, FY_D_FF_EXP_2)
#define ROW_DOWN_FUSED_T(hf) \
    DOWN_EXPS(hf, FY_X_TRANSPOSE, FY_ROW_ALT, FY_D_EXPERT, FY_D_FF_EXP, FY_D_EMBD)

/* All forms: names of one expert's tensors, and of the module of the fused ones as transformers 5
 * holds them. */
#define ROWS_EXPERTS(gate, up, down, fused)                                                     \
    ROW_GATE_EACH(gate), ROW_GATE_FUSED(fused ".gate_up_proj", FY_ROW_ALT),                     \
        ROW_GATE_FUSED_T(fused ".gate_up_proj"), ROW_UP_EACH(up),                               \
        ROW_UP_FUSED(fused ".gate_up_proj", FY_ROW_ALT), ROW_UP_FUSED_T(fused ".gate_up_proj"), \
        ROW_DOWN_EACH(down), ROW_DOWN_FUSED(fused ".down_proj", FY_ROW_ALT),                    \
        ROW_DOWN_FUSED_T(fused ".down_proj")
/* As Qwen and OLMoE name them. */
#define ROWS_MLP_EXPERTS                                                             \
    ROWS_EXPERTS("mlp.experts.%e.gate_proj.weight", "mlp.experts.%e.up_proj.weight", \
                 "mlp.experts.%e.down_proj.weight", "mlp.experts")

/* Its numbers stay F32: a rounded one may choose another expert. */
#define ROW_FFN_ROUTER(hf, more)                                                        \
    {                                                                                   \
        FY_T_FFN_ROUTER, "blk.%u.ffn_gate_inp.weight", "model.layers.%u." hf ".weight", \
            {FY_D_EXPERT, FY_D_EMBD}, FY_X_COPY, .flags = (more)                        \
    }

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

#define SHARED_MLP(slot, gguf, hf, rows, cols, x, ...)                                        \
    {                                                                                         \
        slot, "blk.%u." gguf ".weight", HF_LAYER "shared_mlp." hf ".weight", {rows, cols}, x, \
            .flags = FY_ROW_MATRIX, .hf_dims = {                                              \
                __VA_ARGS__                                                                   \
            }                                                                                 \
    }

static const fy_tensor_row granitemoe_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ROPE_FREQS,
    ROW_ATTN_NORM,
    ROWS_ATTN_BIAS(FY_X_PERMUTE_Q, FY_X_PERMUTE_K, "attention_bias"),
    ROW_FFN_NORM,
    ROW_FFN_ROUTER("block_sparse_moe.router.layer", 0),
    ROW_FFN_ROUTER("block_sparse_moe.router", FY_ROW_ALT),
    ROW_GATE_FUSED(FUSED_IN, 0),
    ROW_GATE_FUSED(FUSED_IN_5, FY_ROW_ALT),
    ROW_UP_FUSED(FUSED_IN, 0),
    ROW_UP_FUSED(FUSED_IN_5, FY_ROW_ALT),
    ROW_DOWN_FUSED(FUSED_OUT, 0),
    ROW_DOWN_FUSED(FUSED_OUT_5, FY_ROW_ALT),
    SHARED_MLP(FY_T_FFN_GATE_SHEXP, "ffn_gate_shexp", "input_linear", FY_D_FF_SHEXP, FY_D_EMBD,
               FY_X_FIRST_HALF, FY_D_FF_SHEXP_2, FY_D_EMBD),
    SHARED_MLP(FY_T_FFN_UP_SHEXP, "ffn_up_shexp", "input_linear", FY_D_FF_SHEXP, FY_D_EMBD,
               FY_X_SECOND_HALF, FY_D_FF_SHEXP_2, FY_D_EMBD),
    SHARED_MLP(FY_T_FFN_DOWN_SHEXP, "ffn_down_shexp", "output_linear", FY_D_EMBD, FY_D_FF_SHEXP,
               FY_X_COPY, FY_D_EMBD, FY_D_FF_SHEXP),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
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
    ROWS(granitemoe_rows),
    KEYS(granitemoe_keys),
    RULES(granitemoe_rules),
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
