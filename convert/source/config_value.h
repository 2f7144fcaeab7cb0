/* Values of config.json, asked for by key. A getter returns 0 and sets *out, 1 when the key is
 * absent or null, or -1 with a message that names key, value and what was expected. */
#ifndef FY_CONVERT_CONFIG_VALUE_H
#define FY_CONVERT_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "convert/source/hf_config.h"

/* An object of the config and its name in messages: "", "text_config.rope_scaling.". */
typedef struct {
    const json_t *obj; /* view; NULL holds nothing */
    char prefix[80];
} fy_cfg;

fy_cfg fy_cfg_of(const json_t *root);
fy_cfg fy_cfg_below(const fy_cfg *s, const char *key, const json_t *obj);

/* Fails with "KEY is VALUE; expected EXPECTED". */
int fy_cfg_bad(const fy_cfg *s, const char *key, const json_t *v, const char *expected, fy_err *e);

const json_t *fy_cfg_value(const fy_cfg *s, const char *key); /* NULL when absent or null */
bool fy_cfg_is_null(const fy_cfg *s, const char *key);        /* there, and null */
bool fy_cfg_is_true(const fy_cfg *s, const char *key);
int fy_cfg_u32(const fy_cfg *s, const char *key, uint32_t *out, fy_err *e); /* below 2^31 */
int fy_cfg_double(const fy_cfg *s, const char *key, double *out, fy_err *e);
int fy_cfg_bool(const fy_cfg *s, const char *key, bool *out, fy_err *e); /* null is false */
int fy_cfg_string(const fy_cfg *s, const char *key, const char **out, fy_err *e);
int fy_cfg_object(const fy_cfg *s, const char *key, const json_t **out, fy_err *e);
/* A list of exactly n. */
int fy_cfg_list(const fy_cfg *s, const char *key, size_t n, const json_t **out, fy_err *e);
/* *io holds the default; 0: the key is required. A positive number that a float holds; 0 or -1. */
int fy_cfg_positive(const fy_cfg *s, const char *key, double *io, fy_err *e);

/* hf_rope.c, for hf_config.c: the window, which layers have it and which rotate, after the plain
 * keys; then theta, the rotated width and scaling. */
int fy_hf_read_layers(fy_hf_config *c, const fy_cfg *s, fy_err *e);
int fy_hf_read_rope(fy_hf_config *c, const fy_cfg *s, fy_err *e);
/* What read_rope can check only when everything is known. */
int fy_hf_check_ramp(const fy_hparams *hp, fy_err *e);

#endif
