/* The directory that `ferry compile` writes, without the binaries: OUT/ggml/weights.gguf, and
 * OUT/qnn/config.json, which comes last. */
#ifndef FY_WORKSPACE_COMPILE_OUTPUT_H
#define FY_WORKSPACE_COMPILE_OUTPUT_H

#include "model/vocab/vocab.h"
#include "workspace/compile/compile_chunk.h"

/* Makes OUT/qnn; FY_EARG where it has a config.json that is not of a compiled model. */
int fy_compile_output_begin(const char *out, fy_err *e);
/* Removes that of an earlier run, because a directory that has one is whole: right before the first
 * binary may change. */
int fy_compile_output_unfinish(const char *out, fy_err *e);

/* OUT/ggml/weights.gguf: the same file under a second name, or a copy. */
int fy_compile_output_weights(const char *weights, const char *out, fy_err *e);

/* What the binaries were made for and with: config.json's "ferry.compiled". */
typedef struct {
    const fy_soc *soc;
    const fy_npu_recipe *recipe;
    const char *build_id; /* of the library */
    fy_q_type kv, mask;   /* of the caches and the masks */
    const fy_ids *preset; /* which tokens texts begin with; none: n 0 */
} fy_compile_stamp;

/* CUT/qnn/config.json with the binaries in place of the chunks, as OUT/qnn/config.json. */
int fy_compile_output_config(const char *qnn, const char *out, const fy_compile_stamp *stamp,
                             fy_err *e);

#endif
