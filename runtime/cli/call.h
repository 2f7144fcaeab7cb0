/* One call of a verb with the words behind its name: main makes one, a verb that is made of other
 * verbs makes several, in the same process.
 *
 *     fy_call c;
 *     rc = fy_call_open(&c, v, argc, argv, e);
 *     if (rc == 0 && !c.help) rc = fy_call_run(&c, &status, e);
 *     fy_call_close(&c);                                    in every case
 *
 * argv is reordered and has to outlive the call. */
#ifndef FY_CLI_CALL_H
#define FY_CLI_CALL_H

#include "cli/settings.h"
#include "cli/verb.h"

struct fy_call {
    const fy_verb *v;
    void *o;           /* owned; the verb's options, filled */
    const char **from; /* owned; [n_opts] where each has its value from, NULL: the default */
    int n_args;
    char **args; /* view of argv: the positional arguments */
    bool help;   /* --help was among the words: nothing else was read */
    fy_settings settings;
};

int fy_call_open(fy_call *c, const fy_verb *v, int argc, char **argv, fy_err *e);
void fy_call_close(fy_call *c);

/* *status: what the program should exit with; not 0 only for a verb that ran elsewhere (on the
 * phone) and said there what went wrong. */
int fy_call_run(fy_call *c, int *status, fy_err *e);

/* Is the call to run on the phone? Then *serial is that of --device or --serial, "" for the only
 * phone, NULL when they name two. */
bool fy_call_is_remote(const fy_call *c, const char **serial);

#endif
