/* ferry farm: the parts of a verb (--part I/N, --finish N) made by an array job of Slurm or by
 * processes here, or written down for another scheduler.
 *
 * Any verb that has both options can be cut so. farm starts this program with the verb's words and
 * one of the two options, once for each part and once more when all are done; it knows nothing else
 * of the work. A part that is run again resumes, and one that is done ends at once: so a part may
 * always be sent again. */
#ifndef FY_FARM_FARM_H
#define FY_FARM_FARM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opts.h"
#include "base/str.h"
#include "cli/verb.h"

typedef struct {
    const fy_verb *verb;
    char *exe;                /* owned; this program */
    const char *const *words; /* view, [n_words]: what stands after the verb */
    size_t n_words;
    uint32_t n;       /* parts */
    uint32_t retries; /* how often a part that failed is sent again */
} fy_farm_job;

/* Checks the words as the verb itself does, before anything starts. n: FY_OPT_UNSET_INT when it was
 * not given. The views have to outlive the job. */
int fy_farm_job_init(fy_farm_job *job, const char *verb, const fy_opt_list *words, int64_t n,
                     int64_t retries, fy_err *e);
void fy_farm_job_release(fy_farm_job *job);

bool fy_farm_has_parts(const fy_verb *v);

/* Does the verb have this option, and have its words left it open? */
bool fy_farm_may_add(const fy_farm_job *job, const char *option);

/* The command with an option before its words ("--part", "3/64") and `more` (NULL: nothing): the
 * array ends with NULL and is freed by the caller; its strings are views. NULL: out of memory. */
const char **fy_farm_argv(const fy_farm_job *job, const char *option, const char *value,
                          const char *more);

/* --- how it went (farm_words.c) --- */

/* The error of a part or of the end that left with this exit status; -1: nobody knows it. */
fy_code fy_farm_code(int status);
/* Would it end in the same way if it were run again? Usage, no room, other work, a full disk. */
bool fy_farm_is_final(int status);
/* The last line of what a process printed that is not empty; a view. */
fy_span fy_farm_last_line(fy_span text);

/* --- engines --- */

/* What others run. */
typedef enum { FY_PRINT_COMMANDS, FY_PRINT_SBATCH, FY_PRINT_KUBERNETES } fy_farm_print;
int fy_farm_put(const fy_farm_job *job, fy_farm_print as, const fy_opt_list *sbatch, fy_str *out,
                fy_err *e);
/* The script that Slurm runs for each part, and without an array for the end. */
int fy_farm_put_sbatch(const fy_farm_job *job, const fy_opt_list *sbatch, fy_str *out, fy_err *e);

/* At most as many at once as there are processors. */
int fy_farm_local(const fy_farm_job *job, fy_err *e);

/* Submits the job and follows it; detach: prints its number and leaves it. */
int fy_farm_slurm(const fy_farm_job *job, const fy_opt_list *sbatch, bool detach, fy_err *e);
/* Follows one that was submitted here. */
int fy_farm_follow(const char *number, fy_err *e);

#endif
