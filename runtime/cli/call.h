/* One call of a verb with the words after its name: main makes one, a verb that is made of other
 * verbs makes several, in the same process.
 *
 *     fy_call c;
 *     rc = fy_call_open(&c, v, argc, argv, e);
 *     if (rc == 0 && !c.help) rc = fy_call_run(&c, &status, e);
 *     fy_call_close(&c);                                    in every case
 *
 * argv is reordered and has to outlive the call.
 *
 * Values that are not on the command line come from settings: FERRY_* variables, then the
 * configuration file, then the default. Rows with `line_only` are left out. A variable is FERRY_ and
 * the long name in capitals, '-' as '_'; empty is not set. The file is $FERRY_CONFIG, else
 * $XDG_CONFIG_HOME/ferry/config, else ~/.config/ferry/config (docs/command-line.md). All of the file
 * is checked, whichever verb runs; a mistake in it is FY_EARG with file and line. */
#ifndef FY_CLI_CALL_H
#define FY_CLI_CALL_H

#include "base/arena.h"
#include "base/opts.h"
#include "cli/verb.h"

#define FY_SETTINGS_MAX_BYTES (64 << 10) /* of the file */

typedef struct {
    fy_opt_given *given; /* owned; rows of the verb's table */
    size_t n, cap;
    const char *path; /* view of strings: the file that was read; NULL: none */
    fy_arena strings; /* what the given values and their sources view */
} fy_settings;

/* Both sources, for the options of `v`. Release it after use, also when this failed. */
int fy_settings_read(fy_settings *s, const fy_verb *v, fy_err *e);

/* Only the file: adds the values in `text` for v. */
int fy_settings_parse(fy_settings *s, const fy_verb *v, fy_span text, const char *path, fy_err *e);

void fy_settings_release(fy_settings *s);

/* "FERRY_CTX_SIZE" of "ctx-size". */
void fy_settings_variable(const char *name, char *out, size_t size);

/* Gives fy_option_source the sources of the options at `into`; `from` is that of fy_opts_fill. Both
 * must last until the previous one, which is returned, is published again. */
typedef struct {
    const fy_verb *v; /* NULL: none */
    const char *into;
    const char *const *from;
} fy_settings_source;
fy_settings_source fy_settings_publish(fy_settings_source s);

/* --- a call --- */

/* What is usually done next, as a line on standard error: "next: ferry push tales". On a terminal
 * only, and not when another verb made the call. Releases the command. */
void fy_say_next(fy_str *command);

struct fy_call {
    const fy_verb *v;
    void *o;           /* owned; the verb's options, filled */
    const char **from; /* owned; [n_opts] the source of each value, NULL: the default */
    int n_args;
    char **args; /* view of argv: the positional arguments */
    bool help;   /* --help was among the words: nothing else was read */
    fy_settings settings;
    char *model_path; /* owned; where the model is that the user named; NULL: as written */
};

int fy_call_open(fy_call *c, const fy_verb *v, int argc, char **argv, fy_err *e);
void fy_call_close(fy_call *c);

/* *status: the exit status for the program; not 0 only for a verb that ran on the phone and reported
 * its error there. */
int fy_call_run(fy_call *c, int *status, fy_err *e);

/* Is the call to run on the phone? Then *serial is that of --device or --serial, "" for the only
 * phone, NULL when they name two. */
bool fy_call_is_remote(const fy_call *c, const char **serial);

#endif
