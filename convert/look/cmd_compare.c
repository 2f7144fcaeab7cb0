#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "convert/look/compare.h"

typedef struct {
    const char *pattern;
    double tolerance;
    bool all, json, quiet, verbose;
    int64_t n_threads;
} options;

static const fy_opt opts[] = {
    {.group = "Comparison",
     .name = "tolerance",
     .kind = FY_OPT_FLOAT,
     .arg = "R",
     .offset = offsetof(options, tolerance),
     .def = "0",
     .min = 0,
     .max = 1e9,
     .line_only = true,
     .help = "Largest difference allowed of any value, relative to the largest value of the tensor "
             "in A."},
    {.group = "Comparison",
     .name = "tensor",
     .kind = FY_OPT_STR,
     .arg = "REGEX",
     .offset = offsetof(options, pattern),
     .line_only = true,
     .help = "Compare only tensors in whose names this extended regular expression is found, and "
             "nothing else: '' are all tensors, without keys and vocabulary."},
    {.group = "Output",
     .name = "all",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, all),
     .line_only = true,
     .help = "List tensors that are equal, too."},
    {.group = "Output",
     .name = "json",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "Write one JSON object instead of tables."},
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int show(const options *o, const fy_comparison *c, fy_err *e)
{
    fy_str out = {0};
    int rc = 0;
    if (o->json)
        rc = fy_compare_put_json(c, o->all, &out, e);
    else
        fy_compare_put_text(c, o->all, &out);
    if (rc == 0)
        rc = out.oom ? fy_nomem(e) : fy_stdout(out.ptr, out.len, e);
    fy_str_release(&out);
    return rc;
}

static void put_part(fy_str *s, size_t n, const char *one, const char *many)
{
    if (n > 0)
        fy_str_printf(s, "%s%zu %s", s->len > 0 ? ", " : "", n, n == 1 ? one : many);
}

/* The verdict in words, for standard error. */
static int fail_verdict(const fy_comparison *c, fy_err *e)
{
    const size_t *n = c->n_of;
    fy_str s = {0};
    put_part(&s, n[FY_PAIR_BEYOND], "tensor", "tensors");
    if (n[FY_PAIR_BEYOND] > 0 && c->tolerance > 0)
        fy_str_printf(&s, " beyond the tolerance of %g", c->tolerance);
    put_part(&s, n[FY_PAIR_ONLY_A], "tensor only in A", "tensors only in A");
    put_part(&s, n[FY_PAIR_ONLY_B], "tensor only in B", "tensors only in B");
    put_part(&s, n[FY_PAIR_SHAPE], "shape", "shapes");
    put_part(&s, n[FY_PAIR_UNREAD], "tensor that cannot be read", "tensors that cannot be read");
    put_part(&s, c->n_counting_keys, "key", "keys");
    if (c->n_vocab > 0)
        fy_str_printf(&s, "%sthe vocabulary", s.len > 0 ? ", " : "");
    fy_fail(e, FY_EVERIFY, "the models differ: %s", fy_str_z(&s));
    fy_str_release(&s);
    return -1;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    fy_comparison c;
    fy_progress progress;
    (void)n_args;
    int n = o->n_threads != FY_OPT_UNSET_INT ? (int)o->n_threads : fy_default_threads();
    fy_pool *pool = fy_pool_new(n, e);
    if (pool == NULL)
        return -1;
    fy_show_begin(&progress, "comparing", 0);
    fy_compare_params p = {
        .pattern = o->pattern, .tolerance = o->tolerance, .pool = pool, .progress = &progress};
    int rc = fy_compare(args[0], args[1], &p, &c, e);
    fy_show_end(&progress);
    if (rc == 0)
        rc = show(o, &c, e);
    if (rc == 0 && !c.within)
        rc = fail_verdict(&c, e);
    fy_comparison_release(&c);
    fy_pool_free(pool);
    return rc;
}

const fy_verb fy_verb_compare = {
    .name = "compare",
    .summary = "show what two models differ in, tensor by tensor",
    .synopsis = "A B",
    .min_args = 2,
    .max_args = 2,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Compares two models of any kind: GGUF files of any type that ferry decodes, safetensors "
        "and PyTorch files, checkpoint directories, workspaces (their main model). A checkpoint "
        "that stands against a GGUF file is compared as the file that a conversion to f32 would "
        "write; nothing is written. Two checkpoints are compared under their own names when these "
        "are the same, otherwise as what they would become.\n\n"
        "Of each tensor that differs the largest difference is shown, the same relative to the "
        "largest value of A, the root of the mean squared difference, the cosine of the two, how "
        "many values differ, and the first of them with its index (row first) and both values; "
        "the worst tensor stands at the top. Two NaN are the same value; NaN against a number is "
        "an infinite difference. Tensors that one model alone has, or that have another shape, "
        "are named.\n\n"
        "Keys that differ are shown with both values. Those that say where a model comes from or "
        "how it is stored (general.* but the architecture and the sampler's defaults, quantize.*, "
        "split.*, integers of the same value in another width) do not count. Vocabularies are "
        "compared entry by entry.\n\n"
        "The exit status is 0 when all that counts is equal, or within --tolerance, and 4 "
        "otherwise.",
    .examples = "# is the quantized file still the model?\n"
                "ferry compare checkpoint model-q8_0.gguf --tolerance 0.01\n"
                "# the worst tensor of two files, for a script\n"
                "ferry compare model-f16.gguf model-q8_0.gguf --json | jq -r '.tensors[0].name'\n"
                "# one tensor, and neither keys nor vocabulary\n"
                "ferry compare model-f16.gguf model-f32.gguf --tensor '^output_norm.weight$'\n",
    .task = FY_TASK_MAKE,
    .run = run,
};
