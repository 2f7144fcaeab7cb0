/* Ctrl-C and its kin, for a verb that outlives them. As installed by fy_signals_install, the first
 * SIGINT, SIGTERM or SIGHUP raises fy_interrupted and the next one ends the program. */
#ifndef FY_CLI_SIGNALS_H
#define FY_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* SIGINT, SIGTERM and SIGHUP raise fy_interrupted; a mapped file that cannot be read any more ends
 * the program with a message. */
void fy_signals_install(void);

/* The signal behind fy_interrupted, 0 when there was none; lowers fy_interrupted. SIGINT only when
 * no other one came. */
int fy_signals_take(void);

/* While held, no signal ends the program: somebody waits for fy_interrupted, with the terminal in a
 * state that must not be left behind. */
void fy_signals_hold(bool hold);

/* What the handler writes to standard output before it ends the program; a view that must last,
 * NULL: nothing. */
void fy_signals_last_words(const char *text);

/* Waits until fd can be read (or has ended): 0. -1 as soon as fy_interrupted or *also (may be NULL)
 * is set; no signal is lost between looking and waiting, as all other threads block them. */
int fy_signals_wait_input(int fd, const volatile sig_atomic_t *also);

#endif
