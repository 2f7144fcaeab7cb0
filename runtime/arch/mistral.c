/* Mistral 7B and its successors: Llama with its own defaults, head_dim apart from n_embd / n_head, and a window
 * over all layers in the first version. Written as GGUF architecture "llama". */
#include "arch/arch.h"

static const fy_tensor_row rows[] = {
    {FY_T_TOKEN_EMBD, "token_embd.weight", "model.embed_tokens.weight",
     {FY_D_VOCAB, FY_D_EMBD}, FY_X_COPY, FY_ROW_MATRIX, NULL},
    {FY_T_ROPE_FREQS, "rope_freqs.weight", NULL,
     {FY_D_ROT2}, FY_X_LLAMA3_FREQS, FY_ROW_OPTIONAL, NULL},
    {FY_T_ATTN_NORM, "blk.%u.attn_norm.weight", "model.layers.%u.input_layernorm.weight",
     {FY_D_EMBD}, FY_X_COPY, 0, NULL},
    {FY_T_ATTN_Q, "blk.%u.attn_q.weight", "model.layers.%u.self_attn.q_proj.weight",
     {FY_D_Q, FY_D_EMBD}, FY_X_PERMUTE_Q, FY_ROW_MATRIX, NULL},
    {FY_T_ATTN_K, "blk.%u.attn_k.weight", "model.layers.%u.self_attn.k_proj.weight",
     {FY_D_K, FY_D_EMBD}, FY_X_PERMUTE_K, FY_ROW_MATRIX, NULL},
    {FY_T_ATTN_V, "blk.%u.attn_v.weight", "model.layers.%u.self_attn.v_proj.weight",
     {FY_D_V, FY_D_EMBD}, FY_X_COPY, FY_ROW_MATRIX, NULL},
    {FY_T_ATTN_OUT, "blk.%u.attn_output.weight", "model.layers.%u.self_attn.o_proj.weight",
     {FY_D_EMBD, FY_D_QV}, FY_X_COPY, FY_ROW_MATRIX, NULL},
    {FY_T_FFN_NORM, "blk.%u.ffn_norm.weight", "model.layers.%u.post_attention_layernorm.weight",
     {FY_D_EMBD}, FY_X_COPY, 0, NULL},
    {FY_T_FFN_GATE, "blk.%u.ffn_gate.weight", "model.layers.%u.mlp.gate_proj.weight",
     {FY_D_FF, FY_D_EMBD}, FY_X_COPY, FY_ROW_MATRIX, NULL},
    {FY_T_FFN_UP, "blk.%u.ffn_up.weight", "model.layers.%u.mlp.up_proj.weight",
     {FY_D_FF, FY_D_EMBD}, FY_X_COPY, FY_ROW_MATRIX, NULL},
    {FY_T_FFN_DOWN, "blk.%u.ffn_down.weight", "model.layers.%u.mlp.down_proj.weight",
     {FY_D_EMBD, FY_D_FF}, FY_X_COPY, FY_ROW_MATRIX, NULL},
    {FY_T_OUTPUT_NORM, "output_norm.weight", "model.norm.weight",
     {FY_D_EMBD}, FY_X_COPY, 0, NULL},
    {FY_T_OUTPUT, "output.weight", "lm_head.weight",
     {FY_D_VOCAB, FY_D_EMBD}, FY_X_COPY, FY_ROW_MATRIX | FY_ROW_OPTIONAL, NULL},
};

static const char *const hf_archs[] = {"MistralForCausalLM", NULL};

const fy_family fy_family_mistral = {
    .name = "mistral",
    .gguf_arch = "llama",
    .hf_archs = hf_archs,
    .defaults = {
        .n_vocab = 32000,
        .n_ctx_train = 131072,
        .n_embd = 4096,
        .n_layer = 32,
        .n_ff = 14336,
        .n_head = 32,
        .n_head_kv = 8,
        .n_swa = 4096,
        .norm_rms_eps = 1e-6F,
        .rope_theta = 10000.0F,
    },
    .tied_default = false,
    .rope = FY_ROPE_NORM,
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
};
