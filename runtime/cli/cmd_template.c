/* ferry template: renders a conversation as a prompt, answers JSON lines for tests and scripts, and
 * checks the templates of a model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/template_request.h"
#include "cli/terminal.h"
#include "cli/text_io.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "cli/engine.h"

typedef struct {
    const char *model, *file, *chat_template, *messages, *tools, *bos_token, *eos_token, *verify,
        *device, *serial;
    int64_t cache_size;
    fy_opt_list args;
    bool no_generation_prompt, ids, check, list, jsonl, quiet, verbose;
} options;

/* The conversation when none is given. */
static const char example[] = "[{\"role\":\"user\",\"content\":\"Hello\"},"
                              "{\"role\":\"assistant\",\"content\":\"Hi there\"},"
                              "{\"role\":\"user\",\"content\":\"How are you?\"}]";

/* A run of the verb: the options and what they opened. */
typedef struct {
    const options *o;
    fy_gguf *gguf; /* owned; NULL: no model */
    fy_template_defaults defaults;
} job;

/* --- the options --- */

static int check_options(const options *o, int n_modes, fy_err *e)
{
    if (n_modes > 1)
        return fy_fail(e, FY_EARG, "--jsonl, --verify, --check and --list exclude each other");
    if (n_modes == 1 && (o->messages != NULL || o->tools != NULL || o->ids))
        return fy_fail(e, FY_EARG, "--%s takes no --messages, --tools or --ids",
                       o->jsonl            ? "jsonl"
                       : o->verify != NULL ? "verify"
                       : o->check          ? "check"
                                           : "list");
    if (o->file != NULL && o->chat_template != NULL)
        return fy_fail(e, FY_EARG, "--file and --chat-template exclude each other");
    if (o->ids && o->model == NULL)
        return fy_fail(e, FY_EARG, "--ids needs a vocabulary: give -m FILE.gguf or -m DIR");
    if (o->messages != NULL && o->tools != NULL && strcmp(o->messages, "-") == 0 &&
        strcmp(o->tools, "-") == 0)
        return fy_fail(e, FY_EARG, "--messages and --tools cannot both be standard input");
    for (size_t i = 0; i < o->args.n; i++) {
        if (fy_chat_template_check_arg(o->args.items[i], e) != 0)
            return -1;
    }
    return 0;
}

/* --- the template --- */

static int keep_token(fy_request_text *t, const char *option, fy_span own, fy_err *e)
{
    fy_span text = option != NULL ? fy_span_of(option) : own;
    fy_str_add(&t->s, text.ptr, text.len);
    t->there = text.ptr != NULL;
    return t->s.oom ? fy_nomem(e) : 0;
}

/* Lines and cases may bring their own template; everything else needs one. */
static int open_template(job *j, fy_err *e)
{
    const options *o = j->o;
    fy_template_defaults *d = &j->defaults;
    fy_span none = {0};
    bool any = o->model != NULL || o->file != NULL || o->chat_template != NULL;
    d->args = o->args.items;
    d->n_args = o->args.n;
    d->add_generation_prompt = !o->no_generation_prompt;
    if (!any && !o->jsonl && o->verify == NULL)
        return fy_fail(e, FY_EARG,
                       "which template? give -m MODEL, --file FILE or --chat-template NAME");
    if (o->model != NULL && (j->gguf = fy_vocab_source_open(o->model, e)) == NULL)
        return -1;
    if (any) {
        d->loaded = o->file != NULL ? fy_chat_template_open_file(j->gguf, o->file, e)
                                    : fy_chat_template_open(j->gguf, o->chat_template, e);
        if (d->loaded == NULL)
            return -1;
    }
    if (keep_token(&d->bos_token, o->bos_token,
                   any ? fy_chat_template_token(d->loaded, "bos_token") : none, e) != 0)
        return -1;
    return keep_token(&d->eos_token, o->eos_token,
                      any ? fy_chat_template_token(d->loaded, "eos_token") : none, e);
}

static int run_list(fy_err *e)
{
    fy_str s = {0};
    for (const fy_chat_builtin *b = fy_chat_builtins; b->name != NULL; b++)
        fy_str_printf(&s, "%-14s %s\n", b->name, b->summary);
    return fy_stdout_text(&s, e);
}

/* The template is parsed when this is called; the model's named ones are not yet. */
static int run_check(const job *j, fy_err *e)
{
    const fy_gguf_kv *names = NULL;
    fy_str s = {0}, name = {0};
    uint64_t pos = 0;
    int rc = 0;
    bool own = j->gguf != NULL && j->o->file == NULL && j->o->chat_template == NULL;
    if (own && fy_gguf_get_array(j->gguf, FY_KEY_CHAT_TEMPLATES, FY_KV_STRING, &names, e) < 0)
        return -1;
    fy_str_printf(&s, "%s: ok\n", fy_chat_template_name(j->defaults.loaded));
    for (uint64_t i = 0; rc == 0 && names != NULL && i < names->count; i++) {
        fy_span n = fy_gguf_next_string(names, &pos);
        fy_str_clear(&name);
        fy_str_add(&name, n.ptr, n.len);
        fy_chat_template *t = fy_chat_template_open(j->gguf, fy_str_z(&name), e);
        rc = t != NULL ? 0 : -1;
        fy_chat_template_free(t);
        fy_str_printf(&s, FY_KEY_CHAT_TEMPLATE ".%s: ok\n", fy_str_z(&name));
    }
    if (rc == 0)
        rc = fy_stdout_text(&s, e);
    fy_str_release(&s);
    fy_str_release(&name);
    return rc;
}

/* --- one conversation --- */

/* A list of messages, or an object with "messages" and more. */
static int read_conversation(fy_template_request *r, fy_span text, fy_err *e)
{
    fy_json *j = fy_json_new(text.ptr, text.len, e);
    if (j == NULL)
        return -1;
    int rc = 0;
    if (fy_json_peek(j) == FY_JSON_OBJECT) {
        rc = fy_template_request_read(r, j, text, e);
    } else if (fy_json_peek(j) == FY_JSON_ARRAY) {
        r->messages = text;
        rc = fy_json_skip(j, e);
    } else {
        rc = fy_fail(e, FY_EFORMAT,
                     "expected a JSON list of messages, or an object with "
                     "\"messages\"");
    }
    if (rc == 0)
        rc = fy_json_end(j, e);
    fy_json_free(j);
    return rc;
}

static int check_tools(fy_span text, fy_err *e)
{
    fy_json *j = fy_json_new(text.ptr, text.len, e);
    int rc = j == NULL ? -1
             : fy_json_peek(j) != FY_JSON_ARRAY && fy_json_peek(j) != FY_JSON_NULL
                 ? fy_fail(e, FY_EFORMAT, "expected a JSON list of tools")
                 : 0;
    if (rc == 0 && fy_json_skip(j, e) == 0)
        rc = fy_json_end(j, e);
    fy_json_free(j);
    return rc;
}

static int put_ids(const job *j, const fy_str *text, fy_str *out, fy_err *e)
{
    fy_ids ids = {0};
    fy_vocab *v = fy_vocab_load(j->gguf, e);
    int rc = v != NULL ? fy_chat_encode_text(v, (fy_span){fy_str_z(text), text->len}, &ids, e) : -1;
    for (size_t i = 0; rc == 0 && i < ids.n; i++)
        fy_str_printf(out, "%s%d", i > 0 ? " " : "", (int)ids.id[i]);
    fy_str_putc(out, '\n');
    fy_ids_release(&ids);
    fy_vocab_free(v);
    return rc;
}

static int show(const job *j, const fy_template_request *r, fy_err *e)
{
    fy_str text = {0}, ids = {0};
    fy_err why = {0};
    int rc = fy_template_request_render(r, &j->defaults, &text, &why);
    if (rc != 0 && why.code == FY_EARG) /* the options are right, but the template refuses the conversation */
        fy_fail(e, FY_EFORMAT, "%s: the template refuses this conversation: %s",
                j->defaults.loaded != NULL ? fy_chat_template_name(j->defaults.loaded) : "template",
                why.msg);
    else if (rc != 0)
        fy_fail(e, why.code, "%s", why.msg);
    else if (j->o->ids)
        rc = put_ids(j, &text, &ids, e);
    else if (isatty(STDOUT_FILENO) && text.len > 0 && text.ptr[text.len - 1] != '\n')
        fy_str_putc(&text, '\n'); /* the shell's prompt starts on its own line */
    if (rc == 0)
        rc = fy_stdout_text(j->o->ids ? &ids : &text, e);
    fy_str_release(&text);
    fy_str_release(&ids);
    return rc;
}

static int run_one(const job *j, fy_err *e)
{
    fy_template_request r = {0};
    fy_str messages = {0}, tools = {0};
    const char *path = j->o->messages;
    int rc = 0;
    if (path == NULL)
        fy_str_puts(&messages, example);
    else
        rc = fy_text_in_read(path, &messages, e);
    if (rc == 0 && read_conversation(&r, (fy_span){fy_str_z(&messages), messages.len}, e) != 0)
        rc = fy_ctx(e, "%s", path != NULL ? path : "example");
    if (rc == 0 && j->o->tools != NULL) {
        rc = fy_text_in_read(j->o->tools, &tools, e);
        r.tools = (fy_span){fy_str_z(&tools), tools.len};
        if (rc == 0 && check_tools(r.tools, e) != 0)
            rc = fy_ctx(e, "%s", j->o->tools);
    }
    if (rc == 0)
        rc = show(j, &r, e);
    fy_template_request_release(&r);
    fy_str_release(&messages);
    fy_str_release(&tools);
    return rc;
}

/* --- JSON lines --- */

static int read_request(fy_template_request *r, fy_span line, fy_err *e)
{
    fy_json *j = fy_json_new(line.ptr, line.len, e);
    int rc = j != NULL ? fy_template_request_read(r, j, line, e) : -1;
    if (rc == 0)
        rc = fy_json_end(j, e);
    fy_json_free(j);
    return rc;
}

/* *was_json: the line could be read, whatever the result. */
static void answer(const job *j, fy_template_request *r, fy_span line, fy_str *out, bool *was_json)
{
    fy_err why = {0};
    fy_str text = {0};
    bool ok = read_request(r, line, &why) == 0;
    *was_json = *was_json || ok;
    ok = ok && fy_template_request_render(r, &j->defaults, &text, &why) == 0;
    fy_str_puts(out, ok ? "{\"text\": " : "{\"error\": ");
    fy_json_put_string(out, ok ? (fy_span){fy_str_z(&text), text.len} : fy_span_of(why.msg));
    fy_str_puts(out, "}\n");
    fy_str_release(&text);
}

static int run_jsonl(const job *j, fy_err *e)
{
    fy_template_request r = {0};
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    bool any = false, was_json = false;
    while (rc == 0) {
        errno = 0;
        ssize_t n = getline(&line, &cap, stdin);
        if (n < 0) {
            rc = feof(stdin) ? 0 : fy_fail_errno(e, "cannot read standard input");
            break;
        }
        if (strspn(line, " \t\r\n") == (size_t)n)
            continue;
        fy_str out = {0};
        any = true;
        answer(j, &r, (fy_span){line, (size_t)n}, &out, &was_json);
        rc = fy_stdout_text(&out, e);
    }
    if (rc == 0 && any && !was_json)
        rc = fy_fail(e, FY_EFORMAT, "standard input: no line is a JSON object");
    free(line);
    fy_template_request_release(&r);
    return rc;
}

/* --- the verb --- */

static bool reads_input(const void *opaque, int n_args, char **args)
{
    const options *o = opaque;
    (void)n_args;
    (void)args;
    return o->jsonl;
}

static int run_verify(job *j, fy_err *e)
{
    fy_str report = {0};
    fy_err why = {0};
    int rc = fy_template_verify(j->o->verify, &j->defaults, &report, &why);
    if ((rc == 0 || why.code == FY_EVERIFY) && fy_stdout_text(&report, e) != 0)
        rc = -1;
    if (rc != 0)
        fy_fail(e, why.code, "%s", why.msg);
    fy_str_release(&report);
    return rc;
}

static int run(void *opts, int n_args, char **args, fy_err *e)
{
    job j = {.o = opts};
    const options *o = opts;
    (void)n_args;
    (void)args;
    if (check_options(o, o->jsonl + (o->verify != NULL) + o->check + o->list, e) != 0)
        return -1;
    if (o->list)
        return run_list(e);
    int rc = open_template(&j, e);
    if (rc == 0)
        rc = o->jsonl            ? run_jsonl(&j, e)
             : o->verify != NULL ? run_verify(&j, e)
             : o->check          ? run_check(&j, e)
                                 : run_one(&j, e);
    fy_template_defaults_release(&j.defaults);
    fy_gguf_close(j.gguf);
    return rc;
}

/* clang-format off */
static const fy_opt opts_table[] = {
    {.group = "Template", .name = "model", .alias = "m", .kind = FY_OPT_STR, .arg = "FILE.gguf|DIR",
     .set = "model", .offset = offsetof(options, model), .file = FY_FILE_WORKSPACE,
     .help = "A GGUF file, a workspace, or a directory with a checkpoint's tokenizer files: its template, BOS and EOS."},
    {.group = "Template", .name = "file", .kind = FY_OPT_STR, .arg = "FILE.jinja", .set = "template",
     .line_only = true, .offset = offsetof(options, file), .file = FY_FILE_IN,
     .help = "A Jinja file instead of the model's template."},
    {.group = "Template", .name = "chat-template", .kind = FY_OPT_STR, .arg = "NAME|FILE.jinja",
     .set = "template", .offset = offsetof(options, chat_template), .file = FY_FILE_OR_WORD,
     .help = "A template of the model by name, a built-in one, or a file, instead of the model's default."},
    {.group = "Template", .name = "bos-token", .kind = FY_OPT_STR, .arg = "TEXT",
     .offset = offsetof(options, bos_token),
     .help = "Value of bos_token; the model's when not given, undefined without a model."},
    {.group = "Template", .name = "eos-token", .kind = FY_OPT_STR, .arg = "TEXT",
     .offset = offsetof(options, eos_token), .help = "The same for eos_token."},
    {.group = "Template", .name = "list", .kind = FY_OPT_FLAG, .set = "job", .line_only = true, .offset = offsetof(options, list),
     .help = "List the built-in templates."},
    {.group = "Template", .name = "check", .kind = FY_OPT_FLAG, .set = "job", .line_only = true, .offset = offsetof(options, check),
     .help = "Only check whether ferry accepts the template, and every named template of a model."},
    {.group = "Conversation", .name = "messages", .kind = FY_OPT_STR, .arg = "FILE.json", .line_only = true,
     .offset = offsetof(options, messages), .file = FY_FILE_IN,
     .help = "JSON: a list of messages, or an object with \"messages\" and, if wanted, \"tools\", \"extra\" and "
             "\"add_generation_prompt\"; - is standard input. Without it a short example is shown."},
    {.group = "Conversation", .name = "tools", .kind = FY_OPT_STR, .arg = "FILE.json", .line_only = true,
     .offset = offsetof(options, tools), .file = FY_FILE_IN, .help = "JSON: a list of tools; - is standard input."},
    {.group = "Conversation", .name = "template-arg", .kind = FY_OPT_STR, .arg = "KEY=VALUE", .many = true,
     .offset = offsetof(options, args),
     .help = "A variable of the template; may be repeated. VALUE is JSON if it parses as JSON "
             "(true, 3, \"3\", [1, 2]), else text."},
    {.group = "Conversation", .name = "no-generation-prompt", .kind = FY_OPT_FLAG,
     .offset = offsetof(options, no_generation_prompt),
     .help = "Leave out the text that begins the answer."},
    {.group = "Output", .name = "ids", .kind = FY_OPT_FLAG, .line_only = true, .offset = offsetof(options, ids),
     .help = "Print the token ids of the prompt, as chat would compute it."},
    {.group = "Output", .name = "jsonl", .kind = FY_OPT_FLAG, .set = "job", .line_only = true, .offset = offsetof(options, jsonl),
     .help = "Read requests from standard input, a JSON object per line; answer each with a line "
             "{\"text\"} or {\"error\"}."},
    {.group = "Output", .name = "verify", .kind = FY_OPT_STR, .arg = "FILE.json", .set = "job", .line_only = true,
     .offset = offsetof(options, verify), .file = FY_FILE_IN,
     .help = "Compare with the answers of a reference in FILE; exit 4 if any differs."},
    FY_ROWS_DEVICE
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static const fy_model_slots slots = {.model = offsetof(options, model), .checkpoint = true, .first_arg = true};

const fy_verb fy_verb_template = {
    .name = "template",
    .summary = "show the prompt that a conversation becomes",
    .synopsis = "[MODEL.gguf|DIR|ORG/NAME]",
    .max_args = 1,
    .opts = opts_table,
    .n_opts = sizeof opts_table / sizeof opts_table[0],
    .opts_bytes = sizeof(options),
    .description =
        "Renders a chat template as Hugging Face transformers does: the model's own, a file, or a "
        "built-in one. The prompt goes to standard output as it is, with no newline added.\n\n"
        "A request of --jsonl has \"messages\" and may have \"tools\", \"extra\" (further variables by "
        "name), \"add_generation_prompt\", \"bos_token\", \"eos_token\" and its own \"template\"; what is "
        "absent comes from the options. A request with \"context\" and no \"messages\" sets exactly "
        "the variables of that object. Every line is answered at once; a line that is not JSON or that the "
        "template refuses is answered with \"error\", which is the text of raise_exception where the "
        "template called it. The exit status is 0 unless no line at all could be read.\n\n"
        "--verify reads {\"cases\": [...]} whose members are such requests with \"name\" and either "
        "\"expected\" or \"error\"; \"bos_token\" and \"eos_token\" may stand next to \"cases\". With "
        "\"kind\" any error is right, without it the text must be the same.\n\n"
        "strftime_now shows the local time, or that of SOURCE_DATE_EPOCH.",
    .examples = "ferry template -m model.gguf\n"
                "ferry template -m checkpoint --messages messages.json --template-arg enable_thinking=false\n"
                "# what a format looks like\n"
                "ferry template --chat-template llama3 --bos-token '<|begin_of_text|>'\n"
                "# would ferry take it, and does it print what its reference prints?\n"
                "ferry template --file template.jinja --check\n"
                "ferry template --file template.jinja --verify parity.json\n",
    .model = &slots,
    .run = run,
    .on_phone = true,
    .reads_input = reads_input,
    .environment =
        "SOURCE_DATE_EPOCH the time that strftime_now shows, in seconds since 1970, as UTC\n",
};
/* clang-format on */
