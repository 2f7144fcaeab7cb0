/* What an NPU takes: from the vendor's public tables (fact sheet 4.1), held to its library of
 * SDK 2.51 (tests/unit/qnnref/test_real.c). Stricter than that library in three ways. Floats need
 * V73: a PC takes them for older chips too, silicon does not. An offset that leaves 0 out of the
 * range is refused: it is taken, and unary operations then give garbage. And a form that only
 * finalize takes, after validate refused it, is refused by both. */
#include "qnnref/ref_rules.h"

#include <stddef.h>

#define LINEAR "Conv2d FullyConnected"
#define UNARY                                                                                    \
    "Sigmoid Gelu Relu HardSwish ElementWiseExp ElementWiseRsqrt ElementWiseNeg ElementWiseSin " \
    "ElementWiseCos ElementWiseSquareRoot ElementWiseNeuron"
#define BINARY                                                                                     \
    "ElementWiseAdd ElementWiseSubtract ElementWiseMultiply ElementWiseDivide ElementWiseMaximum " \
    "ElementWiseMinimum"
#define MOVES "Transpose Reshape StridedSlice Split"

const ref_rule ref_rules[] = {
    /* ops, T, inputs, output, V, SDK 2.x, note */
    {LINEAR, NULL, "u16 s8/axis s32/bias?", "u16", 0, 0, NULL},
    {LINEAR, NULL, "u16 s8/sym s32/bias?", "u16", 0, 0, NULL},
    {LINEAR, NULL, "u16 u8 s32/bias?", "u16", 0, 0, NULL},
    {LINEAR, NULL, "u16 u16/sym s32/bias?", "u16", 73, 0, NULL},
    {LINEAR, NULL, "u16 s16/sym s32/bias?", "u16", 73, 0, "codes up to 0x7f7f"},
    {LINEAR, NULL, "u16 s8/bw4 s32/bias?", "u16", 0, 0, NULL},
    {LINEAR, NULL, "u16 s8/lpbq s32/bias?", "u16", 69, 36, NULL},
    {LINEAR, NULL, "u16 s8/lpbq s32/bias?", "u16", 79, 0, NULL},
    {LINEAR, NULL, "u8 s8/axis s32/bias?", "u8", 0, 0, NULL},
    {LINEAR, NULL, "u8 s8/bw4 s32/bias?", "u8", 0, 0, NULL},
    {LINEAR, NULL, "u8 s8/lpbq s32/bias?", "u8", 69, 36, NULL},
    {LINEAR, NULL, "u8 u8 s32/bias?", "u8", 0, 0, NULL},
    {LINEAR, NULL, "s16 s8/axis s32/bias?", "s16", 0, 0, NULL},
    {LINEAR, "f16 f32", "T T T?", "T", 73, 0, NULL},
    {LINEAR, NULL, "f16 s8/axis f16?", "f16", 73, 0, NULL},
    {LINEAR, NULL, "f16 s8/bw4 f16?", "f16", 73, 0, NULL},

    {"MatMul", NULL, "u16 u8", "u16", 0, 0, "offsets other than -128 lose precision"},
    {"MatMul", NULL, "u16 s8/sym", "u16", 0, 0, NULL},
    {"MatMul", NULL, "u16 u16/sym", "u16", 73, 0, NULL},
    {"MatMul", NULL, "u16 s16/sym", "u16", 73, 0, NULL},
    {"MatMul", NULL, "s16/sym s16/sym", "s16/sym", 73, 0, NULL},
    {"MatMul", NULL, "u8 u8", "u8", 0, 0, NULL},
    {"MatMul", NULL, "u16 s8/axis", "u16", 0, 0, NULL},
    {"MatMul", NULL, "u16 s8/bw4", "u16", 0, 0, NULL},
    {"MatMul", NULL, "u16 s8/lpbq", "u16", 69, 36, "transpose_in1 0"},
    {"MatMul", "f16 f32", "T T", "T", 73, 0, NULL},
    {"MatMul", NULL, "f16 s8/axis", "f16", 73, 0, NULL},
    {"MatMul", NULL, "f16 s8/bw4", "f16", 73, 0, NULL},

    {"RmsNorm", NULL, "u16 u16|u8|s16/sym u16|u8|s32/bias?", "u16", 0, 0, NULL},
    {"RmsNorm", NULL, "u8 u8 u8|s32/bias?", "u8", 0, 0, NULL},
    {"RmsNorm", "f16 f32", "T T T?", "T", 73, 0, "beta is ignored"},
    {"LayerNorm", NULL, "u16 u8 u16|u8|s32/bias?", "u16", 0, 0, NULL},
    {"LayerNorm", NULL, "u16 u16/sym u16|u8|s32/bias?", "u16", 73, 0,
     "another offset of gamma is garbage"},
    {"LayerNorm", NULL, "u8 u8 u8|s32/bias?", "u8", 0, 0, NULL},
    {"LayerNorm", "f16 f32", "T T T?", "T", 73, 0, NULL},
    {"L2Norm", "u16 u8", "T", "T", 0, 0, NULL},
    {"L2Norm", "f16 f32", "T", "T", 73, 0, NULL},

    {"Softmax", "u16 u8", "T", "T/zero", 0, 0, NULL},
    {"Softmax", NULL, "u16", "f32", 73, 0, NULL},
    {"Softmax", "f16 f32", "T", "T", 73, 0, NULL},

    {UNARY, "u16 u8", "T", "T", 0, 0, NULL},
    {UNARY " Tanh", "f16 f32", "T", "T", 73, 0, NULL},
    {"Tanh", NULL, "u16", "u16/tanh", 0, 0, NULL},
    {"Tanh", NULL, "u8", "u8", 0, 0, NULL},

    {BINARY, "u16 u8", "T T", "T", 0, 0, NULL},
    {"ElementWiseAdd ElementWiseSubtract ElementWiseMultiply", "s16", "T T", "T", 0, 0, NULL},
    {BINARY, "f16 f32", "T T", "T", 73, 0, NULL},
    {"ElementWiseAdd ElementWiseSubtract ElementWiseMultiply ElementWiseMaximum ElementWiseMinimum",
     "i32", "T T", "T", 0, 0, NULL},
    {"ElementWiseGreater", "u16 u8 i32", "T T", "bool", 0, 0, NULL},
    {"ElementWiseGreater", "f16 f32", "T T", "bool", 73, 0, NULL},
    {"ElementWiseSelect", "u16 u8 i32", "bool T T", "T", 0, 0, NULL},
    {"ElementWiseSelect", "f16 f32", "bool T T", "T", 73, 0, NULL},

    {"Concat", "u16 s16 u8 s8", "T*", "T", 0, 0, "unequal encodings requantize"},
    {"Concat", "f16 f32 i32", "T*", "T", 0, 0, NULL},
    {MOVES, "u16 s16 u8 s8", "T", "T/same", 0, 0, NULL},
    {"Tile", "u16 u8 s8", "T", "T/same", 0, 0, NULL},
    {MOVES " Tile", "f16 f32 i32", "T", "T", 0, 0, NULL},
    {"Gather", "u16 u8", "T i32|ui32", "T/same", 0, 0, NULL},
    {"Gather", "f16 f32 i32", "T i32|ui32", "T", 0, 0, NULL},

    {"Convert", NULL, "u16", "u8|s8|s16|u16", 0, 0, NULL},
    {"Convert", NULL, "u8|s16", "u16", 0, 0, NULL},
    {"Convert", NULL, "u16", "f16|f32", 73, 0, NULL},
    {"Convert", NULL, "f16|f32", "u16|u8", 73, 0, NULL},
    {"Quantize", NULL, "f32", "u16|u8|s16", 0, 0, NULL},
    {"Quantize", NULL, "f16", "u16|u8", 73, 39, NULL},
    {"Dequantize", NULL, "u16|u8", "f32", 0, 0, NULL},
    {"Dequantize", NULL, "u16|u8", "f16", 73, 0, NULL},
    {"Cast", NULL, "f32", "f16", 73, 0, NULL},
    {"Cast", NULL, "f16", "f32", 73, 0, NULL},

    {"ReduceMean ReduceMin", "u16 u8", "T", "T", 0, 0, NULL},
    {"ReduceMean ReduceMin", "f16 f32", "T", "T", 73, 0, NULL},
    {"RotaryEmbedding", "u16", "T T T", "T", 0, 45, NULL},
    {"RotaryEmbedding", "f16 f32", "T T T", "T", 73, 45, NULL},
};

const uint32_t ref_n_rules = sizeof ref_rules / sizeof *ref_rules;
