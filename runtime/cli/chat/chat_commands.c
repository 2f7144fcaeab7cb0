/* The commands of `ferry chat` at a terminal, such as /reset and /save, and their completion. */
#include "cli/chat/chat_commands.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/opts.h"
#include "base/str.h"
#include "cli/chat/chat_show.h"

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

/* The first word of s; *rest is what follows it, without blanks around. */
static fy_span first_word(fy_span s, fy_span *rest)
{
    size_t n = 0;
    while (n < s.len && s.ptr[n] != ' ' && s.ptr[n] != '\t' && s.ptr[n] != '\n')
        n++;
    *rest = trim((fy_span){s.ptr + n, s.len - n});
    return (fy_span){s.ptr, n};
}

/* --- the commands --------------------------------------------------------------------------- */

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
        return fy_fail(e, FY_EARG, "there is no message to answer again");
    return 0;
}

/* Takes back all from the last message of the user on. */
static int run_undo(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    (void)arg;
    fy_chat_messages *m = &sh->chat->messages;
    size_t n = m->n;
    while (n > 0 && strcmp(fy_str_z(&m->items[n - 1].role), "user") != 0)
        n--;
    if (n == 0)
        return fy_fail(e, FY_EARG, "there is no message to take back");
    fy_str_puts(out, "taken back: ");
    put_beginning(out, (fy_span){fy_str_z(&m->items[n - 1].content), m->items[n - 1].content.len});
    fy_str_putc(out, '\n');
    fy_chat_messages_cut(m, n - 1);
    return 0;
}

static int run_params(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e)
{
    fy_span value, name = first_word(arg, &value);
    if (value.len > 0 && fy_chat_params_set(sh->params, name, value, e) != 0)
        return -1;
    sh->chat->sampler = sh->params->sampler;
    sh->chat->n = *sh->params->n;
    return fy_chat_params_show(sh->params, name, out, e);
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

static int run_help(fy_chat_shell *sh, fy_span arg, fy_str *out, fy_err *e);

static const command commands[] = {
    {"help", NULL, "this list", run_help, FY_CHAT_GO_ON},
    {"reset", NULL, "begin a new conversation; the system message stays", run_reset, FY_CHAT_GO_ON},
    {"system", "[TEXT]", "set the system message; show it; '-' takes it away", run_system,
     FY_CHAT_GO_ON},
    {"save", "FILE", "write the conversation as JSON", run_save, FY_CHAT_GO_ON},
    {"load", "FILE", "go on with a conversation that was saved", run_load, FY_CHAT_GO_ON},
    {"regen", NULL, "answer the last message again", run_regen, FY_CHAT_ANSWER},
    {"undo", NULL, "take the last message and its answer back", run_undo, FY_CHAT_GO_ON},
    {"params", "[NAME [VALUE]]", "show or change how tokens are sampled", run_params,
     FY_CHAT_GO_ON},
    {"tokens", NULL, "how much of the context is used", run_tokens, FY_CHAT_GO_ON},
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
    fy_str_puts(out, "A line that ends in \\ goes on in the next one, and \"\"\" begins and ends "
                     "several lines.\nCtrl-C stops an answer. A message that begins with a slash "
                     "is sent with two.\n");
    return 0;
}

/* --- parsing -------------------------------------------------------------------------------- */

bool fy_chat_is_command(fy_span line, fy_span *message)
{
    bool slash = line.len > 0 && line.ptr[0] == '/';
    bool two = slash && line.len > 1 && line.ptr[1] == '/';
    *message = two ? (fy_span){line.ptr + 1, line.len - 1} : line;
    return slash && !two;
}

static const command *find(fy_span name, fy_err *e)
{
    const char *names[N_COMMANDS];
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
    if (c->run(sh, arg, out, e) != 0)
        return -1;
    *next = c->next;
    return out->oom ? fy_nomem(e) : 0;
}

/* --- completion ----------------------------------------------------------------------------- */

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

void fy_chat_complete(void *user, fy_span before, fy_str *insert, fy_str *list)
{
    const fy_chat_shell *sh = user;
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
    if (!in_name && (fy_span_is(name, "save") || fy_span_is(name, "load")))
        consider_files(&c, arg);
    for (size_t i = 0; !in_name && fy_span_is(name, "params") &&
                       (known = fy_chat_params_name(sh->params, i)) != NULL;
         i++) {
        c.typed = arg;
        consider(&c, known, " ");
    }
    give(&c, insert, list);
    fy_str_release(&c.common);
    fy_str_release(&c.list);
}
