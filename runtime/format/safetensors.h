/* safetensors reader. fy_st_parse takes bytes, fy_st_open maps a file; every rule of the format is
 * enforced before they return (huggingface/safetensors README "Format"): header size and JSON,
 * closed dtype list, shapes without overflow, offsets that tile the data section exactly, file size
 * exact. Stricter than the Rust reference in one point: duplicate keys are refused. Unknown fields
 * of a tensor entry are accepted. Files that are something else (Git LFS pointer, HTML page, GGUF,
 * pickle) are named as such. */
#ifndef FY_FORMAT_SAFETENSORS_H
#define FY_FORMAT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "base/types.h"

#define FY_ST_MAX_HEADER 100000000u /* bytes: the reference implementation's MAX_HEADER_SIZE */

typedef struct {
    fy_span name; /* decoded; NULs possible */
    fy_dtype dtype;
    uint32_t rank;
    uint64_t shape[FY_MAX_RANK]; /* torch order: shape[rank-1] is the row length */
    uint64_t offset, bytes;      /* in the data section */
    const uint8_t *data;         /* view; any alignment; NULL when parsed with header_only */
} fy_st_tensor;

typedef struct fy_st fy_st;

/* `name` is used in messages. With header_only `n` may end anywhere after the header and file_size
 * is the size the offsets are checked against; otherwise file_size is ignored. */
fy_st *fy_st_parse(const void *p, size_t n, const char *name, bool header_only, uint64_t file_size,
                   fy_err *e);
fy_st *fy_st_open(const char *path, fy_err *e);
void fy_st_close(fy_st *s); /* NULL is fine */

const char *fy_st_path(const fy_st *s);
const fy_map *fy_st_map(const fy_st *s); /* of the file; of no bytes when parsed from bytes */
size_t fy_st_n_tensors(const fy_st *s);
const fy_st_tensor *fy_st_tensor_at(const fy_st *s, size_t i); /* by offset */
const fy_st_tensor *fy_st_find(const fy_st *s, fy_span name);  /* NULL when absent; O(1) */
uint64_t fy_st_data_offset(const fy_st *s);                    /* file offset of the data section */

/* __metadata__ entries, in file order. */
size_t fy_st_n_meta(const fy_st *s);
void fy_st_meta_at(const fy_st *s, size_t i, fy_span *key, fy_span *value);

#endif
