/* What a file is by its first bytes. */
#ifndef FY_FORMAT_SNIFF_H
#define FY_FORMAT_SNIFF_H

#include <stddef.h>

/* Answers that callers look for. */
#define FY_SNIFF_JSON        "a JSON text"
#define FY_SNIFF_SAFETENSORS "a safetensors file"
#define FY_SNIFF_GGUF        "a GGUF file"
#define FY_SNIFF_TAR         "a tar archive"
#define FY_SNIFF_GZIP        "a gzip archive"
#define FY_SNIFF_ZSTD        "a zstd archive"

/* For messages, when a file is not what its name promises: "a Git LFS pointer: the weights were not
 * downloaded; run git lfs pull", "an HTML page ...", "a GGUF file", ... or NULL when the first
 * bytes match nothing. Static string. */
const char *fy_sniff(const void *p, size_t n);

#endif
