/* Llama and the families of its shape: RMS norms, a gated feed-forward network, RoPE, few or no
 * biases. The GGUF architectures of Llama's kind rotate neighbours (NORM), their checkpoints halves
 * (NEOX): rows of q and k are permuted. */
#include "arch/tensor_rows.h"

/* Llama 1, 2, 3.x, and what shares its class: SmolLM, SmolLM2, TinyLlama,
 * DeepSeek-R1-Distill-Llama, ... */
static const fy_tensor_row llama_rows[] = {
    ROW_TOKEN_EMBD,  ROW_ROPE_FREQS,
    ROW_ATTN_NORM,   ROWS_ATTN_BIAS(FY_X_PERMUTE_Q, FY_X_PERMUTE_K, "attention_bias"),
    ROW_FFN_NORM,    ROWS_FFN_BIAS("mlp_bias"),
    ROW_OUTPUT_NORM, ROW_OUTPUT,
};

#define LLAMA_DEFAULTS SIZES(32000, 2048, 4096, 32, 32, 11008), RMS(1e-6F, 10000)

const fy_family fy_family_llama = {
    .name = "llama",
    .gguf_arch = "llama",
    CLASSES("LlamaForCausalLM", "LLaMAForCausalLM"),
    .defaults = {LLAMA_DEFAULTS},
    .rope = FY_ROPE_NORM,
    ROWS(llama_rows),
};

/* Mistral 7B and its successors: head_dim apart from n_embd / n_head, and a window over all
 * layers in the first version. */
static const fy_tensor_row mistral_rows[] = {
    ROW_TOKEN_EMBD, ROW_ROPE_FREQS, ROW_ATTN_NORM,   ROWS_ATTN(FY_X_PERMUTE_Q, FY_X_PERMUTE_K),
    ROW_FFN_NORM,   ROWS_FFN,       ROW_OUTPUT_NORM, ROW_OUTPUT,
};

#define MISTRAL_DEFAULTS \
    SIZES(32000, 131072, 4096, 32, 32, 14336), .n_head_kv = 8, .n_swa = 4096, RMS(1e-6F, 10000)

const fy_family fy_family_mistral = {
    .name = "mistral",
    .gguf_arch = "llama",
    CLASSES("MistralForCausalLM"),
    .defaults = {MISTRAL_DEFAULTS},
    .rope = FY_ROPE_NORM,
    ROWS(mistral_rows),
};

/* Ministral 3: YaRN whose magnitude mscale_all_dim takes back, and queries that grow with their
 * position. Its wrapper, Mistral3ForConditionalGeneration, also holds models of Mistral's class:
 * the model_type inside tells. */
static const fy_tensor_row plain_rows[] = {
    ROW_TOKEN_EMBD, ROW_ATTN_NORM, ROWS_ATTN(FY_X_PERMUTE_Q, FY_X_PERMUTE_K),
    ROW_FFN_NORM,   ROWS_FFN,      ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

const fy_family fy_family_ministral3 = {
    .name = "ministral3",
    .gguf_arch = "mistral3",
    CLASSES("Ministral3ForCausalLM"),
    .defaults = {SIZES(131072, 262144, 4096, 34, 32, 14336), .n_head_kv = 8, .head_dim = 128,
                 RMS(1e-5F, 1e6F)},
    .rope = FY_ROPE_NORM,
    ROWS(plain_rows),
    .rope_keys = STRINGS("llama_4_scaling_beta"),
    WINDOW_KEYS("sliding_window"), /* absent or null: none */
};

/* ERNIE 4.5 (dense): the checkpoint rotates neighbours already, nothing is permuted. */
static const fy_tensor_row ernie4_5_rows[] = {
    ROW_TOKEN_EMBD,  ROW_ATTN_NORM, ROWS_ATTN(FY_X_COPY, FY_X_COPY), ROW_FFN_NORM, ROWS_FFN,
    ROW_OUTPUT_NORM, ROW_OUTPUT,
};

static const fy_config_rule ernie4_5_rules[] = {
    {"use_bias", "false", NULL}, /* other readers know no place for them */
};

const fy_family fy_family_ernie4_5 = {
    .name = "ernie4_5",
    .gguf_arch = "ernie4_5",
    CLASSES("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"),
    .defaults = {SIZES(103424, 131072, 1024, 18, 16, 3072), .n_head_kv = 2, .head_dim = 128,
                 RMS(1e-5F, 500000)},
    .tied_default = true,
    .rope = FY_ROPE_NORM,
    ROWS(ernie4_5_rows),
    RULES(ernie4_5_rules),
};

/* InternLM 3: a flag for the biases of q, k, v and another for those of the rest. */
static const fy_tensor_row internlm3_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ROPE_FREQS,
    ROW_ATTN_NORM,
    ROWS_ATTN_QKV_BIAS(FY_X_PERMUTE_Q, FY_X_PERMUTE_K, "qkv_bias"),
    ROW_ATTN_OUT_B("bias"),
    ROW_FFN_NORM,
    ROWS_FFN_BIAS("bias"),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

const fy_family fy_family_internlm3 = {
    .name = "internlm3",
    .gguf_arch = "llama",
    CLASSES("InternLM3ForCausalLM"),
    .defaults = {SIZES(128512, 32768, 4096, 32, 32, 11008), .n_head_kv = 32, RMS(1e-6F, 10000)},
    .rope = FY_ROPE_NORM,
    ROWS(internlm3_rows),
};

/* ProSparse: Llama 2 whose gate passes values above a threshold only, under a class name of its
 * own when its config.json does not say LlamaForCausalLM. Another model with that name computes
 * sparse attention: the activation tells them apart. */
static const fy_config_rule prosparse_rules[] = {{"hidden_act", "\"fatrelu\"", "\"silu\""}};

const fy_family fy_family_prosparse = {
    .name = "sparsellama",
    .gguf_arch = "llama",
    CLASSES("SparseLlamaForCausalLM"),
    .defaults = {LLAMA_DEFAULTS},
    .rope = FY_ROPE_NORM,
    ROWS(plain_rows),
    RULES(prosparse_rules),
};

/* Bamboo: Mistral whose feed-forward network is relu(gate) * relu(up), which its config.json
 * calls "relu". The GGUF architecture is PowerInfer's; no other program would compute it as "llama"
 *. */
const fy_family fy_family_bamboo = {
    .name = "bamboo",
    .gguf_arch = "bamboo",
    CLASSES("BambooForCausalLM"),
    .defaults = {MISTRAL_DEFAULTS, .act = FY_ACT_DRELU},
    .rope = FY_ROPE_NORM,
    ROWS(plain_rows),
};

/* SmolLM3: every fourth layer does not rotate. The class has a window, over these layers, but
 * none by default. */
static const fy_tensor_row smollm3_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN_BIAS(FY_X_PERMUTE_Q, FY_X_PERMUTE_K, "attention_bias"),
    ROW_FFN_NORM,
    ROWS_FFN_BIAS("mlp_bias"),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

const fy_family fy_family_smollm3 = {
    .name = "smollm3",
    .gguf_arch = "smollm3",
    CLASSES("SmolLM3ForCausalLM"),
    .defaults = {SIZES(128256, 32768, 2048, 36, 16, 11008), .n_head_kv = 4, RMS(1e-6F, 2e6F)},
    .tied_default = true,
    .rope = FY_ROPE_NORM,
    .no_rope = {.period = 4},
    ROWS(smollm3_rows),
    .window_flag = "use_sliding_window",
    WINDOW_KEYS("sliding_window"),
};

/* Granite 3: multipliers for the embedding, the scores, what a block adds, and the logits,
 * which are divided. */
static const fy_config_rule granite_rules[] = {{"position_embedding_type", "\"rope\"", NULL}};

static const fy_config_key granite_keys[] = {GRANITE_KEYS};

const fy_family fy_family_granite = {
    .name = "granite",
    .gguf_arch = "granite",
    CLASSES("GraniteForCausalLM"),
    .defaults = {LLAMA_DEFAULTS},
    .rope = FY_ROPE_NORM,
    .rope_switch = true,
    ROWS(llama_rows),
    KEYS(granite_keys),
    RULES(granite_rules),
};

/* MiniCPM 1B, 2B and MiniCPM4: three scales. MiniCPM4 adds rotation factors (LongRoPE). */
static const fy_tensor_row minicpm_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ROPE_FREQS,
    ROWS_LONGROPE,
    ROW_ATTN_NORM,
    ROWS_ATTN_BIAS(FY_X_PERMUTE_Q, FY_X_PERMUTE_K, "attention_bias"),
    ROW_FFN_NORM,
    ROWS_FFN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_key minicpm_keys[] = {
    {"scale_emb", FIELD(embedding_scale), FY_OP_SET, 1, NULL},
    {"scale_depth", FIELD(residual_scale), FY_OP_OVER_SQRT_LAYERS, 1, NULL},
    {"dim_model_base", FIELD(logit_scale), FY_OP_EMBD_OVER, 1, NULL},
};

const fy_family fy_family_minicpm = {
    .name = "minicpm",
    .gguf_arch = "minicpm",
    CLASSES("MiniCPMForCausalLM"),
    .defaults = {LLAMA_DEFAULTS},
    .tied_default = true,
    .rope = FY_ROPE_NORM,
    ROWS(minicpm_rows),
    KEYS(minicpm_keys),
};

/* MiniCPM3: latent attention, whose inner norms have an epsilon of their own, and the scales of
 * MiniCPM, which llama.cpp has as constants. Halves of the rotated elements rotate. */
#define LATENT(slot, gguf, hf, rows, cols) COPY(slot, "blk.%u." gguf, H_ATTN hf, rows, cols)
#define LATENT_NORM(slot, gguf, hf, dim)   VECTOR(slot, "blk.%u." gguf, H_ATTN hf, dim, FY_X_COPY)

static const fy_tensor_row minicpm3_rows[] = {
    ROW_TOKEN_EMBD,
    ROWS_LONGROPE,
    ROW_ATTN_NORM,
    LATENT(FY_T_ATTN_Q_DOWN, "attn_q_a", "q_a_proj", FY_D_Q_RANK, FY_D_EMBD),
    LATENT_NORM(FY_T_ATTN_Q_LATENT_NORM, "attn_q_a_norm", "q_a_layernorm", FY_D_Q_RANK),
    LATENT(FY_T_ATTN_Q_UP, "attn_q_b", "q_b_proj", FY_D_Q, FY_D_Q_RANK),
    LATENT(FY_T_ATTN_KV_DOWN, "attn_kv_a_mqa", "kv_a_proj_with_mqa", FY_D_KV_A, FY_D_EMBD),
    LATENT_NORM(FY_T_ATTN_KV_LATENT_NORM, "attn_kv_a_norm", "kv_a_layernorm", FY_D_KV_RANK),
    LATENT(FY_T_ATTN_KV_UP, "attn_kv_b", "kv_b_proj", FY_D_KV_B, FY_D_KV_RANK),
    ROW_ATTN_OUT,
    ROW_FFN_NORM,
    ROWS_FFN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_key minicpm3_keys[] = {
    {"qk_nope_head_dim", FIELD(head_dim), FY_OP_SET, 64, NULL},
    {"qk_rope_head_dim", FIELD(n_rot), FY_OP_SET, 32, NULL},
    {"qk_rope_head_dim", FIELD(head_dim), FY_OP_ADD, 32, NULL},
    {"v_head_dim", FIELD(head_dim_v), FY_OP_SET, 0, NULL},
    {"scale_emb", FIELD(embedding_scale), FY_OP_SET, 12, NULL},
    {"scale_depth", FIELD(residual_scale), FY_OP_OVER_SQRT_LAYERS, 1.4, NULL},
    {"dim_model_base", FIELD(logit_scale), FY_OP_EMBD_OVER, 256, NULL},
};

static const fy_config_rule minicpm3_rules[] = {
    {"attention_bias", "false", NULL}, {"mlp_bias", "false", NULL},     {"scale_emb", "12", NULL},
    {"scale_depth", "1.4", NULL},      {"dim_model_base", "256", NULL},
};

const fy_family fy_family_minicpm3 = {
    .name = "minicpm3",
    .gguf_arch = "minicpm3",
    CLASSES("MiniCPM3ForCausalLM"),
    .defaults = {SIZES(73448, 32768, 2560, 62, 40, 6400), .n_head_kv = 40, .head_dim = 96,
                 .n_rot = 32, .q_lora_rank = 768, .kv_lora_rank = 256, .latent_eps = 1e-6F,
                 RMS(1e-5F, 10000), .rope_scaling = FY_ROPE_SCALING_LONGROPE,
                 .embedding_scale = 12},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .depth_scale = 1.4F,
    .base_width = 256,
    ROWS(minicpm3_rows),
    KEYS(minicpm3_keys),
    RULES(minicpm3_rules),
};

/* Baichuan 7B of the first generation: q, k, v in one tensor, no grouped heads. The later ones
 * spell their class "Baichuan": 13B has ALiBi instead of rotation, Baichuan 2 an output matrix
 * whose rows are normed at run time. */
#define W_PACK HF_LAYER "self_attn.W_pack"

static const fy_tensor_row baichuan_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    MATRIX_OF(FY_T_ATTN_Q, G_ATTN_Q, W_PACK, FY_D_Q, FY_X_PACK_Q, FY_D_QKV),
    MATRIX_OF(FY_T_ATTN_K, G_ATTN_K, W_PACK, FY_D_K, FY_X_PACK_K, FY_D_QKV),
    MATRIX_OF(FY_T_ATTN_V, G_ATTN_V, W_PACK, FY_D_V, FY_X_PACK_V, FY_D_QKV),
    ROW_ATTN_OUT,
    ROW_FFN_NORM,
    ROWS_FFN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

const fy_family fy_family_baichuan = {
    .name = "baichuan",
    .gguf_arch = "baichuan",
    CLASSES("BaiChuanForCausalLM"),
    .defaults = {SIZES(64000, 4096, 4096, 32, 32, 11008), RMS(1e-6F, 10000)},
    .rope = FY_ROPE_NORM,
    .alibi_layers = 40,
    ROWS(baichuan_rows),
};

/* InternLM 2 and 2.5: names of its own, and q, k, v of each group of heads in one tensor, whose
 * rows of q and k are permuted on top of being taken apart. */
#define WQKV HF_LAYER "attention.wqkv"
#define WQKV_BIAS(slot, gguf, dim, transform)                                \
    {                                                                        \
        slot, gguf ".bias", WQKV ".bias", {dim}, transform, FY_ROW_OPTIONAL, \
            .required_by = "bias", .hf_dims = {                              \
                FY_D_QKV                                                     \
            }                                                                \
    }

static const fy_tensor_row internlm2_rows[] = {
    TOKEN_EMBD("model.tok_embeddings"),
    NORM(FY_T_ATTN_NORM, G_ATTN_NORM, "attention_norm"),
    MATRIX_OF(FY_T_ATTN_Q, G_ATTN_Q, WQKV, FY_D_Q, FY_X_GROUP_Q, FY_D_QKV),
    WQKV_BIAS(FY_T_ATTN_Q_B, G_ATTN_Q, FY_D_Q, FY_X_GROUP_Q),
    MATRIX_OF(FY_T_ATTN_K, G_ATTN_K, WQKV, FY_D_K, FY_X_GROUP_K, FY_D_QKV),
    WQKV_BIAS(FY_T_ATTN_K_B, G_ATTN_K, FY_D_K, FY_X_GROUP_K),
    MATRIX_OF(FY_T_ATTN_V, G_ATTN_V, WQKV, FY_D_V, FY_X_GROUP_V, FY_D_QKV),
    WQKV_BIAS(FY_T_ATTN_V_B, G_ATTN_V, FY_D_V, FY_X_GROUP_V),
    MATRIX_AND_BIAS(FY_T_ATTN_OUT, G_ATTN_OUT, HF_LAYER "attention.wo", FY_D_EMBD, FY_D_QV,
                    FY_X_COPY, "bias"),
    NORM(FY_T_FFN_NORM, G_FFN_NORM, "ffn_norm"),
    COPY(FY_T_FFN_GATE, G_FFN_GATE, HF_LAYER "feed_forward.w1", FY_D_FF, FY_D_EMBD),
    COPY(FY_T_FFN_UP, G_FFN_UP, HF_LAYER "feed_forward.w3", FY_D_FF, FY_D_EMBD),
    COPY(FY_T_FFN_DOWN, G_FFN_DOWN, HF_LAYER "feed_forward.w2", FY_D_EMBD, FY_D_FF),
    ROW_OUTPUT_NORM,
    OUTPUT_MATRIX("output"),
};

const fy_family fy_family_internlm2 = {
    .name = "internlm2",
    .gguf_arch = "internlm2",
    CLASSES("InternLM2ForCausalLM"),
    .defaults = {SIZES(103168, 2048, 4096, 32, 32, 11008), RMS(1e-6F, 10000)},
    .rope = FY_ROPE_NORM,
    ROWS(internlm2_rows),
    FLAGS_ON("bias"),
};

/* Qwen 1.5, 2, 2.5, QwQ, DeepSeek-R1-Distill-Qwen: q, k and v with bias, halves rotate, nothing
 * is permuted. */
static const fy_tensor_row qwen2_rows[] = {
    ROW_TOKEN_EMBD, ROW_ATTN_NORM, ROWS_ATTN_QKV_BIAS(FY_X_COPY, FY_X_COPY, NULL),
    ROW_FFN_NORM,   ROWS_FFN,      ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

#define QWEN_DEFAULTS \
    SIZES(151936, 32768, 4096, 32, 32, 22016), .n_head_kv = 32, .n_swa = 4096, RMS(1e-6F, 10000)

const fy_family fy_family_qwen2 = {
    .name = "qwen2",
    .gguf_arch = "qwen2",
    CLASSES("Qwen2ForCausalLM"),
    .defaults = {QWEN_DEFAULTS},
    .rope = FY_ROPE_NEOX,
    ROWS(qwen2_rows),
    .window_flag = "use_sliding_window",
};

/* Qwen3 (dense): RMS norm over each head of q and k before rotation, head_dim always explicit
 *. */
static const fy_tensor_row qwen3_rows[] = {
    ROW_TOKEN_EMBD,  ROW_ATTN_NORM, ROWS_ATTN_NORMED(FY_D_HEAD, FY_D_HEAD), ROW_FFN_NORM, ROWS_FFN,
    ROW_OUTPUT_NORM, ROW_OUTPUT,
};

const fy_family fy_family_qwen3 = {
    .name = "qwen3",
    .gguf_arch = "qwen3",
    CLASSES("Qwen3ForCausalLM"),
    .defaults = {QWEN_DEFAULTS, .head_dim = 128},
    .rope = FY_ROPE_NEOX,
    ROWS(qwen3_rows),
    .window_flag = "use_sliding_window",
};

/* Hunyuan dense: q and k are rotated, then normed. theta grows once by alpha, which config.json
 * calls "dynamic" scaling. */
static const fy_tensor_row hunyuan_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN_BIAS(FY_X_COPY, FY_X_COPY, "attention_bias"),
    VECTOR(FY_T_ATTN_Q_NORM, "blk.%u.attn_q_norm", H_ATTN "query_layernorm", FY_D_HEAD, FY_X_COPY),
    VECTOR(FY_T_ATTN_K_NORM, "blk.%u.attn_k_norm", H_ATTN "key_layernorm", FY_D_HEAD, FY_X_COPY),
    ROW_FFN_NORM,
    ROWS_FFN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_rule hunyuan_rules[] = {
    {"use_qk_norm", "true", NULL},
    {"use_cla", "false", NULL}, /* layers that share keys and values */
};

const fy_family fy_family_hunyuan = {
    .name = "hunyuan_v1_dense",
    .gguf_arch = "hunyuan-dense",
    CLASSES("HunYuanDenseV1ForCausalLM"),
    .defaults = {SIZES(290943, 2048, 4096, 32, 32, 11008), RMS(1e-5F, 10000)},
    .rope = FY_ROPE_NEOX,
    .norm_rotated = true,
    .rope_keys = STRINGS("alpha"),
    ROWS(hunyuan_rows),
    RULES(hunyuan_rules),
};

/* OLMo 2: attention and feed-forward read the residual stream itself, and what they add to it
 * is normed; RMS norms over the whole of q and of k. */
static const fy_tensor_row olmo2_rows[] = {
    ROW_TOKEN_EMBD,
    ROWS_ATTN_NORMED(FY_D_Q, FY_D_K),
    ROW_ATTN_POST_NORM("post_attention_layernorm"),
    ROWS_FFN,
    ROW_FFN_POST_NORM("post_feedforward_layernorm"),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

const fy_family fy_family_olmo2 = {
    .name = "olmo2",
    .gguf_arch = "olmo2",
    CLASSES("Olmo2ForCausalLM"),
    .defaults = {SIZES(50304, 2048, 4096, 32, 32, 11008), RMS(1e-5F, 10000)},
    .rope = FY_ROPE_NEOX,
    .swa_unscaled = true,
    .lists_swa_layers = true,
    ROWS(olmo2_rows),
};

/* OLMo 3: windows in three of four layers, and YaRN in the others alone. */
const fy_family fy_family_olmo3 = {
    .name = "olmo3",
    .gguf_arch = "olmo2",
    CLASSES("Olmo3ForCausalLM"),
    .defaults = {SIZES(50304, 2048, 4096, 32, 32, 11008), .n_swa = 4096, RMS(1e-5F, 500000)},
    .rope = FY_ROPE_NEOX,
    .full_attention = {.period = 4},
    .swa_unscaled = true,
    ROWS(olmo2_rows),
};

/* EXAONE 4: OLMo 2's order with norms of each head. With a window (32B) only the layers that have
 * it rotate. */
static const fy_tensor_row exaone4_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ROPE_FREQS,
    ROWS_ATTN_NORMED(FY_D_HEAD, FY_D_HEAD),
    ROW_ATTN_POST_NORM("post_attention_layernorm"),
    ROWS_FFN,
    ROW_FFN_POST_NORM("post_feedforward_layernorm"),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

const fy_family fy_family_exaone4 = {
    .name = "exaone4",
    .gguf_arch = "exaone4",
    CLASSES("Exaone4ForCausalLM"),
    .defaults = {SIZES(102400, 2048, 4096, 32, 32, 16384), .n_head_kv = 32, .n_swa = 4096,
                 RMS(1e-5F, 10000)},
    .rope = FY_ROPE_NEOX,
    .full_attention = {.period = 4},
    .nope_is_full = true,
    ROWS(exaone4_rows),
};

/* Phi-3, Phi-3.5, Phi-4 and Phi-4-mini: q, k and v in one matrix, gate and up in another,
 * LongRoPE with two sets of factors. GGUF keeps both matrices whole. */
static const fy_tensor_row phi3_rows[] = {
    ROW_TOKEN_EMBD,   ROWS_LONGROPE,
    ROW_ATTN_NORM,    COPY(FY_T_ATTN_QKV, G_ATTN_QKV, H_ATTN "qkv_proj", FY_D_QKV, FY_D_EMBD),
    ROW_ATTN_OUT,     ROW_FFN_NORM,
    ROWS_FFN_GATE_UP, ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const fy_config_rule phi3_rules[] = {
    {"attention_bias", "false", NULL},
    {"mlp_bias", "false", NULL},
};

const fy_family fy_family_phi3 = {
    .name = "phi3",
    .gguf_arch = "phi3",
    CLASSES("Phi3ForCausalLM"),
    .defaults = {SIZES(32064, 4096, 3072, 32, 32, 8192), RMS(1e-5F, 10000)},
    .rope = FY_ROPE_NEOX,
    .rot_part = 1, /* less in Phi-4-mini */
    ROWS(phi3_rows),
    WINDOW_KEYS("sliding_window"), /* absent or null: none */
    RULES(phi3_rules),
};

/* ChatGLM2, ChatGLM3, GLM-4-9b-chat, ...: q, k and v in one matrix, gate and up in another;
 * names and config keys of their own; theta is given as its ratio to 10000. Neighbours rotate in
 * the checkpoint, too, in the first half of each head. Reads the files of GlmForCausalLM, whose q,
 * k and v are apart. */
#define GLM_LAYER "transformer.encoder.layers.%u."

/* What this class never has, but the files it reads. */
#define GLM_MATRIX_AND_BIAS(slot, gguf, rows)                                     \
    {slot,      gguf ".weight",                                                   \
     NULL,      {rows, FY_D_EMBD},                                                \
     FY_X_COPY, .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL},                        \
    {                                                                             \
        slot##_B, gguf ".bias", NULL, {rows}, FY_X_COPY, .flags = FY_ROW_OPTIONAL \
    }

static const fy_tensor_row chatglm_rows[] = {
    TOKEN_EMBD("transformer.embedding.word_embeddings"),
    VECTOR(FY_T_ATTN_NORM, G_ATTN_NORM, GLM_LAYER "input_layernorm", FY_D_EMBD, FY_X_COPY),
    /* optional for the sake of those files; its own class always has it: see the rules */
    {FY_T_ATTN_QKV,
     G_ATTN_QKV ".weight",
     GLM_LAYER "self_attention.query_key_value.weight",
     {FY_D_QKV, FY_D_EMBD},
     FY_X_COPY,
     FY_ROW_MATRIX | FY_ROW_OPTIONAL,
     .required_by = "multi_query_attention"},
    BIAS(FY_T_ATTN_QKV_B, G_ATTN_QKV, GLM_LAYER "self_attention.query_key_value", FY_D_QKV,
         FY_X_COPY, "add_qkv_bias"),
    GLM_MATRIX_AND_BIAS(FY_T_ATTN_Q, G_ATTN_Q, FY_D_Q),
    GLM_MATRIX_AND_BIAS(FY_T_ATTN_K, G_ATTN_K, FY_D_K),
    GLM_MATRIX_AND_BIAS(FY_T_ATTN_V, G_ATTN_V, FY_D_V),
    COPY(FY_T_ATTN_OUT, G_ATTN_OUT, GLM_LAYER "self_attention.dense", FY_D_EMBD, FY_D_QV),
    VECTOR(FY_T_FFN_NORM, G_FFN_NORM, GLM_LAYER "post_attention_layernorm", FY_D_EMBD, FY_X_COPY),
    COPY(FY_T_FFN_GATE_UP, G_FFN_UP, GLM_LAYER "mlp.dense_h_to_4h", FY_D_FF_2, FY_D_EMBD),
    COPY(FY_T_FFN_DOWN, G_FFN_DOWN, GLM_LAYER "mlp.dense_4h_to_h", FY_D_EMBD, FY_D_FF),
    VECTOR(FY_T_OUTPUT_NORM, "output_norm", "transformer.encoder.final_layernorm", FY_D_EMBD,
           FY_X_COPY),
    OUTPUT_MATRIX("transformer.output_layer"),
};

static const fy_config_key chatglm_keys[] = {
    {"multi_query_group_num", FIELD(n_head_kv), FY_OP_SET, 1, NULL},
    {"rope_ratio", FIELD(rope_theta), FY_OP_TIMES_10000, 1, NULL},
};

static const fy_config_rule chatglm_rules[] = {
    {"multi_query_attention", "true", "false"}, /* without it q, k and v alternate by head */
    {"add_bias_linear", "false", NULL},
    {"apply_residual_connection_post_layernorm", "false", NULL},
    {"post_layer_norm", "true", NULL},
    {"rmsnorm", "true", NULL},
    {"pre_seq_len", "null", NULL}, /* a prefix encoder */
};

const fy_family fy_family_chatglm = {
    .name = "chatglm",
    .gguf_arch = "chatglm",
    CLASSES("ChatGLMModel", "ChatGLMForConditionalGeneration"),
    .defaults = {SIZES(65024, 2048, 4096, 28, 32, 13696), .head_dim = 128, RMS(1e-5F, 10000)},
    .rope = FY_ROPE_NORM,
    .rot_part = 0.5F,
    ROWS(chatglm_rows),
    KEYS(chatglm_keys),
    RULES(chatglm_rules),
};

/* GLM-4-9b as transformers ships it. */
static const fy_tensor_row glm_rows[] = {
    ROW_TOKEN_EMBD, ROW_ATTN_NORM,    ROWS_ATTN_QKV_BIAS(FY_X_COPY, FY_X_COPY, "attention_bias"),
    ROW_FFN_NORM,   ROWS_FFN_GATE_UP, ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

#define GLM_DEFAULTS                                                             \
    SIZES(151552, 131072, 4096, 40, 32, 13696), .n_head_kv = 2, .head_dim = 128, \
                                                RMS(1.5625e-7F, 10000)

const fy_family fy_family_glm = {
    .name = "glm",
    .gguf_arch = "chatglm",
    CLASSES("GlmForCausalLM"),
    .defaults = {GLM_DEFAULTS},
    .rope = FY_ROPE_NORM,
    .rot_part = 0.5F,
    ROWS(glm_rows),
    FLAGS_ON("attention_bias"),
};

/* GLM-4-0414 and GLM-Z1: norms after attention and feed-forward, too. Beware of the names: the
 * checkpoint's post_attention_layernorm stands before the feed-forward. */
static const fy_tensor_row glm4_rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROWS_ATTN_QKV_BIAS(FY_X_COPY, FY_X_COPY, "attention_bias"),
    ROW_ATTN_POST_NORM("post_self_attn_layernorm"),
    ROW_FFN_NORM,
    ROWS_FFN_GATE_UP,
    ROW_FFN_POST_NORM("post_mlp_layernorm"),
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

const fy_family fy_family_glm4 = {
    .name = "glm4",
    .gguf_arch = "glm4",
    CLASSES("Glm4ForCausalLM"),
    .defaults = {GLM_DEFAULTS},
    .rope = FY_ROPE_NORM,
    .rot_part = 0.5F,
    ROWS(glm4_rows),
    FLAGS_ON("attention_bias"),
};
