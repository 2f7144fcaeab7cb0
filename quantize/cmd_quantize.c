/* ferry quantize: its options, and what to do with them. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/thread.h"
#include "cli/verb.h"
#include "format/gguf.h"
#include "kernels/row.h"
#include "quantize/quant_show.h"
#include "quantize/requantize.h"
#include "quantize/requantize_show.h"

typedef struct {
    fy_opt_list tensor_types;
    const char *imatrix, *split_max_size;
    int64_t n_threads;
    const char *report;
    int recipe, output_type, embedding_type;
    bool pure, fit, allow_requantize, resume, dry_run, json, quiet, verbose;
} options;

enum { RECIPE_PURE, RECIPE_LLAMA };

#define FIELD(name) offsetof(options, name)
static const fy_opt opts[] = {
    {.group = "Types",
     .name = "recipe",
     .kind = FY_OPT_CHOICE,
     .arg = "pure|llama",
     .offset = FIELD(recipe),
     .def = "pure",
     .help = "pure: every matrix takes the type. llama: llama-quantize's choice, which keeps some "
             "matrices in better types (docs/quantization.md); of q4_K and q5_K its mixtures "
             "Q4_K_M and Q5_K_M."},
    {.group = "Types",
     .name = "pure",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(pure),
     .line_only = true,
     .help = "Every matrix takes the type, as the recipe pure says."},
    {.group = "Types",
     .name = "output-tensor-type",
     .kind = FY_OPT_CHOICE,
     .arg = FY_ROW_TYPES,
     .offset = FIELD(output_type),
     .line_only = true,
     .help = "Type of output.weight, before --tensor-type and the recipe; in llama's recipe that "
             "of the embedding where there is no output.weight."},
    {.group = "Types",
     .name = "token-embedding-type",
     .kind = FY_OPT_CHOICE,
     .arg = FY_ROW_TYPES,
     .offset = FIELD(embedding_type),
     .line_only = true,
     .help = "Type of token_embd.weight, before --tensor-type and the recipe."},
    {.group = "Types",
     .name = "tensor-type",
     .kind = FY_OPT_STR,
     .arg = "REGEX=TYPE",
     .offset = FIELD(tensor_types),
     .many = true,
     .line_only = true,
     .help = "Another type for matrices in whose name the extended regular expression is found. "
             "May be repeated; the first that matches counts."},
    {.group = "Quality",
     .name = "imatrix",
     .kind = FY_OPT_STR,
     .arg = "FILE.gguf",
     .offset = FIELD(imatrix),
     .line_only = true,
     .help = "Weigh errors by this importance matrix (ferry eval --imatrix-out, or llama.cpp's in "
             "GGUF), as llama-quantize does."},
    {.group = "Quality",
     .name = "fit",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(fit),
     .line_only = true,
     .help = "Search the scale of every block for the least error (with --imatrix, the least "
             "weighted one): q8_0, q4_0, q4_1, q5_0, q5_1. The file stays a standard one; its "
             "bytes are no longer those of ggml."},
    {.group = "Quality",
     .name = "allow-requantize",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(allow_requantize),
     .line_only = true,
     .help = "Quantize what is quantized already, through f32: the errors add up."},
    {.group = "Output",
     .name = "split-max-size",
     .kind = FY_OPT_STR,
     .arg = "N(M|G)",
     .offset = FIELD(split_max_size),
     .line_only = true,
     .help = "Split the model over files OUT-00001-of-0000N.gguf, each with at most so many bytes "
             "of tensors (M: million, G: a thousand million; a larger tensor has a file alone)."},
    {.group = "Output",
     .name = "resume",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(resume),
     .def = "yes",
     .line_only = true,
     .help = "Go on with what an interrupted quantization has left, if the input, the options and "
             "the program are the same; =no begins again, and leaves nothing when it is "
             "interrupted."},
    {.group = "Output",
     .name = "dry-run",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(dry_run),
     .line_only = true,
     .help = "Print the plan, tensor by tensor, and write nothing. Exit status 6: there is too "
             "little space."},
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = FIELD(json),
     .line_only = true,
     .help = "Print the plan (and, behind the work, time and memory) as JSON."},
    {.group = "Output",
     .name = "report",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = FIELD(report),
     .line_only = true,
     .help = "Measure what each tensor loses and write it to FILE as JSON "
             "(docs/quantization.md); -: to standard output."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static void report(fy_requant *q, fy_type type, const char *out, double seconds)
{
    fy_requant_stats s;
    fy_requant_stats_of(q, &s);
    fy_log(FY_LOG_INFO,
           "%s: %.1f MB from %.1f MB, %" PRIu64 " of %" PRIu64
           " tensors %s, %.1f s, %.0f MB/s, peak RssAnon %.1f MB",
           out, (double)s.bytes_out / 1e6, (double)s.bytes_in / 1e6, s.n_matrices, s.n_tensors,
           fy_type_name(type), seconds,
           (double)s.bytes_in / 1e6 / (seconds > 1e-3 ? seconds : 1e-3),
           (double)fy_requant_peak(q) / 1e6);
}

/* The work, with what is shown of it. */
static int work(fy_requant *q, const options *o, const fy_quant_wish *wish, fy_pool *pool,
                fy_err *e)
{
    fy_requant_stats stats;
    fy_quant_show show = {0};
    fy_requant_stats_of(q, &stats);
    if (fy_quant_show_begin(&show, q, wish, e) != 0)
        return -1;
    double begin = fy_now_s();
    fy_progress progress;
    fy_show_begin(&progress, "quantizing", stats.bytes_out);
    int rc = fy_requant_write(q, wish->out, pool, &progress, e);
    fy_show_end(&progress);
    const double seconds = fy_now_s() - begin;
    if (rc == 0)
        report(q, wish->type, wish->out, seconds);
    rc = fy_quant_show_end(&show, rc, e);
    return rc == 0 && o->json ? fy_requant_print_json(q, wish->out, seconds, fy_requant_peak(q), e)
                              : rc;
}

static int write_file(fy_requant *q, const options *o, const fy_quant_wish *wish, fy_err *e)
{
    fy_pool *pool =
        fy_pool_new(o->n_threads == FY_OPT_UNSET_INT ? fy_default_threads() : (int)o->n_threads, e);
    if (pool == NULL)
        return -1;
    const int rc = work(q, o, wish, pool, e);
    fy_pool_free(pool);
    return rc;
}

/* What cannot go together. */
static int check_options(const options *o, fy_err *e)
{
    if (o->pure && o->recipe == RECIPE_LLAMA)
        return fy_fail(e, FY_EARG, "--pure and --recipe llama: expected one of them");
    if (o->report != NULL && o->dry_run)
        return fy_fail(e, FY_EARG, "--report measures what --dry-run does not do");
    if (o->report != NULL && o->json && strcmp(o->report, "-") == 0)
        return fy_fail(e, FY_EARG,
                       "--json and --report -: expected one of them on standard output");
    return 0;
}

static int run(void *opt, int n_args, char **args, fy_err *e)
{
    (void)n_args;
    const options *o = opt;
    const char *in = args[0], *out = args[1];
    fy_type output_type, embedding_type;
    fy_requant_params p = {
        .llama = o->recipe == RECIPE_LLAMA,
        .output_type = fy_chosen_type(FY_ROW_TYPES, o->output_type, &output_type),
        .embedding_type = fy_chosen_type(FY_ROW_TYPES, o->embedding_type, &embedding_type),
        .tensor_types = o->tensor_types.items,
        .n_tensor_types = o->tensor_types.n,
        .imatrix = o->imatrix,
        .fit = o->fit,
        .allow_requantize = o->allow_requantize,
        .resume = o->resume,
    };
    if (fy_choice(FY_ROW_TYPES, args[2], e) < 0)
        return fy_ctx(e, "TYPE");
    fy_type_parse(args[2], &p.target);
    if (check_options(o, e) != 0 || fy_split_size(o->split_max_size, &p.split_bytes, e) != 0)
        return -1;
    fy_requant *q = fy_requant_open(in, &p, e);
    if (q == NULL)
        return -1;
    fy_requant_warn(q);
    const fy_quant_wish wish = {.in = in,
                                .out = out,
                                .type = p.target,
                                .file = o->report,
                                .quiet = o->quiet,
                                .verbose = o->verbose};
    const int rc = !o->dry_run ? write_file(q, o, &wish, e)
                   : o->json   ? fy_requant_print_json(q, out, -1, 0, e)
                               : fy_requant_print_plan(q, out, e);
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
                "ferry quantize model-f16.gguf model.gguf q4_K --recipe llama\n"
                "# better 4 bits in the same format\n"
                "ferry quantize model-f16.gguf model.gguf q4_0 --fit\n"
                "# some matrices in another type; what would be written\n"
                "ferry quantize model-f16.gguf model.gguf q4_0 --tensor-type 'attn_[kv]=q8_0' "
                "--dry-run\n"
                "# what that costs as one number, for a script\n"
                "ferry quantize model-f16.gguf model.gguf q4_0 -q --report - | jq .total.sqnr_db\n",
    .task = FY_TASK_MAKE,
    .arg_choices = "TYPE=" FY_ROW_TYPES,
    .run = run,
};
