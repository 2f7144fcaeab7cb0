/* What a context binary holds, as the library of metadata reads it: its graphs with their inputs
 * and outputs. */
#ifndef FY_BACKEND_QNN_QNN_SYSTEM_H
#define FY_BACKEND_QNN_QNN_SYSTEM_H

#include "backend/qnn/qnn_lib.h"

enum { FY_QNN_GRAPHS_MAX = 256, FY_QNN_TENSORS_MAX = 4096 };

typedef struct {
    const char *name; /* views of the library's memory, until fy_qnn_binary_close */
    uint32_t n_inputs, n_outputs;
    const fy_qnn_tensor *inputs, *outputs;
} fy_qnn_graph_io;

typedef struct {
    fy_qnn_system lib;
    fy_qnn_handle handle;
    uint32_t info_version;
    const char *build_id; /* of the library that made it; view */
    fy_qnn_version core;  /* and its interface */
    uint32_t soc;         /* 0: not told */
    uint32_t n_graphs;
    fy_qnn_graph_io graph[FY_QNN_GRAPHS_MAX];
} fy_qnn_binary;

/* `path`: of the backend's library, beside which that of metadata lies. FY_EFORMAT when the answer
 * does not hold together. */
int fy_qnn_binary_open(const char *path, const void *binary, uint64_t bytes, fy_qnn_binary *out,
                       fy_err *e);
void fy_qnn_binary_close(fy_qnn_binary *b);

#endif
