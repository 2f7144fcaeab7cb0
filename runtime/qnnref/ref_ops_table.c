/* The operations: how many tensors, which parameters, who checks and who computes them. */
#include "qnnref/ref_ops.h"

#define NO_PARAMS \
    {             \
        {         \
            0     \
        }         \
    }
#define UNARY(name, variant)                                                 \
    {                                                                        \
        name, 1, 1, 1, NO_PARAMS, 0, ref_check_unary, ref_run_unary, variant \
    }
#define BINARY(name, variant)                                                  \
    {                                                                          \
        name, 2, 2, 1, NO_PARAMS, 0, ref_check_binary, ref_run_binary, variant \
    }
#define CONVERT(name, variant)                                                \
    {                                                                         \
        name, 1, 1, 1, NO_PARAMS, 0, ref_check_same, ref_run_convert, variant \
    }
#define NORM_PARAMS                                                 \
    {                                                               \
        {"axes", ABI_UI32, 1, true}, {"epsilon", ABI_F32, 0, true}, \
        {                                                           \
            0                                                       \
        }                                                           \
    }
#define REDUCE_PARAMS                                                   \
    {                                                                   \
        {"axes", ABI_UI32, 1, true}, {"keep_dims", ABI_BOOL, 0, false}, \
        {                                                               \
            0                                                           \
        }                                                               \
    }

const ref_op ref_ops[] = {
    {"Conv2d",
     2,
     3,
     1,
     {{"stride", ABI_UI32, 1, true},
      {"pad_amount", ABI_UI32, 2, true},
      {"dilation", ABI_UI32, 1, false},
      {"group", ABI_UI32, 0, false},
      {0}},
     0,
     ref_check_linear,
     ref_run_linear,
     REF_CONV},
    {"FullyConnected",
     2,
     3,
     1,
     {{"keep_dims", ABI_BOOL, 0, false}, {0}},
     0,
     ref_check_linear,
     ref_run_linear,
     REF_FC},
    {"MatMul",
     2,
     3,
     1,
     {{"transpose_in0", ABI_BOOL, 0, false}, {"transpose_in1", ABI_BOOL, 0, false}, {0}},
     0,
     ref_check_matmul,
     ref_run_matmul,
     0},
    {"RmsNorm", 2, 3, 1, NORM_PARAMS, 0, ref_check_norm, ref_run_norm, REF_RMS},
    {"LayerNorm", 1, 3, 1, NORM_PARAMS, 0, ref_check_norm, ref_run_norm, REF_LAYER},
    {"L2Norm",
     1,
     1,
     1,
     {{"axes", ABI_UI32, 1, false},
      {"axis", ABI_UI32, 0, false},
      {"epsilon", ABI_F32, 0, false},
      {0}},
     0,
     ref_check_norm,
     ref_run_norm,
     REF_L2},
    {"Softmax",
     1,
     1,
     1,
     {{"axis", ABI_UI32, 0, false}, {"beta", ABI_F32, 0, false}, {0}},
     0,
     ref_check_softmax,
     ref_run_softmax,
     0},
    UNARY("Sigmoid", REF_SIGMOID),
    UNARY("Tanh", REF_TANH),
    UNARY("Gelu", REF_GELU),
    UNARY("Relu", REF_RELU),
    UNARY("HardSwish", REF_HARDSWISH),
    UNARY("ElementWiseExp", REF_EXP),
    UNARY("ElementWiseRsqrt", REF_RSQRT),
    UNARY("ElementWiseNeg", REF_NEG),
    UNARY("ElementWiseSin", REF_SIN),
    UNARY("ElementWiseCos", REF_COS),
    UNARY("ElementWiseSquareRoot", REF_SQRT),
    {"ElementWiseNeuron",
     1,
     1,
     1,
     {{"operation", ABI_UI32, 0, true}, {0}},
     0,
     ref_check_neuron,
     ref_run_unary,
     REF_NEURON},
    BINARY("ElementWiseAdd", REF_ADD),
    BINARY("ElementWiseSubtract", REF_SUB),
    BINARY("ElementWiseMultiply", REF_MUL),
    BINARY("ElementWiseDivide", REF_DIV),
    BINARY("ElementWiseMaximum", REF_MAX),
    BINARY("ElementWiseMinimum", REF_MIN),
    BINARY("ElementWiseGreater", REF_GREATER),
    {"ElementWiseSelect", 3, 3, 1, NO_PARAMS, 0, ref_check_select, ref_run_select, 0},
    {"Concat",
     1,
     128,
     1,
     {{"axis", ABI_UI32, 0, true}, {0}},
     0,
     ref_check_concat,
     ref_run_concat,
     0},
    {"Split",
     1,
     1,
     REF_MAX_OUTPUTS,
     {{"axis", ABI_UI32, 0, true}, {"split_index", ABI_UI32, 1, true}, {0}},
     0,
     ref_check_split,
     ref_run_split,
     0},
    {"StridedSlice",
     1,
     1,
     1,
     {{"ranges", ABI_I32, 2, true},
      {"begin_mask", ABI_UI32, 0, false},
      {"end_mask", ABI_UI32, 0, false},
      {"shrink_axes", ABI_UI32, 0, false},
      {"new_axes_mask", ABI_UI32, 0, false},
      {0}},
     0,
     ref_check_slice,
     ref_run_slice,
     0},
    {"Transpose",
     1,
     1,
     1,
     {{"perm", ABI_UI32, 1, true}, {0}},
     0,
     ref_check_transpose,
     ref_run_transpose,
     0},
    {"Reshape", 1, 1, 1, NO_PARAMS, 0, ref_check_reshape, ref_run_copy, 0},
    {"Tile", 1, 1, 1, {{"multiples", ABI_UI32, 1, true}, {0}}, 0, ref_check_tile, ref_run_tile, 0},
    {"Gather", 2, 2, 1, {{"axis", ABI_I32, 0, false}, {0}}, 0, ref_check_gather, ref_run_gather, 0},
    CONVERT("Convert", REF_CONVERT),
    CONVERT("Quantize", REF_QUANTIZE),
    CONVERT("Dequantize", REF_DEQUANTIZE),
    CONVERT("Cast", REF_CAST),
    {"ReduceMean", 1, 1, 1, REDUCE_PARAMS, 0, ref_check_reduce, ref_run_reduce, REF_MEAN},
    {"ReduceMin", 1, 1, 1, REDUCE_PARAMS, 0, ref_check_reduce, ref_run_reduce, REF_LEAST},
    {"RotaryEmbedding",
     3,
     3,
     1,
     {{"interleaved", ABI_BOOL, 0, false}, {"rotary_embedding_dim", ABI_UI32, 0, false}, {0}},
     45,
     ref_check_rope,
     ref_run_rope,
     0},
};

const uint32_t ref_n_ops = sizeof ref_ops / sizeof *ref_ops;
