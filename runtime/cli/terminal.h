/* What a verb writes: data to standard output, messages and progress to standard error. All of it
 * passes here, and nothing else in the program writes to either. And the signals that end a verb. */
#ifndef FY_CLI_TERMINAL_H
#define FY_CLI_TERMINAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "base/str.h"

/* Text for standard output, in whole characters. A terminal gets it escaped by fy_str_put_shown, so
 * that no text of a model, a phone or an archive can act on the terminal; a file or a pipe gets the
 * bytes. A failed or short write is FY_EIO (a closed pipe too). */
int fy_stdout(const void *p, size_t n, fy_err *e);
int fy_stderr(const void *p, size_t n, fy_err *e); /* the same for standard error */
int fy_stdout_text(fy_str *s, fy_err *e);          /* the same of a string, which is released */
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
int fy_terminal_columns(int fd, int otherwise); /* otherwise: when it is unknown */

/* A progress display on stderr: a bar with rate and ETA on a terminal, a line every 10 s otherwise,
 * nothing below FY_LOG_INFO. fy_show_end clears the bar. One at a time. */
void fy_show_begin(fy_progress *p, const char *what, uint64_t total_bytes);
void fy_show_end(fy_progress *p);

/* Can the user be asked: are standard input and error a terminal, and messages shown (no -q)? */
bool fy_may_ask(void);
/* Writes a question to standard error and reads the answer's line, cut to size. FY_EINTR at Ctrl-C,
 * FY_EARG when the input has ended. */
int fy_ask(const char *question, char *answer, size_t size, fy_err *e);

/* The first SIGINT, SIGTERM or SIGHUP raises fy_interrupted, the next one ends the program. A mapped
 * file that cannot be read any more ends the program with a message. */
void fy_signals_install(void);

/* The signal that raised fy_interrupted, 0 without one; lowers fy_interrupted. SIGINT only when no
 * other signal came. */
int fy_signals_take(void);

/* While held, no signal ends the program: a caller waits for fy_interrupted, and has to restore the
 * terminal first. */
void fy_signals_hold(bool hold);

/* What the handler writes to standard output before it ends the program; a view that must last,
 * NULL: nothing. */
void fy_signals_last_words(const char *text);

/* Waits until fd can be read (or has ended): 0. -1 as soon as fy_interrupted or *also (may be NULL)
 * is set. No signal is lost between the check and the wait, as all other threads block them. */
int fy_signals_wait_input(int fd, const volatile sig_atomic_t *also);

#endif
