/* Tensor element types and their block layouts: the only place that knows a type's id, name or
 * size. Ids are ggml's (GGUF "ggml_type"); blocks are little-endian and packed as in the file.
 * Source: GGUF v3 tensor types, ggml-common.h block layouts. */
#ifndef FY_BASE_TYPES_H
#define FY_BASE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    FY_F32 = 0,
    FY_F16 = 1,
    FY_Q4_0 = 2,
    FY_Q4_1 = 3,
    FY_Q5_0 = 6,
    FY_Q5_1 = 7,
    FY_Q8_0 = 8,
    FY_Q8_1 = 9,
    FY_Q2_K = 10,
    FY_Q3_K = 11,
    FY_Q4_K = 12,
    FY_Q5_K = 13,
    FY_Q6_K = 14,
    FY_Q8_K = 15,
    FY_IQ2_XXS = 16,
    FY_IQ2_XS = 17,
    FY_IQ3_XXS = 18,
    FY_IQ1_S = 19,
    FY_IQ4_NL = 20,
    FY_IQ3_S = 21,
    FY_IQ2_S = 22,
    FY_IQ4_XS = 23,
    FY_I8 = 24,
    FY_I16 = 25,
    FY_I32 = 26,
    FY_I64 = 27,
    FY_F64 = 28,
    FY_IQ1_M = 29,
    FY_BF16 = 30,
    FY_TQ1_0 = 34,
    FY_TQ2_0 = 35,
    FY_MXFP4 = 39,
    FY_NVFP4 = 40,
    FY_Q1_0 = 41,
    FY_Q2_0 = 42,
    FY_TYPE_COUNT = 43,
} fy_type;

#define FY_QUANTIZATION_VERSION 2  /* general.quantization_version of the layouts below */
#define FY_QK                   32 /* elements per block of q4_0 and q8_0 */

typedef struct {
    uint16_t d;            /* f16 scale */
    uint8_t qs[FY_QK / 2]; /* qs[j]: element j in the low nibble, j + 16 in the high one; value (q -
                              8) * d */
} fy_block_q4_0;

typedef struct {
    uint16_t d;       /* f16 scale */
    int8_t qs[FY_QK]; /* value q * d */
} fy_block_q8_0;

typedef struct {
    const char *name; /* lower case as in tensor listings: "q4_0"; NULL: id not in use */
    uint16_t block;   /* elements per block */
    uint16_t bytes;   /* bytes per block */
} fy_type_info;

/* NULL for an id that is unknown, removed, or never stored in files (q8_1, q8_K). */
const fy_type_info *fy_type_get(uint32_t id);

/* Name of any known type, "?" otherwise. */
const char *fy_type_name(fy_type t);

/* "q4_0" (any case) -> id; false when there is no such type. */
bool fy_type_parse(const char *name, fy_type *out);

/* Bytes of one row of n elements; n must be a multiple of the type's block. 0 when it is not or on
 * overflow. */
uint64_t fy_type_row_bytes(fy_type t, uint64_t n_elems);

/* general.file_type (llama.cpp's LLAMA_FTYPE_*) for a file whose matrices are mostly of type t; -1
 * if none. */
int fy_type_ftype(fy_type t);

#endif
