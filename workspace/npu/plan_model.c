#include "workspace/npu/plan_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/model_header.h"

static bool is_workspace(const char *path)
{
    char *mark = fy_path_join(path, FY_BUNDLE_WORKSPACE_JSON);
    const bool yes = mark != NULL && fy_file_exists(mark);
    free(mark);
    return yes;
}

static int open_workspace(fy_plan_model *m, fy_err *e)
{
    fy_bundle b;
    if (fy_bundle_open(m->path, &b, e) != 0)
        return -1;
    m->gguf = fy_gguf_open(b.weights, e);
    fy_bundle_release(&b);
    return m->gguf != NULL ? 0 : -1;
}

static int open_checkpoint(fy_plan_model *m, fy_err *e)
{
    m->checkpoint = true;
    if (fy_checkpoint_header(m->path, &m->header, e) != 0)
        return -1;
    m->gguf = fy_gguf_parse(m->header.ptr, m->header.len, m->path, true, e);
    return m->gguf != NULL ? 0 : -1;
}

/* By its name: of anything else the reader of GGUF says best what it is. */
static bool is_checkpoint_file(const char *path)
{
    const fy_span s = fy_span_of(path);
    return fy_span_ends(s, ".json") || fy_span_ends(s, ".pt") || fy_span_ends(s, ".pth");
}

static int open_any(fy_plan_model *m, fy_err *e)
{
    if (fy_file_is_dir(m->path))
        return is_workspace(m->path) ? open_workspace(m, e) : open_checkpoint(m, e);
    if (fy_hub_id_is_meant(m->path) || is_checkpoint_file(m->path))
        return open_checkpoint(m, e);
    m->gguf = fy_gguf_open(m->path, e);
    return m->gguf != NULL ? 0 : -1;
}

int fy_plan_model_open(fy_plan_model *m, const char *path, fy_err *e)
{
    *m = (fy_plan_model){.path = path};
    int rc = open_any(m, e);
    if (rc == 0 && fy_npu_model_of(&m->npu, m->gguf, e) != 0)
        rc = fy_ctx(e, "%s", path);
    if (rc != 0)
        fy_plan_model_release(m);
    return rc;
}

void fy_plan_model_release(fy_plan_model *m)
{
    fy_npu_model_release(&m->npu);
    fy_gguf_close(m->gguf);
    fy_str_release(&m->header);
    *m = (fy_plan_model){0};
}

void fy_plan_model_name(const fy_plan_model *m, char *out, size_t n)
{
    fy_span name = fy_path_base(m->path);
    fy_gguf_get_str(m->gguf, FY_KEY_NAME, &name, NULL);
    fy_quote(out, n, name);
}

uint64_t fy_plan_model_params(const fy_plan_model *m)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->npu.n_tensors; i++) {
        const fy_npu_tensor *t = &m->npu.tensors[i];
        const bool computed = t->slot >= FY_T_ROPE_FREQS && t->slot <= FY_T_ROPE_SHORT;
        n += computed ? 0 : t->n_out * t->n_in; /* the reader has found all of it countable */
    }
    return n;
}
