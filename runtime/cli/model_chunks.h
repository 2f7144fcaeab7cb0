/* qnn/config.json's graphs for a model whose embedding is open: on the CPU (model/graph_cpu.h). */
#ifndef FY_CLI_MODEL_CHUNKS_H
#define FY_CLI_MODEL_CHUNKS_H

#include "base/file.h"
#include "model/model.h"

/* m: the weights beside the directory qnn. FY_EUNSUPPORTED for graphs that are compiled. */
int fy_model_add_chunks(fy_model *m, const char *qnn, const fy_map_how *how, fy_err *e);

#endif
