/* Inside the GGUF reader: gguf.c parses the bytes of one file, gguf_open.c opens files and joins
 * those of a split model. */
#ifndef FY_FORMAT_GGUF_IMPL_H
#define FY_FORMAT_GGUF_IMPL_H

#include "base/names.h"
#include "format/gguf.h"

typedef struct {
    char *path; /* owned */
    fy_map map; /* empty when the bytes are the caller's */
    uint64_t data_offset;
} fy_gguf_file;

struct fy_gguf {
    fy_gguf_file first;
    fy_gguf_file *files; /* owned unless it is &first; keys and names are views into them all */
    size_t n_files;
    uint32_t version;
    uint64_t alignment;
    fy_gguf_kv *kv; /* owned */
    size_t n_kv, kv_cap;
    fy_gguf_tensor *tensor; /* owned */
    size_t n_tensors, tensor_cap;
    fy_names keys, names;
};

#endif
