/* What a workspace asks of a phone: space for its files, memory for its models. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/math.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "bundle/qnn_config.h"
#include "cli/machine.h"
#include "cli/model_chunks.h"
#include "workspace/phone/doctor.h"
#include "workspace/phone/phone_workspace.h"

/* A tied output matrix of a cut model is there twice and counts once as parameters. */
static void add_file(void *user, const fy_gguf *g)
{
    fy_need *out = user;
    bool tied = false;
    fy_gguf_get_bool(g, FY_CHUNK_KEYS "tied", &tied, NULL);
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        uint64_t elems = 1;
        for (uint32_t d = 0; d < t->n_dims; d++)
            elems *= (uint64_t)t->ne[d]; /* the reader has checked that this fits */
        out->parameters += tied && fy_span_is(t->name, "output.weight") ? 0 : elems;
        out->weights += t->bytes;
    }
}

/* As `ferry run` and `chat` would open it. qnn: its graphs; NULL: none. */
static int add_model(const char *path, const char *qnn, const fy_session_params *p, fy_need *out,
                     fy_err *e)
{
    const fy_machine_options machine = {.backend = FY_BACKEND_AUTO};
    fy_session_plan plan;
    fy_model *m = fy_machine_open(&machine, path, qnn, e);
    if (m == NULL || fy_session_plan_of(m, p, &plan, e) != 0 ||
        fy_model_each_file(m, add_file, out, e) != 0) {
        fy_model_close(m);
        return -1;
    }
    out->kv += plan.kv_bytes;
    out->scratch += plan.scratch_bytes;
    if (out->n_ctx == 0)
        out->n_ctx = plan.params.n_ctx;
    fy_model_close(m);
    return 0;
}

/* The draft's graphs are not in the bundle, which names the main model's. */
static int add_draft(const char *dir, const char *draft, const fy_session_params *p, fy_need *out,
                     fy_err *e)
{
    fy_str weights = {0}, qnn = {0};
    fy_str_printf(&weights, "%s/%s/" FY_BUNDLE_WEIGHTS, dir, draft);
    fy_str_printf(&qnn, "%s/%s/" FY_QNN_DIR, dir, draft);
    const int rc =
        weights.oom || qnn.oom
            ? fy_nomem(e)
            : add_model(fy_str_z(&weights), fy_file_is_dir(fy_str_z(&qnn)) ? fy_str_z(&qnn) : NULL,
                        p, out, e);
    fy_str_release(&weights);
    fy_str_release(&qnn);
    return rc;
}

/* "qnn_libs/libQnnHtpV75Skel.so" -> 75. */
static int arch_of_lib(const char *path)
{
    static const char prefix[] = "libQnnHtpV";
    const char *at = strstr(path, prefix);
    return at != NULL ? atoi(at + sizeof prefix - 1) : 0;
}

static int read_manifest(const char *dir, fy_need *out, fy_err *e)
{
    fy_manifest m;
    if (fy_manifest_read(dir, &m, e) != 0)
        return -1;
    for (size_t i = 0; i < m.n; i++) {
        const char *path = m.entry[i].path;
        if (!fy_add_u64(out->bytes, m.entry[i].bytes, &out->bytes))
            out->bytes = UINT64_MAX;
        out->npu |= strncmp(path, "qnn_libs/", 9) == 0 || strstr(path, "/qnn/") != NULL;
        int arch = strncmp(path, "qnn_libs/", 9) == 0 ? arch_of_lib(path) : 0;
        if (arch > 0 && arch < 1000)
            out->npu_arch = arch;
    }
    fy_manifest_release(&m);
    return 0;
}

static int read_exec(const char *dir, char **exec, fy_err *e)
{
    fy_map map;
    char *path = fy_path_join(dir, FY_BUNDLE_WORKSPACE_JSON);
    int rc = path != NULL ? fy_map_open(&map, path, e) : fy_nomem(e);
    if (rc == 0) {
        rc = fy_workspace_exec((fy_span){(const char *)map.data, map.size}, exec, e);
        fy_map_close(&map);
    }
    free(path);
    return rc;
}

static int add_models(const char *dir, fy_session_params *p, fy_need *out, fy_err *e)
{
    fy_bundle b;
    char *exec;
    if (fy_bundle_open(dir, &b, e) != 0)
        return -1;
    if (read_exec(dir, &exec, e) != 0) {
        fy_bundle_release(&b);
        return -1;
    }
    p->n_batch = b.batch_size > 0 && b.batch_size <= UINT32_MAX ? (uint32_t)b.batch_size : 0;
    fy_err why = {0};
    int rc = add_model(b.weights, b.qnn, p, out, &why);
    if (rc != 0 && exec != NULL) { /* a model for another runtime: all of it may be read */
        out->weights = out->bytes;
        rc = 0;
    }
    if (rc != 0)
        fy_fail(e, why.code, "%s", why.msg);
    if (rc == 0 && exec == NULL && b.model_draft != NULL)
        rc = add_draft(dir, b.model_draft, p, out, e);
    fy_bundle_release(&b);
    free(exec);
    return rc;
}

int fy_need_of(const char *dir, uint32_t n_ctx, fy_type type_k, fy_type type_v, fy_need *out,
               fy_err *e)
{
    fy_local_workspace w;
    fy_session_params p = {.n_ctx = n_ctx, .type_k = type_k, .type_v = type_v};
    *out = (fy_need){0};
    int found = fy_local_workspace_of(dir, &w, e);
    if (found < 0)
        return -1;
    if (found == 0 || w.rel[0] != '\0') {
        fy_local_workspace_release(&w);
        return fy_fail(e, FY_EARG, "%s: is no workspace; 'ferry create' makes one", dir);
    }
    out->dir = w.dir;
    out->name = w.name;
    memcpy(out->sha256, w.sha256, sizeof out->sha256);
    free(w.rel);
    if (read_manifest(dir, out, e) == 0 && add_models(dir, &p, out, e) == 0)
        return 0;
    fy_need_release(out);
    return -1;
}

void fy_need_release(fy_need *n)
{
    free(n->dir);
    free(n->name);
    *n = (fy_need){0};
}
