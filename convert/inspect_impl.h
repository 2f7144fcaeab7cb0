/* Between the files of inspect: every format becomes the same listing first, so that each column
 * and each JSON member is written once. */
#ifndef FY_CONVERT_INSPECT_IMPL_H
#define FY_CONVERT_INSPECT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "format/gguf.h"
#include "format/safetensors.h"
#include "format/torch_file.h"

typedef struct {
    fy_span name;
    const char *type;
    uint32_t rank;
    uint64_t shape[FY_MAX_RANK];
    uint64_t bytes;
    uint64_t offset; /* in the data section; PyTorch's files have none: in the file */
} fy_listing_row;

/* One open file: one of g, st and pt. */
typedef struct {
    const char *path;
    fy_map map;   /* owned */
    fy_gguf *g;   /* owned */
    fy_st *st;    /* owned */
    fy_torch *pt; /* owned */
    size_t n_keys, n_tensors;
    uint64_t elems, bytes;          /* of all tensors */
    char (*hashes)[FY_SHA256_HEX];  /* owned; of each tensor, or NULL */
    bool oom;                       /* an item of the JSON could not be made */
} fy_listing;

fy_listing_row fy_inspect_row(const fy_listing *l, size_t i);
/* Name of key k of the metadata; of value k in PyTorch's files. */
fy_span fy_inspect_key(const fy_listing *l, size_t k);

uint64_t fy_inspect_u64_at(const fy_gguf_kv *kv, uint64_t i);
/* The shortest decimal that reads back as the same number. */
void fy_inspect_format_float(char out[32], double v, bool is_f32);

void fy_inspect_put_text(fy_str *out, const fy_listing *l);
void fy_inspect_put_json(fy_str *out, fy_listing *l);

/* Fills l->hashes: SHA-256 of the elements of every tensor, row-major and little-endian. Resident
 * memory stays small. */
int fy_inspect_hash(fy_listing *l, fy_err *e);

#endif
