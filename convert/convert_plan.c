#include "convert/convert_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/math.h"
#include "base/opts.h"
#include "base/quote.h"
#include "kernels/row.h"

/* --- problems: collected, then told together
 * ------------------------------------------------------------------- */

typedef struct {
    fy_str text;
    size_t n, n_told;
} problems;

enum { TOLD_BYTES = 360, LOGGED = 100 };

/* What does not fit into the error message is still logged, line by line. */
static void problem(problems *ps, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void problem(problems *ps, const char *fmt, ...)
{
    char line[320];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    ps->n++;
    if (ps->n <= LOGGED)
        fy_log(FY_LOG_DEBUG, "%s", line);
    if (ps->n_told + 1 == ps->n && ps->text.len + strlen(line) < TOLD_BYTES) {
        fy_str_printf(&ps->text, "%s%s", ps->text.len > 0 ? "; " : "", line);
        ps->n_told++;
    }
}

static int tell(problems *ps, const fy_family *f, fy_err *e)
{
    int rc = 0;
    if (ps->text.oom)
        rc = fy_nomem(e);
    else if (ps->n > ps->n_told)
        rc = fy_fail(e, FY_EFORMAT,
                     "%zu tensors do not fit a %s model: %s; and %zu more (-v lists them)", ps->n,
                     f->name, fy_str_z(&ps->text), ps->n - ps->n_told);
    else if (ps->n > 0)
        rc = fy_fail(e, FY_EFORMAT, "%zu tensor%s not fit a %s model: %s", ps->n,
                     ps->n == 1 ? " does" : "s do", f->name, fy_str_z(&ps->text));
    fy_str_release(&ps->text);
    return rc;
}

/* --- building
 * --------------------------------------------------------------------------------------------------
 */

typedef struct {
    fy_convert_plan *plan;
    const fy_hf_dir *dir;
    fy_type outtype;
    bool *used; /* owned; per tensor of the directory */
    problems ps;
} builder;

static size_t index_of(const builder *b, const fy_hf_tensor *src)
{
    return (size_t)(src - fy_hf_dir_at(b->dir, 0));
}

static void drop(builder *b, const fy_hf_tensor *src, const char *reason)
{
    b->used[index_of(b, src)] = true;
    b->plan->drops[b->plan->n_drops++] = (fy_plan_drop){src, reason};
}

/* Must the checkpoint have this row? */
static bool required(const fy_hf_config *c, const fy_tensor_row *row)
{
    if ((row->flags & FY_ROW_OPTIONAL) == 0)
        return true;
    if (row->slot == FY_T_OUTPUT)
        return !c->tied;
    return row->required_by != NULL && fy_hf_config_flag(c, row->required_by);
}

static void missing(builder *b, const fy_tensor_row *row, const char *name)
{
    if (row->slot == FY_T_OUTPUT)
        problem(&b->ps, "%s is missing and tie_word_embeddings is not true", name);
    else if (row->required_by != NULL)
        problem(&b->ps, "%s is missing and %s is true", name, row->required_by);
    else
        problem(&b->ps, "%s is missing", name);
}

static bool same_shape(const fy_st_tensor *t, uint32_t n_dims, const uint64_t *ne)
{
    if (t->rank != n_dims)
        return false;
    for (uint32_t i = 0; i < n_dims; i++) {
        if (t->shape[i] != ne[n_dims - 1 - i])
            return false;
    }
    return true;
}

/* [a, b] with the slowest dimension first, as PyTorch prints it. */
static const char *shape_text(char *out, size_t size, uint32_t n, const uint64_t *dims,
                              bool reverse)
{
    size_t at = (size_t)snprintf(out, size, "[");
    for (uint32_t i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%llu", i > 0 ? ", " : "",
                               (unsigned long long)dims[reverse ? n - 1 - i : i]);
    if (at < size)
        snprintf(out + at, size - at, "]");
    return out;
}

/* Shape and type of a source; false with the problem noted. */
static bool check_source(builder *b, fy_plan_tensor *t, const char *name)
{
    const fy_st_tensor *st = t->src->t;
    char found[128], wanted[64];
    if (!same_shape(st, t->n_dims, t->ne)) {
        problem(&b->ps, "%s has shape %s, config.json says %s", name,
                shape_text(found, sizeof found, st->rank, st->shape, false),
                shape_text(wanted, sizeof wanted, t->n_dims, t->ne, true));
        return false;
    }
    if (!fy_st_dtype_to_type(st->dtype, &t->src_type) || !fy_row_can_decode(t->src_type) ||
        fy_type_get(t->src_type)->block != 1) {
        problem(&b->ps, "%s is of type %s, which ferry does not convert", name,
                fy_st_dtype_name(st->dtype));
        return false;
    }
    return true;
}

static void choose_type(fy_plan_tensor *t, fy_type outtype)
{
    t->type = FY_F32;
    if ((t->row->flags & FY_ROW_MATRIX) == 0 || t->n_dims < 2)
        return;
    if (outtype == FY_OUTTYPE_AUTO)
        t->type = t->src_type == FY_BF16 ? FY_BF16 : FY_F16;
    else
        t->type = outtype;
    if (t->ne[0] % fy_type_get(t->type)->block != 0) {
        t->type = FY_F16;
        t->fallback = true;
    }
}

/* Bytes of the two tensors, a piece at a time so that the pages can go again. */
static bool same_bytes(const fy_hf_tensor *x, const fy_hf_tensor *y)
{
    enum { PIECE = 4 << 20 };
    if (x->t->dtype != y->t->dtype || x->t->bytes != y->t->bytes)
        return false;
    bool same = true;
    for (uint64_t at = 0; at < x->t->bytes && same; at += PIECE) {
        uint64_t n = x->t->bytes - at < PIECE ? x->t->bytes - at : PIECE;
        same = memcmp(x->t->data + at, y->t->data + at, (size_t)n) == 0;
        fy_st_drop(x->file, x->t, at, n);
        fy_st_drop(y->file, y->t, at, n);
    }
    return same;
}

/* An output matrix that is stored although the config ties it to the embedding. */
static void tied_output(builder *b, const fy_hf_tensor *src, const char *name)
{
    for (size_t i = 0; i < b->plan->n_tensors; i++) {
        const fy_plan_tensor *t = &b->plan->tensors[i];
        if (t->row->slot == FY_T_TOKEN_EMBD && same_bytes(src, t->src)) {
            drop(b, src, "equal to the embedding it is tied to");
            return;
        }
    }
    b->used[index_of(b, src)] = true;
    problem(&b->ps,
            "%s differs from the embedding although tie_word_embeddings is true (set it to false "
            "in config.json to keep it)",
            name);
}

static void add_computed(builder *b, fy_plan_tensor *t)
{
    if (t->row->transform == FY_X_LLAMA3_FREQS && b->plan->config->llama3.used) {
        t->type = t->src_type = FY_F32;
        b->plan->tensors[b->plan->n_tensors++] = *t;
    }
}

static void add_row(builder *b, const fy_tensor_row *row, uint32_t layer)
{
    fy_convert_plan *p = b->plan;
    fy_plan_tensor t = {.row = row, .layer = layer};
    t.n_dims = fy_row_shape(&p->config->hp, row, t.ne);
    if (row->hf == NULL) {
        add_computed(b, &t);
        return;
    }
    char name[FY_ROW_NAME_BYTES];
    fy_row_name(row->hf, layer, name);
    t.src = fy_hf_dir_find(b->dir, fy_span_of(name));
    if (t.src == NULL) {
        if (required(p->config, row))
            missing(b, row, name);
        return;
    }
    if (row->slot == FY_T_OUTPUT && p->config->tied) {
        tied_output(b, t.src, name);
        return;
    }
    b->used[index_of(b, t.src)] = true;
    if (row->required_by != NULL && !required(p->config, row)) {
        problem(&b->ps, "%s is there but %s is not true in config.json", name, row->required_by);
        return;
    }
    if (!check_source(b, &t, name))
        return;
    choose_type(&t, b->outtype);
    p->tensors[p->n_tensors++] = t;
}

/* Rows before the layers, the layers, rows after them: the order in which the model computes. */
static void add_rows(builder *b)
{
    const fy_family *f = b->plan->config->family;
    size_t first = 0, last = f->n_rows;
    while (first < f->n_rows && !fy_row_is_layer(&f->rows[first]))
        first++;
    while (last > first && !fy_row_is_layer(&f->rows[last - 1]))
        last--;
    for (size_t i = 0; i < first; i++)
        add_row(b, &f->rows[i], 0);
    for (uint32_t layer = 0; layer < b->plan->config->hp.n_layer; layer++) {
        for (size_t i = first; i < last; i++)
            add_row(b, &f->rows[i], layer);
    }
    for (size_t i = last; i < f->n_rows; i++)
        add_row(b, &f->rows[i], 0);
}

/* --- what is left over
 * ----------------------------------------------------------------------------------------- */

static const struct {
    const char *end, *reason;
} droppable[] = {
    {".rotary_emb.inv_freq", "rotation frequencies follow from config.json"},
    {".attn.masked_bias", "a causal mask, not a weight"},
    {".attn.bias", "a causal mask, not a weight"},
    {".attention.masked_bias", "a causal mask, not a weight"},
    {".attention.bias", "a causal mask, not a weight"},
};

static const char *drop_reason(fy_span name)
{
    for (size_t i = 0; i < sizeof droppable / sizeof droppable[0]; i++) {
        size_t n = strlen(droppable[i].end);
        if (name.len > n && memcmp(name.ptr + name.len - n, droppable[i].end, n) == 0)
            return droppable[i].reason;
    }
    return NULL;
}

#define LAYERS         "model.layers."
#define MAX_CANDIDATES 64

/* The name of the family's table that is nearest, in the layer the unknown name has. */
static const char *nearest(const fy_family *f, fy_span name, uint32_t layer,
                           char buffer[MAX_CANDIDATES][FY_ROW_NAME_BYTES])
{
    char word[FY_ROW_NAME_BYTES];
    const char *candidates[MAX_CANDIDATES];
    size_t n = 0;
    if (name.len >= sizeof word || memchr(name.ptr, '\0', name.len) != NULL)
        return NULL;
    memcpy(word, name.ptr, name.len);
    word[name.len] = '\0';
    for (size_t i = 0; i < f->n_rows && n < MAX_CANDIDATES; i++) {
        if (f->rows[i].hf == NULL)
            continue;
        fy_row_name(f->rows[i].hf, layer, buffer[n]);
        candidates[n] = buffer[n];
        n++;
    }
    return fy_nearest(word, candidates, n);
}

/* The layer of "model.layers.N.…"; 0 for other names. */
static uint32_t layer_of(fy_span name)
{
    uint64_t v = 0;
    size_t i = sizeof LAYERS - 1;
    if (name.len <= i || memcmp(name.ptr, LAYERS, i) != 0)
        return 0;
    for (; i < name.len && name.ptr[i] >= '0' && name.ptr[i] <= '9' && v < INT32_MAX; i++)
        v = v * 10 + (uint64_t)(name.ptr[i] - '0');
    return v < INT32_MAX ? (uint32_t)v : INT32_MAX;
}

static void unexplained(builder *b, fy_span name)
{
    const fy_hf_config *c = b->plan->config;
    char q[FY_ROW_NAME_BYTES], buffer[MAX_CANDIDATES][FY_ROW_NAME_BYTES];
    fy_quote(q, sizeof q, name);
    uint32_t layer = layer_of(name);
    if (layer >= c->hp.n_layer) {
        problem(&b->ps, "%s is unknown (config.json says %u layers)", q, c->hp.n_layer);
        return;
    }
    const char *near = b->ps.n < LOGGED ? nearest(c->family, name, layer, buffer) : NULL;
    if (near != NULL)
        problem(&b->ps, "%s is unknown (the nearest known name is %s)", q, near);
    else
        problem(&b->ps, "%s is unknown", q);
}

static void account_for_rest(builder *b)
{
    for (size_t i = 0; i < fy_hf_dir_n_tensors(b->dir); i++) {
        if (b->used[i])
            continue;
        const fy_hf_tensor *src = fy_hf_dir_at(b->dir, i);
        const char *reason = drop_reason(src->t->name);
        if (reason != NULL)
            drop(b, src, reason);
        else
            unexplained(b, src->t->name);
    }
}

/* --- the whole
 * -------------------------------------------------------------------------------------------------
 */

/* Elements of all sources, and the type that most elements of the matrices have. */
static int sum_up(fy_convert_plan *p, fy_type outtype, fy_err *e)
{
    uint64_t by_type[FY_TYPE_COUNT] = {0};
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
        if ((t->row->flags & FY_ROW_MATRIX) != 0)
            by_type[t->type] += n;
    }
    p->type = outtype;
    if (outtype == FY_OUTTYPE_AUTO) {
        p->type = FY_F16;
        for (int i = 0; i < FY_TYPE_COUNT; i++) {
            if (by_type[i] > by_type[p->type])
                p->type = (fy_type)i;
        }
    }
    return 0;
}

static int build(fy_convert_plan *p, const fy_hf_dir *dir, fy_type outtype, fy_err *e)
{
    const fy_family *f = p->config->family;
    size_t n_in = fy_hf_dir_n_tensors(dir), n_layer = p->config->hp.n_layer;
    builder b = {.plan = p, .dir = dir, .outtype = outtype};
    b.used = calloc(n_in > 0 ? n_in : 1, sizeof *b.used);
    p->tensors = calloc(f->n_rows * n_layer, sizeof *p->tensors);
    p->drops = calloc(n_in > 0 ? n_in : 1, sizeof *p->drops);
    int rc = -1;
    if (b.used == NULL || p->tensors == NULL || p->drops == NULL) {
        fy_nomem(e);
    } else {
        add_rows(&b);
        account_for_rest(&b);
        rc = tell(&b.ps, f, e) || sum_up(p, outtype, e) ? -1 : 0;
    }
    fy_str_release(&b.ps.text);
    free(b.used);
    return rc;
}

fy_convert_plan *fy_convert_plan_new(const fy_hf_dir *dir, const fy_hf_config *config,
                                     fy_type outtype, fy_err *e)
{
    fy_convert_plan *p = calloc(1, sizeof *p);
    if (p == NULL) {
        fy_nomem(e);
        return NULL;
    }
    p->config = config;
    if (build(p, dir, outtype, e)) {
        fy_convert_plan_free(p);
        return NULL;
    }
    return p;
}

void fy_convert_plan_free(fy_convert_plan *p)
{
    if (p == NULL)
        return;
    free(p->tensors);
    free(p->drops);
    free(p);
}

void fy_plan_name(const fy_plan_tensor *t, char out[FY_ROW_NAME_BYTES])
{
    fy_row_name(t->row->gguf, t->layer, out);
}
