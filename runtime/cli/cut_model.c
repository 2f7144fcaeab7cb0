/* A model that was cut into chunks for an NPU: opens the headers of its files, and builds the chain
 * with which the CPU computes its graphs. */
#include "cli/cut_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/names.h"
#include "base/str.h"
#include "model/chain.h"

int fy_cut_config_read(const char *qnn, fy_qnn_config *out, fy_err *e)
{
    fy_map map;
    char *path = fy_path_join(qnn, FY_QNN_CONFIG_NAME);
    int rc = path == NULL ? fy_nomem(e) : fy_map_open(&map, path, e);
    if (rc == 0) {
        if ((rc = fy_qnn_config_parse(map.data, map.size, out, e)) != 0)
            fy_ctx(e, "%s", path);
        fy_map_close(&map);
    }
    free(path);
    return rc;
}

int fy_cut_header(const fy_gguf *g, const fy_family **family, fy_hparams *hp, fy_chunk_info *info,
                  fy_err *e)
{
    fy_span arch = {"", 0};
    char shown[FY_QUOTE_BYTES];
    if (fy_gguf_get_str(g, FY_KEY_ARCHITECTURE, &arch, e) < 0)
        return -1;
    *family = fy_family_of_file(g);
    if (*family == NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "architecture '%s' is unknown, expected a family that ferry computes",
                       fy_quote(shown, sizeof shown, arch));
    return fy_hparams_from_gguf(g, *family, hp, e) != 0 ? -1
                                                        : fy_chunk_info_from_gguf(g, hp, info, e);
}

/* --- opening --- */

static int open_weights(const char *path, fy_cut_model *m, fy_err *e)
{
    char what[FY_CHUNK_TEXT_BYTES];
    m->weights = fy_gguf_open(path, e);
    if (m->weights == NULL)
        return -1;
    if (fy_cut_header(m->weights, &m->family, &m->hp, &m->info, e) != 0)
        return fy_ctx(e, "%s", path);
    return m->info.kind == FY_CHUNK_WHOLE || m->info.kind == FY_CHUNK_EMBEDDING
               ? 0
               : fy_fail(e, FY_EVERIFY,
                         "%s: holds %s of a model that was cut, expected its embedding", path,
                         fy_chunk_text(&m->info, &m->hp, what));
}

static int open_chunk(const char *qnn, const char *rel, fy_cut_chunk *p, fy_err *e)
{
    const fy_family *family;
    char *path = fy_path_join(qnn, rel);
    p->path = rel;
    p->gguf = path != NULL ? fy_gguf_open(path, e) : NULL;
    int rc = path == NULL ? fy_nomem(e) : p->gguf != NULL ? 0 : -1;
    if (rc == 0 && (rc = fy_cut_header(p->gguf, &family, &p->hp, &p->info, e)) == 0 &&
        p->info.kind == FY_CHUNK_WHOLE)
        rc = fy_fail(e, FY_EVERIFY,
                     "has no key " FY_CHUNK_KEYS "kind: is not a chunk of a cut model");
    if (rc != 0 && p->gguf != NULL)
        fy_ctx(e, "%s", path);
    free(path);
    return rc;
}

static int open_chunks(const char *qnn, const fy_qnn_config_graph *g, size_t n, fy_names *seen,
                       fy_cut_model *m, fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (!fy_qnn_is_gguf(&g[i]))
            continue;
        const int added = fy_names_add(seen, fy_span_of(g[i].model_path), 0);
        if (added < 0)
            return fy_nomem(e);
        if (added == 0 && open_chunk(qnn, g[i].model_path, &m->chunk[m->n_chunks++], e) != 0)
            return -1;
    }
    return 0;
}

int fy_cut_model_open(const char *weights, const char *qnn, fy_cut_model *out, fy_err *e)
{
    fy_cut_model m = {0};
    fy_names seen = {0};
    int rc = fy_cut_config_read(qnn, &m.config, e);
    if (rc == 0)
        rc = open_weights(weights, &m, e);
    if (rc == 0) {
        m.chunk = calloc(m.config.n_graphs + m.config.n_embeddings, sizeof *m.chunk);
        rc = m.chunk == NULL ? fy_nomem(e)
                             : open_chunks(qnn, m.config.graph, m.config.n_graphs, &seen, &m, e);
    }
    if (rc == 0)
        rc = open_chunks(qnn, m.config.embedding, m.config.n_embeddings, &seen, &m, e);
    fy_names_release(&seen);
    if (rc == 0)
        *out = m;
    else
        fy_cut_model_close(&m);
    return rc;
}

void fy_cut_model_close(fy_cut_model *m)
{
    for (size_t i = 0; i < m->n_chunks; i++)
        fy_gguf_close(m->chunk[i].gguf);
    free(m->chunk);
    fy_gguf_close(m->weights);
    fy_qnn_config_release(&m->config);
    *m = (fy_cut_model){0};
}

/* --- its graphs on a device --- */

static int put_graph(const fy_qnn_config_graph *g, const char *qnn, uint32_t n_vocab,
                     fy_chain_graph_spec *to, fy_err *e)
{
    const bool head = g->start_layer == g->end_layer;
    *to = (fy_chain_graph_spec){.path = fy_path_join(qnn, g->model_path),
                                .name = g->graph_name,
                                .x_name = g->x_name,
                                .out_name = g->out_name,
                                .n_batch = g->batch_size,
                                .first_layer = g->start_layer,
                                .end_layer = g->end_layer,
                                .first_token = g->first_token,
                                .end_token = head && g->end_token == 0 ? n_vocab : g->end_token};
    return to->path != NULL ? 0 : fy_nomem(e);
}

static int put_graphs(const fy_qnn_config *c, const char *qnn, uint32_t n_vocab,
                      fy_chain_graph_spec *to, fy_err *e)
{
    for (size_t i = 0; i < c->n_graphs + c->n_embeddings; i++) {
        const fy_qnn_config_graph *g =
            i < c->n_graphs ? &c->graph[i] : &c->embedding[i - c->n_graphs];
        if (put_graph(g, qnn, n_vocab, &to[i], e) != 0)
            return -1;
    }
    return 0;
}

/* --- its preset ------------------------------------------------------------------------------- */

/* n floats of a file, which the caller frees; NULL on failure. */
static float *read_floats(const char *path, size_t n, fy_err *e)
{
    fy_map map;
    if (fy_map_open(&map, path, e) != 0)
        return NULL;
    float *v = map.size == n * sizeof *v ? malloc(map.size) : NULL;
    if (map.size != n * sizeof *v)
        fy_fail(e, FY_EFORMAT, "%s: %zu bytes, expected %zu (kv_size times head_dim floats)", path,
                map.size, n * sizeof *v);
    else if (v == NULL)
        fy_nomem(e);
    else
        memcpy(v, map.data, map.size);
    fy_map_close(&map);
    for (size_t i = 0; v != NULL && i < n; i++) {
        if (!isfinite(v[i])) {
            fy_fail(e, FY_EFORMAT, "%s: value %zu is not a finite number", path, i);
            free(v);
            v = NULL;
        }
    }
    return v;
}

static float *read_preset_file(const fy_qnn_config *c, const char *qnn, size_t pair, bool values,
                               const fy_hparams *hp, fy_err *e)
{
    fy_str rel = {0};
    fy_qnn_preset_path(c, (uint32_t)(pair / hp->n_head_kv), values ? "value" : "key",
                       (uint32_t)(pair % hp->n_head_kv), &rel);
    char *path = !rel.oom ? fy_path_join(qnn, fy_str_z(&rel)) : NULL;
    const size_t n = (size_t)c->kv_size * (values ? hp->head_dim_v : hp->head_dim);
    float *v = path != NULL ? read_floats(path, n, e) : (fy_nomem(e), NULL);
    fy_str_release(&rel);
    free(path);
    return v;
}

static void log_preset(const fy_qnn_config *c, fy_preset_mode mode)
{
    if (mode == FY_PRESET_NEVER)
        fy_log(FY_LOG_WARN,
               "--preset never: the graphs were calibrated for texts after a preset of %u tokens "
               "(kv_size); without it answers may be worse",
               c->kv_size);
    else if (c->own.compiled.preset_ids == NULL)
        fy_log(FY_LOG_INFO,
               "every text follows a preset of %u tokens (kv_size); the package does not list them",
               c->kv_size);
}

/* *ids moves from the configuration into the preset. */
static int read_preset(fy_qnn_config *c, const char *qnn, const fy_hparams *hp, fy_preset_mode mode,
                       fy_chain_preset *out, fy_err *e)
{
    fy_chain_preset p = {.n = c->kv_size};
    const size_t n_pairs = (size_t)hp->n_layer * hp->n_head_kv;
    if (c->kv_size == 0)
        return 0;
    log_preset(c, mode);
    if (mode == FY_PRESET_NEVER)
        return 0;
    p.ids = c->own.compiled.preset_ids;
    c->own.compiled.preset_ids = NULL;
    p.keys = calloc(n_pairs, sizeof *p.keys);
    p.values = calloc(n_pairs, sizeof *p.values);
    int rc = p.keys != NULL && p.values != NULL ? 0 : fy_nomem(e);
    for (; rc == 0 && p.n_pairs < n_pairs; p.n_pairs++) {
        p.keys[p.n_pairs] = read_preset_file(c, qnn, p.n_pairs, false, hp, e);
        if (p.keys[p.n_pairs] == NULL)
            break;
        p.values[p.n_pairs] = read_preset_file(c, qnn, p.n_pairs, true, hp, e);
        if (p.values[p.n_pairs] == NULL) {
            free(p.keys[p.n_pairs]);
            break;
        }
    }
    if (rc == 0 && p.n_pairs == n_pairs) {
        *out = p;
        return 0;
    }
    fy_chain_preset_release(&p);
    return -1;
}

int fy_model_add_graphs(fy_model *m, const char *qnn, fy_graph_device *device, fy_preset_mode mode,
                        fy_err *e)
{
    fy_qnn_config c;
    if (fy_cut_config_read(qnn, &c, e) != 0) {
        device->api->close(device);
        return -1;
    }
    const size_t n = c.n_graphs + c.n_embeddings;
    fy_chain_graph_spec *graphs = calloc(n, sizeof *graphs);
    fy_chain_preset preset = {0};
    const fy_chain_spec spec = {.graphs = graphs,
                                .n_graphs = n,
                                .n_cache = c.cache_size,
                                .n_ctx = c.context_size,
                                .mask_value = (float)c.attention_mask_value,
                                .model = c.own.model,
                                .rotate_keys = c.own.compiled.rotate_keys,
                                .preset = &preset};
    int rc = graphs != NULL ? 0 : fy_nomem(e);
    if (rc == 0)
        rc = put_graphs(&c, qnn, fy_model_hparams(m)->n_vocab, graphs, e);
    if (rc == 0)
        rc = read_preset(&c, qnn, fy_model_hparams(m), mode, &preset, e);
    if (rc != 0)
        device->api->close(device);
    else if ((rc = fy_model_chain(m, device, &spec, e)) != 0)
        fy_ctx(e, "%s", qnn);
    for (size_t i = 0; graphs != NULL && i < n; i++)
        free((char *)(uintptr_t)graphs[i].path);
    free(graphs);
    fy_chain_preset_release(&preset);
    fy_qnn_config_release(&c);
    return rc;
}

int fy_model_add_chunks(fy_model *m, const char *qnn, const fy_map_options *how, fy_err *e)
{
    fy_graph_device *device = fy_graph_cpu_open(how, e);
    return device != NULL ? fy_model_add_graphs(m, qnn, device, FY_PRESET_AUTO, e) : -1;
}

int fy_model_each_file(const fy_model *m, fy_model_file *each, void *user, fy_err *e)
{
    each(user, fy_model_gguf(m));
    for (size_t i = 0; i < fy_model_n_chunks(m); i++) {
        if (!fy_span_ends(fy_span_of(fy_model_chunk_path(m, i)), ".gguf"))
            continue;
        fy_gguf *g = fy_gguf_open(fy_model_chunk_path(m, i), e);
        if (g == NULL)
            return -1;
        each(user, g);
        fy_gguf_close(g);
    }
    return 0;
}
