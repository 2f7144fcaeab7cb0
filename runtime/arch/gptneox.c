/* GPT-NeoX, Pythia, ...: q, k and v of each head one below the other in one matrix, a quarter of
 * each head rotates, the two branches usually in parallel behind norms of their own. */
#include "arch/layernorm_rows.h"

#define LAYER "gpt_neox.layers.%u."

static const fy_tensor_row rows[] = {
    TOKEN_EMBD("gpt_neox.embed_in"),
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, LAYER "input_layernorm"),
    MATRIX_AND_BIAS(FY_T_ATTN_QKV, G_ATTN_QKV, LAYER "attention.query_key_value", FY_D_QKV,
                    FY_D_EMBD, FY_X_GROUP_QKV, "attention_bias"),
    MATRIX_AND_BIAS(FY_T_ATTN_OUT, G_ATTN_OUT, LAYER "attention.dense", FY_D_EMBD, FY_D_QV,
                    FY_X_COPY, "attention_bias"),
    NORM_AND_BIAS(FY_T_FFN_NORM, G_FFN_NORM, LAYER "post_attention_layernorm"),
    MATRIX_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, LAYER "mlp.dense_h_to_4h", FY_D_FF, FY_D_EMBD, FY_X_COPY,
                    NULL),
    MATRIX_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, LAYER "mlp.dense_4h_to_h", FY_D_EMBD, FY_D_FF,
                    FY_X_COPY, NULL),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "gpt_neox.final_layer_norm"),
    OUTPUT_MATRIX("embed_out"),
};

static const char *const hf_archs[] = {"GPTNeoXForCausalLM", NULL};
static const char *const flags_on[] = {"attention_bias", NULL};

const fy_family fy_family_gptneox = {
    .name = "gpt_neox",
    .gguf_arch = "gptneox",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 50432,
            .n_ctx_train = 2048,
            .n_embd = 6144,
            .n_layer = 44,
            .n_ff = 24576,
            .n_head = 64,
            .norm_eps = 1e-5F,
            .rope_theta = 10000.0F,
            .act = FY_ACT_GELU,
            .parallel = true,
        },
    .tied_default = false,
    .rope = FY_ROPE_NEOX,
    .rot_part = 0.25F,
    .layer_norm = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .flags_on = flags_on,
};
