/* The pure recipe: which tensors take the type asked for, and what becomes of those that cannot.
 * Same choice as llama-quantize --pure (docs/quantization.md). */
#ifndef FY_QUANTIZE_RECIPE_H
#define FY_QUANTIZE_RECIPE_H

#include <stdbool.h>

#include "format/gguf.h"

/* The types `quantize` can be asked for: names at '|'. */
#define FY_RECIPE_TYPES "f32|f16|bf16|q8_0|q4_0"

/* False when the name is no type, or none that ferry writes. */
bool fy_recipe_parse(const char *name, fy_type *out);

/* Is this one of the weight matrices, which take the type asked for? Everything else (norms,
 * biases, routers, tables that are not multiplied with) stays as it is. */
bool fy_recipe_is_matrix(const fy_gguf_tensor *t);

/* The type a matrix gets: `target`, or f16 when its rows are no multiple of the target's block. */
fy_type fy_recipe_type(const fy_gguf_tensor *t, fy_type target);

#endif
