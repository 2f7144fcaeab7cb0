/* Which type each matrix of an output gets: what convert and quantize share. In this order:
 *   --token-embedding-type for the embedding, --output-tensor-type for the output matrix,
 *   the first REGEX=TYPE that finds the name,
 *   the recipe: pure gives the type asked for, llama what llama-quantize chooses (llama_types.h;
 *   where embedding and output are one matrix, --output-tensor-type goes before it),
 *   and where a type's blocks do not divide the rows, the next one (fy_type_for_rows).
 * The order is llama-quantize's. */
#ifndef FY_FORMAT_MATRIX_TYPES_H
#define FY_FORMAT_MATRIX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/types.h"
#include "policy/llama_types.h"
#include "policy/type_rules.h"

/* Why a tensor has its type. */
typedef enum {
    FY_TYPE_KEPT,   /* no matrix: stays as it is */
    FY_TYPE_ASKED,  /* the type asked for */
    FY_TYPE_RECIPE, /* another, by the recipe */
    FY_TYPE_OPTION, /* an option names it */
} fy_type_why;

typedef struct {
    bool llama; /* by llama-quantize's recipe for files of type `target`; else pure */
    fy_type target;
    const fy_type *output, *embedding; /* --output-tensor-type, --token-embedding-type; NULL: not
                                          given */
    fy_type_rules *rules;              /* NULL: none */
    fy_llama_model model;              /* for llama */
} fy_type_request;

typedef struct {
    fy_span name;  /* of the GGUF file; view */
    uint64_t ne0;  /* row length */
    bool matrix;   /* else it keeps its type */
    fy_type type;  /* in: the one asked for, or kept; out: chosen */
    bool fallback; /* out: another than `wanted`, because of its rows */
    fy_type wanted;
    fy_type_why why;
} fy_type_item;

/* For all n tensors of the file at once. Fails when an option or rule finds no matrix. */
int fy_choose_matrix_types(const fy_type_request *r, fy_type_item *t, size_t n, fy_err *e);

/* "kept", "asked", "recipe", "option" */
const char *fy_type_why_name(fy_type_why w);

#endif
