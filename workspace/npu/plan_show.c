/* One plan as a drawing for a terminal and as JSON. */
#include "workspace/npu/plan_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "arch/graph_io.h"
#include "base/math.h"
#include "base/str.h"

/* --- the matrices of a layer ------------------------------------------------------------------ */

/* Of what a family keeps in one tensor the parts are counted, under the names that other families
 * give them. */
static fy_span matrix_name(fy_slot slot)
{
    for (const fy_family *const *f = fy_families; *f != NULL; f++) {
        const fy_tensor_row *row = fy_row_of_slot(*f, slot);
        if (row == NULL)
            continue;
        const char *dot = strrchr(row->gguf, '.'), *begin = strstr(row->gguf, "%u.");
        begin = begin != NULL ? begin + 3 : row->gguf;
        return (fy_span){begin, (size_t)(dot - begin)};
    }
    return (fy_span){0};
}

bool fy_plan_matrix_at(const fy_npu_model *m, const fy_npu_recipe *r, uint32_t layer, size_t i,
                       fy_plan_matrix *out)
{
    for (size_t k = 0; k < m->n_tensors; k++) {
        const fy_npu_tensor *t = &m->tensors[k];
        if (!t->matrix || !t->per_layer || t->layer != layer || i-- > 0)
            continue;
        const fy_span name = matrix_name(t->slot);
        snprintf(out->name, sizeof out->name, "%.*s", (int)name.len, name.ptr);
        out->type = fy_npu_recipe_type(r, t->slot, layer);
        out->n_out = t->n_out;
        out->n_in = t->n_in;
        if (!fy_npu_matrix_bytes(out->type, t->n_out, t->n_in, &out->bytes))
            out->bytes = UINT64_MAX;
        return true;
    }
    return false;
}

bool fy_plan_layer_bytes(const fy_npu_model *m, const fy_npu_recipe *r, uint32_t layer,
                         uint64_t *bytes)
{
    fy_plan_matrix t;
    *bytes = 0;
    for (size_t i = 0; fy_plan_matrix_at(m, r, layer, i, &t); i++) {
        if (!fy_add_u64(*bytes, t.bytes, bytes))
            return false;
    }
    return true;
}

/* --- as a drawing ----------------------------------------------------------------------------- */

#define MB     1e-6
#define GB     1e-9
#define NARROW 0.9 /* of a limit */

enum { MIN_COLUMNS = 72, MAX_COLUMNS = 120, MIN_BAR = 10, MAX_BAR = 40, NAME_BYTES = 32 };

/* --- what it is about ------------------------------------------------------------------------- */

static void put_model(fy_str *out, const fy_plan_view *v)
{
    const fy_hparams *hp = &v->model->npu.hp;
    char name[FY_QUOTE_BYTES];
    fy_plan_model_name(v->model, name, sizeof name);
    fy_str_printf(out, "%s: %s, %u layer%s of width %u, %u heads", name, v->model->npu.family->name,
                  hp->n_layer, hp->n_layer == 1 ? "" : "s", hp->n_embd, hp->n_head);
    if (hp->n_head_kv != hp->n_head)
        fy_str_printf(out, " (%u of KV)", hp->n_head_kv);
    const double bytes = (double)v->model->npu.file_bytes;
    const bool small = bytes * GB < 0.1;
    fy_str_printf(out, ", vocabulary of %u; %.*f %s%s", hp->n_vocab, small ? 1 : 2,
                  bytes * (small ? MB : GB), small ? "MB" : "GB",
                  v->model->checkpoint ? " as f16" : "");
}

/* Whoever wrote the file may have put anything into it. */
static void put_quoted(fy_str *out, const char *title)
{
    fy_str_puts(out, " (");
    fy_str_put_quoted(out, fy_span_of(title), SIZE_MAX);
    fy_str_putc(out, ')');
}

static void put_soc(fy_str *out, const fy_plan_view *v)
{
    const fy_soc *s = v->plan->params.soc;
    fy_str_puts(out, s->name);
    if (s->title != NULL)
        put_quoted(out, s->title);
    fy_str_printf(out, ": HTP V%u", s->htp_arch);
    if (s->vtcm_mb > 0)
        fy_str_printf(out, ", VTCM %u MiB", s->vtcm_mb);
    fy_str_printf(out, ", %u session%s of %.2f GB, a context at most %.2f GB, a file %.2f GB",
                  s->n_sessions, s->n_sessions == 1 ? "" : "s", (double)s->session_bytes * GB,
                  (double)s->context_bytes * GB, (double)s->file_bytes * GB);
}

static void put_recipe(fy_str *out, const fy_plan_view *v)
{
    const fy_npu_recipe *r = v->plan->params.recipe;
    fy_str_puts(out, r->name);
    if (strcmp(r->name, r->title) != 0)
        put_quoted(out, r->title);
    if (fy_graph_has_states(&v->model->npu.hp))
        fy_str_puts(out, ", states and all between the matrices in fp16");
    else
        fy_str_printf(out, ", KV cache of %u bit", v->plan->params.kv_bits);
}

static void put_graphs(fy_str *out, const fy_plan_view *v)
{
    const fy_npu_params *o = &v->plan->params;
    if (fy_graph_has_states(&v->model->npu.hp))
        fy_str_puts(out, "states of one size for any context, batches of");
    else
        fy_str_printf(out, "context %u (%u cached), batches of", o->n_ctx, v->plan->n_cache);
    for (uint32_t i = 0; i < o->n_batches; i++)
        fy_str_printf(out, "%s %u", i == 0 ? "" : i + 1 < o->n_batches ? "," : " and", o->batch[i]);
    if (o->n_batches > 1)
        fy_str_puts(out, v->plan->weights_shared ? ", which share the weights"
                                                 : ", each with weights of its own");
}

static void put_line(fy_str *out, const char *name, void (*put)(fy_str *out, const fy_plan_view *v),
                     const fy_plan_view *v, int columns)
{
    enum { INDENT = 9 };
    fy_str line = {0};
    put(&line, v);
    fy_str_printf(out, "%-*s", INDENT, name);
    fy_str_wrap(out, fy_str_z(&line), INDENT, (size_t)columns);
    out->oom |= line.oom;
    fy_str_release(&line);
}

/* --- the chunks ------------------------------------------------------------------------------- */

typedef struct {
    char name[NAME_BYTES], range[NAME_BYTES];
} row_name;

static row_name name_of(const fy_npu_plan *p, uint32_t i)
{
    row_name r = {.name = "lm_head"};
    if (i < p->n_chunks) {
        const fy_npu_chunk *c = &p->chunks[i];
        snprintf(r.name, sizeof r.name, "chunk %u", i);
        snprintf(r.range, sizeof r.range, c->first_layer + 1 < c->end_layer ? "%u-%u" : "%u",
                 c->first_layer, c->end_layer - 1);
    } else if (p->n_heads > 1) {
        const fy_npu_chunk *h = &p->heads[i - p->n_chunks];
        snprintf(r.name, sizeof r.name, "lm_head %u", i - p->n_chunks);
        snprintf(r.range, sizeof r.range, "tokens %u-%u", h->first_token, h->end_token - 1);
    }
    return r;
}

static void put_times(fy_str *out, char c, int n)
{
    for (; n > 0; n--)
        fy_str_putc(out, c);
}

static double info_of(uint64_t bytes, uint64_t limit)
{
    return limit > 0 ? (double)bytes / (double)limit : 0;
}

static int cells(uint64_t bytes, uint64_t limit, int width)
{
    const double n = info_of(bytes, limit) * width;
    return n >= width ? width : (int)(n + 0.5);
}

/* Of the two limits that a chunk has, the one that it is nearer to. */
typedef struct {
    bool file; /* else the context's */
    uint64_t bytes, limit;
} fill;

static fill fill_of(const fy_npu_chunk *p, const fy_soc *s)
{
    const bool file = info_of(p->file_bytes, s->file_bytes) > info_of(p->bytes, s->context_bytes);
    return file ? (fill){true, p->file_bytes, s->file_bytes}
                : (fill){false, p->bytes, s->context_bytes};
}

static void put_fill(fy_str *out, const fy_npu_chunk *p, const fy_soc *s, int width)
{
    const fill f = fill_of(p, s);
    const int weights = cells(p->weights, f.limit, width);
    const int kv = f.file ? weights : cells(p->weights + p->kv_bytes, f.limit, width);
    const int all = cells(f.bytes, f.limit, width);
    fy_str_puts(out, "  [");
    put_times(out, '#', weights);
    put_times(out, '=', kv - weights);
    put_times(out, '-', all - kv);
    put_times(out, '.', width - all);
    fy_str_printf(out, "%c %3.0f %% of a %s", f.bytes > f.limit ? '>' : ']',
                  100 * info_of(f.bytes, f.limit), f.file ? "file" : "context");
}

static void put_mb(fy_str *out, uint64_t bytes, int wide)
{
    const double n = (double)bytes * MB;
    fy_str_printf(out, "%*.*f", wide, n < 100 ? 1 : 0, n);
}

static void put_numbers(fy_str *out, uint64_t weights, uint64_t kv, uint64_t io, uint64_t rest,
                        uint64_t bytes)
{
    put_mb(out, weights, 8);
    put_mb(out, kv, 7);
    put_mb(out, io - kv, 7);
    put_mb(out, rest, 7);
    put_mb(out, bytes, 8);
}

static void put_chunk(fy_str *out, const fy_npu_plan *p, uint32_t i, int wide, int bar)
{
    const fy_npu_chunk *c = fy_npu_chunk_at(p, i);
    const row_name r = name_of(p, i);
    fy_str_printf(out, "%-10s %-*s", r.name, wide, r.range);
    put_numbers(out, c->weights, c->kv_bytes, c->io_bytes, c->op_bytes + c->scratch, c->bytes);
    fy_str_printf(out, " %8u", c->session);
    if (bar > 0)
        put_fill(out, c, p->params.soc, bar);
    fy_str_putc(out, '\n');
}

static void put_sums(fy_str *out, const fy_npu_plan *p, int wide)
{
    uint64_t rest = 0, bytes = 0;
    for (uint32_t i = 0; i < p->n_chunks + p->n_heads; i++) {
        rest += fy_npu_chunk_at(p, i)->op_bytes + fy_npu_chunk_at(p, i)->scratch;
        bytes += fy_npu_chunk_at(p, i)->bytes;
    }
    fy_str_printf(out, "%-10s %-*s", "all", wide, "");
    put_numbers(out, p->weights, p->kv, p->io, rest, bytes);
    fy_str_printf(out, "\n%-10s %-*s", "embedding", wide, "");
    put_mb(out, p->embedding, 8);
    fy_str_puts(out, ", on the CPU\n");
}

static void put_chunks(fy_str *out, const fy_npu_plan *p, int columns)
{
    enum { NUMBERS = 57, AROUND_BAR = 23 };
    int wide = 6;
    for (uint32_t i = 0; i < p->n_chunks + p->n_heads; i++) {
        const int len = (int)strlen(name_of(p, i).range);
        wide = len > wide ? len : wide;
    }
    int bar = columns - NUMBERS - wide - AROUND_BAR;
    bar = bar > MAX_BAR ? MAX_BAR : bar < MIN_BAR ? 0 : bar;
    fy_str_printf(out, "\n%-10s %-*s%8s%7s%7s%7s%8s %8s\n", "MB", wide, "layers", "weights", "KV",
                  "I/O", "op", "all", "session");
    for (uint32_t i = 0; i < p->n_chunks + p->n_heads; i++)
        put_chunk(out, p, i, wide, bar);
    put_sums(out, p, wide);
    if (bar > 0)
        fy_str_puts(out, "[# weights  = KV cache  - inputs, outputs, operations]\n");
}

/* --- the sessions ----------------------------------------------------------------------------- */

/* A chunk is drawn with the last digit of its number. */
static char mark_of(const fy_npu_plan *p, uint32_t i)
{
    return i < p->n_chunks ? (char)('0' + i % 10) : 'h';
}

static void put_session(fy_str *out, const fy_npu_plan *p, uint32_t session, int width)
{
    const fy_soc *s = p->params.soc;
    uint64_t bytes = 0;
    int at = 0;
    fy_str_printf(out, "session %-2u [", session);
    for (uint32_t i = 0; i < p->n_chunks + p->n_heads; i++) {
        const fy_npu_chunk *c = fy_npu_chunk_at(p, i);
        if (c->session != session)
            continue;
        bytes += c->bytes;
        const int to = cells(bytes, s->session_bytes, width);
        put_times(out, mark_of(p, i), to - at);
        at = to > at ? to : at;
    }
    put_times(out, '.', width - at);
    fy_str_printf(out, "%c %.2f of %.2f GB\n", bytes > s->session_bytes ? '>' : ']',
                  (double)bytes * GB, (double)s->session_bytes * GB);
}

/* Those that the chip does not have are not drawn. */
static void put_rest(fy_str *out, const fy_npu_plan *p)
{
    const uint32_t n = p->params.soc->n_sessions;
    uint64_t bytes = 0;
    if (p->n_sessions <= n)
        return;
    for (uint32_t i = 0; i < p->n_chunks + p->n_heads; i++)
        bytes += fy_npu_chunk_at(p, i)->session >= n ? fy_npu_chunk_at(p, i)->bytes : 0;
    fy_str_printf(out, "and %u more, which the chip does not have, of %.2f GB\n", p->n_sessions - n,
                  (double)bytes * GB);
}

static void put_sessions(fy_str *out, const fy_npu_plan *p, int columns)
{
    enum { AROUND = 12 + 20 };
    int width = columns - AROUND;
    fy_str_putc(out, '\n');
    for (uint32_t i = 0; i < p->n_sessions && i < p->params.soc->n_sessions; i++)
        put_session(out, p, i, width > 2 * MAX_BAR ? 2 * MAX_BAR : width);
    put_rest(out, p);
}

static void put_memory(fy_str *out, const fy_plan_view *v)
{
    const fy_npu_plan *p = v->plan;
    fy_str_printf(out, "%.2f GB with the NPU, %.2f GB with the CPU alone", (double)p->npu_peak * GB,
                  (double)p->cpu_peak * GB);
    if (p->params.memory_bytes > 0)
        fy_str_printf(out, ", of the phone's %.2f GB", (double)p->params.memory_bytes * GB);
}

static void put_compile(fy_str *out, const fy_plan_view *v)
{
    const fy_npu_plan *p = v->plan;
    fy_str_printf(out, "about %.1f GB of a PC's memory for the largest chunk",
                  (double)p->compile_peak * GB);
    if (p->compile_seconds < 120)
        fy_str_printf(out, ", %" PRIu64 " seconds for all of them", p->compile_seconds);
    else
        fy_str_printf(out, ", %.0f minutes for all of them", (double)p->compile_seconds / 60);
}

/* Is a chunk so near to a limit that what is only estimated decides? */
static bool is_narrow(const fy_npu_plan *p)
{
    for (uint32_t i = 0; i < p->n_chunks + p->n_heads; i++) {
        const fill f = fill_of(fy_npu_chunk_at(p, i), p->params.soc);
        if (info_of(f.bytes, f.limit) > NARROW)
            return true;
    }
    return false;
}

static void put_verdict(fy_str *out, const fy_plan_view *v)
{
    const fy_npu_plan *p = v->plan;
    fy_str_printf(out, "%u chunk%s and %u lm_head%s in %u of %u sessions", p->n_chunks,
                  p->n_chunks == 1 ? "" : "s", p->n_heads, p->n_heads == 1 ? "" : "s",
                  p->n_sessions, p->params.soc->n_sessions);
    if (is_narrow(p))
        fy_str_puts(out, "; narrowly, and op is estimated (see --chunks)");
}

/* --- layer by layer --------------------------------------------------------------------------- */

static bool same_layers(const fy_npu_model *m, const fy_npu_recipe *r, uint32_t a, uint32_t b)
{
    fy_plan_matrix x, y;
    bool more = true;
    for (size_t i = 0; more; i++) {
        more = fy_plan_matrix_at(m, r, a, i, &x);
        if (more != fy_plan_matrix_at(m, r, b, i, &y))
            return false;
        if (more && (strcmp(x.name, y.name) != 0 || x.type != y.type || x.bytes != y.bytes))
            return false;
    }
    return true;
}

static void put_matrices(fy_str *out, const fy_npu_model *m, const fy_npu_recipe *r, uint32_t layer)
{
    fy_plan_matrix t;
    for (size_t i = 0; fy_plan_matrix_at(m, r, layer, i, &t); i++)
        fy_str_printf(out, "  %-16s %-14s %8" PRIu64 " x %-8" PRIu64 "%9.2f MB\n", t.name,
                      fy_npu_type_name(t.type), t.n_out, t.n_in, (double)t.bytes * MB);
}

/* Neighbours that are alike are one block. */
static void put_layers(fy_str *out, const fy_npu_model *m, const fy_npu_params *o)
{
    for (uint32_t i = 0, end; i < o->n_layers; i = end) {
        uint64_t bytes = 0;
        for (end = i + 1; end < o->n_layers && same_layers(m, o->recipe, i, end);)
            end++;
        fy_plan_layer_bytes(m, o->recipe, i, &bytes);
        if (end > i + 1)
            fy_str_printf(out, "\nlayers %u-%u, each %.2f MB\n", i, end - 1, (double)bytes * MB);
        else
            fy_str_printf(out, "\nlayer %u, %.2f MB\n", i, (double)bytes * MB);
        put_matrices(out, m, o->recipe, i);
    }
}

/* --- all -------------------------------------------------------------------------------------- */

void fy_plan_put_text(fy_str *out, const fy_plan_view *v, int columns, bool details)
{
    const fy_npu_plan *p = v->plan;
    columns = columns < MIN_COLUMNS ? MIN_COLUMNS : columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
    put_line(out, "model", put_model, v, columns);
    put_line(out, "chip", put_soc, v, columns);
    put_line(out, "recipe", put_recipe, v, columns);
    put_line(out, "graphs", put_graphs, v, columns);
    if (details)
        put_layers(out, &v->model->npu, &p->params);
    if (p->n_chunks == 0) /* a limit that nothing could be counted behind */
        return;
    put_chunks(out, p, columns);
    put_sessions(out, p, columns);
    put_line(out, "memory", put_memory, v, columns);
    if (p->fits) {
        put_line(out, "compile", put_compile, v, columns);
        put_line(out, "fits", put_verdict, v, columns);
    }
}

/* --- as JSON ---------------------------------------------------------------------------------- */

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
        const char *option = fy_npu_change_option((fy_npu_change)c, &s->params, &text);
        fy_make_append(m, words, json_string(option));
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

static json_t *json_chunks(fy_json_maker *m, const fy_npu_chunk *p, uint32_t n, bool head)
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
        set_u64(m, o, "compile_peak_bytes", p[i].compile_peak);
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
    fy_make_set(&m, o, "chunks", json_chunks(&m, p->chunks, p->n_chunks, false));
    fy_make_set(&m, o, "heads", json_chunks(&m, p->heads, p->n_heads, true));
    set_u64(&m, o, "sessions", p->n_sessions);
    set_u64(&m, o, "embedding_bytes", p->embedding);
    set_u64(&m, o, "weight_bytes", p->weights);
    set_u64(&m, o, "io_bytes", p->io);
    set_u64(&m, o, "kv_bytes", p->kv);
    set_u64(&m, o, "npu_peak_bytes", p->npu_peak);
    set_u64(&m, o, "cpu_peak_bytes", p->cpu_peak);
    set_u64(&m, o, "compile_peak_bytes", p->compile_peak);
    set_u64(&m, o, "compile_seconds", p->compile_seconds);
    fy_make_set(&m, o, "layers", json_layers(&m, &v->model->npu, &p->params));
    return fy_make_end(&m, o, out, e);
}
