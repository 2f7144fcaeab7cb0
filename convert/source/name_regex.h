/* A regular expression of a configuration or of the command line, looked for in names of tensors
 * and modules. Perl's syntax, which is that of Python's re for what such patterns hold. Hostile
 * patterns and names cost bounded time and memory. Immutable, hence thread-safe. */
#ifndef FY_CONVERT_NAME_REGEX_H
#define FY_CONVERT_NAME_REGEX_H

#include "base/err.h"
#include "base/str.h"

typedef struct fy_name_regex fy_name_regex;

/* NULL on failure, with the position and the reason. */
fy_name_regex *fy_name_regex_new(const char *pattern, fy_err *e);
void fy_name_regex_free(fy_name_regex *r); /* NULL is fine */

/* Does it match somewhere in the name? 1, 0, -1. */
int fy_name_regex_in(const fy_name_regex *r, fy_span name, fy_err *e);

#endif
