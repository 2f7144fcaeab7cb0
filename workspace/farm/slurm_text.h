/* What Slurm's commands print, taken apart: nothing of it is trusted. And lists of array tasks. */
#ifndef FY_FARM_SLURM_TEXT_H
#define FY_FARM_SLURM_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "workspace/farm/farm_parts.h"

/* The number that `sbatch --parsable` prints: "12" or "12;cluster". */
int fy_slurm_job_number(fy_span text, uint32_t *job, fy_err *e);
/* Digits alone: a number above 0. */
bool fy_slurm_number(fy_span text, uint32_t *out);

#define FY_SQUEUE_FORMAT "%F|%K|%T|%N|%r"

typedef struct {
    uint32_t job, task; /* task 0: it is not an array job */
    fy_part_state state;
    fy_span node, why; /* views; of any origin */
} fy_slurm_row;

/* Takes the next row off the text of squeue with that format, -h and -r. 1: there was one, 0: there
 * is none, -1: it is not a row. */
int fy_slurm_next_row(fy_span *rest, fy_slurm_row *out, fy_err *e);

/* "1-3,7" of the tasks 1 to n that are set. */
void fy_slurm_put_tasks(const bool *set, uint32_t n, fy_str *out);

#endif
