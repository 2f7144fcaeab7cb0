/* Wraps streaming text at words: keeps the column and the word that the cursor stands in. */
#include "cli/chat/chat_wrap.h"

#include <string.h>

#include <utf8proc.h>

static void end_word(fy_chat_wrap *w)
{
    w->word_bytes = w->word_columns = 0;
}

static void end_line(fy_chat_wrap *w, fy_str *out)
{
    fy_str_putc(out, '\n');
    if (w->n_ticks >= 3)
        w->in_code = !w->in_code;
    w->at = w->n_ticks = 0;
    end_word(w);
}

static void grow_word(fy_chat_wrap *w, const char *p, int n, int columns)
{
    if (w->word_bytes >= 0 && w->word_bytes + n <= (int)sizeof w->word) {
        memcpy(w->word + w->word_bytes, p, (size_t)n);
        w->word_bytes += n;
    } else {
        w->word_bytes = -1;
    }
    w->word_columns += columns;
}

/* Takes the word back and begins the next line with it; not when it fills the line alone. */
static void move_word(fy_chat_wrap *w, fy_str *out)
{
    if (w->word_bytes < 0 || w->word_columns >= w->at) {
        w->at = 0; /* the terminal begins a line */
        return;
    }
    if (w->word_columns > 0)
        fy_str_printf(out, "\033[%dG\033[K", w->at - w->word_columns + 1);
    fy_str_putc(out, '\n');
    fy_str_add(out, w->word, (size_t)w->word_bytes);
    w->at = w->word_columns;
}

static int columns_of(uint32_t cp, int at)
{
    return cp == '\t' ? 8 - at % 8 : utf8proc_charwidth((utf8proc_int32_t)cp);
}

static void put_char(fy_chat_wrap *w, const char *p, int n, uint32_t cp, fy_str *out)
{
    const int columns = columns_of(cp, w->at);
    if (cp == ' ' && w->at >= w->columns) {
        fy_str_putc(out, '\n'); /* in its place */
        w->at = 0;
        end_word(w);
        return;
    }
    if (w->at + columns > w->columns)
        move_word(w, out);
    fy_str_add(out, p, (size_t)n);
    w->at += columns;
    if (cp == ' ' || cp == '\t' || columns > 1) /* a line may end after an ideograph */
        end_word(w);
    else
        grow_word(w, p, n, columns);
}

void fy_chat_wrap_put(fy_chat_wrap *w, fy_span text, fy_str *out)
{
    for (size_t i = 0; i < text.len;) {
        uint32_t cp = 0xFFFD;
        int n = fy_utf8_next(text.ptr + i, text.len - i, &cp);
        n += n == 0;
        if (cp == '`' && w->n_ticks >= 0)
            w->n_ticks++;
        else if (cp != '\n' && w->n_ticks < 3)
            w->n_ticks = -1;
        if (cp == '\n')
            end_line(w, out);
        else if (w->columns <= 0 || w->in_code)
            fy_str_add(out, text.ptr + i, (size_t)n);
        else
            put_char(w, text.ptr + i, n, cp, out);
        i += (size_t)n;
    }
}
