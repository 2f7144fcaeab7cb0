/* Reads and writes the description of a context binary. */
#include "backend/qnn/qnn_sidecar.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/qnn/qnn_graph.h"
#include "base/file.h"
#include "base/json_rows.h"
#include "base/math.h"

enum { MAX_GRAPHS = 256, MAX_TENSORS = 1 << 16, MAX_NAME = 255, MAX_DIM = 1 << 24 };

/* --- reading ---------------------------------------------------------------------------------- */

static int take_type(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_span name;
    (void)t;
    if (fy_json_string(j, &name, NULL, e) != 0)
        return -1;
    const uint32_t type = fy_qnn_type_of(name);
    if (type == FY_QNN_FLOAT_32 || type == FY_QNN_FLOAT_16 || type == FY_QNN_UFIXED_16 ||
        type == FY_QNN_SFIXED_16 || type == FY_QNN_UFIXED_8) {
        *(uint32_t *)at = type;
        return 0;
    }
    return fy_fail(e, FY_EFORMAT, "type '%s', expected f32, f16, u16, s16 or u8",
                   fy_quote(shown, sizeof shown, name));
}

static int take_direction(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_span word;
    (void)t;
    if (fy_json_string(j, &word, NULL, e) != 0)
        return -1;
    *(bool *)at = fy_span_is(word, "out");
    return *(bool *)at || fy_span_is(word, "in")
               ? 0
               : fy_fail(e, FY_EFORMAT, "direction '%s', expected in or out",
                         fy_quote(shown, sizeof shown, word));
}

static int take_dims(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    fy_qnn_sidecar_tensor *to = at;
    int64_t v;
    int rc = fy_json_array_begin(j, e) == 0 ? 1 : -1;
    (void)t;
    to->rank = 0;
    while (rc == 1 && (rc = fy_json_array_next(j, e)) == 1) {
        if (to->rank == FY_QNN_SIDECAR_RANK)
            return fy_fail(e, FY_EFORMAT, "dims: more than %d", FY_QNN_SIDECAR_RANK);
        if (fy_json_i64_in(j, "dims", 1, MAX_DIM, &v, e) != 0)
            return -1;
        to->dims[to->rank++] = (uint32_t)v;
    }
    return rc;
}

static bool is_float(uint32_t type)
{
    return type == FY_QNN_FLOAT_32 || type == FY_QNN_FLOAT_16;
}

/* Is it above 0 as a float, and finite? */
static bool is_positive(double v)
{
    return v > 0 && v <= (double)FLT_MAX && (float)v > 0;
}

static int check_encoding(const fy_qnn_sidecar_tensor *t, fy_err *e)
{
    if (!is_float(t->type))
        return is_positive(t->scale)
                   ? 0
                   : fy_fail(e, FY_EFORMAT, "scale %g of a fixed type, expected a float above 0",
                             t->scale);
    return t->scale == 0 && t->offset == 0
               ? 0
               : fy_fail(e, FY_EFORMAT, "scale %g, offset %lld of floats, expected 0 and 0",
                         t->scale, (long long)t->offset);
}

static int check_tensor(void *user, void *items, size_t i, fy_err *e)
{
    const fy_qnn_sidecar_tensor *t = (const fy_qnn_sidecar_tensor *)items + i;
    uint64_t bytes = 1;
    bool ok = true;
    (void)user;
    for (uint32_t k = 0; k < t->rank; k++)
        ok = ok && fy_mul_u64(bytes, t->dims[k], &bytes);
    if (!ok || t->rank == 0 || bytes > UINT32_MAX / 4)
        return fy_fail(e, FY_EFORMAT, "its dims are not those of a tensor");
    return check_encoding(t, e);
}

#define TENSOR(kind, name, field, low, high) \
    FY_JSON_WITHIN(kind, name, fy_qnn_sidecar_tensor, field, true, low, high)
static const fy_json_row tensor_rows[] = {
    TENSOR(TEXT, "name", name, 1, MAX_NAME),
    TENSOR(U32, "id", id, 0, UINT32_MAX),
    {.key = "direction",
     .type = FY_JSON_ROW_TAKE,
     .offset = offsetof(fy_qnn_sidecar_tensor, output),
     .required = true,
     .take = take_direction},
    {.key = "type",
     .type = FY_JSON_ROW_TAKE,
     .offset = offsetof(fy_qnn_sidecar_tensor, type),
     .required = true,
     .take = take_type},
    {.key = "dims", .type = FY_JSON_ROW_TAKE, .required = true, .take = take_dims},
    FY_JSON_FIELD(REAL, "scale", fy_qnn_sidecar_tensor, scale, true),
    TENSOR(I64, "offset", offset, INT32_MIN, INT32_MAX),
};
static const fy_json_table tensor_table = {
    FY_JSON_ROWS(tensor_rows), .item_bytes = sizeof(fy_qnn_sidecar_tensor), .most = MAX_TENSORS,
    .named = true, .check = check_tensor};

/* --- tensors of a graph, and graphs ----------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const fy_qnn_sidecar_tensor *const *x = a, *const *y = b;
    return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

static int by_name(const void *a, const void *b)
{
    const fy_qnn_sidecar_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Sorts `of`, so that two with the same name, or the same id, are neighbours. */
static int check_unique(const fy_qnn_sidecar_tensor **of, size_t n, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    qsort(of, n, sizeof *of, by_name);
    for (size_t i = 1; i < n; i++) {
        if (by_name(&of[i - 1], &of[i]) == 0)
            return fy_fail(e, FY_EFORMAT, "tensor '%s' is there twice",
                           fy_quote(shown, sizeof shown, fy_span_of(of[i]->name)));
    }
    qsort(of, n, sizeof *of, by_id);
    for (size_t i = 1; i < n; i++) {
        if (by_id(&of[i - 1], &of[i]) == 0)
            return fy_fail(e, FY_EFORMAT, "two tensors have the id %u", of[i]->id);
    }
    return 0;
}

/* Keys and values that come in, and what belongs to states; everything else has a row for each
 * token of the call. */
static bool is_kept(const fy_qnn_sidecar_tensor *t)
{
    const fy_span name = fy_span_of(t->name);
    return (!t->output && fy_span_begins(name, "layer_")) || fy_span_begins(name, "state") ||
           fy_span_is(name, "token_last");
}

static int check_rows(const fy_qnn_sidecar_graph *g, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    for (size_t i = 0; i < g->n_tensors; i++) {
        const fy_qnn_sidecar_tensor *t = &g->tensors[i];
        if (!is_kept(t) && t->dims[0] != g->n_batch)
            return fy_fail(e, FY_EFORMAT, "'%s' has %u rows, expected %u, the batch",
                           fy_quote(shown, sizeof shown, fy_span_of(t->name)), t->dims[0],
                           g->n_batch);
    }
    return 0;
}

static int check_graph(void *user, void *items, size_t i, fy_err *e)
{
    const fy_qnn_sidecar_graph *all = items, *g = &all[i];
    (void)user;
    for (size_t k = 0; k < i; k++) {
        if (strcmp(all[k].name, g->name) == 0)
            return fy_fail(e, FY_EFORMAT, "a second graph of this name");
        if (all[k].n_batch == g->n_batch)
            return fy_fail(e, FY_EFORMAT, "a second graph of batch %u", g->n_batch);
    }
    const fy_qnn_sidecar_tensor **sorted = malloc(g->n_tensors * sizeof *sorted);
    if (sorted == NULL)
        return fy_nomem(e);
    for (size_t k = 0; k < g->n_tensors; k++)
        sorted[k] = &g->tensors[k];
    const int rc = check_unique(sorted, g->n_tensors, e);
    free(sorted);
    return rc == 0 ? check_rows(g, e) : -1;
}

static const fy_json_row graph_rows[] = {
    FY_JSON_WITHIN(TEXT, "name", fy_qnn_sidecar_graph, name, true, 1, MAX_NAME),
    FY_JSON_WITHIN(U32, "batch", fy_qnn_sidecar_graph, n_batch, true, 1, MAX_DIM),
    {.key = "tensors",
     .type = FY_JSON_ROW_LIST,
     .offset = offsetof(fy_qnn_sidecar_graph, tensors),
     .n_at = offsetof(fy_qnn_sidecar_graph, n_tensors),
     .required = true,
     .min = 1,
     .table = &tensor_table},
};
static const fy_json_table graph_table = {FY_JSON_ROWS(graph_rows),
                                          .item_bytes = sizeof(fy_qnn_sidecar_graph),
                                          .most = MAX_GRAPHS, .named = true, .check = check_graph};

/* --- the rest --------------------------------------------------------------------------------- */

static bool is_hash(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static bool is_hash_or_empty(const char *text)
{
    return text[0] == '\0' || is_hash(text);
}

#define HASH(name, field, test)                                                               \
    {                                                                                         \
        .key = name, .type = FY_JSON_ROW_CHARS, .offset = offsetof(fy_qnn_sidecar, field),    \
        .required = true, .max = 64, .fits = test, .expected = "64 hex digits, in lower case" \
    }

#define FIELD(kind, name, field, must, low, high) \
    FY_JSON_WITHIN(kind, name, fy_qnn_sidecar, field, must, low, high)
static const fy_json_row binary_rows[] = {
    FIELD(U64, "bytes", bytes, true, 1, INT64_MAX),
    HASH("sha256", sha256, is_hash),
};
static const fy_json_row library_rows[] = {
    FIELD(CHARS, "build_id", build_id, true, 0, 63),
    FIELD(CHARS, "core", core, true, 1, 31),
    HASH("sha256", library_sha256, is_hash),
};
static const fy_json_row soc_rows[] = {
    FIELD(CHARS, "name", soc, true, 1, 63),
    FIELD(U32, "id", soc_id, true, 0, UINT32_MAX),
    FIELD(U32, "arch", arch, true, 1, 999),
    FIELD(U32, "vtcm_mb", vtcm_mb, true, 1, 1024),
};
static const fy_json_row mask_rows[] = {
    {.key = "type",
     .type = FY_JSON_ROW_TAKE,
     .offset = offsetof(fy_qnn_sidecar, mask_type),
     .required = true,
     .take = take_type},
    FY_JSON_FIELD(REAL, "depth", fy_qnn_sidecar, mask_depth, true),
};
static const fy_json_table binary_table = {FY_JSON_ROWS(binary_rows)},
                           library_table = {FY_JSON_ROWS(library_rows)},
                           soc_table = {FY_JSON_ROWS(soc_rows)},
                           mask_table = {FY_JSON_ROWS(mask_rows)};

#define OBJECT(name, of, must)                                                  \
    {                                                                           \
        .key = name, .type = FY_JSON_ROW_OBJECT, .required = must, .table = &of \
    }
static const fy_json_row rows[] = {
    FIELD(U32, "version", version, true, 1, FY_QNN_SIDECAR_VERSION),
    HASH("model", model, is_hash),
    HASH("key", key, is_hash_or_empty),
    OBJECT("binary", binary_table, true),
    OBJECT("library", library_table, true),
    OBJECT("soc", soc_table, true),
    FIELD(CHARS, "recipe", recipe, true, 1, 63),
    FY_JSON_FIELD(BOOL, "rope_nodes", fy_qnn_sidecar, rope_nodes, true),
    FY_JSON_FIELD(BOOL, "shared", fy_qnn_sidecar, shared, true),
    OBJECT("mask", mask_table, false),
    {.key = "graphs",
     .type = FY_JSON_ROW_LIST,
     .offset = offsetof(fy_qnn_sidecar, graphs),
     .n_at = offsetof(fy_qnn_sidecar, n_graphs),
     .required = true,
     .min = 1,
     .table = &graph_table},
};
static const fy_json_table table = {FY_JSON_ROWS(rows)};

static bool is_mask(const fy_qnn_sidecar_tensor *t)
{
    return !t->output &&
           (strcmp(t->name, "attn_bias") == 0 || strcmp(t->name, "attn_bias_swa") == 0);
}

/* Every mask has the type that "mask" gives, and a fixed one reaches down to its depth. */
static int check_mask(const fy_qnn_sidecar *s, const fy_qnn_sidecar_tensor *t, fy_err *e)
{
    if (s->mask_type == 0)
        return fy_fail(e, FY_EFORMAT, "lacks 'mask', which %s needs", t->name);
    if (t->type != s->mask_type)
        return fy_fail(e, FY_EFORMAT, "mask: type %s, but %s has %s",
                       fy_qnn_type_name(s->mask_type), t->name, fy_qnn_type_name(t->type));
    const double depth = -t->scale * (double)t->offset;
    return is_float(t->type) || fabs(depth - s->mask_depth) <= 1e-5 * s->mask_depth
               ? 0
               : fy_fail(e, FY_EFORMAT, "mask: depth %g, but the lowest code of %s is %g below 0",
                         s->mask_depth, t->name, depth);
}

static int check_masks(const fy_qnn_sidecar *s, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const bool fixed = s->mask_type == FY_QNN_UFIXED_16 && is_positive(s->mask_depth);
    const bool floats = s->mask_type == FY_QNN_FLOAT_16 && s->mask_depth == 0;
    bool any = false;
    if (s->mask_type != 0 && !fixed && !floats)
        return fy_fail(e, FY_EFORMAT,
                       "mask: type %s and depth %g, expected u16 and a float above 0, or f16 and 0",
                       fy_qnn_type_name(s->mask_type), s->mask_depth);
    for (size_t g = 0; g < s->n_graphs; g++) {
        for (size_t i = 0; i < s->graphs[g].n_tensors; i++) {
            const fy_qnn_sidecar_tensor *t = &s->graphs[g].tensors[i];
            if (!is_mask(t))
                continue;
            any = true;
            if (check_mask(s, t, e) != 0)
                return fy_ctx(e, "graph '%s'",
                              fy_quote(shown, sizeof shown, fy_span_of(s->graphs[g].name)));
        }
    }
    return any || s->mask_type == 0 ? 0
                                    : fy_fail(e, FY_EFORMAT, "mask: no graph has one (attn_bias)");
}

int fy_qnn_sidecar_parse(const void *p, size_t n, fy_qnn_sidecar *out, fy_err *e)
{
    *out = (fy_qnn_sidecar){0};
    if (fy_json_document_of((fy_span){p, n}, &table, out, e) == 0 && check_masks(out, e) == 0)
        return 0;
    fy_qnn_sidecar_release(out);
    return -1;
}

int fy_qnn_sidecar_read(const char *path, fy_qnn_sidecar *out, fy_err *e)
{
    fy_map map;
    *out = (fy_qnn_sidecar){0};
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    const int rc = fy_qnn_sidecar_parse(map.data, map.size, out, e);
    fy_map_close(&map);
    return rc == 0 ? 0 : fy_ctx(e, "%s", path);
}

void fy_qnn_sidecar_release(fy_qnn_sidecar *s)
{
    for (size_t g = 0; s->graphs != NULL && g < s->n_graphs; g++) {
        fy_qnn_sidecar_graph *graph = &s->graphs[g];
        for (size_t i = 0; graph->tensors != NULL && i < graph->n_tensors; i++)
            free(graph->tensors[i].name);
        free(graph->tensors);
        free(graph->name);
    }
    free(s->graphs);
    *s = (fy_qnn_sidecar){0};
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_text(fy_str *out, const char *before, const char *text)
{
    fy_str_puts(out, before);
    fy_json_put_string(out, fy_span_of(text));
}

static void put_tensor(fy_str *out, const fy_qnn_sidecar_tensor *t)
{
    put_text(out, "      {\"name\": ", t->name);
    fy_str_printf(out, ", \"id\": %u, \"direction\": \"%s\", \"type\": \"%s\", \"dims\": [", t->id,
                  t->output ? "out" : "in", fy_qnn_type_name(t->type));
    for (uint32_t i = 0; i < t->rank; i++)
        fy_str_printf(out, "%s%u", i > 0 ? ", " : "", t->dims[i]);
    fy_str_printf(out, "], \"scale\": %.9g, \"offset\": %lld}", t->scale, (long long)t->offset);
}

static void put_graph(fy_str *out, const fy_qnn_sidecar_graph *g)
{
    put_text(out, "    {\"name\": ", g->name);
    fy_str_printf(out, ", \"batch\": %u, \"tensors\": [\n", g->n_batch);
    for (size_t i = 0; i < g->n_tensors; i++) {
        put_tensor(out, &g->tensors[i]);
        fy_str_puts(out, i + 1 < g->n_tensors ? ",\n" : "]}");
    }
}

void fy_qnn_sidecar_put(const fy_qnn_sidecar *s, fy_str *out)
{
    fy_str_printf(out, "{\n  \"version\": %d,\n", FY_QNN_SIDECAR_VERSION);
    put_text(out, "  \"model\": ", s->model);
    put_text(out, ",\n  \"key\": ", s->key);
    fy_str_printf(out, ",\n  \"binary\": {\"bytes\": %llu", (unsigned long long)s->bytes);
    put_text(out, ", \"sha256\": ", s->sha256);
    put_text(out, "},\n  \"library\": {\"build_id\": ", s->build_id);
    put_text(out, ", \"core\": ", s->core);
    put_text(out, ", \"sha256\": ", s->library_sha256);
    put_text(out, "},\n  \"soc\": {\"name\": ", s->soc);
    fy_str_printf(out, ", \"id\": %u, \"arch\": %u, \"vtcm_mb\": %u},\n", s->soc_id, s->arch,
                  s->vtcm_mb);
    put_text(out, "  \"recipe\": ", s->recipe);
    fy_str_printf(out, ",\n  \"rope_nodes\": %s,\n  \"shared\": %s,\n",
                  s->rope_nodes ? "true" : "false", s->shared ? "true" : "false");
    if (s->mask_type != 0)
        fy_str_printf(out, "  \"mask\": {\"type\": \"%s\", \"depth\": %.9g},\n",
                      fy_qnn_type_name(s->mask_type), s->mask_depth);
    fy_str_puts(out, "  \"graphs\": [\n");
    for (size_t g = 0; g < s->n_graphs; g++) {
        put_graph(out, &s->graphs[g]);
        fy_str_puts(out, g + 1 < s->n_graphs ? ",\n" : "]\n}\n");
    }
}

int fy_qnn_sidecar_write(const fy_qnn_sidecar *s, const char *path, fy_err *e)
{
    fy_str text = {0};
    fy_qnn_sidecar_put(s, &text);
    const int rc = text.oom ? fy_nomem(e) : fy_file_write(path, text.ptr, text.len, e);
    fy_str_release(&text);
    return rc;
}
