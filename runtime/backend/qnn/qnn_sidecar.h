/* NAME.json next to a context binary NAME.bin: what the binary holds, for a runtime that composes
 * calls from it without asking the library of metadata, and for a compiler that resumes.
 *
 *     {"version": 1, "model": "<64 hex digits>", "key": "<the same>",
 *      "binary": {"bytes": 1, "sha256": "..."},
 *      "library": {"build_id": "v2.51...", "core": "2.40.0", "sha256": "..."},
 *      "soc": {"name": "SM8650", "id": 57, "arch": 75, "vtcm_mb": 8}, "recipe": "16a8w",
 *      "rope_nodes": false, "shared": true, "mask": {"type": "u16", "depth": 80},
 *      "graphs": [{"name": "batch_128", "batch": 128, "tensors": [{"name": "x", "id": 1,
 *          "direction": "in", "type": "f32", "dims": [128, 256], "scale": 0, "offset": 0}]}]}
 *
 * Text of any origin is checked while it is read: types and ranges, that no tensor has more bytes
 * than the interface can tell, that fixed types have a scale and floats none, that every tensor but
 * the caches has a row for each token of the batch, that names, ids and batches are there once, and
 * that the masks (attn_bias, attn_bias_swa) are what "mask" says. */
#ifndef FY_BACKEND_QNN_QNN_SIDECAR_H
#define FY_BACKEND_QNN_QNN_SIDECAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { FY_QNN_SIDECAR_VERSION = 1, FY_QNN_SIDECAR_RANK = 4 };

/* An input or output of a graph. value = scale * (code + offset); scale 0: it holds floats. */
typedef struct {
    char *name; /* owned */
    uint32_t id;
    uint32_t type; /* FY_QNN_FLOAT_32, ... */
    uint32_t rank, dims[FY_QNN_SIDECAR_RANK];
    bool output;
    double scale;   /* fits a float */
    int64_t offset; /* fits 32 bits */
} fy_qnn_sidecar_tensor;

typedef struct {
    char *name; /* owned: "batch_128" */
    uint32_t n_batch;
    fy_qnn_sidecar_tensor *tensors; /* owned; in the order of arch/graph_io.h */
    size_t n_tensors;
} fy_qnn_sidecar_graph;

typedef struct {
    uint32_t version;
    /* Empty or 0 where they were not read from a file (qnn_metadata.h): model, key, sha256,
     * library_sha256, all of soc, recipe. */
    char model[65];  /* the model that was cut: fy_chunk_info.model */
    char key[65];    /* of all that the binary was made from; "": unknown */
    uint64_t bytes;  /* of the binary */
    char sha256[65]; /* of the binary */
    char build_id[64], core[32], library_sha256[65];
    char soc[64], recipe[64];
    uint32_t soc_id, arch, vtcm_mb;
    bool rope_nodes;    /* rotation is six nodes instead of one */
    bool shared;        /* the graphs share their weights */
    uint32_t mask_type; /* FY_QNN_UFIXED_16 or FY_QNN_FLOAT_16; 0: the graphs have no mask */
    double mask_depth;  /* of a fixed type: what the lowest code adds is minus this */
    fy_qnn_sidecar_graph *graphs; /* owned */
    size_t n_graphs;
} fy_qnn_sidecar;

int fy_qnn_sidecar_parse(const void *p, size_t n, fy_qnn_sidecar *out, fy_err *e);
int fy_qnn_sidecar_read(const char *path, fy_qnn_sidecar *out, fy_err *e);
void fy_qnn_sidecar_put(const fy_qnn_sidecar *s, fy_str *out); /* appends its text */
int fy_qnn_sidecar_write(const fy_qnn_sidecar *s, const char *path, fy_err *e);
void fy_qnn_sidecar_release(fy_qnn_sidecar *s);

#endif
