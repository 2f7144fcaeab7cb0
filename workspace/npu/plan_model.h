/* The model that a verb plans for, of which the header alone is read:
 *
 *   a GGUF file (of a split model the first), or a workspace, whose main model it is;
 *   a checkpoint: a directory with weights or with config.json alone, a file config.json, or
 *   [ORG/]NAME of the hub's cache; as a conversion to f16 makes it. */
#ifndef FY_WORKSPACE_PLAN_MODEL_H
#define FY_WORKSPACE_PLAN_MODEL_H

#include "base/err.h"
#include "base/str.h"
#include "format/gguf.h"
#include "workspace/npu/npu_plan.h"

typedef struct {
    const char *path; /* view: as the user gave it */
    fy_str header;    /* owned; empty: the bytes are a file's */
    fy_gguf *gguf;    /* owned; may be a view of header */
    bool checkpoint;
    fy_npu_model npu;
} fy_plan_model;

/* FY_EUNSUPPORTED for what cannot be cut, and for a piece of a model that was. */
int fy_plan_model_open(fy_plan_model *m, const char *path, fy_err *e);
void fy_plan_model_release(fy_plan_model *m);

/* general.name, else that of file or directory; no more than n bytes with its NUL, quoted. */
void fy_plan_model_name(const fy_plan_model *m, char *out, size_t n);
/* Those that were learned. */
uint64_t fy_plan_model_params(const fy_plan_model *m);

#endif
