#include "workspace/qnn_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/names.h"
#include "base/quote.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"

#define MAX_GRAPHS     4096
#define MAX_NAME_BYTES 255
#define MAX_LAYERS     65536
#define MAX_POSITIONS  (1 << 20)
#define MAX_HEAD       65536 /* elements of a head, and heads */
#define MAX_PATCHES    (1 << 20)

/* --- fields ----------------------------------------------------------------------------------- */

typedef enum { U32, NAME, PATH, FORMAT } kind;
/* which objects have the field */
enum { IN_GRAPH = 1, IN_EMBEDDING = 2, IN_VISION = 4, IN_ALL = 7 };

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

static int take_int(fy_json *j, const char *key, int64_t min, int64_t max, int64_t *out, fy_err *e)
{
    int64_t v = 0;
    if (fy_json_i64(j, &v, e) != 0)
        return fy_ctx(e, "%s", key);
    if (v < min || v > max)
        return fy_fail(e, FY_EFORMAT, "%s: %lld, expected %lld to %lld", key, (long long)v,
                       (long long)min, (long long)max);
    *out = v;
    return 0;
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
        if (take_int(j, rows[i].key, rows[i].min, rows[i].max, &v, e) != 0)
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
        if ((rows[i].in & in) && !seen[i])
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
            rc = i < n ? take_int(j, dims[i].key, 1, UINT32_MAX, dims[i].out, e)
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
        rc = fy_span_is(key, "n_hvx_threads") ? take_int(j, "n_hvx_threads", 1, 64, &v, e)
                                              : fy_json_skip(j, e);
    c->n_hvx_threads = (uint32_t)v;
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
                                                               : NULL;
        if (name == NULL)
            rc = fy_json_skip(j, e);
        else if (name[0] == 'm')
            rc = take_model_parameters(j, c, &has_mask, e);
        else if (name[0] == 'q')
            rc = take_qnn_parameters(j, c, e);
        else if (name[0] == 'g')
            rc = take_graphs(j, IN_GRAPH, &c->graph, &c->n_graphs, e);
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

/* --- what the graphs say together ------------------------------------------------------------- */

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
                           "and to end behind that (each layer once, in order)",
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

static int check_embeddings(const fy_qnn_config *c, fy_err *e)
{
    bool covers = c->n_embeddings == 0;
    for (size_t i = 0; i < c->n_embeddings; i++)
        covers |= c->embedding[i].batch_size == c->max_batch;
    return covers ? 0
                  : fy_fail(e, FY_EFORMAT,
                            "embeddings: none for batch size %u, the largest of the graphs",
                            c->max_batch);
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

/* --- against the model ------------------------------------------------------------------------ */

int fy_qnn_config_compare(const fy_qnn_config *c, const fy_model_json *m, fy_err *e)
{
    const struct {
        const char *name, *of;
        int64_t found, expected;
    } pairs[] = {
        {"graphs cover", "n_layers", c->n_layers, m->n_layers},
        {"model_parameters.n_layers is", "n_layers", c->dims.n_layers, m->n_layers},
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

static int each_binary(const fy_qnn_graph *g, size_t n, fy_names *seen, fy_qnn_file *each,
                       void *user, fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        int added = fy_names_add(seen, fy_span_of(g[i].model_path), 0);
        if (added < 0)
            return fy_nomem(e);
        if (added == 0 && each(user, g[i].model_path, FY_QNN_ANY_BYTES, e) != 0)
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
            char layer_text[16], head_text[24];
            snprintf(layer_text, sizeof layer_text, "%u", layer);
            snprintf(head_text, sizeof head_text, "%lld", (long long)(i / 2));
            expand(c->kv_path_format, (const char *const[]){layer_text, types[i % 2], head_text},
                   &path);
            rc = path.oom ? fy_nomem(e) : each(user, fy_str_z(&path), bytes, e);
        }
    }
    fy_str_release(&path);
    return rc;
}

int fy_qnn_config_files(const fy_qnn_config *c, const fy_model_json *m, fy_qnn_file *each,
                        void *user, fy_err *e)
{
    fy_names seen = {0};
    int rc = each_binary(c->graph, c->n_graphs, &seen, each, user, e);
    if (rc == 0)
        rc = each_binary(c->embedding, c->n_embeddings, &seen, each, user, e);
    if (rc == 0 && c->vision != NULL)
        rc = each_binary(c->vision, 1, &seen, each, user, e);
    fy_names_release(&seen);
    return rc == 0 ? each_preset(c, m, each, user, e) : rc;
}

typedef struct {
    const char *dir;
} place;

static int check_file(void *user, const char *rel, uint64_t bytes, fy_err *e)
{
    const place *p = user;
    struct stat st;
    char *path = fy_path_join(p->dir, rel);
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
    bool there = fy_file_exists(path);
    int rc = there ? fy_map_open(&map, path, e)
                   : fy_fail(e, FY_EFORMAT,
                             FY_QNN_CONFIG_NAME ": missing; it says which file "
                                                "computes which layers");
    free(path);
    if (rc != 0)
        return rc;
    rc = fy_qnn_config_parse(map.data, map.size, &c, e);
    fy_map_close(&map);
    if (rc != 0)
        return fy_ctx(e, FY_QNN_CONFIG_NAME);
    rc = fy_qnn_config_compare(&c, m, e);
    if (rc != 0)
        fy_ctx(e, FY_QNN_CONFIG_NAME);
    else
        rc = fy_qnn_config_files(&c, m, check_file, &(place){dir}, e);
    if (rc == 0 && out != NULL)
        *out = c;
    else
        fy_qnn_config_release(&c);
    return rc;
}
