/* The table of a sweep: as text, CSV and JSON. */
#include "workspace/farm/sweep_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* --- cells ------------------------------------------------------------------------------------ */

/* As many digits as `ferry eval --json` has. */
static void put_exact(double v, fy_str *out)
{
    if (isfinite(v))
        fy_str_printf(out, "%.10g", v);
}

static void put_text(const char *text, fy_str *out)
{
    fy_str_puts(out, text != NULL ? text : "");
}

#define TEXT_OF(field)                                            \
    static void put_##field(const fy_sweep_row *row, fy_str *out) \
    {                                                             \
        put_text(row->field, out);                                \
    }
#define NUMBER_OF(field)                                          \
    static void put_##field(const fy_sweep_row *row, fy_str *out) \
    {                                                             \
        put_exact(row->field, out);                               \
    }
TEXT_OF(model)
TEXT_OF(type)
TEXT_OF(chip)
TEXT_OF(recipe)
TEXT_OF(why)
TEXT_OF(workspace)
TEXT_OF(error)
NUMBER_OF(perplexity)
NUMBER_OF(perplexity_error)
NUMBER_OF(base_perplexity)
NUMBER_OF(kl)
NUMBER_OF(kl_error)
NUMBER_OF(same_top)

static void put_bytes(const fy_sweep_row *row, fy_str *out)
{
    if (row->bytes > 0)
        fy_str_printf(out, "%" PRIu64, row->bytes);
}

static void put_fits(const fy_sweep_row *row, fy_str *out)
{
    if (row->fits >= 0)
        fy_str_puts(out, row->fits ? "true" : "false");
}

static void put_chunks(const fy_sweep_row *row, fy_str *out)
{
    if (row->fits == 1)
        fy_str_printf(out, "%" PRIu64, row->n_chunks);
}

static void put_sessions(const fy_sweep_row *row, fy_str *out)
{
    if (row->fits == 1)
        fy_str_printf(out, "%" PRIu64, row->n_sessions);
}

static void show_megabytes(const fy_sweep_row *row, fy_str *out)
{
    if (row->bytes > 0)
        fy_str_printf(out, "%.2f", (double)row->bytes * 1e-6);
}

static void show_perplexity(const fy_sweep_row *row, fy_str *out)
{
    if (isfinite(row->perplexity))
        fy_str_printf(out, "%.4f", row->perplexity);
}

static void show_kl(const fy_sweep_row *row, fy_str *out)
{
    if (isfinite(row->kl))
        fy_str_printf(out, "%.3g", row->kl);
}

static void show_same_top(const fy_sweep_row *row, fy_str *out)
{
    if (isfinite(row->same_top))
        fy_str_printf(out, "%.2f", 100 * row->same_top);
}

static void show_fits(const fy_sweep_row *row, fy_str *out)
{
    if (row->fits == 1)
        fy_str_printf(out, "yes: %" PRIu64 " chunk%s", row->n_chunks,
                      row->n_chunks == 1 ? "" : "s");
    else if (row->fits == 0)
        fy_str_printf(out, "no: %s", row->why != NULL ? row->why : "");
}

static void show_workspace(const fy_sweep_row *row, fy_str *out)
{
    if (row->error != NULL)
        fy_str_printf(out, "failed: %s", row->error);
    else
        put_text(row->workspace, out);
}

const fy_sweep_column fy_sweep_columns[FY_SWEEP_COLUMNS] = {
    {"model", "model", false, put_model},
    {"type", "type", false, put_type},
    {"chip", "chip", false, put_chip},
    {"recipe", "recipe", false, put_recipe},
    {"bytes", NULL, true, put_bytes},
    {NULL, "MB", true, show_megabytes},
    {"perplexity", NULL, true, put_perplexity},
    {NULL, "perplexity", true, show_perplexity},
    {"perplexity_error", NULL, true, put_perplexity_error},
    {"base_perplexity", NULL, true, put_base_perplexity},
    {"kl", NULL, true, put_kl},
    {NULL, "KL", true, show_kl},
    {"kl_error", NULL, true, put_kl_error},
    {"same_top", NULL, true, put_same_top},
    {NULL, "same top %", true, show_same_top},
    {"fits", NULL, true, put_fits},
    {NULL, "fits", false, show_fits},
    {"chunks", NULL, true, put_chunks},
    {"sessions", NULL, true, put_sessions},
    {"why", NULL, false, put_why},
    {"workspace", NULL, false, put_workspace},
    {NULL, "workspace", false, show_workspace},
    {"error", NULL, false, put_error},
};

bool fy_sweep_is_shown(const fy_sweep_result *r, const fy_sweep_column *c)
{
    fy_str cell = {0};
    for (size_t i = 0; i < r->n && c->title != NULL && cell.len == 0; i++)
        c->put(&r->rows[i], &cell);
    const bool any = cell.len > 0;
    fy_str_release(&cell);
    return any;
}

/* --- for people ------------------------------------------------------------------------------- */

/* One cell, escaped as a message is; `row` NULL: the title. */
static void put_cell(const fy_sweep_column *c, const fy_sweep_row *row, fy_str *out)
{
    fy_str cell = {0};
    if (row == NULL)
        fy_str_puts(&cell, c->title);
    else
        c->put(row, &cell);
    fy_str_put_quoted(out, (fy_span){fy_str_z(&cell), cell.len}, SIZE_MAX);
    out->oom |= cell.oom;
    fy_str_release(&cell);
}

static void put_line(const size_t *wide, const fy_sweep_row *row, fy_str *out)
{
    fy_str cell = {0};
    const size_t begin = out->len;
    for (size_t c = 0; c < FY_SWEEP_COLUMNS; c++) {
        if (wide[c] == 0)
            continue;
        fy_str_clear(&cell);
        put_cell(&fy_sweep_columns[c], row, &cell);
        fy_str_printf(out, "%s%*s", out->len > begin ? "  " : "",
                      fy_sweep_columns[c].is_number ? (int)wide[c] : -(int)wide[c],
                      fy_str_z(&cell));
    }
    while (out->len > begin && out->ptr[out->len - 1] == ' ')
        out->len--;
    fy_str_putc(out, '\n');
    out->oom |= cell.oom;
    fy_str_release(&cell);
}

static void put_text_table(const fy_sweep_result *r, fy_str *out)
{
    size_t wide[FY_SWEEP_COLUMNS] = {0};
    fy_str cell = {0};
    for (size_t c = 0; c < FY_SWEEP_COLUMNS; c++) {
        if (!fy_sweep_is_shown(r, &fy_sweep_columns[c]))
            continue;
        for (size_t i = 0; i <= r->n; i++) {
            fy_str_clear(&cell);
            put_cell(&fy_sweep_columns[c], i < r->n ? &r->rows[i] : NULL, &cell);
            wide[c] = cell.len > wide[c] ? cell.len : wide[c];
        }
    }
    for (size_t i = 0; i <= r->n; i++)
        put_line(wide, i > 0 ? &r->rows[i - 1] : NULL, out);
    out->oom |= cell.oom;
    fy_str_release(&cell);
}

/* --- for programs ----------------------------------------------------------------------------- */

/* RFC 4180: in quotes where it needs them. */
static void put_csv_cell(const fy_str *cell, fy_str *out)
{
    if (strpbrk(fy_str_z(cell), ",\"\r\n") == NULL) {
        fy_str_puts(out, fy_str_z(cell));
        return;
    }
    fy_str_putc(out, '"');
    for (const char *p = cell->ptr; *p != '\0'; p++) {
        if (*p == '"')
            fy_str_putc(out, '"');
        fy_str_putc(out, *p);
    }
    fy_str_putc(out, '"');
}

static void put_csv(const fy_sweep_result *r, fy_str *out)
{
    fy_str cell = {0};
    for (size_t i = 0; i <= r->n; i++) {
        const char *comma = "";
        for (size_t c = 0; c < FY_SWEEP_COLUMNS; c++) {
            if (fy_sweep_columns[c].key == NULL)
                continue;
            fy_str_clear(&cell);
            if (i == 0)
                fy_str_puts(&cell, fy_sweep_columns[c].key);
            else
                fy_sweep_columns[c].put(&r->rows[i - 1], &cell);
            fy_str_puts(out, comma);
            put_csv_cell(&cell, out);
            comma = ",";
        }
        fy_str_putc(out, '\n');
    }
    out->oom |= cell.oom;
    fy_str_release(&cell);
}

/* What a row has not is null. */
static void put_json(const fy_sweep_result *r, fy_str *out)
{
    fy_str cell = {0};
    fy_str_puts(out, "[");
    for (size_t i = 0; i < r->n; i++) {
        const char *comma = i > 0 ? ",\n {" : "\n {";
        for (size_t c = 0; c < FY_SWEEP_COLUMNS; c++) {
            if (fy_sweep_columns[c].key == NULL)
                continue;
            fy_str_clear(&cell);
            fy_sweep_columns[c].put(&r->rows[i], &cell);
            fy_str_printf(out, "%s\"%s\": ", comma, fy_sweep_columns[c].key);
            if (cell.len == 0)
                fy_str_puts(out, "null");
            else if (fy_sweep_columns[c].is_number)
                fy_str_puts(out, fy_str_z(&cell));
            else
                fy_json_put_string(out, (fy_span){cell.ptr, cell.len});
            comma = ", ";
        }
        fy_str_putc(out, '}');
    }
    fy_str_puts(out, "\n]\n");
    out->oom |= cell.oom;
    fy_str_release(&cell);
}

int fy_sweep_put(const fy_sweep_result *r, fy_sweep_format format, fy_str *out, fy_err *e)
{
    switch (format) {
    case FY_TABLE_TEXT:
        put_text_table(r, out);
        break;
    case FY_TABLE_CSV:
        put_csv(r, out);
        break;
    case FY_TABLE_JSON:
        put_json(r, out);
        break;
    case FY_TABLE_HTML:
        fy_sweep_put_html(r, out);
        break;
    }
    return out->oom ? fy_nomem(e) : 0;
}
