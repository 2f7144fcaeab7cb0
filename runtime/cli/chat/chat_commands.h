/* The slash commands of `ferry chat` at a terminal, in one table for /help, parsing and completion,
 * and the parameters of sampling that /params shows and changes: first those of the options, the
 * workspace and the model, then what the user sets, checked by the same table of options. */
#ifndef FY_CLI_CHAT_COMMANDS_H
#define FY_CLI_CHAT_COMMANDS_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opts.h"
#include "base/str.h"
#include "cli/chat/chat.h"
#include "cli/engine.h"
#include "cli/gen_options.h"

typedef struct {
    const fy_opt *rows; /* view: the verb's table */
    size_t n_rows;
    void *options;           /* view: what the rows point into */
    fy_gen_options *gen;     /* view: in options */
    int64_t *n;              /* view: in options; most tokens of an answer */
    const fy_engine *engine; /* view */
    fy_gen_params now;       /* owned */
    fy_sampler *sampler;     /* owned: made from now */
    char **texts;            /* owned: values that options view */
    size_t n_texts, cap;
} fy_chat_params;

/* Fill the views first, the rest zeroed. */
int fy_chat_params_open(fy_chat_params *p, fy_err *e);
void fy_chat_params_close(fy_chat_params *p);

typedef enum {
    FY_CHAT_NEXT_LINE, /* wait for the next line */
    FY_CHAT_ANSWER,    /* answer the conversation as it stands */
    FY_CHAT_EDIT,      /* let the user change the last message, and answer that */
    FY_CHAT_QUIT,
} fy_chat_next;

typedef struct {
    fy_chat *chat;          /* view */
    fy_chat_params *params; /* view */
} fy_chat_shell;

/* Is the line a command? If not, *message is what to send: "//x" sends "/x". A text of several
 * lines is one only if it begins with the name of one. */
bool fy_chat_is_command(fy_span line, fy_span *message);

/* Runs the command and appends what to show to *out. FY_EARG for an unknown command (the nearest is
 * named) or one without its argument. */
int fy_chat_command(fy_chat_shell *sh, fy_span line, fy_str *out, fy_chat_next *next, fy_err *e);

/* Is it a command about the model, which works where the model is: /params, /tokens? */
bool fy_chat_asks_model(fy_span line);

/* Completes commands, names of parameters and of files. before: the line up to the cursor. *insert:
 * its completion; *list: the candidates, if there are several. */
void fy_chat_complete(const fy_chat_shell *sh, fy_span before, fy_str *insert, fy_str *list);

#endif
