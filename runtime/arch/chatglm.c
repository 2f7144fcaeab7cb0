/* ChatGLM2, ChatGLM3, GLM-4-9b-chat, ...: q, k and v in one matrix, gate and up in another; names
 * and config keys of their own; theta is given as its ratio to 10000. Neighbours rotate in the
 * checkpoint, too. Reads the files of glm.c, whose q, k and v are apart. */
#include "arch/layernorm_rows.h"

#define LAYER "transformer.encoder.layers.%u."

/* What this class never has, but the files it reads. */
#define GLM_MATRIX(slot, gguf, rows)                              \
    {                                                             \
        slot, gguf ".weight", NULL, {rows, FY_D_EMBD}, FY_X_COPY, \
            .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL              \
    }
#define GLM_BIAS(slot, gguf, rows)                                            \
    {                                                                         \
        slot, gguf ".bias", NULL, {rows}, FY_X_COPY, .flags = FY_ROW_OPTIONAL \
    }

static const fy_tensor_row rows[] = {
    TOKEN_EMBD("transformer.embedding.word_embeddings"),
    VECTOR(FY_T_ATTN_NORM, G_ATTN_NORM, LAYER "input_layernorm", FY_D_EMBD, FY_X_COPY),
    /* optional for the sake of those files; its own class always has it: see rules */
    {FY_T_ATTN_QKV,
     G_ATTN_QKV ".weight",
     LAYER "self_attention.query_key_value.weight",
     {FY_D_QKV, FY_D_EMBD},
     FY_X_COPY,
     FY_ROW_MATRIX | FY_ROW_OPTIONAL,
     .required_by = "multi_query_attention"},
    BIAS(FY_T_ATTN_QKV_B, G_ATTN_QKV, LAYER "self_attention.query_key_value", FY_D_QKV, FY_X_COPY,
         "add_qkv_bias"),
    GLM_MATRIX(FY_T_ATTN_Q, G_ATTN_Q, FY_D_Q),
    GLM_BIAS(FY_T_ATTN_Q_B, G_ATTN_Q, FY_D_Q),
    GLM_MATRIX(FY_T_ATTN_K, G_ATTN_K, FY_D_K),
    GLM_BIAS(FY_T_ATTN_K_B, G_ATTN_K, FY_D_K),
    GLM_MATRIX(FY_T_ATTN_V, G_ATTN_V, FY_D_V),
    GLM_BIAS(FY_T_ATTN_V_B, G_ATTN_V, FY_D_V),
    MATRIX(FY_T_ATTN_OUT, G_ATTN_OUT, LAYER "self_attention.dense", FY_D_EMBD, FY_D_QV, FY_X_COPY),
    VECTOR(FY_T_FFN_NORM, G_FFN_NORM, LAYER "post_attention_layernorm", FY_D_EMBD, FY_X_COPY),
    MATRIX(FY_T_FFN_GATE_UP, G_FFN_UP, LAYER "mlp.dense_h_to_4h", FY_D_FF_2, FY_D_EMBD, FY_X_COPY),
    MATRIX(FY_T_FFN_DOWN, G_FFN_DOWN, LAYER "mlp.dense_4h_to_h", FY_D_EMBD, FY_D_FF, FY_X_COPY),
    VECTOR(FY_T_OUTPUT_NORM, "output_norm", "transformer.encoder.final_layernorm", FY_D_EMBD,
           FY_X_COPY),
    OUTPUT_MATRIX("transformer.output_layer"),
};

static const fy_config_key keys[] = {
    {"multi_query_group_num", offsetof(fy_hparams, n_head_kv), FY_OP_SET, 1, NULL},
    {"rope_ratio", offsetof(fy_hparams, rope_theta), FY_OP_TIMES_10000, 1, NULL},
};

static const fy_config_rule rules[] = {
    {"multi_query_attention", "true", "false"}, /* without it q, k and v alternate by head */
    {"add_bias_linear", "false", NULL},
    {"apply_residual_connection_post_layernorm", "false", NULL},
    {"post_layer_norm", "true", NULL},
    {"rmsnorm", "true", NULL},
    {"pre_seq_len", "null", NULL}, /* a prefix encoder */
};

static const char *const hf_archs[] = {"ChatGLMModel", "ChatGLMForConditionalGeneration", NULL};

const fy_family fy_family_chatglm = {
    .name = "chatglm",
    .gguf_arch = "chatglm",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 65024,
            .n_ctx_train = 2048,
            .n_embd = 4096,
            .n_layer = 28,
            .n_ff = 13696,
            .n_head = 32,
            .head_dim = 128,
            .norm_rms_eps = 1e-5F,
            .rope_theta = 10000.0F,
        },
    .tied_default = false,
    .rope = FY_ROPE_NORM,
    .rot_part = 0.5F,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};
