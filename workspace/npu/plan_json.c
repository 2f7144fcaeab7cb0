/* The plan as JSON. */
#include <stdio.h>
#include <string.h>

#include "workspace/npu/plan_json.h"

#include "workspace/npu/plan_show.h"

static const char *const limits[] = {
    [FY_NPU_LIMIT_NONE] = NULL,       [FY_NPU_LIMIT_LAYER] = "layer",
    [FY_NPU_LIMIT_CHUNKS] = "chunks", [FY_NPU_LIMIT_SESSIONS] = "sessions",
    [FY_NPU_LIMIT_MEMORY] = "memory", [FY_NPU_LIMIT_CONTEXT] = "context",
    [FY_NPU_LIMIT_VTCM] = "vtcm",     [FY_NPU_LIMIT_FLOOR] = "floor",
};

const char *fy_plan_limit_name(fy_npu_limit limit)
{
    return limits[limit];
}

/* --- the suggestion --------------------------------------------------------------------------- */

/* The words of the option that makes a change; what is not among them changed has none. */
static const char *option_of(fy_npu_change c, const fy_npu_params *p, fy_str *value)
{
    switch (c) {
    case FY_NPU_CHANGE_CHUNKS:
        fy_str_printf(value, "%u", p->n_chunks);
        return "--chunks";
    case FY_NPU_CHANGE_CONTEXT:
        fy_str_printf(value, "%u", p->n_ctx);
        return "-c";
    case FY_NPU_CHANGE_KV:
        fy_str_printf(value, "%u", p->kv_bits);
        return "--kv-bits";
    case FY_NPU_CHANGE_BATCH:
        for (uint32_t i = 0; i < p->n_batches; i++)
            fy_str_printf(value, "%s%u", i > 0 ? "," : "", p->batch[i]);
        return "--batch";
    case FY_NPU_CHANGE_RECIPE:
        fy_str_puts(value, p->recipe->name);
        return "--recipe";
    case FY_NPU_CHANGE_LAYERS:
        fy_str_printf(value, "%u", p->n_layers);
        return "--layers";
    case FY_NPU_CHANGE_COUNT:
        break;
    }
    return NULL;
}

static json_t *json_suggestion(fy_json_maker *m, const fy_plan_view *v)
{
    const fy_npu_suggestion *s = v->suggestion;
    if (s == NULL || !s->found)
        return json_null();
    json_t *o = json_object(), *words = json_array();
    fy_str text = {0};
    for (int c = 0; c < FY_NPU_CHANGE_COUNT; c++) {
        if (!s->changed[c])
            continue;
        fy_str_clear(&text);
        fy_make_append(m, words, json_string(option_of((fy_npu_change)c, &s->params, &text)));
        fy_make_append(m, words, fy_make_text(fy_span_of(fy_str_z(&text))));
    }
    fy_str_clear(&text);
    fy_npu_suggestion_text(s, &v->model->npu, &text);
    fy_plan_json_text(m, o, "text", fy_str_z(&text));
    fy_make_set(m, o, "options", words);
    m->oom |= text.oom;
    fy_str_release(&text);
    return o;
}

/* --- the plan --------------------------------------------------------------------------------- */

static void set_u64(fy_json_maker *m, json_t *o, const char *key, uint64_t v)
{
    fy_make_set(m, o, key, fy_make_u64(v));
}

void fy_plan_json_text(fy_json_maker *m, json_t *o, const char *key, const char *text)
{
    fy_make_set(m, o, key, text != NULL ? fy_make_text(fy_span_of(text)) : json_null());
}

json_t *fy_plan_json_model(fy_json_maker *m, const fy_plan_model *model)
{
    const fy_hparams *hp = &model->npu.hp;
    json_t *o = json_object();
    char name[256];
    fy_plan_model_name(model, name, sizeof name);
    fy_plan_json_text(m, o, "path", model->path);
    fy_plan_json_text(m, o, "name", name);
    fy_plan_json_text(m, o, "family", model->npu.family->name);
    set_u64(m, o, "layers", hp->n_layer);
    set_u64(m, o, "width", hp->n_embd);
    set_u64(m, o, "heads", hp->n_head);
    set_u64(m, o, "kv_heads", hp->n_head_kv);
    set_u64(m, o, "vocabulary", hp->n_vocab);
    set_u64(m, o, "context_length", hp->n_ctx_train);
    set_u64(m, o, "parameters", fy_plan_model_params(model));
    set_u64(m, o, "file_bytes", model->npu.file_bytes);
    fy_make_set(m, o, "tied", json_boolean(model->npu.tied));
    return o;
}

/* 0 is what a table does not say. */
static void set_known(fy_json_maker *m, json_t *o, const char *key, uint64_t v)
{
    fy_make_set(m, o, key, v > 0 ? fy_make_u64(v) : json_null());
}

json_t *fy_plan_json_soc(fy_json_maker *m, const fy_soc *s)
{
    json_t *o = json_object(), *aliases = json_array();
    for (size_t i = 0; i < s->n_aliases; i++)
        fy_make_append(m, aliases, fy_make_text(fy_span_of(s->aliases[i])));
    fy_plan_json_text(m, o, "name", s->name);
    fy_make_set(m, o, "aliases", aliases);
    fy_plan_json_text(m, o, "title", s->title);
    set_known(m, o, "soc_id", s->soc_id);
    set_u64(m, o, "htp_arch", s->htp_arch);
    set_known(m, o, "vtcm_mb", s->vtcm_mb);
    set_u64(m, o, "sessions", s->n_sessions);
    set_u64(m, o, "session_bytes", s->session_bytes);
    set_u64(m, o, "context_bytes", s->context_bytes);
    set_u64(m, o, "file_bytes", s->file_bytes);
    set_known(m, o, "memory_bytes", s->memory_bytes);
    fy_make_set(m, o, "fp16", json_boolean(fy_soc_has(s, FY_HTP_FP16)));
    fy_make_set(m, o, "guessed", json_boolean(s->guessed));
    fy_plan_json_text(m, o, "note", s->note);
    fy_plan_json_text(m, o, "source", s->source);
    return o;
}

static json_t *json_recipe(fy_json_maker *m, const fy_npu_recipe *r)
{
    json_t *o = json_object();
    fy_plan_json_text(m, o, "name", r->name);
    fy_plan_json_text(m, o, "title", r->title);
    return o;
}

static json_t *json_options(fy_json_maker *m, const fy_npu_params *p)
{
    json_t *o = json_object(), *batch = json_array();
    for (uint32_t i = 0; i < p->n_batches; i++)
        fy_make_append(m, batch, json_integer(p->batch[i]));
    set_u64(m, o, "context", p->n_ctx);
    fy_make_set(m, o, "batch", batch);
    set_u64(m, o, "kv_bits", p->kv_bits);
    set_u64(m, o, "layers", p->n_layers);
    set_u64(m, o, "memory_bytes", p->memory_bytes);
    return o;
}

static json_t *json_pieces(fy_json_maker *m, const fy_npu_piece *p, uint32_t n, bool head)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) {
        json_t *o = json_object();
        set_u64(m, o, head ? "first_token" : "first_layer",
                head ? p[i].first_token : p[i].first_layer);
        set_u64(m, o, head ? "end_token" : "end_layer", head ? p[i].end_token : p[i].end_layer);
        set_u64(m, o, "weight_bytes", p[i].weights);
        set_u64(m, o, "op_bytes", p[i].op_bytes);
        set_u64(m, o, "file_bytes", p[i].file_bytes);
        set_u64(m, o, "io_bytes", p[i].io_bytes);
        set_u64(m, o, "kv_bytes", p[i].kv_bytes);
        set_u64(m, o, "scratch_bytes", p[i].scratch);
        set_u64(m, o, "bytes", p[i].bytes);
        set_u64(m, o, "session", p[i].session);
        fy_make_append(m, list, o);
    }
    return list;
}

static json_t *json_layers(fy_json_maker *m, const fy_npu_model *model, const fy_npu_params *p)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->n_layers; i++) {
        json_t *layer = json_object(), *matrices = json_array();
        fy_plan_matrix t;
        uint64_t bytes;
        for (size_t k = 0; fy_plan_matrix_at(model, p->recipe, i, k, &t); k++) {
            json_t *o = json_object();
            fy_plan_json_text(m, o, "name", t.name);
            fy_plan_json_text(m, o, "type", fy_npu_type_name(t.type));
            set_u64(m, o, "rows", t.n_out);
            set_u64(m, o, "columns", t.n_in);
            set_u64(m, o, "bytes", t.bytes);
            fy_make_append(m, matrices, o);
        }
        fy_make_set(m, layer, "bytes",
                    fy_plan_layer_bytes(model, p->recipe, i, &bytes) ? fy_make_u64(bytes)
                                                                     : json_null());
        fy_make_set(m, layer, "matrices", matrices);
        fy_make_append(m, list, layer);
    }
    return list;
}

int fy_plan_put_json(fy_str *out, const fy_plan_view *v, fy_err *e)
{
    const fy_npu_plan *p = v->plan;
    fy_json_maker m = {0};
    json_t *o = json_object();
    fy_make_set(&m, o, "model", fy_plan_json_model(&m, v->model));
    fy_make_set(&m, o, "soc", fy_plan_json_soc(&m, p->params.soc));
    fy_make_set(&m, o, "recipe", json_recipe(&m, p->params.recipe));
    fy_make_set(&m, o, "options", json_options(&m, &p->params));
    fy_make_set(&m, o, "fits", json_boolean(p->fits));
    fy_plan_json_text(&m, o, "limit", fy_plan_limit_name(p->limit));
    fy_plan_json_text(&m, o, "why", p->fits ? NULL : p->why.msg);
    fy_make_set(&m, o, "suggestion", json_suggestion(&m, v));
    set_u64(&m, o, "cached_positions", p->n_cache);
    fy_make_set(&m, o, "weights_shared", json_boolean(p->weights_shared));
    fy_make_set(&m, o, "chunks", json_pieces(&m, p->chunks, p->n_chunks, false));
    fy_make_set(&m, o, "heads", json_pieces(&m, p->heads, p->n_heads, true));
    set_u64(&m, o, "sessions", p->n_sessions);
    set_u64(&m, o, "embedding_bytes", p->embedding);
    set_u64(&m, o, "weight_bytes", p->weights);
    set_u64(&m, o, "io_bytes", p->io);
    set_u64(&m, o, "kv_bytes", p->kv);
    set_u64(&m, o, "npu_peak_bytes", p->npu_peak);
    set_u64(&m, o, "cpu_peak_bytes", p->cpu_peak);
    fy_make_set(&m, o, "layers", json_layers(&m, &v->model->npu, &p->params));
    return fy_make_end(&m, o, out, e);
}
