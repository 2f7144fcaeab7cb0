/* What is in a GGUF, safetensors or PyTorch file, as text for people or JSON for programs. The file
 * is recognised by its first bytes (by its name when these tell nothing) and checked as strictly as
 * any verb would. */
#ifndef FY_CONVERT_INSPECT_H
#define FY_CONVERT_INSPECT_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    bool json;
    bool hash; /* also SHA-256 of each tensor: reads all of the file */
} fy_inspect_how;

/* Appends the description of the file to `out`. */
int fy_inspect(const char *path, const fy_inspect_how *how, fy_str *out, fy_err *e);

#endif
