/* A model that was cut: which file computes what, and what one passes to the next. Drawn from
 * qnn/config.json and the header of the weights; whether the files agree is for verify to check. */
#include "convert/look/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arch/graph_io.h"
#include "base/str.h"
#include "bundle/bundle.h"

/* One line of the drawing. */
typedef struct {
    fy_chunk_info chunk;
    const char *file; /* view; below the model's directory once FY_QNN_DIR is before it; NULL: the
                         CPU computes it from the weights */
    bool in_qnn;
    uint64_t bytes; /* of the file; 0: it is missing */
} step;

/* --- opening ---------------------------------------------------------------------------------- */

int fy_inspect_open_chunk(fy_listing *l, fy_err *e)
{
    const fy_family *family;
    if (l->g == NULL || !fy_is_chunk(l->g))
        return 0;
    return fy_cut_header(l->g, &family, &l->hp, &l->chunk, e) != 0 ? fy_ctx(e, "%s", l->path) : 0;
}

/* Weights of another runtime, of a family that ferry does not compute, have no seams that it knows.
 */
static int open_config(fy_listing *l, const char *qnn, fy_err *e)
{
    const fy_family *family;
    fy_err why = {0};
    if (fy_cut_config_read(qnn, &l->config, e) != 0)
        return -1;
    l->has_chain = fy_cut_header(l->g, &family, &l->hp, &l->chunk, &why) == 0;
    return l->has_chain || why.code == FY_EUNSUPPORTED
               ? 0
               : fy_fail(e, why.code, "%s: %s", l->path, why.msg);
}

int fy_inspect_open_chain(fy_listing *l, fy_err *e)
{
    char *qnn = fy_path_join(l->model_dir, FY_QNN_DIR);
    char *config = qnn != NULL ? fy_path_join(qnn, FY_QNN_CONFIG_NAME) : NULL;
    int rc = config == NULL ? fy_nomem(e) : 0;
    if (rc == 0 && fy_file_exists(config))
        rc = open_config(l, qnn, e);
    free(config);
    free(qnn);
    return rc;
}

/* --- one tensor ------------------------------------------------------------------------------- */

static bool file_has(const char *path, const char *tensor)
{
    fy_gguf *g = fy_gguf_open(path, NULL);
    const bool has = g != NULL && fy_gguf_tensor_find(g, tensor) != NULL;
    fy_gguf_close(g);
    return has;
}

static char *chunk_with(const char *qnn, const char *tensor)
{
    fy_qnn_config c;
    char *path = NULL;
    if (fy_cut_config_read(qnn, &c, NULL) != 0)
        return NULL;
    for (size_t i = 0; i < c.n_graphs + c.n_embeddings && path == NULL; i++) {
        const fy_qnn_config_graph *g = i < c.n_graphs ? &c.graph[i] : &c.embedding[i - c.n_graphs];
        path = fy_qnn_is_gguf(g) ? fy_path_join(qnn, g->model_path) : NULL;
        if (path != NULL && !file_has(path, tensor)) {
            free(path);
            path = NULL;
        }
    }
    fy_qnn_config_release(&c);
    return path;
}

char *fy_inspect_file_of(const char *model_dir, const char *tensor)
{
    char *weights = fy_path_join(model_dir, FY_BUNDLE_WEIGHTS);
    char *qnn = fy_path_join(model_dir, FY_QNN_DIR);
    char *chunk = weights != NULL && qnn != NULL && !file_has(weights, tensor)
                      ? chunk_with(qnn, tensor)
                      : NULL;
    free(qnn);
    if (chunk == NULL)
        return weights;
    free(weights);
    return chunk;
}

/* --- the steps -------------------------------------------------------------------------------- */

static const fy_qnn_config_graph *graph_at(const fy_listing *l, size_t i)
{
    const fy_qnn_config *c = &l->config;
    return i < c->n_graphs ? &c->graph[i] : &c->embedding[i - c->n_graphs];
}

static uint64_t file_bytes(const fy_listing *l, const step *s, bool *oom)
{
    struct stat st;
    fy_str path = {0};
    fy_str_printf(&path, "%s/%s%s", l->model_dir, s->in_qnn ? FY_QNN_DIR "/" : "", s->file);
    const bool there = !path.oom && stat(fy_str_z(&path), &st) == 0 && S_ISREG(st.st_mode);
    *oom |= path.oom;
    fy_str_release(&path);
    return there ? (uint64_t)st.st_size : 0;
}

/* All batch sizes have the same steps: those of the largest are shown. Step 0 is the embedding, the
 * last one the lm_head of the CPU when no graph has it. False: there is no step i. */
static bool step_at(const fy_listing *l, size_t i, step *s, bool *oom)
{
    const fy_qnn_config *c = &l->config;
    size_t seen = 0;
    *s = (step){.chunk = {.kind = FY_CHUNK_EMBEDDING}, .file = FY_BUNDLE_WEIGHTS};
    for (size_t k = 0; i > 0 && seen < i; k++) {
        if (k == c->n_graphs + c->n_embeddings) {
            *s = (step){.chunk = {.kind = FY_CHUNK_HEAD, .end_token = l->hp.n_vocab}};
            return seen + 1 == i && c->n_embeddings == 0;
        }
        const fy_qnn_config_graph *g = graph_at(l, k);
        if (g->batch_size != c->max_batch || ++seen < i)
            continue;
        s->file = g->model_path;
        s->in_qnn = true;
        s->chunk = k < c->n_graphs ? (fy_chunk_info){.kind = FY_CHUNK_LAYERS,
                                                     .first_layer = g->start_layer,
                                                     .end_layer = g->end_layer}
                                   : (fy_chunk_info){.kind = FY_CHUNK_HEAD,
                                                     .first_token = g->first_token,
                                                     .end_token = g->end_token > 0 ? g->end_token
                                                                                   : l->hp.n_vocab};
    }
    s->bytes = file_bytes(l, s, oom);
    return true;
}

/* The output of the step that is not a cache. */
static fy_io_tensor seam_of(const fy_listing *l, const step *s)
{
    fy_io_tensor t = {.cols = l->hp.n_embd, .element_bytes = 4};
    if (s->chunk.kind == FY_CHUNK_HEAD)
        fy_graph_seam(&l->hp, &s->chunk, true, 0, &t);
    snprintf(t.name, sizeof t.name, "%s", s->chunk.kind == FY_CHUNK_HEAD ? "logits" : "x");
    return t;
}

/* --- text ------------------------------------------------------------------------------------- */

void fy_inspect_put_chunk(fy_str *out, const fy_listing *l)
{
    char what[FY_CHUNK_TEXT_BYTES];
    if (l->chunk.kind == FY_CHUNK_WHOLE)
        return;
    fy_str_printf(out, "chunk of a model that was cut: %s", fy_chunk_text(&l->chunk, &l->hp, what));
    if (l->chunk.count > 1)
        fy_str_printf(out, ", %u of %u", l->chunk.index + 1, l->chunk.count);
    fy_str_printf(out, "; %s\n",
                  l->chunk.kind == FY_CHUNK_EMBEDDING
                      ? "the layers and the lm_head are in qnn/"
                      : "the tokenizer's keys are in the embedding, " FY_BUNDLE_WEIGHTS);
}

static void put_head_line(fy_str *out, const fy_qnn_config *c)
{
    fy_str_printf(out, "\nchain: context %u, %u positions cached, batch size", c->context_size,
                  c->cache_size);
    for (size_t i = 0, n = 0; i < c->n_graphs; i++) {
        if (c->graph[i].start_layer == 0)
            fy_str_printf(out, "%s %u", n++ > 0 ? "," : "", c->graph[i].batch_size);
    }
    if (c->kv_size > 0)
        fy_str_printf(out, ", after a preset of %u tokens", c->kv_size);
    const fy_qnn_compiled *made = &c->own.compiled;
    if (c->own.soc[0] != '\0') {
        fy_str_puts(out, made->arch > 0 ? "; compiled for " : "; for ");
        fy_str_put_quoted(out, fy_span_of(c->own.soc), SIZE_MAX);
    }
    if (c->own.recipe[0] != '\0') {
        fy_str_puts(out, ", recipe ");
        fy_str_put_quoted(out, fy_span_of(c->own.recipe), SIZE_MAX);
    }
    if (made->arch > 0) {
        fy_str_printf(out, "\n  V%u, %u MB of VTCM, caches of %s, masks of %s, by QNN ", made->arch,
                      made->vtcm_mb, made->kv, made->mask);
        fy_str_put_quoted(
            out, fy_span_of(made->build_id[0] != '\0' ? made->build_id : "of an unknown build"),
            SIZE_MAX);
    }
    fy_str_putc(out, '\n');
}

static void put_step(fy_str *out, const fy_listing *l, const step *s)
{
    char what[FY_CHUNK_TEXT_BYTES];
    const fy_io_tensor t = seam_of(l, s);
    fy_str_printf(out, "  %-28s ", fy_chunk_text(&s->chunk, &l->hp, what));
    if (s->file == NULL)
        fy_str_puts(out, "   on the CPU");
    else if (s->bytes == 0)
        fy_str_puts(out, "      missing");
    else
        fy_str_printf(out, "%10.1f MB", (double)s->bytes * 1e-6);
    if (s->file != NULL) {
        fy_str_printf(out, "  %s", s->in_qnn ? FY_QNN_DIR "/" : "");
        fy_str_put_quoted(out, fy_span_of(s->file), SIZE_MAX);
    }
    if (s->chunk.kind == FY_CHUNK_EMBEDDING && l->chunk.kind == FY_CHUNK_WHOLE)
        fy_str_puts(out, " (the complete model)");
    fy_str_printf(out, "\n    | %s [batch, %" PRIu64 "] f32\n", t.name, t.cols);
}

void fy_inspect_put_chain(fy_str *out, const fy_listing *l)
{
    step s;
    if (!l->has_chain)
        return;
    put_head_line(out, &l->config);
    for (size_t i = 0; step_at(l, i, &s, &out->oom); i++)
        put_step(out, l, &s);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? fy_make_text(fy_span_of(text)) : json_null();
}

static json_t *of_chunk(const fy_chunk_info *p, const fy_hparams *hp)
{
    static const char *const kinds[] = {
        [FY_CHUNK_EMBEDDING] = "embedding", [FY_CHUNK_LAYERS] = "layers", [FY_CHUNK_HEAD] = "head"};
    char what[FY_CHUNK_TEXT_BYTES];
    const char *kind = kinds[p->kind], *text = fy_chunk_text(p, hp, what);
    if (p->kind == FY_CHUNK_LAYERS)
        return json_pack("{s:s, s:s, s:I, s:I}", "kind", kind, "what", text, "first_layer",
                         (json_int_t)p->first_layer, "end_layer", (json_int_t)p->end_layer);
    if (p->kind == FY_CHUNK_HEAD)
        return json_pack("{s:s, s:s, s:I, s:I}", "kind", kind, "what", text, "first_token",
                         (json_int_t)p->first_token, "end_token", (json_int_t)p->end_token);
    return json_pack("{s:s, s:s}", "kind", kind, "what", text);
}

json_t *fy_inspect_chunk_json(fy_listing *l)
{
    json_t *o = of_chunk(&l->chunk, &l->hp);
    fy_make_set(&l->json, o, "index", json_integer(l->chunk.index));
    fy_make_set(&l->json, o, "count", json_integer(l->chunk.count));
    fy_make_set(&l->json, o, "model", json_string(l->chunk.model));
    return o;
}

static json_t *step_json(fy_listing *l, const step *s)
{
    const fy_io_tensor t = seam_of(l, s);
    json_t *o = of_chunk(&s->chunk, &l->hp);
    fy_str file = {0};
    fy_str_printf(&file, "%s%s", s->in_qnn ? FY_QNN_DIR "/" : "", s->file != NULL ? s->file : "");
    fy_make_set(&l->json, o, "file", text_or_null(fy_str_z(&file)));
    fy_make_set(&l->json, o, "bytes", s->bytes > 0 ? fy_make_u64(s->bytes) : json_null());
    fy_make_set(&l->json, o, "output", json_string(t.name));
    fy_make_set(&l->json, o, "shape", json_pack("[s, o]", "batch", fy_make_u64(t.cols)));
    l->json.oom |= file.oom;
    fy_str_release(&file);
    return o;
}

/* null: ferry has not compiled it. */
static json_t *compiled_json(const fy_qnn_compiled *c)
{
    return c->arch == 0
               ? json_null()
               : json_pack("{s:o, s:I, s:I, s:o, s:o, s:s, s:s}", "soc",
                           fy_make_text(fy_span_of(c->soc)), "arch", (json_int_t)c->arch, "vtcm_mb",
                           (json_int_t)c->vtcm_mb, "recipe", fy_make_text(fy_span_of(c->recipe)),
                           "build_id", fy_make_text(fy_span_of(c->build_id)), "kv", c->kv, "mask",
                           c->mask);
}

json_t *fy_inspect_chain_json(fy_listing *l)
{
    const fy_qnn_config *c = &l->config;
    json_t *batches = json_array(), *steps = json_array();
    step s;
    for (size_t i = 0; i < c->n_graphs; i++) {
        if (c->graph[i].start_layer == 0)
            fy_make_append(&l->json, batches, json_integer(c->graph[i].batch_size));
    }
    for (size_t i = 0; step_at(l, i, &s, &l->json.oom); i++)
        fy_make_append(&l->json, steps, step_json(l, &s));
    return json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:b, s:o}", "context",
                     (json_int_t)c->context_size, "cache", (json_int_t)c->cache_size, "preset",
                     (json_int_t)c->kv_size, "batches", batches, "soc", text_or_null(c->own.soc),
                     "recipe", text_or_null(c->own.recipe), "compiled",
                     compiled_json(&c->own.compiled), "complete_weights",
                     l->chunk.kind == FY_CHUNK_WHOLE, "steps", steps);
}
