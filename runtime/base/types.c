/* The tables of tensor types and of the element types of checkpoints. */
#include "base/types.h"

#include <assert.h>
#include <stddef.h>
#include <strings.h>

#include "base/math.h"

static_assert(sizeof(fy_block_q4_0) == 2 + FY_QK / 2, "q4_0 block is packed");
static_assert(sizeof(fy_block_q8_0) == 2 + FY_QK, "q8_0 block is packed");
static_assert(sizeof(fy_block_q4_1) == 20, "q4_1 block is packed");
static_assert(sizeof(fy_block_q5_0) == 22, "q5_0 block is packed");
static_assert(sizeof(fy_block_q5_1) == 24, "q5_1 block is packed");
static_assert(sizeof(fy_block_q4_k) == 144, "q4_K block is packed");
static_assert(sizeof(fy_block_q5_k) == 176, "q5_K block is packed");
static_assert(sizeof(fy_block_q6_k) == 210, "q6_K block is packed");
static_assert(sizeof(fy_block_q2_k) == 84, "q2_K block is packed");
static_assert(sizeof(fy_block_q3_k) == 110, "q3_K block is packed");
static_assert(sizeof(fy_block_iq4_nl) == 18, "iq4_nl block is packed");
static_assert(sizeof(fy_block_iq4_xs) == 136, "iq4_xs block is packed");
static_assert(sizeof(fy_block_mxfp4) == 17, "mxfp4 block is packed");
static_assert(sizeof(fy_block_nvfp4) == 36, "nvfp4 block is packed");
static_assert(sizeof(fy_block_tq1_0) == 54, "tq1_0 block is packed");
static_assert(sizeof(fy_block_tq2_0) == 66, "tq2_0 block is packed");
static_assert(sizeof(fy_block_q1_0) == 18, "q1_0 block is packed");
static_assert(sizeof(fy_block_q2_0) == 18, "q2_0 block is packed");
static_assert(sizeof(fy_block_iq2_xxs) == 66, "iq2_xxs block is packed");
static_assert(sizeof(fy_block_iq2_xs) == 74, "iq2_xs block is packed");
static_assert(sizeof(fy_block_iq2_s) == 82, "iq2_s block is packed");
static_assert(sizeof(fy_block_iq3_xxs) == 98, "iq3_xxs block is packed");
static_assert(sizeof(fy_block_iq3_s) == 110, "iq3_s block is packed");
static_assert(sizeof(fy_block_iq1_s) == 50, "iq1_s block is packed");
static_assert(sizeof(fy_block_iq1_m) == 56, "iq1_m block is packed");

static const fy_type_info table[FY_TYPE_COUNT] = {
    [FY_F32] = {"f32", 1, sizeof(float)},
    [FY_F16] = {"f16", 1, sizeof(uint16_t)},
    [FY_BF16] = {"bf16", 1, sizeof(uint16_t)},
    [FY_F64] = {"f64", 1, sizeof(double)},
    [FY_I8] = {"i8", 1, sizeof(int8_t)},
    [FY_I16] = {"i16", 1, sizeof(int16_t)},
    [FY_I32] = {"i32", 1, sizeof(int32_t)},
    [FY_I64] = {"i64", 1, sizeof(int64_t)},
    [FY_Q4_0] = {"q4_0", FY_QK, sizeof(fy_block_q4_0)},
    [FY_Q8_0] = {"q8_0", FY_QK, sizeof(fy_block_q8_0)},
    [FY_Q4_1] = {"q4_1", FY_QK, sizeof(fy_block_q4_1)},
    [FY_Q5_0] = {"q5_0", FY_QK, sizeof(fy_block_q5_0)},
    [FY_Q5_1] = {"q5_1", FY_QK, sizeof(fy_block_q5_1)},
    [FY_Q2_K] = {"q2_K", FY_QK_K, sizeof(fy_block_q2_k)},
    [FY_Q3_K] = {"q3_K", FY_QK_K, sizeof(fy_block_q3_k)},
    [FY_Q4_K] = {"q4_K", FY_QK_K, sizeof(fy_block_q4_k)},
    [FY_Q5_K] = {"q5_K", FY_QK_K, sizeof(fy_block_q5_k)},
    [FY_Q6_K] = {"q6_K", FY_QK_K, sizeof(fy_block_q6_k)},
    [FY_IQ2_XXS] = {"iq2_xxs", FY_QK_K, sizeof(fy_block_iq2_xxs)},
    [FY_IQ2_XS] = {"iq2_xs", FY_QK_K, sizeof(fy_block_iq2_xs)},
    [FY_IQ3_XXS] = {"iq3_xxs", FY_QK_K, sizeof(fy_block_iq3_xxs)},
    [FY_IQ1_S] = {"iq1_s", FY_QK_K, sizeof(fy_block_iq1_s)},
    [FY_IQ4_NL] = {"iq4_nl", FY_QK, sizeof(fy_block_iq4_nl)},
    [FY_IQ3_S] = {"iq3_s", FY_QK_K, sizeof(fy_block_iq3_s)},
    [FY_IQ2_S] = {"iq2_s", FY_QK_K, sizeof(fy_block_iq2_s)},
    [FY_IQ4_XS] = {"iq4_xs", FY_QK_K, sizeof(fy_block_iq4_xs)},
    [FY_IQ1_M] = {"iq1_m", FY_QK_K, sizeof(fy_block_iq1_m)},
    [FY_TQ1_0] = {"tq1_0", FY_QK_K, sizeof(fy_block_tq1_0)},
    [FY_TQ2_0] = {"tq2_0", FY_QK_K, sizeof(fy_block_tq2_0)},
    [FY_MXFP4] = {"mxfp4", FY_QK, sizeof(fy_block_mxfp4)},
    [FY_NVFP4] = {"nvfp4", FY_QK_NVFP4, sizeof(fy_block_nvfp4)},
    [FY_Q1_0] = {"q1_0", FY_QK_Q1_0, sizeof(fy_block_q1_0)},
    [FY_Q2_0] = {"q2_0", FY_QK_Q2_0, sizeof(fy_block_q2_0)},
};

const fy_type_info *fy_type_get(uint32_t id)
{
    return id < FY_TYPE_COUNT && table[id].name != NULL ? &table[id] : NULL;
}

const char *fy_type_name(fy_type t)
{
    const fy_type_info *info = fy_type_get((uint32_t)t);
    return info != NULL ? info->name : "?";
}

bool fy_type_parse(const char *name, fy_type *out)
{
    for (int i = 0; i < FY_TYPE_COUNT; i++) {
        if (table[i].name != NULL && strcasecmp(table[i].name, name) == 0) {
            *out = (fy_type)i;
            return true;
        }
    }
    return false;
}

uint64_t fy_type_row_bytes(fy_type t, uint64_t n_elems)
{
    const fy_type_info *info = fy_type_get((uint32_t)t);
    uint64_t bytes;
    if (info == NULL || n_elems % info->block != 0 ||
        !fy_mul_u64(n_elems / info->block, info->bytes, &bytes))
        return 0;
    return bytes;
}

fy_type fy_type_for_rows(fy_type t, uint64_t n_elems)
{
    static const fy_type next[FY_TYPE_COUNT] = {[FY_Q4_K] = FY_Q5_0,
                                                [FY_Q5_K] = FY_Q5_1,
                                                [FY_Q6_K] = FY_Q8_0,
                                                [FY_Q2_K] = FY_Q4_0,
                                                [FY_Q3_K] = FY_Q4_0};
    if (n_elems % table[t].block == 0)
        return t;
    return next[t] != FY_F32 && n_elems % FY_QK == 0 ? next[t] : FY_F16;
}

int fy_type_ftype(fy_type t)
{
    static const struct {
        fy_type type;
        int ftype;
    } map[] = {{FY_F32, 0},   {FY_F16, 1},   {FY_Q4_0, 2},    {FY_Q4_1, 3},  {FY_Q8_0, 7},
               {FY_Q5_0, 8},  {FY_Q5_1, 9},  {FY_Q2_K, 10},   {FY_Q3_K, 11}, {FY_Q4_K, 14},
               {FY_Q5_K, 16}, {FY_Q6_K, 18}, {FY_IQ4_NL, 25}, {FY_BF16, 32}, {FY_MXFP4, 38}};
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        if (map[i].type == t)
            return map[i].ftype;
    }
    return -1;
}

const char *fy_ftype_name(uint64_t ftype)
{
    static const char *const names[] = {
        [0] = "F32",      [1] = "F16",          [2] = "Q4_0",     [3] = "Q4_1",
        [4] = "Q4_1, some F16", [7] = "Q8_0",   [8] = "Q5_0",     [9] = "Q5_1",
        [10] = "Q2_K",    [11] = "Q3_K_S",      [12] = "Q3_K_M",  [13] = "Q3_K_L",
        [14] = "Q4_K_S",  [15] = "Q4_K_M",      [16] = "Q5_K_S",  [17] = "Q5_K_M",
        [18] = "Q6_K",    [19] = "IQ2_XXS",     [20] = "IQ2_XS",  [21] = "Q2_K_S",
        [22] = "IQ3_XS",  [23] = "IQ3_XXS",     [24] = "IQ1_S",   [25] = "IQ4_NL",
        [26] = "IQ3_S",   [27] = "IQ3_M",       [28] = "IQ2_S",   [29] = "IQ2_M",
        [30] = "IQ4_XS",  [31] = "IQ1_M",       [32] = "BF16",    [33] = "Q4_0_4_4",
        [34] = "Q4_0_4_8", [35] = "Q4_0_8_8",   [36] = "TQ1_0",   [37] = "TQ2_0",
        [38] = "MXFP4_MOE", [39] = "NVFP4",     [40] = "Q1_0",    [41] = "Q2_0",
    };
    ftype &= ~(uint64_t)FY_FTYPE_GUESSED;
    return ftype < sizeof names / sizeof names[0] ? names[ftype] : NULL;
}

/* --- element types of checkpoints ---------------------------------------------------------------
 */

#define NO_TYPE FY_TYPE_COUNT

static const struct {
    const char *name;
    uint32_t bits;
    fy_type type; /* with the same bytes, or NO_TYPE */
} dtypes[FY_DT_COUNT] = {
    [FY_DT_BOOL] = {"BOOL", 8, NO_TYPE},
    [FY_DT_F4] = {"F4", 4, NO_TYPE},
    [FY_DT_F6_E2M3] = {"F6_E2M3", 6, NO_TYPE},
    [FY_DT_F6_E3M2] = {"F6_E3M2", 6, NO_TYPE},
    [FY_DT_U8] = {"U8", 8, NO_TYPE},
    [FY_DT_I8] = {"I8", 8, FY_I8},
    [FY_DT_F8_E5M2] = {"F8_E5M2", 8, NO_TYPE},
    [FY_DT_F8_E4M3] = {"F8_E4M3", 8, NO_TYPE},
    [FY_DT_F8_E8M0] = {"F8_E8M0", 8, NO_TYPE},
    [FY_DT_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8, NO_TYPE},
    [FY_DT_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8, NO_TYPE},
    [FY_DT_I16] = {"I16", 16, FY_I16},
    [FY_DT_U16] = {"U16", 16, NO_TYPE},
    [FY_DT_F16] = {"F16", 16, FY_F16},
    [FY_DT_BF16] = {"BF16", 16, FY_BF16},
    [FY_DT_I32] = {"I32", 32, FY_I32},
    [FY_DT_U32] = {"U32", 32, NO_TYPE},
    [FY_DT_F32] = {"F32", 32, FY_F32},
    [FY_DT_C64] = {"C64", 64, NO_TYPE},
    [FY_DT_F64] = {"F64", 64, FY_F64},
    [FY_DT_I64] = {"I64", 64, FY_I64},
    [FY_DT_U64] = {"U64", 64, NO_TYPE},
};

const char *fy_dtype_name(fy_dtype d)
{
    return dtypes[d].name;
}

uint32_t fy_dtype_bits(fy_dtype d)
{
    return dtypes[d].bits;
}

bool fy_dtype_parse(fy_span name, fy_dtype *out)
{
    for (int d = 0; d < FY_DT_COUNT; d++) {
        if (fy_span_is(name, dtypes[d].name)) {
            *out = (fy_dtype)d;
            return true;
        }
    }
    return false;
}

bool fy_dtype_to_type(fy_dtype d, fy_type *out)
{
    if (dtypes[d].type == NO_TYPE)
        return false;
    *out = dtypes[d].type;
    return true;
}
