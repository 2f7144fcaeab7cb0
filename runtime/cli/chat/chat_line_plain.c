/* The device's line input: the terminal's own editing, in canonical mode. */
#include "cli/chat/chat_io.h"

#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/terminal.h"

struct fy_chat_line {
    fy_chat_reader in;
    struct termios before;
    bool changed;
};

fy_chat_line *fy_chat_line_open(const char *history, fy_chat_shell *sh, fy_err *e)
{
    (void)history;
    (void)sh;
    fy_chat_line *l = calloc(1, sizeof *l);
    if (l == NULL) {
        fy_nomem(e);
        return NULL;
    }
    if (tcgetattr(STDIN_FILENO, &l->before) == 0 && !(l->before.c_iflag & IUTF8)) {
        struct termios t = l->before; /* backspace takes a character, not a byte */
        t.c_iflag |= IUTF8;
        l->changed = tcsetattr(STDIN_FILENO, TCSADRAIN, &t) == 0;
    }
    return l;
}

void fy_chat_line_close(fy_chat_line *l)
{
    if (l == NULL)
        return;
    if (l->changed)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &l->before);
    fy_chat_reader_release(&l->in);
    free(l);
}

fy_line_result fy_chat_line_read(fy_chat_line *l, const char *prompt, fy_str *out, fy_err *e)
{
    fy_err why = {0};
    fy_str_clear(out);
    if (fy_stdout(prompt, strlen(prompt), e) != 0)
        return FY_LINE_FAILED;
    l->in.ended = false; /* Ctrl-D ends one line; a terminal continues */
    fy_signals_hold(true);
    int rc = fy_chat_read_line(&l->in, out, &why);
    fy_signals_hold(false);
    if (rc >= 0)
        return rc == 1 ? FY_LINE_TEXT : FY_LINE_END;
    if (why.code == FY_EINTR)
        return FY_LINE_INTERRUPTED;
    fy_fail(e, why.code, "%s", why.msg);
    return FY_LINE_FAILED;
}

bool fy_chat_line_begin_with(fy_chat_line *l, fy_span text)
{
    (void)l;
    (void)text;
    return false;
}

void fy_chat_line_remember(fy_chat_line *l, fy_span entry)
{
    (void)l;
    (void)entry;
}
