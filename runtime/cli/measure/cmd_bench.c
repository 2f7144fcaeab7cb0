/* `ferry bench`: options in, one row per test out, or one row per interval of a sustained run. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "base/process.h"
#include "bundle/bundle.h"
#include "cli/engine.h"
#include "cli/machine.h"
#include "cli/measure/bench.h"
#include "cli/measure/selftest.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "model/speculate.h"

enum {
    DEFAULT_PROMPT = 512,
    DEFAULT_GEN = 128,
    DEFAULT_BATCH = 512,
    READ_MEGABYTES = 256, /* beyond the caches of a server's cores */
};

typedef struct {
    const char *model, *hub, *device, *serial, *sustained;
    fy_opt_list prompt, gen, pairs, depth, draft, accept, batch, threads, type_k, type_v;
    int64_t repetitions, cache_size;
    int format, mmap;
    const char *sparse;
    fy_machine_options machine;
    bool fetch, no_warmup, quiet, verbose;
} options;

#define ROW_LIST(group_, name_, alias_, field, arg_, help_)                               \
    {                                                                                     \
        .group = group_, .name = name_, .alias = alias_, .kind = FY_OPT_STR, .arg = arg_, \
        .offset = offsetof(options, field), .help = help_, .many = true                   \
    }

static const fy_opt opts[] = {
    {.group = "Model",
     .name = "model",
     .alias = "m",
     .kind = FY_OPT_STR,
     .arg = "FILE.gguf|DIR",
     .offset = offsetof(options, model),
     .help = "GGUF file to measure, the directory of a cut model, or a workspace, whose main "
             "model is measured, or ORG/NAME[:TYPE] of the hub. The first argument means the same.",
     .set = "model",
     .file = FY_FILE_WORKSPACE},
    FY_ROWS_HUB_OF(hub, fetch)
        ROW_LIST("Tests", "n-prompt", "p", prompt, "LIST",
                 "Tokens of a prompt to compute; default 512, 0: no such test."),
    ROW_LIST("Tests", "n-gen", "n", gen, "LIST",
             "Tokens to decode one by one; default 128, 0: no such test."),
    ROW_LIST("Tests", "pg", "pg", pairs, "PROMPT,GEN", "Both, one after the other, as one test."),
    ROW_LIST("Tests", "n-depth", "d", depth, "LIST",
             "Positions filled before a test begins; default 0."),
    ROW_LIST("Tests", "draft-max", NULL, draft, "LIST",
             "Guesses computed in the same step as a token to decode, as by a draft model that "
             "takes no time; default 0."),
    ROW_LIST("Tests", "draft-accept", NULL, accept, "LIST",
             "How many of 100 guesses are right, each for itself; default 70."),
    {.group = "Tests",
     .name = "repetitions",
     .alias = "r",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, repetitions),
     .def = "5",
     .min = 1,
     .max = 10000,
     .help = "How often each test runs."},
    FY_ANY_FLAG("Tests", "no-warmup", no_warmup, "Measure the first run too."),
    FY_LINE_STR(
        "Tests", "sustained", "TIME", sustained,
        "Instead: decode -n tokens again and again for TIME (90s, 10m, 1h), and show the rate, "
        "the processor's clock and its temperature at 20 intervals."),
    ROW_LIST("Machine", "threads", "t", threads, "LIST",
             "Threads; default: one for each fast CPU, at most 16."),
    ROW_LIST("Machine", "batch-size", "b", batch, "LIST",
             "Prompt tokens computed at once; default 512."),
    ROW_LIST("Machine", "cache-type-k", "ctk", type_k, "LIST",
             "Type of the keys in the cache: f16 (default), f32, q8_0, q4_0."),
    ROW_LIST("Machine", "cache-type-v", "ctv", type_v, "LIST",
             "Type of the values in the cache: f16 (default), f32, q8_0, q4_0."),
    FY_ROW_SPARSE_OF(sparse),
    FY_ROW_BACKEND_OF(machine),
    FY_ROW_QNN_LIB_OF(machine),
    FY_ROW_POWER_OF(machine),
    FY_ROW_CPU_MASK_OF(machine),
    FY_ROW_CPU_RANGE_OF(machine),
    {.group = "Machine",
     .name = "mmap",
     .alias = "mmp",
     .kind = FY_OPT_CHOICE,
     .arg = "0|1", /* the index is the value */
     .offset = offsetof(options, mmap),
     .def = "1",
     .help = "1: map the file; 0: read it into memory of its own, in huge pages if available."},
    FY_ROW_MLOCK_OF(machine),
    FY_ROW_MLOCK_HOT_OF(machine),
    FY_ROW_MEMORY_OF(machine),
    FY_ROW_GPU_HOT_OF(machine),
    {.group = "Output",
     .name = "output",
     .alias = "o",
     .kind = FY_OPT_CHOICE,
     .arg = "md|csv|json|jsonl", /* in the order of fy_bench_format */
     .offset = offsetof(options, format),
     .def = "md",
     .line_only = true,
     .help = "Output format: a Markdown table, or one for programs."},
    FY_ROWS_DEVICE FY_ROW_VERBOSE,
    FY_ROW_QUIET,
};

typedef struct {
    const options *o;
    fy_bench_lists lists;
    fy_bench_test *tests; /* owned, [n_tests] */
    size_t n_tests;
    double sustained_s; /* 0: not asked for */
    fy_model *model;    /* owned */
    fy_bench_model described;
    fy_str cpu;
    double read_rate[FY_THREADS_MAX + 1]; /* bytes/s with so many threads; 0: not measured yet */
    uint64_t *ns;                         /* owned, [repetitions] */
    double *ts;                           /* the same */
    fy_chain_time *chunks;                /* owned, [fy_model_n_chunks] */
    fy_bench_out out;
    fy_str text;  /* not yet printed */
    fy_str after; /* for standard error, when the table is whole */
    /* of a sustained run */
    fy_bench_about about;
    double first_ts, last_ts;
} job;

/* --- the options ------------------------------------------------------------------------------ */

static int read_lists(const options *o, fy_bench_lists *l, fy_err *e)
{
    const struct {
        fy_bench_range range;
        const fy_opt_list *given;
        fy_bench_list *out;
    } numbers[] = {
        {{"n-prompt", DEFAULT_PROMPT, 0, INT32_MAX}, &o->prompt, &l->prompt},
        {{"n-gen", DEFAULT_GEN, 0, INT32_MAX}, &o->gen, &l->gen},
        {{"n-depth", 0, 0, INT32_MAX}, &o->depth, &l->depth},
        {{"draft-max", 0, 0, FY_PROPOSAL_MAX}, &o->draft, &l->draft},
        {{"draft-accept", 70, 0, 100}, &o->accept, &l->accept},
        {{"batch-size", DEFAULT_BATCH, 1, 1 << 20}, &o->batch, &l->batch},
        {{"threads", (uint32_t)fy_default_threads(), 1, FY_THREADS_MAX}, &o->threads, &l->threads},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (fy_bench_numbers(&numbers[i].range, numbers[i].given, numbers[i].out, e) != 0)
            return -1;
    }
    const fy_bench_range pair = {"pg", 0, 0, INT32_MAX};
    return fy_bench_pairs(&pair, &o->pairs, &l->pairs, e) != 0 ||
                   fy_bench_types("cache-type-k", FY_F16, &o->type_k, &l->type_k, e) != 0 ||
                   fy_bench_types("cache-type-v", FY_F16, &o->type_v, &l->type_v, e) != 0
               ? -1
               : 0;
}

/* A sustained run is one test, of decoding. */
static int read_sustained(job *j, fy_err *e)
{
    if (fy_bench_seconds("sustained", j->o->sustained, &j->sustained_s, e) != 0)
        return -1;
    if (j->o->prompt.n > 0 || j->o->pairs.n > 0 || j->o->draft.n > 0)
        return fy_fail(e, FY_EARG,
                       "--sustained decodes only: leave out -p and -pg, and --draft-max");
    fy_bench_list_release(&j->lists.prompt);
    return 0;
}

static int plan(job *j, fy_err *e)
{
    if (j->o->model == NULL)
        return fy_fail(e, FY_EARG, "no model: give a GGUF file or a workspace (-m)");
    if (read_lists(j->o, &j->lists, e) != 0 ||
        (j->o->sustained != NULL && read_sustained(j, e) != 0) ||
        fy_bench_combine(&j->lists, &j->tests, &j->n_tests, e) != 0)
        return -1;
    for (size_t i = 0; i < j->n_tests; i++) {
        fy_bench_test *t = &j->tests[i];
        if (fy_sparse_parse(j->o->sparse, &t->sparse, &t->sparse_threshold, e) != 0)
            return -1;
    }
    if (j->o->sustained != NULL && j->n_tests > 1)
        return fy_fail(e, FY_EARG,
                       "--sustained is one test, but the lists make %zu: give one value each",
                       j->n_tests);
    j->ns = calloc((size_t)j->o->repetitions, sizeof *j->ns);
    j->ts = calloc((size_t)j->o->repetitions, sizeof *j->ts);
    return j->ns != NULL && j->ts != NULL ? 0 : fy_nomem(e);
}

static int open_model(job *j, fy_err *e)
{
    const fy_machine_options machine = {.backend = j->o->machine.backend,
                                        .qnn_lib = j->o->machine.qnn_lib,
                                        .power = j->o->machine.power,
                                        .no_mmap = j->o->mmap == 0,
                                        .mlock = j->o->machine.mlock,
                                        .mlock_hot = j->o->machine.mlock_hot,
                                        .memory = j->o->machine.memory,
                                        .gpu_hot = j->o->machine.gpu_hot};
    j->model = fy_machine_open_any(&machine, j->o->model, e);
    if (j->model == NULL || fy_bench_check(j->model, j->tests, j->n_tests, e) != 0)
        return -1;
    if (fy_bench_model_of(j->model, &j->described, e) != 0)
        return -1;
    j->chunks = calloc(fy_model_n_chunks(j->model) + 1, sizeof *j->chunks);
    if (j->chunks == NULL)
        return fy_nomem(e);
    fy_self_cpu_text(&j->cpu);
    return j->cpu.oom ? fy_nomem(e) : 0;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void now_text(char out[32])
{
    struct tm tm;
    time_t t = time(NULL);
    gmtime_r(&t, &tm);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static fy_bench_about about_of(const job *j, const fy_bench_test *t, const char *when)
{
    const char *gpu = fy_model_gpu(j->model);
    return (fy_bench_about){.build_commit = FERRY_VERSION,
                            .cpu_info = fy_str_z(&j->cpu),
                            .gpu_info = gpu != NULL ? gpu : "",
                            .backends = fy_model_n_chunks(j->model) > 0 || gpu != NULL
                                            ? fy_model_backend(j->model)
                                            : "CPU",
                            .model_filename = j->o->model,
                            .model_type = j->described.type,
                            .model_size = j->described.bytes,
                            .model_n_params = j->described.n_params,
                            .n_batch = t->n_batch,
                            .n_ubatch = t->n_batch,
                            .n_threads = t->n_threads,
                            .type_k = fy_type_name(t->type_k),
                            .type_v = fy_type_name(t->type_v),
                            .use_mmap = j->o->mmap != 0,
                            .n_prompt = t->n_prompt,
                            .n_gen = t->n_gen,
                            .n_depth = t->n_depth,
                            .n_draft = t->n_draft,
                            .draft_accept = t->n_draft > 0 ? t->draft_accept : 0,
                            .test_time = when};
}

static bool only_decodes(const fy_bench_test *t)
{
    return t->n_prompt == 0 && t->n_draft == 0;
}

/* With these threads, once in a run. */
static int read_rate(job *j, uint32_t n_threads, double *rate, fy_err *e)
{
    double *known = &j->read_rate[n_threads];
    if (*known <= 0) {
        if (fy_read_speed((int)n_threads, READ_MEGABYTES, 0.5, known, e) != 0)
            return -1;
        fy_log(FY_LOG_INFO, "memory is read at %.1f GB/s by %u thread%s", *known * 1e-9, n_threads,
               n_threads == 1 ? "" : "s");
    }
    *rate = *known;
    return 0;
}

/* Before the table begins, which messages would cut in two. */
static int read_rates(job *j, fy_err *e)
{
    double rate;
    for (size_t i = 0; i < j->n_tests; i++) {
        if (only_decodes(&j->tests[i]) && read_rate(j, j->tests[i].n_threads, &rate, e) != 0)
            return -1;
    }
    return 0;
}

/* What the steps of a test with guesses take, and so what guesses of this quality can bring. */
static int find_bound(const job *j, const fy_bench_test *t, fy_bench_result *r, fy_err *e)
{
    double step_s;
    if (fy_bench_step(j->model, t, (uint32_t)j->o->repetitions, &step_s, e) != 0)
        return -1;
    r->draft_step_ns = step_s * 1e9;
    r->draft_bound_ts = step_s > 0 ? fy_bench_step_tokens(t) / step_s : NAN;
    return 0;
}

static int run_test(job *j, size_t i, fy_err *e)
{
    const fy_bench_test *t = &j->tests[i];
    const size_t n = (size_t)j->o->repetitions;
    char name[FY_BENCH_NAME_BYTES], when[32];
    fy_bench_result r = {.bandwidth_share = NAN,
                         .draft_step_ns = NAN,
                         .draft_bound_ts = NAN,
                         .samples_ns = j->ns,
                         .samples_ts = j->ts,
                         .n_samples = n,
                         .cut = fy_model_n_chunks(j->model) > 0 ? j->model : NULL,
                         .chunks = j->chunks};
    double rate = 0;
    if (only_decodes(t) &&
        (fy_bench_bytes_per_token(j->model, &j->described, t, &r.bytes_per_token, e) != 0 ||
         read_rate(j, t->n_threads, &rate, e) != 0))
        return -1;
    fy_log(FY_LOG_DEBUG, "test %zu of %zu: %s", i + 1, j->n_tests, fy_bench_name(t, name));
    now_text(when);
    if (fy_bench_measure(j->model, t, (uint32_t)n, !j->o->no_warmup, j->ns, j->chunks, e) != 0)
        return fy_ctx(e, "%s", fy_bench_name(t, name));
    if (t->n_draft > 0 && find_bound(j, t, &r, e) != 0)
        return fy_ctx(e, "%s", fy_bench_name(t, name));
    const fy_bench_stats s = fy_bench_stats_of(j->ns, n, (uint64_t)t->n_prompt + t->n_gen, j->ts);
    r.avg_ns = (uint64_t)llround(s.avg_ns);
    r.stddev_ns = (uint64_t)llround(s.stddev_ns);
    r.avg_ts = s.avg_ts;
    r.stddev_ts = s.stddev_ts;
    if (rate > 0 && j->described.n_params > 0) /* an NPU reads memory at its own rate */
        r.bandwidth_share = (double)r.bytes_per_token * s.avg_ts / rate;
    const fy_bench_about about = about_of(j, t, when);
    fy_bench_out_test(&j->out, &about, &r, &j->text);
    if (fy_stdout_text(&j->text, e) != 0)
        return -1;
    if (r.cut != NULL && j->out.format == FY_BENCH_MD) {
        fy_str_printf(&j->after, "%s: ", fy_bench_name(t, name));
        fy_bench_chunks_text(&r, &j->after);
        fy_str_putc(&j->after, '\n');
    }
    return 0;
}

static bool is_only(const fy_bench_list *l, uint32_t v)
{
    return l->n == 1 && l->v[0] == v;
}

/* Markdown has columns for what differs from the default or from row to row. */
static void choose_columns(job *j)
{
    j->out = (fy_bench_out){.format = (fy_bench_format)j->o->format,
                            .show_batch = !is_only(&j->lists.batch, DEFAULT_BATCH),
                            .show_type_k = !is_only(&j->lists.type_k, FY_F16),
                            .show_type_v = !is_only(&j->lists.type_v, FY_F16)};
    for (size_t i = 0; i < j->n_tests; i++) {
        j->out.show_bytes |= only_decodes(&j->tests[i]);
        j->out.show_guesses |= j->tests[i].n_draft > 0;
    }
}

/* Also after a failure the rows that are there form a whole. */
static int run_tests(job *j, fy_err *e)
{
    int rc = read_rates(j, e);
    if (rc != 0)
        return -1;
    fy_bench_out_begin(&j->out, &j->text);
    rc = fy_stdout_text(&j->text, e);
    for (size_t i = 0; i < j->n_tests && rc == 0; i++)
        rc = run_test(j, i, e);
    fy_bench_out_end(&j->out, &j->text);
    if (fy_stdout_text(&j->text, e) != 0)
        return -1;
    fy_log_lines(FY_LOG_INFO, fy_str_z(&j->after));
    return j->after.oom ? fy_nomem(e) : rc;
}

/* --- sustained -------------------------------------------------------------------------------- */

static double or_none(double v)
{
    return v > 0 ? v : (double)NAN;
}

static int show_interval(void *user, const fy_bench_interval *i, fy_err *e)
{
    job *j = user;
    const fy_bench_moment m = {.begin_s = i->begin_s,
                               .end_s = i->end_s,
                               .n_tokens = i->n_tokens,
                               .avg_ts = i->avg_ts,
                               .clock_mhz = or_none(fy_bench_clock_mhz("")),
                               .temperature_c = or_none(fy_bench_temperature_c(""))};
    j->last_ts = i->avg_ts;
    if (j->out.n_rows == 0)
        j->first_ts = i->avg_ts;
    fy_bench_out_moment(&j->out, &j->about, &m, &j->text);
    return fy_stdout_text(&j->text, e);
}

static int run_sustained(job *j, fy_err *e)
{
    char when[32];
    now_text(when);
    j->about = about_of(j, &j->tests[0], when);
    fy_bench_out_begin_sustained(&j->out, &j->about, &j->text);
    int rc = fy_stdout_text(&j->text, e);
    if (rc == 0)
        rc = fy_bench_sustain(j->model, &j->tests[0], j->sustained_s, !j->o->no_warmup,
                              show_interval, j, e);
    fy_bench_out_end_sustained(&j->out, j->first_ts, j->last_ts, &j->text);
    return fy_stdout_text(&j->text, e) != 0 ? -1 : rc;
}

/* --- the verb --------------------------------------------------------------------------------- */

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    (void)n_args;
    (void)args;
    job j = {.o = opaque};
    int rc = fy_machine_pin(&j.o->machine, e) != 0 || plan(&j, e) != 0 || open_model(&j, e) != 0
                 ? -1
                 : 0;
    if (rc == 0) {
        choose_columns(&j);
        rc = j.o->sustained != NULL ? run_sustained(&j, e) : run_tests(&j, e);
    }
    fy_str_release(&j.text);
    fy_str_release(&j.cpu);
    free(j.chunks);
    free(j.ts);
    fy_str_release(&j.after);
    free(j.ns);
    free(j.tests);
    fy_bench_lists_release(&j.lists);
    fy_model_close(j.model);
    return rc;
}

static const fy_model_slots slots = {.model = offsetof(options, model),
                                     .hub = offsetof(options, hub),
                                     .fetch = offsetof(options, fetch),
                                     .first_arg = true};

const fy_verb fy_verb_bench = {
    .name = "bench",
    .summary = "measure how fast a model computes prompts and answers",
    .synopsis = "[MODEL.gguf|DIR|ORG/NAME]",
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Computes prompts (pp512) and decodes tokens (tg128), each test -r times after a run that "
        "is not counted, and shows the mean rate with its standard deviation. Options that take a "
        "LIST accept numbers and ranges between commas (1,2,4; 1-4; 1-9+2 for 1,3,5,7,9; 1-8*2 for "
        "1,2,4,8) and may be repeated; every combination is measured.\n\n"
        "Options, columns and names of tests are those of llama-bench, so that programs that read "
        "its output can read this. build_commit is the version of ferry, n_ubatch equals n_batch, "
        "and model_type names the architecture, the parameters and the commonest type of the "
        "weights.\n\n"
        "Decoding is bound by memory, so tests that only decode have two more columns: "
        "bytes_per_token, the bytes that one token reads (every weight once, only the experts that "
        "are used, and the rows of the KV cache at the mean depth), and bandwidth_share, the share "
        "of the memory bandwidth of as many threads that this takes, measured in the same run. It "
        "exceeds 1 for a model that fits the caches.\n\n"
        "--draft-max computes guesses in the steps, of which --draft-accept percent are right, "
        "each "
        "for itself. Three more columns: what a step of the token and all guesses takes "
        "(draft_step_ns), measured beside it; draft_bound_ts, the tokens that such a step makes on "
        "average, (1 - a^(k+1)) / (1 - a) for k guesses that are right with probability a, divided "
        "by that; and the share of this bound that was reached.\n\n"
        "Of a cut model, each test also shows what a repetition spent in the graphs of each chunk, "
        "and outside of them: on an NPU, what the processor costs.\n\n"
        "--sustained decodes for a long time and shows how a machine slows down when it gets hot: "
        "the last line is the rate of the first interval divided by that of the last. The clock is "
        "the fastest core's, the temperature that of the hottest zone of the processor; - or null "
        "if the system does not show them.",
    .examples = "ferry bench -m model.gguf\n"
                "# for a program: 1 and 2 threads, after a context of 256 tokens\n"
                "ferry bench -m model.gguf -p 64 -n 16 -t 1,2 -d 256 -r 3 -o json\n"
                "# does the machine slow down when it gets hot?\n"
                "ferry bench -m model.gguf --sustained 2s\n",
    .task = FY_TASK_USE,
    .on_phone = true,
    .model = &slots,
    .run = run,
};
