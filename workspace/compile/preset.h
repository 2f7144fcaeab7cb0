/* Tokens that every text of a compiled model begins with, computed here in floats: their keys and
 * values go into OUT/qnn/kv, and calibration leaves them out. The first tokens of many models
 * have activations far larger than those of all others, which would take the precision. */
#ifndef FY_WORKSPACE_PRESET_H
#define FY_WORKSPACE_PRESET_H

#include "bundle/qnn_config.h"
#include "model/chain.h"
#include "model/vocab/vocab.h"
#include "workspace/npu/npu_recipe.h"

/* Which: the beginning-of-text token alone, or what the model's chat template makes of a system
 * prompt, up to where the user's text begins. weights: ggml/weights.gguf. system NULL: the token
 * alone. */
int fy_preset_ids(const char *weights, const char *system, fy_ids *out, fy_err *e);

/* What the graphs that a recipe composes of a cut have in their caches after the ids. */
int fy_preset_compute(const char *weights, const char *qnn, const fy_npu_recipe *recipe,
                      const fy_ids *ids, int n_threads, fy_chain_preset *out, fy_err *e);

/* the files in OUT/qnn/kv, as c names them; c->kv_size is the preset's. */
int fy_preset_write(const fy_chain_preset *p, const fy_qnn_config *c, const fy_hparams *hp,
                    const char *qnn, fy_err *e);

#endif
