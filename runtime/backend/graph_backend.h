/* What runs the graphs of a cut model: an NPU, or the CPU in its place (model/chain.h). A graph
 * has one batch size and tensors of fixed shapes, which arch/graph_io.h lists; docs/npu-graphs.md
 * describes who writes what when.
 *
 * Life: a device; on it the chunks (files) that are loaded; of a chunk the graphs, each bound once
 * to the memory that its tensors have from then on. Between begin and end graphs run: the host
 * writes the inputs, run returns when the outputs are there. One thread at a time uses a device.
 * Tensors that several graphs name may lie in the same memory.
 *
 * A backend is a table of functions and its own function that makes a device. Only the backend
 * knows what a chunk's file contains. */
#ifndef FY_BACKEND_GRAPH_BACKEND_H
#define FY_BACKEND_GRAPH_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct fy_graph_backend fy_graph_backend;
typedef struct fy_graph_chunk fy_graph_chunk;
typedef struct fy_graph fy_graph;

/* A backend's own struct begins with it. */
typedef struct {
    const fy_graph_backend *api;
} fy_graph_device;

/* What a tensor is made of. Of the fixed types value = scale * (code + offset). */
typedef enum { FY_EL_F32, FY_EL_F16, FY_EL_U16, FY_EL_S16, FY_EL_U8 } fy_element;

static inline uint32_t fy_element_bytes(fy_element t)
{
    return t == FY_EL_F32 ? 4 : t == FY_EL_U8 ? 1 : 2;
}
static inline const char *fy_element_name(fy_element t)
{
    static const char names[][4] = {"f32", "f16", "u16", "s16", "u8"};
    return names[t];
}

#define FY_GRAPH_TENSOR_NAME 48

typedef struct {
    char name[FY_GRAPH_TENSOR_NAME];
    fy_element type;
    float scale; /* with offset: of a fixed type */
    int32_t offset;
    bool output;
    uint64_t rows, cols; /* row-major */
} fy_graph_tensor;

/* Which chunk a file should be. The backend refuses a file that says otherwise. */
typedef struct {
    const char *path;
    const char *model;               /* the cut's number (fy_chunk_info.model); "": not known */
    uint32_t first_layer, end_layer; /* none: it is an lm_head, of these tokens: */
    uint32_t first_token, end_token;
} fy_graph_file;

typedef struct {
    const char *name; /* of the graph in its chunk */
    uint32_t n_batch, n_cache, n_ctx;
    float mask_value;               /* of what a mask hides; 0 is what it shows */
    const fy_graph_tensor *tensors; /* [n_tensors], inputs first */
    void *const *buffers;           /* [n_tensors], of `take`; they stay until unbind */
    uint32_t n_tensors;
} fy_graph_binding;

/* Constructors return NULL, the others -1 on failure; what ends a thing takes NULL. */
struct fy_graph_backend {
    const char *name; /* as --backend has it */
    bool npu_keys; /* keys are made for an NPU (docs/npu-compile.md), not as the model has them */
    void (*close)(fy_graph_device *d);
    fy_graph_chunk *(*load)(fy_graph_device *d, const fy_graph_file *f, fy_err *e);
    void (*unload)(fy_graph_chunk *p);
    /* Fills in type, scale and offset of the graph's tensors, whose names, shapes and directions
     * the host knows; FY_EFORMAT when the graph has others. NULL: the host chooses the types,
     * floats. */
    int (*describe)(fy_graph_chunk *p, const char *graph, fy_graph_tensor *tensors, uint32_t n,
                    fy_err *e);
    /* Memory that host and graphs share, cleared; tensors begin at multiples of `align` in it, a
     * power of two. NULL: any memory will do (fy_graph_take). */
    void *(*take)(fy_graph_device *d, uint64_t bytes, fy_err *e);
    void (*give)(fy_graph_device *d, void *memory);
    uint32_t align;
    /* FY_EFORMAT when the graph's tensors are not these. */
    fy_graph *(*bind)(fy_graph_chunk *p, const fy_graph_binding *b, fy_err *e);
    void (*unbind)(fy_graph *g);
    /* What `begin` takes when the largest graph is this one (its name and tensors are not looked
     * at) and the cache has elements of type kv. NULL: nothing that is known. */
    int (*begin_bytes)(const fy_graph_device *d, const fy_graph_binding *largest, fy_element kv,
                       int n_threads, uint64_t *bytes, fy_err *e);
    /* All graphs are bound: takes what running them needs. n_threads: of the CPU. Both NULL:
     * nothing. */
    int (*begin)(fy_graph_device *d, int n_threads, fy_err *e);
    void (*end)(fy_graph_device *d);
    int (*run)(fy_graph *g, fy_err *e);
    /* After FY_ELOST of `run`: everything as it was before, on the memory that was taken, which
     * keeps what it holds; the graph can run again. NULL: nothing is ever lost. */
    int (*recover)(fy_graph_device *d, fy_err *e);
};

#endif
