/* The share of a GPU in feed-forward networks: rows of gate, up and ffn_down_t of the neurons that
 * are hot lie in its memory, and it computes
 *
 *     a = f(Wgate x + bgate) * (Wup x + bup)  (or f(Wup x + bup));  y = the sum of a times down
 *
 * while the CPU does the same for the other neurons. The sums are of floats, in an order that
 * depends on the device: y is the CPU's but for rounding, and the same in every run.
 *
 * Life: a device; once the layers, which are copied to it; then, for each call, begin and end. One
 * thread at a time uses it. After a failure it is of no more use. As fy_graph_backend it is a table
 * of functions, and the backend has its own function that makes one. */
#ifndef FY_BACKEND_GPU_H
#define FY_BACKEND_GPU_H

#include "backend/backend_cpu.h"

typedef struct fy_gpu fy_gpu;

/* Views, until `load` returns. All matrices have a row for each neuron; no rows: the GPU has no
 * share in the layer. */
typedef struct {
    fy_matrix gate, up, down;         /* gate.data NULL: there is none */
    const float *gate_bias, *up_bias; /* NULL: none */
} fy_gpu_layer;

typedef struct {
    void (*close)(fy_gpu *g); /* NULL is fine */
    /* Checks types and sizes, and copies the rows. FY_EUNSUPPORTED, FY_EFIT when the memory of the
     * device is too small, FY_EDEVICE. */
    int (*load)(fy_gpu *g, const fy_gpu_layer *layers, uint32_t n_layers, const fy_activation *f,
                fy_err *e);
    /* Begins y [n_tokens][n_cols] for x [n_tokens][n_cols]; both stay until `end`, which waits. */
    int (*begin)(fy_gpu *g, uint32_t layer, const float *x, int64_t n_tokens, float *y, fy_err *e);
    int (*end)(fy_gpu *g, fy_err *e);
} fy_gpu_api;

/* A backend's own struct begins with it. */
struct fy_gpu {
    const fy_gpu_api *api;
    char device[64]; /* its name, escaped */
};

#endif
