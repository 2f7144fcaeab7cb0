/* What a verb writes: data to standard output, messages and progress to standard error. All of it
 * passes here, and nothing else in the program writes to either. */
#ifndef FY_CLI_TERMINAL_H
#define FY_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"

/* Text for standard output, in whole characters. A terminal gets it as fy_str_put_shown has it, so
 * that no text of a model, a phone or an archive can act on the terminal; a file or a pipe gets the
 * bytes. A failed or short write is FY_EIO (a closed pipe too). */
int fy_stdout(const void *p, size_t n, fy_err *e);
int fy_stderr(const void *p, size_t n, fy_err *e); /* the same for standard error */
/* Output with colours and cursor movements of our own. The caller has put any text of others
 * through fy_str_put_shown. */
int fy_stdout_drawn(const void *p, size_t n, fy_err *e);

/* The program's log sink: messages on stderr up to the level set by fy_log_show (FY_LOG_INFO at the
 * start; a verb's -q sets FY_LOG_WARN, its -v FY_LOG_DEBUG), which returns the level before. */
void fy_log_to_stderr(void *user, fy_log_level level, const char *text);
fy_log_level fy_log_show(fy_log_level most);

/* Is it a terminal whose cursor can be moved (TERM is not "dumb"), and may it be given colours
 * (NO_COLOR is not set)? */
bool fy_terminal(int fd);
bool fy_colour(int fd);
int fy_terminal_columns(int fd, int otherwise); /* otherwise: where it is none, or does not say */

/* A progress display on stderr: a bar with rate and ETA on a terminal, a line every 10 s otherwise,
 * nothing below FY_LOG_INFO. fy_show_end clears the bar. One at a time. */
void fy_show_begin(fy_progress *p, const char *what, uint64_t total_bytes);
void fy_show_end(fy_progress *p);

#endif
