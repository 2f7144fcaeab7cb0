/* Tensor element types and their block layouts: the only place that knows a type's id, name or
 * size. Ids are ggml's (GGUF "ggml_type"); blocks are little-endian and packed as in the file.
 * Source: GGUF v3 tensor types, ggml-common.h block layouts. */
#ifndef FY_BASE_TYPES_H
#define FY_BASE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

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

#define FY_QUANTIZATION_VERSION 2   /* general.quantization_version of the layouts below */
#define FY_QK                   32  /* elements per block of q4_0 .. q8_0 */
#define FY_QK_K                 256 /* elements per block of the K types: 8 sub-blocks of FY_QK */

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
    uint16_t d, m;         /* f16 scale and minimum */
    uint8_t qs[FY_QK / 2]; /* nibbles as in q4_0; value q * d + m */
} fy_block_q4_1;

typedef struct {
    uint16_t d;            /* f16 scale */
    uint8_t qh[FY_QK / 8]; /* bit j of these 32: the fifth bit of element j */
    uint8_t qs[FY_QK / 2]; /* nibbles as in q4_0; value (q - 16) * d */
} fy_block_q5_0;

typedef struct {
    uint16_t d, m;         /* f16 scale and minimum */
    uint8_t qh[FY_QK / 8]; /* as in q5_0 */
    uint8_t qs[FY_QK / 2]; /* value q * d + m */
} fy_block_q5_1;

#define FY_K_SCALE_BYTES 12 /* eight scales and eight minimums of 6 bits */

typedef struct {
    uint16_t d, dmin; /* f16 scale of the scales, of the minimums */
    uint8_t scales[FY_K_SCALE_BYTES];
    uint8_t qs[FY_QK_K / 2]; /* 32 bytes per pair of sub-blocks: the even one in the low nibbles,
                                the odd one in the high ones; value d * scale * q - dmin * min */
} fy_block_q4_k;

typedef struct {
    uint16_t d, dmin;
    uint8_t scales[FY_K_SCALE_BYTES];
    uint8_t qh[FY_QK]; /* bit s of qh[l]: the fifth bit of element l of sub-block s */
    uint8_t qs[FY_QK_K / 2];
} fy_block_q5_k;

typedef struct {
    uint8_t ql[FY_QK_K / 2];     /* per half of four sub-blocks 64 bytes: sub-block s has the low
                                    (s < 2) or high nibbles of the first or second (s odd) 32 */
    uint8_t qh[FY_QK_K / 4];     /* per half 32 bytes: bits 2s and 2s + 1 complete sub-block s */
    int8_t scales[FY_QK_K / 16]; /* one per 16 elements; value d * scale * (q - 32) */
    uint16_t d;                  /* f16 scale of the scales */
} fy_block_q6_k;

typedef struct {
    uint8_t scales[FY_QK_K / 16]; /* of 16 elements: scale in the low, minimum in the high nibble */
    uint8_t qs[FY_QK_K / 4];      /* per half of four sub-blocks 32 bytes: sub-block s has bits 2s
                                     and 2s + 1; value d * scale * q - dmin * min */
    uint16_t d, dmin;
} fy_block_q2_k;

typedef struct {
    uint8_t hmask[FY_QK];    /* bit s of hmask[l]: the third bit of element l of sub-block s */
    uint8_t qs[FY_QK_K / 4]; /* as in q2_K */
    uint8_t scales[FY_K_SCALE_BYTES]; /* 16 of 6 bits: nibbles, then bits 2 (i / 4) of byte 8 + i %
                                         4; value d * (scale - 32) * (q - 4) */
    uint16_t d;
} fy_block_q3_k;

/* Four bits choose among 16 values (kernels/scalar/quant_grids.h). */
typedef struct {
    uint16_t d;
    uint8_t qs[FY_QK / 2]; /* nibbles as in q4_0; value d * fy_iq4_values[q] */
} fy_block_iq4_nl;

typedef struct {
    uint16_t d;
    uint16_t scales_h; /* bits 2s and 2s + 1: the upper ones of sub-block s's scale */
    uint8_t scales_l[FY_QK_K / 64];
    uint8_t qs[FY_QK_K / 2]; /* 16 bytes per sub-block; value d * (scale - 32) * fy_iq4_values[q] */
} fy_block_iq4_xs;

typedef struct {
    uint8_t e;             /* scale 2^(e - 128) */
    uint8_t qs[FY_QK / 2]; /* nibbles as in q4_0; value scale * fy_fp4_values[q] */
} fy_block_mxfp4;

#define FY_QK_NVFP4 64 /* elements per block of nvfp4 */

typedef struct {
    uint8_t d[4];   /* scales of 16 elements: 4 bits of exponent, 3 of mantissa, half the number */
    uint8_t qs[32]; /* 8 bytes per 16 elements; value d * fy_fp4_values[q] */
} fy_block_nvfp4;

typedef struct {
    uint8_t qs[48]; /* five digits to the base of 3 a byte, of elements 32 or 16 apart */
    uint8_t qh[4];  /* four digits */
    uint16_t d;     /* value d * (digit - 1) */
} fy_block_tq1_0;

typedef struct {
    uint8_t qs[FY_QK_K / 4]; /* as in q2_K */
    uint16_t d;              /* value d * (q - 1) */
} fy_block_tq2_0;

#define FY_QK_Q1_0 128
#define FY_QK_Q2_0 64

typedef struct {
    uint16_t d;
    uint8_t qs[FY_QK_Q1_0 / 8]; /* bits; value d or -d */
} fy_block_q1_0;

typedef struct {
    uint16_t d;
    uint8_t qs[FY_QK_Q2_0 / 4]; /* four elements a byte; value d * (q - 1) */
} fy_block_q2_0;

/* Types whose codes are rows of a table (kernels/scalar/quant_grids.h): of eight values, in iq3
 * of four. Signs are eight bits a row, or seven and their parity. */
typedef struct {
    uint16_t d;
    uint16_t qs[FY_QK_K / 8]; /* 4 per sub-block: 4 bytes of rows; 4 x 7 signs, 4 bits of scale */
} fy_block_iq2_xxs;

typedef struct {
    uint16_t d;
    uint16_t qs[FY_QK_K / 8]; /* 9 bits of row, 7 signs */
    uint8_t scales[FY_QK_K / 32];
} fy_block_iq2_xs;

typedef struct {
    uint16_t d;
    uint8_t qs[FY_QK_K / 8], signs[FY_QK_K / 8];
    uint8_t qh[FY_QK_K / 32]; /* bits 8 and 9 of four rows */
    uint8_t scales[FY_QK_K / 32];
} fy_block_iq2_s;

typedef struct {
    uint16_t d;
    uint8_t qs[FY_QK_K / 4];
    uint8_t signs[FY_QK_K / 8]; /* per sub-block 4 x 7 signs, 4 bits of scale */
} fy_block_iq3_xxs;

typedef struct {
    uint16_t d;
    uint8_t qs[FY_QK_K / 4];
    uint8_t qh[FY_QK_K / 32]; /* bit 8 of eight rows */
    uint8_t signs[FY_QK_K / 8];
    uint8_t scales[FY_QK_K / 64];
} fy_block_iq3_s;

typedef struct {
    uint16_t d;
    uint8_t qs[FY_QK_K / 8];
    uint16_t qh[FY_QK_K / 32]; /* 4 x 3 upper bits of rows, 3 of scale, sign of the shift */
} fy_block_iq1_s;

typedef struct {
    uint8_t qs[FY_QK_K / 8];
    uint8_t qh[FY_QK_K / 16];     /* per row 3 upper bits and the sign of the shift */
    uint8_t scales[FY_QK_K / 32]; /* four words of four scales; their upper four bits are d */
} fy_block_iq1_m;

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

/* `t`, or the type used instead if rows of n elements are not whole blocks of it:
 * llama-quantize's next one of 32 for the types of 256, f16 where 32 does not divide the rows. */
fy_type fy_type_for_rows(fy_type t, uint64_t n_elems);

/* general.file_type (llama.cpp's LLAMA_FTYPE_*) for a file whose matrices are mostly of type t; -1
 * if none. */
int fy_type_ftype(fy_type t);
#define FY_FTYPE_GUESSED 1024 /* added where a reader took the type of most tensors */
/* "Q4_K_M": the name of such a number in llama.cpp, FY_FTYPE_GUESSED taken off; NULL: none has it.
 */
const char *fy_ftype_name(uint64_t ftype);

/* --- element types of checkpoints --- */

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
