/* qnn/config.json of a model against model.json and against the files that it names. */
#include "workspace/npu/qnn_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/names.h"
#include "bundle/bundle.h"
#include "bundle/npu_canary.h"
#include "workspace/npu/compiled.h"

#define MAX_HEAD 65536 /* elements of a head, and heads */

/* --- against the model ------------------------------------------------------------------------ */

int fy_qnn_config_compare(const fy_qnn_config *c, const fy_model_json *m, fy_err *e)
{
    const struct {
        const char *name, *of;
        int64_t found, expected;
    } pairs[] = {
        {"graphs cover", "n_layers", c->n_layers, m->n_layers},
        {"model_parameters.n_layers is", "n_layers", c->dims.n_layers, m->n_layers},
        {"embeddings cover", "vocab_size", c->n_tokens > 0 ? (int64_t)c->n_tokens : -1,
         m->vocab_size},
        {"model_parameters.vocab_size is", "vocab_size", c->dims.vocab_size, m->vocab_size},
        {"model_parameters.embed_dim is", "embed_dim", c->dims.embed_dim, m->embed_dim},
        {"model_parameters.ffn_hidden_dim is", "ffn_dim", c->dims.ffn_hidden_dim, m->ffn_dim},
        {"model_parameters.head_dim is", "head_size", c->dims.head_dim, m->head_size},
        {"model_parameters.n_kv_heads is", "n_attn_kv_heads", c->dims.n_kv_heads,
         m->n_attn_kv_heads},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (pairs[i].found >= 0 && pairs[i].found != pairs[i].expected)
            return fy_fail(e, FY_EVERIFY, "%s %lld, " FY_BUNDLE_MODEL_JSON " says %s %lld",
                           pairs[i].name, (long long)pairs[i].found, pairs[i].of,
                           (long long)pairs[i].expected);
    }
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

/* With what describes it, where ferry has compiled it. */
static int one_binary(const char *path, bool compiled, fy_qnn_file *each, void *user, fy_err *e)
{
    fy_str sidecar = {0};
    int rc = each(user, path, FY_QNN_ANY_BYTES, e);
    if (rc == 0 && compiled) {
        fy_qnn_sidecar_path(path, &sidecar);
        rc = sidecar.oom ? fy_nomem(e) : each(user, sidecar.ptr, FY_QNN_ANY_BYTES, e);
    }
    fy_str_release(&sidecar);
    return rc;
}

static int each_binary(const fy_qnn_config_graph *g, size_t n, bool compiled, fy_names *seen,
                       fy_qnn_file *each, void *user, fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        int added = fy_names_add(seen, fy_span_of(g[i].model_path), 0);
        if (added < 0)
            return fy_nomem(e);
        if (added == 0 && one_binary(g[i].model_path, compiled, each, user, e) != 0)
            return -1;
    }
    return 0;
}

/* One file per layer, KV head, and key or value: f32 [kv_size][head_size]. */
static int each_preset(const fy_qnn_config *c, const fy_model_json *m, fy_qnn_file *each,
                       void *user, fy_err *e)
{
    static const char *const types[] = {"key", "value"};
    if (m->head_size < 1 || m->head_size > MAX_HEAD || m->n_attn_kv_heads < 1 ||
        m->n_attn_kv_heads > MAX_HEAD)
        return fy_fail(e, FY_EFORMAT,
                       FY_BUNDLE_MODEL_JSON ": head_size %lld, n_attn_kv_heads %lld, expected 1 to "
                                            "%d",
                       (long long)m->head_size, (long long)m->n_attn_kv_heads, MAX_HEAD);
    uint64_t bytes = (uint64_t)m->head_size * c->kv_size * sizeof(float);
    fy_str path = {0};
    int rc = 0;
    for (uint32_t layer = 0; rc == 0 && layer < c->n_layers; layer++) {
        for (int64_t i = 0; rc == 0 && i < 2 * m->n_attn_kv_heads; i++) {
            fy_qnn_preset_path(c, layer, types[i % 2], (uint32_t)(i / 2), &path);
            rc = path.oom ? fy_nomem(e) : each(user, fy_str_z(&path), bytes, e);
        }
    }
    fy_str_release(&path);
    return rc;
}

int fy_qnn_config_files(const fy_qnn_config *c, const fy_model_json *m, fy_qnn_file *each,
                        void *user, fy_err *e)
{
    const bool compiled = c->own.compiled.arch > 0;
    fy_names seen = {0};
    int rc = each_binary(c->graph, c->n_graphs, compiled, &seen, each, user, e);
    if (rc == 0)
        rc = each_binary(c->embedding, c->n_embeddings, compiled, &seen, each, user, e);
    if (rc == 0 && c->vision != NULL)
        rc = each_binary(c->vision, 1, false, &seen, each, user, e);
    fy_names_release(&seen);
    if (rc == 0 && compiled)
        rc = each(user, FY_CANARY_NAME, FY_QNN_ANY_BYTES, e);
    return rc == 0 && fy_qnn_has_preset(c) ? each_preset(c, m, each, user, e) : rc;
}

/* user: a pointer to the directory's name. */
static int check_file(void *user, const char *rel, uint64_t bytes, fy_err *e)
{
    const char *const *dir = user;
    struct stat st;
    char *path = fy_path_join(*dir, rel);
    if (path == NULL)
        return fy_nomem(e);
    int rc = 0;
    if (stat(path, &st) != 0)
        rc = errno == ENOENT || errno == ENOTDIR
                 ? fy_fail(e, FY_EVERIFY, "%s: missing, " FY_QNN_CONFIG_NAME " needs it", rel)
                 : fy_fail_errno(e, "%s: cannot read its size", rel);
    else if (!S_ISREG(st.st_mode))
        rc = fy_fail(e, FY_EVERIFY, "%s: is not a regular file", rel);
    else if (bytes == FY_QNN_ANY_BYTES ? st.st_size == 0 : (uint64_t)st.st_size != bytes)
        rc = bytes == FY_QNN_ANY_BYTES
                 ? fy_fail(e, FY_EVERIFY, "%s: is empty", rel)
                 : fy_fail(e, FY_EVERIFY,
                           "%s: %llu bytes, expected %llu (kv_size x head_size floats)", rel,
                           (unsigned long long)st.st_size, (unsigned long long)bytes);
    free(path);
    return rc;
}

int fy_qnn_check_dir(const char *dir, const fy_model_json *m, fy_qnn_config *out, fy_err *e)
{
    fy_map map;
    fy_qnn_config c;
    char *path = fy_path_join(dir, FY_QNN_CONFIG_NAME);
    if (path == NULL)
        return fy_nomem(e);
    int rc = fy_file_exists(path) ? fy_map_open(&map, path, e)
                                  : fy_fail(e, FY_EFORMAT,
                                            FY_QNN_CONFIG_NAME
                                            ": missing; it says which file computes which layers");
    free(path);
    if (rc != 0)
        return rc;
    rc = fy_qnn_config_parse(map.data, map.size, &c, e);
    fy_map_close(&map);
    if (rc != 0)
        return fy_ctx(e, FY_QNN_CONFIG_NAME);
    rc = fy_qnn_config_compare(&c, m, e) != 0 ? fy_ctx(e, FY_QNN_CONFIG_NAME)
                                              : fy_qnn_config_files(&c, m, check_file, &dir, e);
    if (rc == 0)
        rc = fy_compiled_check(dir, &c, e);
    if (rc == 0 && out != NULL)
        *out = c;
    else
        fy_qnn_config_release(&c);
    return rc;
}
