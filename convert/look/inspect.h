/* What is in a GGUF, safetensors or PyTorch file, a checkpoint directory or a workspace, as text
 * for people or JSON for programs. A file is recognised by its first bytes (by its name when these
 * tell nothing) and checked as strictly as any verb would; of a checkpoint that ferry can convert
 * the keys and the tokenizer are shown as the conversion would write them. */
#ifndef FY_CONVERT_INSPECT_H
#define FY_CONVERT_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    bool json;
    bool hash;          /* also SHA-256 of each tensor: reads all of the file */
    const char *tensor; /* instead of all that: statistics and values of this tensor; or NULL */
    uint64_t n_values;  /* of them, so many are shown ... */
    const char *at;     /* ... from this index on, as compare prints it: "[3, 9]"; NULL: from 0 */
} fy_inspect_how;

/* Appends the description of the file to `out`. */
int fy_inspect(const char *path, const fy_inspect_how *how, fy_str *out, fy_err *e);

#endif
