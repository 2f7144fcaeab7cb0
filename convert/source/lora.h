/* LoRA adapters, as PEFT saves them, merged into a checkpoint while it is read: afterwards
 * fy_ckpt_read gives W + scale * B A for every matrix that an adapter changes. Nothing is copied;
 * the factors stay in the map of the adapter's file.
 *
 * Several adapters add up in the order given. What an adapter stores whole (modules_to_save,
 * biases, base_layer) replaces the base's tensor, whatever the scale.
 *
 * Where the output matrix is tied to the embedding and an adapter changes one of the two, the model
 * that was trained has two matrices: the output becomes a tensor of its own and config->tied false.
 * (PEFT's merge_and_unload adds to the one matrix that both share, which is another model.) With
 * ensure_weight_tying they stay one.
 *
 * Source: peft 0.21, tuners/lora/layer.py and model.py, utils/save_and_load.py. */
#ifndef FY_CONVERT_LORA_H
#define FY_CONVERT_LORA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"
#include "convert/source/checkpoint.h"
#include "convert/source/hf_config.h"
#include "convert/source/lora_delta.h"

#define FY_LORA_CONFIG   "adapter_config.json"

/* args[n]: "DIR" or "DIR:SCALE". `path` is that of the checkpoint. Once for a checkpoint, before
 * anything keeps a pointer to one of its tensors. -1 leaves a checkpoint fit to be closed only. */
int fy_ckpt_merge_loras(fy_ckpt *c, fy_hf_config *config, const char *path, const char *const *args,
                        size_t n, fy_err *e);

/* Takes "DIR[:SCALE]" apart; DIR is a directory. The caller frees *dir, after a failure too (it may
 * be NULL then). */
int fy_lora_parse(const char *arg, char **dir, double *scale, fy_err *e);

/* adapter_config.json of a LoRA adapter, as PEFT writes it: ranks, scales, and what cannot be
 * merged into the weights of its base, which is refused by name. The keys that say which modules
 * were trained are not read: the adapter's tensors say it.
 *
 * Zero-initialise; released in either case. Source: peft 0.21, tuners/lora/config.py, model.py
 * (get_pattern_key: the first pattern that matches the end of the module's name counts). */
struct fy_lora_pattern;

typedef struct {
    struct fy_lora_pattern *list; /* owned */
    size_t n;
} fy_lora_patterns;

typedef struct {
    json_t *root; /* owned */
    uint32_t rank;
    double alpha;
    bool rslora;      /* alpha / sqrt(rank) instead of alpha / rank */
    bool keeps_tied;  /* ensure_weight_tying: what changes the embedding changes the output */
    const char *base; /* view; base_model_name_or_path; NULL: not given */
    fy_lora_patterns ranks, alphas;
} fy_lora_config;

int fy_lora_config_parse(fy_lora_config *c, const void *p, size_t n, fy_err *e);
int fy_lora_config_open(fy_lora_config *c, const char *dir, fy_err *e);
void fy_lora_config_release(fy_lora_config *c);

/* Of one module ("model.layers.0.self_attn.q_proj"). */
int fy_lora_config_rank(const fy_lora_config *c, fy_span module, uint32_t *rank, fy_err *e);
/* alpha over the rank: what B A is multiplied by. */
int fy_lora_config_scale(const fy_lora_config *c, fy_span module, uint32_t rank, double *scale,
                         fy_err *e);

/* Names of an adapter's tensors, taken apart. Views of the name.
 *
 *   base_model.model.M.lora_A.weight, M.lora_B.default.weight   a factor of module M's delta
 *   M.lora_embedding_A, M.lora_embedding_B                      the same of an embedding
 *   M.weight, M.base_layer.bias, M.modules_to_save.weight       instead of the base's M.weight, ...
 */
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
