/* Reader of PyTorch checkpoints (.bin, .pt, .pth): the zip archive of torch >= 1.6 and the legacy
 * pickle stream before it. The pickle is walked, never run: dicts, lists, tuples, numbers, strings
 * and the few globals that tensors are made of (torch._utils._rebuild_tensor*, storages, dtypes,
 * torch.Size, OrderedDict) are understood; any other global is an opaque value that is ignored, or
 * an error that names it when a tensor depends on it.
 *
 * fy_torch_parse takes bytes, fy_torch_open maps a file. Everything is checked before they return:
 * the archive (stored entries only, no duplicates, every entry inside the file, zip64), offset and
 * strides of each tensor inside its storage, the byte order. Tensors may share a storage, be views
 * of a part of it, or not be contiguous. TorchScript archives, tar files and big-endian files are
 * refused by name. Source: torch/serialization.py, torch/_utils.py, Python's pickletools. */
#ifndef FY_FORMAT_TORCH_FILE_H
#define FY_FORMAT_TORCH_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "base/types.h"

typedef struct {
    fy_span name; /* keys of nested dicts and indices of lists, joined with dots */
    fy_dtype dtype;
    uint32_t rank;
    uint64_t shape[FY_MAX_RANK];  /* torch order: shape[rank-1] is the row length */
    uint64_t stride[FY_MAX_RANK]; /* in elements */
    uint64_t bytes;               /* of its elements: product of the shape times the element */
    bool contiguous;              /* row-major without gaps: `data` holds `bytes` bytes in a row */
    uint32_t storage;             /* tensors with the same number share one */
    const uint8_t *data;          /* view: the element [0, ..., 0]; any alignment */
} fy_torch_tensor;

/* A value other than a tensor: a number, truth value or text somewhere in the file. */
typedef enum { FY_TORCH_INT, FY_TORCH_FLOAT, FY_TORCH_BOOL, FY_TORCH_TEXT } fy_torch_kind;

typedef struct {
    fy_span name; /* as of tensors: "model_args.dim" */
    fy_torch_kind kind;
    int64_t i; /* FY_TORCH_INT, FY_TORCH_BOOL */
    double f;  /* FY_TORCH_FLOAT */
    fy_span text;
} fy_torch_value;

/* A value that only a program could make, and the Python class or function it asks for. */
typedef struct {
    fy_span name;   /* as of tensors */
    fy_span global; /* "argparse.Namespace" */
} fy_torch_opaque;

typedef struct fy_torch fy_torch;

/* By the first bytes: a zip archive or a pickle, which fy_torch_open would try to read. */
bool fy_torch_looks_like(const void *p, size_t n);

/* `name` is used in messages. NULL on failure. */
fy_torch *fy_torch_parse(const void *p, size_t n, const char *name, fy_err *e);
fy_torch *fy_torch_open(const char *path, fy_err *e);
void fy_torch_close(fy_torch *t); /* NULL is fine */

const char *fy_torch_path(const fy_torch *t);
const char *fy_torch_container(const fy_torch *t); /* "zip" or "legacy" */
const fy_map *fy_torch_map(const fy_torch *t);     /* of the file; NULL when parsed from bytes */

size_t fy_torch_n_tensors(const fy_torch *t);
const fy_torch_tensor *fy_torch_tensor_at(const fy_torch *t, size_t i); /* in file order */
const fy_torch_tensor *fy_torch_find(const fy_torch *t, fy_span name);  /* NULL when absent; O(1) */

size_t fy_torch_n_values(const fy_torch *t);
const fy_torch_value *fy_torch_value_at(const fy_torch *t, size_t i);
const fy_torch_value *fy_torch_find_value(const fy_torch *t,
                                          const char *name); /* NULL when absent */

size_t fy_torch_n_opaque(const fy_torch *t);
const fy_torch_opaque *fy_torch_opaque_at(const fy_torch *t, size_t i);

/* Copies n elements in row-major order, from number `first` on, through the strides: what `data`
 * holds in a row when the tensor is contiguous. first + n is at most the number of elements. */
void fy_torch_gather(const fy_torch_tensor *t, uint64_t first, uint64_t n, void *out);

#endif
