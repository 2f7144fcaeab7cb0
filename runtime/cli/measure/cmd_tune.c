/* `ferry tune --spec`: tries the methods of speculation on a model and a text, in turns, and says
 * which options are fastest there. The text is the same with all of them, which is checked. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/process.h"
#include "cli/engine.h"
#include "cli/gen_options.h"
#include "cli/question.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "model/chain.h"

typedef struct {
    fy_engine_options engine;
    fy_gen_options gen;
    const char *prompt, *file, *device, *serial;
    int64_t n, rounds, cache_size;
    bool spec, chat, json, verbose, quiet;
} options;

static const fy_opt opts[] = {
    FY_ROWS_MODEL
    FY_ROW_DRAFT_MODEL("A small model of the same vocabulary that guesses: its chains and trees are "
                       "tried, too."),
    {.group = "Tuning",
     .name = "spec",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, spec),
     .def = "yes",
     .help = "Tune speculation: which --spec of 'ferry run', and with which settings.",
     .line_only = true},
    FY_LINE_STR_AS("Tuning", "prompt", "p", "TEXT", prompt,
                   "Text to continue, like those that the model will be used for."),
    {.group = "Tuning",
     .name = "file",
     .alias = "f",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, file),
     .help = "File with the text; '-' is standard input.",
     .line_only = true,
     .file = FY_FILE_IN},
    FY_LINE_FLAG("Tuning", "chat", chat,
                 "Answer the text as a message: the model's chat template makes the prompt."),
    {.group = "Tuning",
     .name = "n-predict",
     .alias = "n",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n),
     .def = "128",
     .min = 2,
     .max = 1 << 30,
     .help = "Most tokens to generate with each setting."},
    {.group = "Tuning",
     .name = "repetitions",
     .alias = "r",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, rounds),
     .def = "3",
     .min = 1,
     .max = 1000,
     .help = "Rounds through all settings; the fastest of each counts."},
    FY_ROWS_SAMPLING,
    FY_ANY_FLAG("Output", "json", json, "Write one JSON object instead of the table."),
    FY_ROWS_ENGINE,
    FY_ROWS_DEVICE FY_ROW_VERBOSE,
    FY_ROW_QUIET,
};

/* --- settings --------------------------------------------------------------------------------- */

/* 0: not given. */
typedef struct {
    fy_spec_method method;
    int draft_max, n_nodes;
    double p_min, p_base;
    int ngram, window, gcap;
} setting;

/* A step's cost grows with its tokens, by how much differs from machine to machine: so lengths. The
 * first is what the others are compared with. */
static const setting settings[] = {
    {.method = FY_SPEC_NONE},
    {.method = FY_SPEC_LOOKUP, .draft_max = 3},
    {.method = FY_SPEC_LOOKUP, .draft_max = 7},
    {.method = FY_SPEC_LOOKUP, .draft_max = 15},
    {.method = FY_SPEC_DRAFT, .draft_max = 3},
    {.method = FY_SPEC_DRAFT, .draft_max = 7},
    {.method = FY_SPEC_DRAFT, .draft_max = 15},
    {.method = FY_SPEC_DRAFT, .draft_max = 15, .p_min = 0.7},
    {.method = FY_SPEC_TREE, .n_nodes = 8},
    {.method = FY_SPEC_TREE, .n_nodes = 12},
    {.method = FY_SPEC_TREE, .n_nodes = 16},
    {.method = FY_SPEC_TREE, .n_nodes = 32, .p_base = 0.5},
    {.method = FY_SPEC_LOOKAHEAD, .ngram = 3, .window = 2, .gcap = 2},
    {.method = FY_SPEC_LOOKAHEAD, .ngram = 3, .window = 4, .gcap = 4},
    {.method = FY_SPEC_LOOKAHEAD, .ngram = 5, .window = 8, .gcap = 8},
    {.method = FY_SPEC_AUTO},
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0], MOST_NODES = 64, ON_A_CPU = 16 };
#define GAIN 1.02 /* less is within the error of a measurement */

static void add_number(fy_str *out, const char *option, int value)
{
    if (value > 0)
        fy_str_printf(out, " --%s %d", option, value);
}

static void put_options(const setting *s, fy_str *out)
{
    static const char *const names[] = {[FY_SPEC_NONE] = "none",     [FY_SPEC_AUTO] = "auto",
                                        [FY_SPEC_LOOKUP] = "lookup", [FY_SPEC_DRAFT] = "draft",
                                        [FY_SPEC_TREE] = "tree",     [FY_SPEC_LOOKAHEAD] = "lookahead"};
    fy_str_printf(out, "--spec %s", names[s->method]);
    add_number(out, "draft-max", s->draft_max);
    if (s->p_min > 0)
        fy_str_printf(out, " --draft-p-min %g", s->p_min);
    add_number(out, "draft-batch-size", s->n_nodes);
    if (s->p_base > 0)
        fy_str_printf(out, " --draft-sampler-p-base %g", s->p_base);
    add_number(out, "ngram", s->ngram);
    add_number(out, "window", s->window);
    add_number(out, "gcap", s->gcap);
}

static void apply(const setting *s, fy_spec_options *o)
{
    const char *draft = o->draft_model;
    *o = fy_spec_defaults();
    o->draft_model = draft;
    o->method = (int)s->method;
    if (s->draft_max > 0)
        o->draft_max = s->draft_max;
    if (s->n_nodes > 0)
        o->n_nodes = s->n_nodes;
    if (s->p_min > 0)
        o->p_min = s->p_min;
    if (s->p_base > 0)
        o->p_base = s->p_base;
    if (s->ngram > 0) {
        o->ngram = s->ngram;
        o->window = s->window;
        o->gcap = s->gcap;
    }
}

/* --- trying them ------------------------------------------------------------------------------ */

typedef struct {
    bool tried;
    double best_s; /* of a round; 0: none yet */
    uint64_t n_steps, n_draft, n_accepted;
} outcome;

typedef struct {
    options *o;
    fy_engine engine;
    fy_gen_params gen;
    fy_ids prompt, want, got; /* ids of the first run, and of this one */
    uint32_t n_evals;
    outcome of[N_SETTINGS];
} job;

static int check_options(const options *o, fy_err *e)
{
    if (!o->spec)
        return fy_fail(e, FY_EARG, "nothing to tune: --spec is all that there is");
    if ((o->prompt != NULL) == (o->file != NULL))
        return fy_fail(e, FY_EARG,
                       "%s: give a text (-p), or a file with one (-f; '-' is standard input), like "
                       "those that the model will be used for",
                       o->prompt != NULL ? "two texts" : "no text");
    return 0;
}

static int encode_prompt(job *j, fy_err *e)
{
    const options *o = j->o;
    fy_str text = {0};
    int rc = o->file != NULL ? fy_text_in_read(o->file, &text, e) : 0;
    const fy_span s = o->file != NULL ? (fy_span){text.ptr, text.len} : fy_span_of(o->prompt);
    if (rc == 0)
        rc = o->chat ? fy_question_ids(fy_model_gguf(j->engine.model), j->engine.vocab, s,
                                       &j->prompt, e)
                     : fy_vocab_encode(j->engine.vocab, s, true, true, &j->prompt, e);
    fy_str_release(&text);
    return rc;
}

/* Opened for the largest step of all; each setting gets a speculator of its own. */
static int open_engine(job *j, fy_err *e)
{
    fy_spec_options *spec = &j->o->engine.spec;
    apply(&(setting){.method = FY_SPEC_AUTO, .draft_max = MOST_NODES - 1}, spec);
    if (fy_machine_pin(&j->o->engine.machine, e) != 0 ||
        fy_engine_open(&j->engine, &j->o->engine, true, e) != 0)
        return -1;
    fy_speculator_free(j->engine.speculator);
    j->engine.speculator = NULL;
    return encode_prompt(j, e);
}

static int load(job *j, fy_err *e)
{
    if (open_engine(j, e) != 0)
        return -1;
    const fy_engine *g = &j->engine;
    const uint32_t n_vocab = fy_model_hparams(g->model)->n_vocab;
    const bool trees = fy_session_check_trees(g->session, NULL) == 0;
    const uint32_t most = fy_session_n_batch(g->session);
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const setting *s = &settings[i];
        const uint32_t tokens = (uint32_t)((s->window + s->gcap) * (s->ngram - 1));
        const bool drafts = s->method == FY_SPEC_DRAFT || s->method == FY_SPEC_TREE;
        const bool wide = s->method == FY_SPEC_TREE || s->method == FY_SPEC_LOOKAHEAD;
        j->of[i].tried =
            (!drafts || g->draft != NULL) && (!wide || trees) && (uint32_t)s->n_nodes <= most &&
            (s->ngram == 0 ||
             (tokens <= most && (tokens <= ON_A_CPU || fy_session_on_npu(g->session))));
    }
    return fy_gen_params_of(&j->o->gen, g->has_bundle ? &g->bundle : NULL, fy_model_gguf(g->model),
                            true, n_vocab, &j->gen, e);
}

static int take_id(void *user, int32_t id, const float *logits, fy_err *e)
{
    job *j = user;
    (void)logits;
    return fy_ids_push(&j->got, id, e);
}

/* A draft that the setting does not ask is out of the way. */
static int new_speculator(job *j, const setting *s, fy_err *e)
{
    fy_engine *g = &j->engine;
    fy_model *draft = g->draft;
    apply(s, &j->o->engine.spec);
    g->method = s->method;
    g->speculator = NULL;
    if (s->method == FY_SPEC_NONE)
        return 0;
    if (!fy_spec_uses_draft(s->method))
        g->draft = NULL;
    g->speculator = fy_engine_new_speculator(g, e);
    g->draft = draft;
    return g->speculator != NULL ? 0 : -1;
}

static int check_same(const job *j, fy_err *e)
{
    if (j->got.n == j->want.n && memcmp(j->got.id, j->want.id, j->got.n * sizeof *j->got.id) == 0)
        return 0;
    return fy_fail(e, FY_EVERIFY, "another text than without guesses: a defect of ferry, please report it");
}

static void keep(job *j, size_t i, const fy_timing *t)
{
    outcome *o = &j->of[i];
    if (o->best_s > 0 && o->best_s <= t->generate_s)
        return;
    *o = (outcome){.tried = true,
                   .best_s = t->generate_s,
                   .n_steps = t->n_steps > 0 ? t->n_steps : t->n_evals,
                   .n_draft = t->n_draft,
                   .n_accepted = t->n_draft_accepted};
    j->n_evals = t->n_evals;
}

static int generate(job *j, fy_timing *t, fy_err *e)
{
    const uint32_t n_vocab = fy_model_hparams(j->engine.model)->n_vocab;
    const fy_generate_params p = {.n = j->o->n, .token = take_id, .user = j};
    fy_sampler *sampler = fy_sampler_new(&j->gen.params, n_vocab, j->engine.vocab, e);
    fy_stop why;
    j->got.n = 0;
    int rc = sampler != NULL
                 ? fy_engine_generate(&j->engine, sampler, &j->prompt, &p, t, &why, e)
                 : -1;
    fy_sampler_free(sampler);
    return rc == 0 && why == FY_STOP_INTERRUPT ? fy_check_interrupt(e) : rc;
}

static int try_setting(job *j, size_t i, fy_err *e)
{
    fy_timing t;
    fy_str name = {0};
    put_options(&settings[i], &name);
    int rc = new_speculator(j, &settings[i], e);
    if (rc == 0)
        rc = generate(j, &t, e);
    fy_speculator_free(j->engine.speculator);
    j->engine.speculator = NULL;
    if (rc == 0 && j->want.n == 0)
        rc = fy_ids_append(&j->want, j->got.id, (uint32_t)j->got.n, e);
    if (rc == 0 && t.n_evals == 0)
        rc = fy_fail(e, FY_EARG, "the model ends this text at once: give another one");
    if (rc == 0)
        rc = check_same(j, e);
    if (rc == 0) {
        keep(j, i, &t);
        fy_log(FY_LOG_DEBUG, "%s: %.1f tok/s", fy_str_z(&name), t.n_evals / t.generate_s);
    } else {
        fy_ctx(e, "%s", fy_str_z(&name));
    }
    fy_str_release(&name);
    return rc;
}

/* In turns, so that other work on the machine is in the way of all of them. */
static int try_all(job *j, fy_err *e)
{
    int n = 0;
    for (size_t i = 0; i < N_SETTINGS; i++)
        n += j->of[i].tried;
    fy_log(FY_LOG_INFO, "%d settings, %lld times up to %lld tokens each", n,
           (long long)j->o->rounds, (long long)j->o->n);
    for (int64_t round = 0; round < j->o->rounds; round++) {
        for (size_t i = 0; i < N_SETTINGS; i++) {
            if (j->of[i].tried && try_setting(j, i, e) != 0)
                return -1;
        }
    }
    return 0;
}

/* --- what came of it -------------------------------------------------------------------------- */

static double gain_of(const job *j, size_t i)
{
    return j->of[i].best_s > 0 ? j->of[0].best_s / j->of[i].best_s : 0;
}

/* One without a right guess is faster by chance alone. */
static size_t best_of(const job *j)
{
    size_t best = 0;
    for (size_t i = 1; i < N_SETTINGS; i++) {
        if (j->of[i].n_accepted > 0 && gain_of(j, i) > GAIN && gain_of(j, i) > gain_of(j, best))
            best = i;
    }
    return best;
}

/* As a user would type them, the draft model's file included. */
static void put_best(const job *j, fy_str *out)
{
    const setting *s = &settings[best_of(j)];
    const char *draft = j->o->engine.spec.draft_model;
    put_options(s, out);
    if (draft != NULL && fy_spec_uses_draft(s->method))
        fy_str_printf(out, " --draft-model %s", draft);
}

static void put_table(const job *j, fy_str *out)
{
    fy_str name = {0};
    fy_str_printf(out, "| %-62s | steps | tokens a step |  guesses |    right |     t/s | to none |\n",
                  "options");
    fy_str_printf(out, "| %s | ----: | ------------: | -------: | -------: | ------: | ------: |\n",
                  "--------------------------------------------------------------");
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const outcome *o = &j->of[i];
        if (!o->tried)
            continue;
        fy_str_clear(&name);
        put_options(&settings[i], &name);
        fy_str_printf(out, "| %-62s | %5llu | %13.2f | %8llu | %8llu | %7.1f | %7.2f |\n",
                      fy_str_z(&name), (unsigned long long)o->n_steps,
                      (double)j->n_evals / (double)o->n_steps, (unsigned long long)o->n_draft,
                      (unsigned long long)o->n_accepted, j->n_evals / o->best_s, gain_of(j, i));
    }
    fy_str_puts(out, "best: ");
    put_best(j, out);
    fy_str_putc(out, '\n');
    fy_str_release(&name);
}

static void put_json(const job *j, fy_str *out)
{
    fy_str name = {0};
    bool first = true;
    fy_str_printf(out, "{\"prompt_tokens\":%zu,\"generated_tokens\":%zu,\"settings\":[", j->prompt.n,
                  j->want.n);
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const outcome *o = &j->of[i];
        if (!o->tried)
            continue;
        fy_str_clear(&name);
        put_options(&settings[i], &name);
        fy_str_printf(out,
                      "%s{\"options\":\"%s\",\"steps\":%llu,\"draft_n\":%llu,"
                      "\"draft_n_accepted\":%llu,\"tokens_per_step\":%.3f,\"tokens_per_s\":%.2f,"
                      "\"to_none\":%.3f}",
                      first ? "" : ",", fy_str_z(&name), (unsigned long long)o->n_steps,
                      (unsigned long long)o->n_draft, (unsigned long long)o->n_accepted,
                      (double)j->n_evals / (double)o->n_steps, j->n_evals / o->best_s,
                      gain_of(j, i));
        first = false;
    }
    fy_str_clear(&name);
    put_best(j, &name);
    fy_str_puts(out, "],\"best\":");
    fy_json_put_string(out, (fy_span){name.ptr, name.len});
    fy_str_puts(out, "}\n");
    fy_str_release(&name);
}

/* --- the verb --------------------------------------------------------------------------------- */

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    (void)n_args;
    (void)args;
    job j = {.o = opaque};
    fy_str out = {0};
    int rc = check_options(j.o, e) != 0 || load(&j, e) != 0 || try_all(&j, e) != 0 ? -1 : 0;
    if (rc == 0) {
        (j.o->json ? put_json : put_table)(&j, &out);
        rc = fy_stdout_text(&out, e);
    }
    fy_str_release(&out);
    fy_ids_release(&j.prompt);
    fy_ids_release(&j.want);
    fy_ids_release(&j.got);
    fy_gen_params_release(&j.gen);
    fy_engine_close(&j.engine);
    return rc;
}

static const fy_model_slots slots = FY_ENGINE_SLOTS(options, true);

const fy_verb fy_verb_tune = {
    .name = "tune",
    .summary = "find the options that make a model fastest on a text",
    .synopsis = "[MODEL.gguf|DIR|ORG/NAME]",
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Continues a text with every method of speculation and several lengths, in turns, and shows "
        "for each the steps of the model, the tokens of a step, the guesses and how many were "
        "right, the tokens per second of the fastest round, and those divided by the rate without "
        "guesses. The last line has the options for 'ferry run', 'chat' and 'serve' that were "
        "fastest; --spec none where nothing is 2 % faster than no guesses. The tokens are the same "
        "with all of them; the exit status is 4 if not.\n\n"
        "What pays depends on the text: take one like those that the model will be used for, and "
        "the sampling options that go with it. Trees need a draft model; a model with a state has "
        "no trees and no lookahead; lookahead of more than 16 tokens in a step is tried on an NPU "
        "alone.\n\n"
        "--json prints an object: prompt_tokens, generated_tokens, \"settings\" with options, "
        "steps, draft_n, draft_n_accepted, tokens_per_step, tokens_per_s and to_none, and "
        "\"best\".",
    .examples = "ferry tune --spec -m model.gguf -f prompt.txt\n"
                "# with a draft model, as it will be used\n"
                "ferry tune --spec -m model.gguf --draft-model draft.gguf -p 'Once upon a time' --temp 0.8\n",
    .task = FY_TASK_USE,
    .on_phone = true,
    .model = &slots,
    .run = run,
};
