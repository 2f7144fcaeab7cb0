/* What is in a GGUF or safetensors file, as text for people or JSON for programs. The file is
 * recognised by its first bytes (by its name when these tell nothing) and checked as strictly as
 * any verb would. */
#ifndef FY_CONVERT_INSPECT_H
#define FY_CONVERT_INSPECT_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

/* Appends the description of the file to `out`. */
int fy_inspect(const char *path, bool as_json, fy_str *out, fy_err *e);

#endif
