/* How an answer looks while it streams: thinking dimmed, folded or hidden; text escaped for a
 * terminal, or on one line for a script. */
#include "cli/chat/chat_show.h"

#include <string.h>

#include "base/str.h"

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

static void put(fy_chat_show *s, fy_span text, fy_str *out)
{
    if (text.len == 0)
        return;
    if (s->style.one_line)
        put_one_line(out, text);
    else if (s->style.terminal)
        fy_str_put_shown(out, text);
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

/* --- the section ---------------------------------------------------------------------------- */

static void enter(fy_chat_show *s, const fy_think_marks *marks, fy_str *out)
{
    s->entered = s->inside = true;
    s->skip_blank = !has_text(s);
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

static fy_span without_blank(fy_span text)
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
    fy_span answer = s->skip_blank ? without_blank(p->answer) : p->answer;
    s->skip_blank &= answer.len == 0;
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
