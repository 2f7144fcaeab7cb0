#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/file.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "bundle/bundle.h"
#include "cli/verb.h"
#include "model/model.h"
#include "model/sample.h"

typedef struct {
    const char *model, *dir, *prompt, *prompt_ids, *logits_out;
    int64_t n, n_ctx, n_threads, n_batch;
    double temp, top_p, min_p;
    int64_t top_k, seed;
    bool ignore_eos, print_ids, verbose, quiet;
    int type_k, type_v;
} options;

#define SAMPLING "Sampling (greedy unless one of these is given)"

static const fy_opt opts[] = {
    {.group = "Model",
     .name = "model",
     .alias = "m",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, model),
     .help = "GGUF file to run."},
    {.group = "Model",
     .name = "work-folder",
     .alias = "d",
     .kind = FY_OPT_STR,
     .arg = "DIR",
     .offset = offsetof(options, dir),
     .help = "Workspace to run: its main model, with the defaults of its hparams.json."},
    {.group = "Prompt",
     .name = "prompt",
     .alias = "p",
     .kind = FY_OPT_STR,
     .arg = "TEXT",
     .offset = offsetof(options, prompt),
     .help = "Text to continue. Special tokens may be written in it; the model's own ones (BOS) "
             "are added."},
    {.group = "Prompt",
     .name = "prompt-ids",
     .kind = FY_OPT_STR,
     .arg = "IDS",
     .offset = offsetof(options, prompt_ids),
     .help = "Token ids to continue, separated by commas, exactly as given; instead of a text."},
    {.group = "Generation",
     .name = "n-predict",
     .alias = "n",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n),
     .def = "128",
     .max = 1 << 30,
     .help = "Most tokens to generate."},
    {.group = "Generation",
     .name = "ignore-eos",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, ignore_eos),
     .help = "Never choose a token that ends the text."},
    {.group = "Generation",
     .name = "print-ids",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, print_ids),
     .help = "Print the ids of the generated tokens, separated by blanks, in place of their text."},
    {.group = "Generation",
     .name = "logits-out",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, logits_out),
     .help = "Write the logits of every prompt position: 32-bit little-endian floats, "
             "[tokens][vocabulary]."},
    {.group = SAMPLING,
     .name = "temp",
     .kind = FY_OPT_FLOAT,
     .arg = "T",
     .offset = offsetof(options, temp),
     .max = 100,
     .help = "Temperature; 0 is greedy; 0.8 with another of these."},
    {.group = SAMPLING,
     .name = "top-k",
     .kind = FY_OPT_INT,
     .arg = "K",
     .offset = offsetof(options, top_k),
     .max = INT32_MAX,
     .help = "Choose among the K best tokens; 0: all; else 40."},
    {.group = SAMPLING,
     .name = "top-p",
     .kind = FY_OPT_FLOAT,
     .arg = "P",
     .offset = offsetof(options, top_p),
     .min = 1e-6,
     .max = 1,
     .help = "Choose among the best tokens that together have probability P; 1: all; else 0.95."},
    {.group = SAMPLING,
     .name = "min-p",
     .kind = FY_OPT_FLOAT,
     .arg = "P",
     .offset = offsetof(options, min_p),
     .max = 1,
     .help = "Leave out tokens less likely than P times the likeliest; 0: none; else 0.05."},
    {.group = SAMPLING,
     .name = "seed",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, seed),
     .max = 9e18,
     .help = "Seed of the draws: the same seed gives the same text. Without it a new one is taken "
             "and shown."},
    {.group = "Machine",
     .name = "ctx-size",
     .alias = "c",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_ctx),
     .def = "0",
     .max = INT32_MAX,
     .help = "Positions of the context; 0: what the model was trained with, at most 4096."},
    {.group = "Machine",
     .name = "threads",
     .alias = "t",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_threads),
     .min = 1,
     .max = 256,
     .help =
         "Threads; as many as CPUs when not given, at most 16. The result does not depend on it."},
    {.group = "Machine",
     .name = "batch-size",
     .alias = "b",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n_batch),
     .min = 1,
     .max = 1 << 20,
     .help =
         "Prompt tokens computed at once; 512 when not given. The result does not depend on it."},
    {.group = "Machine",
     .name = "cache-type-k",
     .alias = "ctk",
     .kind = FY_OPT_CHOICE,
     .arg = "f16|f32",
     .offset = offsetof(options, type_k),
     .def = "f16",
     .help = "Type of the keys in the cache."},
    {.group = "Machine",
     .name = "cache-type-v",
     .alias = "ctv",
     .kind = FY_OPT_CHOICE,
     .arg = "f16|f32",
     .offset = offsetof(options, type_v),
     .def = "f16",
     .help = "Type of the values in the cache."},
    {.group = "Messages",
     .name = "verbose",
     .alias = "v",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, verbose),
     .help = "Say more: kernels, sizes, the prompt's ids."},
    {.group = "Messages",
     .name = "quiet",
     .alias = "q",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, quiet),
     .help = "Say nothing but warnings and errors."},
};

/* One run. */
typedef struct {
    const options *o;
    fy_bundle bundle; /* zeroed without -d */
    fy_model *model;
    const fy_vocab *vocab; /* view of model; NULL: none, and none is needed */
    fy_session *session;
    fy_sampler *sampler;
    fy_out *logits_out;
    fy_ids prompt;
    fy_str text;     /* generated bytes that end inside a character */
    bool text_begun; /* some text stands before the next token */
    uint32_t n_generated, n_evals;
    double load_s, prompt_s, generate_s;
} job;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- options -------------------------------------------------------------------------------- */

static int check_options(const options *o, fy_err *e)
{
    if ((o->model != NULL) == (o->dir != NULL))
        return fy_fail(e, FY_EARG, "%s: give either a GGUF file (-m) or a workspace (-d)",
                       o->model != NULL ? "two models" : "no model");
    if ((o->prompt != NULL) == (o->prompt_ids != NULL))
        return fy_fail(e, FY_EARG, "%s: give either a text (-p) or token ids (--prompt-ids)",
                       o->prompt != NULL ? "two prompts" : "no prompt");
    return 0;
}

static fy_session_params session_params(const options *o, const fy_bundle *b)
{
    static const fy_type types[] = {FY_F16, FY_F32};
    int64_t cpus = fy_default_threads(); /* a workspace comes from elsewhere: its count is a wish */
    int64_t threads = o->n_threads > 0 ? o->n_threads : b->n_threads < cpus ? b->n_threads : cpus;
    int64_t batch = o->n_batch > 0 ? o->n_batch : b->batch_size;
    return (fy_session_params){.n_ctx = (uint32_t)o->n_ctx,
                               .n_batch = batch > 0 ? (uint32_t)batch : 0,
                               .n_threads = threads > 0 ? (int)threads : 0,
                               .type_k = types[o->type_k],
                               .type_v = types[o->type_v]};
}

static double first_of(double a, double b, double fallback)
{
    return !isnan(a) ? a : !isnan(b) ? b : fallback;
}

static uint64_t new_seed(void)
{
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint32_t)time(NULL);
    return seed;
}

/* Flags win over the workspace's sampler, which wins over the defaults. A workspace that asks for
 * greedy choices (PowerServe writes top_k 1) says nothing about how to sample. */
static fy_sampler_params sampler_params(const options *o, const fy_bundle *bundle)
{
    bool flags =
        !isnan(o->temp) || o->top_k >= 0 || !isnan(o->top_p) || !isnan(o->min_p) || o->seed >= 0;
    bool by_bundle =
        o->dir != NULL && bundle->temperature > 0 && bundle->top_k != 1 && !(bundle->top_p <= 0);
    if (!flags && !by_bundle)
        return (fy_sampler_params){0};
    fy_bundle b = {.temperature = NAN, .top_p = NAN, .top_k = -1, .seed = UINT64_MAX};
    if (by_bundle)
        b = *bundle;
    fy_sampler_params p = {
        .temperature = (float)first_of(o->temp, b.temperature, 0.8),
        .top_k = (int32_t)(o->top_k >= 0  ? o->top_k
                           : b.top_k >= 0 ? b.top_k
                                          : 40),
        .top_p = (float)first_of(o->top_p, b.top_p, 0.95),
        .min_p = (float)first_of(o->min_p, NAN, 0.05),
        .seed = o->seed >= 0 ? (uint64_t)o->seed : b.seed,
    };
    if (p.temperature > 0 && p.seed == UINT64_MAX) {
        p.seed = new_seed();
        fy_log(FY_LOG_INFO, "seed %llu", (unsigned long long)p.seed);
    }
    return p;
}

/* --- prompt --------------------------------------------------------------------------------- */

static int parse_ids(const char *s, fy_ids *out, fy_err *e)
{
    for (;;) {
        char *end;
        errno = 0;
        long long id = strtoll(s, &end, 10);
        if (end == s || errno != 0 || id < 0 || id > INT32_MAX)
            return fy_fail(
                e, FY_EARG,
                "--prompt-ids: '%.24s' is no token id, expected numbers separated by commas", s);
        if (fy_ids_push(out, (int32_t)id, e) != 0)
            return -1;
        if (*end == '\0')
            return 0;
        if (*end != ',')
            return fy_fail(e, FY_EARG, "--prompt-ids: found '%.24s' after %lld, expected a comma",
                           end, id);
        s = end + 1;
    }
}

/* Does any text stand before the first generated token? If not, the blank that encoding puts before
 * a text must not be printed. */
static int find_text(job *j, fy_err *e)
{
    fy_str s = {0};
    int rc = fy_vocab_decode(j->vocab, j->prompt.id, j->prompt.n, false, &s, e);
    j->text_begun = s.len > 0;
    fy_str_release(&s);
    return rc;
}

static int make_prompt(job *j, fy_err *e)
{
    const options *o = j->o;
    int rc = o->prompt_ids != NULL
                 ? parse_ids(o->prompt_ids, &j->prompt, e)
                 : fy_vocab_encode(j->vocab, fy_span_of(o->prompt), true, true, &j->prompt, e);
    if (rc != 0)
        return -1;
    if (o->verbose) {
        fy_str s = {0};
        for (size_t i = 0; i < j->prompt.n; i++)
            fy_str_printf(&s, "%s%d", i > 0 ? "," : "", j->prompt.id[i]);
        fy_log(FY_LOG_DEBUG, "prompt ids: %s", fy_str_z(&s));
        fy_str_release(&s);
    }
    return o->print_ids ? 0 : find_text(j, e);
}

/* --- loading -------------------------------------------------------------------------------- */

/* Ids in, ids out works without a tokenizer; then nothing is known about which tokens end a text.
 */
static int load_vocab(job *j, fy_err *e)
{
    bool needed = j->o->prompt != NULL || !j->o->print_ids;
    fy_err why = {0};
    j->vocab = fy_model_vocab(j->model, needed ? e : &why);
    if (j->vocab != NULL)
        return 0;
    if (needed)
        return -1;
    fy_log(FY_LOG_WARN, "%s; no token will end the text", why.msg);
    return 0;
}

static int load(job *j, fy_err *e)
{
    const options *o = j->o;
    double begin = now_s();
    if (o->dir != NULL && fy_bundle_open(o->dir, &j->bundle, e) != 0)
        return -1;
    j->model = fy_model_open(o->dir != NULL ? j->bundle.weights : o->model, e);
    if (j->model == NULL || load_vocab(j, e) != 0 || make_prompt(j, e) != 0)
        return -1;
    const fy_hparams *hp = fy_model_hparams(j->model);
    fy_session_params sp = session_params(o, &j->bundle);
    fy_sampler_params ap = sampler_params(o, &j->bundle);
    fy_session_plan plan;
    if (fy_session_plan_of(j->model, &sp, &plan, e) != 0)
        return -1;
    fy_log(FY_LOG_DEBUG, "%s, %u layers, KV cache %llu MB, scratch %llu MB",
           fy_model_family(j->model)->name, hp->n_layer, (unsigned long long)(plan.kv_bytes >> 20),
           (unsigned long long)(plan.scratch_bytes >> 20));
    j->session = fy_session_new(j->model, &sp, e);
    j->sampler = j->session != NULL ? fy_sampler_new(&ap, hp->n_vocab, j->vocab, e) : NULL;
    if (j->sampler == NULL)
        return -1;
    uint32_t n_ctx = fy_session_n_ctx(j->session);
    if (n_ctx > hp->n_ctx_train)
        fy_log(FY_LOG_WARN, "a context of %u positions, but the model was trained with %u", n_ctx,
               hp->n_ctx_train);
    j->load_s = now_s() - begin;
    return 0;
}

/* --- output --------------------------------------------------------------------------------- */

/* Prints what is complete of j->text; at the end all of it. Standard output stays valid UTF-8:
 * bytes that are no character become U+FFFD. */
static int print_text(job *j, bool at_end, fy_err *e)
{
    size_t n = at_end ? j->text.len : fy_utf8_complete(fy_str_z(&j->text), j->text.len);
    fy_str out = {0};
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = fy_utf8_next(j->text.ptr + i, n - i, &cp);
        if (len > 0)
            fy_str_add(&out, j->text.ptr + i, (size_t)len);
        else
            fy_str_put_utf8(&out, 0xFFFD);
        i += len > 0 ? (size_t)len : 1;
    }
    int rc = out.oom ? fy_nomem(e) : fy_stdout(fy_str_z(&out), out.len, e);
    fy_str_release(&out);
    if (n > 0)
        memmove(j->text.ptr, j->text.ptr + n, j->text.len - n);
    j->text.len -= n;
    return rc;
}

static int print_token(job *j, int32_t id, fy_err *e)
{
    if (j->o->print_ids) {
        char s[16];
        int n = snprintf(s, sizeof s, "%s%d", j->n_generated > 0 ? " " : "", id);
        return fy_stdout(s, (size_t)n, e);
    }
    int rc = j->text_begun ? fy_vocab_decode_one(j->vocab, id, false, &j->text, e)
                           : fy_vocab_decode(j->vocab, &id, 1, false, &j->text, e);
    j->text_begun |= j->text.len > 0;
    return rc == 0 ? print_text(j, false, e) : -1;
}

static void put_rate(fy_str *s, uint32_t n, double seconds)
{
    if (n > 0 && seconds > 0)
        fy_str_printf(s, " %.1f tok/s", n / seconds);
}

static double megabytes(uint64_t bytes)
{
    return ceil((double)bytes / (1 << 20));
}

static void show_timing(const job *j)
{
    fy_str s = {0};
    fy_str_printf(&s, "load %.0f ms | prompt %zu tokens", j->load_s * 1e3, j->prompt.n);
    put_rate(&s, (uint32_t)j->prompt.n, j->prompt_s);
    fy_str_printf(&s, " | generated %u tokens", j->n_generated);
    put_rate(&s, j->n_evals, j->generate_s);
    fy_str_printf(&s, " | peak memory %.0f MB (rss anon %.0f MB)", megabytes(fy_rss_peak_bytes()),
                  megabytes(fy_rss_anon_bytes()));
    fy_log(FY_LOG_INFO, "%s", fy_str_z(&s));
    fy_str_release(&s);
}

/* --- running -------------------------------------------------------------------------------- */

static int write_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    const job *j = user;
    size_t row = fy_model_hparams(j->model)->n_vocab * sizeof(float);
    return fy_out_pwrite(j->logits_out, logits, n * row, (uint64_t)pos * row, e);
}

static int run_prompt(job *j, const float **logits, fy_err *e)
{
    if (j->prompt.n > UINT32_MAX)
        return fy_fail(e, FY_EFIT, "a prompt of %zu tokens", j->prompt.n);
    fy_eval_sinks sinks = {.logits = write_logits, .user = j};
    if (j->o->logits_out != NULL) {
        j->logits_out = fy_out_open(j->o->logits_out, 0, e);
        if (j->logits_out == NULL)
            return -1;
    }
    double begin = now_s();
    if (fy_session_eval(j->session, j->prompt.id, (uint32_t)j->prompt.n,
                        j->logits_out != NULL ? &sinks : NULL, logits, e) != 0)
        return -1;
    j->prompt_s = now_s() - begin;
    if (j->logits_out == NULL)
        return 0;
    fy_out *out = j->logits_out;
    j->logits_out = NULL;
    return fy_out_commit(out, e);
}

/* One step: the token that logits ask for; from the second on, the logits are those behind *id. */
static int next_token(job *j, int32_t *id, const float **logits, fy_err *e)
{
    double begin = now_s();
    bool first = *id < 0;
    if (!first && fy_session_eval(j->session, id, 1, NULL, logits, e) != 0)
        return -1;
    *id = fy_sampler_next(j->sampler, *logits, j->o->ignore_eos, e);
    if (!first) {
        j->generate_s += now_s() - begin;
        j->n_evals++;
    }
    return *id >= 0 ? 0 : -1;
}

static int generate(job *j, const float *logits, fy_err *e)
{
    int32_t id = -1;
    for (int64_t i = 0; i < j->o->n; i++) {
        if (next_token(j, &id, &logits, e) != 0)
            return -1;
        if (j->vocab != NULL && fy_vocab_is_eog(j->vocab, id))
            break;
        if (print_token(j, id, e) != 0)
            return -1;
        j->n_generated++;
    }
    return 0;
}

static int run_job(job *j, fy_err *e)
{
    const float *logits;
    if (load(j, e) != 0 || run_prompt(j, &logits, e) != 0)
        return -1;
    int rc = generate(j, logits, e);
    if (j->o->n > 0) { /* what was generated before a failure or an interrupt is whole, too */
        fy_err late = {0};
        bool failed =
            (!j->o->print_ids && print_text(j, true, &late) != 0) || fy_stdout("\n", 1, &late) != 0;
        if (failed && rc == 0)
            rc = fy_fail(e, late.code, "%s", late.msg);
    }
    show_timing(j);
    return rc;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    (void)n_args;
    (void)args;
    const options *o = opaque;
    if (check_options(o, e) != 0)
        return -1;
    if (o->verbose || o->quiet)
        fy_log_show(o->quiet ? FY_LOG_WARN : FY_LOG_DEBUG);
    job j = {.o = o};
    int rc = run_job(&j, e);
    fy_out_abort(j.logits_out);
    fy_str_release(&j.text);
    fy_ids_release(&j.prompt);
    fy_sampler_free(j.sampler);
    fy_session_free(j.session);
    fy_model_close(j.model);
    fy_bundle_release(&j.bundle);
    return rc;
}

const fy_verb fy_verb_run = {
    .name = "run",
    .summary = "continue a text with a model",
    .synopsis = "",
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description = "Reads a prompt and prints what the model makes of it, token by token, until "
                   "the model ends the text or -n "
                   "tokens are there. Only the generated text goes to standard output, always "
                   "valid UTF-8; a line with times "
                   "and memory goes to standard error.\n\n"
                   "Weights are used where they lie in the file, in the file's own type (f32, f16, "
                   "bf16, q8_0, q4_0). The result "
                   "does not depend on the number of threads or on the batch size.\n\n"
                   "When the context is full before -n tokens are generated, what was generated is "
                   "printed and the exit status "
                   "is 3.",
    .examples = "ferry run -m model.gguf -p 'Once upon a time' -n 64\n"
                "ferry run -d workspace -p 'Once upon a time' --temp 0.7 --seed 1\n"
                "# ids in, ids out: no tokenizer takes part\n"
                "ferry run -m model.gguf --prompt-ids 1,403,407 --print-ids -n 16\n",
    .run = run,
};
