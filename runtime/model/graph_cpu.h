/* "chunks": the graphs of a cut model on the CPU, with the decoder of the engine. It has nothing
 * but what an NPU would have: the tensors of arch/graph_io.h. What a token sees is what its mask
 * shows, how it is turned is what the tables of rope say, and what was before it is what the host
 * wrote into the cache. So a host that runs on it has done everything right.
 *
 * A mask is computed where every row shows one run of columns that ends with the row's own token,
 * over columns that some row shows; another one is refused when the graph runs. Sums have the order
 * of the engine's, and the results its bits. */
#ifndef FY_MODEL_GRAPH_CPU_H
#define FY_MODEL_GRAPH_CPU_H

#include "backend/graph_backend.h"
#include "base/file.h"

#define FY_GRAPH_CPU_NAME "chunks"

/* how: comes the chunks into memory (fy_model_open_as). NULL on failure. */
fy_graph_device *fy_graph_cpu_open(const fy_map_options *how, fy_err *e);

#endif
