/* Typed getters for the keys of config.json and of adapter_config.json. A value that is not what it
 * has to be is recorded in the scope's error, with key, value and what was expected, and counts as
 * absent. The first error stays: whoever reads a whole object asks once, at its end. */
#ifndef FY_CONVERT_CONFIG_VALUE_H
#define FY_CONVERT_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "convert/source/hf_config.h"

/* The object that the text of a configuration is; what is something else is named where it can be
 * recognised. NULL on failure; released by json_decref. NaN and Infinity are null, with a warning
 * that names `name`; NULL: they are refused, for texts whose absent numbers have a default. */
json_t *fy_cfg_tree(const void *p, size_t n, const char *name, fy_err *e);
/* The same of a file; messages name it. */
json_t *fy_cfg_tree_of(const char *path, fy_err *e);

/* An object of the config and its name in messages: "", "text_config.rope_scaling.". */
typedef struct {
    const json_t *obj; /* view; NULL holds nothing */
    fy_err *e;         /* view; not NULL */
    char prefix[80];
} fy_cfg;

fy_cfg fy_cfg_of(const json_t *root, fy_err *e);
fy_cfg fy_cfg_below(const fy_cfg *s, const char *key); /* without an object when there is none */

/* Records "KEY is VALUE; expected EXPECTED". Always false. */
bool fy_cfg_bad(const fy_cfg *s, const char *key, const json_t *v, const char *expected);

const json_t *fy_cfg_value(const fy_cfg *s, const char *key); /* NULL when absent or null */
bool fy_cfg_is_null(const fy_cfg *s, const char *key);        /* there, and null */

/* False, and *out is left alone, when the key is absent or null. */
bool fy_cfg_u32(const fy_cfg *s, const char *key, uint32_t *out); /* below 2^31 */
bool fy_cfg_double(const fy_cfg *s, const char *key, double *out);
bool fy_cfg_bool(const fy_cfg *s, const char *key, bool *out); /* null is there, and false */
bool fy_cfg_string(const fy_cfg *s, const char *key, const char **out);
/* A list of exactly n; NULL when absent. */
const json_t *fy_cfg_list(const fy_cfg *s, const char *key, size_t n);
/* A positive number that a float holds; `absent` is the default, 0: the key is required. */
double fy_cfg_positive(const fy_cfg *s, const char *key, double absent);

/* hf_rope.c, for hf_config.c: the window, which layers have it and which rotate, after the plain
 * keys; then theta, the rotated width and scaling. */
void fy_hf_read_layers(fy_hf_config *c, const fy_cfg *s);
void fy_hf_read_rope(fy_hf_config *c, const fy_cfg *s);
/* hf_mamba.c: of the families that share a class with f, the one that the configuration is of; then
 * what the mixers are and in which layers, after the plain keys. */
const fy_family *fy_hf_variant(const fy_family *f, const fy_cfg *s);
/* num_hidden_layers, where it is absent and the list of the layers says it. */
void fy_hf_count_layers(fy_hf_config *c, const fy_cfg *s);
void fy_hf_read_mamba(fy_hf_config *c, const fy_cfg *s);
/* hf_delta.c: the same of families with gated delta nets. */
void fy_hf_read_delta(fy_hf_config *c, const fy_cfg *s);
/* hf_overrides.c: keys that hold for single layers; after the window, before the rotation. */
void fy_hf_read_overrides(fy_hf_config *c, const fy_cfg *s);
/* What read_rope can check only when everything is known. */
int fy_hf_check_ramp(const fy_hparams *hp, fy_err *e);

#endif
