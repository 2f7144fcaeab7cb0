/* Which type llama-quantize gives each matrix of a file that is mostly of one block type: some that
 * matter more get a better one, in q4_K and q5_K (its Q4_K_M and Q5_K_M) by layer. Source:
 * llama.cpp, src/llama-quant.cpp, llama_tensor_get_type_impl. */
#ifndef FY_FORMAT_LLAMA_TYPES_H
#define FY_FORMAT_LLAMA_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "base/types.h"

/* Of a model all that the choice depends on. */
typedef struct {
    fy_span arch;               /* general.architecture; view */
    uint32_t n_layer;           /* block_count */
    uint32_t n_head, n_head_kv; /* of the first layer */
    uint32_t n_expert;
    bool imatrix; /* an importance matrix is used */
} fy_llama_model;

typedef struct {
    fy_span name; /* of the GGUF file; view */
    bool asked; /* a matrix whose type is to be chosen, and which counts where layers are counted */
    fy_type type; /* set where asked; not yet looked at: whether the rows are whole blocks of it */
} fy_llama_tensor;

/* All n tensors of the file, in any order: whether there is an output.weight, and how many matrices
 * there are for values, decides as well. Fails on experts' tensors without a layer in their name.
 */
int fy_llama_types(const fy_llama_model *m, fy_type target, fy_llama_tensor *t, size_t n,
                   fy_err *e);

/* Token embedding (that of gemma3n's layers, too), output matrix. */
bool fy_llama_is_embedding(fy_span name);
bool fy_llama_is_output(fy_span name);

/* general.file_type of such a file. */
int fy_llama_ftype(fy_type target);

#endif
