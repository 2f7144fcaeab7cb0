/* GPT-2 and what came from it: layer norms (mean and variance) with a bias, most weights with one,
 * often a plain feed-forward network, often both branches in parallel. They agree on shapes but not
 * on names. */
#include "arch/tensor_rows.h"

/* GPT-2: learned positions, weights stored as [in, out]. */
#define GPT2_LAYER "transformer.h.%u."

static const fy_tensor_row gpt2_rows[] = {
    TOKEN_EMBD("transformer.wte"),
    POSITION_EMBD("transformer.wpe", FY_X_COPY, FY_D_CTX),
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, GPT2_LAYER "ln_1"),
    CONV1D_AND_BIAS(FY_T_ATTN_QKV, G_ATTN_QKV, GPT2_LAYER "attn.c_attn", FY_D_QKV, FY_D_EMBD),
    CONV1D_AND_BIAS(FY_T_ATTN_OUT, G_ATTN_OUT, GPT2_LAYER "attn.c_proj", FY_D_EMBD, FY_D_QV),
    NORM_AND_BIAS(FY_T_FFN_NORM, G_FFN_NORM, GPT2_LAYER "ln_2"),
    CONV1D_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, GPT2_LAYER "mlp.c_fc", FY_D_FF, FY_D_EMBD),
    CONV1D_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, GPT2_LAYER "mlp.c_proj", FY_D_EMBD, FY_D_FF),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "transformer.ln_f"),
    ROW_OUTPUT,
};

static const fy_config_rule gpt2_rules[] = {
    {"scale_attn_weights", "true", NULL},
    {"scale_attn_by_inverse_layer_idx", "false", NULL},
    {"add_cross_attention", "false", NULL},
};

const fy_family fy_family_gpt2 = {
    .name = "gpt2",
    .gguf_arch = "gpt2",
    CLASSES("GPT2LMHeadModel"),
    .defaults = {SIZES(50257, 1024, 768, 12, 12, 0), .norm_eps = 1e-5F, .act = FY_ACT_GELU_TANH},
    .tied_default = true,
    .rope = FY_ROPE_NO,
    .layer_norm = true,
    ROWS(gpt2_rows),
    RULES(gpt2_rules),
};

/* OPT: learned positions, whose first two rows stand for padding and are cut off; ReLU.
 * llama.cpp has no such architecture; names and keys are PowerInfer's. */
#define OPT_MODEL "model.decoder."
#define OPT_LAYER OPT_MODEL "layers.%u."

static const fy_tensor_row opt_rows[] = {
    TOKEN_EMBD(OPT_MODEL "embed_tokens"),
    POSITION_EMBD(OPT_MODEL "embed_positions", FY_X_SKIP_2, FY_D_CTX_OPT),
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, OPT_LAYER "self_attn_layer_norm"),
    COPY_AND_BIAS(FY_T_ATTN_Q, G_ATTN_Q, OPT_LAYER "self_attn.q_proj", FY_D_Q, FY_D_EMBD),
    COPY_AND_BIAS(FY_T_ATTN_K, G_ATTN_K, OPT_LAYER "self_attn.k_proj", FY_D_K, FY_D_EMBD),
    COPY_AND_BIAS(FY_T_ATTN_V, G_ATTN_V, OPT_LAYER "self_attn.v_proj", FY_D_V, FY_D_EMBD),
    COPY_AND_BIAS(FY_T_ATTN_OUT, G_ATTN_OUT, OPT_LAYER "self_attn.out_proj", FY_D_EMBD, FY_D_QV),
    NORM_AND_BIAS(FY_T_FFN_NORM, G_FFN_NORM, OPT_LAYER "final_layer_norm"),
    COPY_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, OPT_LAYER "fc1", FY_D_FF, FY_D_EMBD),
    COPY_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, OPT_LAYER "fc2", FY_D_EMBD, FY_D_FF),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", OPT_MODEL "final_layer_norm"),
    ROW_OUTPUT,
};

static const fy_config_rule opt_rules[] = {
    {"do_layer_norm_before", "true", NULL},
    {"enable_bias", "true", NULL},
    {"layer_norm_elementwise_affine", "true", NULL},
    {"_remove_final_layer_norm", "false", NULL},
};

const fy_family fy_family_opt = {
    .name = "opt",
    .gguf_arch = "opt",
    CLASSES("OPTForCausalLM"),
    .defaults = {SIZES(50272, 2048, 768, 12, 12, 3072), .norm_eps = 1e-5F /* no key has it */,
                 .act = FY_ACT_RELU},
    .tied_default = true,
    .rope = FY_ROPE_NO,
    .layer_norm = true,
    ROWS(opt_rows),
    RULES(opt_rules),
};

/* GPT-NeoX, Pythia, ...: q, k and v of each head one below the other in one matrix, a quarter
 * of each head rotates, the two branches usually in parallel, each with a norm of its own. */
#define NEOX_LAYER "gpt_neox.layers.%u."

static const fy_tensor_row gptneox_rows[] = {
    TOKEN_EMBD("gpt_neox.embed_in"),
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, NEOX_LAYER "input_layernorm"),
    MATRIX_AND_BIAS(FY_T_ATTN_QKV, G_ATTN_QKV, NEOX_LAYER "attention.query_key_value", FY_D_QKV,
                    FY_D_EMBD, FY_X_GROUP_QKV, "attention_bias"),
    MATRIX_AND_BIAS(FY_T_ATTN_OUT, G_ATTN_OUT, NEOX_LAYER "attention.dense", FY_D_EMBD, FY_D_QV,
                    FY_X_COPY, "attention_bias"),
    NORM_AND_BIAS(FY_T_FFN_NORM, G_FFN_NORM, NEOX_LAYER "post_attention_layernorm"),
    COPY_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, NEOX_LAYER "mlp.dense_h_to_4h", FY_D_FF, FY_D_EMBD),
    COPY_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, NEOX_LAYER "mlp.dense_4h_to_h", FY_D_EMBD, FY_D_FF),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "gpt_neox.final_layer_norm"),
    OUTPUT_MATRIX("embed_out"),
};

const fy_family fy_family_gptneox = {
    .name = "gpt_neox",
    .gguf_arch = "gptneox",
    CLASSES("GPTNeoXForCausalLM"),
    .defaults = {SIZES(50432, 2048, 6144, 44, 64, 24576), .norm_eps = 1e-5F, .rope_theta = 10000,
                 .act = FY_ACT_GELU, .parallel = true},
    .rope = FY_ROPE_NEOX,
    .rot_part = 0.25F,
    .layer_norm = true,
    ROWS(gptneox_rows),
    FLAGS_ON("attention_bias"),
};

/* Phi 1, 1.5 and 2: attention and feed-forward read the same norm, biases everywhere, the
 * output's included; half of each head rotates. */
static const fy_tensor_row phi2_rows[] = {
    ROW_TOKEN_EMBD,
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, HF_LAYER "input_layernorm"),
    ROWS_ATTN_Q(FY_X_COPY, NULL),
    ROWS_ATTN_K(FY_X_COPY, NULL),
    ROWS_ATTN_V(NULL),
    COPY_AND_BIAS(FY_T_ATTN_OUT, G_ATTN_OUT, H_ATTN "dense", FY_D_EMBD, FY_D_QV),
    COPY_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, H_MLP "fc1", FY_D_FF, FY_D_EMBD),
    COPY_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, H_MLP "fc2", FY_D_EMBD, FY_D_FF),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "model.final_layernorm"),
    COPY_AND_BIAS(FY_T_OUTPUT, "output", "lm_head", FY_D_VOCAB, FY_D_EMBD),
};

static const fy_config_rule phi2_rules[] = {{"qk_layernorm", "false", NULL}};

const fy_family fy_family_phi2 = {
    .name = "phi",
    .gguf_arch = "phi2",
    CLASSES("PhiForCausalLM"),
    .defaults = {SIZES(51200, 2048, 2048, 24, 32, 8192), .norm_eps = 1e-5F, .rope_theta = 10000,
                 .act = FY_ACT_GELU_TANH, .parallel = true},
    .rope = FY_ROPE_NEOX,
    .rot_part = 0.5F,
    .layer_norm = true,
    ROWS(phi2_rows),
    RULES(phi2_rules),
};

/* CodeGen and CodeGen2: GPT-J with q, v and k in one matrix, by groups. The graph is Phi-2's,
 * so it is written in that architecture: rotated rows go from neighbours to halves, and the biases
 * that readers of it want are zeros. */
#define CODEGEN_QVK(slot, gguf, rows, transform)                                  \
    MATRIX_OF(slot, gguf, GPT2_LAYER "attn.qkv_proj", rows, transform, FY_D_QKV), \
        ZERO_BIAS(slot##_B, gguf, rows)
#define ZERO_BIAS(slot, gguf, dim)                              \
    {                                                           \
        slot, gguf ".bias", NULL, {dim}, FY_X_ZEROS, .flags = 0 \
    }

static const fy_tensor_row codegen_rows[] = {
    TOKEN_EMBD("transformer.wte"),
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, GPT2_LAYER "ln_1"),
    CODEGEN_QVK(FY_T_ATTN_Q, G_ATTN_Q, FY_D_Q, FY_X_CODEGEN_Q),
    CODEGEN_QVK(FY_T_ATTN_K, G_ATTN_K, FY_D_K, FY_X_CODEGEN_K),
    CODEGEN_QVK(FY_T_ATTN_V, G_ATTN_V, FY_D_V, FY_X_CODEGEN_V),
    COPY(FY_T_ATTN_OUT, G_ATTN_OUT, GPT2_LAYER "attn.out_proj", FY_D_EMBD, FY_D_QV),
    ZERO_BIAS(FY_T_ATTN_OUT_B, G_ATTN_OUT, FY_D_EMBD),
    COPY_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, GPT2_LAYER "mlp.fc_in", FY_D_FF, FY_D_EMBD),
    COPY_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, GPT2_LAYER "mlp.fc_out", FY_D_EMBD, FY_D_FF),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "transformer.ln_f"),
    COPY_AND_BIAS(FY_T_OUTPUT, "output", "lm_head", FY_D_VOCAB, FY_D_EMBD),
};

static const fy_config_key codegen_keys[] = {
    {"rotary_dim", FIELD(n_rot), FY_OP_SET, 0, NULL},
    {"head_dim", FIELD(n_qkv_groups), FY_OP_CODEGEN_GROUPS, 0, NULL},
};

const fy_family fy_family_codegen = {
    .name = "codegen",
    .gguf_arch = "phi2",
    CLASSES("CodeGenForCausalLM"),
    .defaults = {SIZES(50400, 2048, 4096, 28, 16, 0), .n_rot = 64, .norm_eps = 1e-5F,
                 .rope_theta = 10000, .act = FY_ACT_GELU_TANH, .parallel = true, .n_qkv_groups = 4},
    .rope = FY_ROPE_NEOX,
    .layer_norm = true,
    ROWS(codegen_rows),
    KEYS(codegen_keys),
    .drop = STRINGS(".attn.causal_mask"),
};

/* Falcon 7B, 40B, 180B and 11B: attention and feed-forward in parallel, no bias but the norms',
 * and one matrix of q, k and v by groups of q heads. 40B and 180B give each branch its own norm:
 * attn_norm is then the feed-forward's. */
#define FALCON_NORM(slot, gguf, hf, more)                                                    \
    {                                                                                        \
        slot, gguf ".weight", GPT2_LAYER hf ".weight", {FY_D_EMBD}, FY_X_COPY, .flags = more \
    }
#define FALCON_NORM_B(slot, gguf, hf, more)                                              \
    {                                                                                    \
        slot, gguf ".bias", GPT2_LAYER hf ".bias", {FY_D_EMBD}, FY_X_COPY, .flags = more \
    }

static const fy_tensor_row falcon_rows[] = {
    TOKEN_EMBD("transformer.word_embeddings"),
    FALCON_NORM(FY_T_ATTN_NORM, G_ATTN_NORM, "input_layernorm", 0),
    FALCON_NORM(FY_T_ATTN_NORM, G_ATTN_NORM, "ln_mlp", FY_ROW_ALT),
    FALCON_NORM_B(FY_T_ATTN_NORM_B, G_ATTN_NORM, "input_layernorm", 0),
    FALCON_NORM_B(FY_T_ATTN_NORM_B, G_ATTN_NORM, "ln_mlp", FY_ROW_ALT),
    FALCON_NORM(FY_T_ATTN_NORM_2, "blk.%u.attn_norm_2", "ln_attn", FY_ROW_OPTIONAL),
    FALCON_NORM_B(FY_T_ATTN_NORM_2_B, "blk.%u.attn_norm_2", "ln_attn", FY_ROW_OPTIONAL),
    MATRIX(FY_T_ATTN_QKV, G_ATTN_QKV, GPT2_LAYER "self_attention.query_key_value", FY_D_QKV,
           FY_D_EMBD, FY_X_GROUP_QKV),
    COPY(FY_T_ATTN_OUT, G_ATTN_OUT, GPT2_LAYER "self_attention.dense", FY_D_EMBD, FY_D_QV),
    COPY(FY_T_FFN_UP, G_FFN_UP, GPT2_LAYER "mlp.dense_h_to_4h", FY_D_FF, FY_D_EMBD),
    COPY(FY_T_FFN_DOWN, G_FFN_DOWN, GPT2_LAYER "mlp.dense_4h_to_h", FY_D_EMBD, FY_D_FF),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "transformer.ln_f"),
    ROW_OUTPUT,
};

/* Configs of the old architecture have num_kv_heads, too, but it means nothing there. */
static const fy_config_key falcon_keys[] = {
    {"multi_query", FIELD(n_head_kv), FY_OP_ONE_IF_TRUE, 1, NULL},
    {"n_head_kv", FIELD(n_head_kv), FY_OP_SET, 0, NULL},
    {"num_kv_heads", FIELD(n_head_kv), FY_OP_SET, 0, "new_decoder_architecture"},
};

static const fy_config_rule falcon_rules[] = {
    {"alibi", "false", NULL},
    {"bias", "false", NULL},
    {"parallel_attn", "true", NULL},
};

const fy_family fy_family_falcon = {
    .name = "falcon",
    .gguf_arch = "falcon",
    CLASSES("FalconForCausalLM", "RWForCausalLM"),
    .defaults = {SIZES(65024, 2048, 4544, 32, 71, 0), .norm_eps = 1e-5F, .rope_theta = 10000,
                 .act = FY_ACT_GELU, .parallel = true},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .layer_norm = true,
    ROWS(falcon_rows),
    KEYS(falcon_keys),
    RULES(falcon_rules),
};

/* StableLM 3B and StableLM 2 1.6B: Llama with layer norms, a quarter of each head rotating, and
 * biases of q, k and v in the second. The 12B, parallel and with norms of q and k, is refused. */
static const fy_tensor_row stablelm_rows[] = {
    ROW_TOKEN_EMBD,
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, HF_LAYER "input_layernorm"),
    ROWS_ATTN_QKV_BIAS(FY_X_COPY, FY_X_COPY, "use_qkv_bias"),
    NORM_AND_BIAS(FY_T_FFN_NORM, G_FFN_NORM, HF_LAYER "post_attention_layernorm"),
    ROWS_FFN,
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "model.norm"),
    ROW_OUTPUT,
};

static const fy_config_rule stablelm_rules[] = {
    {"qk_layernorm", "false", NULL},
    {"use_parallel_residual", "false", NULL},
};

const fy_family fy_family_stablelm = {
    .name = "stablelm",
    .gguf_arch = "stablelm",
    CLASSES("StableLmForCausalLM"),
    .defaults = {SIZES(50304, 4096, 2560, 32, 32, 6912), .norm_eps = 1e-5F, .rope_theta = 10000},
    .rope = FY_ROPE_NEOX,
    .rot_part = 0.25F,
    .layer_norm = true,
    ROWS(stablelm_rows),
    RULES(stablelm_rules),
};

/* StarCoder2: biases, a plain feed-forward with tanh GELU, grouped-query attention, in the
 * larger ones a window over all layers. */
static const fy_tensor_row starcoder2_rows[] = {
    ROW_TOKEN_EMBD,
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, HF_LAYER "input_layernorm"),
    ROWS_ATTN_BIAS(FY_X_COPY, FY_X_COPY, "use_bias"),
    NORM_AND_BIAS(FY_T_FFN_NORM, G_FFN_NORM, HF_LAYER "post_attention_layernorm"),
    MATRIX_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, H_MLP "c_fc", FY_D_FF, FY_D_EMBD, FY_X_COPY, "use_bias"),
    MATRIX_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, H_MLP "c_proj", FY_D_EMBD, FY_D_FF, FY_X_COPY,
                    "use_bias"),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "model.norm"),
    ROW_OUTPUT,
};

const fy_family fy_family_starcoder2 = {
    .name = "starcoder2",
    .gguf_arch = "starcoder2",
    CLASSES("Starcoder2ForCausalLM"),
    .defaults = {SIZES(49152, 4096, 3072, 30, 24, 12288), .n_head_kv = 2, .norm_eps = 1e-5F,
                 .rope_theta = 10000, .act = FY_ACT_GELU_TANH},
    .tied_default = true,
    .rope = FY_ROPE_NEOX,
    .layer_norm = true,
    ROWS(starcoder2_rows),
    WINDOW_KEYS("sliding_window"), /* absent or null: none */
    FLAGS_ON("use_bias"),
};
