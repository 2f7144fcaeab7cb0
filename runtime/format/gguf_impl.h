/* Inside the GGUF reader (gguf.c parses the bytes of one file, gguf_open.c opens files and joins
 * those of a split model) and the writer (gguf_write.c plans, gguf_write_head.c
 * makes the beginning, gguf_write_file.c writes). */
#ifndef FY_FORMAT_GGUF_IMPL_H
#define FY_FORMAT_GGUF_IMPL_H

#include "base/arena.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/names.h"
#include "format/gguf.h"
#include "format/gguf_write.h"

/* In PowerInfer's files i8, i16 and i32 have the ids 16 to 18, as in ggml when it left. */
enum { FY_POWERINFER_I8 = 16, FY_POWERINFER_I32 = FY_POWERINFER_I8 + FY_I32 - FY_I8 };

/* Tensors have elements, but for lists of neurons in PowerInfer's split files. */
static inline bool fy_gguf_may_be_empty(bool powerinfer, const fy_gguf_tensor *t)
{
    return powerinfer && t->type == FY_I32 && t->n_dims == 1;
}

/* --- the reader --- */

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
    bool powerinfer;
    uint64_t alignment;
    fy_gguf_kv *kv; /* owned */
    size_t n_kv, kv_cap;
    fy_gguf_tensor *tensor; /* owned */
    size_t n_tensors, tensor_cap;
    fy_names keys, names;
};

/* --- the writer --- */

#define FY_WRITER_KEYS_BYTES (256u << 10)

/* Encoded keys, in blocks that never move: no copy and no second buffer for a large vocabulary. */
typedef struct fy_writer_keys {
    struct fy_writer_keys *next; /* owned */
    size_t used;
    uint8_t data[FY_WRITER_KEYS_BYTES];
} fy_writer_keys;

/* One file of the output: tensors [first, first + n). */
typedef struct {
    size_t first, n;
    uint64_t info_bytes, tensor_bytes, data_bytes; /* data_bytes: padded */
} fy_writer_file;

struct fy_gguf_writer {
    fy_writer_keys *first, *last; /* owned; freed once they are written */
    uint64_t kv_bytes, n_kv;
    uint8_t *string_count; /* view of the keys: the count of the open string array; NULL: none */
    uint64_t n_strings;
    uint64_t alignment;
    uint64_t split_bytes; /* 0: one file */
    bool powerinfer;
    fy_names keys, names;
    fy_arena arena;          /* names and tensors */
    fy_gguf_tensor **tensor; /* owned; the tensors live in the arena */
    size_t n_tensors, tensor_cap;
    fy_writer_file *files; /* owned; at least one */
    size_t n_files, files_cap;
    uint64_t data_bytes; /* of all files */
    bool broken;         /* an allocation failed half way through a key */
    bool written;
};

int fy_writer_check_open(const fy_gguf_writer *w, const char *what, fy_err *e);
void fy_writer_free_keys(fy_gguf_writer *w);

/* gguf_write_head.c */

/* Where the bytes of a header go: a file, a hash, or memory. */
typedef struct {
    fy_out *out;
    uint64_t at;
    fy_sha256 *hash;
    fy_str *text;
} fy_writer_sink;
int fy_writer_emit_header(const fy_gguf_writer *w, size_t file, fy_writer_sink *to, fy_err *e);
uint64_t fy_writer_data_begin(const fy_gguf_writer *w, size_t file);
uint64_t fy_writer_file_bytes(const fy_gguf_writer *w, size_t file);
#define FY_WRITER_PIECE_BYTES (1u << 20) /* output that one thread fills at a time */
/* SHA-256 of the headers and of how they are cut into pieces, as a line. */
int fy_writer_add_plan(const fy_gguf_writer *w, fy_str *s, fy_err *e);

#endif
