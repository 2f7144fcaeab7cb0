/* Showing an answer while it streams (thinking dimmed, folded or hidden; text escaped for a
 * terminal, or on one line for a script), and reading lines and messages of several lines. */
#include "cli/chat/chat_io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "cli/terminal.h"

/* --- an answer -------------------------------------------------------------------------------- */

static void put_one_line(fy_str *out, fy_span text)
{
    static const char special[] = "\n\r\\", letters[] = "nr\\";
    for (size_t i = 0; i < text.len; i++) {
        const char *at = text.ptr[i] != '\0' ? strchr(special, text.ptr[i]) : NULL;
        if (at != NULL)
            fy_str_printf(out, "\\%c", letters[at - special]);
        else
            fy_str_putc(out, text.ptr[i]);
    }
}

static void put_wrapped(fy_chat_show *s, fy_span text, fy_str *out)
{
    fy_str shown = {0};
    fy_str_put_shown(&shown, text);
    fy_chat_wrap_put(&s->wrap, (fy_span){fy_str_z(&shown), shown.len}, out);
    out->oom |= shown.oom;
    fy_str_release(&shown);
}

static void put(fy_chat_show *s, fy_span text, fy_str *out)
{
    if (text.len == 0)
        return;
    if (s->style.one_line)
        put_one_line(out, text);
    else if (s->style.terminal)
        put_wrapped(s, text, out);
    else
        fy_str_add(out, text.ptr, text.len);
    s->in_line = text.ptr[text.len - 1] != '\n';
}

static void put_paler(const fy_chat_show *s, bool on, fy_str *out)
{
    if (s->style.colour)
        fy_str_puts(out, on ? "\033[2m" : "\033[0m");
}

static bool has_text(const fy_chat_show *s)
{
    return s->style.think == FY_SHOW_THINK_DIM || s->style.think == FY_SHOW_THINK_SHOW;
}

/* --- the section ------------------------------------------------------------------------------ */

static void enter(fy_chat_show *s, const fy_think_marks *marks, fy_str *out)
{
    s->entered = s->inside = true;
    s->skip_space = !has_text(s);
    if (s->style.think == FY_SHOW_THINK_DIM)
        put_paler(s, true, out);
    if (has_text(s))
        put(s, fy_span_of(marks->begin), out);
}

/* A folded section grows in place: a line that is written over. */
static void show_count(fy_chat_show *s, fy_str *out)
{
    if (s->style.think != FY_SHOW_THINK_FOLD || !s->style.terminal)
        return;
    fy_str_putc(out, '\r');
    put_paler(s, true, out);
    fy_str_printf(out, "thinking, %u token%s", s->n_thought, s->n_thought == 1 ? "" : "s");
    put_paler(s, false, out);
}

static void leave(fy_chat_show *s, const fy_think_marks *marks, fy_str *out)
{
    s->inside = false;
    if (has_text(s) && marks != NULL)
        put(s, fy_span_of(marks->end), out);
    if (s->style.think == FY_SHOW_THINK_DIM)
        put_paler(s, false, out);
    if (s->style.think != FY_SHOW_THINK_FOLD)
        return;
    if (s->style.terminal)
        fy_str_puts(out, "\r\033[K");
    put_paler(s, true, out);
    fy_str_printf(out, "thought for %u token%s", s->n_thought, s->n_thought == 1 ? "" : "s");
    put_paler(s, false, out);
    put(s, FY_SPAN("\n"), out);
}

static fy_span without_space(fy_span text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[0]) != NULL && text.ptr[0] != '\0') {
        text.ptr++;
        text.len--;
    }
    return text;
}

void fy_chat_show_begin(fy_chat_show *s, fy_show_style style)
{
    *s = (fy_chat_show){.style = style};
}

void fy_chat_show_piece(fy_chat_show *s, const fy_chat_piece *p, fy_str *out)
{
    const fy_think *t = p->think;
    bool inside = t->state == FY_THINK_INSIDE;
    if (s->style.wrap)
        s->wrap.columns = fy_terminal_columns(STDOUT_FILENO, 0);
    if (!s->entered && t->marks != NULL)
        enter(s, t->marks, out);
    if (s->inside) {
        s->n_thought += inside && p->id >= 0;
        if (has_text(s))
            put(s, p->thinking, out);
        else if (inside && p->id >= 0)
            show_count(s, out);
        if (!inside)
            leave(s, t->marks, out);
    }
    fy_span answer = s->skip_space ? without_space(p->answer) : p->answer;
    s->skip_space &= answer.len == 0;
    put(s, answer, out);
}

void fy_chat_show_end(fy_chat_show *s, fy_str *out)
{
    if (s->inside)
        leave(s, NULL, out);
    if (s->in_line || s->style.one_line)
        fy_str_putc(out, '\n');
    s->in_line = false;
}

int fy_chat_show_prompt(void *user, fy_span text, const fy_ids *ids, fy_err *e)
{
    (void)user;
    (void)ids;
    fy_str out = {0};
    fy_str_add(&out, text.ptr, text.len);
    fy_str_putc(&out, '\n');
    int rc = out.oom ? fy_nomem(e) : fy_stderr(out.ptr, out.len, e);
    fy_str_release(&out);
    return rc;
}

void fy_chat_put_hidden(size_t n, fy_span summary, fy_str *out)
{
    fy_str_printf(out, "the context is full: the %zu oldest messages %s", n,
                  summary.ptr != NULL ? "became a summary: "
                                      : "are not seen by the model any more");
    fy_str_add(out, summary.ptr, summary.len);
}

void fy_chat_notice(const fy_chat *c, const fy_chat_answer *a, fy_str *out)
{
    uint32_t left = a->n_ctx > a->n_used ? a->n_ctx - a->n_used : 0;
    if (a->why == FY_STOP_CONTEXT)
        fy_str_printf(out, "the context is full (%u tokens): %s", a->n_ctx, c->remedy);
    else if (c->on_full == FY_FULL_STOP && (uint64_t)a->n_used * 10 >= (uint64_t)a->n_ctx * 9)
        fy_str_printf(out, "the context is nearly full, %u of %u tokens are left: %s", left,
                      a->n_ctx, c->remedy);
}

/* --- lines ------------------------------------------------------------------------------------ */

void fy_chat_reader_release(fy_chat_reader *r)
{
    fy_str_release(&r->bytes);
}

/* What poll has seen at a terminal may be gone: Ctrl-C empties its input. Waiting for more here
 * would miss that it was pressed. */
static ssize_t read_ready(int fd, char *buf, size_t n)
{
    const int flags = isatty(fd) ? fcntl(fd, F_GETFL) : -1;
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    const ssize_t got = read(fd, buf, n);
    const int err = errno;
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags);
    errno = err;
    return got;
}

static int read_more(fy_chat_reader *r, fy_err *e)
{
    char buf[4096];
    if (r->at > 0) {
        memmove(r->bytes.ptr, r->bytes.ptr + r->at, r->bytes.len - r->at);
        r->bytes.len -= r->at;
        r->at = 0;
    }
    if (r->bytes.len > FY_CHAT_LINE_MAX_BYTES)
        return fy_fail(e, FY_EFIT, "standard input: a line of more than %u MB",
                       FY_CHAT_LINE_MAX_BYTES >> 20);
    if (fy_signals_wait_input(r->fd, NULL) != 0)
        return fy_check_interrupt(e);
    ssize_t n = read_ready(r->fd, buf, sizeof buf);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return fy_fail_errno(e, "standard input: cannot read");
    r->ended = n == 0;
    if (n > 0)
        fy_str_add(&r->bytes, buf, (size_t)n);
    return r->bytes.oom ? fy_nomem(e) : 0;
}

int fy_chat_read_line(fy_chat_reader *r, fy_str *line, fy_err *e)
{
    size_t seen = 0; /* bytes from r->at on without a newline */
    for (;;) {
        size_t n = r->bytes.len - r->at;
        const char *begin = n > 0 ? r->bytes.ptr + r->at : "";
        const char *end = n > seen ? memchr(begin + seen, '\n', n - seen) : NULL;
        if (end != NULL || (r->ended && n > 0)) {
            size_t len = end != NULL ? (size_t)(end - begin) : n;
            r->at += len + (end != NULL);
            len -= len > 0 && begin[len - 1] == '\r';
            fy_str_clear(line);
            fy_str_add(line, begin, len);
            return line->oom ? fy_nomem(e) : 1;
        }
        if (r->ended)
            return 0;
        seen = n;
        if (read_more(r, e) != 0)
            return -1;
    }
}

/* --- messages of several lines ---------------------------------------------------------------- */

void fy_chat_gather_clear(fy_chat_gather *g)
{
    fy_str_clear(&g->text);
    g->block = g->begun = false;
}

static bool starts_with_quotes(fy_span s)
{
    return s.len >= 3 && memcmp(s.ptr, "\"\"\"", 3) == 0;
}

static bool ends_with_quotes(fy_span s)
{
    return s.len >= 3 && memcmp(s.ptr + s.len - 3, "\"\"\"", 3) == 0;
}

static bool continues(fy_span s)
{
    return s.len > 0 && s.ptr[s.len - 1] == '\\' && !(s.len > 1 && s.ptr[s.len - 2] == '\\');
}

bool fy_chat_gather_line(fy_chat_gather *g, fy_span line)
{
    bool first = !g->begun;
    if (first && starts_with_quotes(line)) {
        g->block = true;
        line = (fy_span){line.ptr + 3, line.len - 3};
    }
    bool open = g->block ? !ends_with_quotes(line) : continues(line);
    size_t n = g->block ? (open ? line.len : line.len - 3) : line.len - open;
    bool empty_first_of_block = g->block && first && n == 0;
    bool empty_last_of_block = g->block && !open && n == 0;
    if (!first && !empty_last_of_block && g->text.len > 0)
        fy_str_putc(&g->text, '\n');
    if (!empty_first_of_block)
        fy_str_add(&g->text, line.ptr, n);
    g->begun = true;
    return !open;
}
