/* ferry chat: its options, and the choice between a terminal, lines and JSON events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat/chat_io.h"
#include "cli/grammar_options.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"

typedef struct {
    fy_engine_options engine;
    fy_gen_options gen;
    fy_grammar_options structured;
    const char *prompt, *system, *system_file, *system_prompt_file, *chat_template, *device,
        *serial;
    fy_opt_list template_args;
    int64_t n, cache_size;
    int think, on_full;
    bool no_history, show_prompt, timings, json, verbose, quiet;
} options;

static const fy_opt opts[] = {
    FY_ROWS_MODEL FY_LINE_STR_AS(
        "Conversation", "prompt", "p", "TEXT", prompt,
        "Answer this one message and exit; nothing is read from standard input."),
    {.group = "Conversation",
     .name = "system",
     .kind = FY_OPT_STR,
     .arg = "TEXT",
     .offset = offsetof(options, system),
     .set = "system",
     .help = "System message: instructions to the model before the conversation."},
    {.group = "Conversation",
     .name = "system-file",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, system_file),
     .file = FY_FILE_IN,
     .set = "system",
     .help = "File with the system message; a newline at its end is left out."},
    {.group = "Conversation",
     .name = "system-prompt-file",
     .kind = FY_OPT_STR,
     .arg = "FILE",
     .offset = offsetof(options, system_prompt_file),
     .file = FY_FILE_IN,
     .set = "system",
     .help = "The same as --system-file."},
    {.group = "Conversation",
     .name = "chat-template",
     .kind = FY_OPT_STR,
     .arg = "NAME|FILE",
     .offset = offsetof(options, chat_template),
     .file = FY_FILE_OR_WORD,
     .help =
         "Template to use instead of the model's default: another one of the model or a built-in "
         "one by name, or a file. 'ferry template --list' "
         "shows the built-in ones."},
    {.group = "Conversation",
     .name = "template-arg",
     .kind = FY_OPT_STR,
     .arg = "NAME=VALUE",
     .offset = offsetof(options, template_args),
     .many = true,
     .help =
         "Variable of the template, as in enable_thinking=false; the value is JSON or text. May "
         "be repeated."},
    {.group = "Conversation",
     .name = "n-predict",
     .alias = "n",
     .kind = FY_OPT_INT,
     .arg = "N",
     .offset = offsetof(options, n),
     .def = "-1",
     .min = -1,
     .max = 1 << 30,
     .help = "Most tokens of one answer; -1: until the model ends it."},
    FY_ROW_PROMPT_CACHE("Conversation"),
    FY_ROW_FULL_WINDOW,
    FY_ROW_STOP("Conversation"),
    {.group = "Conversation",
     .name = "on-full",
     .kind = FY_OPT_CHOICE,
     .arg = "stop|drop|summarize",
     .offset = offsetof(options, on_full),
     .help =
         "When the context has no room for an answer: fail, hide the oldest turns from the model, "
         "or give it its own summary of them; it is said each time. Default: drop on a terminal, "
         "else stop."},
    FY_ROWS_SAMPLING,
    FY_ROWS_GRAMMAR,
    {.group = "Output",
     .name = "think",
     .kind = FY_OPT_CHOICE,
     .arg = "dim|fold|show|hide",
     .offset = offsetof(options, think),
     .help = "How to show a model's thinking: paler than the answer, one line that counts its "
             "tokens, as it is, or not at all; default: dim on a terminal, else hide."},
    FY_ANY_FLAG("Output", "json", json,
                "Write events, one JSON object per line; input lines may be JSON messages."),
    FY_ANY_FLAG("Output", "timings", timings,
                "After each answer show its times and tokens per second, as -v does."),
    FY_ANY_FLAG("Output", "show-prompt", show_prompt,
                "Show the rendered prompt before each answer."),
#ifndef FERRY_DEVICE
    {.group = "Output",
     .name = "no-history",
     .kind = FY_OPT_FLAG,
     .offset = offsetof(options, no_history),
     .host_only = true,
     .help = "Do not read or write the history of earlier chats."},
#endif
    FY_ROWS_ENGINE,
    FY_ROWS_SPEC,
    FY_ROWS_DEVICE FY_ROW_VERBOSE,
    FY_ROW_QUIET,
};

/* A run of the verb. */
typedef struct {
    options *o;
    bool terminal; /* somebody types and reads */
    fy_engine engine;
    fy_stops *stops; /* owned; NULL: none */
    fy_chat_params params;
    fy_structured structured;
    fy_chat chat;
} job;

static int set_system(job *j, fy_err *e)
{
    const options *o = j->o;
    const char *file = o->system_file != NULL ? o->system_file : o->system_prompt_file;
    fy_str text = {0};
    if (o->system == NULL && file == NULL)
        return 0;
    if (o->system != NULL && file != NULL)
        return fy_fail(e, FY_EARG, "--system and --system-file exclude each other");
    if (o->system_file != NULL && o->system_prompt_file != NULL)
        return fy_fail(e, FY_EARG, "--system-file and --system-prompt-file are the same: give one");
    if (file != NULL && fy_text_in_read(file, &text, e) != 0) {
        fy_str_release(&text);
        return -1;
    }
    if (o->system != NULL)
        fy_str_puts(&text, o->system);
    else if (text.len > 0 && text.ptr[text.len - 1] == '\n')
        text.len--;
    int rc = text.oom ? fy_nomem(e)
                      : fy_chat_messages_set_system(&j->chat.messages,
                                                    (fy_span){fy_str_z(&text), text.len}, e);
    fy_str_release(&text);
    return rc;
}

static int check_args(const options *o, fy_err *e)
{
    for (size_t i = 0; i < o->template_args.n; i++) {
        if (fy_chat_template_check_arg(o->template_args.items[i], e) != 0)
            return -1;
    }
    return 0;
}

static fy_on_full on_full(const job *j)
{
    return j->o->on_full >= 0 ? (fy_on_full)j->o->on_full
           : j->terminal      ? FY_FULL_DROP
                              : FY_FULL_STOP;
}

#define REMEDY                                                                                \
    "/undo takes the last message back, /reset starts over, and -c N gives a larger context"

static int open_all(job *j, fy_err *e)
{
    options *o = j->o;
    fy_chat *c = &j->chat;
    c->remedy = j->terminal ? REMEDY : "give a larger one with -c, or --on-full drop, or start over";
    if (fy_structured_read(&j->structured, &o->structured, e) != 0 || set_system(j, e) != 0 ||
        check_args(o, e) != 0 || fy_machine_pin(&o->engine.machine, e) != 0 ||
        fy_engine_open(&j->engine, &o->engine, true, e) != 0 ||
        fy_gen_stops_of(&o->gen, fy_vocab_turn_text(j->engine.vocab), &j->stops, e) != 0)
        return -1;
    c->engine = &j->engine;
    c->args = o->template_args.items;
    c->n_args = o->template_args.n;
    c->n = o->n;
    c->timings = o->timings;
    c->stops = j->stops;
    c->on_full = on_full(j);
    c->template = fy_chat_template_open(fy_model_gguf(j->engine.model), o->chat_template, e);
    if (c->template == NULL)
        return -1;
    j->params = (fy_chat_params){.rows = opts,
                                 .n_rows = sizeof opts / sizeof opts[0],
                                 .options = o,
                                 .gen = &o->gen,
                                 .n = &o->n,
                                 .engine = &j->engine};
    if (fy_chat_params_open(&j->params, e) != 0)
        return -1;
    c->sampler = j->params.sampler;
    if (fy_structured_begin(&j->structured, j->engine.vocab,
                            fy_model_hparams(j->engine.model)->n_vocab, e) != 0)
        return -1;
    c->grammar = j->structured.matcher;
    return 0;
}

/* One line that fits the terminal: a name that is too long is cut in its middle, as its end tells
 * the type. */
static void greet(const job *j, uint32_t n_ctx)
{
    const options *o = j->o;
    const char *path = o->engine.dir != NULL ? o->engine.dir : o->engine.model;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : path;
    const int columns = fy_terminal_columns(STDERR_FILENO, 80), n = (int)strlen(name);
    char rest[64];
    int n_rest = snprintf(rest, sizeof rest,
                          columns < 80 ? ", %u tokens; /help"
                                       : ", %u tokens of context; /help lists the commands",
                          n_ctx);
    int room = columns - 1 - n_rest, half = (room - 3) / 2;
    const char *end = name + (n > half ? n - half : 0);
    while (((unsigned char)*end & 0xC0) == 0x80) /* whole characters */
        end++;
    if (j->chat.remote == NULL)
        fy_log(FY_LOG_DEBUG, "model %s, template %s", fy_engine_model_path(&j->engine),
               fy_chat_template_name(j->chat.template));
    if (n <= room || half < 4)
        fy_log(FY_LOG_INFO, "%s%s", name, rest);
    else
        fy_log(FY_LOG_INFO, "%.*s...%s%s", (int)fy_utf8_complete(name, (size_t)half), name, end,
               rest);
}

static int at_terminal(job *j, fy_show_style style, fy_err *e)
{
    const options *o = j->o;
    fy_chat_shell sh = {.chat = &j->chat, .params = &j->params};
    char *history = NULL;
#ifndef FERRY_DEVICE
    if (!o->no_history)
        history = fy_history_path();
#endif
    const fy_chat_remote *r = j->chat.remote;
    greet(j, r != NULL ? r->n_ctx : fy_session_n_ctx(j->engine.session));
    int rc = fy_chat_terminal(&sh, style, history, o->show_prompt, e);
    free(history);
    return rc;
}

static int talk(job *j, fy_err *e)
{
    const options *o = j->o;
    bool shown = isatty(STDOUT_FILENO);
    fy_show_style style = {.think = o->think >= 0 ? (fy_show_think)o->think
                                    : shown       ? FY_SHOW_THINK_DIM
                                                  : FY_SHOW_THINK_HIDE,
                           .terminal = shown,
                           .colour = fy_colour(STDOUT_FILENO),
                           .wrap = fy_terminal(STDOUT_FILENO),
                           .one_line = !shown && o->prompt == NULL};
    if (o->prompt != NULL)
        return fy_chat_once(&j->chat, style, o->json, o->show_prompt, fy_span_of(o->prompt), e);
    if (o->json)
        return fy_chat_json(&(fy_chat_shell){&j->chat, &j->params}, o->show_prompt, e);
    return j->terminal ? at_terminal(j, style, e)
                       : fy_chat_lines(&j->chat, style, o->show_prompt, e);
}

bool fy_chat_is_typed(const void *opaque)
{
    const options *o = opaque;
    return !o->json && o->prompt == NULL && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

#ifndef FERRY_DEVICE
int fy_chat_typed(void *opaque, const fy_chat_remote *remote, fy_err *e)
{
    job j = {.o = opaque,
             .terminal = true,
             .params = {.rows = opts, .n_rows = sizeof opts / sizeof opts[0]},
             .chat = {.remote = remote, .remedy = REMEDY}};
    j.chat.on_full = on_full(&j);
    int rc = set_system(&j, e) == 0 ? talk(&j, e) : -1;
    fy_chat_release(&j.chat);
    return rc;
}
#endif

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    (void)n_args;
    (void)args;
    job j = {.o = opaque, .terminal = fy_chat_is_typed(opaque)};
    if (j.o->verbose || j.o->quiet)
        fy_log_show(j.o->quiet ? FY_LOG_WARN : FY_LOG_DEBUG);
    j.o->engine.keeps_windows = j.o->engine.keeps_snapshots = true;
    int rc = open_all(&j, e);
    if (rc == 0)
        rc = talk(&j, e);
    if (rc == 0)
        rc = fy_engine_save(&j.engine, e);
    fy_chat_release(&j.chat);
    fy_chat_template_free(j.chat.template);
    fy_stops_free(j.stops);
    fy_chat_params_close(&j.params);
    fy_structured_release(&j.structured);
    if (j.chat.engine != NULL)
        fy_engine_close(&j.engine);
    return rc;
}

static bool reads_input(const void *opaque, int n_args, char **args)
{
    (void)n_args;
    (void)args;
    return ((const options *)opaque)->prompt == NULL;
}

static const fy_model_slots slots = FY_ENGINE_SLOTS(options, true);

const fy_verb fy_verb_chat = {
    .name = "chat",
    .summary = "talk with a model",
    .synopsis = "[MODEL.gguf|DIR|ORG/NAME]",
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Holds a conversation. At a terminal: type a message, read the answer as it comes; /help "
        "lists the commands. Ctrl-C stops an answer, pressed again it leaves; Ctrl-D leaves. "
        "Nothing is computed twice: the part of the conversation in the cache is reused, and "
        "--verbose shows how much. When the context is full the model no longer sees the oldest "
        "turns, which is reported; --on-full chooses.\n\n"
        "With -p the answer to one message goes to standard output as it is, and that is all.\n\n"
        "Otherwise every line of standard input is a message, empty ones excepted, and every "
        "answer becomes one line of standard output: a newline inside it is written \\n, a return "
        "\\r and a backslash \\\\, so that printf %b shows it as it was. There are no commands "
        "then. The first failure ends the program.\n\n"
        "With --json standard output gets events: ready, token, answer, error, hidden when the "
        "context was full, and prompt with --show-prompt. A line of input may be a JSON object: a "
        "message with role and content, or "
        "a whole conversation as messages. A failure is an event and the program continues; SIGINT "
        "stops an answer.\n\n"
        "A value of sampling comes from its option, else from the workspace's hparams.json, else "
        "from what the model's makers set, else from the defaults.",
    .examples = "ferry chat -m model.gguf\n"
                "ferry chat -d workspace --system 'Answer in one sentence.' --temp 0.7\n"
                "ferry chat -m model.gguf -p 'Who are you?'\n"
                "# two questions, two lines of answers\n"
                "printf 'Who are you?\\nAre you sure?\\n' | ferry chat -m model.gguf\n"
                "# a model that thinks, asked not to\n"
                "ferry chat -m model.gguf --template-arg enable_thinking=false\n",
    .on_phone = true,
    .reads_input = reads_input,
    .model = &slots,
    .run = run,
};
