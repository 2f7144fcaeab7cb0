/* ferry quantize: its options, what it shows of the plan, and what of the losses. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "base/thread.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "format/gguf.h"
#include "kernels/row.h"
#include "quantize/requantize.h"

typedef struct {
    fy_opt_list tensor_types;
    const char *imatrix, *split_max_size, *hot;
    int64_t n_threads;
    const char *report, *part;
    int64_t finish;
    int recipe, output_type, embedding_type;
    bool pure, fit, transpose_down, allow_requantize, resume, dry_run, json, quiet, verbose;
} options;

#define TYPES FY_ROW_TYPES "|" FY_MIXTURES

#define FIELD(name) offsetof(options, name)
static const fy_opt opts[] = {
    {.group = "Types",
     .name = "recipe",
     .kind = FY_OPT_CHOICE,
     .arg = FY_RECIPES,
     .offset = FIELD(recipe),
     .help = "pure: every matrix takes the type; so it is without the option, unless TYPE is a "
             "mixture. llama: llama-quantize's choice, which keeps some matrices in better types "
             "(docs/quantization.md); of q4_K and q5_K its Q4_K_M and Q5_K_M."},
    FY_LINE_FLAG("Types", "pure", pure, "Every matrix takes the type, as the recipe pure says."),
    FY_LINE_CHOICE(
        "Types", "output-tensor-type", FY_ROW_TYPES, output_type,
        "Type of output.weight, before --tensor-type and the recipe; in llama's recipe that "
        "of the embedding where there is no output.weight."),
    FY_LINE_CHOICE("Types", "token-embedding-type", FY_ROW_TYPES, embedding_type,
                   "Type of token_embd.weight, before --tensor-type and the recipe."),
    FY_LINE_LIST(
        "Types", "tensor-type", "REGEX=TYPE", tensor_types,
        "Another type for matrices in whose name the extended regular expression is found. "
        "May be repeated; the first that matches counts."),
    FY_LINE_STR(
        "Quality", "imatrix", "FILE.gguf", imatrix,
        "Weigh errors by this importance matrix (ferry eval --imatrix-out, or llama.cpp's in "
        "GGUF), as llama-quantize does."),
    FY_LINE_FLAG("Quality", "fit", fit,
                 "Search the scale of every block for the least error (with --imatrix, the least "
                 "weighted one): q8_0, q4_0, q4_1, q5_0, q5_1. The file stays a standard one; its "
                 "bytes are no longer those of ggml."),
    FY_LINE_FLAG("Quality", "allow-requantize", allow_requantize,
                 "Quantize what is quantized already, through f32: the errors add up."),
    FY_LINE_FLAG(
        "Output", "transpose-down", transpose_down,
        "Store the down matrices of feed-forward networks transposed (ffn_down_t), a row for "
        "each neuron, so that decoding does not read those of neurons that are 0. Of models "
        "with a ReLU activation, from an f32, f16 or bf16 file (docs/sparse.md)."),
    FY_LINE_STR("Output", "hot", "FILE.gpuidx", hot,
                "Put the neurons that ferry plan --hot chose first, in every matrix that has a row "
                "for each neuron (docs/sparse.md)."),
    FY_LINE_STR(
        "Output", "split-max-size", "N(M|G)", split_max_size,
        "Split the model over files OUT-00001-of-0000N.gguf, each with at most so many bytes "
        "of tensors (M: million, G: a thousand million; a larger tensor has a file alone)."),
    {.group = "Output",
     .name = "resume",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(resume),
     .def = "yes",
     .line_only = true,
     .help = "Resume an interrupted quantization, if the input, the options and "
             "the program are the same; =no begins again, and leaves nothing when it is "
             "interrupted."},
    FY_ROWS_PARTS,
    FY_LINE_FLAG("Output", "dry-run", dry_run,
                 "Print the plan, tensor by tensor, and write nothing. Exit status 6: there is too "
                 "little space."),
    FY_LINE_FLAG("Output", "json", json,
                 "Print the plan as JSON; after the work with time and memory."),
    FY_LINE_STR("Output", "report", "FILE", report,
                "Measure what each tensor loses and write it to FILE as JSON "
                "(docs/quantization.md); -: to standard output."),
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static uint64_t bytes_of(const fy_requant *q, size_t i)
{
    return fy_gguf_writer_tensor(q->w, (int64_t)i)->bytes;
}

/* --- the plan: table ------------------------------------------------------------------------- */

static void put_why(const fy_requant_tensor *t, fy_str *s)
{
    const char *comma = "";
    if (t->why == FY_TYPE_RECIPE || t->why == FY_TYPE_OPTION) {
        fy_str_puts(s, t->why == FY_TYPE_RECIPE ? "by the recipe" : "by an option");
        comma = ", ";
    }
    if (t->to != t->wanted) {
        fy_str_printf(s, "%srows of %" PRIu64 " do not fit %s", comma, t->from->ne[0],
                      fy_type_name(t->wanted));
        comma = ", ";
    }
    if (t->requantized)
        fy_str_printf(s, "%squantized again", comma);
    if (t->transposed)
        fy_str_printf(s, "%stransposed, as ffn_down_t", comma);
}

static void put_row(const fy_requant *q, size_t i, fy_str *s)
{
    const fy_requant_tensor *t = &q->tensors[i];
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
    const fy_gguf_writer *w = q->w;
    uint64_t bytes = 0, elems = 0;
    for (size_t i = 0; i < q->stats.n_tensors; i++) {
        const uint64_t *ne = q->tensors[i].from->ne;
        bytes += bytes_of(q, i);
        elems += ne[0] * ne[1] * ne[2] * ne[3]; /* the reader has checked them */
    }
    fy_str_printf(s,
                  "%zu tensors, %" PRIu64 " bytes of tensors (%.2f bits a weight), %" PRIu64
                  " bytes in all, to ",
                  q->stats.n_tensors, bytes, elems > 0 ? 8 * (double)bytes / (double)elems : 0,
                  fy_gguf_writer_file_bytes(w));
    fy_str_put_quoted(s, fy_span_of(out), SIZE_MAX);
    fy_str_putc(s, '\n');
    if (fy_gguf_writer_n_files(w) > 1)
        fy_str_printf(s, "split into %" PRIu32 " files\n", fy_gguf_writer_n_files(w));
}

static fy_pool *open_pool(int64_t n_threads, fy_err *e)
{
    return fy_pool_new(n_threads == FY_OPT_UNSET_INT ? fy_default_threads() : (int)n_threads, e);
}

/* Each part, and how long they take by a sample. */
static int put_parts(fy_requant *q, int64_t n_threads, fy_str *s, fy_err *e)
{
    const uint32_t n = q->p.parts->part.n;
    double seconds = -1;
    if (n == 0)
        return 0;
    uint64_t *work = calloc(n, sizeof *work);
    fy_pool *pool = work != NULL ? open_pool(n_threads, e) : NULL;
    int rc = work == NULL ? fy_nomem(e) : pool == NULL ? -1 : fy_requant_shares(q, n, work, e);
    if (rc == 0)
        fy_part_show(work, n, fy_requant_estimate(q, pool, &seconds) ? seconds : -1, s);
    fy_pool_free(pool);
    free(work);
    return rc;
}

static int print_plan(fy_requant *q, const char *out, int64_t n_threads, fy_err *e)
{
    fy_str s = {0};
    uint64_t space;
    fy_str_printf(&s, "%-28s %-5s %-5s %13s  %s\n", "tensor", "from", "to", "bytes", "why");
    for (size_t i = 0; i < q->stats.n_tensors; i++)
        put_row(q, i, &s);
    put_end(q, out, &s);
    if (put_parts(q, n_threads, &s, e) != 0 || fy_stdout_text(&s, e) != 0)
        return -1;
    if (fy_file_space(out, &space, NULL) == 0)
        fy_log(FY_LOG_INFO, "free space there: %.1f MB", (double)space * 1e-6);
    return fy_gguf_writer_check_space(q->w, out, e);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void put_json_tensor(const fy_requant *q, size_t i, fy_str *s)
{
    const fy_requant_tensor *t = &q->tensors[i];
    fy_str_printf(s, "%s\n    {\"name\": ", i > 0 ? "," : "");
    fy_json_put_string(s, t->from->name);
    fy_str_printf(s, ", \"from\": \"%s\", \"type\": \"%s\", \"shape\": [",
                  fy_type_name(t->from->type), fy_type_name(t->to));
    for (uint32_t d = 0; d < t->from->n_dims; d++)
        fy_str_printf(s, "%s%" PRIu64, d > 0 ? ", " : "", t->from->ne[d]);
    fy_str_printf(s, "], \"bytes\": %" PRIu64 ", \"offset\": %" PRIu64 ", \"why\": \"%s\"",
                  bytes_of(q, i), fy_gguf_writer_tensor(q->w, (int64_t)i)->offset,
                  fy_type_why_name(t->why));
    if (t->to != t->wanted)
        fy_str_printf(s, ", \"wanted\": \"%s\"", fy_type_name(t->wanted));
    fy_str_printf(s, ", \"fallback\": %s, \"requantized\": %s, \"imatrix\": %s}",
                  t->to != t->wanted ? "true" : "false", t->requantized ? "true" : "false",
                  t->importance != NULL ? "true" : "false");
}

static void put_json(fy_requant *q, const char *out, double seconds, fy_str *s)
{
    const fy_gguf_writer *w = q->w;
    uint64_t space;
    fy_str_puts(s, "{\n  \"output\": ");
    fy_json_put_string(s, fy_span_of(out));
    fy_str_printf(s,
                  ",\n  \"dry_run\": %s,\n  \"files\": %" PRIu32 ",\n  \"file_bytes\": %" PRIu64
                  ",\n  \"source_bytes\": %" PRIu64 ",\n",
                  seconds < 0 ? "true" : "false", fy_gguf_writer_n_files(w), q->stats.bytes_out,
                  q->stats.bytes_in);
    if (seconds >= 0)
        fy_str_printf(s, "  \"seconds\": %.3f,\n  \"peak_rss_anon\": %" PRIu64 ",\n", seconds,
                      fy_rss_anon_most(&q->peak_anon));
    else if (fy_file_space(out, &space, NULL) == 0)
        fy_str_printf(s, "  \"free_bytes\": %" PRIu64 ",\n  \"fits\": %s,\n", space,
                      fy_gguf_writer_check_space(w, out, NULL) == 0 ? "true" : "false");
    fy_str_puts(s, "  \"tensors\": [");
    for (size_t i = 0; i < q->stats.n_tensors; i++)
        put_json_tensor(q, i, s);
    fy_str_puts(s, "\n  ]\n}\n");
}

static int print_json(fy_requant *q, const char *out, double seconds, fy_err *e)
{
    fy_str s = {0};
    put_json(q, out, seconds, &s);
    if (fy_stdout_text(&s, e) != 0)
        return -1;
    return seconds >= 0 ? 0 : fy_gguf_writer_check_space(q->w, out, e);
}

/* --- warnings --------------------------------------------------------------------------------- */

static void warn_fallbacks(const fy_requant *q)
{
    const fy_requant_tensor *first = NULL;
    char shown[FY_QUOTE_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < q->stats.n_tensors; i++) {
        const fy_requant_tensor *t = &q->tensors[i];
        if (t->to != t->wanted && n++ == 0)
            first = t;
    }
    if (n > 0)
        fy_log(FY_LOG_WARN,
               "%zu matrices get another type: their rows are not whole blocks of the one asked "
               "for (first: "
               "'%s', rows of %" PRIu64 ", becomes %s)",
               n, fy_quote(shown, sizeof shown, first->from->name), first->from->ne[0],
               fy_type_name(first->to));
}

static void warn_requantized(const fy_requant *q)
{
    size_t n = 0, of[FY_TYPE_COUNT] = {0};
    fy_str types = {0};
    for (size_t i = 0; i < q->stats.n_tensors; i++) {
        const fy_requant_tensor *t = &q->tensors[i];
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

/* --- the report ------------------------------------------------------------------------------ */

enum { COLUMNS = 80 }; /* of anything but a terminal */

/* What is shown of what tensors lose. Measuring costs time, so it is done only for a reader: a
 * table on a terminal, a line elsewhere, a file. */
typedef struct {
    const char *in, *out; /* names of the models; views */
    const char *file;     /* for JSON; "-": standard output; NULL: none */
    fy_out *json;         /* owned; opened at once, so that a bad name costs nothing */
    bool table, summary;
} shown_report;

static int begin_report(shown_report *s, fy_requant *q, const options *o, fy_err *e)
{
    s->table = !o->quiet && (fy_terminal(STDERR_FILENO) || o->verbose);
    s->summary = !o->quiet && !s->table && s->file != NULL;
    if (!s->table && s->file == NULL)
        return 0;
    if (s->file != NULL && strcmp(s->file, "-") != 0) {
        if (strcmp(s->file, s->out) == 0 || fy_file_is_same(s->file, s->out) ||
            fy_requant_is_input(q, s->file))
            return fy_fail(e, FY_EARG,
                           "--report %s: is a model of this call or its importance matrix, "
                           "expected another name",
                           s->file);
        if ((s->json = fy_out_open(s->file, 0, e)) == NULL)
            return -1;
    }
    if (fy_requant_measure(q, e) == 0)
        return 0;
    fy_out_abort(s->json);
    return -1;
}

static int write_json(const fy_requant *q, shown_report *s, fy_err *e)
{
    fy_str text = {0};
    int rc = fy_quant_put_json(q->report, s->in, s->out, q->p.file.type, &text, e);
    if (rc == 0 && s->json == NULL)
        return fy_stdout_text(&text, e);
    if (rc == 0)
        rc = fy_out_pwrite(s->json, text.ptr, text.len, 0, e);
    if (rc == 0) {
        rc = fy_out_commit(s->json, e);
        s->json = NULL;
    }
    fy_str_release(&text);
    return rc;
}

/* After the model was written. */
static int show_report(const fy_requant *q, shown_report *s, fy_err *e)
{
    fy_str text = {0};
    if (q->report == NULL)
        return 0;
    fy_quant_report_end(q->report);
    if (s->table)
        fy_quant_put_table(q->report, fy_terminal_columns(STDERR_FILENO, COLUMNS), &text);
    else if (s->summary)
        fy_quant_put_summary(q->report, &text);
    fy_log_lines(FY_LOG_INFO, fy_str_z(&text));
    const bool oom = text.oom;
    fy_str_release(&text);
    if (oom)
        return fy_nomem(e);
    return s->file != NULL ? write_json(q, s, e) : 0;
}

/* --- the work -------------------------------------------------------------------------------- */

static void say_end(fy_requant *q, const char *out, double seconds)
{
    const fy_requant_stats *s = &q->stats;
    fy_log(FY_LOG_INFO,
           "%s: %.1f MB from %.1f MB, %" PRIu64 " of %" PRIu64
           " tensors %s, %.1f s, %.0f MB/s, peak RssAnon %.1f MB",
           out, (double)s->bytes_out / 1e6, (double)s->bytes_in / 1e6, s->n_matrices, s->n_tensors,
           fy_type_name(q->p.file.type), seconds,
           (double)s->bytes_in / 1e6 / (seconds > 1e-3 ? seconds : 1e-3),
           (double)fy_rss_anon_most(&q->peak_anon) / 1e6);
}

static int write_file(fy_requant *q, const options *o, shown_report *shown, fy_err *e)
{
    fy_progress progress;
    fy_pool *pool = open_pool(o->n_threads, e);
    if (pool == NULL || begin_report(shown, q, o, e) != 0) {
        fy_pool_free(pool);
        return -1;
    }
    double begin = fy_now_s();
    fy_show_begin(&progress, "quantizing", q->stats.bytes_out);
    int rc = fy_requant_write(q, shown->out, pool, &progress, e);
    fy_show_end(&progress);
    const double seconds = fy_now_s() - begin;
    fy_pool_free(pool);
    if (rc == 0 && q->p.parts->part.n > 0)
        return fy_part_say_done(q->p.parts, shown->out, seconds);
    if (rc == 0) {
        say_end(q, shown->out, seconds);
        rc = show_report(q, shown, e);
    }
    fy_out_abort(shown->json);
    return rc == 0 && o->json ? print_json(q, shown->out, seconds, e) : rc;
}

/* What cannot go together. */
static int check_options(const options *o, fy_err *e)
{
    if (o->pure && o->recipe == FY_RECIPE_LLAMA)
        return fy_fail(e, FY_EARG, "--pure and --recipe llama: expected one of them");
    if ((o->part != NULL || o->finish > 0) && (o->report != NULL || o->json))
        return fy_fail(e, FY_EARG, "--part and --finish have no --report and no --json");
    if (o->report != NULL && o->dry_run)
        return fy_fail(e, FY_EARG, "--report measures what --dry-run does not do");
    if (o->report != NULL && o->json && strcmp(o->report, "-") == 0)
        return fy_fail(e, FY_EARG,
                       "--json and --report -: expected one of them on standard output");
    return 0;
}

static int choose_type(const options *o, const char *name, fy_file_type *out, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    const char *refusal = fy_file_type_refusal(name);
    if (refusal != NULL)
        return fy_fail(e, FY_EARG, "TYPE: '%s' %s", fy_quote(shown, sizeof shown, fy_span_of(name)),
                       refusal);
    if (fy_choice(TYPES, name, e) < 0 ||
        fy_file_type_of(name, o->pure ? FY_RECIPE_PURE : o->recipe, out, e) != 0)
        return fy_ctx(e, "TYPE");
    const char *llama = o->pure || o->recipe >= 0 ? "" : fy_file_type_of_llama(out);
    if (*llama != '\0' && fy_terminal(STDERR_FILENO))
        fy_log(FY_LOG_INFO, "every matrix in %s; what llama-quantize calls so is %s",
               fy_type_name(out->type), llama);
    return 0;
}

static int run(void *opt, int n_args, char **args, fy_err *e)
{
    const options *o = opt;
    char extra[FY_QUOTE_BYTES];
    if (n_args > 3) /* llama-quantize's number of threads is its fourth argument */
        return fy_fail(e, FY_EARG, "too many arguments: threads are given as -t %s",
                       fy_quote(extra, sizeof extra, fy_span_of(args[3])));
    const char *in = args[0], *out = args[1];
    fy_part_options parts;
    fy_type output_type, embedding_type;
    fy_requant_params p = {
        .output_type = fy_chosen_type(FY_ROW_TYPES, o->output_type, &output_type),
        .embedding_type = fy_chosen_type(FY_ROW_TYPES, o->embedding_type, &embedding_type),
        .tensor_types = o->tensor_types.items,
        .n_tensor_types = o->tensor_types.n,
        .imatrix = o->imatrix,
        .fit = o->fit,
        .transpose_down = o->transpose_down,
        .hot = o->hot,
        .allow_requantize = o->allow_requantize,
        .parts = &parts,
        .resume = o->resume,
    };
    if (fy_part_options_read(o->part, o->finish, &parts, e) != 0 || check_options(o, e) != 0 ||
        choose_type(o, args[2], &p.file, e) != 0 ||
        fy_split_size(o->split_max_size, &p.split_bytes, e) != 0)
        return -1;
    fy_requant *q = fy_requant_open(in, &p, e);
    if (q == NULL) {
        fy_part_options_release(&parts);
        return -1;
    }
    warn_fallbacks(q);
    warn_requantized(q);
    shown_report shown = {.in = in, .out = out, .file = o->report};
    const int rc = !o->dry_run ? write_file(q, o, &shown, e)
                   : o->json   ? print_json(q, out, -1, e)
                               : print_plan(q, out, o->n_threads, e);
    fy_requant_close(q);
    fy_part_options_release(&parts);
    return rc;
}

const fy_verb fy_verb_quantize = {
    .name = "quantize",
    .summary = "give the matrices of a GGUF file another type",
    .synopsis = "IN.gguf OUT.gguf TYPE",
    .min_args = 3,
    .max_args = 4,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description = "Writes OUT.gguf with every weight matrix of IN.gguf in TYPE: f32, f16, bf16, "
                   "q8_0, q4_0, q4_1, q5_0, q5_1, q4_K, q5_K, q6_K, q2_K, q3_K, iq4_nl or mxfp4; "
                   "or as one of llama-quantize's "
                   "mixtures q4_K_M, q4_K_S, q5_K_M, q5_K_S, q3_K_M, q3_K_S, q3_K_L, mxfp4_moe "
                   "(and q2_K and q6_K). Norms, biases "
                   "and other small tensors keep their type, all metadata is kept. The bytes equal "
                   "those of ggml's reference "
                   "quantizers, on every CPU and for any number of threads.\n\n"
                   "A matrix whose rows are not a multiple of 256 elements becomes q5_0 instead of "
                   "q4_K, q5_1 instead of q5_K, q8_0 instead of q6_K, q4_0 instead of q2_K and "
                   "q3_K; one whose rows are not a "
                   "multiple of 32 f16. A file that is quantized already can be turned into f32, "
                   "f16 or bf16; into another quantized type with --allow-requantize alone. Values "
                   "that are not finite are refused with their place.\n\n"
                   "The same input and options give the same bytes, interrupted on the way or not. "
                   "IN.gguf of a split model is its first file.\n\n"
                   "On a terminal (and with --verbose) a table shows what every layer loses: the "
                   "root of the mean squared error relative to that of the values, the same as "
                   "signal to noise in dB, and the share of values beyond the reach of their "
                   "block. It is gathered as the file is written, which takes longer for it: "
                   "--quiet leaves it out.",
    .examples = "ferry quantize model-f16.gguf model.gguf q4_0\n"
                "# as llama-quantize's Q4_K_M\n"
                "ferry quantize model-f16.gguf model.gguf Q4_K_M\n"
                "# better 4 bits in the same format\n"
                "ferry quantize model-f16.gguf model.gguf q4_0 --fit\n"
                "# some matrices in another type; what would be written\n"
                "ferry quantize model-f16.gguf model.gguf q4_0 --tensor-type 'attn_[kv]=q8_0' "
                "--dry-run\n"
                "# what that costs as one number, for a script\n"
                "ferry quantize model-f16.gguf model.gguf q4_0 -q --report - | jq .total.sqnr_db\n",
    .task = FY_TASK_MAKE,
    .arg_choices = "TYPE=" TYPES,
    .run = run,
};
