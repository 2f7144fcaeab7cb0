/* Reading qnn/config.json: the fields by a table, then what all graphs have to agree on. */
#include "bundle/qnn_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"

#define MAX_GRAPHS     4096
#define MAX_NAME_BYTES 255
#define MAX_LAYERS     65536
#define MAX_POSITIONS  (1 << 20)
#define MAX_PATCHES    (1 << 20)
#define MAX_TOKENS     (1 << 24)
#define MAX_KV_BITS    32

/* --- fields ----------------------------------------------------------------------------------- */

typedef enum { U32, NAME, PATH, FORMAT } kind;
/* which objects have the field */
enum { IN_GRAPH = 1, IN_EMBEDDING = 2, IN_VISION = 4, IN_ALL = 7, MAY_LACK = 8 };

#define ROW(kind, in, key, field, min, max)                    \
    {                                                          \
        kind, in, key, offsetof(fy_qnn_graph, field), min, max \
    }
static const struct {
    kind kind;
    unsigned in;
    const char *key;
    size_t offset;
    int64_t min, max;
} rows[] = {
    ROW(NAME, IN_GRAPH, "type", type, 0, 0),
    ROW(NAME, IN_ALL, "graph_name", graph_name, 0, 0),
    ROW(PATH, IN_ALL, "model_path", model_path, 0, 0),
    ROW(NAME, IN_ALL, "x_name", x_name, 0, 0),
    ROW(NAME, IN_ALL, "out_name", out_name, 0, 0),
    ROW(U32, IN_GRAPH | IN_EMBEDDING, "batch_size", batch_size, 1, MAX_POSITIONS),
    ROW(U32, IN_EMBEDDING | MAY_LACK, "first_token", first_token, 0, MAX_TOKENS),
    ROW(U32, IN_EMBEDDING | MAY_LACK, "end_token", end_token, 1, MAX_TOKENS),
    ROW(U32, IN_GRAPH, "start_layer_id", start_layer, 0, MAX_LAYERS),
    ROW(U32, IN_GRAPH, "end_layer_id", end_layer, 1, MAX_LAYERS),
    ROW(U32, IN_GRAPH, "cache_size", cache_size, 1, MAX_POSITIONS),
    ROW(U32, IN_GRAPH, "context_size", context_size, 1, MAX_POSITIONS),
    ROW(U32, IN_GRAPH, "kv_size", kv_size, 0, MAX_POSITIONS),
    ROW(FORMAT, IN_GRAPH, "kv_path_format", kv_path_format, 0, 0),
    ROW(U32, IN_VISION, "num_channels", n_channels, 1, MAX_PATCHES),
    ROW(U32, IN_VISION, "image_size", image_size, 1, MAX_PATCHES),
    ROW(U32, IN_VISION, "num_patches", n_patches, 1, MAX_PATCHES),
    ROW(U32, IN_VISION, "num_patches_tokens", n_patch_tokens, 1, MAX_PATCHES),
};
#undef ROW
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static void graph_release(fy_qnn_graph *g)
{
    free(g->type);
    free(g->graph_name);
    free(g->model_path);
    free(g->x_name);
    free(g->out_name);
    free(g->kv_path_format);
}

void fy_qnn_config_release(fy_qnn_config *c)
{
    for (size_t i = 0; i < c->n_graphs; i++)
        graph_release(&c->graph[i]);
    for (size_t i = 0; i < c->n_embeddings; i++)
        graph_release(&c->embedding[i]);
    if (c->vision != NULL)
        graph_release(c->vision);
    free(c->graph);
    free(c->embedding);
    free(c->vision);
    *c = (fy_qnn_config){0};
}

/* The three places of a preset file's name; each has to be there, so that no two files share one.
 */
static const char *const places[] = {"{layer_id}", "{kv_type}", "{head_id}"};
enum { N_PLACES = sizeof places / sizeof places[0] };

/* Puts the values into the format; a brace that begins none of the places is refused. */
static bool expand(const char *format, const char *const values[N_PLACES], fy_str *out)
{
    unsigned seen = 0;
    fy_str_clear(out);
    for (const char *p = format; *p != '\0';) {
        size_t i = 0;
        while (i < N_PLACES && strncmp(p, places[i], strlen(places[i])) != 0)
            i++;
        if (i < N_PLACES) {
            fy_str_puts(out, values[i]);
            seen |= 1u << i;
            p += strlen(places[i]);
        } else if (*p == '{' || *p == '}') {
            return false;
        } else {
            fy_str_putc(out, *p++);
        }
    }
    return seen == (1u << N_PLACES) - 1;
}

static int check_text(kind k, const char *text, fy_err *e)
{
    static const char *const sample[N_PLACES] = {"65535", "value", "65535"};
    char shown[FY_QUOTE_BYTES];
    fy_str path = {0};
    bool ok = k == NAME || fy_manifest_path_ok(text);
    if (k == FORMAT)
        ok = expand(text, sample, &path) && fy_manifest_path_ok(fy_str_z(&path));
    bool oom = path.oom;
    fy_str_release(&path);
    if (oom)
        return fy_nomem(e);
    return ok ? 0
              : fy_fail(e, FY_EFORMAT, "'%s', expected a relative path of plain names%s",
                        fy_quote(shown, sizeof shown, fy_span_of(text)),
                        k == FORMAT ? " with {layer_id}, {kv_type} and {head_id}" : "");
}

static int take_text(fy_json *j, kind k, char **out, fy_err *e)
{
    fy_span s;
    size_t max = k == NAME ? MAX_NAME_BYTES : FY_MANIFEST_MAX_PATH;
    if (fy_json_string(j, &s, NULL, e) != 0)
        return -1;
    if (s.len == 0 || s.len > max || memchr(s.ptr, '\0', s.len) != NULL)
        return fy_fail(e, FY_EFORMAT, "%zu bytes of text, expected 1 to %zu without NUL", s.len,
                       max);
    *out = strndup(s.ptr, s.len);
    return *out != NULL ? check_text(k, *out, e) : fy_nomem(e);
}

static int take_field(fy_json *j, size_t i, fy_qnn_graph *g, fy_err *e)
{
    char *p = (char *)g + rows[i].offset;
    if (rows[i].kind == U32) {
        int64_t v;
        if (fy_json_i64_in(j, rows[i].key, rows[i].min, rows[i].max, &v, e) != 0)
            return -1;
        uint32_t u = (uint32_t)v;
        memcpy(p, &u, sizeof u);
        return 0;
    }
    char *text = NULL;
    int rc = take_text(j, rows[i].kind, &text, e);
    memcpy(p, &text, sizeof text); /* the graph owns it, right or wrong */
    return rc == 0 ? 0 : fy_ctx(e, "%s", rows[i].key);
}

/* Fills *g, which the caller releases also after a failure. */
static int take_graph(fy_json *j, unsigned in, fy_qnn_graph *g, fy_err *e)
{
    bool seen[N_ROWS] = {0};
    fy_span key;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        size_t i = 0;
        while (i < N_ROWS && (!(rows[i].in & in) || !fy_span_is(key, rows[i].key)))
            i++;
        if (i < N_ROWS)
            seen[i] = true;
        rc = i < N_ROWS ? take_field(j, i, g, e) : fy_json_skip(j, e);
    }
    for (size_t i = 0; rc == 0 && i < N_ROWS; i++) {
        if ((rows[i].in & in) && !(rows[i].in & MAY_LACK) && !seen[i])
            rc = fy_fail(e, FY_EFORMAT, "lacks '%s'", rows[i].key);
    }
    return rc;
}

static int take_graphs(fy_json *j, unsigned in, fy_qnn_graph **list, size_t *n, fy_err *e)
{
    size_t cap = 0;
    int rc = fy_json_array_begin(j, e);
    while (rc == 0 && (rc = fy_json_array_next(j, e)) == 1) {
        fy_qnn_graph *grown = *n < MAX_GRAPHS ? fy_grow(*list, *n, &cap, sizeof *grown) : NULL;
        if (grown == NULL)
            return *n < MAX_GRAPHS ? fy_nomem(e)
                                   : fy_fail(e, FY_EFORMAT, "more than %d entries", MAX_GRAPHS);
        *list = grown;
        fy_qnn_graph *g = &grown[(*n)++];
        *g = (fy_qnn_graph){0};
        if ((rc = take_graph(j, in, g, e)) != 0)
            fy_ctx(e, "[%zu]", *n - 1);
    }
    return rc;
}

/* --- the document ----------------------------------------------------------------------------- */

static int take_model_parameters(fy_json *j, fy_qnn_config *c, bool *has_mask, fy_err *e)
{
    const struct {
        const char *key;
        int64_t *out;
    } dims[] = {
        {"n_layers", &c->dims.n_layers},   {"vocab_size", &c->dims.vocab_size},
        {"embed_dim", &c->dims.embed_dim}, {"ffn_hidden_dim", &c->dims.ffn_hidden_dim},
        {"head_dim", &c->dims.head_dim},   {"n_kv_heads", &c->dims.n_kv_heads},
    };
    fy_span key;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        size_t i = 0, n = sizeof dims / sizeof dims[0];
        while (i < n && !fy_span_is(key, dims[i].key))
            i++;
        if (fy_span_is(key, "attention_mask_value")) {
            *has_mask = true;
            rc = fy_json_double(j, &c->attention_mask_value, e);
        } else {
            rc = i < n ? fy_json_i64_in(j, dims[i].key, 1, UINT32_MAX, dims[i].out, e)
                       : fy_json_skip(j, e);
        }
    }
    return rc;
}

static int take_qnn_parameters(fy_json *j, fy_qnn_config *c, fy_err *e)
{
    fy_span key;
    int64_t v = 0;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1)
        rc = fy_span_is(key, "n_hvx_threads") ? fy_json_i64_in(j, "n_hvx_threads", 1, 64, &v, e)
                                              : fy_json_skip(j, e);
    c->n_hvx_threads = (uint32_t)v;
    return rc;
}

/* "ferry": what PowerServe's schema has no place for. */
static int take_own(fy_json *j, fy_qnn_config *c, fy_err *e)
{
    const struct {
        const char *key;
        char *out;
        size_t cap;
    } texts[] = {
        {"model", c->own.model, sizeof c->own.model},
        {"soc", c->own.soc, sizeof c->own.soc},
        {"recipe", c->own.recipe, sizeof c->own.recipe},
    };
    enum { N_TEXTS = sizeof texts / sizeof texts[0] };
    int64_t version = 0, kv_bits = 0;
    fy_span key, s;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        size_t i = 0;
        while (i < N_TEXTS && !fy_span_is(key, texts[i].key))
            i++;
        if (fy_span_is(key, "version"))
            rc = fy_json_i64_in(j, "version", 1, FY_QNN_OWN_VERSION, &version, e);
        else if (fy_span_is(key, "kv_bits"))
            rc = fy_json_i64_in(j, "kv_bits", 1, MAX_KV_BITS, &kv_bits, e);
        else if (i == N_TEXTS)
            rc = fy_json_skip(j, e);
        else if ((rc = fy_json_string(j, &s, NULL, e)) == 0 &&
                 (s.len == 0 || s.len >= texts[i].cap || memchr(s.ptr, '\0', s.len) != NULL))
            rc = fy_fail(e, FY_EFORMAT, "%s: %zu bytes of text, expected 1 to %zu without NUL",
                         texts[i].key, s.len, texts[i].cap - 1);
        else if (rc == 0)
            memcpy(texts[i].out, s.ptr, s.len);
    }
    if (rc == 0 && (version == 0 || c->own.model[0] == '\0'))
        rc = fy_fail(e, FY_EFORMAT, "lacks '%s'", version == 0 ? "version" : "model");
    c->own.version = (uint32_t)version;
    c->own.kv_bits = (uint32_t)kv_bits;
    return rc;
}

static int take_vision(fy_json *j, fy_qnn_config *c, fy_err *e)
{
    c->vision = calloc(1, sizeof *c->vision);
    return c->vision != NULL ? take_graph(j, IN_VISION, c->vision, e) : fy_nomem(e);
}

static int take_document(fy_json *j, fy_qnn_config *c, fy_err *e)
{
    bool has_mask = false;
    fy_span key;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1) {
        const char *name = fy_span_is(key, "model_parameters") ? "model_parameters"
                           : fy_span_is(key, "qnn_parameters") ? "qnn_parameters"
                           : fy_span_is(key, "graphs")         ? "graphs"
                           : fy_span_is(key, "embeddings")     ? "embeddings"
                           : fy_span_is(key, "vision")         ? "vision"
                           : fy_span_is(key, "ferry")          ? "ferry"
                                                               : NULL;
        if (name == NULL)
            rc = fy_json_skip(j, e);
        else if (name[0] == 'm')
            rc = take_model_parameters(j, c, &has_mask, e);
        else if (name[0] == 'q')
            rc = take_qnn_parameters(j, c, e);
        else if (name[0] == 'g')
            rc = take_graphs(j, IN_GRAPH, &c->graph, &c->n_graphs, e);
        else if (name[0] == 'f')
            rc = take_own(j, c, e);
        else if (name[0] == 'e')
            rc = take_graphs(j, IN_EMBEDDING, &c->embedding, &c->n_embeddings, e);
        else
            rc = take_vision(j, c, e);
        if (rc != 0 && name != NULL)
            fy_ctx(e, "%s", name);
    }
    if (rc == 0)
        rc = fy_json_end(j, e);
    const char *missing = !has_mask               ? "model_parameters.attention_mask_value"
                          : c->n_hvx_threads == 0 ? "qnn_parameters.n_hvx_threads"
                          : c->n_graphs == 0      ? "graphs"
                                                  : NULL;
    if (rc == 0 && missing != NULL)
        rc = fy_fail(e, FY_EFORMAT, "lacks '%s'", missing);
    return rc;
}

/* --- all graphs together ---------------------------------------------------------------------- */

/* What one batch size has covered so far. */
typedef struct {
    uint32_t batch, next_layer;
} covered;

static int check_cover(const fy_qnn_config *c, covered *seen, fy_err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_graphs; i++) {
        const fy_qnn_graph *g = &c->graph[i];
        size_t k = 0;
        while (k < n && seen[k].batch != g->batch_size)
            k++;
        if (k == n)
            seen[n++] = (covered){.batch = g->batch_size};
        if (g->start_layer != seen[k].next_layer || g->end_layer <= g->start_layer)
            return fy_fail(e, FY_EFORMAT,
                           "graphs[%zu]: layers %u to %u of batch size %u, expected to begin at %u "
                           "and to end after that (each layer once, in order)",
                           i, g->start_layer, g->end_layer, g->batch_size, seen[k].next_layer);
        seen[k].next_layer = g->end_layer;
    }
    for (size_t k = 1; k < n; k++) {
        if (seen[k].next_layer != seen[0].next_layer)
            return fy_fail(e, FY_EFORMAT,
                           "graphs: batch size %u covers %u layers, batch size %u covers %u",
                           seen[0].batch, seen[0].next_layer, seen[k].batch, seen[k].next_layer);
    }
    return 0;
}

/* Against the first one, and each in itself. */
static int check_agreement(const fy_qnn_graph *g, const fy_qnn_graph *first, fy_err *e)
{
    if (g->cache_size != first->cache_size || g->context_size != first->context_size ||
        g->kv_size != first->kv_size)
        return fy_fail(e, FY_EFORMAT,
                       "cache_size %u, context_size %u, kv_size %u, but the first graph has %u, "
                       "%u, %u",
                       g->cache_size, g->context_size, g->kv_size, first->cache_size,
                       first->context_size, first->kv_size);
    if (strcmp(g->kv_path_format, first->kv_path_format) != 0)
        return fy_fail(e, FY_EFORMAT, "kv_path_format differs from the first graph's");
    if (g->kv_size > g->cache_size)
        return fy_fail(e, FY_EFORMAT, "kv_size %u is more than cache_size %u", g->kv_size,
                       g->cache_size);
    if (g->cache_size + g->batch_size > g->context_size)
        return fy_fail(e, FY_EFORMAT,
                       "cache_size %u and batch_size %u do not fit into context_size %u",
                       g->cache_size, g->batch_size, g->context_size);
    return 0;
}

static const fy_qnn_graph *graph_at(const fy_qnn_config *c, size_t i)
{
    return i < c->n_graphs ? &c->graph[i] : &c->embedding[i - c->n_graphs];
}

/* A context binary is asked for its graphs by name. Quadratic, of at most 2 * MAX_GRAPHS. */
static int check_names(const fy_qnn_config *c, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    for (size_t i = 0; i < c->n_graphs + c->n_embeddings; i++) {
        const fy_qnn_graph *g = graph_at(c, i);
        for (size_t k = 0; k < i; k++) {
            const fy_qnn_graph *before = graph_at(c, k);
            if (strcmp(before->graph_name, g->graph_name) == 0 &&
                strcmp(before->model_path, g->model_path) == 0)
                return fy_fail(e, FY_EFORMAT, "graph '%s' of %s is there twice",
                               fy_quote(shown, sizeof shown, fy_span_of(g->graph_name)),
                               g->model_path);
        }
    }
    return 0;
}

/* The slices of one batch size follow each other from token 0 on; *end: after the last one, 0 when
 * the slices give no tokens. */
static int check_slices(const fy_qnn_config *c, uint32_t batch, uint32_t *end, fy_err *e)
{
    size_t n = 0;
    *end = 0;
    for (size_t i = 0; i < c->n_embeddings; i++) {
        const fy_qnn_graph *g = &c->embedding[i];
        if (g->batch_size != batch)
            continue;
        if (n++ > 0 && *end == 0)
            return fy_fail(e, FY_EFORMAT, "embeddings[%zu]: a second one for batch size %u", i,
                           batch);
        if (g->first_token != *end || (g->end_token <= g->first_token && g->end_token != 0) ||
            (n > 1 && g->end_token == 0))
            return fy_fail(
                e, FY_EFORMAT,
                "embeddings[%zu]: tokens %u to %u of batch size %u, expected to begin at "
                "%u and to end after that",
                i, g->first_token, g->end_token, batch, *end);
        *end = g->end_token;
    }
    return n > 0 || batch != c->max_batch || c->n_embeddings == 0
               ? 0
               : fy_fail(e, FY_EFORMAT,
                         "embeddings: none for batch size %u, the largest of the graphs", batch);
}

static int check_embeddings(fy_qnn_config *c, fy_err *e)
{
    uint32_t end;
    if (check_slices(c, c->max_batch, &c->n_tokens, e) != 0)
        return -1;
    for (size_t i = 0; i < c->n_embeddings; i++) {
        if (check_slices(c, c->embedding[i].batch_size, &end, e) != 0)
            return -1;
        if (end != c->n_tokens)
            return fy_fail(e, FY_EFORMAT,
                           "embeddings: batch size %u covers %u tokens, batch size %u covers %u",
                           c->embedding[i].batch_size, end, c->max_batch, c->n_tokens);
    }
    return 0;
}

static int check_together(fy_qnn_config *c, fy_err *e)
{
    covered *seen = calloc(c->n_graphs, sizeof *seen);
    int rc = seen != NULL ? 0 : fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < c->n_graphs; i++) {
        if ((rc = check_agreement(&c->graph[i], &c->graph[0], e)) != 0)
            fy_ctx(e, "graphs[%zu]", i);
        if (c->graph[i].batch_size > c->max_batch)
            c->max_batch = c->graph[i].batch_size;
    }
    if (rc == 0)
        rc = check_cover(c, seen, e);
    free(seen);
    if (rc == 0)
        rc = check_names(c, e);
    if (rc == 0)
        rc = check_embeddings(c, e);
    const fy_qnn_graph *last = &c->graph[c->n_graphs - 1];
    c->n_layers = last->end_layer;
    c->cache_size = last->cache_size;
    c->context_size = last->context_size;
    c->kv_size = last->kv_size;
    c->kv_path_format = c->graph[0].kv_path_format;
    return rc;
}

int fy_qnn_config_parse(const void *p, size_t n, fy_qnn_config *out, fy_err *e)
{
    if (n > FY_BUNDLE_JSON_MAX_BYTES)
        return fy_fail(e, FY_EFORMAT, "%zu bytes, expected at most %u", n,
                       FY_BUNDLE_JSON_MAX_BYTES);
    fy_json *j = fy_json_new(p, n, e);
    if (j == NULL)
        return -1;
    fy_qnn_config c = {.dims = {-1, -1, -1, -1, -1, -1}};
    int rc = take_document(j, &c, e);
    fy_json_free(j);
    if (rc == 0)
        rc = check_together(&c, e);
    if (rc == 0)
        *out = c;
    else
        fy_qnn_config_release(&c);
    return rc;
}

/* --- files ------------------------------------------------------------------------------------ */

bool fy_qnn_is_gguf(const fy_qnn_graph *g)
{
    const size_t n = strlen(g->model_path), end = strlen(".gguf");
    return n > end && strcmp(g->model_path + n - end, ".gguf") == 0;
}

bool fy_qnn_has_gguf(const fy_qnn_config *c)
{
    for (size_t i = 0; i < c->n_graphs + c->n_embeddings; i++) {
        if (fy_qnn_is_gguf(graph_at(c, i)))
            return true;
    }
    return false;
}

void fy_qnn_preset_path(const fy_qnn_config *c, uint32_t layer, const char *kv_type, uint32_t head,
                        fy_str *out)
{
    char layer_text[16], head_text[16];
    snprintf(layer_text, sizeof layer_text, "%u", layer);
    snprintf(head_text, sizeof head_text, "%u", head);
    expand(c->kv_path_format, (const char *const[]){layer_text, kv_type, head_text}, out);
}
