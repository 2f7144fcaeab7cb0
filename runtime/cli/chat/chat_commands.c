/* The commands of `ferry chat` at a terminal, such as /reset and /save, their completion, and the
 * parameters of sampling. */
#include "cli/chat/chat_commands.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/file.h"
#include "base/opts.h"
#include "base/str.h"
#include "cli/spec_options.h"
#include "cli/terminal.h"

/* --- parameters of sampling ------------------------------------------------------------------- */

/* --- names ------------------------------------------------------------------------------------ */

#define ANSWER_TOKENS "n-predict"

static bool is_param(const fy_opt *o)
{
    return strcmp(o->group, FY_GEN_GROUP) == 0 || strcmp(o->name, ANSWER_TOKENS) == 0;
}

static const char *params_name(const fy_chat_params *p, size_t i)
{
    for (size_t k = 0; k < p->n_rows; k++) {
        if (is_param(&p->rows[k]) && i-- == 0)
            return p->rows[k].name;
    }
    return NULL;
}

/* The row of a name, as long or short option or with underscores. */
static const fy_opt *find_param(const fy_chat_params *p, fy_span name, fy_err *e)
{
    const char *names[64];
    size_t n = 0;
    for (size_t k = 0; k < p->n_rows; k++) {
        const fy_opt *o = &p->rows[k];
        if (!is_param(o))
            continue;
        if (fy_opt_is_named(o, name.ptr, name.len) ||
            (o->alias != NULL && fy_span_is(name, o->alias)))
            return o;
        if (n < 64)
            names[n++] = o->name;
    }
    char word[FY_QUOTE_BYTES];
    fy_quote(word, sizeof word, name);
    const char *near = fy_nearest(word, names, n);
    if (near != NULL)
        fy_fail(e, FY_EARG, "no parameter is called '%s'; did you mean '%s'?", word, near);
    else
        fy_fail(e, FY_EARG, "no parameter is called '%s'; /params lists them", word);
    return NULL;
}

/* --- values ----------------------------------------------------------------------------------- */

static void put_order(const fy_sampler_params *s, fy_str *out)
{
    for (uint8_t i = 0; i < s->n_order; i++)
        fy_str_putc(out, "ekypmt"[s->order[i]]);
}

static void put_bias(const fy_sampler_params *s, fy_str *out)
{
    for (size_t i = 0; i < s->n_bias; i++)
        fy_str_printf(out, "%s%d%+g", i > 0 ? " " : "", s->bias[i].id, (double)s->bias[i].bias);
    if (s->n_bias == 0)
        fy_str_puts(out, "none");
}

typedef enum { REAL, WHOLE, SEED, ORDER, BIAS } value_kind;

static const struct {
    const char *name; /* of the option */
    value_kind kind;
    size_t offset; /* in fy_sampler_params */
} values[] = {
    {"temp", REAL, offsetof(fy_sampler_params, temperature)},
    {"top-k", WHOLE, offsetof(fy_sampler_params, top_k)},
    {"top-p", REAL, offsetof(fy_sampler_params, top_p)},
    {"min-p", REAL, offsetof(fy_sampler_params, min_p)},
    {"typical", REAL, offsetof(fy_sampler_params, typical_p)},
    {"repeat-penalty", REAL, offsetof(fy_sampler_params, repeat_penalty)},
    {"repeat-last-n", WHOLE, offsetof(fy_sampler_params, repeat_last_n)},
    {"presence-penalty", REAL, offsetof(fy_sampler_params, presence_penalty)},
    {"frequency-penalty", REAL, offsetof(fy_sampler_params, frequency_penalty)},
    {"logit-bias", BIAS, 0},
    {"samplers", ORDER, 0},
    {"seed", SEED, 0},
};

static void put_value(const fy_chat_params *p, const char *name, fy_str *out)
{
    const fy_sampler_params *s = &p->now.params;
    if (strcmp(name, ANSWER_TOKENS) == 0)
        fy_str_printf(out, "%lld", (long long)*p->n);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (strcmp(values[i].name, name) != 0)
            continue;
        const char *at = (const char *)s + values[i].offset;
        if (values[i].kind == REAL)
            fy_str_printf(out, "%g", (double)*(const float *)(const void *)at);
        else if (values[i].kind == WHOLE)
            fy_str_printf(out, "%d", *(const int32_t *)(const void *)at);
        else if (values[i].kind == SEED)
            fy_str_printf(out, "%llu", (unsigned long long)s->seed);
        else if (values[i].kind == ORDER)
            put_order(s, out);
        else
            put_bias(s, out);
    }
}

static int params_show(const fy_chat_params *p, fy_span name, fy_str *out, fy_err *e)
{
    const fy_opt *only = name.len > 0 ? find_param(p, name, e) : NULL;
    if (name.len > 0 && only == NULL)
        return -1;
    for (size_t k = 0; k < p->n_rows; k++) {
        const fy_opt *o = &p->rows[k];
        if (!is_param(o) || (only != NULL && o != only))
            continue;
        fy_str_printf(out, "%-18s ", o->name);
        put_value(p, o->name, out);
        fy_str_putc(out, '\n');
    }
    return 0;
}

/* --- changing them ---------------------------------------------------------------------------- */

/* Keeps a text for as long as the options may view it; NULL when out of memory. */
static const char *keep(fy_chat_params *p, fy_span text)
{
    char *copy = strndup(text.ptr, text.len);
    if (copy != NULL && fy_append(&p->texts, &p->n_texts, &p->cap, &copy, sizeof copy, NULL) == 0)
        return copy;
    free(copy);
    return NULL;
}

/* A seed that was drawn stays until the user sets another. */
static int keep_seed(fy_chat_params *p, fy_err *e)
{
    char text[24];
    if (!(p->now.params.temperature > 0))
        return 0;
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)p->now.params.seed);
    p->gen->seed = keep(p, (fy_span){text, (size_t)n});
    return p->gen->seed != NULL ? 0 : fy_nomem(e);
}

/* Takes the options as they are; on failure all stays as it was. */
static int apply(fy_chat_params *p, fy_err *e)
{
    const fy_engine *g = p->engine;
    const fy_hparams *hp = fy_model_hparams(g->model);
    fy_gen_params next;
    if (fy_gen_params_of(p->gen, g->has_bundle ? &g->bundle : NULL, fy_model_gguf(g->model), false,
                         hp->n_vocab, &next, e) != 0)
        return -1;
    fy_sampler *sampler = fy_sampler_new(&next.params, hp->n_vocab, g->vocab, e);
    if (sampler == NULL) {
        fy_gen_params_release(&next);
        return -1;
    }
    fy_sampler_free(p->sampler);
    fy_gen_params_release(&p->now);
    p->sampler = sampler;
    p->now = next;
    return keep_seed(p, e);
}

int fy_chat_params_open(fy_chat_params *p, fy_err *e)
{
    return apply(p, e);
}

void fy_chat_params_close(fy_chat_params *p)
{
    fy_sampler_free(p->sampler);
    fy_gen_params_release(&p->now);
    for (size_t i = 0; i < p->n_texts; i++)
        free(p->texts[i]);
    free(p->texts);
    *p = (fy_chat_params){0};
}

/* Stores the value in the options: all but this row count as given already. */
static int store(fy_chat_params *p, const fy_opt *row, const char *value, fy_err *e)
{
    const char **from = calloc(p->n_rows, sizeof *from);
    if (from == NULL)
        return fy_nomem(e);
    fy_opt_given given = {.row = (size_t)(row - p->rows), .value = value, .source = row->name};
    int rc = fy_opts_fill(p->rows, p->n_rows, p->options, &given, 1, from, e);
    free(from);
    return rc;
}

static int params_set(fy_chat_params *p, fy_span name, fy_span value, fy_err *e)
{
    const fy_opt *row = find_param(p, name, e);
    if (row == NULL)
        return -1;
    fy_gen_options before = *p->gen;
    int64_t n = *p->n;
    const char *text = keep(p, value);
    if (text == NULL)
        return fy_nomem(e);
    fy_log_level level = fy_log_show(FY_LOG_WARN); /* the values were logged at the start */
    int rc = store(p, row, text, e);
    if (rc == 0 && strcmp(row->name, ANSWER_TOKENS) != 0)
        rc = apply(p, e);
    fy_log_show(level);
    if (rc != 0) {
        size_t n_bias = before.logit_bias.n;
        before.logit_bias = p->gen->logit_bias; /* its array may have moved */
        before.logit_bias.n = n_bias;
        *p->gen = before;
        *p->n = n;
    }
    return rc;
}

/* --- commands --------------------------------------------------------------------------------- */

typedef struct {
    const char *name, *arg, *help; /* arg NULL: takes none; "[X]": may be left out */
    int (*run)(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e);
    fy_chat_next next; /* when run succeeds */
} command;

static fy_span trim(fy_span s)
{
    while (s.len > 0 && strchr(" \t\n", s.ptr[0]) != NULL && s.ptr[0] != '\0') {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && strchr(" \t\n", s.ptr[s.len - 1]) != NULL && s.ptr[s.len - 1] != '\0')
        s.len--;
    return s;
}

/* The first word of s; *rest is what follows it, without white space around it. */
static fy_span first_word(fy_span s, fy_span *rest)
{
    size_t n = 0;
    while (n < s.len && s.ptr[n] != ' ' && s.ptr[n] != '\t' && s.ptr[n] != '\n')
        n++;
    *rest = trim((fy_span){s.ptr + n, s.len - n});
    return (fy_span){s.ptr, n};
}

/* --- the commands ----------------------------------------------------------------------------- */

static int run_nothing(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    (void)sh;
    (void)arg;
    (void)out;
    (void)e;
    return 0;
}

static void put_beginning(fy_str *out, fy_span text)
{
    char words[FY_QUOTE_BYTES];
    fy_str_puts(out, fy_quote(words, sizeof words, text));
}

static int run_reset(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    (void)arg;
    (void)e;
    fy_chat_messages *m = &sh->chat->messages;
    bool system = fy_chat_messages_system(m).ptr != NULL;
    fy_chat_messages_cut(m, system);
    fy_str_puts(out, system ? "a new conversation, with the same system message\n"
                            : "a new conversation\n");
    return 0;
}

static int run_system(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    fy_chat_messages *m = &sh->chat->messages;
    if (arg.len > 0) {
        bool remove = fy_span_is(arg, "-");
        fy_str_puts(out, remove ? "no system message\n" : "the system message is set\n");
        return fy_chat_messages_set_system(m, remove ? (fy_span){0} : arg, e);
    }
    fy_span now = fy_chat_messages_system(m);
    if (now.ptr == NULL) {
        fy_str_puts(out, "no system message\n");
        return 0;
    }
    fy_str_add(out, now.ptr, now.len);
    fy_str_putc(out, '\n');
    return 0;
}

/* "~/x" as a shell would read it. */
static void expand(fy_span path, fy_str *out)
{
    const char *home = getenv("HOME");
    if (path.len >= 2 && memcmp(path.ptr, "~/", 2) == 0 && home != NULL) {
        fy_str_puts(out, home);
        path = (fy_span){path.ptr + 1, path.len - 1};
    }
    fy_str_add(out, path.ptr, path.len);
}

static int save_or_load(fy_chat_messages *m, bool save, fy_span arg, fy_str *out, fy_err *e)
{
    fy_str path = {0};
    expand(arg, &path);
    int rc = path.oom ? fy_nomem(e)
             : save   ? fy_chat_messages_save(m, path.ptr, e)
                      : fy_chat_messages_load(m, path.ptr, e);
    if (rc == 0)
        fy_str_printf(out, "%zu message%s %s %s\n", m->n, m->n == 1 ? "" : "s",
                      save ? "saved to" : "loaded from", path.ptr);
    fy_str_release(&path);
    return rc;
}

/* A role as a heading: "user" becomes "User". */
static void put_role(const fy_chat_message *m, fy_str *out)
{
    char role[FY_QUOTE_BYTES];
    fy_quote(role, sizeof role, (fy_span){fy_str_z(&m->role), m->role.len});
    if (role[0] >= 'a' && role[0] <= 'z')
        role[0] = (char)(role[0] - 'a' + 'A');
    fy_str_printf(out, "## %s\n\n", role);
}

/* What a message holds besides text stays JSON. */
static void put_markdown(const fy_chat_messages *m, fy_str *out)
{
    for (size_t i = 0; i < m->n; i++) {
        const fy_chat_message *one = &m->items[i];
        fy_str_puts(out, i > 0 ? "\n" : "");
        put_role(one, out);
        if (one->content.len > 0)
            fy_str_add(out, one->content.ptr, one->content.len);
        else
            fy_str_printf(out, "```json\n%s\n```", fy_str_z(&one->json));
        if (out->len > 0 && out->ptr[out->len - 1] != '\n')
            fy_str_putc(out, '\n');
    }
}

static int run_export(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    const fy_chat_messages *m = &sh->chat->messages;
    fy_str path = {0}, text = {0};
    expand(arg, &path);
    put_markdown(m, &text);
    int rc =
        path.oom || text.oom ? fy_nomem(e) : fy_file_write(path.ptr, fy_str_z(&text), text.len, e);
    if (rc == 0)
        fy_str_printf(out, "%zu message%s exported to %s\n", m->n, m->n == 1 ? "" : "s", path.ptr);
    fy_str_release(&path);
    fy_str_release(&text);
    return rc;
}

static int run_edit(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    (void)arg;
    (void)out;
    return fy_chat_messages_last_user(&sh->chat->messages) < sh->chat->messages.n
               ? 0
               : fy_fail(e, FY_EARG, "no message to edit");
}

static int run_timings(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    (void)arg;
    (void)e;
    sh->chat->timings = !sh->chat->timings;
    fy_str_puts(out, sh->chat->timings ? "times are shown after each answer\n"
                                       : "times are not shown\n");
    return 0;
}

static int run_save(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    return save_or_load(&sh->chat->messages, true, arg, out, e);
}

static int run_load(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    return save_or_load(&sh->chat->messages, false, arg, out, e);
}

static int run_regen(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    (void)arg;
    (void)out;
    const fy_chat_messages *m = &sh->chat->messages;
    if (m->n == 0 || fy_chat_messages_ends_in(m, "system"))
        return fy_fail(e, FY_EARG, "no message to answer again");
    return 0;
}

/* Takes back all from the last message of the user on. */
static int run_undo(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    (void)arg;
    fy_chat_messages *m = &sh->chat->messages;
    const size_t at = fy_chat_messages_last_user(m);
    if (at == m->n)
        return fy_fail(e, FY_EARG, "no message to take back");
    fy_str_puts(out, "taken back: ");
    put_beginning(out, (fy_span){fy_str_z(&m->items[at].content), m->items[at].content.len});
    fy_str_putc(out, '\n');
    fy_chat_messages_cut(m, at);
    return 0;
}

static int run_params(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    fy_span value, name = first_word(arg, &value);
    if (value.len > 0 && params_set(sh->params, name, value, e) != 0)
        return -1;
    sh->chat->sampler = sh->params->sampler;
    sh->chat->n = *sh->params->n;
    return params_show(sh->params, name, out, e);
}

static int run_tokens(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    (void)arg;
    uint32_t n, n_ctx = fy_session_n_ctx(sh->chat->engine->session);
    if (fy_chat_count(sh->chat, &n, e) != 0)
        return -1;
    fy_str_printf(out, "%u of %u tokens (%.0f %%), %zu messages\n", n, n_ctx, 100.0 * n / n_ctx,
                  sh->chat->messages.n);
    return 0;
}

static int run_stats(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    (void)arg;
    (void)e;
    const fy_speculator *s = sh->chat->engine->speculator;
    const size_t at = out->len;
    if (s != NULL)
        fy_spec_line(s, out);
    if (out->len == at)
        fy_str_puts(out, s != NULL ? "nothing was computed yet" : "no guesses: --spec makes them");
    fy_str_putc(out, '\n');
    return 0;
}

static int run_help(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e);

static const command commands[] = {
    {"help", NULL, "this list", run_help, FY_CHAT_NEXT_LINE},
    {"reset", NULL, "begin a new conversation; the system message stays", run_reset,
     FY_CHAT_NEXT_LINE},
    {"system", "[TEXT]", "set the system message; show it; '-' takes it away", run_system,
     FY_CHAT_NEXT_LINE},
    {"save", "FILE", "write the conversation as JSON", run_save, FY_CHAT_NEXT_LINE},
    {"load", "FILE", "resume a conversation that was saved", run_load, FY_CHAT_NEXT_LINE},
    {"export", "FILE.md", "write the conversation as Markdown", run_export, FY_CHAT_NEXT_LINE},
    {"regen", NULL, "answer the last message again", run_regen, FY_CHAT_ANSWER},
    {"edit", NULL, "change the last message, in $EDITOR or in the line, and send it again",
     run_edit, FY_CHAT_EDIT},
    {"undo", NULL, "take the last message and its answer back", run_undo, FY_CHAT_NEXT_LINE},
    {"params", "[NAME [VALUE]]", "show or change how tokens are sampled", run_params,
     FY_CHAT_NEXT_LINE},
    {"tokens", NULL, "how much of the context is used", run_tokens, FY_CHAT_NEXT_LINE},
    {"timings", NULL, "show times and tokens per second after each answer, or not", run_timings,
     FY_CHAT_NEXT_LINE},
    {"stats", NULL, "how many guesses of --spec were right, by method", run_stats,
     FY_CHAT_NEXT_LINE},
    {"quit", NULL, "leave, as Ctrl-D does", run_nothing, FY_CHAT_QUIT},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static int run_help(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    (void)sh;
    (void)arg;
    (void)e;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const command *c = &commands[i];
        int n = (int)strlen(c->name) + (c->arg != NULL ? (int)strlen(c->arg) + 1 : 0);
        fy_str_printf(out, "  /%s%s%s%*s%s\n", c->name, c->arg != NULL ? " " : "",
                      c->arg != NULL ? c->arg : "", 24 - n, "", c->help);
    }
    fy_str_puts(out, "A line that ends in \\ continues in the next one, and \"\"\" begins and ends "
                     "several lines.\nCtrl-C stops an answer. A message that begins with a slash "
                     "is sent with two.\n");
    return 0;
}

/* --- parsing ---------------------------------------------------------------------------------- */

/* What users of other programs type. */
static const char *own_name(fy_span name)
{
    return fy_span_is(name, "regenerate") || fy_span_is(name, "retry") ? "regen"
           : fy_span_is(name, "bye") || fy_span_is(name, "exit")       ? "quit"
           : fy_span_is(name, "clear")                                 ? "reset"
                                                                       : NULL;
}

static const command *find(fy_span name, fy_err *e)
{
    const char *names[N_COMMANDS], *own = own_name(name);
    if (own != NULL)
        name = fy_span_of(own);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (fy_span_is(name, commands[i].name))
            return &commands[i];
        names[i] = commands[i].name;
    }
    char word[FY_QUOTE_BYTES];
    fy_quote(word, sizeof word, name);
    const char *near = fy_nearest(word, names, N_COMMANDS);
    if (near != NULL)
        fy_fail(e, FY_EARG, "no command is called '/%s'; did you mean '/%s'?", word, near);
    else
        fy_fail(e, FY_EARG,
                "no command is called '/%s'; /help lists them, and // sends a message that begins "
                "with a slash",
                word);
    return NULL;
}

bool fy_chat_is_command(fy_span line, fy_span *message)
{
    fy_span rest;
    bool slash = line.len > 0 && line.ptr[0] == '/';
    bool two = slash && line.len > 1 && line.ptr[1] == '/';
    *message = two ? (fy_span){line.ptr + 1, line.len - 1} : line;
    if (!slash || two)
        return false;
    return memchr(line.ptr, '\n', line.len) == NULL || /* what was pasted may begin with a path */
           find(first_word((fy_span){line.ptr + 1, line.len - 1}, &rest), NULL) != NULL;
}

bool fy_chat_asks_model(fy_span line)
{
    fy_span arg, name = first_word(line, &arg);
    return fy_span_is(name, "/params") || fy_span_is(name, "/tokens");
}

int fy_chat_command(fy_chat_shell *sh, fy_span line, fy_str *out, fy_chat_next *next, fy_err *e)
{
    fy_span arg, name = first_word((fy_span){line.ptr + 1, line.len - 1}, &arg);
    const command *c = find(name, e);
    if (c == NULL)
        return -1;
    if (arg.len > 0 && c->arg == NULL)
        return fy_fail(e, FY_EARG, "/%s takes no argument", c->name);
    if (arg.len == 0 && c->arg != NULL && c->arg[0] != '[')
        return fy_fail(e, FY_EARG, "/%s needs its argument: /%s %s", c->name, c->name, c->arg);
    const fy_chat_remote *r = sh->chat->remote;
    int rc = r != NULL && fy_chat_asks_model(line)
                 ? r->command(r->user, &sh->chat->messages, line, out, e)
                 : c->run(sh, arg, out, e);
    if (rc != 0)
        return -1;
    *next = c->next;
    return out->oom ? fy_nomem(e) : 0;
}

/* --- completion ------------------------------------------------------------------------------- */

/* Words that begin with what was typed. */
typedef struct {
    fy_span typed;
    fy_str common; /* what all of them begin with */
    fy_str list;
    size_t n;
} candidates;

static void consider(candidates *c, const char *word, const char *suffix)
{
    size_t n = strlen(word), same = 0;
    if (n < c->typed.len || memcmp(word, c->typed.ptr, c->typed.len) != 0)
        return;
    if (c->n++ == 0) {
        fy_str_puts(&c->common, word);
        fy_str_puts(&c->common, suffix);
    } else {
        while (same < c->common.len && same < n && c->common.ptr[same] == word[same])
            same++;
        c->common.len = same;
    }
    fy_str_printf(&c->list, "%s%s%s", c->list.len > 0 ? "  " : "", word, suffix);
}

static void give(candidates *c, fy_str *insert, fy_str *list)
{
    size_t whole = 0; /* a character is inserted whole or not at all */
    for (size_t i = 0; i < c->common.len; i++) {
        if (i + 1 == c->common.len || ((unsigned char)c->common.ptr[i + 1] & 0xC0) != 0x80)
            whole = i + 1;
    }
    if (whole > c->typed.len)
        fy_str_add(insert, c->common.ptr + c->typed.len, whole - c->typed.len);
    else if (c->n > 1)
        fy_str_add(list, c->list.ptr, c->list.len);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Names of files in the directory of `path`; what begins with a dot when it was typed. */
static void consider_files(candidates *c, fy_span path)
{
    enum { MOST = 100 };
    size_t dir = path.len;
    while (dir > 0 && path.ptr[dir - 1] != '/')
        dir--;
    fy_str name = {0};
    expand((fy_span){path.ptr, dir}, &name);
    if (dir == 0)
        fy_str_puts(&name, ".");
    c->typed = (fy_span){path.ptr + dir, path.len - dir};
    struct dirent **found = NULL;
    int n = name.oom ? -1 : scandir(name.ptr, &found, NULL, by_name);
    for (int i = 0; i < n; i++) {
        const char *entry = found[i]->d_name;
        bool shown = (entry[0] != '.' || (c->typed.len > 0 && c->typed.ptr[0] == '.')) &&
                     strpbrk(entry, "\n\t\033") == NULL && c->n < MOST;
        if (shown)
            consider(c, entry, found[i]->d_type == DT_DIR ? "/" : "");
        free(found[i]);
    }
    free(found);
    fy_str_release(&name);
}

void fy_chat_complete(const fy_chat_shell *sh, fy_span before, fy_str *insert, fy_str *list)
{
    fy_span message, arg;
    if (!fy_chat_is_command(before, &message))
        return;
    candidates c = {0};
    fy_span name = first_word((fy_span){before.ptr + 1, before.len - 1}, &arg);
    bool in_name = name.len + 1 == before.len;
    const char *known = NULL;
    for (size_t i = 0; in_name && i < N_COMMANDS; i++) {
        char word[16];
        snprintf(word, sizeof word, "/%s", commands[i].name);
        c.typed = before;
        consider(&c, word, commands[i].arg != NULL ? " " : "");
    }
    if (!in_name &&
        (fy_span_is(name, "save") || fy_span_is(name, "load") || fy_span_is(name, "export")))
        consider_files(&c, arg);
    for (size_t i = 0;
         !in_name && fy_span_is(name, "params") && (known = params_name(sh->params, i)) != NULL;
         i++) {
        c.typed = arg;
        consider(&c, known, " ");
    }
    give(&c, insert, list);
    fy_str_release(&c.common);
    fy_str_release(&c.list);
}
