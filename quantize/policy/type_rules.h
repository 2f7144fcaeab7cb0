/* "REGEX=TYPE": types for tensors by their names. POSIX extended expressions, searched for in GGUF
 * names; the first that is found counts. One that finds nothing is an error, which whoever walks
 * the tensors asks for at the end. */
#ifndef FY_FORMAT_TYPE_RULES_H
#define FY_FORMAT_TYPE_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "base/types.h"

typedef struct fy_type_rules fy_type_rules;

/* Parses n > 0 texts, views that have to stay. option: "--keep", for messages; types: the allowed
 * ones at '|'. NULL on failure. */
fy_type_rules *fy_type_rules_new(const char *option, const char *types, const char *const *texts,
                                 size_t n, fy_err *e);
void fy_type_rules_free(fy_type_rules *r); /* NULL is fine */

/* True, and *type, when a rule finds the name. All that do are in use. */
bool fy_type_rules_find(fy_type_rules *r, fy_span name, fy_type *type);

/* Fails, naming it, when a rule found no name. */
int fy_type_rules_check_used(const fy_type_rules *r, fy_err *e);

#endif
