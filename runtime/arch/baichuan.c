/* Baichuan 7B of the first generation: Llama with q, k, v in one tensor, no grouped heads. The
 * later ones spell their class "Baichuan": 13B has ALiBi instead of rotation, Baichuan 2 an output
 * matrix whose rows are normed at run time. */
#include "arch/decoder_rows.h"

#define PART(slot, gguf, dim, x)                                                   \
    {                                                                              \
        slot, "blk.%u." gguf ".weight", "model.layers.%u.self_attn.W_pack.weight", \
            {dim, FY_D_EMBD}, x, .flags = FY_ROW_MATRIX, .hf_dims = {              \
                FY_D_QKV,                                                          \
                FY_D_EMBD                                                          \
            }                                                                      \
    }

static const fy_tensor_row rows[] = {
    ROW_TOKEN_EMBD,
    ROW_ATTN_NORM,
    PART(FY_T_ATTN_Q, "attn_q", FY_D_Q, FY_X_PACK_Q),
    PART(FY_T_ATTN_K, "attn_k", FY_D_K, FY_X_PACK_K),
    PART(FY_T_ATTN_V, "attn_v", FY_D_V, FY_X_PACK_V),
    ROW_ATTN_OUT,
    ROW_FFN_NORM,
    ROW_FFN_GATE,
    ROW_FFN_UP,
    ROW_FFN_DOWN,
    ROW_OUTPUT_NORM,
    ROW_OUTPUT,
};

static const char *const hf_archs[] = {"BaiChuanForCausalLM", NULL};

const fy_family fy_family_baichuan = {
    .name = "baichuan",
    .gguf_arch = "baichuan",
    .hf_archs = hf_archs,
    .defaults =
        {
            .n_vocab = 64000,
            .n_ctx_train = 4096,
            .n_embd = 4096,
            .n_layer = 32,
            .n_ff = 11008,
            .n_head = 32,
            .norm_rms_eps = 1e-6F,
            .rope_theta = 10000.0F,
        },
    .tied_default = false,
    .rope = FY_ROPE_NORM,
    .alibi_layers = 40,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
};
