/* Progress of a long job and the user's wish to stop it.
 *
 * A job gets a fy_progress (or NULL) and calls fy_progress_add from any thread; the program's
 * callback shows it. fy_interrupted is raised by the program's signal handler; every long loop
 * polls it and ends with FY_EINTR. */
#ifndef FY_BASE_PROGRESS_H
#define FY_BASE_PROGRESS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

typedef struct fy_progress fy_progress;
struct fy_progress {
    const char *what;     /* view: "converting" */
    uint64_t total_bytes; /* 0: unknown */
    _Atomic uint64_t done_bytes;
    void (*show)(fy_progress *p); /* may be NULL; called from the thread that adds, must be quick */
    void *user;
};

void fy_progress_add(fy_progress *p, uint64_t bytes); /* p may be NULL */

extern volatile sig_atomic_t fy_interrupted;

/* 0, or -1 with FY_EINTR once fy_interrupted is set. Cheap enough for every turn of a loop. */
static inline int fy_check_interrupt(fy_err *e)
{
    return fy_interrupted ? fy_fail(e, FY_EINTR, "interrupted") : 0;
}

#endif
