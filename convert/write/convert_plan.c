#include "convert/write/convert_plan_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/math.h"
#include "base/str.h"
#include "convert/source/checkpoint_read.h"
#include "convert/write/type_choice.h"

/* --- problems: collected, then told together -------------------------------------------------- */

enum { TOLD_BYTES = 330 };

void fy_plan_problem(fy_plan_builder *b, const char *fmt, ...)
{
    fy_plan_problems *ps = &b->ps;
    char line[480];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    ps->n++;
    if (ps->n <= FY_PLAN_LOGGED)
        fy_log(FY_LOG_DEBUG, "%s", line);
    if (ps->n_told + 1 == ps->n && ps->text.len + strlen(line) < TOLD_BYTES) {
        fy_str_printf(&ps->text, "%s%s", ps->text.len > 0 ? "; " : "", line);
        ps->n_told++;
    }
}

static int tell(fy_plan_problems *ps, const fy_family *f, fy_err *e)
{
    const char *remedy =
        ps->n_unknown == ps->n ? "; --allow-unmapped leaves out what is unknown" : "";
    int rc = 0;
    if (ps->text.oom)
        rc = fy_nomem(e);
    else if (ps->n > ps->n_told)
        rc = fy_fail(e, FY_EFORMAT,
                     "%zu tensors do not fit a %s model: %s; and %zu more (-v lists them)%s", ps->n,
                     f->name, fy_str_z(&ps->text), ps->n - ps->n_told, remedy);
    else if (ps->n > 0)
        rc = fy_fail(e, FY_EFORMAT, "%zu tensor%s not fit a %s model: %s%s", ps->n,
                     ps->n == 1 ? " does" : "s do", f->name, fy_str_z(&ps->text), remedy);
    fy_str_release(&ps->text);
    return rc;
}

/* --- building --------------------------------------------------------------------------------- */

size_t fy_plan_index(const fy_plan_builder *b, const fy_ckpt_tensor *src)
{
    return (size_t)(src - fy_ckpt_at(b->dir, 0));
}

void fy_plan_drop_source(fy_plan_builder *b, const fy_ckpt_tensor *src, const char *reason)
{
    b->used[fy_plan_index(b, src)] = true;
    b->plan->drops[b->plan->n_drops++] = (fy_plan_drop){src, reason};
}

/* An output matrix that is stored although the config ties it to the embedding. */
static void tied_output(fy_plan_builder *b, const fy_ckpt_tensor *src)
{
    for (size_t i = 0; i < b->plan->n_tensors; i++) {
        const fy_plan_tensor *t = &b->plan->tensors[i];
        if (t->row->slot == FY_T_TOKEN_EMBD && fy_ckpt_same(src, t->src)) {
            fy_plan_drop_source(b, src, "equal to the embedding it is tied to");
            return;
        }
    }
    char name[FY_HF_NAME_BYTES];
    fy_quote(name, sizeof name, src->name);
    b->used[fy_plan_index(b, src)] = true;
    fy_plan_problem(
        b,
        "%s differs from the embedding although tie_word_embeddings is true (set it to false "
        "in config.json to keep it)",
        name);
}

/* rows[0..n): one row of the output and its other forms. */
static void add_row(fy_plan_builder *b, const fy_tensor_row *rows, size_t n, uint32_t layer)
{
    fy_convert_plan *p = b->plan;
    fy_plan_tensor t;
    if (!fy_plan_find_source(b, rows, n, layer, &t))
        return;
    if (t.row->slot == FY_T_OUTPUT && p->config->tied && t.src != NULL) {
        tied_output(b, t.src);
        return;
    }
    p->tensors[p->n_tensors++] = t;
}

/* The row at i and the other forms behind it. */
static size_t n_forms(const fy_family *f, size_t i)
{
    size_t n = 1;
    while (i + n < f->n_rows && (f->rows[i + n].flags & FY_ROW_ALT) != 0)
        n++;
    return n;
}

static void add_range(fy_plan_builder *b, size_t first, size_t last, uint32_t layer)
{
    const fy_family *f = b->plan->config->family;
    for (size_t i = first, n; i < last; i += n) {
        n = n_forms(f, i);
        add_row(b, &f->rows[i], n, layer);
    }
}

/* Rows before the layers, the layers, rows after them: the order in which the model computes. */
static void add_rows(fy_plan_builder *b)
{
    const fy_family *f = b->plan->config->family;
    size_t first = 0, last = f->n_rows;
    while (first < f->n_rows && !fy_row_is_layer(&f->rows[first]))
        first++;
    while (last > first && !fy_row_is_layer(&f->rows[last - 1]))
        last--;
    add_range(b, 0, first, 0);
    for (uint32_t layer = 0; layer < b->plan->config->hp.n_layer; layer++)
        add_range(b, first, last, layer);
    add_range(b, last, f->n_rows, 0);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Elements of all sources. */
static int count_params(fy_convert_plan *p, fy_err *e)
{
    for (size_t i = 0; i < p->n_tensors; i++) {
        const fy_plan_tensor *t = &p->tensors[i];
        uint64_t n = t->ne[0];
        if (t->src == NULL)
            continue;
        for (uint32_t d = 1; d < t->n_dims; d++) {
            if (!fy_mul_u64(n, t->ne[d], &n))
                return fy_fail(e, FY_EFORMAT, "the model has more than 2^64 elements");
        }
        if (!fy_add_u64(p->n_params, n, &p->n_params))
            return fy_fail(e, FY_EFORMAT, "the model has more than 2^64 elements");
        if (t->row->slot == FY_T_FFN_GATE_EXPS || t->row->slot == FY_T_FFN_UP_EXPS ||
            t->row->slot == FY_T_FFN_DOWN_EXPS)
            p->n_expert_params += n;
    }
    return 0;
}

/* What the matrices are, or most of their elements when each keeps its own. */
static fy_type type_of_most(const fy_convert_plan *p, fy_type outtype)
{
    uint64_t by_type[FY_TYPE_COUNT] = {0};
    fy_type most = FY_F16;
    if (outtype != FY_OUTTYPE_AUTO)
        return outtype;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const fy_plan_tensor *t = &p->tensors[i];
        if ((t->row->flags & FY_ROW_MATRIX) != 0)
            by_type[t->type] += t->ne[0] * t->ne[1] * t->ne[2]; /* checked by count_params */
    }
    for (int i = 0; i < FY_TYPE_COUNT; i++) {
        if (by_type[i] > by_type[most])
            most = (fy_type)i;
    }
    return most;
}

/* token_embd alone; all other sources are dropped. */
static void keep_embedding(fy_plan_builder *b)
{
    static const char reason[] = "not the embedding (--embedding-only)";
    fy_convert_plan *p = b->plan;
    size_t n = 0;
    memset(b->used, 0, fy_ckpt_n_tensors(b->dir) * sizeof *b->used);
    for (size_t i = 0; i < p->n_drops; i++)
        b->used[fy_plan_index(b, p->drops[i].src)] = true;
    for (size_t i = 0; i < p->n_tensors; i++) {
        fy_plan_tensor *t = &p->tensors[i];
        bool keep = t->row->slot == FY_T_TOKEN_EMBD;
        if (keep)
            b->used[fy_plan_index(b, t->src)] = true;
        else
            free(t->experts);
        if (keep)
            p->tensors[n++] = *t;
    }
    p->n_tensors = n;
    for (size_t i = 0; i < fy_ckpt_n_tensors(b->dir); i++) {
        if (!b->used[i])
            fy_plan_drop_source(b, fy_ckpt_at(b->dir, i), reason);
    }
}

/* What is left once all tensors have their place. */
static int finish(fy_plan_builder *b, fy_err *e)
{
    fy_plan_options o = *b->o;
    if (b->oom)
        return fy_nomem(e);
    if (tell(&b->ps, b->plan->config->family, e) || count_params(b->plan, e))
        return -1;
    if (o.embedding_only)
        keep_embedding(b);
    if (o.embedding_only && o.outtype == FY_OUTTYPE_AUTO)
        o.outtype = FY_F32;
    if (fy_choose_types(b->plan, &o, e))
        return -1;
    b->plan->type = type_of_most(b->plan, o.outtype);
    return 0;
}

static int build(fy_convert_plan *p, const fy_ckpt *dir, const fy_plan_options *o, fy_err *e)
{
    const fy_family *f = p->config->family;
    size_t n_in = fy_ckpt_n_tensors(dir), n_layer = p->config->hp.n_layer;
    fy_plan_builder b = {.plan = p, .dir = dir, .o = o};
    b.used = calloc(n_in > 0 ? n_in : 1, sizeof *b.used);
    b.faulty = calloc(n_in > 0 ? n_in : 1, sizeof *b.faulty);
    p->tensors = calloc(f->n_rows * n_layer, sizeof *p->tensors);
    p->drops = calloc(n_in > 0 ? n_in : 1, sizeof *p->drops);
    int rc = -1;
    if (b.used == NULL || b.faulty == NULL || p->tensors == NULL || p->drops == NULL) {
        fy_nomem(e);
    } else {
        size_t n_found;
        b.form = fy_name_form_of(dir, f, &n_found);
        add_rows(&b);
        fy_plan_account_for_rest(&b);
        rc = finish(&b, e);
    }
    fy_str_release(&b.ps.text);
    free(b.used);
    free(b.faulty);
    return rc;
}

fy_convert_plan *fy_convert_plan_new(const fy_ckpt *dir, const fy_hf_config *config,
                                     const fy_plan_options *o, fy_err *e)
{
    fy_convert_plan *p = calloc(1, sizeof *p);
    if (p == NULL) {
        fy_nomem(e);
        return NULL;
    }
    p->config = config;
    p->llama_recipe = o->llama_recipe;
    if (build(p, dir, o, e)) {
        fy_convert_plan_free(p);
        return NULL;
    }
    return p;
}

void fy_convert_plan_free(fy_convert_plan *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->n_tensors; i++)
        free(p->tensors[i].experts);
    free(p->tensors);
    free(p->drops);
    free(p);
}

void fy_plan_name(const fy_plan_tensor *t, char out[FY_ROW_NAME_BYTES])
{
    fy_row_name(t->row->gguf, t->layer, out);
}
