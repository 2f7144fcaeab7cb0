/* Element types of checkpoint files (safetensors, PyTorch), as safetensors names them. A checkpoint
 * may hold types that no GGUF file has; fy_type (base/types.h) is what GGUF has. */
#ifndef FY_FORMAT_DTYPE_H
#define FY_FORMAT_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/types.h"

#define FY_MAX_RANK 8 /* dimensions of a checkpoint's tensor */

typedef enum {
    FY_DT_BOOL,
    FY_DT_F4,
    FY_DT_F6_E2M3,
    FY_DT_F6_E3M2,
    FY_DT_U8,
    FY_DT_I8,
    FY_DT_F8_E5M2,
    FY_DT_F8_E4M3,
    FY_DT_F8_E8M0,
    FY_DT_F8_E4M3FNUZ,
    FY_DT_F8_E5M2FNUZ,
    FY_DT_I16,
    FY_DT_U16,
    FY_DT_F16,
    FY_DT_BF16,
    FY_DT_I32,
    FY_DT_U32,
    FY_DT_F32,
    FY_DT_C64,
    FY_DT_F64,
    FY_DT_I64,
    FY_DT_U64,
    FY_DT_COUNT,
} fy_dtype;

const char *fy_dtype_name(fy_dtype d); /* "BF16" */
uint32_t fy_dtype_bits(fy_dtype d);    /* of an element */
/* "BF16" -> FY_DT_BF16; false when there is no such type. */
bool fy_dtype_parse(fy_span name, fy_dtype *out);
/* The tensor type with the same bytes (F32, F16, BF16, F64, I8..I64); false when there is none. */
bool fy_dtype_to_type(fy_dtype d, fy_type *out);

#endif
