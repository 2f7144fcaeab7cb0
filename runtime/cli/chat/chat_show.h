/* How an answer looks while it streams. On a terminal: thinking dimmed or folded, control
 * characters a model may have written kept from the terminal. For a script: one line per answer.
 * Everything is appended to a string; the caller writes it. */
#ifndef FY_CLI_CHAT_SHOW_H
#define FY_CLI_CHAT_SHOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "cli/chat/chat_session.h"

typedef enum {                     /* what becomes of a thinking section; the order of --think */
               FY_SHOW_THINK_DIM,  /* shown, paler than the answer */
               FY_SHOW_THINK_FOLD, /* "thought for N tokens" */
               FY_SHOW_THINK_SHOW, /* as it is */
               FY_SHOW_THINK_HIDE,
} fy_show_think;

typedef struct {
    fy_show_think think;
    bool terminal; /* the output is one */
    bool colour;
    bool one_line; /* newline, return and backslash are written \n, \r and \\ */
} fy_show_style;

typedef struct {
    fy_show_style style;
    bool entered, inside; /* a thinking section has begun, and has not ended */
    bool skip_blank;      /* of the answer's beginning: the section before it left no text */
    bool in_line;         /* something stands in the current line */
    uint32_t n_thought;   /* tokens of the section */
} fy_chat_show;

void fy_chat_show_begin(fy_chat_show *s, fy_show_style style);
void fy_chat_show_piece(fy_chat_show *s, const fy_chat_piece *p, fy_str *out);
/* Ends the section and the line. */
void fy_chat_show_end(fy_chat_show *s, fy_str *out);

#endif
