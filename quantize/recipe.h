/* Which tensors take the type asked for, and what becomes of those that cannot: the choice of
 * llama-quantize, --pure or not (docs/quantization.md). */
#ifndef FY_QUANTIZE_RECIPE_H
#define FY_QUANTIZE_RECIPE_H

#include <stdbool.h>

#include "format/gguf.h"
#include "format/llama_types.h"

/* Is this one of the weight matrices, which take the type asked for? Everything else (norms,
 * biases, routers, tables that are not multiplied with) stays as it is. */
bool fy_recipe_is_matrix(const fy_gguf_tensor *t);

typedef struct {
    fy_type target;
    bool llama;           /* else pure: every matrix has the target's type */
    fy_llama_model model; /* for llama */
} fy_recipe;

/* The recipe for a file. Fails when llama's is not known for the type. */
int fy_recipe_for(fy_recipe *r, const fy_gguf *g, fy_type target, bool llama, fy_err *e);

/* The type a matrix gets. *fallback: another than the recipe's, because its blocks do not divide
 * the rows. */
fy_type fy_recipe_type(const fy_recipe *r, const fy_gguf_tensor *t, bool *fallback);

#endif
