/* The tensor rows that the decoders of Llama's shape share: one place for their GGUF and Hugging
 * Face names and their shapes. A family lists those it has, with its transform of q and k, and
 * writes out the rows that are its own. */
#ifndef FY_ARCH_DECODER_ROWS_H
#define FY_ARCH_DECODER_ROWS_H

#include "arch/arch.h"

/* slot, name of the module in GGUF and in Hugging Face's layer, dimensions ..., */
#define LAYER_MATRIX(slot, gguf, hf, rows, cols, transform)                                       \
    {                                                                                             \
        slot, "blk.%u." gguf ".weight", "model.layers.%u." hf ".weight", {rows, cols}, transform, \
            .flags = FY_ROW_MATRIX                                                                \
    }
#define LAYER_VECTOR(slot, gguf, hf, dim)                                                  \
    {                                                                                      \
        slot, "blk.%u." gguf ".weight", "model.layers.%u." hf ".weight", {dim}, FY_X_COPY, \
            .flags = 0                                                                     \
    }
/* flag: the config flag that makes the bias required; NULL: the family always has it. */
#define LAYER_BIAS(slot, gguf, hf, dim, transform, flag)                               \
    {                                                                                  \
        slot, "blk.%u." gguf ".bias", "model.layers.%u." hf ".bias", {dim}, transform, \
            (flag) != NULL ? FY_ROW_OPTIONAL : 0, .required_by = flag                  \
    }

#define ROW_TOKEN_EMBD                                                     \
    {                                                                      \
        FY_T_TOKEN_EMBD, "token_embd.weight", "model.embed_tokens.weight", \
            {FY_D_VOCAB, FY_D_EMBD}, FY_X_COPY, .flags = FY_ROW_MATRIX     \
    }
#define ROW_ROPE_FREQS                                                              \
    {                                                                               \
        FY_T_ROPE_FREQS, "rope_freqs.weight", NULL, {FY_D_ROT2}, FY_X_LLAMA3_FREQS, \
            .flags = FY_ROW_OPTIONAL                                                \
    }
#define ROW_ROPE_LONG                                                                     \
    {                                                                                     \
        FY_T_ROPE_LONG, "rope_factors_long.weight", NULL, {FY_D_ROT2}, FY_X_LONG_FACTORS, \
            .flags = FY_ROW_OPTIONAL                                                      \
    }
#define ROW_ROPE_SHORT                                                                       \
    {                                                                                        \
        FY_T_ROPE_SHORT, "rope_factors_short.weight", NULL, {FY_D_ROT2}, FY_X_SHORT_FACTORS, \
            .flags = FY_ROW_OPTIONAL                                                         \
    }
#define ROW_OUTPUT_NORM                                                                      \
    {                                                                                        \
        FY_T_OUTPUT_NORM, "output_norm.weight", "model.norm.weight", {FY_D_EMBD}, FY_X_COPY, \
            .flags = 0                                                                       \
    }
#define ROW_OUTPUT                                                                          \
    {                                                                                       \
        FY_T_OUTPUT, "output.weight", "lm_head.weight", {FY_D_VOCAB, FY_D_EMBD}, FY_X_COPY, \
            .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL                                        \
    }

#define ROW_ATTN_NORM LAYER_VECTOR(FY_T_ATTN_NORM, "attn_norm", "input_layernorm", FY_D_EMBD)
#define ROW_ATTN_Q(x) LAYER_MATRIX(FY_T_ATTN_Q, "attn_q", "self_attn.q_proj", FY_D_Q, FY_D_EMBD, x)
#define ROW_ATTN_K(x) LAYER_MATRIX(FY_T_ATTN_K, "attn_k", "self_attn.k_proj", FY_D_K, FY_D_EMBD, x)
#define ROW_ATTN_V \
    LAYER_MATRIX(FY_T_ATTN_V, "attn_v", "self_attn.v_proj", FY_D_V, FY_D_EMBD, FY_X_COPY)
#define ROW_ATTN_OUT \
    LAYER_MATRIX(FY_T_ATTN_OUT, "attn_output", "self_attn.o_proj", FY_D_EMBD, FY_D_QV, FY_X_COPY)
#define ROW_ATTN_Q_B(x, flag) \
    LAYER_BIAS(FY_T_ATTN_Q_B, "attn_q", "self_attn.q_proj", FY_D_Q, x, flag)
#define ROW_ATTN_K_B(x, flag) \
    LAYER_BIAS(FY_T_ATTN_K_B, "attn_k", "self_attn.k_proj", FY_D_K, x, flag)
#define ROW_ATTN_V_B(flag) \
    LAYER_BIAS(FY_T_ATTN_V_B, "attn_v", "self_attn.v_proj", FY_D_V, FY_X_COPY, flag)
#define ROW_ATTN_OUT_B(flag) \
    LAYER_BIAS(FY_T_ATTN_OUT_B, "attn_output", "self_attn.o_proj", FY_D_EMBD, FY_X_COPY, flag)
#define ROW_ATTN_Q_NORM LAYER_VECTOR(FY_T_ATTN_Q_NORM, "attn_q_norm", "self_attn.q_norm", FY_D_HEAD)
#define ROW_ATTN_K_NORM LAYER_VECTOR(FY_T_ATTN_K_NORM, "attn_k_norm", "self_attn.k_norm", FY_D_HEAD)

#define ROW_FFN_NORM LAYER_VECTOR(FY_T_FFN_NORM, "ffn_norm", "post_attention_layernorm", FY_D_EMBD)
#define ROW_FFN_GATE \
    LAYER_MATRIX(FY_T_FFN_GATE, "ffn_gate", "mlp.gate_proj", FY_D_FF, FY_D_EMBD, FY_X_COPY)
#define ROW_FFN_UP LAYER_MATRIX(FY_T_FFN_UP, "ffn_up", "mlp.up_proj", FY_D_FF, FY_D_EMBD, FY_X_COPY)
#define ROW_FFN_DOWN \
    LAYER_MATRIX(FY_T_FFN_DOWN, "ffn_down", "mlp.down_proj", FY_D_EMBD, FY_D_FF, FY_X_COPY)
#define ROW_FFN_GATE_B(flag) \
    LAYER_BIAS(FY_T_FFN_GATE_B, "ffn_gate", "mlp.gate_proj", FY_D_FF, FY_X_COPY, flag)
#define ROW_FFN_UP_B(flag) \
    LAYER_BIAS(FY_T_FFN_UP_B, "ffn_up", "mlp.up_proj", FY_D_FF, FY_X_COPY, flag)
#define ROW_FFN_DOWN_B(flag) \
    LAYER_BIAS(FY_T_FFN_DOWN_B, "ffn_down", "mlp.down_proj", FY_D_EMBD, FY_X_COPY, flag)

/* Gemma's norms: the checkpoint holds w - 1. */
#define LAYER_VECTOR_ADD_ONE(slot, gguf, hf, dim)                                             \
    {                                                                                         \
        slot, "blk.%u." gguf ".weight", "model.layers.%u." hf ".weight", {dim}, FY_X_ADD_ONE, \
            .flags = 0                                                                        \
    }
#define ROW_OUTPUT_NORM_ADD_ONE                                                                 \
    {                                                                                           \
        FY_T_OUTPUT_NORM, "output_norm.weight", "model.norm.weight", {FY_D_EMBD}, FY_X_ADD_ONE, \
            .flags = 0                                                                          \
    }
/* GLM and Phi-3: gate rows above up rows, under the GGUF name of up. */
#define ROW_FFN_GATE_UP \
    LAYER_MATRIX(FY_T_FFN_GATE_UP, "ffn_up", "mlp.gate_up_proj", FY_D_FF_2, FY_D_EMBD, FY_X_COPY)

#endif
