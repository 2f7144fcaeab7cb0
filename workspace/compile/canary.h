/* Makes the canary of a compiled model (bundle/npu_canary.h): what the cut answers in floats, and
 * how far the types of the recipe are from it when a CPU rounds to them. */
#ifndef FY_WORKSPACE_CANARY_H
#define FY_WORKSPACE_CANARY_H

#include "bundle/npu_canary.h"
#include "model/vocab/vocab.h"
#include "workspace/compile/ranges.h"
#include "workspace/npu/npu_recipe.h"

typedef struct {
    const char *weights, *qnn; /* of the cut: ggml/weights.gguf, the directory of config.json */
    const fy_npu_recipe *recipe;
    const fy_q_ranges *ranges; /* NULL: the recipe needs none */
    const fy_ids *preset;      /* what every text begins with */
    int n_threads;
} fy_canary_source;

int fy_canary_make(const fy_canary_source *s, fy_canary *out, fy_err *e);

#endif
