/* What `ferry convert` prints: the plan as a table or JSON on standard output, and messages about
 * the plan and about the end on standard error. */
#include "convert/write/convert_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "base/types.h"
#include "cli/terminal.h"

static size_t n_tensors(const fy_convert_job *j)
{
    return j->plan != NULL ? j->plan->n_tensors : 0;
}

static size_t n_drops(const fy_convert_job *j)
{
    return j->plan != NULL ? j->plan->n_drops : 0;
}

static uint64_t tensor_bytes(const fy_convert_job *j)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n_tensors(j); i++)
        bytes += fy_gguf_writer_tensor(j->writer, (int64_t)i)->bytes;
    return bytes;
}

static uint64_t dropped_bytes(const fy_convert_job *j)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n_drops(j); i++)
        bytes += j->plan->drops[i].src->bytes;
    return bytes;
}

/* What happens to the source on its way. */
static const char *transform_text(fy_transform x)
{
    static const char *const texts[] = {
        [FY_X_COPY] = "",
        [FY_X_LLAMA3_FREQS] = "computed from rope_scaling",
        [FY_X_LONG_FACTORS] = "long_factor of rope_scaling",
        [FY_X_SHORT_FACTORS] = "short_factor of rope_scaling",
        [FY_X_PART_FREQS] = "computed from rope_parameters",
        [FY_X_PAD_ROWS] = "",
        [FY_X_ZEROS] = "zeros",
        [FY_X_ADD_ONE] = "plus one",
        [FY_X_ONE_MINUS] = "one minus",
        [FY_X_SPREAD] = "spread",
        [FY_X_EXP_SPREAD] = "exp, spread",
        [FY_X_TRANSPOSE] = "transposed",
        [FY_X_TRANSPOSE_FIRST_HALF] = "first half transposed",
        [FY_X_TRANSPOSE_SECOND_HALF] = "second half transposed",
        [FY_X_TRANSPOSE_EVEN] = "even columns transposed",
        [FY_X_TRANSPOSE_ODD] = "odd columns transposed",
        [FY_X_PERMUTE_Q] = "rows permuted",
        [FY_X_PERMUTE_K] = "rows permuted",
    };
    return x < sizeof texts / sizeof texts[0] ? texts[x] : "some of its rows";
}

/* --- table ---------------------------------------------------------------------------------- */

static void put_tensor(fy_str *s, const fy_plan_tensor *t, uint64_t bytes)
{
    char name[FY_ROW_NAME_BYTES], shape[96];
    const char *how = transform_text(t->transform);
    size_t at = 0;
    fy_plan_name(t, name);
    for (uint32_t d = 0; d < t->n_dims; d++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%" PRIu64, d > 0 ? " x " : "",
                               t->ne[d]);
    fy_str_printf(s, "%-26s %-5s %-15s %13" PRIu64 "  ", name, fy_type_name(t->type), shape, bytes);
    if (t->src != NULL) {
        fy_str_put_quoted(s, t->src->name, FY_ROW_NAME_BYTES);
        if (t->stacked != NULL)
            fy_str_puts(s, " and those that follow it");
        fy_str_printf(s, " (%s)%s", fy_dtype_name(t->src->dtype), *how != '\0' ? ", " : "");
    }
    fy_str_printf(s, "%s%s\n", how, t->fallback ? ", rows do not divide into blocks of 32" : "");
}

static void put_table(const fy_convert_job *j, fy_str *s)
{
    fy_str_printf(s, "%-26s %-5s %-15s %13s  %s\n", "tensor", "type", "shape", "bytes", "source");
    for (size_t i = 0; i < n_tensors(j); i++)
        put_tensor(s, &j->plan->tensors[i], fy_gguf_writer_tensor(j->writer, (int64_t)i)->bytes);
    for (size_t i = 0; i < n_drops(j); i++) {
        fy_str_puts(s, "dropped: ");
        fy_str_put_quoted(s, j->plan->drops[i].src->name, 120);
        fy_str_printf(s, " (%s)\n", j->plan->drops[i].reason);
    }
    fy_str_printf(s, "%zu tensors, %" PRIu64 " bytes of tensors, %" PRIu64 " bytes in all, to ",
                  n_tensors(j), tensor_bytes(j), fy_gguf_writer_file_bytes(j->writer));
    fy_str_put_quoted(s, fy_span_of(fy_str_z(&j->out_path)), SIZE_MAX);
    fy_str_putc(s, '\n');
    if (fy_gguf_writer_n_files(j->writer) > 1)
        fy_str_printf(s, "split into %" PRIu32 " files\n", fy_gguf_writer_n_files(j->writer));
}

static int put_parts(fy_convert_job *j, fy_str *s, fy_err *e)
{
    const uint32_t n = j->parts.part.n;
    uint64_t *work = n > 0 ? calloc(n, sizeof *work) : NULL;
    double seconds = -1;
    if (n > 0 && work == NULL)
        return fy_nomem(e);
    const int rc = n > 0 ? fy_convert_job_shares(j, work, e) : 0;
    if (rc == 0 && n > 0)
        fy_part_show(work, n, fy_convert_job_estimate(j, &seconds) ? seconds : -1, s);
    free(work);
    return rc;
}

int fy_convert_print_plan(fy_convert_job *j, fy_err *e)
{
    fy_str s = {0};
    uint64_t space;
    double seconds;
    put_table(j, &s);
    if (put_parts(j, &s, e) != 0 || fy_stdout_text(&s, e) != 0)
        return -1;
    if (n_drops(j) > 0)
        fy_log(FY_LOG_INFO, "%zu tensors of the checkpoint, %.1f MB, are not in the output",
               n_drops(j), (double)dropped_bytes(j) * 1e-6);
    if (fy_file_space(fy_str_z(&j->out_path), &space, NULL) == 0)
        fy_log(FY_LOG_INFO, "free space there: %.1f MB", (double)space * 1e-6);
    if (fy_convert_job_estimate(j, &seconds))
        fy_log(FY_LOG_INFO,
               "%s %.1f s with %d thread%s, by a sample, while the files are in memory; a slow "
               "disk takes longer",
               seconds < 0.1 ? "less than" : "about", seconds < 0.1 ? 0.1 : seconds, j->n_threads,
               j->n_threads == 1 ? "" : "s");
    return fy_gguf_writer_check_space(j->writer, fy_str_z(&j->out_path), e);
}

/* --- JSON ----------------------------------------------------------------------------------- */

static void put_text(fy_str *s, const char *key, fy_span text)
{
    fy_str_printf(s, "\"%s\": ", key);
    fy_json_put_string(s, text);
}

static void put_source(fy_str *s, const char *key, const fy_ckpt_tensor *t)
{
    put_text(s, key, t->name);
    fy_str_puts(s, ", ");
    put_text(s, "file", fy_span_of(t->path));
    fy_str_printf(s, ", \"source_type\": \"%s\", \"source_bytes\": %" PRIu64,
                  fy_dtype_name(t->dtype), t->bytes);
}

static void put_json_tensor(const fy_convert_job *j, size_t i, fy_str *s)
{
    const fy_plan_tensor *t = &j->plan->tensors[i];
    const fy_gguf_tensor *to = fy_gguf_writer_tensor(j->writer, (int64_t)i);
    const char *how = transform_text(t->transform);
    char name[FY_ROW_NAME_BYTES];
    fy_plan_name(t, name);
    fy_str_printf(s, "%s\n    {\"name\": \"%s\", \"type\": \"%s\", \"shape\": [", i > 0 ? "," : "",
                  name, fy_type_name(t->type));
    for (uint32_t d = 0; d < t->n_dims; d++)
        fy_str_printf(s, "%s%" PRIu64, d > 0 ? ", " : "", t->ne[d]);
    fy_str_printf(s, "], \"bytes\": %" PRIu64 ", \"offset\": %" PRIu64, to->bytes, to->offset);
    if (t->src != NULL) {
        fy_str_puts(s, ", ");
        put_source(s, "source", t->src);
        fy_str_printf(s, ", \"n_sources\": %u", t->stacked != NULL ? t->n_stacked : 1);
    }
    if (*how != '\0')
        fy_str_printf(s, ", \"transform\": \"%s\"", how);
    fy_str_printf(s, ", \"fallback\": %s}", t->fallback ? "true" : "false");
}

static void put_json_drop(const fy_plan_drop *d, bool first, fy_str *s)
{
    fy_str_printf(s, "%s\n    {", first ? "" : ",");
    put_source(s, "source", d->src);
    fy_str_printf(s, ", \"reason\": \"%s\"}", d->reason);
}

/* What a dry run says of the place and the time, or what there is to say at the end. */
static void put_json_end(fy_convert_job *j, double seconds, fy_str *s)
{
    uint64_t space;
    double estimate;
    if (seconds >= 0) {
        fy_str_printf(s, "  \"seconds\": %.3f,\n  \"peak_rss_anon\": %" PRIu64 ",\n", seconds,
                      fy_rss_anon_most(&j->peak_anon));
        return;
    }
    if (fy_file_space(fy_str_z(&j->out_path), &space, NULL) == 0)
        fy_str_printf(s, "  \"free_bytes\": %" PRIu64 ",\n  \"fits\": %s,\n", space,
                      space >= fy_gguf_writer_file_bytes(j->writer) ? "true" : "false");
    if (fy_convert_job_estimate(j, &estimate))
        fy_str_printf(s, "  \"estimated_seconds\": %.3f,\n", estimate);
}

static void put_json(fy_convert_job *j, double seconds, fy_str *s)
{
    fy_str_puts(s, "{\n  ");
    put_text(s, "output", fy_span_of(fy_str_z(&j->out_path)));
    fy_str_printf(s, ",\n  \"dry_run\": %s,\n  ", seconds < 0 ? "true" : "false");
    put_text(s, "name", fy_span_of(json_string_value(json_object_get(j->meta, "name"))));
    if (j->has_config)
        fy_str_printf(s, ",\n  \"family\": \"%s\",\n  \"architecture\": \"%s\"",
                      j->config.family->name, j->config.family->gguf_arch);
    if (j->plan != NULL)
        fy_str_printf(s, ",\n  \"type\": \"%s\",\n  \"parameters\": %" PRIu64,
                      fy_file_type_name(&j->plan->file), j->plan->n_params);
    fy_str_printf(s,
                  ",\n  \"files\": %" PRIu32 ",\n  \"file_bytes\": %" PRIu64
                  ",\n  \"tensor_bytes\": %" PRIu64 ",\n  \"dropped_bytes\": %" PRIu64
                  ",\n  \"threads\": %d,\n",
                  fy_gguf_writer_n_files(j->writer), fy_gguf_writer_file_bytes(j->writer),
                  tensor_bytes(j), dropped_bytes(j), j->n_threads);
    put_json_end(j, seconds, s);
    fy_str_puts(s, "  \"tensors\": [");
    for (size_t i = 0; i < n_tensors(j); i++)
        put_json_tensor(j, i, s);
    fy_str_puts(s, "\n  ],\n  \"dropped\": [");
    for (size_t i = 0; i < n_drops(j); i++)
        put_json_drop(&j->plan->drops[i], i == 0, s);
    fy_str_puts(s, "\n  ]\n}\n");
}

int fy_convert_print_json(fy_convert_job *j, double seconds, fy_err *e)
{
    fy_str s = {0};
    put_json(j, seconds, &s);
    if (fy_stdout_text(&s, e) != 0)
        return -1;
    return seconds >= 0 ? 0 : fy_gguf_writer_check_space(j->writer, fy_str_z(&j->out_path), e);
}

/* --- messages --------------------------------------------------------------------------------- */

void fy_convert_say_plan(const fy_convert_job *j)
{
    const char *path = fy_str_z(&j->out_path);
    size_t fallbacks = 0;
    for (size_t i = 0; i < n_tensors(j); i++)
        fallbacks += j->plan->tensors[i].fallback;
    if (j->plan == NULL)
        fy_log(FY_LOG_INFO, "writing %s: vocabulary only", path);
    else
        fy_log(FY_LOG_INFO, "writing %s: %s, %s, %zu tensors", path, j->config.family->name,
               fy_file_type_name(&j->plan->file), j->plan->n_tensors);
    if (fy_gguf_writer_n_files(j->writer) > 1)
        fy_log(FY_LOG_INFO, "split into %" PRIu32 " files", fy_gguf_writer_n_files(j->writer));
    if (j->has_config && j->config.nested)
        fy_log(FY_LOG_INFO, "only the text model of the checkpoint is converted");
    if (fallbacks > 0)
        fy_log(FY_LOG_INFO,
               "%zu matrices get another type (--dry-run lists them): their rows do not divide "
               "into its blocks",
               fallbacks);
    for (size_t i = 0; i < n_drops(j); i++) {
        char q[FY_QUOTE_BYTES];
        fy_log(j->o->allow_unmapped ? FY_LOG_INFO : FY_LOG_DEBUG, "dropped %s: %s",
               fy_quote(q, sizeof q, j->plan->drops[i].src->name), j->plan->drops[i].reason);
    }
}

void fy_convert_say_end(fy_convert_job *j, double seconds)
{
    double in = j->source != NULL ? (double)(fy_ckpt_bytes(j->source) - dropped_bytes(j)) : 0;
    uint64_t odd = j->stream != NULL ? j->stream->n_nonfinite : 0;
    if (odd > 0)
        fy_log(FY_LOG_WARN,
               "%" PRIu64 " value%s NaN, infinite or too large, and written so (--allow-nonfinite)",
               odd, odd == 1 ? " is" : "s are");
    fy_log(FY_LOG_INFO, "read %.1f MB, wrote %.1f MB in %.2f s, %.0f MB/s, peak RssAnon %.1f MB",
           in * 1e-6, (double)fy_gguf_writer_file_bytes(j->writer) * 1e-6, seconds,
           in * 1e-6 / (seconds > 0 ? seconds : 1), (double)fy_rss_anon_most(&j->peak_anon) * 1e-6);
}
