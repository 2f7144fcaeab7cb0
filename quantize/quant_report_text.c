#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "quantize/quant_report.h"

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
    line *lines = calloc(fy_quant_report_n(r) + 1, sizeof *lines);
    size_t n_tensors = 0;
    *n = 0;
    for (size_t i = 0; i < fy_quant_report_n(r) && lines != NULL; i++) {
        const fy_quant_tensor *t = fy_quant_report_tensor(r, i);
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
        whole.sums = *fy_quant_report_total(r); /* added in the order of the file */
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
    const fy_quant_numbers v = fy_quant_numbers_of(fy_quant_report_total(r));
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
