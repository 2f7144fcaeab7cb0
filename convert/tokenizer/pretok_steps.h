/* The steps of a normalizer, pre_tokenizer or decoder of a tokenizer.json, Sequences flattened.
 * Everything is a view of the jansson tree. */
#ifndef FY_CONVERT_PRETOK_STEPS_H
#define FY_CONVERT_PRETOK_STEPS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/err.h"
#include "base/str.h"

enum { FY_STEPS_MAX = 15 };

typedef struct {
    const json_t *v[FY_STEPS_MAX];
    size_t n;
} fy_steps;

/* Appends the steps of `node` (NULL and JSON null: none). list: the member that holds the parts of
 * a Sequence. The depth is bounded by the JSON reader. */
int fy_steps_flatten(const json_t *node, const char *list, fy_steps *out, fy_err *e);
bool fy_steps_have(const fy_steps *s, const char *type);

const char *fy_step_text(const json_t *step, const char *key); /* "" when it is no text */
bool fy_step_flag(const json_t *step, const char *key, bool absent);

/* "what Type(key=value,...) + Type(...)", escaped, long values cut. */
void fy_steps_show(const char *what, const fy_steps *s, fy_str *out);

#endif
