/* The verb `plan`: one model for one chip, a table over chips and contexts (--what-if), and the
 * lists of chips and recipes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/npu/hot_neurons.h"
#include "workspace/npu/plan_options.h"
#include "workspace/npu/plan_show.h"

/* --- what is known ---------------------------------------------------------------------------- */

#define GB 1e-9

/* A column is as wide as its widest cell. */
static int wider(int wide, const char *text)
{
    const int n = (int)strlen(text);
    return n > wide ? n : wide;
}

/* Text of a file that a user may have from anywhere. */
static void put_text(fy_str *out, const char *before, const char *text)
{
    fy_str_puts(out, before);
    fy_str_put_quoted(out, fy_span_of(text), SIZE_MAX);
}

static int print(const fy_str *out, fy_err *e)
{
    return out->oom ? fy_nomem(e) : fy_stdout(fy_str_z(out), out->len, e);
}

/* --- chips ------------------------------------------------------------------------------------ */

static void put_soc(fy_str *out, const fy_soc *s, int wide)
{
    fy_str_printf(out, "%-*s  V%-3u", wide, s->name, s->htp_arch);
    if (s->vtcm_mb > 0)
        fy_str_printf(out, " %5u", s->vtcm_mb);
    else
        fy_str_printf(out, " %5s", "?");
    fy_str_printf(out, "  %u x %.2f ", s->n_sessions, (double)s->session_bytes * GB);
    if (s->memory_bytes > 0)
        fy_str_printf(out, "%7.1f", (double)s->memory_bytes * GB);
    else
        fy_str_printf(out, "%7s", "?");
    if (s->title != NULL)
        put_text(out, "  ", s->title);
    for (size_t i = 0; i < s->n_aliases; i++)
        put_text(out, i > 0 || s->title != NULL ? ", " : "  ", s->aliases[i]);
    fy_str_putc(out, '\n');
}

static void put_soc_table(fy_str *out, const fy_soc_table *t)
{
    int wide = 4;
    for (size_t i = 0; i < fy_soc_table_n(t); i++)
        wide = wider(wide, fy_soc_table_at(t, i)->name);
    fy_str_printf(out, "%-*s  %-4s %5s  %-9s %7s  %s\n", wide, "name", "HTP", "VTCM", "sessions",
                  "memory", "also known as");
    fy_str_printf(out, "%-*s  %-4s %5s  %-9s %7s\n", wide, "", "", "MiB", "GB", "GB");
    for (size_t i = 0; i < fy_soc_table_n(t); i++)
        put_soc(out, fy_soc_table_at(t, i), wide);
}

static json_t *json_socs(fy_json_maker *m, const fy_soc_table *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < fy_soc_table_n(t); i++)
        fy_make_append(m, list, fy_plan_json_soc(m, fy_soc_table_at(t, i)));
    return list;
}

/* --- recipes ---------------------------------------------------------------------------------- */

static json_t *json_recipe(fy_json_maker *m, const fy_npu_recipe *r)
{
    json_t *o = json_object(), *models = json_array();
    for (size_t i = 0; i < r->n_models; i++)
        fy_make_append(m, models, fy_make_text(fy_span_of(r->models[i])));
    fy_plan_json_text(m, o, "name", r->name);
    fy_plan_json_text(m, o, "title", r->title);
    fy_plan_json_text(m, o, "type", fy_npu_type_name(r->type));
    fy_make_set(m, o, "kv_bits", json_integer(r->kv_bits));
    fy_plan_json_text(m, o, "core", r->float_core ? "fp16" : "u16");
    fy_make_set(m, o, "rotate_keys", json_boolean(r->rotate_keys));
    fy_make_set(m, o, "models", models);
    fy_plan_json_text(m, o, "source", r->source);
    return o;
}

static void put_recipe_table(fy_str *out, const fy_npu_recipes *r)
{
    int wide = 4;
    for (size_t i = 0; i < fy_npu_recipes_n(r); i++)
        wide = wider(wide, fy_npu_recipes_at(r, i)->name);
    fy_str_printf(out, "%-*s  core  KV  %s\n", wide, "name", "weights");
    for (size_t i = 0; i < fy_npu_recipes_n(r); i++) {
        const fy_npu_recipe *one = fy_npu_recipes_at(r, i);
        fy_str_printf(out, "%-*s  %-4s  %2u", wide, one->name, one->float_core ? "fp16" : "u16",
                      one->kv_bits);
        put_text(out, "  ", one->title);
        fy_str_putc(out, '\n');
    }
}

static json_t *json_recipes(fy_json_maker *m, const fy_npu_recipes *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < fy_npu_recipes_n(r); i++)
        fy_make_append(m, list, json_recipe(m, fy_npu_recipes_at(r, i)));
    return list;
}

/* --- chips and contexts ----------------------------------------------------------------------- */

enum { CELL = 9, WIDTH = 100, INDENT = 9 };

typedef struct {
    const fy_plan_model *model;
    const fy_soc **socs; /* owned, [n_socs] */
    size_t n_socs;
    const uint32_t *contexts;
    size_t n_contexts;
} question;

typedef struct {
    const fy_soc *soc;
    const fy_npu_recipe *recipe;
    fy_npu_plan *cells; /* owned, [n_contexts] */
} row;

/* asked: with recipe NULL the chip's default; soc and n_ctx are of no meaning. */
static int fill_row(const question *q, const fy_npu_params *asked, const fy_npu_recipes *recipes,
                    const fy_soc *soc, row *r, fy_err *e)
{
    fy_npu_params p = *asked;
    p.soc = soc;
    if (p.recipe == NULL)
        p.recipe = fy_npu_recipes_default(recipes, soc, true);
    *r = (row){.soc = soc, .recipe = p.recipe, .cells = calloc(q->n_contexts, sizeof *r->cells)};
    if (r->cells == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < q->n_contexts; i++) {
        p.n_ctx = q->contexts[i];
        if (fy_npu_plan_make(&q->model->npu, &p, &r->cells[i], e) != 0)
            return -1;
    }
    return 0;
}

/* --- as a table ------------------------------------------------------------------------------- */

static void put_row(fy_str *out, const question *q, const row *r, int wide, int wide_recipe)
{
    char text[32];
    fy_str_printf(out, "%-*s  V%-3u %-*s", wide, r->soc->name, r->soc->htp_arch, wide_recipe,
                  r->recipe->name);
    for (size_t i = 0; i < q->n_contexts; i++) {
        snprintf(text, sizeof text, "%u/%u", r->cells[i].n_chunks, r->cells[i].n_sessions);
        fy_str_printf(out, "%*s", CELL, r->cells[i].fits ? text : "-");
    }
    fy_str_putc(out, '\n');
}

/* The first context that does not fit says why; what other chips say, too, is not said again. */
static void put_why(fy_str *out, const question *q, const row *rows, size_t at)
{
    const row *r = &rows[at];
    size_t i = 0;
    while (i < q->n_contexts && r->cells[i].fits)
        i++;
    if (i == q->n_contexts)
        return;
    fy_str line = {0};
    fy_str_printf(&line, "%s from %u: %s", r->soc->name, q->contexts[i], r->cells[i].why.msg);
    fy_str_wrap(out, fy_str_z(&line), INDENT, WIDTH);
    out->oom |= line.oom;
    fy_str_release(&line);
}

static void put_table(fy_str *out, const question *q, const row *rows)
{
    int wide = 4, wide_recipe = 6;
    char name[64];
    for (size_t i = 0; i < q->n_socs; i++) {
        wide = wider(wide, rows[i].soc->name);
        wide_recipe = wider(wide_recipe, rows[i].recipe->name);
    }
    fy_plan_model_name(q->model, name, sizeof name);
    fy_str_printf(out, "%s: chunks/sessions by context\n\n%-*s  %-4s %-*s", name, wide, "chip",
                  "HTP", wide_recipe, "recipe");
    for (size_t i = 0; i < q->n_contexts; i++)
        fy_str_printf(out, "%*u", CELL, q->contexts[i]);
    fy_str_putc(out, '\n');
    for (size_t i = 0; i < q->n_socs; i++)
        put_row(out, q, &rows[i], wide, wide_recipe);
    fy_str_putc(out, '\n');
    for (size_t i = 0; i < q->n_socs; i++)
        put_why(out, q, rows, i);
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static json_t *json_cell(fy_json_maker *m, uint32_t n_ctx, const fy_npu_plan *c)
{
    json_t *o = json_object();
    fy_make_set(m, o, "context", json_integer(n_ctx));
    fy_make_set(m, o, "fits", json_boolean(c->fits));
    fy_make_set(m, o, "chunks", json_integer(c->n_chunks));
    fy_make_set(m, o, "heads", json_integer(c->n_heads));
    fy_make_set(m, o, "sessions", json_integer(c->n_sessions));
    fy_make_set(m, o, "npu_peak_bytes", fy_make_u64(c->npu_peak));
    fy_plan_json_text(m, o, "limit", fy_plan_limit_name(c->limit));
    fy_plan_json_text(m, o, "why", c->fits ? NULL : c->why.msg);
    return o;
}

static int put_json(fy_str *out, const question *q, const row *rows, fy_err *e)
{
    fy_json_maker m = {0};
    json_t *top = json_object(), *list = json_array();
    for (size_t i = 0; i < q->n_socs; i++) {
        json_t *o = json_object(), *cells = json_array();
        for (size_t k = 0; k < q->n_contexts; k++)
            fy_make_append(&m, cells, json_cell(&m, q->contexts[k], &rows[i].cells[k]));
        fy_plan_json_text(&m, o, "soc", rows[i].soc->name);
        fy_make_set(&m, o, "htp_arch", json_integer(rows[i].soc->htp_arch));
        fy_plan_json_text(&m, o, "recipe", rows[i].recipe->name);
        fy_make_set(&m, o, "contexts", cells);
        fy_make_append(&m, list, o);
    }
    fy_make_set(&m, top, "model", fy_plan_json_model(&m, q->model));
    fy_make_set(&m, top, "socs", list);
    return fy_make_end(&m, top, out, e);
}

/* --- the verb --------------------------------------------------------------------------------- */

typedef struct {
    fy_npu_options plan;
    const char *what_if, *hub, *hot, *activations, *out;
    int64_t n_layers, hot_least;
    bool list_socs, list_recipes, json, quiet, verbose;
    const char *device;
} options;

#define SYNOPSIS "MODEL.gguf|DIR|ORG/NAME"

static const fy_opt opts[] = {
    FY_PLAN_ROWS(plan),
    {.group = "Chip",
     .name = "device",
     .kind = FY_OPT_STR,
     .arg = "SERIAL",
     .offset = offsetof(options, device),
     .bare = "",
     .line_only = true,
     .set = "chip",
     .help = "Ask the phone with this serial number, through adb, for its chip and its memory; "
             "without a number that of ANDROID_SERIAL, or the only one there is."},
    {.group = "Graphs",
     .name = "layers",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_layers),
     .def = "0",
     .max = FY_N_LAYER_MAX,
     .help = "Plan for the first N layers alone; 0: all of them.",
     .line_only = true},
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "Write one JSON object, all sizes in bytes; docs/plan.md has its members."},
    {.group = "Output",
     .name = "what-if",
     .kind = FY_OPT_STR,
     .arg = "SOC,...",
     .offset = offsetof(options, what_if),
     .bare = "",
     .line_only = true,
     .help = "A table instead: chunks and sessions on these chips, on that of --soc, or on one of "
             "each version of the NPU, in contexts of 512 to 32768 (or in -c alone)."},
    {.group = "Output",
     .name = "list-socs",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, list_socs),
     .line_only = true,
     .help = "Print the chips that ferry knows."},
    {.group = "Output",
     .name = "list-recipes",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, list_recipes),
     .line_only = true,
     .help = "Print the recipes that ferry knows."},
    FY_LINE_STR("Hot neurons", "hot", "N|SIZE", hot,
                "Instead of all that: which N neurons of a model with a ReLU activation to keep in "
                "memory, or as many as SIZE bytes hold (K, M or G); docs/sparse.md."),
    {.group = "Hot neurons",
     .name = "activations",
     .kind = FY_OPT_STR,
     .arg = "FILE.gguf|DIR",
     .offset = offsetof(options, activations),
     .line_only = true,
     .file = FY_FILE_IN,
     .help = "How often each neuron is active: from ferry eval --activations-out, or the directory "
             "of PowerInfer's activation_N.pt."},
    {.group = "Hot neurons",
     .name = "hot-least",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, hot_least),
     .def = "0",
     .max = INT32_MAX,
     .line_only = true,
     .help = "A layer has at least N hot neurons, or none."},
    {.group = "Hot neurons",
     .name = "output",
     .alias = "o",
     .kind = FY_OPT_STR,
     .arg = "FILE.gpuidx",
     .offset = offsetof(options, out),
     .line_only = true,
     .file = FY_FILE_OUT,
     .help = "Write the hot neurons to this file, as PowerInfer's split file."},
    FY_ROW_HUB_OF(hub),
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

typedef struct {
    fy_plan_data data;
    fy_plan_model model;
} world;

/* --- one chip --------------------------------------------------------------------------------- */

static int show(const world *w, const fy_npu_params *asked, const fy_npu_plan *p, const options *o,
                fy_err *e)
{
    fy_npu_suggestion s = {0};
    if (!p->fits && fy_npu_suggest(&w->model.npu, asked, w->data.recipes, &s, e) != 0)
        return -1;
    const fy_plan_view v = {.model = &w->model, .plan = p, .suggestion = p->fits ? NULL : &s};
    fy_str out = {0};
    int rc = 0;
    if (o->json)
        rc = fy_plan_put_json(&out, &v, e);
    else
        fy_plan_put_text(&out, &v, fy_terminal_columns(1, 100), o->verbose);
    if (rc == 0)
        rc = print(&out, e);
    fy_str_release(&out);
    return rc == 0 && !p->fits ? fy_plan_does_not_fit(p, &s, &w->model.npu, e) : rc;
}

static int plan_one(world *w, fy_npu_params *p, const options *o, fy_err *e)
{
    fy_npu_plan plan;
    p->soc = fy_plan_find_soc(&w->data, &o->plan, e);
    if (p->soc == NULL)
        return -1;
    if (p->recipe == NULL)
        p->recipe = fy_npu_recipes_default(w->data.recipes, p->soc, true);
    if (fy_npu_plan_make(&w->model.npu, p, &plan, e) != 0)
        return -1;
    if (plan.params.n_ctx > w->model.npu.hp.n_ctx_train)
        fy_log(FY_LOG_WARN, "a context of %u positions, but the model was trained with %u",
               plan.params.n_ctx, w->model.npu.hp.n_ctx_train);
    const int rc = show(w, p, &plan, o, e);
    fy_npu_plan_release(&plan);
    return rc;
}

/* --- many chips ------------------------------------------------------------------------------- */

/* Of chips with the same NPU the one that most is known of, then that with most of it. */
static bool stands_for(const fy_soc *a, const fy_soc *b)
{
    if ((a->memory_bytes > 0) != (b->memory_bytes > 0))
        return a->memory_bytes > 0;
    if (a->n_sessions != b->n_sessions)
        return a->n_sessions > b->n_sessions;
    return a->vtcm_mb > b->vtcm_mb;
}

/* By version; at most as many as the table has rows. */
static size_t representatives(const fy_soc_table *t, const fy_soc **out)
{
    size_t n = 0;
    for (size_t i = 0; i < fy_soc_table_n(t); i++) {
        const fy_soc *s = fy_soc_table_at(t, i);
        size_t k = 0;
        while (k < n && out[k]->htp_arch < s->htp_arch)
            k++;
        if (k < n && out[k]->htp_arch == s->htp_arch) {
            out[k] = stands_for(s, out[k]) ? s : out[k];
            continue;
        }
        memmove(&out[k + 1], &out[k], (n++ - k) * sizeof *out);
        out[k] = s;
    }
    return n;
}

/* names: "SM8650,SM8750", changed. */
static int named_socs(const fy_soc_table *t, char *names, const fy_soc **out, size_t *n, fy_err *e)
{
    *n = 0;
    for (char *next, *at = names; at != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL)
            *next++ = '\0';
        const fy_soc *s = fy_soc_find(t, at, e);
        if (s == NULL)
            return fy_ctx(e, "--what-if");
        out[(*n)++] = s;
    }
    return 0;
}

/* The chips that are asked for; `names`, which is changed, is kept. */
static int choose_socs(world *w, const options *o, char *names, question *q, fy_err *e)
{
    const size_t most = strlen(names) + fy_soc_table_n(w->data.socs) + 2;
    q->socs = calloc(most, sizeof *q->socs);
    if (q->socs == NULL)
        return fy_nomem(e);
    if (*names != '\0')
        return named_socs(w->data.socs, names, q->socs, &q->n_socs, e);
    if (fy_plan_has_soc(&o->plan))
        return (q->socs[q->n_socs++] = fy_plan_find_soc(&w->data, &o->plan, e)) != NULL ? 0 : -1;
    q->n_socs = representatives(w->data.socs, q->socs);
    return 0;
}

static int what_if(world *w, const fy_npu_params *p, const options *o, fy_err *e)
{
    static const uint32_t contexts[] = {512, 1024, 2048, 4096, 8192, 16384, 32768};
    const bool one = o->plan.n_ctx != FY_OPT_UNSET_INT;
    question q = {.model = &w->model,
                  .contexts = one ? &p->n_ctx : contexts,
                  .n_contexts = one ? 1 : sizeof contexts / sizeof contexts[0]};
    char *names = strdup(o->what_if);
    fy_str out = {0};
    row *rows = NULL;
    int rc = names != NULL ? choose_socs(w, o, names, &q, e) : fy_nomem(e);
    if (rc == 0 && (rows = calloc(q.n_socs, sizeof *rows)) == NULL)
        rc = fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < q.n_socs; i++)
        rc = fill_row(&q, p, w->data.recipes, q.socs[i], &rows[i], e);
    if (rc == 0 && o->json)
        rc = put_json(&out, &q, rows, e);
    else if (rc == 0)
        put_table(&out, &q, rows);
    if (rc == 0)
        rc = print(&out, e);
    for (size_t i = 0; rows != NULL && i < q.n_socs; i++) {
        for (size_t k = 0; rows[i].cells != NULL && k < q.n_contexts; k++)
            fy_npu_plan_release(&rows[i].cells[k]);
        free(rows[i].cells);
    }
    fy_str_release(&out);
    free(rows);
    free(names);
    free(q.socs);
    return rc;
}

/* --- the verb --------------------------------------------------------------------------------- */

static int list(const options *o, fy_err *e)
{
    fy_soc_table *socs = o->list_socs ? fy_soc_table_open(o->plan.soc_table, e) : NULL;
    fy_npu_recipes *recipes = o->list_socs ? NULL : fy_npu_recipes_open(e);
    fy_str out = {0};
    int rc = socs != NULL || recipes != NULL ? 0 : -1;
    if (rc == 0 && o->json) {
        fy_json_maker m = {0};
        json_t *top = json_object();
        fy_make_set(&m, top, socs != NULL ? "socs" : "recipes",
                    socs != NULL ? json_socs(&m, socs) : json_recipes(&m, recipes));
        rc = fy_make_end(&m, top, &out, e);
    } else if (socs != NULL) {
        put_soc_table(&out, socs);
    } else if (recipes != NULL) {
        put_recipe_table(&out, recipes);
    }
    if (rc == 0)
        rc = print(&out, e);
    fy_str_release(&out);
    fy_soc_table_free(socs);
    fy_npu_recipes_free(recipes);
    return rc;
}

/* The chip, and the memory unless --memory says it. */
static int ask_phone(options *o, char soc[FY_QUOTE_BYTES], fy_err *e)
{
    uint64_t memory;
    if (fy_plan_has_soc(&o->plan))
        return fy_fail(e, FY_EARG,
                       "--device asks the phone for its chip: leave --soc, --htp-arch out");
    if (fy_program_now()->phone_chip(o->device, soc, &memory, e) != 0)
        return -1;
    o->plan.soc = soc;
    if (o->plan.memory == FY_OPT_UNSET_INT && memory > 0 && memory <= INT64_MAX)
        o->plan.memory = (int64_t)memory;
    fy_log(FY_LOG_INFO, "the phone has %s and %.1f GB of memory", soc, (double)memory * 1e-9);
    return 0;
}

static int run_hot(const options *o, const char *model, fy_err *e)
{
    const fy_hot_plan p = {.model = model,
                           .activations = o->activations,
                           .hot = o->hot,
                           .least = (uint64_t)o->hot_least,
                           .out = o->out,
                           .json = o->json};
    if (o->hot == NULL || o->activations == NULL)
        return fy_fail(e, FY_EARG,
                       "--hot N and --activations FILE belong together, and -o to them: give both");
    return fy_hot_plan_run(&p, e);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    options *o = opaque;
    char soc[FY_QUOTE_BYTES];
    if (o->list_socs && o->list_recipes)
        return fy_fail(e, FY_EARG,
                       "--list-socs and --list-recipes are two lists; give one of them");
    if (o->list_socs || o->list_recipes)
        return n_args == 0 ? list(o, e)
                           : fy_fail(e, FY_EARG, "--list-%s takes no model",
                                     o->list_socs ? "socs" : "recipes");
    if ((o->hub != NULL) == (n_args > 0))
        return fy_fail(e, FY_EARG, "%s; usage: ferry plan [options] %s",
                       n_args > 0 ? "two models, one of them by -hf" : "too few arguments",
                       SYNOPSIS);
    if (o->hot != NULL || o->activations != NULL || o->out != NULL)
        return run_hot(o, o->hub != NULL ? o->hub : args[0], e);
    if (o->device != NULL && ask_phone(o, soc, e) != 0)
        return -1;
    if (fy_npu_options_check(&o->plan, e) != 0)
        return -1;
    if (!fy_plan_has_soc(&o->plan) && o->what_if == NULL)
        return fy_fail(e, FY_EARG,
                       "for which chip? --soc NAME (--list-socs has the names; a phone's is taken, "
                       "too), --device asks the phone, or --htp-arch N --vtcm MB");
    world w = {0};
    fy_npu_params p;
    int rc = fy_plan_data_open(&w.data, &o->plan, e);
    if (rc == 0)
        rc = fy_plan_model_open(&w.model, o->hub != NULL ? o->hub : args[0], e);
    if (rc == 0)
        rc = fy_plan_params_of(&w.data, &o->plan, &w.model.npu.hp, &p, e);
    if (rc == 0) {
        p.n_layers = (uint32_t)o->n_layers;
        rc = o->what_if != NULL ? what_if(&w, &p, o, e) : plan_one(&w, &p, o, e);
    }
    fy_plan_model_release(&w.model);
    fy_plan_data_release(&w.data);
    return rc;
}

const fy_verb fy_verb_plan = {
    .name = "plan",
    .summary = "say what of a model fits the NPU, before any work",
    .synopsis = SYNOPSIS,
    .min_args = 0,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Counts what a model takes on a phone's NPU: into how many chunks its layers have to be "
        "cut so that each is within the limits of a context, what each has in weights, KV cache, "
        "inputs and outputs, which of them share a session, and what memory the phone needs for "
        "that, and when the CPU runs the model instead. Headers alone are read.\n\n"
        "MODEL is a GGUF file, a workspace, or a checkpoint: a directory with weights or with "
        "config.json alone, the config.json itself, or [ORG/]NAME in the cache of Hugging Face's "
        "tools.\n\n"
        "What does not fit ends with status 3, the first limit that it breaks, and the cheapest "
        "change with which it fits, found by trying. -v shows the matrices of the layers with "
        "their types.\n\n"
        "--hot answers another question, for models whose neurons are mostly 0: which neurons are "
        "active most often over a text, so that memory is spent on them (docs/sparse.md).\n\n"
        "Chips and recipes are data: ferry/soc.d/NAME.json and ferry/recipes.d/NAME.json in the "
        "configuration directory add to those that come with ferry. docs/plan.md reads a plan line "
        "by line; docs/npu.md says what is counted how and what is estimated.",
    .examples = "ferry plan model.gguf --soc SM8650\n"
                "ferry plan model.gguf --soc 'Galaxy S24 Ultra'\n"
                "# for the phone on the cable\n"
                "ferry plan model.gguf --device\n"
                "# a model that is not there yet, for a chip that ferry does not know\n"
                "ferry plan checkpoint/config.json --htp-arch 75 --vtcm 8\n"
                "# how far would it go?\n"
                "ferry plan model.gguf --what-if\n"
                "# which neurons of a ReLU model should stay in 2 GB of memory?\n"
                "ferry plan model.gguf --hot 2G --activations counts.gguf -o model.gpuidx\n"
                "ferry plan --list-socs\n",
    .task = FY_TASK_PACKAGE,
    .environment =
        "XDG_CONFIG_HOME Where ferry/soc.d and ferry/recipes.d are looked for; ~/.config when not "
        "set.\n" FY_ADB_ENVIRONMENT,
    .run = run,
};
