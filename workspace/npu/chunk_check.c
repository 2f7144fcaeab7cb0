#include "workspace/npu/chunk.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "arch/graph_io.h"
#include "base/file.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/cut_model.h"
#include "workspace/npu/chunk_tensors.h"
#include "workspace/npu/qnn_check.h"

static const fy_cut_piece *piece_of(const fy_cut_model *m, const fy_qnn_graph *g)
{
    for (size_t i = 0; i < m->n_pieces; i++) {
        if (strcmp(m->piece[i].path, g->model_path) == 0)
            return &m->piece[i];
    }
    return NULL;
}

/* --- a piece in the model --------------------------------------------------------------------- */

/* Of which model, and the same one. */
static int check_model(const fy_cut_model *m, const fy_cut_piece *p, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_span arch = {"", 0};
    const bool whole = m->part.kind == FY_CHUNK_WHOLE;
    const char *model = whole ? m->piece[0].part.model : m->part.model;
    fy_gguf_get_str(p->gguf, FY_KEY_ARCHITECTURE, &arch, NULL);
    if (!fy_span_is(arch, m->family->gguf_arch))
        return fy_fail(e, FY_EVERIFY,
                       "architecture is '%s', not '%s' as " FY_BUNDLE_WEIGHTS " says",
                       fy_quote(shown, sizeof shown, arch), m->family->gguf_arch);
    if (fy_hparams_compare(&p->hp, &m->hp, FY_BUNDLE_WEIGHTS, e) != 0)
        return -1;
    if (strcmp(p->part.model, model) != 0)
        return fy_fail(e, FY_EVERIFY,
                       "is a piece of model %.12s..., but %s%s of %.12s...; expected pieces of one "
                       "cut",
                       p->part.model, whole ? FY_QNN_DIR "/" : "",
                       whole ? m->piece[0].path : FY_BUNDLE_WEIGHTS " is the embedding", model);
    if (m->config.own.version > 0 && strcmp(p->part.model, m->config.own.model) != 0)
        return fy_fail(e, FY_EVERIFY,
                       "is a piece of model %.12s..., but " FY_QNN_CONFIG_NAME
                       " (ferry.model) was written for %.12s...",
                       p->part.model, m->config.own.model);
    return 0;
}

/* Number so-and-so of so many of its kind, each there once; some may be compiled. */
static int check_index(const fy_cut_model *m, const fy_cut_piece *p, fy_err *e)
{
    const fy_qnn_config *c = &m->config;
    const bool all = p->part.kind == FY_CHUNK_LAYERS
                         ? fy_chunk_none_compiled(c->graph, c->n_graphs)
                         : fy_chunk_none_compiled(c->embedding, c->n_embeddings);
    uint32_t n = 0;
    for (size_t i = 0; i < m->n_pieces; i++) {
        const fy_cut_piece *o = &m->piece[i];
        n += o->part.kind == p->part.kind;
        if (o < p && o->part.kind == p->part.kind && o->part.index == p->part.index)
            return fy_fail(e, FY_EVERIFY,
                           FY_CHUNK_KEYS "index is %u, which is that of " FY_QNN_DIR "/%s, too",
                           p->part.index, o->path);
    }
    return n == p->part.count || (!all && n < p->part.count)
               ? 0
               : fy_fail(e, FY_EVERIFY,
                         FY_CHUNK_KEYS "count is %u, but " FY_QNN_CONFIG_NAME
                                       " names %u piece%s of this kind",
                         p->part.count, n, n == 1 ? "" : "s");
}

/* The names of a list of strings against the graph's. */
static int check_seam(const fy_cut_piece *p, const char *key, bool outputs, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const fy_gguf_kv *list;
    fy_io_tensor t;
    uint64_t pos = 0;
    uint32_t seen = 0;
    const int rc = fy_gguf_get_array(p->gguf, key, FY_KV_STRING, &list, e);
    if (rc != 0)
        return rc > 0 ? fy_fail(e, FY_EVERIFY, "key %s is missing", key) : -1;
    for (; fy_graph_seam(&p->hp, &p->part, outputs, seen, &t); seen++) {
        const fy_span found =
            seen < list->count ? fy_gguf_next_string(list, &pos) : FY_SPAN("nothing");
        if (seen >= list->count || !fy_span_is(found, t.name))
            return fy_fail(e, FY_EVERIFY, "%s: [%u] is %s, expected %s", key, seen,
                           fy_quote(shown, sizeof shown, found), t.name);
    }
    return seen == list->count ? 0
                               : fy_fail(e, FY_EVERIFY, "%s: %llu names, expected %u", key,
                                         (unsigned long long)list->count, seen);
}

static int check_piece(const fy_cut_model *m, const fy_cut_piece *p, fy_err *e)
{
    int rc = check_model(m, p, e);
    if (rc == 0 && p->part.kind == FY_CHUNK_EMBEDDING)
        rc = fy_fail(e, FY_EVERIFY, "is the embedding, expected layers or the lm_head");
    if (rc == 0)
        rc = check_index(m, p, e);
    if (rc == 0)
        rc = check_seam(p, FY_CHUNK_INPUTS, false, e);
    if (rc == 0)
        rc = check_seam(p, FY_CHUNK_OUTPUTS, true, e);
    if (rc == 0)
        rc = fy_chunk_check_tensors(m, p->gguf, &p->part, e);
    return rc == 0 ? 0 : fy_ctx(e, FY_QNN_DIR "/%s", p->path);
}

/* --- the configuration ------------------------------------------------------------------------ */

static int check_names(const fy_qnn_graph *g, const char *out, fy_err *e)
{
    const char *const pairs[][3] = {{"x_name", g->x_name, "x"}, {"out_name", g->out_name, out}};
    char shown[FY_QUOTE_BYTES];
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(pairs[i][1], pairs[i][2]) != 0)
            return fy_fail(e, FY_EVERIFY, "%s is '%s', expected '%s'", pairs[i][0],
                           fy_quote(shown, sizeof shown, fy_span_of(pairs[i][1])), pairs[i][2]);
    }
    return 0;
}

static int check_layers(const fy_cut_piece *p, const fy_qnn_graph *g, fy_err *e)
{
    const fy_chunk_info *part = &p->part;
    if (part->kind != FY_CHUNK_LAYERS)
        return fy_fail(e, FY_EVERIFY, "%s holds the lm_head, expected layers", p->path);
    if (part->first_layer != g->start_layer || part->end_layer != g->end_layer)
        return fy_fail(e, FY_EVERIFY, "start_layer_id %u, end_layer_id %u, but %s holds %u to %u",
                       g->start_layer, g->end_layer, p->path, part->first_layer, part->end_layer);
    return check_names(g, "out", e);
}

static int check_tokens(const fy_cut_piece *p, const fy_qnn_graph *g, fy_err *e)
{
    const fy_chunk_info *part = &p->part;
    const uint32_t end = g->end_token > 0 ? g->end_token : p->hp.n_vocab;
    if (part->kind != FY_CHUNK_HEAD)
        return fy_fail(e, FY_EVERIFY, "%s holds layers, expected the lm_head", p->path);
    if (part->first_token != g->first_token || part->end_token != end)
        return fy_fail(e, FY_EVERIFY, "tokens %u to %u, but %s holds %u to %u", g->first_token, end,
                       p->path, part->first_token, part->end_token);
    return check_names(g, "logits", e);
}

static int check_graphs(const fy_cut_model *m, fy_err *e)
{
    const fy_qnn_config *c = &m->config;
    fy_model_json json;
    int rc = fy_model_json_of(m->family, &m->hp, "model", &json, e);
    if (rc == 0)
        rc = fy_qnn_config_compare(c, &json, e);
    for (size_t i = 0; rc == 0 && i < c->n_graphs; i++) {
        const fy_cut_piece *p = piece_of(m, &c->graph[i]);
        if (p != NULL && (rc = check_layers(p, &c->graph[i], e)) != 0)
            fy_ctx(e, "graphs[%zu]", i);
    }
    for (size_t i = 0; rc == 0 && i < c->n_embeddings; i++) {
        const fy_cut_piece *p = piece_of(m, &c->embedding[i]);
        if (p != NULL && (rc = check_tokens(p, &c->embedding[i], e)) != 0)
            fy_ctx(e, "embeddings[%zu]", i);
    }
    if (rc == 0 && c->n_embeddings == 0 && m->part.kind == FY_CHUNK_EMBEDDING)
        rc = fy_fail(e, FY_EVERIFY,
                     "names no lm_head (embeddings), and " FY_BUNDLE_WEIGHTS
                     " is the embedding alone");
    return rc == 0 ? 0 : fy_ctx(e, FY_QNN_DIR "/" FY_QNN_CONFIG_NAME);
}

/* A piece that nothing computes was left behind, or its graphs were lost. */
static int check_unnamed(const fy_cut_model *m, const char *qnn, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    int rc = 0;
    DIR *d = opendir(qnn);
    if (d == NULL)
        return fy_fail_errno(e, "%s: cannot list", qnn);
    for (struct dirent *en; rc == 0 && (en = readdir(d)) != NULL;) {
        const fy_qnn_graph g = {.model_path = en->d_name};
        if (fy_qnn_is_gguf(&g) && piece_of(m, &g) == NULL)
            rc = fy_fail(e, FY_EVERIFY,
                         FY_QNN_DIR "/%s: is not named by " FY_QNN_CONFIG_NAME
                                    ", expected only its pieces",
                         fy_quote(shown, sizeof shown, fy_span_of(en->d_name)));
    }
    closedir(d);
    return rc;
}

/* --- all -------------------------------------------------------------------------------------- */

int fy_chunk_check_model(const fy_cut_model *m, const char *qnn, fy_err *e)
{
    const char *refusal = fy_cut_refusal(&m->hp);
    int rc = refusal != NULL ? fy_fail(e, FY_EUNSUPPORTED, "%s: cannot be cut: %s",
                                       fy_gguf_path(m->weights), refusal)
                             : check_graphs(m, e);
    for (size_t i = 0; rc == 0 && i < m->n_pieces; i++)
        rc = check_piece(m, &m->piece[i], e);
    if (rc == 0 && m->part.kind == FY_CHUNK_EMBEDDING &&
        (rc = fy_chunk_check_tensors(m, m->weights, &m->part, e)) != 0)
        fy_ctx(e, FY_BUNDLE_WEIGHTS);
    if (rc == 0)
        rc = fy_chunk_check_places(m, e);
    return rc == 0 ? check_unnamed(m, qnn, e) : rc;
}

int fy_chunk_check_files(const char *weights, const char *qnn, fy_err *e)
{
    fy_cut_model m;
    if (fy_cut_model_open(weights, qnn, &m, e) != 0)
        return -1;
    const int rc = fy_chunk_check_model(&m, qnn, e);
    fy_cut_model_close(&m);
    return rc;
}

int fy_chunk_check(const char *dir, fy_err *e)
{
    char *weights = fy_path_join(dir, FY_BUNDLE_WEIGHTS), *qnn = fy_path_join(dir, FY_QNN_DIR);
    const int rc =
        weights != NULL && qnn != NULL ? fy_chunk_check_files(weights, qnn, e) : fy_nomem(e);
    free(weights);
    free(qnn);
    return rc;
}
