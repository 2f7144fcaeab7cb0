/* Other programs, started without a shell: what they print is collected, and their end awaited.
 *
 * A child has /dev/null as its standard input and the default action for every signal. One whose
 * output is collected has a process group of its own, too: Ctrl-C at the terminal reaches this
 * program alone, which decides what becomes of its children. */
#ifndef FY_BASE_CHILD_H
#define FY_BASE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

/* Which of its streams come through pipes; the others are those of this program. */
typedef enum {
    FY_CHILD_SHOWN,    /* none */
    FY_CHILD_JOINED,   /* standard output and error, both by fy_child.err */
    FY_CHILD_SEPARATE, /* each by its own */
} fy_child_streams;

typedef struct {
    pid_t pid;
    int out, err; /* ends to read, owned; they do not block. -1: no pipe, or it has ended */
} fy_child;

/* argv ends with NULL; argv[0] is looked for in PATH unless it has a slash. env NULL: that of this
 * program. FY_EIO names the program that is not there. */
int fy_child_start(fy_child *c, const char *const *argv, char *const *env, fy_child_streams streams,
                   fy_err *e);

/* Appends what there is to read to out and err, which may be NULL: it is dropped. Ended pipes are
 * closed. Waits for at most `ms` until there is something, or until a signal comes. */
void fy_child_read(fy_child *c, fy_str *out, fy_str *err, int ms);

/* True once it has ended: then *status is its exit status, or 128 and the number of the signal that
 * ended it; the rest of what it printed is appended as by fy_child_read, and its pipes are closed.
 */
bool fy_child_ended(fy_child *c, fy_str *out, fy_str *err, int *status);

/* Runs a program to its end and collects what it prints, at most `most` bytes of each stream: the
 * rest is dropped. An interrupt ends the program and is FY_EINTR, unless it has to be `whole`. */
int fy_child_run(const char *const *argv, char *const *env, bool whole, size_t most, fy_str *out,
                 fy_str *err, int *status, fy_err *e);

#endif
