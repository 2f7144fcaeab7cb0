/* The model card: the YAML between the "---" lines at the top of a checkpoint's README.md. Values
 * are kept as texts: a YAML 1.1 reader that guesses types makes the language "no" false and the
 * version 1.10 a number.
 *
 * A card never stops a conversion: one that is not YAML is reported and left out. What
 * is kept is bounded (depth, lengths of lists and texts), whatever the file is; aliases are not
 * followed. */
#ifndef FY_CONVERT_MODEL_CARD_H
#define FY_CONVERT_MODEL_CARD_H

#include <stddef.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"

#define FY_MODEL_CARD "README.md"

/* The card of `dir` as an object of texts, lists and objects; an empty one without a card. */
int fy_model_card_read(const char *dir, json_t **out, fy_err *e);

/* The same of a text that is in memory: FY_EFORMAT when its front matter is not YAML. */
int fy_model_card_parse(const void *p, size_t n, json_t **out, fy_err *e);

/* "libyaml VERSION\n" */
void fy_model_card_libraries(fy_str *out);

#endif
