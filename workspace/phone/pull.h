/* `ferry pull`: a file or a directory from the phone, under its name here only once it is whole. A
 * workspace is taken by its manifest: the listed files, each compared with its hash. */
#ifndef FY_WORKSPACE_PULL_H
#define FY_WORKSPACE_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/progress.h"

typedef struct {
    const char *path;   /* on the phone; one without '/' in front lies in FY_PHONE_DIR */
    const char *out;    /* here; NULL: the last part of path */
    const char *serial; /* NULL: as fy_adb_open */
} fy_pull_params;

typedef struct {
    char serial[128];
    char path[1200]; /* here */
    uint64_t files, bytes;
    bool verified; /* by a manifest */
} fy_pull_result;

int fy_pull(const fy_pull_params *p, fy_progress *progress, fy_pull_result *out, fy_err *e);

#endif
