/* Values that options take from outside the command line: FERRY_* variables and the configuration
 * file. The command line counts before a variable, a variable before the file, the file before the
 * default. Rows with `line_only` are left out.
 *
 * A variable is FERRY_ and the long name in capitals, '-' as '_'; empty is not set. The file is
 * $FERRY_CONFIG, else $XDG_CONFIG_HOME/ferry/config, else ~/.config/ferry/config (docs/
 * command-line.md describes it). All of the file is checked, whichever verb runs; what is wrong in
 * it is FY_EARG with file and line. */
#ifndef FY_CLI_SETTINGS_H
#define FY_CLI_SETTINGS_H

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

/* The file's part alone: adds what `text` says for v. */
int fy_settings_parse(fy_settings *s, const fy_verb *v, fy_span text, const char *path, fy_err *e);

void fy_settings_release(fy_settings *s);

/* "FERRY_CTX_SIZE" of "ctx-size". */
void fy_settings_variable(const char *name, char *out, size_t size);

/* Tells fy_option_source where the options at `into` have their values from; `from` is that of
 * fy_opts_fill. Both have to stay until the one before, which is returned, is published again. */
typedef struct {
    const fy_verb *v; /* NULL: none */
    const char *into;
    const char *const *from;
} fy_settings_source;
fy_settings_source fy_settings_publish(fy_settings_source s);

#endif
