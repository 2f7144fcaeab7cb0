/* Writes what lies next to the context binaries of a compiled model. */
#include "workspace/compile/compile_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "bundle/bundle.h"
#include "bundle/qnn_config.h"
#include "cli/cut_model.h"
#include "workspace/compile/qstatic.h"
#include "workspace/npu/qnn_check.h"

#define COPY_BYTES (UINT64_C(16) << 20)

static char *config_path(const char *out, fy_err *e)
{
    fy_str path = {0};
    fy_str_printf(&path, "%s/" FY_QNN_DIR "/" FY_QNN_CONFIG_NAME, out);
    if (!path.oom)
        return path.ptr;
    fy_str_release(&path);
    fy_nomem(e);
    return NULL;
}

/* Only what an earlier run has written may go. */
static int check_config(const char *qnn, const char *config, fy_err *e)
{
    fy_qnn_config c;
    if (!fy_file_exists(config))
        return 0;
    if (fy_cut_config_read(qnn, &c, e) != 0)
        return -1;
    const bool ours = c.own.version > 0 && !fy_qnn_has_gguf(&c);
    fy_qnn_config_release(&c);
    return ours ? 0
                : fy_fail(e, FY_EARG,
                          "%s: is of a model that ferry has not compiled; choose another directory",
                          config);
}

int fy_compile_output_begin(const char *out, fy_err *e)
{
    char *config = config_path(out, e), *qnn = fy_path_join(out, FY_QNN_DIR);
    int rc = config == NULL ? -1 : qnn == NULL ? fy_nomem(e) : fy_mkdirs(qnn, e);
    if (rc == 0)
        rc = check_config(qnn, config, e);
    free(qnn);
    free(config);
    return rc;
}

int fy_compile_output_unfinish(const char *out, fy_err *e)
{
    char *config = config_path(out, e);
    const int rc = config == NULL ? -1
                   : unlink(config) == 0 || errno == ENOENT
                       ? 0
                       : fy_fail_errno(e, "%s: cannot remove", config);
    free(config);
    return rc;
}

/* --- the weights for the CPU ------------------------------------------------------------------ */

static int copy(const char *from, const char *to, fy_err *e)
{
    fy_map map;
    if (fy_map_open(&map, from, e) != 0)
        return -1;
    fy_out *o = fy_out_open(to, map.size, e);
    int rc = o != NULL ? 0 : -1;
    for (uint64_t at = 0; rc == 0 && at < map.size; at += COPY_BYTES) {
        const uint64_t n = map.size - at < COPY_BYTES ? map.size - at : COPY_BYTES;
        rc = fy_check_interrupt(e) == 0 ? fy_out_pwrite(o, map.data + at, n, at, e) : -1;
        fy_map_drop(&map, at, n);
    }
    fy_map_close(&map);
    if (rc == 0)
        return fy_out_commit(o, e);
    fy_out_abort(o);
    return -1;
}

int fy_compile_output_weights(const char *weights, const char *out, fy_err *e)
{
    char *to = fy_path_make(out, FY_BUNDLE_WEIGHTS, e);
    int rc = to != NULL ? 0 : -1;
    if (rc == 0 && !fy_file_is_same(weights, to)) {
        unlink(to);
        rc = link(weights, to) == 0 ? 0 : copy(weights, to, e);
    }
    free(to);
    return rc;
}

/* --- qnn/config.json -------------------------------------------------------------------------- */

static void name_binaries(fy_json_maker *m, json_t *graphs)
{
    static const char gguf[] = ".gguf";
    for (size_t i = 0; i < json_array_size(graphs); i++) {
        json_t *g = json_array_get(graphs, i);
        const char *path = json_string_value(json_object_get(g, "model_path"));
        if (path == NULL || !fy_span_ends(fy_span_of(path), gguf))
            continue;
        fy_str name = {0};
        fy_str_printf(&name, "%.*s.bin", (int)(strlen(path) - strlen(gguf)), path);
        fy_make_set(m, g, "model_path", name.oom ? NULL : json_string(name.ptr));
        fy_str_release(&name);
    }
}

static void name_preset(fy_json_maker *m, json_t *graphs, size_t n)
{
    for (size_t i = 0; i < json_array_size(graphs); i++)
        fy_make_set(m, json_array_get(graphs, i), "kv_size", json_integer((json_int_t)n));
}

static json_t *stamp_of(fy_json_maker *m, const fy_compile_stamp *s)
{
    const fy_q_tensor kv = {.type = s->kv}, mask = {.type = s->mask};
    json_t *o = json_object();
    fy_make_set(m, o, "soc", fy_make_text(fy_span_of(s->soc->name)));
    fy_make_set(m, o, "arch", json_integer(s->soc->htp_arch));
    fy_make_set(m, o, "vtcm_mb", json_integer(fy_compile_vtcm_mb(s->soc)));
    fy_make_set(m, o, "build_id", fy_make_text(fy_span_of(s->build_id)));
    fy_make_set(m, o, "recipe", fy_make_text(fy_span_of(s->recipe->name)));
    fy_make_set(m, o, "kv", json_string(fy_q_type_text(&kv)));
    fy_make_set(m, o, "mask", json_string(fy_q_type_text(&mask)));
    if (s->recipe->rotate_keys)
        fy_make_set(m, o, "rotate_keys", json_true());
    if (s->preset->n == 0)
        return o;
    json_t *ids = json_array();
    for (size_t i = 0; i < s->preset->n; i++)
        fy_make_append(m, ids, json_integer(s->preset->id[i]));
    fy_make_set(m, o, "preset_ids", ids);
    return o;
}

/* --- a preset of no tokens -------------------------------------------------------------------- */

/* user: OUT/qnn. */
static int make_empty(void *user, const char *rel, uint64_t bytes, fy_err *e)
{
    if (bytes > 0)
        return 0; /* a binary, what describes it, or a file of a preset (preset.h) */
    char *path = fy_path_make(user, rel, e);
    FILE *f = path != NULL ? fopen(path, "we") : NULL;
    int rc = path != NULL ? 0 : -1;
    if (rc == 0 && (f == NULL || fclose(f) != 0))
        rc = fy_fail_errno(e, "%s: cannot write", path);
    free(path);
    return rc;
}

/* PowerServe's runtime opens the files of a preset also when it has no tokens (fy_qnn_has_preset).
 * Whatever a reader would refuse is refused here. */
static int check(const fy_str *text, const char *out, fy_err *e)
{
    fy_qnn_config c;
    if (fy_qnn_config_parse(text->ptr, text->len, &c, e) != 0)
        return fy_ctx(e, FY_QNN_DIR "/" FY_QNN_CONFIG_NAME);
    const fy_model_json m = {.head_size = c.dims.head_dim, .n_attn_kv_heads = c.dims.n_kv_heads};
    char *qnn = fy_path_join(out, FY_QNN_DIR);
    const int rc = qnn != NULL ? fy_qnn_config_files(&c, &m, make_empty, qnn, e) : fy_nomem(e);
    free(qnn);
    fy_qnn_config_release(&c);
    return rc;
}

/* --- all of it -------------------------------------------------------------------------------- */

static int config_text(const char *path, const fy_compile_stamp *stamp, fy_str *text, fy_err *e)
{
    fy_json_maker m = {0};
    json_t *root = fy_json_data_file(path, e);
    if (root == NULL)
        return -1;
    name_binaries(&m, json_object_get(root, "graphs"));
    name_binaries(&m, json_object_get(root, "embeddings"));
    name_preset(&m, json_object_get(root, "graphs"), stamp->preset->n);
    json_t *own = json_object_get(root, "ferry");
    fy_make_set(&m, own, "soc", fy_make_text(fy_span_of(stamp->soc->name)));
    fy_make_set(&m, own, "recipe", fy_make_text(fy_span_of(stamp->recipe->name)));
    fy_make_set(&m, own, "compiled", stamp_of(&m, stamp));
    if (m.oom) {
        json_decref(root);
        return fy_nomem(e);
    }
    return fy_json_text(root, text, e);
}

int fy_compile_output_config(const char *qnn, const char *out, const fy_compile_stamp *stamp,
                             fy_err *e)
{
    fy_str text = {0};
    char *to = config_path(out, e), *from = fy_path_join(qnn, FY_QNN_CONFIG_NAME);
    int rc = to == NULL ? -1 : from == NULL ? fy_nomem(e) : config_text(from, stamp, &text, e);
    if (rc == 0)
        rc = check(&text, out, e);
    if (rc == 0)
        rc = fy_file_write(to, text.ptr, text.len, e);
    fy_str_release(&text);
    free(from);
    free(to);
    return rc;
}
