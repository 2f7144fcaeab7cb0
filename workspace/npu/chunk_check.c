/* What verify checks of a cut model without reading its weights: every layer and token once, the
 * shapes at the seams, the tensors of each chunk, the model it is of, config.json against the
 * chunks. */
#include "workspace/npu/chunk_impl.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/graph_io.h"
#include "base/file.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "cli/cut_model.h"
#include "workspace/npu/chunk.h"
#include "workspace/npu/qnn_check.h"

static const fy_cut_chunk *chunk_of(const fy_cut_model *m, const fy_qnn_config_graph *g)
{
    for (size_t i = 0; i < m->n_chunks; i++) {
        if (strcmp(m->chunk[i].path, g->model_path) == 0)
            return &m->chunk[i];
    }
    return NULL;
}

/* --- what a chunk holds ----------------------------------------------------------------------- */

static int check_there(const fy_cut_model *m, const fy_gguf *g, const fy_chunk_info *info,
                       fy_err *e)
{
    char shown[FY_QUOTE_BYTES], what[FY_CHUNK_TEXT_BYTES], found[FY_SHAPE_BYTES],
        expected[FY_SHAPE_BYTES];
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        uint32_t layer = 0;
        const fy_tensor_row *row = fy_row_of_gguf(m->family, t->name, &layer);
        uint64_t ne[FY_GGUF_MAX_DIMS];
        if (row == NULL || !fy_chunk_holds(info, row, layer))
            return fy_fail(e, FY_EVERIFY, "holds '%s', expected only the tensors of %s",
                           fy_quote(shown, sizeof shown, t->name),
                           fy_chunk_text(info, &m->hp, what));
        const uint32_t n = fy_chunk_row_shape(info, &m->hp, row, ne);
        if (memcmp(ne, t->ne, sizeof ne) != 0)
            return fy_fail(e, FY_EVERIFY, "'%s' has shape %s, expected %s",
                           fy_quote(shown, sizeof shown, t->name),
                           fy_shape_text(t->ne, t->n_dims, found), fy_shape_text(ne, n, expected));
    }
    return 0;
}

static int check_missing(const fy_cut_model *m, const fy_gguf *g, const fy_chunk_info *info,
                         fy_err *e)
{
    const fy_family *f = m->family;
    char name[FY_ROW_NAME_BYTES];
    for (size_t i = 0; i < f->n_rows; i++) {
        const fy_tensor_row *row = &f->rows[i];
        const bool needed = !(row->flags & FY_ROW_OPTIONAL) || row->slot == FY_T_OUTPUT;
        const bool per_layer = fy_row_is_layer(row);
        if (!needed || fy_chunk_kind_of(row->slot) != info->kind || !fy_row_is_there(&m->hp, row))
            continue;
        for (uint32_t l = per_layer ? info->first_layer : 0; l < (per_layer ? info->end_layer : 1);
             l++) {
            fy_row_name(row->gguf, l, name);
            if ((!per_layer || fy_row_is_in_layer(&m->hp, row, l)) &&
                fy_gguf_tensor_find(g, name) == NULL)
                return fy_fail(e, FY_EVERIFY, "'%s' is missing", name);
        }
    }
    return 0;
}

static int check_tensors(const fy_cut_model *m, const fy_gguf *g, const fy_chunk_info *info,
                         fy_err *e)
{
    return check_there(m, g, info, e) != 0 ? -1 : check_missing(m, g, info, e);
}

/* --- a chunk in the model --------------------------------------------------------------------- */

/* Of which model, and the same one. */
static int check_model(const fy_cut_model *m, const fy_cut_chunk *p, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_span arch = {"", 0};
    const bool whole = m->info.kind == FY_CHUNK_WHOLE;
    const char *model = whole ? m->chunk[0].info.model : m->info.model;
    fy_gguf_get_str(p->gguf, FY_KEY_ARCHITECTURE, &arch, NULL);
    if (!fy_span_is(arch, m->family->gguf_arch))
        return fy_fail(e, FY_EVERIFY,
                       "architecture is '%s', not '%s' as " FY_BUNDLE_WEIGHTS " says",
                       fy_quote(shown, sizeof shown, arch), m->family->gguf_arch);
    if (fy_hparams_compare(&p->hp, &m->hp, FY_BUNDLE_WEIGHTS, e) != 0)
        return -1;
    if (strcmp(p->info.model, model) != 0)
        return fy_fail(e, FY_EVERIFY,
                       "is a chunk of model %.12s..., but %s%s of %.12s...; expected chunks of one "
                       "cut",
                       p->info.model, whole ? FY_QNN_DIR "/" : "",
                       whole ? m->chunk[0].path : FY_BUNDLE_WEIGHTS " is the embedding", model);
    if (m->config.own.version > 0 && strcmp(p->info.model, m->config.own.model) != 0)
        return fy_fail(e, FY_EVERIFY,
                       "is a chunk of model %.12s..., but " FY_QNN_CONFIG_NAME
                       " (ferry.model) was written for %.12s...",
                       p->info.model, m->config.own.model);
    return 0;
}

/* Are all of these graphs chunks? */
static bool none_compiled(const fy_qnn_config_graph *g, size_t n)
{
    size_t i = 0;
    while (i < n && fy_qnn_is_gguf(&g[i]))
        i++;
    return i == n;
}

/* Number so-and-so of so many of its kind, each there once; some may be compiled. */
static int check_index(const fy_cut_model *m, const fy_cut_chunk *p, fy_err *e)
{
    const fy_qnn_config *c = &m->config;
    const bool all = p->info.kind == FY_CHUNK_LAYERS ? none_compiled(c->graph, c->n_graphs)
                                                     : none_compiled(c->embedding, c->n_embeddings);
    uint32_t n = 0;
    for (size_t i = 0; i < m->n_chunks; i++) {
        const fy_cut_chunk *o = &m->chunk[i];
        n += o->info.kind == p->info.kind;
        if (o < p && o->info.kind == p->info.kind && o->info.index == p->info.index)
            return fy_fail(e, FY_EVERIFY,
                           FY_CHUNK_KEYS "index is %u, which is that of " FY_QNN_DIR "/%s, too",
                           p->info.index, o->path);
    }
    return n == p->info.count || (!all && n < p->info.count)
               ? 0
               : fy_fail(e, FY_EVERIFY,
                         FY_CHUNK_KEYS "count is %u, but " FY_QNN_CONFIG_NAME
                                       " names %u chunk%s of this kind",
                         p->info.count, n, n == 1 ? "" : "s");
}

/* The names of a list of strings against the graph's. */
static int check_seam(const fy_cut_chunk *p, const char *key, bool outputs, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const fy_gguf_kv *list;
    fy_io_tensor t;
    uint64_t pos = 0;
    uint32_t seen = 0;
    const int rc = fy_gguf_get_array(p->gguf, key, FY_KV_STRING, &list, e);
    if (rc != 0)
        return rc > 0 ? fy_fail(e, FY_EVERIFY, "key %s is missing", key) : -1;
    for (; fy_graph_seam(&p->hp, &p->info, outputs, seen, &t); seen++) {
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

static int check_chunk(const fy_cut_model *m, const fy_cut_chunk *p, fy_err *e)
{
    if (check_model(m, p, e) != 0)
        return -1;
    if (p->info.kind == FY_CHUNK_EMBEDDING)
        return fy_fail(e, FY_EVERIFY, "is the embedding, expected layers or the lm_head");
    return check_index(m, p, e) != 0 || check_seam(p, FY_CHUNK_INPUTS, false, e) != 0 ||
                   check_seam(p, FY_CHUNK_OUTPUTS, true, e) != 0
               ? -1
               : check_tensors(m, p->gguf, &p->info, e);
}

/* --- the configuration ------------------------------------------------------------------------ */

static int check_names(const fy_qnn_config_graph *g, const char *out, fy_err *e)
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

static int check_layers(const fy_cut_chunk *p, const fy_qnn_config_graph *g, fy_err *e)
{
    const fy_chunk_info *info = &p->info;
    if (info->kind != FY_CHUNK_LAYERS)
        return fy_fail(e, FY_EVERIFY, "%s holds the lm_head, expected layers", p->path);
    if (info->first_layer != g->start_layer || info->end_layer != g->end_layer)
        return fy_fail(e, FY_EVERIFY, "start_layer_id %u, end_layer_id %u, but %s holds %u to %u",
                       g->start_layer, g->end_layer, p->path, info->first_layer, info->end_layer);
    return check_names(g, "out", e);
}

static int check_tokens(const fy_cut_chunk *p, const fy_qnn_config_graph *g, fy_err *e)
{
    const fy_chunk_info *info = &p->info;
    const uint32_t end = g->end_token > 0 ? g->end_token : p->hp.n_vocab;
    if (info->kind != FY_CHUNK_HEAD)
        return fy_fail(e, FY_EVERIFY, "%s holds layers, expected the lm_head", p->path);
    if (info->first_token != g->first_token || info->end_token != end)
        return fy_fail(e, FY_EVERIFY, "tokens %u to %u, but %s holds %u to %u", g->first_token, end,
                       p->path, info->first_token, info->end_token);
    return check_names(g, "logits", e);
}

static int check_list(const fy_cut_model *m, const char *name, const fy_qnn_config_graph *g,
                      size_t n,
                      int (*check)(const fy_cut_chunk *p, const fy_qnn_config_graph *g, fy_err *e),
                      fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        const fy_cut_chunk *p = chunk_of(m, &g[i]);
        if (p != NULL && check(p, &g[i], e) != 0)
            return fy_ctx(e, "%s[%zu]", name, i);
    }
    return 0;
}

static int check_graphs(const fy_cut_model *m, fy_err *e)
{
    const fy_qnn_config *c = &m->config;
    fy_model_json json;
    if (fy_model_json_of(m->family, &m->hp, "model", &json, e) != 0 ||
        fy_qnn_config_compare(c, &json, e) != 0 ||
        check_list(m, "graphs", c->graph, c->n_graphs, check_layers, e) != 0 ||
        check_list(m, "embeddings", c->embedding, c->n_embeddings, check_tokens, e) != 0)
        return -1;
    if (c->n_embeddings == 0 && m->info.kind == FY_CHUNK_EMBEDDING)
        return fy_fail(e, FY_EVERIFY,
                       "names no lm_head (embeddings), and " FY_BUNDLE_WEIGHTS
                       " is the embedding alone");
    return 0;
}

/* A chunk that no graph uses was left from another cut, or its graphs were lost. */
static int check_unnamed(const fy_cut_model *m, const char *qnn, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    int rc = 0;
    DIR *d = opendir(qnn);
    if (d == NULL)
        return fy_fail_errno(e, "%s: cannot list", qnn);
    for (struct dirent *en; rc == 0 && (en = readdir(d)) != NULL;) {
        const fy_qnn_config_graph g = {.model_path = en->d_name};
        if (fy_qnn_is_gguf(&g) && chunk_of(m, &g) == NULL)
            rc = fy_fail(e, FY_EVERIFY,
                         FY_QNN_DIR "/%s: is not named by " FY_QNN_CONFIG_NAME
                                    ", expected only its chunks",
                         fy_quote(shown, sizeof shown, fy_span_of(en->d_name)));
    }
    closedir(d);
    return rc;
}

/* --- all of them together --------------------------------------------------------------------- */

/* Where each tensor of the model was found. */
typedef struct {
    const fy_cut_model *m;
    const fy_gguf_tensor **at; /* owned; [n], by its number in the model; NULL: nowhere yet */
    size_t n;
} found;

/* A complete model beside its chunks has the tensor itself. */
static int check_original(const found *f, const fy_chunk_info *info, const fy_gguf_tensor *t,
                          uint32_t place, fy_err *e)
{
    const bool tied = info->tied && fy_span_is(t->name, "output.weight");
    const fy_gguf_tensor *o = fy_gguf_tensor_at(f->m->weights, place);
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, t->name);
    if (tied ? !fy_span_is(o->name, "token_embd.weight") : !fy_span_eq(o->name, t->name))
        return fy_fail(e, FY_EVERIFY,
                       "'%s' was tensor %u of the model that was cut, which is another one "
                       "in " FY_BUNDLE_WEIGHTS,
                       shown, place);
    return o->type == t->type ? 0
                              : fy_fail(e, FY_EVERIFY, "'%s' is %s, but %s in " FY_BUNDLE_WEIGHTS,
                                        shown, fy_type_name(t->type), fy_type_name(o->type));
}

/* Slices of the lm_head share the norm, and each has its rows of the output matrix. */
static int check_copy(const fy_gguf_tensor *a, const fy_gguf_tensor *b, uint32_t place, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const bool rows = fy_span_is(a->name, "output.weight") || fy_span_is(a->name, "output.bias");
    fy_quote(shown, sizeof shown, a->name);
    if (!fy_span_eq(a->name, b->name) || a->type != b->type)
        return fy_fail(e, FY_EVERIFY,
                       "'%s' has number %u of " FY_CHUNK_PLACES
                       ", as another tensor of another chunk",
                       shown, place);
    if (!rows && (a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0))
        return fy_fail(e, FY_EVERIFY,
                       "'%s' has other values than in the first slice of the lm_head", shown);
    return 0;
}

/* A tied output matrix is a copy of rows of the embedding; its first bytes are compared. */
static int check_tied(const found *f, const fy_chunk_info *info, const fy_gguf_tensor *t, fy_err *e)
{
    const fy_gguf_tensor *embd = fy_gguf_tensor_find(f->m->weights, "token_embd.weight");
    const size_t n = t->bytes < FY_CHUNK_ID_BYTES ? (size_t)t->bytes : FY_CHUNK_ID_BYTES;
    if (embd == NULL || embd->type != t->type || embd->ne[0] != t->ne[0] ||
        embd->ne[1] < info->end_token)
        return fy_fail(e, FY_EVERIFY,
                       "'output.weight' is not a copy of token_embd.weight (" FY_CHUNK_KEYS
                       "tied): that has another type or shape in " FY_BUNDLE_WEIGHTS);
    const uint64_t row = fy_type_row_bytes(embd->type, embd->ne[0]);
    return memcmp(embd->data + row * info->first_token, t->data, n) == 0
               ? 0
               : fy_fail(e, FY_EVERIFY,
                         "'output.weight' has other values than token_embd.weight, of which it is "
                         "a copy (" FY_CHUNK_KEYS "tied)");
}

static int add_tensor(found *f, const fy_chunk_info *info, const fy_gguf_tensor *t, uint32_t place,
                      fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    if (place >= f->n)
        return fy_fail(e, FY_EVERIFY,
                       FY_CHUNK_PLACES ": '%s' has number %u, expected less than %zu",
                       fy_quote(shown, sizeof shown, t->name), place, f->n);
    if (f->m->info.kind == FY_CHUNK_WHOLE && check_original(f, info, t, place, e) != 0)
        return -1;
    if (info->tied && fy_span_is(t->name, "output.weight"))
        return check_tied(f, info, t, e);
    if (f->at[place] != NULL && info->kind == FY_CHUNK_HEAD)
        return check_copy(t, f->at[place], place, e);
    if (f->at[place] != NULL)
        return fy_fail(e, FY_EVERIFY,
                       FY_CHUNK_PLACES ": '%s' has number %u, as a tensor of another chunk",
                       fy_quote(shown, sizeof shown, t->name), place);
    f->at[place] = t;
    return 0;
}

int fy_chunk_places(const fy_gguf *g, const fy_gguf_kv **places, fy_err *e)
{
    const size_t n = fy_gguf_n_tensors(g);
    const int rc = fy_gguf_get_array(g, FY_CHUNK_PLACES, FY_KV_U32, places, e);
    if (rc != 0)
        return rc > 0 ? fy_fail(e, FY_EVERIFY, "key " FY_CHUNK_PLACES " is missing") : -1;
    return (*places)->count == n
               ? 0
               : fy_fail(e, FY_EVERIFY,
                         FY_CHUNK_PLACES " has %llu numbers, expected one for each of %zu tensors",
                         (unsigned long long)(*places)->count, n);
}

static int add_chunk(found *f, const fy_gguf *g, const fy_chunk_info *info, fy_err *e)
{
    const fy_gguf_kv *places;
    if (fy_chunk_places(g, &places, e) != 0)
        return -1;
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const uint32_t place = (uint32_t)fy_gguf_int_at(places, i);
        if (add_tensor(f, info, fy_gguf_tensor_at(g, i), place, e) != 0)
            return -1;
    }
    return 0;
}

/* How many there are, the last one found being the last one. */
static int check_gaps(const found *f, size_t *n, fy_err *e)
{
    *n = f->n;
    while (*n > 0 && f->at[*n - 1] == NULL)
        --*n;
    for (size_t i = 0; i < *n; i++) {
        if (f->at[i] == NULL)
            return fy_fail(
                e, FY_EVERIFY,
                "tensor %zu of the model that was cut is in no chunk (" FY_CHUNK_PLACES ")", i);
    }
    return 0;
}

/* What the slices of the lm_head hold of a tensor, one after the other, as far as a model's id
 * looks at it. */
static fy_gguf_tensor unsliced(const found *f, const fy_gguf_tensor *t, uint32_t tokens,
                               uint8_t first[FY_CHUNK_ID_BYTES])
{
    char name[FY_GGUF_MAX_NAME + 1];
    fy_gguf_tensor whole = *t;
    size_t n = 0;
    snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.ptr);
    whole.bytes = t->bytes / t->ne[tokens] * f->m->hp.n_vocab;
    whole.ne[tokens] = f->m->hp.n_vocab;
    whole.data = first;
    for (size_t i = 0; i < f->m->n_chunks && n < FY_CHUNK_ID_BYTES; i++) {
        const fy_cut_chunk *p = &f->m->chunk[i];
        const fy_gguf_tensor *s =
            p->info.kind == FY_CHUNK_HEAD ? fy_gguf_tensor_find(p->gguf, name) : NULL;
        if (s == NULL)
            continue;
        const size_t room = FY_CHUNK_ID_BYTES - n, some = s->bytes < room ? s->bytes : room;
        memcpy(first + n, s->data, some);
        n += some;
    }
    return whole;
}

static int add_to_id(const found *f, fy_chunk_id *id, const fy_gguf_tensor *t, fy_err *e)
{
    uint32_t layer;
    uint8_t first[FY_CHUNK_ID_BYTES] = {0};
    uint64_t shape[FY_GGUF_MAX_DIMS];
    const fy_tensor_row *row = fy_row_of_gguf(f->m->family, t->name, &layer);
    fy_gguf_tensor whole = *t;
    if (row != NULL && f->m->info.kind == FY_CHUNK_EMBEDDING && fy_row_is_sliced(row))
        whole = unsliced(f, t, fy_row_shape(&f->m->hp, row, shape) - 1, first);
    return fy_chunk_id_add(id, &whole, whole.data, e);
}

/* Are these n tensors the model that the chunks say they are of? */
static int check_id(const found *f, size_t n, fy_err *e)
{
    const fy_cut_model *m = f->m;
    const char *expected = m->n_chunks > 0                  ? m->chunk[0].info.model
                           : m->info.kind == FY_CHUNK_WHOLE ? m->config.own.model
                                                            : m->info.model;
    char id[FY_CHUNK_MODEL_BYTES];
    fy_chunk_id h;
    int rc = fy_chunk_id_begin(&h, f->m->weights, e);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_to_id(f, &h, f->at[i], e);
    if (fy_chunk_id_end(&h, rc == 0 ? id : NULL, e) != 0 || rc != 0)
        return -1;
    if (strcmp(id, expected) == 0)
        return 0;
    return f->m->info.kind == FY_CHUNK_WHOLE
               ? fy_fail(e, FY_EVERIFY,
                         FY_BUNDLE_WEIGHTS ": is model %.12s..., but the chunks are of %.12s...; "
                                           "expected the model that was cut",
                         id, expected)
               : fy_fail(e, FY_EVERIFY,
                         "the chunks together are model %.12s..., but say that they are of "
                         "%.12s...: keys or values were changed",
                         id, expected);
}

static int check_all(found *f, fy_err *e)
{
    const fy_cut_model *m = f->m;
    const bool whole = m->info.kind == FY_CHUNK_WHOLE;
    size_t n = fy_gguf_n_tensors(m->weights);
    if (!whole && add_chunk(f, m->weights, &m->info, e) != 0)
        return fy_ctx(e, FY_BUNDLE_WEIGHTS);
    for (size_t i = 0; i < m->n_chunks; i++) {
        if (add_chunk(f, m->chunk[i].gguf, &m->chunk[i].info, e) != 0)
            return fy_ctx(e, FY_QNN_DIR "/%s", m->chunk[i].path);
    }
    if (whole) { /* it has them all, whatever is beside it */
        for (size_t i = 0; i < n; i++)
            f->at[i] = fy_gguf_tensor_at(m->weights, i);
        return m->n_chunks > 0 || m->config.own.version > 0 ? check_id(f, n, e) : 0;
    }
    if (!none_compiled(m->config.graph, m->config.n_graphs) ||
        !none_compiled(m->config.embedding, m->config.n_embeddings))
        return 0; /* the rest is in context binaries */
    return check_gaps(f, &n, e) != 0 ? -1 : check_id(f, n, e);
}

/* By ferry.chunk.places. The copies of several slices of the lm_head have to be equal, and the id
 * of all tensors that of ferry.chunk.model: of each the first 4 KiB are read. */
static int check_places(const fy_cut_model *m, fy_err *e)
{
    /* a family has no more tensors: some chunks may be compiled, whose tensors nobody counts */
    found f = {.m = m, .n = ((size_t)m->hp.n_layer + 1) * m->family->n_rows};
    if (m->info.kind == FY_CHUNK_WHOLE)
        f.n = fy_gguf_n_tensors(m->weights);
    f.at = calloc(f.n + 1, sizeof *f.at);
    const int rc = f.at != NULL ? check_all(&f, e) : fy_nomem(e);
    free(f.at);
    return rc;
}

/* --- all -------------------------------------------------------------------------------------- */

int fy_chunk_check_model(const fy_cut_model *m, const char *qnn, fy_err *e)
{
    const char *refusal = fy_cut_refusal(&m->hp);
    if (refusal != NULL)
        return fy_fail(e, FY_EUNSUPPORTED, "%s: cannot be cut: %s", fy_gguf_path(m->weights),
                       refusal);
    if (check_graphs(m, e) != 0)
        return fy_ctx(e, FY_CHUNK_CONFIG);
    for (size_t i = 0; i < m->n_chunks; i++) {
        if (check_chunk(m, &m->chunk[i], e) != 0)
            return fy_ctx(e, FY_QNN_DIR "/%s", m->chunk[i].path);
    }
    if (m->info.kind == FY_CHUNK_EMBEDDING && check_tensors(m, m->weights, &m->info, e) != 0)
        return fy_ctx(e, FY_BUNDLE_WEIGHTS);
    if (m->info.kind == FY_CHUNK_EMBEDDING && m->config.own.version > 0 &&
        strcmp(m->info.model, m->config.own.model) != 0)
        return fy_fail(e, FY_EVERIFY,
                       FY_BUNDLE_WEIGHTS
                       ": is the embedding of model %.12s..., but " FY_CHUNK_CONFIG
                       " (ferry.model) was written for %.12s...",
                       m->info.model, m->config.own.model);
    return check_places(m, e) != 0 ? -1 : check_unnamed(m, qnn, e);
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
