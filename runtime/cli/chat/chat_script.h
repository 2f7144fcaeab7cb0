/* `ferry chat` without a terminal: lines in, answers or events out. */
#ifndef FY_CLI_CHAT_SCRIPT_H
#define FY_CLI_CHAT_SCRIPT_H

#include "cli/chat/chat_session.h"
#include "cli/chat/chat_show.h"

/* One message per line of standard input, one answer each on standard output. The first failure
 * ends it. */
int fy_chat_lines(fy_chat *c, fy_show_style style, bool show_prompt, fy_err *e);

/* --json: a line is a message as plain text, a JSON message, or {"messages": [...]}, a whole
 * conversation; standard output gets events. A failure is an event, and the last one is that of the
 * program. SIGINT stops an answer; when none is being given it ends the program. */
int fy_chat_json(fy_chat *c, bool show_prompt, fy_err *e);

#endif
