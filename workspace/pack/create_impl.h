/* `create` (workspace.h) in three files: create_source.c finds the models, create_runtime.c the
 * programs and libraries, create.c writes the directory. */
#ifndef FY_WORKSPACE_CREATE_IMPL_H
#define FY_WORKSPACE_CREATE_IMPL_H

#include <sys/types.h>

#include "bundle/qnn_config.h"
#include "model/model.h"
#include "workspace/pack/manifest.h"
#include "workspace/data/model_json.h"
#include "workspace/pack/staging.h"
#include "workspace/pack/workspace.h"

/* --- files ------------------------------------------------------------------------------------ */

typedef struct {
    char *from, *rel; /* owned; rel: below the workspace */
    uint32_t mode;
    uint64_t bytes;
    dev_t dev; /* of its file system */
} fy_input;

typedef struct {
    fy_input *item; /* owned */
    size_t n, cap;
} fy_inputs;

/* Of a regular file, links followed. */
int fy_inputs_add(fy_inputs *l, const char *from, const char *rel, uint32_t mode, fy_err *e);
const fy_input *fy_inputs_find(const fy_inputs *l, const char *rel);
void fy_inputs_release(fy_inputs *l);

/* --- models (create_source.c) ----------------------------------------------------------------- */

typedef struct {
    char *path;      /* owned; the GGUF file, or the checkpoint's directory; links resolved */
    char *qnn;       /* owned; directory of its context binaries, with config.json; NULL: none */
    fy_model *model; /* owned; the embedding of a cut model; NULL: a checkpoint not yet converted */
    char name[FY_MODEL_NAME_BYTES];
    uint64_t bytes; /* of the weights; for a checkpoint an upper estimate */
    dev_t dev;
    bool checkpoint, cut;
    fy_model_json json;       /* this and the rest are set with model */
    fy_inputs npu;            /* what goes to MODEL/qnn */
    bool chunks;              /* ... are chunks of ours, not context binaries */
    size_t n_slices;          /* of its head */
    fy_qnn_compiled compiled; /* ... are context binaries of ours; arch 0: they are not */
    uint32_t npu_preset;      /* tokens that its context binaries begin with */
} fy_create_source;

typedef struct {
    fy_create_source *item; /* owned; the main model first */
    size_t n;
    size_t draft; /* index; 0: none */
} fy_create_sources;

int fy_create_sources_open(const fy_create_params *p, fy_create_sources *out, fy_err *e);
void fy_create_sources_release(fy_create_sources *s);
/* Opens the model of a GGUF file, whole or the embedding of one that was cut. Then what is for the
 * NPU is checked. main: it is the main model. */
int fy_create_open_model(fy_create_source *s, const char *path, fy_err *e);
int fy_create_describe(const fy_create_params *p, fy_create_source *s, bool main_model, fy_err *e);
/* FY_EARG unless every token that one of the two may choose is the same token in both. On the NPU
 * both begin at the same position, which PowerServe's runtime asserts. */
int fy_create_check_draft(fy_create_source *main_model, fy_create_source *draft, fy_err *e);

/* bin/: ferry, and with p->exec all that p->exe_path names; every program and library is checked.
 * p->exec must start one of them. */
int fy_create_runtime(const fy_create_params *p, fy_inputs *out, fy_err *e);

/* The architecture whose libraries are taken along: p->htp, or with p->qnn_libs that for which a
 * model was compiled; 0: none. FY_EARG where models are compiled for another one. */
int fy_create_htp(const fy_create_params *p, const fy_create_sources *s, int *htp, fy_err *e);
/* qnn_libs/: the vendor's libraries for htp, new enough for the models that are compiled. Without
 * an SDK that is named they are looked for next to the main model's context binaries. */
int fy_create_qnn_libs(const fy_create_params *p, const fy_create_sources *s, int htp,
                       fy_inputs *out, fy_err *e);

#endif
