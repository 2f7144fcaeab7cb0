/* The workspaces that this user made, pushed or brought up, for `ferry list` and `ferry rm`: one
 * absolute path a line in $XDG_STATE_HOME/ferry/workspaces, else ~/.local/state/ferry/workspaces.
 * The last one is the newest. A line that names no workspace is dropped when the file is written
 * again. */
#ifndef FY_WORKSPACE_KNOWN_H
#define FY_WORKSPACE_KNOWN_H

#include <stddef.h>

#include "base/err.h"

#define FY_KNOWN_MAX 10000 /* lines; older ones are dropped */

typedef struct {
    char **path; /* owned, each; real paths of directories with workspace.json */
    size_t n, cap;
} fy_known;

/* Records a workspace. A failure is a message of -v and nothing more: the calling verb continues. */
void fy_known_add(const char *dir);

/* Those that are there. No file is none. */
int fy_known_read(fy_known *out, fy_err *e);
/* Appends the real path of a workspace, unless it is there. Other directories are left out. */
int fy_known_append(fy_known *l, const char *dir, fy_err *e);
void fy_known_release(fy_known *l);

#endif
