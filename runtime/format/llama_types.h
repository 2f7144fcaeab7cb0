/* Which type llama-quantize, without options and importance matrix, gives each matrix of a file
 * that is mostly of one block type: some that matter more get a better one. Source: llama.cpp,
 * src/llama-quant.cpp, llama_tensor_get_type. */
#ifndef FY_FORMAT_LLAMA_TYPES_H
#define FY_FORMAT_LLAMA_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/types.h"

typedef struct {
    fy_span arch; /* general.architecture; view */
    uint32_t n_expert;
    bool has_output; /* there is an output.weight: the embedding is not the output, too */
} fy_llama_model;

/* Is this rule known for files of type t? Of q4_K and q5_K llama-quantize makes mixtures by layer
 * (q4_K_M), which are not. */
bool fy_llama_types_has(fy_type t);

/* The type of a matrix by its GGUF name. Not yet asked: whether its rows are whole blocks of it. */
fy_type fy_llama_type(const fy_llama_model *m, fy_span name, fy_type t);

#endif
