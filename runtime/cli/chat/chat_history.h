/* What was typed in earlier chats: a file of one entry per line, oldest first, for its owner alone.
 * A newline in an entry is written \n and a backslash \\. Several chats may add to it at once. */
#ifndef FY_CLI_CHAT_HISTORY_H
#define FY_CLI_CHAT_HISTORY_H

#include "base/err.h"
#include "base/str.h"

#define FY_HISTORY_MAX 1000 /* entries that are read; a file of twice as many is cut */

/* $XDG_STATE_HOME/ferry/history, else ~/.local/state/ferry/history; its directory is made. NULL
 * when there is no place for it. The caller frees it. */
char *fy_history_path(void);

typedef void fy_history_entry(void *user, const char *entry);
/* Calls back for the last FY_HISTORY_MAX entries, oldest first; a file that is not there is empty.
 */
int fy_history_load(const char *path, fy_history_entry *entry, void *user, fy_err *e);
int fy_history_append(const char *path, fy_span entry, fy_err *e);

#endif
