/* The report of a quantization (quant_report.h): sums by piece, and what is shown of them: a table
 * by layer, a line, a JSON object. */
#include "quantize/quant_report.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json_tree.h"
#include "base/str.h"

bool fy_quant_is_lossy(fy_type from, fy_type to)
{
    return from != to && to != FY_F32;
}

static uint64_t n_elems(const fy_gguf_tensor *t)
{
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]; /* the reader has checked the product */
}

fy_quant_report *fy_quant_report_new(size_t n_tensors, fy_err *e)
{
    fy_quant_report *r = calloc(1, sizeof *r);
    if (r != NULL)
        r->tensors = calloc(n_tensors > 0 ? n_tensors : 1, sizeof *r->tensors);
    if (r == NULL || r->tensors == NULL) {
        free(r);
        fy_nomem(e);
        return NULL;
    }
    r->n_tensors = n_tensors;
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void fy_quant_report_free(fy_quant_report *r)
{
    if (r == NULL)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r->pieces);
    free(r->tensors);
    free(r);
}

int fy_quant_report_add(fy_quant_report *r, size_t i, uint64_t row, const fy_error_sums *s,
                        fy_err *e)
{
    const fy_quant_piece piece = {.tensor = i, .row = row, .sums = *s};
    pthread_mutex_lock(&r->lock);
    const int rc = fy_append(&r->pieces, &r->n_pieces, &r->cap_pieces, &piece, sizeof piece, e);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const fy_quant_piece *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

void fy_quant_report_end(fy_quant_report *r)
{
    if (r->n_pieces > 0)
        qsort(r->pieces, r->n_pieces, sizeof *r->pieces, by_place);
    for (size_t p = 0; p < r->n_pieces; p++)
        fy_error_sums_join(&r->tensors[r->pieces[p].tensor].sums, &r->pieces[p].sums);
    free(r->pieces);
    r->pieces = NULL;
    r->n_pieces = r->cap_pieces = 0;
    for (size_t i = 0; i < r->n_tensors; i++)
        fy_error_sums_join(&r->total, &r->tensors[i].sums);
}

double fy_quant_report_covered(const fy_quant_report *r)
{
    double n = 0;
    for (size_t i = 0; i < r->n_tensors; i++) {
        const fy_quant_tensor *t = &r->tensors[i];
        if (fy_quant_is_lossy(t->from->type, t->to->type))
            n += (double)n_elems(t->from);
    }
    return n > 0 ? (double)r->total.n / n : 1;
}

fy_quant_numbers fy_quant_numbers_of(const fy_error_sums *s)
{
    fy_quant_numbers v = {NAN, NAN, NAN, NAN, NAN, NAN};
    if (s->n == 0)
        return v;
    const double norms = sqrt(s->xx) * sqrt(s->yy);
    v.rmse = sqrt(s->ee / (double)s->n);
    v.max_error = (double)s->max_e;
    v.saturated = (double)s->n_outside / (double)s->n;
    if (s->xx > 0)
        v.relative = sqrt(s->ee / s->xx);
    if (norms > 0)
        v.cosine = fmin(fmax(s->xy / norms, -1), 1);
    if (s->xx > 0 && s->ee > 0)
        v.sqnr_db = 10 * log10(s->xx / s->ee);
    return v;
}

static double relative_error(const fy_quant_tensor *t)
{
    return fy_quant_numbers_of(&t->sums).relative;
}

/* Of equals the first in the file comes first. */
size_t fy_quant_report_worst(const fy_quant_report *r, const fy_quant_tensor *worst[], size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < r->n_tensors; i++) {
        const double error = relative_error(&r->tensors[i]);
        size_t at = found;
        while (at > 0 && error > relative_error(worst[at - 1]))
            at--;
        if (at == n || !(error > 0))
            continue;
        found += found < n;
        memmove(&worst[at + 1], &worst[at], (found - 1 - at) * sizeof *worst);
        worst[at] = &r->tensors[i];
    }
    return found;
}

/* --- table and summary ----------------------------------------------------------------------- */

enum { MAX_LABEL = 24, LEAST_BAR = 6, MOST_BAR = 24, WORST = 3, OUTSIDE = -1 };

/* A layer, or a tensor outside of them. */
typedef struct {
    fy_span label;
    int64_t layer; /* or OUTSIDE */
    size_t index;  /* of its first tensor */
    uint64_t bytes;
    fy_type types[2];
    int n_types; /* that are different; only two are kept */
    fy_error_sums sums;
} line;

/* "blk.12." of "blk.12.attn_q.weight"; its number, or OUTSIDE. */
static int64_t layer_of(fy_span name, fy_span *label)
{
    static const char prefix[] = "blk.";
    size_t at = sizeof prefix - 1;
    int64_t layer = 0;
    *label = name;
    if (fy_span_ends(name, ".weight"))
        label->len -= strlen(".weight");
    if (!fy_span_begins(name, prefix))
        return OUTSIDE;
    while (at < name.len && name.ptr[at] >= '0' && name.ptr[at] <= '9' && layer < 1000000)
        layer = layer * 10 + (name.ptr[at++] - '0');
    if (at == sizeof prefix - 1 || at == name.len || name.ptr[at] != '.')
        return OUTSIDE;
    label->len = at;
    return layer;
}

/* What is outside first, then the layers. */
static int by_layer(const void *a, const void *b)
{
    const line *x = a, *y = b;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void add_type(line *l, fy_type t)
{
    for (int i = 0; i < l->n_types; i++) {
        if (l->types[i] == t)
            return;
    }
    if (l->n_types < 2)
        l->types[l->n_types] = t;
    l->n_types += l->n_types < 3;
}

static void join(line *l, const line *next)
{
    for (int i = 0; i < next->n_types && i < 2; i++)
        add_type(l, next->types[i]);
    l->bytes += next->bytes;
    fy_error_sums_join(&l->sums, &next->sums);
}

/* The lines of what was measured, which the caller frees; NULL: no memory, or there are none. */
static line *lines_of(const fy_quant_report *r, size_t *n)
{
    line *lines = calloc(r->n_tensors + 1, sizeof *lines);
    size_t n_tensors = 0;
    *n = 0;
    for (size_t i = 0; i < r->n_tensors && lines != NULL; i++) {
        const fy_quant_tensor *t = &r->tensors[i];
        if (t->sums.n == 0)
            continue;
        line *l = &lines[n_tensors++];
        *l = (line){.index = i, .bytes = t->to->bytes, .sums = t->sums};
        l->layer = layer_of(t->from->name, &l->label);
        add_type(l, t->to->type);
    }
    if (n_tensors > 0)
        qsort(lines, n_tensors, sizeof *lines, by_layer);
    for (size_t i = 0; i < n_tensors; i++) {
        if (*n > 0 && lines[i].layer != OUTSIDE && lines[*n - 1].layer == lines[i].layer)
            join(&lines[*n - 1], &lines[i]);
        else
            lines[(*n)++] = lines[i];
    }
    return lines;
}

static void put_db(fy_str *out, const fy_quant_numbers *v)
{
    if (isnan(v->sqnr_db))
        fy_str_printf(out, "%8s", v->rmse > 0 ? "-" : "exact");
    else
        fy_str_printf(out, "%5.1f dB", v->sqnr_db);
}

static void put_bar(fy_str *out, double part, int width)
{
    for (int i = 0; i < width; i++)
        fy_str_putc(out, (double)i < part * width ? '#' : '.');
}

/* Of the columns; bar 0: none. */
typedef struct {
    int label, types, bar;
} widths;

static int put_types(const line *l, char *out, size_t size)
{
    return snprintf(out, size, "%s%s%s%s", fy_type_name(l->types[0]), l->n_types > 1 ? " " : "",
                    l->n_types > 1 ? fy_type_name(l->types[1]) : "", l->n_types > 2 ? " .." : "");
}

static void put_line(fy_str *out, const line *l, const widths *w, double most)
{
    char label[FY_QUOTE_BYTES], types[40];
    const fy_quant_numbers v = fy_quant_numbers_of(&l->sums);
    const double relative = isnan(v.relative) ? 0 : v.relative;
    fy_quote(label, sizeof label, l->label);
    put_types(l, types, sizeof types);
    fy_str_printf(out, "  %-*.*s  %8.1f MB  %-*s  %6.2f %%  ", w->label, w->label, label,
                  (double)l->bytes / 1e6, w->types, types, relative * 100);
    put_db(out, &v);
    fy_str_printf(out, "  %7.3f %%", v.saturated * 100);
    if (w->bar > 0) {
        fy_str_puts(out, "  ");
        put_bar(out, most > 0 ? relative / most : 0, w->bar);
    }
    fy_str_putc(out, '\n');
}

static void put_head(fy_str *out, widths *w, int columns)
{
    const size_t before = out->len;
    fy_str_printf(out, "  %-*s  %11s  %-*s  %8s  %8s  %9s", w->label, "", "size", w->types, "type",
                  "error", "SQNR", "saturated");
    const int left = columns - (int)(out->len - before) - 3;
    w->bar = left > MOST_BAR ? MOST_BAR : left < LEAST_BAR ? 0 : left;
    fy_str_putc(out, '\n');
}

static void put_name(fy_str *out, const fy_quant_tensor *t)
{
    char shown[FY_QUOTE_BYTES];
    fy_str_printf(out, "%s (%s) ", fy_quote(shown, sizeof shown, t->from->name),
                  fy_type_name(t->to->type));
}

static void put_worst(const fy_quant_report *r, fy_str *out)
{
    const fy_quant_tensor *worst[WORST];
    const size_t n = fy_quant_report_worst(r, worst, WORST);
    for (size_t i = 0; i < n; i++) {
        fy_str_puts(out, i == 0 ? "  worst: " : "         ");
        put_name(out, worst[i]);
        fy_str_printf(out, "%.1f dB\n", fy_quant_numbers_of(&worst[i]->sums).sqnr_db);
    }
}

static void put_covered(const fy_quant_report *r, fy_str *out)
{
    fy_str_printf(out, "measured on %.1f %% of the values: an interrupted run wrote the others",
                  fy_quant_report_covered(r) * 100);
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

void fy_quant_put_table(const fy_quant_report *r, int columns, fy_str *out)
{
    char types[40];
    size_t n;
    line *lines = lines_of(r, &n), whole = {.label = FY_SPAN("whole model")};
    widths w = {.label = (int)whole.label.len, .types = (int)strlen("type")};
    double most = 0;
    if (lines == NULL)
        out->oom = true;
    for (size_t i = 0; i < n; i++) {
        const fy_quant_numbers v = fy_quant_numbers_of(&lines[i].sums);
        most = v.relative > most ? v.relative : most;
        if (lines[i].label.len < MAX_LABEL)
            w.label = larger(w.label, (int)lines[i].label.len);
        else
            w.label = MAX_LABEL;
        join(&whole, &lines[i]);
        w.types = larger(w.types, put_types(&whole, types, sizeof types));
    }
    if (n > 0) {
        whole.sums = r->total; /* added in the order of the file */
        put_head(out, &w, columns);
        for (size_t i = 0; i < n; i++)
            put_line(out, &lines[i], &w, most);
        put_line(out, &whole, &w, most);
        put_worst(r, out);
        if (fy_quant_report_covered(r) < 1) {
            fy_str_puts(out, "  ");
            put_covered(r, out);
            fy_str_putc(out, '\n');
        }
    }
    free(lines);
}

void fy_quant_put_summary(const fy_quant_report *r, fy_str *out)
{
    const fy_quant_numbers v = fy_quant_numbers_of(&r->total);
    const fy_quant_tensor *worst[1];
    fy_str_puts(out, "quality: ");
    if (isnan(v.rmse))
        fy_str_puts(out, "nothing was measured");
    else if (!(v.rmse > 0))
        fy_str_puts(out, "no value has changed");
    else
        fy_str_printf(out, "SQNR %.2f dB, error %.3f %%, cosine %.6f, saturated %.3f %%", v.sqnr_db,
                      v.relative * 100, v.cosine, v.saturated * 100);
    if (fy_quant_report_worst(r, worst, 1) > 0) {
        fy_str_puts(out, "; worst: ");
        put_name(out, worst[0]);
        fy_str_printf(out, "%.2f dB", fy_quant_numbers_of(&worst[0]->sums).sqnr_db);
    }
    if (fy_quant_report_covered(r) < 1) {
        fy_str_puts(out, "; ");
        put_covered(r, out);
    }
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void set_number(fy_json_maker *m, json_t *o, const char *key, double v)
{
    fy_make_set(m, o, key, isfinite(v) ? json_real(v) : json_null());
}

static void set_numbers(fy_json_maker *m, json_t *o, const fy_error_sums *s)
{
    const fy_quant_numbers v = fy_quant_numbers_of(s);
    fy_make_set(m, o, "measured", fy_make_u64((uint64_t)s->n));
    set_number(m, o, "rmse", v.rmse);
    set_number(m, o, "relative", v.relative);
    set_number(m, o, "max_error", v.max_error);
    set_number(m, o, "cosine", v.cosine);
    set_number(m, o, "sqnr_db", v.sqnr_db);
    set_number(m, o, "saturated", v.saturated);
}

static json_t *tensor_json(fy_json_maker *m, const fy_quant_tensor *t)
{
    json_t *o = json_object(), *shape = json_array();
    for (uint32_t d = 0; d < t->from->n_dims; d++)
        fy_make_append(m, shape, fy_make_u64(t->from->ne[d]));
    fy_make_set(m, o, "name", fy_make_text(t->from->name));
    fy_make_set(m, o, "shape", shape);
    fy_make_set(m, o, "from", json_string(fy_type_name(t->from->type)));
    fy_make_set(m, o, "to", json_string(fy_type_name(t->to->type)));
    fy_make_set(m, o, "bytes", fy_make_u64(t->to->bytes));
    set_numbers(m, o, &t->sums);
    return o;
}

int fy_quant_put_json(const fy_quant_report *r, const char *in, const char *out, fy_type type,
                      fy_str *text, fy_err *e)
{
    fy_json_maker m = {0};
    json_t *top = json_object(), *tensors = json_array(), *total = json_object();
    uint64_t kept = 0;
    for (size_t i = 0; i < r->n_tensors; i++) {
        const fy_quant_tensor *t = &r->tensors[i];
        if (fy_quant_is_lossy(t->from->type, t->to->type))
            fy_make_append(&m, tensors, tensor_json(&m, t));
        else
            kept++;
    }
    set_numbers(&m, total, &r->total);
    fy_make_set(&m, top, "in", fy_make_text(fy_span_of(in)));
    fy_make_set(&m, top, "out", fy_make_text(fy_span_of(out)));
    fy_make_set(&m, top, "type", json_string(fy_type_name(type)));
    set_number(&m, top, "covered", fy_quant_report_covered(r));
    fy_make_set(&m, top, "kept", fy_make_u64(kept));
    fy_make_set(&m, top, "total", total);
    fy_make_set(&m, top, "tensors", tensors);
    return fy_make_end(&m, top, text, e);
}
