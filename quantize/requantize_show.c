#include "quantize/requantize_show.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"

static size_t n_tensors(const fy_requant *q)
{
    fy_requant_stats s;
    fy_requant_stats_of(q, &s);
    return (size_t)s.n_tensors;
}

static uint64_t bytes_of(const fy_requant *q, size_t i)
{
    return fy_gguf_writer_tensor(fy_requant_writer(q), (int64_t)i)->bytes;
}

/* --- table ------------------------------------------------------------------------------------ */

static void put_why(const fy_requant_tensor *t, fy_str *s)
{
    const char *comma = "";
    if (t->why == FY_TYPE_RECIPE || t->why == FY_TYPE_OPTION) {
        fy_str_puts(s, t->why == FY_TYPE_RECIPE ? "by the recipe" : "by an option");
        comma = ", ";
    }
    if (t->to != t->wanted) {
        fy_str_printf(s, "%srows of %" PRIu64 " are no %s", comma, t->from->ne[0],
                      fy_type_name(t->wanted));
        comma = ", ";
    }
    if (t->requantized)
        fy_str_printf(s, "%squantized again", comma);
}

static void put_row(const fy_requant *q, size_t i, fy_str *s)
{
    const fy_requant_tensor *t = fy_requant_tensor_at(q, i);
    char name[FY_QUOTE_BYTES];
    fy_str_printf(s, "%-28s %-5s %-5s %13" PRIu64 "  ", fy_quote(name, sizeof name, t->from->name),
                  fy_type_name(t->from->type), fy_type_name(t->to), bytes_of(q, i));
    put_why(t, s);
    while (s->len > 0 && !s->oom && s->ptr[s->len - 1] == ' ')
        s->len--;
    fy_str_putc(s, '\n');
}

static void put_end(const fy_requant *q, const char *out, fy_str *s)
{
    const fy_gguf_writer *w = fy_requant_writer(q);
    uint64_t bytes = 0, elems = 0;
    for (size_t i = 0; i < n_tensors(q); i++) {
        const uint64_t *ne = fy_requant_tensor_at(q, i)->from->ne;
        bytes += bytes_of(q, i);
        elems += ne[0] * ne[1] * ne[2] * ne[3]; /* the reader has checked them */
    }
    fy_str_printf(s,
                  "%zu tensors, %" PRIu64 " bytes of tensors (%.2f bits a weight), %" PRIu64
                  " bytes in all, to ",
                  n_tensors(q), bytes, elems > 0 ? 8 * (double)bytes / (double)elems : 0,
                  fy_gguf_writer_file_bytes(w));
    fy_str_put_quoted(s, fy_span_of(out), SIZE_MAX);
    fy_str_putc(s, '\n');
    if (fy_gguf_writer_n_files(w) > 1)
        fy_str_printf(s, "split into %" PRIu32 " files\n", fy_gguf_writer_n_files(w));
}

int fy_requant_print_plan(const fy_requant *q, const char *out, fy_err *e)
{
    fy_str s = {0};
    uint64_t space;
    fy_str_printf(&s, "%-28s %-5s %-5s %13s  %s\n", "tensor", "from", "to", "bytes", "why");
    for (size_t i = 0; i < n_tensors(q); i++)
        put_row(q, i, &s);
    put_end(q, out, &s);
    int rc = s.oom ? fy_nomem(e) : fy_stdout(s.ptr, s.len, e);
    fy_str_release(&s);
    if (rc != 0)
        return -1;
    if (fy_file_space(out, &space, NULL) == 0)
        fy_log(FY_LOG_INFO, "free space there: %.1f MB", (double)space * 1e-6);
    return fy_gguf_writer_check_space(fy_requant_writer(q), out, e);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void put_json_tensor(const fy_requant *q, size_t i, fy_str *s)
{
    const fy_requant_tensor *t = fy_requant_tensor_at(q, i);
    fy_str_printf(s, "%s\n    {\"name\": ", i > 0 ? "," : "");
    fy_json_put_string(s, t->from->name);
    fy_str_printf(s, ", \"from\": \"%s\", \"type\": \"%s\", \"shape\": [",
                  fy_type_name(t->from->type), fy_type_name(t->to));
    for (uint32_t d = 0; d < t->from->n_dims; d++)
        fy_str_printf(s, "%s%" PRIu64, d > 0 ? ", " : "", t->from->ne[d]);
    fy_str_printf(s, "], \"bytes\": %" PRIu64 ", \"offset\": %" PRIu64 ", \"why\": \"%s\"",
                  bytes_of(q, i), fy_gguf_writer_tensor(fy_requant_writer(q), (int64_t)i)->offset,
                  fy_type_why_name(t->why));
    if (t->to != t->wanted)
        fy_str_printf(s, ", \"wanted\": \"%s\"", fy_type_name(t->wanted));
    fy_str_printf(s, ", \"fallback\": %s, \"requantized\": %s, \"imatrix\": %s}",
                  t->to != t->wanted ? "true" : "false", t->requantized ? "true" : "false",
                  t->importance != NULL ? "true" : "false");
}

static void put_json(const fy_requant *q, const char *out, double seconds, uint64_t peak, fy_str *s)
{
    const fy_gguf_writer *w = fy_requant_writer(q);
    fy_requant_stats stats;
    uint64_t space;
    fy_requant_stats_of(q, &stats);
    fy_str_puts(s, "{\n  \"output\": ");
    fy_json_put_string(s, fy_span_of(out));
    fy_str_printf(s,
                  ",\n  \"dry_run\": %s,\n  \"files\": %" PRIu32 ",\n  \"file_bytes\": %" PRIu64
                  ",\n  \"source_bytes\": %" PRIu64 ",\n",
                  seconds < 0 ? "true" : "false", fy_gguf_writer_n_files(w), stats.bytes_out,
                  stats.bytes_in);
    if (seconds >= 0)
        fy_str_printf(s, "  \"seconds\": %.3f,\n  \"peak_rss_anon\": %" PRIu64 ",\n", seconds,
                      peak);
    else if (fy_file_space(out, &space, NULL) == 0)
        fy_str_printf(s, "  \"free_bytes\": %" PRIu64 ",\n  \"fits\": %s,\n", space,
                      fy_gguf_writer_check_space(w, out, NULL) == 0 ? "true" : "false");
    fy_str_puts(s, "  \"tensors\": [");
    for (size_t i = 0; i < n_tensors(q); i++)
        put_json_tensor(q, i, s);
    fy_str_puts(s, "\n  ]\n}\n");
}

int fy_requant_print_json(const fy_requant *q, const char *out, double seconds, uint64_t peak,
                          fy_err *e)
{
    fy_str s = {0};
    put_json(q, out, seconds, peak, &s);
    int rc = s.oom ? fy_nomem(e) : fy_stdout(s.ptr, s.len, e);
    fy_str_release(&s);
    if (rc != 0 || seconds >= 0)
        return rc;
    return fy_gguf_writer_check_space(fy_requant_writer(q), out, e);
}

/* --- words ------------------------------------------------------------------------------------ */

static void warn_fallbacks(const fy_requant *q)
{
    const fy_requant_tensor *first = NULL;
    char shown[FY_QUOTE_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < n_tensors(q); i++) {
        const fy_requant_tensor *t = fy_requant_tensor_at(q, i);
        if (t->to != t->wanted && n++ == 0)
            first = t;
    }
    if (n > 0)
        fy_log(FY_LOG_WARN,
               "%zu matrices get another type: their rows are no whole blocks of its own (first: "
               "'%s', rows of %" PRIu64 ", becomes %s)",
               n, fy_quote(shown, sizeof shown, first->from->name), first->from->ne[0],
               fy_type_name(first->to));
}

static void warn_requantized(const fy_requant *q)
{
    size_t n = 0, of[FY_TYPE_COUNT] = {0};
    fy_str types = {0};
    for (size_t i = 0; i < n_tensors(q); i++) {
        const fy_requant_tensor *t = fy_requant_tensor_at(q, i);
        n += t->requantized;
        of[t->from->type] += t->requantized;
    }
    for (int t = 0; t < FY_TYPE_COUNT; t++) {
        if (of[t] > 0)
            fy_str_printf(&types, "%s%zu %s", types.len > 0 ? ", " : "", of[t],
                          fy_type_name((fy_type)t));
    }
    if (n > 0)
        fy_log(FY_LOG_WARN,
               "%zu matrices are quantized a second time (%s): the error of both adds up; the f32, "
               "f16 or bf16 file gives a better one",
               n, fy_str_z(&types));
    fy_str_release(&types);
}

void fy_requant_warn(const fy_requant *q)
{
    warn_fallbacks(q);
    warn_requantized(q);
}
