/* ferry run: one question or prompt, one answer. Reads the prompt, generates, and prints the text, the ids
 * or one JSON object with log probabilities and timing. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "bundle/bundle_check.h"
#include "cli/engine.h"
#include "cli/gen_options.h"
#include "cli/grammar_options.h"
#include "cli/question.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "model/text_out.h"

typedef struct {
    fy_engine_options engine;
    fy_gen_options gen;
    fy_grammar_options structured;
    const char *question, /* of the arguments */
        *prompt, *file, *prompt_ids, *logits_out, *device, *serial;
    int64_t n, logprobs, cache_size;
    bool chat, raw, verify, ignore_eos, print_ids, json, verbose, quiet;
} options;

static const fy_opt opts[] = {
    FY_ROWS_MODEL
    FY_LINE_FLAG(
        "Model", "verify", verify,
        "With -d: compare every byte of the workspace with the hashes of its manifest first, "
        "and its signature with the key that it carries."),
    FY_LINE_STR_AS(
        "Prompt", "prompt", "p", "TEXT", prompt,
        "Text to continue. Special tokens may be written in it; the model's own ones (BOS) "
        "are added."),
    {.group = "Prompt",
     .name = "file",
     .alias = "f",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, file),
     .help = "File with the text to continue, all of it, its last newline included; '-' is "
             "standard input.",
     .line_only = true,
     .file = FY_FILE_IN},
    FY_LINE_FLAG("Prompt", "chat", chat,
                 "Answer the text as a message: the model's chat template makes the prompt."),
    FY_LINE_FLAG("Prompt", "raw", raw,
                 "Continue the question after the model as a text, without the template."),
    FY_ROW_PROMPT_CACHE("Prompt"),
    FY_ROW_FULL_WINDOW,
    FY_LINE_STR("Prompt", "prompt-ids", "IDS", prompt_ids,
                "Token ids to continue, separated by commas, exactly as given; instead of a text."),
    {.group = "Generation",
     .name = "n-predict",
     .alias = "n",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n),
     .def = "128",
     .max = 1 << 30,
     .help = "Most tokens to generate."},
    FY_ROW_STOP("Generation"),
    FY_ANY_FLAG("Generation", "ignore-eos", ignore_eos, "Never choose a token that ends the text."),
    FY_ROWS_SAMPLING,
    FY_ROWS_GRAMMAR,
    FY_ANY_FLAG(
        "Output", "print-ids", print_ids,
        "Print the ids of the generated tokens, separated by spaces, instead of their text."),
    FY_ANY_FLAG("Output", "json", json,
                "Write one JSON object at the end: \"text\", \"ids\", \"stop\", \"seed\", "
                "\"timing\"; no \"text\" with --print-ids."),
    {.group = "Output",
     .name = "logprobs",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, logprobs),
     .max = 1000,
     .help = "With --json: the log probability of every generated token, and the N likeliest "
             "tokens in its place.",
     .line_only = true},
    {.group = "Output",
     .name = "logits-out",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, logits_out),
     .help = "Write the logits of every prompt position: 32-bit little-endian floats, "
             "[tokens][vocabulary].",
     .line_only = true,
     .file = FY_FILE_OUT},
    FY_ROWS_ENGINE,
    FY_ROWS_SPEC,
    FY_ROWS_DEVICE FY_ROW_VERBOSE,
    FY_ROW_QUIET,
};

/* One run. */
typedef struct {
    const options *o;
    fy_engine engine;
    fy_gen_params gen;
    fy_sampler *sampler;
    fy_structured structured;
    fy_out *logits_out;
    fy_ids prompt;
    fy_stops *stops; /* owned; NULL: none */
    fy_text_out text;
    size_t n_shown;       /* tokens */
    fy_str json_text;     /* with --json: the text so far */
    fy_str json_ids;      /* and the members of the lists "ids" */
    fy_str json_logprobs; /* and "logprobs" */
    fy_logprob *top;      /* owned, [n_top] */
    uint32_t n_top;
} job;

static int check_options(const options *o, fy_err *e)
{
    int n = (o->question != NULL) + (o->prompt != NULL) + (o->file != NULL) +
            (o->prompt_ids != NULL);
    if (n != 1)
        return fy_fail(
            e, FY_EARG,
            "%s: give a question after the model, a text (-p), a file with one (-f; '-' is standard "
            "input) or token ids (--prompt-ids)%s",
            n == 0 ? "no prompt" : "more than one prompt",
            n == 0 ? "; 'ferry chat' holds a conversation" : "");
    if (o->raw && (o->question == NULL || o->chat))
        return fy_fail(e, FY_EARG,
                       o->chat ? "--raw and --chat exclude each other"
                               : "--raw is for a question after the model; -p and -f are raw");
    if (o->chat && o->prompt_ids != NULL)
        return fy_fail(e, FY_EARG, "--chat makes the prompt of a text (-p or -f), not of ids");
    if (o->logprobs >= 0 && !o->json)
        return fy_fail(e, FY_EARG, "--logprobs is part of the JSON object: give --json too");
    if (o->verify && o->engine.dir == NULL)
        return fy_fail(e, FY_EARG,
                       "--verify reads a workspace (-d DIR); a single file has no manifest");
    return 0;
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
                "--prompt-ids: '%.24s' is not a token id, expected numbers separated by commas", s);
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

/* Does the model's template make the prompt? */
static bool is_message(const options *o)
{
    return o->chat || (o->question != NULL && !o->raw);
}

static int encode_prompt(job *j, fy_err *e)
{
    const options *o = j->o;
    if (o->prompt_ids != NULL)
        return parse_ids(o->prompt_ids, &j->prompt, e);
    fy_str text = {0};
    int rc = o->file != NULL ? fy_text_in_read(o->file, &text, e) : 0;
    fy_span s = o->file != NULL       ? (fy_span){text.ptr, text.len}
                : o->question != NULL ? fy_span_of(o->question)
                                      : fy_span_of(o->prompt);
    if (rc == 0 && o->question != NULL && !o->raw &&
        !fy_has_chat_template(fy_model_gguf(j->engine.model)))
        rc = fy_fail(e, FY_EUNSUPPORTED,
                     "%s: has no chat template that would make a message of the question; --raw "
                     "continues it as a text",
                     fy_engine_model_path(&j->engine));
    else if (rc == 0 && is_message(o))
        rc = fy_question_ids(fy_model_gguf(j->engine.model), j->engine.vocab, s, &j->prompt, e);
    else if (rc == 0)
        rc = fy_vocab_encode(j->engine.vocab, s, true, true, &j->prompt, e);
    fy_str_release(&text);
    return rc;
}

/* A chat model continues any text, but answers only what its template has made a message. */
static void hint_at_template(const job *j)
{
    const options *o = j->o;
    if (isatty(STDERR_FILENO) && !is_message(o) && o->prompt_ids == NULL && o->n > 0 &&
        fy_has_chat_template(fy_model_gguf(j->engine.model)) &&
        !fy_prompt_is_templated(j->engine.vocab, &j->prompt))
        fy_log(FY_LOG_INFO, "the text is continued as it is; this model has a chat template: --chat "
                            "answers a message with it, 'ferry chat' holds a conversation");
}

/* Is there anything to do with the text of a token? */
static bool needs_text(const job *j)
{
    return !j->o->print_ids || j->stops != NULL;
}

/* Does any text come before the first generated token? If not, the space that encoding adds before a
 * text must not be printed. An answer is a text of its own. */
static int begin_text(job *j, fy_err *e)
{
    fy_str s = {0};
    int rc = fy_vocab_decode(j->engine.vocab, j->prompt.id, j->prompt.n, false, &s, e);
    fy_text_out_begin(&j->text, j->engine.vocab, j->stops, s.len > 0 && !is_message(j->o));
    fy_str_release(&s);
    return rc;
}

static int make_prompt(job *j, fy_err *e)
{
    if (encode_prompt(j, e) != 0)
        return -1;
    if (j->o->verbose) {
        fy_str s = {0};
        for (size_t i = 0; i < j->prompt.n; i++)
            fy_str_printf(&s, "%s%d", i > 0 ? "," : "", j->prompt.id[i]);
        fy_log(FY_LOG_DEBUG, "prompt ids: %s", fy_str_z(&s));
        fy_str_release(&s);
    }
    hint_at_template(j);
    return needs_text(j) ? begin_text(j, e) : 0;
}

/* Compares every hash, and reports how long that took. */
static int verify(const options *o, fy_err *e)
{
    int64_t n = o->engine.n_threads;
    fy_bundle_checked found;
    fy_progress progress;
    double begin_s = fy_now_s();
    fy_show_begin(&progress, "verifying", 0);
    int rc = fy_bundle_check(o->engine.dir, n == FY_OPT_UNSET_INT ? fy_default_threads() : (int)n,
                             &progress, &found, e);
    fy_show_end(&progress);
    if (rc == 0)
        fy_log(FY_LOG_INFO, "%s: %zu files, %.1f MB, all as listed, in %.2f s; %s%s", o->engine.dir,
               found.n_files, (double)found.bytes * 1e-6, fy_now_s() - begin_s,
               found.is_signed ? "signed by " : "not signed",
               found.is_signed && found.fingerprint[0] == '\0' ? "a key that did not come with it"
                                                               : found.fingerprint);
    return rc;
}

static int load(job *j, fy_err *e)
{
    const options *o = j->o;
    fy_engine *g = &j->engine;
    if (fy_structured_read(&j->structured, &o->structured, e) != 0 ||
        fy_machine_pin(&o->engine.machine, e) != 0 || (o->verify && verify(o, e) != 0))
        return -1;
    const bool needs_vocab =
        o->prompt_ids == NULL || needs_text(j) || fy_structured_is_asked(&o->structured);
    if (fy_engine_open(g, &o->engine, needs_vocab, e) != 0 ||
        fy_gen_stops_of(&o->gen, is_message(o) ? fy_vocab_turn_text(g->vocab) : (fy_span){0},
                        &j->stops, e) != 0 ||
        make_prompt(j, e) != 0)
        return -1;
    uint32_t n_vocab = fy_model_hparams(g->model)->n_vocab;
    if (fy_gen_params_of(&o->gen, g->has_bundle ? &g->bundle : NULL, fy_model_gguf(g->model), true,
                         n_vocab, &j->gen, e) != 0)
        return -1;
    j->sampler = fy_sampler_new(&j->gen.params, n_vocab, g->vocab, e);
    if (j->sampler == NULL || fy_structured_begin(&j->structured, g->vocab, n_vocab, e) != 0)
        return -1;
    if (o->logprobs > 0) {
        j->n_top = o->logprobs < n_vocab ? (uint32_t)o->logprobs : n_vocab;
        j->top = calloc(j->n_top, sizeof *j->top);
        if (j->top == NULL)
            return fy_nomem(e);
    }
    return 0;
}

/* --- output --------------------------------------------------------------------------------- */

static int write_logits(void *user, const float *logits, uint32_t pos, uint32_t n, fy_err *e)
{
    const job *j = user;
    size_t row = fy_model_hparams(j->engine.model)->n_vocab * sizeof(float);
    return fy_out_pwrite(j->logits_out, logits, n * row, (uint64_t)pos * row, e);
}

static int open_logits_out(job *j, fy_err *e)
{
    if (fy_file_is_same(fy_engine_model_path(&j->engine), j->o->logits_out))
        return fy_fail(e, FY_EARG, "%s: is the model, expected another name for the logits",
                       j->o->logits_out);
    j->logits_out = fy_out_open(j->o->logits_out, 0, e);
    return j->logits_out != NULL ? 0 : -1;
}

static int commit_logits(job *j, fy_err *e)
{
    fy_out *out = j->logits_out;
    j->logits_out = NULL;
    return out == NULL ? 0 : fy_out_commit(out, e);
}

/* Appends "id":1,"text":"a","logprob":-0.5. */
static int put_logprob(const job *j, int32_t id, float logprob, fy_str *out, fy_err *e)
{
    fy_str_printf(out, "\"id\":%d,", id);
    if (!j->o->print_ids) {
        fy_str raw = {0}, text = {0};
        int rc = fy_vocab_decode_one(j->engine.vocab, id, true, &raw, e);
        fy_put_lossy(&text, (fy_span){raw.ptr, raw.len});
        fy_str_puts(out, "\"text\":");
        fy_json_put_string(out, (fy_span){text.ptr, text.len});
        fy_str_putc(out, ',');
        out->oom |= text.oom;
        fy_str_release(&raw);
        fy_str_release(&text);
        if (rc != 0)
            return -1;
    }
    if (logprob > -INFINITY) /* JSON has neither infinity nor NaN */
        fy_str_printf(out, "\"logprob\":%.6f", (double)logprob);
    else
        fy_str_puts(out, "\"logprob\":null");
    return 0;
}

static int add_logprobs(job *j, int32_t id, const float *logits, fy_err *e)
{
    fy_str *out = &j->json_logprobs;
    uint32_t n_vocab = fy_model_hparams(j->engine.model)->n_vocab;
    float logprob;
    if (fy_logprobs(logits, n_vocab, id, &logprob, j->top, j->n_top, e) != 0)
        return -1;
    fy_str_puts(out, out->len > 0 ? ",{" : "{");
    if (put_logprob(j, id, logprob, out, e) != 0)
        return -1;
    fy_str_puts(out, ",\"top\":[");
    for (uint32_t i = 0; i < j->n_top; i++) {
        fy_str_puts(out, i > 0 ? ",{" : "{");
        if (put_logprob(j, j->top[i].id, j->top[i].logprob, out, e) != 0)
            return -1;
        fy_str_putc(out, '}');
    }
    fy_str_puts(out, "]}");
    return out->oom ? fy_nomem(e) : 0;
}

static int add_to_json(job *j, int32_t id, const float *logits, fy_err *e)
{
    fy_str_printf(&j->json_ids, "%s%d", j->n_shown > 0 ? "," : "", id);
    int rc = needs_text(j) ? fy_text_out_token(&j->text, id, &j->json_text, e) : 0;
    if (rc >= 0 && j->o->logprobs >= 0 && add_logprobs(j, id, logits, e) != 0)
        return -1;
    return rc;
}

static int print_token(job *j, int32_t id, fy_err *e)
{
    fy_str s = {0};
    int rc = needs_text(j) ? fy_text_out_token(&j->text, id, &s, e) : 0;
    if (j->o->print_ids) {
        fy_str_clear(&s);
        fy_str_printf(&s, "%s%d", j->n_shown > 0 ? " " : "", id);
    }
    if (rc >= 0 && (s.oom ? fy_nomem(e) : fy_stdout(fy_str_z(&s), s.len, e)) != 0)
        rc = -1;
    fy_str_release(&s);
    return rc;
}

static int show_token(void *user, int32_t id, const float *logits, fy_err *e)
{
    job *j = user;
    int rc = j->o->json ? add_to_json(j, id, logits, e) : print_token(j, id, e);
    j->n_shown++;
    return rc;
}

/* The text left after the last token, and the end of the line. */
static int end_text(job *j, fy_err *e)
{
    fy_str s = {0};
    int rc = j->o->print_ids ? 0 : fy_text_out_end(&j->text, &s, e);
    fy_str_putc(&s, '\n');
    if (rc == 0)
        rc = s.oom ? fy_nomem(e) : fy_stdout(s.ptr, s.len, e);
    fy_str_release(&s);
    return rc;
}

static int print_json(job *j, const fy_timing *t, fy_stop why, fy_err *e)
{
    fy_str s = {0};
    int rc = 0;
    fy_str_putc(&s, '{');
    if (!j->o->print_ids) {
        rc = fy_text_out_end(&j->text, &j->json_text, e);
        fy_str_puts(&s, "\"text\":");
        fy_json_put_string(&s, (fy_span){j->json_text.ptr, j->json_text.len});
        fy_str_putc(&s, ',');
    }
    fy_str_printf(&s, "\"ids\":[%s],\"stop\":\"%s\",", fy_str_z(&j->json_ids),
                  fy_stop_name(why));
    if (why == FY_STOP_STRING) {
        fy_str_puts(&s, "\"stop_string\":");
        fy_json_put_string(&s, fy_stops_text(j->stops, j->text.found));
        fy_str_putc(&s, ',');
    }
    fy_str_puts(&s, "\"seed\":");
    if (j->gen.params.temperature > 0)
        fy_str_printf(&s, "%llu", (unsigned long long)j->gen.params.seed);
    else
        fy_str_puts(&s, "null");
    if (j->o->logprobs >= 0)
        fy_str_printf(&s, ",\"logprobs\":[%s]", fy_str_z(&j->json_logprobs));
    fy_str_puts(&s, ",\"timing\":{");
    fy_timing_json(t, &s);
    fy_str_putc(&s, '}');
    if (j->engine.speculator != NULL) {
        fy_str_putc(&s, ',');
        fy_spec_json(j->engine.speculator, &s);
    }
    fy_str_puts(&s, "}\n");
    if (rc == 0)
        rc = s.oom || j->json_ids.oom ? fy_nomem(e) : fy_stdout(s.ptr, s.len, e);
    fy_str_release(&s);
    return rc;
}

static void show_timing(const fy_timing *t, const fy_speculator *spec)
{
    fy_str s = {0};
    fy_timing_line(t, &s);
    fy_log(FY_LOG_INFO, "%s", fy_str_z(&s));
    fy_str_clear(&s);
    if (spec != NULL) {
        fy_spec_line(spec, &s);
        fy_log(FY_LOG_DEBUG, "speculation: %s", fy_str_z(&s));
    }
    fy_str_release(&s);
}

/* --- running -------------------------------------------------------------------------------- */

/* Fewer tokens than asked for are a failure, unless the model itself ended the text. */
static int check_stop(const job *j, fy_stop why, fy_err *e)
{
    if (why == FY_STOP_INTERRUPT)
        return fy_check_interrupt(e);
    if (why != FY_STOP_CONTEXT)
        return 0;
    const uint32_t n_ctx = fy_session_n_ctx(j->engine.session);
    if (n_ctx == fy_model_max_ctx(j->engine.model))
        return fy_fail(e, FY_EFIT,
                       "the context is full after %zu of %lld tokens: %u positions, and %s",
                       j->n_shown, (long long)j->o->n, n_ctx,
                       fy_model_n_chunks(j->engine.model) > 0
                           ? "the graphs have no more: chunk the model again with a larger -c"
                           : "the model has no more");
    return fy_fail(e, FY_EFIT,
                   "the context is full after %zu of %lld tokens: %u positions; use a larger -c "
                   "(the model was trained with %u)",
                   j->n_shown, (long long)j->o->n, n_ctx,
                   fy_model_hparams(j->engine.model)->n_ctx_train);
}

static int generate(job *j, fy_err *e)
{
    const options *o = j->o;
    if (o->logits_out != NULL && open_logits_out(j, e) != 0)
        return -1;
    fy_eval_sinks sinks = {.logits = write_logits, .user = j};
    fy_generate_params p = {.n = o->n,
                            .ignore_eos = o->ignore_eos,
                            .eval = j->logits_out != NULL ? &sinks : NULL,
                            .token = show_token,
                            .grammar = j->structured.matcher,
                            .user = j};
    fy_timing t;
    fy_stop why = FY_STOP_LENGTH;
    fy_err late = {0};
    int rc = fy_engine_generate(&j->engine, j->sampler, &j->prompt, &p, &t, &why, e);
    if (t.prompt_s <= 0)
        return rc;
    /* Text and logits from before a failure are kept; but a JSON object means success. */
    bool bad = commit_logits(j, &late) != 0;
    if (!o->json)
        bad |= o->n > 0 && end_text(j, &late) != 0;
    else if (rc == 0)
        bad |= print_json(j, &t, why, &late) != 0;
    show_timing(&t, j->engine.speculator);
    if (rc == 0 && why != FY_STOP_INTERRUPT)
        bad |= fy_engine_save(&j->engine, &late) != 0;
    if (rc == 0 && bad)
        rc = fy_fail(e, late.code, "%s", late.msg);
    return rc == 0 ? check_stop(j, why, e) : rc;
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    options *o = opaque;
    o->question = n_args > 0 ? args[0] : NULL;
    o->engine.keeps_windows = true;
    if (check_options(o, e) != 0)
        return -1;
    job j = {.o = o};
    int rc = load(&j, e);
    if (rc == 0)
        rc = generate(&j, e);
    fy_out_abort(j.logits_out);
    fy_text_out_release(&j.text);
    fy_stops_free(j.stops);
    fy_str_release(&j.json_text);
    fy_str_release(&j.json_ids);
    fy_str_release(&j.json_logprobs);
    free(j.top);
    fy_ids_release(&j.prompt);
    fy_structured_release(&j.structured);
    fy_sampler_free(j.sampler);
    fy_gen_params_release(&j.gen);
    fy_engine_close(&j.engine);
    return rc;
}

static const fy_model_slots slots = FY_ENGINE_SLOTS(options, true);

const fy_verb fy_verb_run = {
    .name = "run",
    .summary = "answer a question, or continue a text",
    .synopsis = "[MODEL.gguf|DIR|ORG/NAME] [QUESTION]",
    .max_args = 2,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Answers a question, or continues a prompt token by token, until the model ends the text or -n tokens are "
        "generated. Only the generated text goes to standard output, "
        "always valid UTF-8; a line with times and memory goes to standard error. The likeliest "
        "token is taken, unless a sampling option or the workspace asks for sampling.\n\n"
        "A question after the model is a message: the model's own chat template makes the prompt, "
        "as in 'ferry chat'. The text of -p or -f is continued as it is, unless --chat makes a "
        "message of it. The first argument is the model unless -m, -d or -hf names one.\n\n"
        "Weights are mapped and used in the file's own type (f32, f16, bf16, "
        "q8_0, q4_0 and the others of docs/quantization.md). The result does not depend on the "
        "number of threads or on the batch "
        "size.\n\n"
        "When the context is full before -n tokens are generated, or at Ctrl-C, what was generated "
        "is printed and the exit status is 3 or 130.\n\n"
        "--json prints one object instead: \"text\"; \"ids\", the generated tokens; \"stop\", "
        "why they end (stop: the model ended the text; string: --stop, with the text found in "
        "\"stop_string\"; length: -n; context; interrupted); "
        "\"seed\", null when the choice was greedy; with --logprobs a list \"logprobs\" with "
        "\"id\", \"text\" and \"logprob\" (natural, before any sampling option; null for minus "
        "infinity) of each token and the same of the N likeliest in \"top\"; and \"timing\": "
        "load_ms, prompt_tokens, cached_tokens, prompt_ms, prompt_tokens_per_s, first_token_ms, "
        "generated_tokens, generate_ms, generated_tokens_per_s, peak_memory_bytes, "
        "anonymous_memory_bytes; with --spec also steps, draft_n and draft_n_accepted, and a list "
        "\"speculation\" with what each method has proposed. A rate that was not measured is 0.",
    .examples = "ferry run model.gguf 'Who are you?'\n"
                "ferry run -m model.gguf -p 'Once upon a time' -n 64\n"
                "ferry run -m model.gguf --chat -p 'Who are you?'\n"
                "ferry run -d workspace -p 'Once upon a time' --temp 0.7 --seed 1\n"
                "ferry run -d workspace --verify -p 'Once upon a time' -n 8\n"
                "# a text from a pipe, the answer for a program\n"
                "echo 'Once upon a time' | ferry run -m model.gguf -f - --json --logprobs 3\n"
                "# ids in, ids out: no tokenizer is needed\n"
                "ferry run -m model.gguf --prompt-ids 1,403,407 --print-ids -n 16\n",
    .on_phone = true,
    .model = &slots,
    .run = run,
};
