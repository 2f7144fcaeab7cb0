/* A line typed at a terminal. Two implementations, one per build: chat_line_editline.c (host:
 * editing, history, completion) and chat_line_plain.c (device: what the terminal itself offers). */
#ifndef FY_CLI_CHAT_LINE_H
#define FY_CLI_CHAT_LINE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

typedef struct fy_chat_line fy_chat_line;

/* before: the line up to the cursor. *insert: what completes it; *list: what it could become, when
 * that is not clear. */
typedef void fy_chat_completer(void *user, fy_span before, fy_str *insert, fy_str *list);

/* history: file that keeps what was entered; NULL: none. */
fy_chat_line *fy_chat_line_open(const char *history, fy_chat_completer *complete, void *user,
                                fy_err *e);
void fy_chat_line_close(fy_chat_line *l); /* NULL is fine */

typedef enum {
    FY_LINE_TEXT,        /* *out is the line, without its end; pasted ones may hold newlines */
    FY_LINE_END,         /* Ctrl-D */
    FY_LINE_INTERRUPTED, /* fy_interrupted is set; *out is what had been typed */
    FY_LINE_FAILED,
} fy_line_result;
fy_line_result fy_chat_line_read(fy_chat_line *l, const char *prompt, fy_str *out, fy_err *e);

/* Adds what was entered to the history. A history that cannot be written is none: no error. */
void fy_chat_line_remember(fy_chat_line *l, fy_span entry);

#endif
