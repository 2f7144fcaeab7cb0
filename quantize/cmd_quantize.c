#include <inttypes.h>
#include <stddef.h>

#include "base/quote.h"
#include "base/thread.h"
#include "cli/verb.h"
#include "kernels/row.h"
#include "quantize/quant_show.h"
#include "quantize/requantize.h"

typedef struct {
    int64_t n_threads;
    int recipe;
    const char *report;
    bool quiet, verbose;
} options;

enum { RECIPE_PURE, RECIPE_LLAMA };

static const fy_opt opts[] = {
    {.group = "Output",
     .name = "recipe",
     .kind = FY_OPT_CHOICE,
     .arg = "pure|llama",
     .offset = offsetof(options, recipe),
     .def = "pure",
     .help = "pure: every matrix takes the type. llama: llama-quantize's choice, which keeps some "
             "matrices in better types (docs/quantization.md)."},
    {.group = "Output",
     .name = "report",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, report),
     .line_only = true,
     .help = "Measure what each tensor loses and write it to FILE as JSON "
             "(docs/quantization.md); -: to standard output."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static void report(const fy_requant_stats *s, fy_type type, const char *out, double seconds)
{
    fy_log(FY_LOG_INFO,
           "%s: %.1f MB from %.1f MB, %" PRIu64 " of %" PRIu64 " tensors %s, %.1f s, %.0f MB/s",
           out, (double)s->bytes_out / 1e6, (double)s->bytes_in / 1e6, s->n_matrices, s->n_tensors,
           fy_type_name(type), seconds,
           (double)s->bytes_in / 1e6 / (seconds > 1e-3 ? seconds : 1e-3));
}

static void warn_fallbacks(const fy_requant_stats *s)
{
    char shown[FY_QUOTE_BYTES];
    if (s->n_fallbacks > 0)
        fy_log(FY_LOG_WARN,
               "%" PRIu64
               " matrices get another type: their rows are no whole blocks of its own (first: "
               "'%s', rows of %" PRIu64 ", becomes %s)",
               s->n_fallbacks, fy_quote(shown, sizeof shown, s->first_fallback),
               s->first_fallback_row, fy_type_name(s->first_fallback_type));
}

static int run(void *opt, int n_args, char **args, fy_err *e)
{
    (void)n_args;
    const options *o = opt;
    const char *in = args[0], *out = args[1];
    fy_type type;
    if (fy_choice(FY_ROW_TYPES, args[2], e) < 0)
        return fy_ctx(e, "TYPE");
    fy_type_parse(args[2], &type);
    fy_requant *q = fy_requant_open(in, type, o->recipe == RECIPE_LLAMA, e);
    if (q == NULL)
        return -1;
    fy_requant_stats stats;
    fy_requant_stats_of(q, &stats);
    warn_fallbacks(&stats);
    const fy_quant_wish wish = {.in = in,
                                .out = out,
                                .type = type,
                                .file = o->report,
                                .quiet = o->quiet,
                                .verbose = o->verbose};
    fy_quant_show show = {0};
    int rc = -1;
    fy_pool *pool =
        fy_pool_new(o->n_threads == FY_OPT_UNSET_INT ? fy_default_threads() : (int)o->n_threads, e);
    if (pool != NULL && fy_quant_show_begin(&show, q, &wish, e) == 0) {
        double begin = fy_now_s();
        fy_progress progress;
        fy_show_begin(&progress, "quantizing", stats.bytes_out);
        rc = fy_requant_write(q, out, pool, &progress, e);
        fy_show_end(&progress);
        if (rc == 0)
            report(&stats, type, out, fy_now_s() - begin);
        rc = fy_quant_show_end(&show, rc, e);
    }
    fy_pool_free(pool);
    fy_requant_close(q);
    return rc;
}

const fy_verb fy_verb_quantize = {
    .name = "quantize",
    .summary = "give the matrices of a GGUF file another type",
    .synopsis = "IN.gguf OUT.gguf TYPE",
    .min_args = 3,
    .max_args = 3,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description = "Writes OUT.gguf with every weight matrix of IN.gguf in TYPE: f32, f16, bf16, "
                   "q8_0, q4_0, q4_1, q5_0, q5_1, q4_K, q5_K or q6_K. Norms, biases "
                   "and other small tensors keep their type, all metadata is kept. The bytes equal "
                   "those of ggml's reference "
                   "quantizers, on every CPU and for any number of threads.\n\n"
                   "A matrix whose rows are no multiple of 256 elements becomes q5_0 instead of "
                   "q4_K, q5_1 instead of q5_K, q8_0 instead of q6_K; one whose rows are no "
                   "multiple of 32 f16. A file that is quantized already can be turned into f32, "
                   "f16 or bf16, but not into another quantized type. Values that "
                   "are not finite are refused with their place.\n\n"
                   "On a terminal (and with --verbose) a table shows what every layer loses: the "
                   "root of the mean squared error relative to that of the values, the same as "
                   "signal to noise in dB, and the share of values beyond the reach of their "
                   "block. It is gathered as the file is written, which takes longer for it: "
                   "--quiet leaves it out.",
    .examples = "ferry quantize model-f16.gguf model.gguf q4_0\n"
                "# as llama-quantize: the output matrix in q6_K\n"
                "ferry quantize model-f16.gguf model.gguf q4_0 --recipe llama\n"
                "# what that costs as one number, for a script\n"
                "ferry quantize model-f16.gguf model.gguf q4_0 -q --report - | jq .total.sqnr_db\n",
    .task = FY_TASK_MAKE,
    .arg_choices = "TYPE=" FY_ROW_TYPES,
    .run = run,
};
