/* Between the files of the PyTorch reader. A container (torch_container.c) fills a reader
 * with the root of the pickle and the table of storages; torch_file.c makes tensors of them.
 * Everything here lives while a file is opened; tensors and values keep views of the file only. */
#ifndef FY_FORMAT_TORCH_IMPL_H
#define FY_FORMAT_TORCH_IMPL_H

#include "base/names.h"
#include "format/pickle.h"
#include "format/torch_file.h"
#include "format/zip_dir.h"

typedef struct {
    fy_span key;         /* as persistent ids name it; view of the file */
    const uint8_t *data; /* view of the file */
    uint64_t bytes;
} fy_torch_storage;

typedef struct {
    fy_pickle pickle;
    const fy_pickle_node *root; /* view of `pickle` */
    fy_zip_dir zip;             /* owned; the names of the entries are the keys of the storages */
    fy_torch_storage *storages; /* owned */
    size_t n_storages, cap_storages;
    fy_names by_key; /* key -> storage */
} fy_torch_reader;

int fy_torch_read_zip(fy_torch_reader *r, const uint8_t *p, size_t n, fy_err *e);
int fy_torch_read_legacy(fy_torch_reader *r, const uint8_t *p, size_t n, fy_err *e);

/* For the containers: one more storage. Two with one key are an error. */
int fy_torch_add_storage(fy_torch_reader *r, fy_torch_storage s, fy_err *e);

/* What a call makes, as far as this reader knows. */
typedef enum {
    FY_TORCH_CALL_TENSOR,
    FY_TORCH_CALL_SIZE,  /* torch.Size: its argument is the value */
    FY_TORCH_CALL_OTHER, /* opaque */
} fy_torch_call;

fy_torch_call fy_torch_call_kind(const fy_pickle_node *call);

/* The tensor that a call of FY_TORCH_CALL_TENSOR makes, without a name. Its offset and strides are
 * inside its storage. */
int fy_torch_read_tensor(const fy_torch_reader *r, const fy_pickle_node *call, fy_torch_tensor *out,
                         fy_err *e);

/* "module.name" of the class or function that makes a call's value. */
void fy_torch_put_global(fy_str *out, const fy_pickle_node *v);

/* A persistent id, taken apart: ('storage', type, key, location, elements, view). */
typedef struct {
    fy_span key;
    fy_dtype dtype;
    bool untyped;           /* a storage of bytes; dtype means nothing */
    uint64_t elems;         /* of the storage; bytes when it is untyped */
    uint64_t offset, count; /* the range of it that is used, in the same unit */
} fy_torch_ref;

/* FY_EUNSUPPORTED for types of storage without a dtype here (quantized, complex128). */
int fy_torch_read_ref(const fy_pickle_node *id, fy_torch_ref *out, fy_err *e);
uint64_t fy_torch_ref_elem_bytes(const fy_torch_ref *ref);

#endif
