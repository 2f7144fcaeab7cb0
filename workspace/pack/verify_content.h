/* The files of a workspace against each other, once the bytes of each are right: the second half of
 * fy_verify (workspace.h). */
#ifndef FY_WORKSPACE_VERIFY_CONTENT_H
#define FY_WORKSPACE_VERIFY_CONTENT_H

#include "base/err.h"
#include "bundle/manifest_read.h"
#include "workspace/pack/workspace.h"

int fy_verify_content(const char *dir, const fy_manifest *m, fy_verify_report *r, fy_err *e);

/* Adds a finding; takes copies. */
int fy_verify_add(fy_verify_report *r, const char *path, const char *text, fy_err *e);
/* A failed check as a finding. What stops the whole job (memory, an interrupt) stays an error. */
int fy_verify_found(fy_verify_report *r, const char *path, const fy_err *what, fy_err *e);
/* Adds a note. */
int fy_verify_note(fy_verify_report *r, const char *path, const char *text, fy_err *e);

#endif
