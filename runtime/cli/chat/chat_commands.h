/* The slash commands of `ferry chat` at a terminal: one table for /help, parsing and completion. */
#ifndef FY_CLI_CHAT_COMMANDS_H
#define FY_CLI_CHAT_COMMANDS_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/chat/chat_params.h"
#include "cli/chat/chat_session.h"

typedef enum {
    FY_CHAT_GO_ON,  /* wait for the next line */
    FY_CHAT_ANSWER, /* answer the conversation as it stands */
    FY_CHAT_QUIT,
} fy_chat_next;

typedef struct {
    fy_chat *chat;          /* view */
    fy_chat_params *params; /* view */
} fy_chat_shell;

/* Is the line a command? If not, *message is what to send: "//x" sends "/x". */
bool fy_chat_is_command(fy_span line, fy_span *message);

/* Does what the line says and appends what is to be shown to *out. FY_EARG for a command that is
 * none (the nearest is named) or one that lacks its argument. */
int fy_chat_command(fy_chat_shell *sh, fy_span line, fy_str *out, fy_chat_next *next, fy_err *e);

/* A fy_chat_completer; user: the fy_chat_shell. Completes commands, names of parameters and of
 * files. */
void fy_chat_complete(void *user, fy_span before, fy_str *insert, fy_str *list);

#endif
