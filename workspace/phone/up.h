/* `ferry up`: from a checkpoint to a chat on the phone. The steps are verbs, called through the
 * verb table; each is skipped when what it would make is there (up_cache.h). */
#ifndef FY_WORKSPACE_UP_H
#define FY_WORKSPACE_UP_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opts.h"

typedef enum { FY_UP_CONVERT, FY_UP_CREATE, FY_UP_DOCTOR, FY_UP_PUSH, FY_UP_CHAT } fy_up_step;
#define FY_UP_STEPS "convert|create|doctor|push|chat" /* in this order */

typedef struct {
    const char *checkpoint; /* a directory, or a GGUF file */
    const char *name;       /* the checkpoint's; NULL: the last part of its path */
    const char *dir;        /* workspace; NULL: in the cache, named like the checkpoint */
    const char *outtype;    /* what to convert to; NULL for a GGUF file */
    const char *serial;     /* as fy_adb_open */
    fy_up_step last;        /* the step to end with */
    bool dry_run;           /* say what each step would do, on standard output */
    bool force;             /* go on although the doctor finds a failure */
    bool quiet, verbose;
    fy_opt_list convert, create, push, chat; /* further words for these verbs */
} fy_up_params;

/* A chat that failed on the phone, where it said why, is a failure with that exit status. */
int fy_up(const fy_up_params *p, fy_err *e);

#endif
