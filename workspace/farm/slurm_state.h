/* What farm has to know of a job in Slurm to follow it, from another process perhaps: a file of the
 * directory ferry-farm-NUMBER, where the parts leave their output and exit status, too. */
#ifndef FY_FARM_SLURM_STATE_H
#define FY_FARM_SLURM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    uint32_t n;       /* parts */
    uint32_t retries; /* how often what failed is sent again, */
    uint32_t round;   /* and how often it was */
    uint32_t array;   /* the array job of this round; 0: there is none, only the end failed */
    uint32_t end;     /* the job that ends the work */
    bool *set;        /* owned, [n + 1]: the parts of this round; all others are done */
} fy_slurm_state;

int fy_slurm_state_init(fy_slurm_state *s, uint32_t n, uint32_t retries, fy_err *e); /* all set */
void fy_slurm_state_release(fy_slurm_state *s);

int fy_slurm_state_write(const fy_slurm_state *s, const char *dir, fy_err *e);
int fy_slurm_state_read(fy_slurm_state *s, const char *dir, fy_err *e);
int fy_slurm_state_parse(fy_slurm_state *s, fy_span text, fy_err *e);

/* The exit status that a part (0: the end) has left in the directory; -1: none. */
int fy_slurm_status_of(const char *dir, uint32_t part);
void fy_slurm_status_forget(const char *dir, uint32_t part);
/* Appends the end of a file of the directory; nothing when it is not there. */
void fy_slurm_tail_of(const char *dir, const char *name, size_t most, fy_str *out);

#endif
