/* What the operations of a context binary take beside the weights: their code and tables, counted
 * from the very graphs that will be compiled (qgraph.h). The rates are measured on the vendor's
 * compiler: docs/npu.md. */
#ifndef FY_WORKSPACE_NPU_OPS_H
#define FY_WORKSPACE_NPU_OPS_H

#include "workspace/npu/npu_count.h"
#include "workspace/npu/qgraph.h"

enum { FY_NPU_GRAPH_BYTES = 64000 }; /* of a graph, whatever is in it */

/* Of an output channel of a matrix, beside its scale; graphs that share weights share it. */
uint64_t fy_npu_channel_tables(uint64_t n_out);
/* The nodes of a layer, in the graphs of all batch sizes, each with the borders of a graph: what a
 * chunk of that layer alone has. FY_EFIT: the recipe's types cannot be composed. */
int fy_npu_layer_ops(const fy_npu_counter *c, uint32_t layer, uint64_t *bytes, fy_err *e);
/* The nodes of a slice of the lm_head: of 32 tokens, and of each 32 more. */
int fy_npu_head_ops(const fy_npu_counter *c, uint64_t *first, uint64_t *more, fy_err *e);

/* A context binary that has these graphs of one chunk, which share their weights: what a plan has
 * counted as its weights and op_bytes. */
void fy_npu_count_graphs(const fy_qgraph *graphs, size_t n, uint64_t *weights, uint64_t *op_bytes);

/* Memory of the process that compiles it: an estimate, seldom exceeded. */
uint64_t fy_npu_compile_peak(uint64_t weights, uint64_t op_bytes, uint32_t n_graphs);
/* Seconds that this takes on two cores, for so many weights. */
uint64_t fy_npu_compile_seconds(uint64_t n_weights, uint32_t n_graphs, bool float_core);

#endif
