#include "format/dtype.h"

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
