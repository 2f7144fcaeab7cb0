/* CodeGen and CodeGen2: GPT-J with q, v and k in one matrix, by groups. The graph is Phi-2's, so it
 * is written in that architecture: rotated rows go from neighbours to halves, and the biases that
 * readers of it want are zeros. */
#include "arch/layernorm_rows.h"

#define LAYER "transformer.h.%u."

#define UNPACKED(slot, gguf, rows, transform)                                             \
    {                                                                                     \
        slot, gguf ".weight", LAYER "attn.qkv_proj.weight", {rows, FY_D_EMBD}, transform, \
            .hf_dims = {FY_D_QKV, FY_D_EMBD}, .flags = FY_ROW_MATRIX                      \
    }
#define ZERO_BIAS(slot, gguf, dim)                              \
    {                                                           \
        slot, gguf ".bias", NULL, {dim}, FY_X_ZEROS, .flags = 0 \
    }

static const fy_tensor_row rows[] = {
    TOKEN_EMBD("transformer.wte"),
    NORM_AND_BIAS(FY_T_ATTN_NORM, G_ATTN_NORM, LAYER "ln_1"),
    UNPACKED(FY_T_ATTN_Q, G_ATTN_Q, FY_D_Q, FY_X_CODEGEN_Q),
    ZERO_BIAS(FY_T_ATTN_Q_B, G_ATTN_Q, FY_D_Q),
    UNPACKED(FY_T_ATTN_K, G_ATTN_K, FY_D_K, FY_X_CODEGEN_K),
    ZERO_BIAS(FY_T_ATTN_K_B, G_ATTN_K, FY_D_K),
    UNPACKED(FY_T_ATTN_V, G_ATTN_V, FY_D_V, FY_X_CODEGEN_V),
    ZERO_BIAS(FY_T_ATTN_V_B, G_ATTN_V, FY_D_V),
    MATRIX(FY_T_ATTN_OUT, G_ATTN_OUT, LAYER "attn.out_proj", FY_D_EMBD, FY_D_QV, FY_X_COPY),
    ZERO_BIAS(FY_T_ATTN_OUT_B, G_ATTN_OUT, FY_D_EMBD),
    MATRIX_AND_BIAS(FY_T_FFN_UP, G_FFN_UP, LAYER "mlp.fc_in", FY_D_FF, FY_D_EMBD, FY_X_COPY, NULL),
    MATRIX_AND_BIAS(FY_T_FFN_DOWN, G_FFN_DOWN, LAYER "mlp.fc_out", FY_D_EMBD, FY_D_FF, FY_X_COPY,
                    NULL),
    NORM_AND_BIAS(FY_T_OUTPUT_NORM, "output_norm", "transformer.ln_f"),
    MATRIX_AND_BIAS(FY_T_OUTPUT, "output", "lm_head", FY_D_VOCAB, FY_D_EMBD, FY_X_COPY, NULL),
};

static const fy_config_key keys[] = {
    {"rotary_dim", offsetof(fy_hparams, n_rot), FY_OP_SET, 0, NULL},
    {"head_dim", offsetof(fy_hparams, n_qkv_groups), FY_OP_CODEGEN_GROUPS, 0, NULL},
};

static const char *const hf_archs[] = {"CodeGenForCausalLM", NULL};
static const char *const drop[] = {".attn.causal_mask", NULL};

const fy_family fy_family_codegen = {
    .name = "codegen",
    .gguf_arch = "phi2",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 50400,
            .n_ctx_train = 2048,
            .n_embd = 4096,
            .n_layer = 28,
            .n_head = 16,
            .n_rot = 64,
            .norm_eps = 1e-5F,
            .rope_theta = 10000.0F,
            .act = FY_ACT_GELU_TANH,
            .parallel = true,
            .n_qkv_groups = 4,
        },
    .tied_default = false,
    .rope = FY_ROPE_NEOX,
    .layer_norm = true,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .keys = keys,
    .n_keys = sizeof keys / sizeof keys[0],
    .drop = drop,
};
