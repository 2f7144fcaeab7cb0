/* Rows of experts. A checkpoint holds one matrix per expert, or all experts of a layer in one
 * tensor, gate rows above up rows; that tensor may be transposed. Which form it is follows from the
 * names and shapes that are there. */
#ifndef FY_ARCH_EXPERT_ROWS_H
#define FY_ARCH_EXPERT_ROWS_H

#include "arch/tensor_rows.h"

/* hf: the tensor's name within its layer; what follows `more`: the source's dimensions. */
#define EXPERTS_ROW(slot, gguf, hf, rows, cols, transform, more, ...)                      \
    {                                                                                      \
        slot, "blk.%u." gguf ".weight", HF_LAYER hf, {FY_D_EXPERT, rows, cols}, transform, \
            FY_ROW_MATRIX | (more), .hf_dims = {                                           \
                __VA_ARGS__                                                                \
            }                                                                              \
    }
#define GATE_EXPS(hf, x, more, ...)                                                       \
    EXPERTS_ROW(FY_T_FFN_GATE_EXPS, "ffn_gate_exps", hf, FY_D_FF_EXP, FY_D_EMBD, x, more, \
                __VA_ARGS__)
#define UP_EXPS(hf, x, more, ...) \
    EXPERTS_ROW(FY_T_FFN_UP_EXPS, "ffn_up_exps", hf, FY_D_FF_EXP, FY_D_EMBD, x, more, __VA_ARGS__)
#define DOWN_EXPS(hf, x, more, ...)                                                       \
    EXPERTS_ROW(FY_T_FFN_DOWN_EXPS, "ffn_down_exps", hf, FY_D_EMBD, FY_D_FF_EXP, x, more, \
                __VA_ARGS__)

/* One tensor per expert: %e in the name is its number. */
#define ROW_GATE_EACH(hf) GATE_EXPS(hf, FY_X_COPY, 0, FY_D_FF_EXP, FY_D_EMBD)
#define ROW_UP_EACH(hf)   UP_EXPS(hf, FY_X_COPY, 0, FY_D_FF_EXP, FY_D_EMBD)
#define ROW_DOWN_EACH(hf) DOWN_EXPS(hf, FY_X_COPY, 0, FY_D_EMBD, FY_D_FF_EXP)

/* One tensor of gate and up for all experts, [out, in] or [in, out]; more: 0, or FY_ROW_ALT below
 * another form. */
#define ROW_GATE_FUSED(hf, more) \
    GATE_EXPS(hf, FY_X_FIRST_HALF, more, FY_D_EXPERT, FY_D_FF_EXP_2, FY_D_EMBD)
#define ROW_UP_FUSED(hf, more) \
    UP_EXPS(hf, FY_X_SECOND_HALF, more, FY_D_EXPERT, FY_D_FF_EXP_2, FY_D_EMBD)
#define ROW_DOWN_FUSED(hf, more) DOWN_EXPS(hf, FY_X_COPY, more, FY_D_EXPERT, FY_D_EMBD, FY_D_FF_EXP)
#define ROW_GATE_FUSED_T(hf) \
    GATE_EXPS(hf, FY_X_TRANSPOSE_FIRST_HALF, FY_ROW_ALT, FY_D_EXPERT, FY_D_EMBD, FY_D_FF_EXP_2)
#define ROW_UP_FUSED_T(hf) \
    UP_EXPS(hf, FY_X_TRANSPOSE_SECOND_HALF, FY_ROW_ALT, FY_D_EXPERT, FY_D_EMBD, FY_D_FF_EXP_2)
#define ROW_DOWN_FUSED_T(hf) \
    DOWN_EXPS(hf, FY_X_TRANSPOSE, FY_ROW_ALT, FY_D_EXPERT, FY_D_FF_EXP, FY_D_EMBD)

/* All forms: names of one expert's tensors, and of the module of the fused ones as transformers 5
 * holds them. */
#define ROWS_EXPERTS(gate, up, down, fused)                                                     \
    ROW_GATE_EACH(gate), ROW_GATE_FUSED(fused ".gate_up_proj", FY_ROW_ALT),                     \
        ROW_GATE_FUSED_T(fused ".gate_up_proj"), ROW_UP_EACH(up),                               \
        ROW_UP_FUSED(fused ".gate_up_proj", FY_ROW_ALT), ROW_UP_FUSED_T(fused ".gate_up_proj"), \
        ROW_DOWN_EACH(down), ROW_DOWN_FUSED(fused ".down_proj", FY_ROW_ALT),                    \
        ROW_DOWN_FUSED_T(fused ".down_proj")
/* As Qwen and OLMoE name them. */
#define ROWS_MLP_EXPERTS                                                             \
    ROWS_EXPERTS("mlp.experts.%e.gate_proj.weight", "mlp.experts.%e.up_proj.weight", \
                 "mlp.experts.%e.down_proj.weight", "mlp.experts")

/* Its numbers stay F32: a rounded one may choose another expert. */
#define ROW_FFN_ROUTER(hf, more)                                                        \
    {                                                                                   \
        FY_T_FFN_ROUTER, "blk.%u.ffn_gate_inp.weight", "model.layers.%u." hf ".weight", \
            {FY_D_EXPERT, FY_D_EMBD}, FY_X_COPY, .flags = (more)                        \
    }

#endif
