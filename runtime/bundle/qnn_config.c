/* Reading qnn/config.json: the fields by a table, then what all graphs have to agree on. */
#include "bundle/qnn_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_rows.h"
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

/* which objects have the field */
enum { IN_GRAPH = 1, IN_EMBEDDING = 2, IN_VISION = 4, IN_ALL = 7, MAY_LACK = 8 };

#define GRAPH(kind, objects, name, field, low, high)                                             \
    {                                                                                            \
        .key = name, .type = FY_JSON_ROW_##kind, .offset = offsetof(fy_qnn_config_graph, field), \
        .in = (objects)&IN_ALL, .required = ((objects)&MAY_LACK) == 0, .min = low, .max = high   \
    }
static const fy_json_row graph_rows[] = {
    GRAPH(TEXT, IN_GRAPH, "type", type, 1, MAX_NAME_BYTES),
    GRAPH(TEXT, IN_ALL, "graph_name", graph_name, 1, MAX_NAME_BYTES),
    {.key = "model_path",
     .type = FY_JSON_ROW_TEXT,
     .offset = offsetof(fy_qnn_config_graph, model_path),
     .required = true,
     .min = 1,
     .max = FY_MANIFEST_MAX_PATH,
     .fits = fy_manifest_path_ok,
     .expected = "a relative path of plain names"},
    GRAPH(TEXT, IN_ALL, "x_name", x_name, 1, MAX_NAME_BYTES),
    GRAPH(TEXT, IN_ALL, "out_name", out_name, 1, MAX_NAME_BYTES),
    GRAPH(U32, IN_GRAPH | IN_EMBEDDING, "batch_size", batch_size, 1, MAX_POSITIONS),
    GRAPH(U32, IN_EMBEDDING | MAY_LACK, "first_token", first_token, 0, MAX_TOKENS),
    GRAPH(U32, IN_EMBEDDING | MAY_LACK, "end_token", end_token, 1, MAX_TOKENS),
    GRAPH(U32, IN_GRAPH, "start_layer_id", start_layer, 0, MAX_LAYERS),
    GRAPH(U32, IN_GRAPH, "end_layer_id", end_layer, 1, MAX_LAYERS),
    GRAPH(U32, IN_GRAPH, "cache_size", cache_size, 1, MAX_POSITIONS),
    GRAPH(U32, IN_GRAPH, "context_size", context_size, 1, MAX_POSITIONS),
    GRAPH(U32, IN_GRAPH, "kv_size", kv_size, 0, MAX_POSITIONS),
    GRAPH(TEXT, IN_GRAPH, "kv_path_format", kv_path_format, 1, FY_MANIFEST_MAX_PATH),
    GRAPH(U32, IN_VISION, "num_channels", n_channels, 1, MAX_PATCHES),
    GRAPH(U32, IN_VISION, "image_size", image_size, 1, MAX_PATCHES),
    GRAPH(U32, IN_VISION, "num_patches", n_patches, 1, MAX_PATCHES),
    GRAPH(U32, IN_VISION, "num_patches_tokens", n_patch_tokens, 1, MAX_PATCHES),
};

#define DIM(name) FY_JSON_WITHIN(I64, #name, fy_qnn_config, dims.name, false, 1, UINT32_MAX)
static const fy_json_row model_rows[] = {
    DIM(n_layers),
    DIM(vocab_size),
    DIM(embed_dim),
    DIM(ffn_hidden_dim),
    DIM(head_dim),
    DIM(n_kv_heads),
    FY_JSON_FIELD(REAL, "attention_mask_value", fy_qnn_config, attention_mask_value, true),
};

static const fy_json_row qnn_rows[] = {
    FY_JSON_WITHIN(U32, "n_hvx_threads", fy_qnn_config, n_hvx_threads, true, 1, 64),
};

static bool is_kv_type(const char *text)
{
    return fy_list_has("f16,u8,s16", ',', text);
}

static bool is_mask_type(const char *text)
{
    return fy_list_has("f16,u16", ',', text);
}

#define TYPE(name, field, test, names)                                                      \
    {                                                                                       \
        .key = name, .type = FY_JSON_ROW_CHARS, .offset = offsetof(fy_qnn_compiled, field), \
        .required = true, .max = 3, .fits = test, .expected = names                         \
    }
static int take_ids(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    fy_qnn_compiled *c = at;
    int64_t v;
    size_t cap = 0;
    int rc = fy_json_array_begin(j, e) == 0 ? 1 : -1;
    (void)t;
    while (rc == 1 && (rc = fy_json_array_next(j, e)) == 1) {
        if (fy_json_i64_in(j, "preset_ids", 0, INT32_MAX, &v, e) != 0)
            return -1;
        const int32_t id = (int32_t)v;
        if (c->n_preset_ids == MAX_POSITIONS)
            return fy_fail(e, FY_EFORMAT, "preset_ids: more than %d", MAX_POSITIONS);
        if (fy_append(&c->preset_ids, &c->n_preset_ids, &cap, &id, sizeof id, e) != 0)
            return -1;
    }
    return rc;
}

static const fy_json_row compiled_rows[] = {
    FY_JSON_WITHIN(CHARS, "soc", fy_qnn_compiled, soc, true, 1, 63),
    FY_JSON_WITHIN(CHARS, "recipe", fy_qnn_compiled, recipe, true, 1, 63),
    FY_JSON_WITHIN(U32, "arch", fy_qnn_compiled, arch, true, 1, 999),
    FY_JSON_WITHIN(U32, "vtcm_mb", fy_qnn_compiled, vtcm_mb, true, 1, 1024),
    FY_JSON_WITHIN(CHARS, "build_id", fy_qnn_compiled, build_id, true, 0, 63),
    TYPE("kv", kv, is_kv_type, "f16, u8 or s16"),
    TYPE("mask", mask, is_mask_type, "f16 or u16"),
    FY_JSON_FIELD(BOOL, "rotate_keys", fy_qnn_compiled, rotate_keys, false),
    {.key = "preset_ids", .type = FY_JSON_ROW_TAKE, .take = take_ids},
};
static const fy_json_table compiled_table = {FY_JSON_ROWS(compiled_rows)};

/* "ferry": what PowerServe's schema has no place for. */
static const fy_json_row own_rows[] = {
    FY_JSON_WITHIN(U32, "version", fy_qnn_own, version, true, 1, FY_QNN_OWN_VERSION),
    FY_JSON_WITHIN(CHARS, "model", fy_qnn_own, model, true, 1, 64),
    FY_JSON_WITHIN(CHARS, "soc", fy_qnn_own, soc, false, 1, 63),
    FY_JSON_WITHIN(CHARS, "recipe", fy_qnn_own, recipe, false, 1, 63),
    FY_JSON_WITHIN(U32, "kv_bits", fy_qnn_own, kv_bits, false, 1, MAX_KV_BITS),
    {.key = "compiled",
     .type = FY_JSON_ROW_OBJECT,
     .offset = offsetof(fy_qnn_own, compiled),
     .table = &compiled_table},
};

#define GRAPHS(objects)                                                                 \
    FY_JSON_ROWS(graph_rows), .in = objects, .item_bytes = sizeof(fy_qnn_config_graph), \
                              .most = MAX_GRAPHS
static const fy_json_table graphs = {GRAPHS(IN_GRAPH)}, embeddings = {GRAPHS(IN_EMBEDDING)},
                           vision = {GRAPHS(IN_VISION)}, model_table = {FY_JSON_ROWS(model_rows)},
                           qnn_table = {FY_JSON_ROWS(qnn_rows)},
                           own_table = {FY_JSON_ROWS(own_rows)};

static int take_vision(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    fy_qnn_config *c = at;
    (void)t;
    c->vision = calloc(1, sizeof *c->vision);
    return c->vision != NULL ? fy_json_object_of(j, &vision, c->vision, e) : fy_nomem(e);
}

static const fy_json_row document_rows[] = {
    {.key = "model_parameters",
     .type = FY_JSON_ROW_OBJECT,
     .required = true,
     .table = &model_table},
    {.key = "qnn_parameters", .type = FY_JSON_ROW_OBJECT, .required = true, .table = &qnn_table},
    {.key = "graphs",
     .type = FY_JSON_ROW_LIST,
     .offset = offsetof(fy_qnn_config, graph),
     .n_at = offsetof(fy_qnn_config, n_graphs),
     .required = true,
     .min = 1,
     .table = &graphs},
    {.key = "embeddings",
     .type = FY_JSON_ROW_LIST,
     .offset = offsetof(fy_qnn_config, embedding),
     .n_at = offsetof(fy_qnn_config, n_embeddings),
     .table = &embeddings},
    {.key = "vision", .type = FY_JSON_ROW_TAKE, .take = take_vision},
    {.key = "ferry",
     .type = FY_JSON_ROW_OBJECT,
     .offset = offsetof(fy_qnn_config, own),
     .table = &own_table},
};

static void graph_release(fy_qnn_config_graph *g)
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
    free(c->own.compiled.preset_ids);
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

static int check_format(const char *format, fy_err *e)
{
    static const char *const sample[N_PLACES] = {"65535", "value", "65535"};
    char shown[FY_QUOTE_BYTES];
    fy_str path = {0};
    bool ok = expand(format, sample, &path) && fy_manifest_path_ok(fy_str_z(&path));
    int rc = path.oom ? fy_nomem(e) : 0;
    fy_str_release(&path);
    return ok || rc != 0
               ? rc
               : fy_fail(e, FY_EFORMAT,
                         "kv_path_format: '%s', expected a relative path of plain names with "
                         "{layer_id}, {kv_type} and {head_id}",
                         fy_quote(shown, sizeof shown, fy_span_of(format)));
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
        const fy_qnn_config_graph *g = &c->graph[i];
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
static int check_agreement(const fy_qnn_config_graph *g, const fy_qnn_config_graph *first,
                           fy_err *e)
{
    if (g->cache_size != first->cache_size || g->context_size != first->context_size ||
        g->kv_size != first->kv_size)
        return fy_fail(e, FY_EFORMAT,
                       "cache_size %u, context_size %u, kv_size %u, but the first graph has %u, "
                       "%u, %u",
                       g->cache_size, g->context_size, g->kv_size, first->cache_size,
                       first->context_size, first->kv_size);
    if (check_format(g->kv_path_format, e) != 0)
        return -1;
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

static const fy_qnn_config_graph *graph_at(const fy_qnn_config *c, size_t i)
{
    return i < c->n_graphs ? &c->graph[i] : &c->embedding[i - c->n_graphs];
}

/* A context binary is asked for its graphs by name. Quadratic, of at most 2 * MAX_GRAPHS. */
static int check_names(const fy_qnn_config *c, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    for (size_t i = 0; i < c->n_graphs + c->n_embeddings; i++) {
        const fy_qnn_config_graph *g = graph_at(c, i);
        for (size_t k = 0; k < i; k++) {
            const fy_qnn_config_graph *before = graph_at(c, k);
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
        const fy_qnn_config_graph *g = &c->embedding[i];
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

/* Every file of a compiled model is a binary whose description has a name of its own. */
static int check_compiled(const fy_qnn_config *c, fy_err *e)
{
    fy_str sidecar = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && c->own.compiled.arch > 0 && i < c->n_graphs + c->n_embeddings;
         i++) {
        const char *path = graph_at(c, i)->model_path;
        fy_qnn_sidecar_path(path, &sidecar);
        if (sidecar.oom)
            rc = fy_nomem(e);
        else if (!fy_span_ends(fy_span_of(path), ".bin") || !fy_manifest_path_ok(sidecar.ptr) ||
                 strcmp(sidecar.ptr, FY_QNN_CONFIG_NAME) == 0)
            rc = fy_fail(e, FY_EFORMAT,
                         "model_path: '%s' of a compiled model, expected NAME.bin with a "
                         "description NAME.json",
                         path);
    }
    fy_str_release(&sidecar);
    return rc;
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
    if (rc == 0)
        rc = check_compiled(c, e);
    const fy_qnn_config_graph *last = &c->graph[c->n_graphs - 1];
    c->n_layers = last->end_layer;
    c->cache_size = last->cache_size;
    c->context_size = last->context_size;
    c->kv_size = last->kv_size;
    c->kv_path_format = c->graph[0].kv_path_format;
    const size_t n_ids = c->own.compiled.n_preset_ids;
    if (rc == 0 && n_ids > 0 && n_ids != c->kv_size)
        rc = fy_fail(e, FY_EFORMAT, "%zu preset_ids, expected %u (kv_size)", n_ids, c->kv_size);
    return rc;
}

int fy_qnn_config_parse(const void *p, size_t n, fy_qnn_config *out, fy_err *e)
{
    if (n > FY_BUNDLE_JSON_MAX_BYTES)
        return fy_fail(e, FY_EFORMAT, "%zu bytes, expected at most %u", n,
                       FY_BUNDLE_JSON_MAX_BYTES);
    const fy_json_table document = {FY_JSON_ROWS(document_rows)};
    fy_qnn_config c = {.dims = {-1, -1, -1, -1, -1, -1}};
    int rc = fy_json_document_of((fy_span){p, n}, &document, &c, e);
    if (rc == 0)
        rc = check_together(&c, e);
    if (rc == 0)
        *out = c;
    else
        fy_qnn_config_release(&c);
    return rc;
}

/* --- files ------------------------------------------------------------------------------------ */

bool fy_qnn_is_gguf(const fy_qnn_config_graph *g)
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

size_t fy_qnn_n_slices(const fy_qnn_config *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_embeddings; i++) {
        size_t k = 0;
        while (k < i && c->embedding[k].first_token != c->embedding[i].first_token)
            k++;
        n += k == i;
    }
    return n;
}

bool fy_qnn_has_preset(const fy_qnn_config *c)
{
    const fy_qnn_compiled *own = &c->own.compiled;
    if (c->kv_size > 0)
        return true;
    if (own->arch > 0)
        return strcmp(own->kv, "f16") == 0 && strcmp(own->mask, "f16") == 0;
    for (size_t i = 0; i < c->n_graphs; i++) {
        if (!fy_qnn_is_gguf(&c->graph[i]))
            return true;
    }
    return false;
}

void fy_qnn_sidecar_path(const char *model_path, fy_str *out)
{
    const size_t n = strlen(model_path), end = strlen(".bin");
    fy_str_clear(out);
    fy_str_printf(out, "%.*s.json", (int)(n > end ? n - end : n), model_path);
}

void fy_qnn_preset_path(const fy_qnn_config *c, uint32_t layer, const char *kv_type, uint32_t head,
                        fy_str *out)
{
    char layer_text[16], head_text[16];
    snprintf(layer_text, sizeof layer_text, "%u", layer);
    snprintf(head_text, sizeof head_text, "%u", head);
    expand(c->kv_path_format, (const char *const[]){layer_text, kv_type, head_text}, out);
}
