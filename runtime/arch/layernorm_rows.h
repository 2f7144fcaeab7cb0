/* Rows of the families that keep a bias beside most weights: GPT-2 and what came from it. Each
 * macro names whole modules, because these families agree on shapes but not on names. */
#ifndef FY_ARCH_LAYERNORM_ROWS_H
#define FY_ARCH_LAYERNORM_ROWS_H

#include "arch/decoder_rows.h"

/* slot, module in GGUF, module in Hugging Face; `%u` is the layer in both. */
#define MATRIX(slot, gguf, hf, rows, cols, transform)                                       \
    {                                                                                       \
        slot, gguf ".weight", hf ".weight", {rows, cols}, transform, .flags = FY_ROW_MATRIX \
    }
#define VECTOR(slot, gguf, hf, dim, transform)                           \
    {                                                                    \
        slot, gguf ".weight", hf ".weight", {dim}, transform, .flags = 0 \
    }
/* flag: as in LAYER_BIAS. */
#define BIAS(slot, gguf, hf, dim, transform, flag)                                              \
    {                                                                                           \
        slot, gguf ".bias", hf ".bias", {dim}, transform, (flag) != NULL ? FY_ROW_OPTIONAL : 0, \
            .required_by = flag                                                                 \
    }
/* Two rows: the weight and its bias, whose slot is called slot_B. */
#define NORM_AND_BIAS(slot, gguf, hf)             \
    VECTOR(slot, gguf, hf, FY_D_EMBD, FY_X_COPY), \
        BIAS(slot##_B, gguf, hf, FY_D_EMBD, FY_X_COPY, NULL)
#define MATRIX_AND_BIAS(slot, gguf, hf, rows, cols, transform, flag) \
    MATRIX(slot, gguf, hf, rows, cols, transform), BIAS(slot##_B, gguf, hf, rows, transform, flag)
/* A matrix that the checkpoint holds as [in, out]. */
#define CONV1D(slot, gguf, hf, rows, cols)                                                         \
    {                                                                                              \
        slot, gguf ".weight", hf ".weight", {rows, cols}, FY_X_TRANSPOSE, .hf_dims = {cols, rows}, \
                                                                          .flags = FY_ROW_MATRIX   \
    }
#define CONV1D_AND_BIAS(slot, gguf, hf, rows, cols) \
    CONV1D(slot, gguf, hf, rows, cols), BIAS(slot##_B, gguf, hf, rows, FY_X_COPY, NULL)

/* The names that GGUF has for them. */
#define G_ATTN_NORM "blk.%u.attn_norm"
#define G_ATTN_QKV  "blk.%u.attn_qkv"
#define G_ATTN_Q    "blk.%u.attn_q"
#define G_ATTN_K    "blk.%u.attn_k"
#define G_ATTN_V    "blk.%u.attn_v"
#define G_ATTN_OUT  "blk.%u.attn_output"
#define G_FFN_NORM  "blk.%u.ffn_norm"
#define G_FFN_UP    "blk.%u.ffn_up"
#define G_FFN_DOWN  "blk.%u.ffn_down"

#define TOKEN_EMBD(hf) MATRIX(FY_T_TOKEN_EMBD, "token_embd", hf, FY_D_VOCAB, FY_D_EMBD, FY_X_COPY)
#define OUTPUT_MATRIX(hf)                                                               \
    {                                                                                   \
        FY_T_OUTPUT, "output.weight", hf ".weight", {FY_D_VOCAB, FY_D_EMBD}, FY_X_COPY, \
            .flags = FY_ROW_MATRIX | FY_ROW_OPTIONAL                                    \
    }
/* source_rows: FY_D_CTX, or what FY_X_SKIP_2 wants. */
#define POSITION_EMBD(hf, transform, source_rows)                                        \
    {                                                                                    \
        FY_T_POSITION_EMBD, "position_embd.weight", hf ".weight", {FY_D_CTX, FY_D_EMBD}, \
            transform, .hf_dims = {source_rows, FY_D_EMBD}, .flags = 0                   \
    }

#endif
