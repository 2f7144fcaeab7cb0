/* A context binary of a compiled model: nobody but the vendor's library reads its bytes, so what is
 * shown is the description that `ferry compile` wrote next to it. */
#include <stdio.h>
#include <string.h>

#include "backend/qnn/qnn_graph.h"
#include "backend/qnn/qnn_sidecar.h"
#include "base/file.h"
#include "convert/look/inspect.h"

/* PyTorch's files are called NAME.bin, too. */
static bool is_torch(const fy_map *m)
{
    return m->size >= 2 && (m->data[0] == 0x80 || memcmp(m->data, "PK", 2) == 0);
}

/* 1: it is one, and is open; 0; -1. */
static int open_binary(const char *path, fy_map *m, fy_qnn_sidecar *s, fy_err *e)
{
    fy_str sidecar = {0};
    int rc = 0;
    if (!fy_span_ends(fy_span_of(path), ".bin") || fy_file_is_dir(path))
        return 0;
    fy_qnn_sidecar_path(path, &sidecar);
    if (sidecar.oom)
        rc = fy_nomem(e);
    else if (fy_file_exists(sidecar.ptr))
        rc = fy_map_open(m, path, e) == 0 ? 1 : -1;
    if (rc == 1 && is_torch(m)) {
        fy_map_close(m);
        rc = 0;
    }
    if (rc == 1 && fy_qnn_sidecar_read(sidecar.ptr, s, e) != 0) {
        fy_map_close(m);
        rc = -1;
    }
    fy_str_release(&sidecar);
    return rc;
}

static uint64_t tensor_bytes(const fy_qnn_sidecar_tensor *t)
{
    uint64_t n = fy_qnn_type_bytes(t->type);
    for (uint32_t i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n; /* less than 2^32, as the reader checks */
}

/* What the inputs and outputs take together, and how many outputs there are. */
static uint64_t graph_bytes(const fy_qnn_sidecar_graph *g, size_t *n_out)
{
    uint64_t n = 0;
    *n_out = 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        n += tensor_bytes(&g->tensors[i]);
        *n_out += g->tensors[i].output;
    }
    return n;
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_text(fy_str *out, const char *before, const char *text)
{
    fy_str_puts(out, before);
    fy_str_put_quoted(out, fy_span_of(text), SIZE_MAX);
}

static void put_head(fy_str *out, const char *path, const fy_qnn_sidecar *s)
{
    fy_str_put_quoted(out, fy_span_of(path), SIZE_MAX);
    fy_str_printf(out, ": context binary, %llu bytes\n", (unsigned long long)s->bytes);
    put_text(out, "compiled for ", s->soc);
    fy_str_printf(out, " (V%u, %u MB of VTCM)", s->arch, s->vtcm_mb);
    put_text(out, ", recipe ", s->recipe);
    put_text(out, ", by QNN ", s->build_id[0] != '\0' ? s->build_id : "of an unknown build");
    put_text(out, ", core interface ", s->core);
    fy_str_printf(out, "\nof model %s\nbinary SHA-256 %s\n", s->model, s->sha256);
    if (s->mask_type != 0)
        fy_str_printf(out, "masks %s", fy_qnn_type_name(s->mask_type));
    if (s->mask_depth > 0)
        fy_str_printf(out, ", hidden columns %g lower", s->mask_depth);
    if (s->mask_type != 0)
        fy_str_putc(out, '\n');
    if (s->rope_nodes)
        fy_str_puts(out, "RoPE takes six nodes instead of one\n");
}

static void put_shape(char out[64], const fy_qnn_sidecar_tensor *t)
{
    size_t n = (size_t)snprintf(out, 64, "[");
    for (uint32_t i = 0; i < t->rank; i++)
        n += (size_t)snprintf(out + n, 64 - n, "%s%u", i > 0 ? ", " : "", t->dims[i]);
    snprintf(out + n, 64 - n, "]");
}

static void put_tensors(fy_str *out, const fy_qnn_sidecar_graph *g)
{
    char shape[64], name[FY_QUOTE_BYTES];
    put_text(out, "\ntensors of ", g->name);
    fy_str_printf(out, "\n  %-28s %-4s %-4s %-20s %-14s %8s %8s\n", "name", "io", "type", "shape",
                  "scale", "offset", "id");
    for (size_t i = 0; i < g->n_tensors; i++) {
        const fy_qnn_sidecar_tensor *t = &g->tensors[i];
        put_shape(shape, t);
        fy_str_printf(out, "  %-28s %-4s %-4s %-20s ",
                      fy_quote(name, sizeof name, fy_span_of(t->name)), t->output ? "out" : "in",
                      fy_qnn_type_name(t->type), shape);
        if (t->scale > 0)
            fy_str_printf(out, "%-14.9g %8lld %8u\n", t->scale, (long long)t->offset, t->id);
        else
            fy_str_printf(out, "%-14s %8s %8u\n", "", "", t->id);
    }
}

static void put_binary(fy_str *out, const char *path, const fy_qnn_sidecar *s)
{
    char name[FY_QUOTE_BYTES];
    size_t n_out;
    put_head(out, path, s);
    fy_str_printf(out, "\ngraphs\n  %-20s %8s %8s %8s %16s\n", "name", "batch", "inputs", "outputs",
                  "bytes of both");
    for (size_t g = 0; g < s->n_graphs; g++) {
        const fy_qnn_sidecar_graph *of = &s->graphs[g];
        const uint64_t bytes = graph_bytes(of, &n_out);
        fy_str_printf(out, "  %-20s %8u %8zu %8zu %16llu\n",
                      fy_quote(name, sizeof name, fy_span_of(of->name)), of->n_batch,
                      of->n_tensors - n_out, n_out, (unsigned long long)bytes);
    }
    for (size_t g = 0; g < s->n_graphs; g++)
        put_tensors(out, &s->graphs[g]);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *text_of(const char *text)
{
    return fy_make_text(fy_span_of(text));
}

static json_t *tensor_json(fy_json_maker *m, const fy_qnn_sidecar_tensor *t)
{
    json_t *o = json_object(), *shape = json_array();
    for (uint32_t i = 0; i < t->rank; i++)
        fy_make_append(m, shape, json_integer(t->dims[i]));
    fy_make_set(m, o, "name", text_of(t->name));
    fy_make_set(m, o, "id", json_integer(t->id));
    fy_make_set(m, o, "output", json_boolean(t->output));
    fy_make_set(m, o, "type", json_string(fy_qnn_type_name(t->type)));
    fy_make_set(m, o, "shape", shape);
    fy_make_set(m, o, "bytes", fy_make_u64(tensor_bytes(t)));
    if (t->scale > 0) {
        fy_make_set(m, o, "scale", fy_make_number(t->scale));
        fy_make_set(m, o, "offset", json_integer(t->offset));
    }
    return o;
}

static json_t *graph_json(fy_json_maker *m, const fy_qnn_sidecar_graph *g)
{
    json_t *o = json_object(), *tensors = json_array();
    size_t n_out;
    for (size_t i = 0; i < g->n_tensors; i++)
        fy_make_append(m, tensors, tensor_json(m, &g->tensors[i]));
    fy_make_set(m, o, "name", text_of(g->name));
    fy_make_set(m, o, "batch", json_integer(g->n_batch));
    fy_make_set(m, o, "bytes", fy_make_u64(graph_bytes(g, &n_out)));
    fy_make_set(m, o, "tensors", tensors);
    return o;
}

static int put_json(fy_str *out, const char *path, const fy_qnn_sidecar *s, fy_err *e)
{
    fy_json_maker m = {0};
    json_t *top = json_object(), *graphs = json_array();
    const struct {
        const char *key, *text;
    } texts[] = {{"path", path},
                 {"format", "context binary"},
                 {"model", s->model},
                 {"sha256", s->sha256},
                 {"soc", s->soc},
                 {"recipe", s->recipe},
                 {"build_id", s->build_id},
                 {"core", s->core}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        fy_make_set(&m, top, texts[i].key, text_of(texts[i].text));
    fy_make_set(&m, top, "bytes", fy_make_u64(s->bytes));
    fy_make_set(&m, top, "arch", json_integer(s->arch));
    fy_make_set(&m, top, "vtcm_mb", json_integer(s->vtcm_mb));
    fy_make_set(&m, top, "rope_nodes", json_boolean(s->rope_nodes));
    fy_make_set(&m, top, "mask",
                s->mask_type != 0 ? json_string(fy_qnn_type_name(s->mask_type)) : json_null());
    for (size_t g = 0; g < s->n_graphs; g++)
        fy_make_append(&m, graphs, graph_json(&m, &s->graphs[g]));
    fy_make_set(&m, top, "graphs", graphs);
    return fy_make_end(&m, top, out, e);
}

int fy_inspect_binary(const char *path, const fy_inspect_options *o, fy_str *out, fy_err *e)
{
    fy_map m;
    fy_qnn_sidecar s;
    const int found = open_binary(path, &m, &s, e);
    if (found != 1)
        return found;
    int rc = 0;
    if (m.size != s.bytes)
        rc = fy_fail(e, FY_EVERIFY,
                     "%s: %zu bytes, but its description says %llu; 'ferry compile' makes it again",
                     path, m.size, (unsigned long long)s.bytes);
    else if (o->hash || o->tensor != NULL)
        rc = fy_fail(e, FY_EARG,
                     "%s: --hash and --tensor take a file whose tensors ferry reads, and this is a "
                     "context binary",
                     path);
    else if (o->json)
        rc = put_json(out, path, &s, e);
    else
        put_binary(out, path, &s);
    if (rc == 0 && out->oom)
        rc = fy_nomem(e);
    fy_qnn_sidecar_release(&s);
    fy_map_close(&m);
    return rc == 0 ? 1 : -1;
}
