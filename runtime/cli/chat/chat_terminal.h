/* `ferry chat` at a terminal. */
#ifndef FY_CLI_CHAT_TERMINAL_H
#define FY_CLI_CHAT_TERMINAL_H

#include "cli/chat/chat_commands.h"
#include "cli/chat/chat_show.h"

/* Talks until the user leaves. history: file of earlier entries, NULL: none. FY_EINTR when the user
 * left by Ctrl-C, or a signal asked for the end. */
int fy_chat_terminal(fy_chat_shell *sh, fy_show_style style, const char *history, bool show_prompt,
                     fy_err *e);

/* A rendered prompt for --show-prompt, on standard error. */
int fy_chat_show_prompt(void *user, fy_span text, const fy_ids *ids, fy_err *e);

/* What is to be said about the end of an answer and the room left in the context; nothing when
 * there is nothing. */
void fy_chat_notice(const fy_chat *c, const fy_chat_answer *a, fy_str *out);

#endif
