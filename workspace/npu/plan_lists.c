/* What ferry knows of chips and recipes. */
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "workspace/npu/plan_json.h"
#include "workspace/npu/plan_show.h"

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

int fy_plan_put_socs(fy_str *out, const fy_soc_table *t, bool json, fy_err *e)
{
    if (!json) {
        put_soc_table(out, t);
        return out->oom ? fy_nomem(e) : 0;
    }
    fy_json_maker m = {0};
    json_t *top = json_object(), *list = json_array();
    for (size_t i = 0; i < fy_soc_table_n(t); i++)
        fy_make_append(&m, list, fy_plan_json_soc(&m, fy_soc_table_at(t, i)));
    fy_make_set(&m, top, "socs", list);
    return fy_make_end(&m, top, out, e);
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
    fy_make_set(m, o, "models", models);
    fy_plan_json_text(m, o, "source", r->source);
    return o;
}

static void put_recipe_table(fy_str *out, const fy_npu_recipes *r)
{
    int wide = 4;
    for (size_t i = 0; i < fy_npu_recipes_n(r); i++)
        wide = wider(wide, fy_npu_recipes_at(r, i)->name);
    fy_str_printf(out, "%-*s  KV  %s\n", wide, "name", "weights");
    for (size_t i = 0; i < fy_npu_recipes_n(r); i++) {
        const fy_npu_recipe *one = fy_npu_recipes_at(r, i);
        fy_str_printf(out, "%-*s  %2u", wide, one->name, one->kv_bits);
        put_text(out, "  ", one->title);
        fy_str_putc(out, '\n');
    }
}

int fy_plan_put_recipes(fy_str *out, const fy_npu_recipes *r, bool json, fy_err *e)
{
    if (!json) {
        put_recipe_table(out, r);
        return out->oom ? fy_nomem(e) : 0;
    }
    fy_json_maker m = {0};
    json_t *top = json_object(), *list = json_array();
    for (size_t i = 0; i < fy_npu_recipes_n(r); i++)
        fy_make_append(&m, list, json_recipe(&m, fy_npu_recipes_at(r, i)));
    fy_make_set(&m, top, "recipes", list);
    return fy_make_end(&m, top, out, e);
}
