/* A small JSON text as a jansson tree, read by the strict reader of base/json.h (UTF-8, nesting,
 * duplicate keys). jansson's own parser is not used: when memory runs out it can leave letters out
 * of a text and report success. */
#ifndef FY_CONVERT_JSON_TREE_H
#define FY_CONVERT_JSON_TREE_H

#include <stddef.h>

#include <jansson.h>

#include "base/err.h"

#define FY_JSON_TREE_MAX \
    ((size_t)16 << 20) /* bytes; the largest configuration in use has some hundred kB */

/* NULL on failure; else released by json_decref. All numbers are reals: transformers writes some
 * that fit no integer (model_max_length 1000000000000000019884624838656). Texts hold no NUL: they
 * are C strings. */
json_t *fy_json_tree(const void *p, size_t n, fy_err *e);

#endif
