/* Names of an adapter's tensors, taken apart. Views of the name.
 *
 *   base_model.model.M.lora_A.weight, M.lora_B.default.weight   a factor of module M's delta
 *   M.lora_embedding_A, M.lora_embedding_B                      the same of an embedding
 *   M.weight, M.base_layer.bias, M.modules_to_save.weight       instead of the base's M.weight, ...
 */
#ifndef FY_CONVERT_LORA_NAMES_H
#define FY_CONVERT_LORA_NAMES_H

#include "base/str.h"

typedef enum {
    FY_LORA_A,
    FY_LORA_B,
    FY_LORA_BIAS, /* lora_B.bias */
    FY_LORA_EMBEDDING_A,
    FY_LORA_EMBEDDING_B,
    FY_LORA_INSTEAD, /* replaces the base's tensor */
    FY_LORA_DORA,    /* lora_magnitude_vector */
    FY_LORA_UNKNOWN,
} fy_lora_part;

typedef struct {
    fy_lora_part part;
    fy_span module; /* "model.layers.0.self_attn.q_proj" */
    fy_span rest;   /* of FY_LORA_INSTEAD: ".weight"; module and it are the base's name */
} fy_lora_name;

fy_lora_name fy_lora_name_of(fy_span name);

/* The name without the words that wrappers and heads put in front ("model.", "language_model.",
 * "transformer.", "gpt_neox."): what an adapter and a checkpoint saved in another form share. */
fy_span fy_lora_tail(fy_span name);

#endif
