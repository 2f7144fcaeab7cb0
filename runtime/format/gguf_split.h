/* Names of a model that is split over several GGUF files, as llama.cpp has them:
 * NAME-00001-of-00003.gguf. Keys in each: split.no (u16, from 0), split.count (u16),
 * split.tensors.count (i32, of all files); the other keys are in the first file only. */
#ifndef FY_FORMAT_GGUF_SPLIT_H
#define FY_FORMAT_GGUF_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define FY_GGUF_MAX_FILES 500 /* all are open at a time; systems allow 1024 */

/* "dir/NAME.gguf" -> "dir/NAME-00001-of-00003.gguf" for no 0 of 3; "dir/NAME.gguf" when count is 1.
 * The caller frees; NULL: out of memory. */
char *fy_gguf_split_name(const char *path, uint32_t no, uint32_t count);

/* The name of file `no`, given that of file `of`; NULL when `path` is not called so, or out of
 * memory (*oom). The caller frees. */
char *fy_gguf_split_sibling(const char *path, uint32_t of, uint32_t no, uint32_t count, bool *oom);

/* --split-max-size: "400M", "2G", or bytes; M and G are decimal, as in llama.cpp's tools. NULL: 0,
 * no limit. */
int fy_split_size(const char *text, uint64_t *bytes, fy_err *e);

#endif
