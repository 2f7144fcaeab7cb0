/* The rows of a Mamba-2 mixer, for the tables of families that have one. What is not a matrix of
 * weights stays f32: it is convolved, or an exponent. */
#ifndef FY_ARCH_MAMBA_ROWS_H
#define FY_ARCH_MAMBA_ROWS_H

#include "arch/tensor_rows.h"

#define SSM_VECTOR(slot, gguf, hf)                                        \
    {                                                                     \
        slot, "blk.%u." gguf, hf, {FY_D_SSM_HEADS}, FY_X_COPY, .flags = 0 \
    }
/* One number a head, as readers want it: a column. */
#define SSM_COLUMN(slot, gguf, hf, x)                                                     \
    {                                                                                     \
        slot, "blk.%u." gguf, hf, {FY_D_SSM_HEADS, FY_D_ONE}, x, .flags = 0, .hf_dims = { \
            FY_D_SSM_HEADS                                                                \
        }                                                                                 \
    }
/* hf: the name of the module, with the layer; the norm is ROW_SSM_NORM. */
#define ROWS_SSM(hf)                                                                          \
    COPY(FY_T_SSM_IN, "blk.%u.ssm_in", hf "in_proj", FY_D_SSM_IN, FY_D_EMBD),                 \
        {FY_T_SSM_CONV,      "blk.%u.ssm_conv1d.weight",                                      \
         hf "conv1d.weight", {FY_D_SSM_CHANNELS, FY_D_SSM_CONV},                              \
         FY_X_COPY,          .hf_dims = {FY_D_SSM_CHANNELS, FY_D_ONE, FY_D_SSM_CONV}},        \
        BIAS(FY_T_SSM_CONV_B, "blk.%u.ssm_conv1d", hf "conv1d", FY_D_SSM_CHANNELS, FY_X_COPY, \
             NULL),                                                                           \
        SSM_VECTOR(FY_T_SSM_DT_B, "ssm_dt.bias", hf "dt_bias"),                               \
        SSM_COLUMN(FY_T_SSM_A, "ssm_a", hf "A_log", FY_X_NEG_EXP),                            \
        SSM_COLUMN(FY_T_SSM_D, "ssm_d", hf "D", FY_X_COPY),                                   \
        COPY(FY_T_SSM_OUT, "blk.%u.ssm_out", hf "out_proj", FY_D_EMBD, FY_D_SSM_INNER)
/* flag: as in BIAS */
#define ROW_SSM_NORM(hf, flag)                                                               \
    {                                                                                        \
        FY_T_SSM_NORM, "blk.%u.ssm_norm.weight", hf "norm.weight",                           \
            {FY_D_SSM_GROUPS, FY_D_SSM_GROUP}, FY_X_COPY,                                    \
            .flags = (flag) != NULL ? FY_ROW_OPTIONAL : 0, .required_by = flag, .hf_dims = { \
                FY_D_SSM_INNER                                                               \
            }                                                                                \
    }

/* Defaults of GraniteMoeHybridConfig, and what its graph has. */
#define GRANITE4_DEFAULTS SIZES(32000, 2048, 4096, 32, 32, 11008), RMS(1e-6F, 10000)
#define GRANITE4_MIXER    .ssm_conv = 4, .ssm_state = 256, .ssm_groups = 1, .ssm_heads = 128
#define GRANITE4_RULES                                                     \
    {"mamba_proj_bias", "false", NULL}, {"mamba_conv_bias", "true", NULL}, \
    {                                                                      \
        "normalization_function", "\"rmsnorm\"", NULL                      \
    }

/* Granite's shared feed-forward: gate rows above up rows in one tensor. */
#define SHARED_MLP(slot, gguf, hf, rows, cols, x, ...)                                        \
    {                                                                                         \
        slot, "blk.%u." gguf ".weight", HF_LAYER "shared_mlp." hf ".weight", {rows, cols}, x, \
            .flags = FY_ROW_MATRIX, .hf_dims = {                                              \
                __VA_ARGS__                                                                   \
            }                                                                                 \
    }

#endif
