/* GLM-Edge and GLM-4-9b as transformers ships them. Neighbours of the first half of each head
 * rotate in the checkpoint, too: nothing is permuted. chatglm.c reads the files. */
#include "arch/decoder_rows.h"

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    ROW_ATTN_Q(FY_X_COPY),
    ROW_ATTN_Q_B(FY_X_COPY, "attention_bias"),
    ROW_ATTN_K(FY_X_COPY),
    ROW_ATTN_K_B(FY_X_COPY, "attention_bias"),
    ROW_ATTN_V,
    ROW_ATTN_V_B("attention_bias"),
    ROW_ATTN_OUT,
    ROW_FFN_NORM,
    ROW_FFN_GATE_UP,
    ROW_FFN_DOWN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"GlmForCausalLM", NULL};
static const char *const flags_on[] = {"attention_bias", NULL};

const fy_family fy_family_glm = {
    .name = "glm",
    .gguf_arch = "chatglm",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 151552,
            .n_ctx_train = 131072,
            .n_embd = 4096,
            .n_layer = 40,
            .n_ff = 13696,
            .n_head = 32,
            .n_head_kv = 2,
            .head_dim = 128,
            .norm_rms_eps = 1.5625e-7F,
            .rope_theta = 10000.0F,
        },
    .tied_default = false,
    .rope = FY_ROPE_NORM,
    .rot_part = 0.5F,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .flags_on = flags_on,
};
