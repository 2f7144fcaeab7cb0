/* generation_config.json: how the checkpoint's authors sample, as keys that a runtime finds in the
 * file (general.sampling.*, docs/gguf.md). A recommendation may not keep a model from being
 * converted: a value of the wrong kind or range is said and left out. */
#ifndef FY_CONVERT_GENERATION_CONFIG_H
#define FY_CONVERT_GENERATION_CONFIG_H

#include <jansson.h>

#include "base/err.h"
#include "format/gguf_write.h"

/* The file of `dir` as an object, NULL when there is none. NaN and Infinity, which Python writes
 * and JSON does not know, are read as null. */
int fy_generation_config_read(const char *dir, json_t **out, fy_err *e);
/* Adds a key for each value that is there; config may be NULL. */
int fy_generation_config_write(const json_t *config, fy_gguf_writer *w, fy_err *e);

#endif
