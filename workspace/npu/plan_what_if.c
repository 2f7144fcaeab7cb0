/* One model on several chips in several contexts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "workspace/npu/plan_show.h"
#include "workspace/npu/plan_json.h"

enum { CELL = 9, WIDTH = 100, INDENT = 9 };

/* What is kept of a plan. */
typedef struct {
    bool fits;
    uint32_t n_chunks, n_heads, n_sessions;
    uint64_t npu_peak;
    fy_npu_limit limit;
    fy_err why;
} cell;

typedef struct {
    const fy_soc *soc;
    const fy_npu_recipe *recipe;
    cell *cells; /* owned, [n_contexts] */
} row;

static int fill_cell(const fy_plan_question *q, const fy_npu_params *p, cell *out, fy_err *e)
{
    fy_npu_plan plan;
    if (fy_npu_plan_make(&q->model->npu, p, &plan, e) != 0)
        return -1;
    *out = (cell){.fits = plan.fits,
                  .n_chunks = plan.n_chunks,
                  .n_heads = plan.n_heads,
                  .n_sessions = plan.n_sessions,
                  .npu_peak = plan.npu_peak,
                  .limit = plan.limit,
                  .why = plan.why};
    fy_npu_plan_release(&plan);
    return 0;
}

static int fill_row(const fy_plan_question *q, const fy_soc *soc, row *r, fy_err *e)
{
    fy_npu_params p = q->params;
    p.soc = soc;
    if (p.recipe == NULL)
        p.recipe = fy_npu_recipes_default(q->recipes, soc);
    *r = (row){.soc = soc, .recipe = p.recipe, .cells = calloc(q->n_contexts, sizeof *r->cells)};
    if (r->cells == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < q->n_contexts; i++) {
        p.n_ctx = q->contexts[i];
        if (fill_cell(q, &p, &r->cells[i], e) != 0)
            return -1;
    }
    return 0;
}

/* --- as a table ------------------------------------------------------------------------------- */

static void put_row(fy_str *out, const fy_plan_question *q, const row *r, int wide, int wide_recipe)
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
static void put_why(fy_str *out, const fy_plan_question *q, const row *rows, size_t at)
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

static void put_table(fy_str *out, const fy_plan_question *q, const row *rows)
{
    size_t wide = 4, wide_recipe = 6;
    char name[64];
    for (size_t i = 0; i < q->n_socs; i++) {
        const size_t n = strlen(rows[i].soc->name), k = strlen(rows[i].recipe->name);
        wide = n > wide ? n : wide;
        wide_recipe = k > wide_recipe ? k : wide_recipe;
    }
    fy_plan_model_name(q->model, name, sizeof name);
    fy_str_printf(out, "%s: chunks/sessions by context\n\n%-*s  %-4s %-*s", name, (int)wide, "chip",
                  "HTP", (int)wide_recipe, "recipe");
    for (size_t i = 0; i < q->n_contexts; i++)
        fy_str_printf(out, "%*u", CELL, q->contexts[i]);
    fy_str_putc(out, '\n');
    for (size_t i = 0; i < q->n_socs; i++)
        put_row(out, q, &rows[i], (int)wide, (int)wide_recipe);
    fy_str_putc(out, '\n');
    for (size_t i = 0; i < q->n_socs; i++)
        put_why(out, q, rows, i);
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static json_t *json_cell(fy_json_maker *m, uint32_t n_ctx, const cell *c)
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

static int put_json(fy_str *out, const fy_plan_question *q, const row *rows, fy_err *e)
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

/* --- all -------------------------------------------------------------------------------------- */

int fy_plan_put_what_if(fy_str *out, const fy_plan_question *q, bool json, fy_err *e)
{
    row *rows = calloc(q->n_socs, sizeof *rows);
    int rc = rows != NULL ? 0 : fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < q->n_socs; i++)
        rc = fill_row(q, q->socs[i], &rows[i], e);
    if (rc == 0 && json)
        rc = put_json(out, q, rows, e);
    else if (rc == 0)
        put_table(out, q, rows);
    for (size_t i = 0; rows != NULL && i < q->n_socs; i++)
        free(rows[i].cells);
    free(rows);
    return rc == 0 && out->oom ? fy_nomem(e) : rc;
}
