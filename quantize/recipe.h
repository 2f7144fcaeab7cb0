/* Which tensors of a GGUF file take the type asked for, and what of the model llama-quantize's
 * recipe asks for (docs/quantization.md). */
#ifndef FY_QUANTIZE_RECIPE_H
#define FY_QUANTIZE_RECIPE_H

#include <stdbool.h>

#include "format/gguf.h"
#include "policy/llama_types.h"

/* Is this one of the weight matrices, which take the type asked for? Everything else (norms,
 * biases, routers, tables that are not multiplied with) stays as it is. */
bool fy_recipe_is_matrix(const fy_gguf_tensor *t);

/* The model of a file, for fy_llama_types. Fails when a key that it needs is not there. */
int fy_recipe_model(const fy_gguf *g, fy_llama_model *m, fy_err *e);

#endif
