/* GGUF v2/v3 reader (the whole layout: docs/gguf.md).
 *
 * fy_gguf_parse takes bytes and does the work; fy_gguf_open maps a file and parses it, and the
 * others of a split model when it is the first one: their tensors follow its own,
 * the keys are those of the first. Everything is validated before it returns: magic, version,
 * counts against the bytes that are there, key and name rules, types, shapes, sizes, offsets
 * (contiguous and aligned), the data section complete; of a split model, that all its files are
 * there. Code above may trust every field. Names and strings are views into the bytes: they live
 * as long as the fy_gguf (and, for fy_gguf_parse, the caller's buffer). Not NUL-terminated unless
 * stated.
 */
#ifndef FY_FORMAT_GGUF_H
#define FY_FORMAT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "base/types.h"

#define FY_GGUF_MAX_DIMS  4
#define FY_GGUF_MAX_NAME  63 /* bytes of a tensor name */
#define FY_GGUF_ALIGNMENT 32 /* what we write, and the default when the key is absent */

/* Keys of the standard that more than one module knows. */
#define FY_KEY_ARCHITECTURE         "general.architecture"
#define FY_KEY_NAME                 "general.name"
#define FY_KEY_ALIGNMENT            "general.alignment"
#define FY_KEY_FILE_TYPE            "general.file_type"
#define FY_KEY_QUANTIZATION_VERSION "general.quantization_version"
#define FY_KEY_SPLIT_NO             "split.no"
#define FY_KEY_SPLIT_COUNT          "split.count"
#define FY_KEY_SPLIT_TENSORS        "split.tensors.count"
#define FY_KEY_TOKENS               "tokenizer.ggml.tokens"
#define FY_KEY_SPARSE_THRESHOLD     "powerinfer.sparse_threshold"
/* Ours: u32 for each layer, how many of its first neurons are hot (docs/sparse.md). */
#define FY_KEY_HOT_NEURONS "ferry.hot_neurons"

typedef enum {
    FY_KV_U8 = 0,
    FY_KV_I8,
    FY_KV_U16,
    FY_KV_I16,
    FY_KV_U32,
    FY_KV_I32,
    FY_KV_F32,
    FY_KV_BOOL,
    FY_KV_STRING,
    FY_KV_ARRAY,
    FY_KV_U64,
    FY_KV_I64,
    FY_KV_F64,
    FY_KV_COUNT,
} fy_kv_type;

typedef struct {
    fy_span key;
    fy_kv_type type;
    fy_kv_type elem;     /* element type when type is FY_KV_ARRAY, else = type */
    uint64_t count;      /* elements; 1 for a scalar */
    const uint8_t *data; /* view: packed elements (strings: u64 length + bytes each) */
    uint64_t bytes;      /* of data */
} fy_gguf_kv;

typedef struct {
    fy_span name;
    fy_type type;
    uint32_t n_dims;               /* as in the file, 0..4 */
    uint64_t ne[FY_GGUF_MAX_DIMS]; /* elements, ne[0] = row length; missing dims are 1; never 0 */
    uint64_t offset;               /* from the start of the data section */
    uint64_t bytes;
    const uint8_t *data; /* view; NULL when parsed with header_only */
    uint32_t file;       /* of a split model, from 0 */
} fy_gguf_tensor;

typedef struct fy_gguf fy_gguf;

/* `name` is used in messages. With header_only the data section may be missing. NULL on failure. */
fy_gguf *fy_gguf_parse(const void *p, size_t n, const char *name, bool header_only, fy_err *e);
fy_gguf *fy_gguf_open(const char *path, fy_err *e);
fy_gguf *fy_gguf_open_as(const char *path, const fy_map_options *options, fy_err *e);
void fy_gguf_close(fy_gguf *g); /* NULL is fine */

const char *fy_gguf_path(const fy_gguf *g);
size_t fy_gguf_n_files(const fy_gguf *g); /* more than 1: a split model */
const char *fy_gguf_file_path(const fy_gguf *g, size_t i);
uint32_t fy_gguf_version(const fy_gguf *g);
/* Is it one of PowerInfer's files, which begin with these bytes instead of "GGUF" and are laid out
 * alike? What they do not say is not what it is in other files, and their numbers for the types
 * i8, i16 and i32 are others. */
#define FY_GGUF_POWERINFER "PWRI"
bool fy_gguf_is_powerinfer(const fy_gguf *g);
uint64_t fy_gguf_alignment(const fy_gguf *g);
uint64_t fy_gguf_data_offset(const fy_gguf *g); /* of the data section in the (first) file */

/* Where the data of t begins in its file, fy_gguf_file_path(g, t->file). */
uint64_t fy_gguf_tensor_at_byte(const fy_gguf *g, const fy_gguf_tensor *t);
/* Drops [data of t] from resident memory (advice; only for opened files). */
void fy_gguf_drop(const fy_gguf *g, const fy_gguf_tensor *t, uint64_t off, uint64_t len);

size_t fy_gguf_n_kv(const fy_gguf *g);
const fy_gguf_kv *fy_gguf_kv_at(const fy_gguf *g, size_t i);       /* file order */
const fy_gguf_kv *fy_gguf_find(const fy_gguf *g, const char *key); /* NULL when absent; O(1) */

size_t fy_gguf_n_tensors(const fy_gguf *g);
const fy_gguf_tensor *fy_gguf_tensor_at(const fy_gguf *g, size_t i);
const fy_gguf_tensor *fy_gguf_tensor_find(const fy_gguf *g, const char *name); /* O(1) */

/* Typed access. The getters return 0 and set *out, 1 when the key is absent (*out untouched), -1
 * when it has another type (message names key, found, expected). Unsigned getters accept any
 * integer type that fits. */
int fy_gguf_get_u32(const fy_gguf *g, const char *key, uint32_t *out, fy_err *e);
int fy_gguf_get_f32(const fy_gguf *g, const char *key, float *out, fy_err *e); /* f32 or f64 */
int fy_gguf_get_bool(const fy_gguf *g, const char *key, bool *out, fy_err *e);
int fy_gguf_get_str(const fy_gguf *g, const char *key, fy_span *out, fy_err *e);
/* The kv itself if it is an array of `elem`. */
int fy_gguf_get_array(const fy_gguf *g, const char *key, fy_kv_type elem, const fy_gguf_kv **out,
                      fy_err *e);

/* Walks an array of strings: *pos starts at 0 and is moved past the string. Call at most
 * kv->count times. */
fy_span fy_gguf_next_string(const fy_gguf_kv *kv, uint64_t *pos);

/* Element i of an integer kv (scalar or array), widened; of a float kv. No check: the caller knows
 * type and count. */
int64_t fy_gguf_int_at(const fy_gguf_kv *kv, uint64_t i);
double fy_gguf_float_at(const fy_gguf_kv *kv, uint64_t i);

const char *fy_kv_type_name(fy_kv_type t); /* "u32", "string", ... */
size_t fy_kv_type_bytes(fy_kv_type t);     /* of a scalar; 0 for string and array */

/* --- names of a model that is split over several files, as llama.cpp has them:
 * NAME-00001-of-00003.gguf. Keys in each: split.no (u16, from 0), split.count (u16),
 * split.tensors.count (i32, of all files); the other keys are in the first file only. --- */

#define FY_GGUF_MAX_FILES 500 /* all are open at a time; systems allow 1024 */

/* "dir/NAME.gguf" -> "dir/NAME-00001-of-00003.gguf" for no 0 of 3; "dir/NAME.gguf" when count is 1.
 * The caller frees; NULL: out of memory. */
char *fy_gguf_split_name(const char *path, uint32_t no, uint32_t count);

/* The name of file `no`, given that of file `of`; NULL if `path` does not end that way, or out of
 * memory (*oom). The caller frees. */
char *fy_gguf_split_sibling(const char *path, uint32_t of, uint32_t no, uint32_t count, bool *oom);

/* --split-max-size: "400M", "2G", or bytes; M and G are decimal, as in llama.cpp's tools. NULL: 0,
 * no limit. */
int fy_split_size(const char *text, uint64_t *bytes, fy_err *e);

#endif
