/* Text for a terminal, wrapped at words while it streams: a word is shown as it comes, and when it
 * does not fit it is taken back and begins the next line. Lines inside ``` fences are code: they
 * are left to the terminal, so that they can be copied. */
#ifndef FY_CLI_CHAT_WRAP_H
#define FY_CLI_CHAT_WRAP_H

#include <stdbool.h>

#include "base/str.h"

/* Zero-initialise. */
typedef struct {
    int columns;    /* of the terminal; 0: nothing is wrapped. May change between calls. */
    int at;         /* columns taken of the current line */
    char word[256]; /* its last word, as far as it has come */
    int word_bytes; /* of it; -1: it is too long to be taken back */
    int word_columns;
    int n_ticks; /* ` at the beginning of the line; -1: there was something else */
    bool in_code;
} fy_chat_wrap;

/* Appends `text`, which has been escaped (fy_str_put_shown). */
void fy_chat_wrap_put(fy_chat_wrap *w, fy_span text, fy_str *out);

#endif
