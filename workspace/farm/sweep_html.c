/* The table of a sweep as one HTML page: charts of size and divergence as inline SVG, and the
 * table. It needs nothing else: no script, no style sheet, no font and no image from anywhere. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/process.h"
#include "workspace/farm/sweep_table.h"

/* Text between tags and in attributes. What is not UTF-8 or is a control becomes U+FFFD. */
static void put_escaped(fy_span text, fy_str *out)
{
    fy_str valid = {0};
    fy_put_lossy(&valid, text);
    for (size_t i = 0; i < valid.len && !valid.oom; i++) {
        const unsigned char c = (unsigned char)valid.ptr[i];
        switch (c) {
        case '&':
            fy_str_puts(out, "&amp;");
            break;
        case '<':
            fy_str_puts(out, "&lt;");
            break;
        case '>':
            fy_str_puts(out, "&gt;");
            break;
        case '"':
            fy_str_puts(out, "&quot;");
            break;
        case '\'':
            fy_str_puts(out, "&#39;");
            break;
        default:
            if (c < 0x20 || c == 0x7f)
                fy_str_put_utf8(out, 0xfffd);
            else
                fy_str_putc(out, (char)c);
        }
    }
    out->oom |= valid.oom;
    fy_str_release(&valid);
}

static void put_escaped_z(const char *text, fy_str *out)
{
    put_escaped(fy_span_of(text), out);
}

/* --- charts ----------------------------------------------------------------------------------- */

enum { WIDTH = 720, LEFT = 150, RIGHT = 90, BAR = 18, STEP = 24, HEIGHT = 300, EDGE = 40 };

/* A row that begins a model and type: rows that differ by chip alone have the same numbers. */
static bool begins(const fy_sweep_result *r, size_t i)
{
    return i == 0 || strcmp(r->rows[i].model, r->rows[i - 1].model) != 0 ||
           strcmp(r->rows[i].type, r->rows[i - 1].type) != 0;
}

static bool is_of(const fy_sweep_result *r, size_t i, const char *model)
{
    return begins(r, i) && strcmp(r->rows[i].model, model) == 0;
}

static void begin_chart(const char *title, int height, fy_str *out)
{
    fy_str_puts(out, "<figure><figcaption>");
    put_escaped_z(title, out);
    fy_str_printf(out, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, height);
}

static void put_label(double x, double y, const char *anchor, const char *text, fy_str *out)
{
    fy_str_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    put_escaped_z(text, out);
    fy_str_puts(out, "</text>\n");
}

/* A bar for each type of the model. */
static void put_sizes(const fy_sweep_result *r, const char *model, fy_str *out)
{
    uint64_t most = 0;
    int n = 0, at = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (is_of(r, i, model) && r->rows[i].bytes > 0) {
            most = r->rows[i].bytes > most ? r->rows[i].bytes : most;
            n++;
        }
    }
    if (n == 0)
        return;
    begin_chart("size, MB", n * STEP, out);
    for (size_t i = 0; i < r->n; i++) {
        const fy_sweep_row *row = &r->rows[i];
        if (!is_of(r, i, model) || row->bytes == 0)
            continue;
        const double wide = (WIDTH - LEFT - RIGHT) * (double)row->bytes / (double)most;
        char text[32];
        snprintf(text, sizeof text, "%.2f", (double)row->bytes * 1e-6);
        put_label(LEFT - 8, at * STEP + 14, "end", row->type, out);
        fy_str_printf(out, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", LEFT,
                      at * STEP, wide, BAR);
        put_label(LEFT + wide + 6, at * STEP + 14, "start", text, out);
        at++;
    }
    fy_str_puts(out, "</svg></figure>\n");
}

/* The range of sizes and of divergences, which have a logarithmic scale. */
typedef struct {
    double bytes, low, high;
    int n;
} range;

static bool has_point(const fy_sweep_result *r, size_t i, const char *model)
{
    return is_of(r, i, model) && r->rows[i].bytes > 0 && r->rows[i].kl > 0;
}

static range range_of(const fy_sweep_result *r, const char *model)
{
    range g = {.low = INFINITY, .high = -INFINITY};
    for (size_t i = 0; i < r->n; i++) {
        if (!has_point(r, i, model))
            continue;
        g.bytes = fmax(g.bytes, (double)r->rows[i].bytes);
        g.low = fmin(g.low, floor(log10(r->rows[i].kl)));
        g.high = fmax(g.high, ceil(log10(r->rows[i].kl)));
        g.n++;
    }
    g.high = fmax(g.high, g.low + 1);
    return g;
}

/* A point for each type: to the right what is larger, above what diverges more. */
static void put_divergences(const fy_sweep_result *r, const char *model, fy_str *out)
{
    const range g = range_of(r, model);
    const double tall = HEIGHT - 2 * EDGE, wide = WIDTH - LEFT - RIGHT;
    if (g.n == 0)
        return;
    begin_chart("KL divergence by size, MB", HEIGHT, out);
    for (double d = g.low; d <= g.high; d++) {
        const double y = EDGE + tall * (g.high - d) / (g.high - g.low);
        char text[32];
        snprintf(text, sizeof text, "%g", pow(10, d));
        fy_str_printf(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n", LEFT, y,
                      WIDTH - RIGHT, y);
        put_label(LEFT - 8, y + 4, "end", text, out);
    }
    for (size_t i = 0; i < r->n; i++) {
        const fy_sweep_row *row = &r->rows[i];
        if (!has_point(r, i, model))
            continue;
        const double x = LEFT + wide * (double)row->bytes / g.bytes,
                     y = EDGE + tall * (g.high - log10(row->kl)) / (g.high - g.low);
        fy_str_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", x, y);
        put_label(x + 7, y + 4, "start", row->type, out);
    }
    put_label(LEFT, HEIGHT - 14, "middle", "0", out);
    char most[32];
    snprintf(most, sizeof most, "%.2f", g.bytes * 1e-6);
    put_label(WIDTH - RIGHT, HEIGHT - 14, "middle", most, out);
    fy_str_puts(out, "</svg></figure>\n");
}

/* --- the table -------------------------------------------------------------------------------- */

static void put_row(const bool *shown, const fy_sweep_row *row, fy_str *out)
{
    fy_str cell = {0};
    fy_str_puts(out, row != NULL && row->error != NULL ? "<tr class=\"failed\">" : "<tr>");
    for (size_t c = 0; c < FY_SWEEP_COLUMNS; c++) {
        const fy_sweep_column *column = &fy_sweep_columns[c];
        if (!shown[c])
            continue;
        fy_str_clear(&cell);
        if (row == NULL)
            fy_str_puts(&cell, column->title);
        else
            column->put(row, &cell);
        fy_str_printf(out, "<%s%s>", row == NULL ? "th" : "td",
                      column->is_number ? " class=\"n\"" : "");
        put_escaped((fy_span){fy_str_z(&cell), cell.len}, out);
        fy_str_puts(out, row == NULL ? "</th>" : "</td>");
    }
    fy_str_puts(out, "</tr>\n");
    out->oom |= cell.oom;
    fy_str_release(&cell);
}

static void put_table(const fy_sweep_result *r, fy_str *out)
{
    bool shown[FY_SWEEP_COLUMNS];
    for (size_t c = 0; c < FY_SWEEP_COLUMNS; c++)
        shown[c] = fy_sweep_is_shown(r, &fy_sweep_columns[c]);
    fy_str_puts(out, "<table>\n");
    for (size_t i = 0; i <= r->n; i++)
        put_row(shown, i > 0 ? &r->rows[i - 1] : NULL, out);
    fy_str_puts(out, "</table>\n");
}

void fy_sweep_put_html(const fy_sweep_result *r, fy_str *out)
{
    fy_str_puts(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"
        "<title>ferry: a sweep</title>\n<style>\n"
        "body { font: 15px/1.4 sans-serif; color: #222; max-width: 60em; margin: 2em auto; "
        "padding: 0 1em }\n"
        "table { border-collapse: collapse } th, td { text-align: left; padding: 3px 10px; "
        "border-bottom: 1px solid #ddd; vertical-align: top }\n"
        ".n { text-align: right; font-variant-numeric: tabular-nums } .failed { color: #a00 }\n"
        "figure { margin: 1em 0 } svg { width: 100%; max-width: 720px; font-size: 13px } "
        "rect, circle { fill: #36c } line { stroke: #ddd }\n"
        "</style>\n</head>\n<body>\n<h1>A sweep</h1>\n");
    put_table(r, out);
    for (size_t i = 0; i < r->n; i++) {
        if (i > 0 && strcmp(r->rows[i].model, r->rows[i - 1].model) == 0)
            continue;
        fy_str_puts(out, "<h2>");
        put_escaped_z(r->rows[i].model, out);
        fy_str_puts(out, "</h2>\n");
        put_sizes(r, r->rows[i].model, out);
        put_divergences(r, r->rows[i].model, out);
    }
    fy_str_puts(out, "<p>ferry " FERRY_VERSION "</p>\n</body>\n</html>\n");
}
