/* Slurm's commands, run without a shell. Variables that would change what they do or print for
 * farm are taken out of their environment. FY_EIO with the command's own last line. */
#ifndef FY_FARM_SLURM_CALL_H
#define FY_FARM_SLURM_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* sbatch of this script, with one option more than those in it (NULL: none) and one argument for
 * the script (NULL: none). held: it waits for fy_slurm_release. Not interrupted: its number would
 * be lost. */
typedef struct {
    const char *script, *argument;
    const char *array, *dependency; /* NULL: none */
    const char *output, *error;     /* error NULL: the same file */
    bool held;
} fy_slurm_order;
int fy_slurm_submit(const fy_slurm_order *o, uint32_t *job, fy_err *e);
int fy_slurm_release(uint32_t job, fy_err *e);
/* Both at once; 0: none. A job that has ended is no error. */
int fy_slurm_cancel(uint32_t a, uint32_t b, fy_err *e);
int fy_slurm_cancel_task(uint32_t array, uint32_t task, fy_err *e);
/* The rows (slurm_text.h) of two jobs as far as slurmctld remembers them; 0: none. */
int fy_slurm_rows(uint32_t a, uint32_t b, fy_str *rows, fy_err *e);

#endif
