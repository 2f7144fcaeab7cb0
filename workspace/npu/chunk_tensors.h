/* The tensors of the pieces of a cut model: those that each has to hold and no other, in the shapes
 * that the hyperparameters say, and all together every tensor of the model once. */
#ifndef FY_WORKSPACE_CHUNK_TENSORS_H
#define FY_WORKSPACE_CHUNK_TENSORS_H

#include "cli/cut_model.h"

/* Messages name the tensor and not the file. */
int fy_chunk_check_tensors(const fy_cut_model *m, const fy_gguf *g, const fy_chunk_info *part,
                           fy_err *e);
/* Are all of these graphs chunks? */
bool fy_chunk_none_compiled(const fy_qnn_graph *g, size_t n);
/* By ferry.chunk.places. The copies of several slices of the lm_head have to be equal, and the id
 * of all tensors that of ferry.chunk.model: of each the first 4 KiB are read. */
int fy_chunk_check_places(const fy_cut_model *m, fy_err *e);

#endif
