/* qnn/config.json's graphs for a model whose embedding is open: on the CPU (model/chain.h). */
#ifndef FY_CLI_MODEL_CHUNKS_H
#define FY_CLI_MODEL_CHUNKS_H

#include "base/file.h"
#include "model/model.h"

/* m: the weights beside the directory qnn. FY_EUNSUPPORTED for graphs that are compiled. */
int fy_model_add_chunks(fy_model *m, const char *qnn, const fy_map_options *how, fy_err *e);

/* Calls `each` for the files that its tensors are in: its own, and of a model of graphs the chunks.
 */
typedef void fy_model_file(void *user, const fy_gguf *g);
int fy_model_each_file(const fy_model *m, fy_model_file *each, void *user, fy_err *e);

#endif
