/* What chain.c tells chain_run.c of the graphs. */
#ifndef FY_MODEL_CHAIN_IMPL_H
#define FY_MODEL_CHAIN_IMPL_H

#include "model/chain.h"

const fy_chunk_info *fy_chain_info_of(const fy_chain *c, size_t graph);
/* kv: of the caches, where the graphs do not fix it. */
fy_graph_shape fy_chain_shape_of(const fy_chain *c, const fy_hparams *hp, size_t graph,
                                 fy_element kv);
/* The n tensors of a graph, in fy_graph_io's order; the caller frees them. NULL on failure. */
fy_graph_tensor *fy_chain_tensors_of(const fy_chain *c, const fy_graph_shape *shape, size_t graph,
                                     uint32_t n, fy_err *e);

/* After a failure of the device: 0 when the NPU was lost and everything is as it was before, so
 * that what failed can be tried again; else -1 with *why, or why that failed. */
int fy_chain_recover(const fy_chain *c, const fy_err *why, fy_err *e);

#endif
