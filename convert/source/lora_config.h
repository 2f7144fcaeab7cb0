/* adapter_config.json of a LoRA adapter, as PEFT writes it: ranks, scales, and what cannot be
 * merged into the weights of its base, which is refused by name. The keys that say which modules
 * were trained are not read: the adapter's tensors say it.
 *
 * Zero-initialise; released in either case. Source: peft 0.21, tuners/lora/config.py, model.py
 * (get_pattern_key: the first pattern that matches the end of the module's name counts). */
#ifndef FY_CONVERT_LORA_CONFIG_H
#define FY_CONVERT_LORA_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"

#define FY_LORA_CONFIG   "adapter_config.json"
#define FY_LORA_MAX_RANK 2048 /* a multiple of FY_ATTEND_CHUNK */

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

#endif
