/* --part and --finish: work that is cut into parts for several machines, and what ends it. */
#ifndef FY_CLI_PART_OPTIONS_H
#define FY_CLI_PART_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/job_part.h"
#include "base/opts.h"
#include "base/str.h"

/* Fields `part` (const char *) and `finish` (int64_t) of the verb's `options`. */
#define FY_ROWS_PARTS                                                                             \
    {.group = "Parts",                                                                            \
     .name = "part",                                                                              \
     .kind = FY_OPT_STR,                                                                          \
     .arg = "I/N|auto/N",                                                                         \
     .offset = offsetof(options, part),                                                           \
     .line_only = true,                                                                           \
     .help = "Do part I of N, from 1, and leave it for --finish. Parts run on any machines that " \
             "see the same directory, in any order, and resume. auto: which one an array job of " \
             "Slurm, an indexed job of Kubernetes or MPI says (docs/parts.md)."},                 \
    {                                                                                             \
        .group = "Parts", .name = "finish", .kind = FY_OPT_INT, .arg = "N",                       \
        .offset = offsetof(options, finish), .min = 1, .max = FY_PARTS_MAX, .line_only = true,    \
        .help = "Check that all N parts are done, of the same work and program, and give the "    \
                "output its name. Exit status 4 and the command for it when one is missing."      \
    }

/* What a process does of the work. */
typedef struct {
    fy_job_part part; /* n is 0: all of it */
    bool finishes;
    fy_str command; /* released by fy_part_options_release: this command line without --finish */
} fy_part_options;

/* finish: 0 or below when it was not given. */
int fy_part_options_read(const char *part, int64_t finish, fy_part_options *out, fy_err *e);
void fy_part_options_release(fy_part_options *p);

/* Reports the end of a part, or of all. Returns 0. */
int fy_part_say_done(const fy_part_options *p, const char *out, double seconds);

/* Shows what each part of the work does: [n] units of it, and the time of all where it is known
 * (seconds of the whole on one machine; < 0: it is not). */
void fy_part_show(const uint64_t *work, uint32_t n, double seconds, fy_str *out);

#endif
