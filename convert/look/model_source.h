/* Any model that ferry can look at, as a list of tensors whose values are read as f32:
 *
 *   a GGUF file (of a split model: the first of its files stands for all), or a workspace, whose
 *   main model it is;
 *   a safetensors or PyTorch file, under the names that it has;
 *   a checkpoint directory, under the names that the classes of transformers give its tensors, or
 *   as the GGUF file that a conversion to f32 would write.
 *
 * Opening reads headers only. Values are read in blocks, by several threads at once if need be, and
 * the reader drops what it has read, so that memory does not grow with the model. */
#ifndef FY_CONVERT_MODEL_SOURCE_H
#define FY_CONVERT_MODEL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json_tree.h"
#include "base/names.h"
#include "base/str.h"
#include "convert/source/checkpoint.h"
#include "convert/write/planned_gguf.h"
#include "format/gguf.h"

typedef enum {
    FY_SOURCE_GGUF,
    FY_SOURCE_WORKSPACE,
    FY_SOURCE_FILE, /* of a checkpoint */
    FY_SOURCE_CHECKPOINT,
    FY_SOURCE_PLANNED, /* a checkpoint as the GGUF file it would become */
} fy_source_kind;

typedef struct {
    fy_span name;
    const char *type; /* as stored: "q4_0"; "BF16" in checkpoints; "f32" of FY_SOURCE_PLANNED */
    uint32_t rank;
    uint64_t shape[FY_MAX_RANK]; /* slowest dimension first: shape[rank - 1] is the row length */
    uint64_t n_elems;            /* may be 0 */
    uint64_t bytes;              /* stored */
    uint64_t offset;             /* in the data section; PyTorch's files have none: in the file */
    const char *file;            /* view: of a checkpoint the one that holds it; else NULL */
    uint64_t unit;               /* reads begin and end at multiples of so many elements */
    bool readable;               /* has values that are numbers of a kind that ferry reads */
    const uint8_t
        *raw;     /* view: its `bytes` in a row; NULL: they are scattered, or have to be scaled */
    size_t index; /* for fy_source_read */
} fy_source_tensor;

/* An open model. All fields are for reading. */
typedef struct {
    char *path; /* owned */
    fy_source_kind kind;
    const fy_gguf *keys;      /* view: of GGUF, workspace and planned; else NULL */
    const char *no_tokenizer; /* view: why the tokenizer's keys are not in a planned one, or NULL */
    const fy_st *st;          /* view: of a file, if it is a safetensors one */
    const fy_torch *torch;    /* view: if it is one of PyTorch */
    fy_source_tensor *tensors; /* owned */
    size_t n_tensors, cap_tensors;
    fy_names index;
    fy_gguf *gguf; /* owned; one of these three */
    fy_ckpt *ckpt;
    fy_planned_gguf *planned;
    fy_hf_config config; /* of ckpt */
    fy_kernels kernels;
} fy_source;

fy_source *fy_source_open(const char *path, fy_err *e); /* NULL on failure */
/* `path`, a checkpoint, as FY_SOURCE_PLANNED; at most n_threads will read at once. */
fy_source *fy_source_open_planned(const char *path, int n_threads, fy_err *e);
void fy_source_close(fy_source *s); /* NULL is fine */

const char *fy_source_what(const fy_source *s);                           /* "a GGUF file", ... */
const fy_source_tensor *fy_source_find(const fy_source *s, fy_span name); /* NULL when absent */

/* out[n] = elements [first, first + n) in row-major order; they must exist, t be readable, both
 * numbers be multiples of t->unit. `thread` below n_threads. A checkpoint that is read as it would
 * be converted fails where the conversion would. */
int fy_source_read(fy_source *s, const fy_source_tensor *t, uint64_t first, uint64_t n, float *out,
                   int thread, fy_err *e);
/* How many bytes n elements take, a multiple of the unit. */
uint64_t fy_source_bytes_of(const fy_source_tensor *t, uint64_t n);
/* Drops elements that were read from resident memory (advice). */
void fy_source_drop(fy_source *s, const fy_source_tensor *t, uint64_t first, uint64_t n);

/* The index of element i, slowest dimension first. */
void fy_source_index(const fy_source_tensor *t, uint64_t i, uint64_t at[FY_MAX_RANK]);

/* --- values as short text that is safe for a terminal ----------------------------------------- */

/* "[2, 17]": a shape or an index. */
void fy_put_shape(fy_str *out, uint32_t rank, const uint64_t *shape);
json_t *fy_shape_json(fy_json_maker *m, uint32_t rank, const uint64_t *shape);
/* The width that a column of names needs for one more; very long ones stick out. */
size_t fy_name_column(size_t width, fy_span name);
/* A name, quoted, and the spaces that fill its column. */
void fy_put_name(fy_str *out, fy_span name, size_t width);
/* The shortest decimal that reads back as the same number. */
void fy_format_float(char out[32], double v, bool is_f32);
void fy_put_float(fy_str *out, double v, bool is_f32);
/* In quotes, cut when it is long. */
void fy_put_short_string(fy_str *out, fy_span s);
/* Element i of any kind; *pos walks the strings of an array, beginning with 0. */
void fy_kv_put_element(fy_str *out, const fy_gguf_kv *kv, uint64_t i, uint64_t *pos);
/* The value; of an array its size and first elements. */
void fy_kv_put(fy_str *out, const fy_gguf_kv *kv);

#endif
