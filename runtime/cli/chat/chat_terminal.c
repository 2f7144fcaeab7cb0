/* `ferry chat` at a terminal: reads entries, shows answers, runs commands, handles Ctrl-C. */
#include "cli/chat/chat_io.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/terminal.h"

typedef struct {
    fy_chat_shell *sh;
    fy_show_style style;
    bool show_prompt;
    fy_chat_line *line;
    fy_chat_gather entry; /* the message being typed */
    fy_str typed;         /* its last line */
    fy_chat_show show;
    fy_chat_answer answer;
    fy_str out;      /* scratch */
    int presses;     /* of Ctrl-C, since something else was done */
    size_t replaces; /* the next message takes the place of this one and all after it; from 1; 0:
                        none */
} terminal;

/* --- output ----------------------------------------------------------------------------------- */

static int flush(terminal *t, fy_err *e)
{
    int rc = t->out.oom ? fy_nomem(e) : fy_stdout_drawn(fy_str_z(&t->out), t->out.len, e);
    fy_str_clear(&t->out);
    return rc;
}

/* Text of the program, wrapped; the first line begins after `indent` columns. */
static void put_text(terminal *t, const char *text, size_t indent)
{
    const int columns = t->style.wrap ? fy_terminal_columns(STDOUT_FILENO, 0) : 0;
    fy_str shown = {0};
    fy_str_put_shown(&shown, fy_span_of(text));
    if (columns > (int)indent + 20) {
        fy_str_wrap(&t->out, fy_str_z(&shown), indent, (size_t)columns - 1);
    } else {
        fy_str_add(&t->out, shown.ptr, shown.len);
        fy_str_putc(&t->out, '\n');
    }
    t->out.oom |= shown.oom;
    fy_str_release(&shown);
}

/* A remark of the program, set apart from the model's text. */
static int remark(terminal *t, const char *text, fy_err *e)
{
    fy_str_puts(&t->out, t->style.colour ? "\033[2m" : "");
    put_text(t, text, 0);
    if (t->style.colour && !t->out.oom) {
        t->out.len--; /* the newline */
        fy_str_puts(&t->out, "\033[0m\n");
    }
    return flush(t, e);
}

static int complain(terminal *t, const fy_err *why, fy_err *e)
{
    if (why->code == FY_EIO && strncmp(why->msg, "standard output", 15) == 0)
        return fy_fail(e, why->code, "%s", why->msg); /* nobody is there */
    fy_str_puts(&t->out, t->style.colour ? "\033[1;33merror:\033[0m " : "error: ");
    put_text(t, why->msg, 7);
    return flush(t, e);
}

/* --- answers ---------------------------------------------------------------------------------- */

static int on_piece(void *user, const fy_chat_piece *p, fy_err *e)
{
    terminal *t = user;
    fy_chat_show_piece(&t->show, p, &t->out);
    return t->out.len > 0 ? flush(t, e) : 0;
}

static int on_hidden(void *user, size_t n, fy_span summary, fy_err *e)
{
    terminal *t = user;
    fy_str words = {0};
    fy_str_putc(&words, '(');
    fy_chat_put_hidden(n, summary, &words);
    fy_str_putc(&words, ')');
    int rc = words.oom ? fy_nomem(e) : remark(t, words.ptr, e);
    fy_str_release(&words);
    return rc;
}

static int end_answer(terminal *t, fy_err *e)
{
    const fy_chat_answer *a = &t->answer;
    fy_str words = {0};
    int rc = 0;
    fy_str_printf(&words, "(cut off after %u tokens: -n)", a->timing.n_generated);
    if (a->why == FY_STOP_INTERRUPT)
        rc = remark(t, "(stopped; Ctrl-C again leaves)", e);
    else if (a->why == FY_STOP_LENGTH)
        rc = remark(t, fy_str_z(&words), e);
    else if (a->text.len == 0 && a->thinking.len == 0)
        rc = remark(t, "(an empty answer)", e);
    fy_str_clear(&words);
    fy_chat_notice(t->sh->chat, a, &words);
    if (rc == 0 && words.len > 0)
        rc = remark(t, fy_str_z(&words), e);
    fy_str_clear(&words);
    fy_timing_line(&a->timing, &words);
    if (rc == 0 && t->sh->chat->timings)
        rc = remark(t, fy_str_z(&words), e);
    else
        fy_log(FY_LOG_DEBUG, "%s", fy_str_z(&words));
    fy_str_release(&words);
    return rc == 0 ? fy_stdout("\n", 1, e) : -1;
}

/* Ctrl-C is dealt with; any other signal ends the program. */
static int after_signals(terminal *t, fy_err *e)
{
    int sig = fy_signals_take();
    if (sig != 0 && sig != SIGINT)
        return fy_fail(e, FY_EINTR, "ended by a signal");
    t->presses = sig == SIGINT;
    return 0;
}

/* 1: the model answered; 0: it did not, and the user was shown why. */
static int answer(terminal *t, fy_err *e)
{
    fy_chat_sink sink = {.prompt = t->show_prompt ? fy_chat_show_prompt : NULL,
                         .piece = on_piece,
                         .hidden = on_hidden,
                         .user = t};
    fy_err why = {0};
    fy_chat_show_begin(&t->show, t->style);
    fy_signals_last_words(t->style.colour ? "\033[0m\n" : "\n");
    int rc = fy_chat_answer_next(t->sh->chat, &sink, &t->answer, &why);
    fy_signals_last_words(NULL);
    if (after_signals(t, e) != 0)
        return -1;
    fy_chat_show_end(&t->show, &t->out);
    if (flush(t, e) != 0)
        return -1;
    if (rc == 0)
        return end_answer(t, e) == 0 ? 1 : -1;
    if (why.code == FY_EINTR)
        return remark(t,
                      "(stopped before the answer began, the message was taken back; Ctrl-C "
                      "again leaves)",
                      e);
    return complain(t, &why, e);
}

static int send_message(terminal *t, fy_span text, fy_err *e)
{
    fy_chat_messages *m = &t->sh->chat->messages;
    size_t n = m->n;
    if (fy_chat_messages_add(m, "user", text, e) != 0)
        return -1;
    int rc = answer(t, e);
    if (rc == 0)
        fy_chat_messages_cut(m, n);
    return rc < 0 ? -1 : 0;
}

/* On failure the old answer stays. */
static int answer_again(terminal *t, fy_err *e)
{
    fy_chat_messages *m = &t->sh->chat->messages;
    bool had = fy_chat_messages_ends_in(m, "assistant");
    fy_chat_message old = {0};
    if (had)
        old = fy_chat_messages_take(m);
    int rc = answer(t, e);
    if (had && rc == 0)
        fy_chat_messages_put_back(m, old);
    else
        fy_chat_message_release(&old);
    return rc < 0 ? -1 : 0;
}

/* The message at index `from` and all after it give way to `text`; they come back when there is no
 * answer to it. */
static int replace_message(terminal *t, size_t from, fy_span text, fy_err *e)
{
    fy_chat_messages *m = &t->sh->chat->messages;
    const size_t n = m->n - from;
    fy_chat_message *old = calloc(n, sizeof *old);
    if (old == NULL)
        return fy_nomem(e);
    for (size_t i = n; i-- > 0;)
        old[i] = fy_chat_messages_take(m);
    int rc = fy_chat_messages_add(m, "user", text, e) == 0 ? answer(t, e) : -1;
    if (rc != 1)
        fy_chat_messages_cut(m, from);
    for (size_t i = 0; i < n; i++) {
        if (rc != 1)
            fy_chat_messages_put_back(m, old[i]);
        else
            fy_chat_message_release(&old[i]);
    }
    free(old);
    return rc < 0 ? -1 : 0;
}

/* Without an editor the message stands in the next line, and what is sent then takes its place. */
static int edit_message(terminal *t, fy_err *e)
{
    const fy_chat_messages *m = &t->sh->chat->messages;
    const size_t at = fy_chat_messages_last_user(m);
    const fy_str *old = &m->items[at].content;
    fy_span before = {fy_str_z(old), old->len};
    fy_str text = {0};
    fy_err why = {0};
    fy_str_add(&text, before.ptr, before.len);
    int rc = text.oom ? fy_nomem(&why) : fy_chat_edit_text(&text, &why);
    fy_span now = {fy_str_z(&text), text.len};
    if (rc < 0)
        rc = complain(t, &why, e);
    else if (rc == 0 && fy_chat_line_begin_with(t->line, before))
        t->replaces = at + 1;
    else if (rc == 0)
        rc = remark(t, "(set EDITOR to a program that changes a file)", e);
    else if (now.len == 0 || fy_span_eq(now, before))
        rc = remark(t, "(nothing was changed)", e);
    else
        rc = replace_message(t, at, now, e);
    fy_str_release(&text);
    return rc;
}

static int do_command(terminal *t, fy_span line, fy_chat_next *next, fy_err *e)
{
    fy_err why = {0};
    *next = FY_CHAT_NEXT_LINE;
    if (fy_chat_command(t->sh, line, &t->out, next, &why) != 0) {
        fy_str_clear(&t->out);
        return complain(t, &why, e);
    }
    int rc = t->out.oom ? fy_nomem(e) : fy_stdout(fy_str_z(&t->out), t->out.len, e);
    fy_str_clear(&t->out);
    if (rc != 0)
        return -1;
    return *next == FY_CHAT_ANSWER ? answer_again(t, e)
           : *next == FY_CHAT_EDIT ? edit_message(t, e)
                                   : 0;
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Ctrl-C at the prompt: empties the line; in an empty one the second leaves. */
static int interrupted(terminal *t, fy_err *e)
{
    bool idle = t->typed.len == 0 && !t->entry.begun;
    t->replaces = 0;
    int presses = t->presses;
    fy_chat_gather_clear(&t->entry);
    if (after_signals(t, e) != 0)
        return -1;
    if (!idle) {
        t->presses = 0;
        return 0;
    }
    if (presses > 0)
        return fy_fail(e, FY_EINTR, "interrupted");
    return remark(t, "(Ctrl-C again leaves, as Ctrl-D and /quit do)", e);
}

/* A whole message into t->entry. */
static fy_line_result read_entry(terminal *t, fy_err *e)
{
    fy_chat_gather_clear(&t->entry);
    for (;;) {
        fy_line_result r = fy_chat_line_read(t->line, t->entry.begun ? "... " : "> ", &t->typed, e);
        if (r == FY_LINE_END && t->entry.begun) /* Ctrl-D ends the message first */
            return FY_LINE_TEXT;
        if (r != FY_LINE_TEXT)
            return r;
        if (fy_chat_gather_line(&t->entry, (fy_span){fy_str_z(&t->typed), t->typed.len}))
            return FY_LINE_TEXT;
    }
}

static int take_entry(terminal *t, fy_chat_next *next, fy_err *e)
{
    fy_span entry = {fy_str_z(&t->entry.text), t->entry.text.len}, message;
    if (t->entry.text.oom)
        return fy_nomem(e);
    t->presses = 0;
    if (strspn(fy_str_z(&t->entry.text), " \t\n") == entry.len)
        return 0;
    fy_chat_line_remember(t->line, entry);
    const size_t replaces = t->replaces;
    t->replaces = 0;
    if (!t->entry.block && fy_chat_is_command(entry, &message))
        return do_command(t, entry, next, e);
    if (replaces > 0 && replaces <= t->sh->chat->messages.n)
        return replace_message(t, replaces - 1, t->entry.block ? entry : message, e);
    return send_message(t, t->entry.block ? entry : message, e);
}

static int talk(terminal *t, fy_err *e)
{
    fy_chat_next next = FY_CHAT_NEXT_LINE;
    int rc = 0;
    while (rc == 0 && next != FY_CHAT_QUIT) {
        switch (read_entry(t, e)) {
        case FY_LINE_TEXT:
            rc = take_entry(t, &next, e);
            break;
        case FY_LINE_INTERRUPTED:
            rc = interrupted(t, e);
            break;
        case FY_LINE_END:
            next = FY_CHAT_QUIT;
            break;
        case FY_LINE_FAILED:
            rc = -1;
            break;
        }
    }
    return rc;
}

int fy_chat_terminal(fy_chat_shell *sh, fy_show_style style, const char *history, bool show_prompt,
                     fy_err *e)
{
    terminal t = {.sh = sh, .style = style, .show_prompt = show_prompt};
    t.line = fy_chat_line_open(history, sh, e);
    int rc = t.line != NULL ? talk(&t, e) : -1;
    fy_chat_line_close(t.line);
    fy_chat_answer_release(&t.answer);
    fy_str_release(&t.entry.text);
    fy_str_release(&t.typed);
    fy_str_release(&t.out);
    return rc;
}
