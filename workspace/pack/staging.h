/* A directory that appears under its name only once it is whole: "DIR.part" is filled, flushed and
 * renamed.
 *
 * DIR must not exist, or be an empty directory. A DIR.part that an earlier run left is emptied and
 * reused; one that another ferry is filling (it is locked), or of another user, is refused. */
#ifndef FY_WORKSPACE_STAGING_H
#define FY_WORKSPACE_STAGING_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct fy_staging fy_staging;

fy_staging *fy_staging_open(const char *dir, fy_err *e); /* NULL on failure */

/* Path of `rel` inside, for the caller to free. rel must be safe to join (bundle/manifest_read.h).
 * NULL: out of memory. */
char *fy_staging_path(const fy_staging *s, const char *rel, fy_err *e);

/* Makes the directories that `rel` needs and creates the file with this mode, whatever the umask;
 * -1 on failure. */
int fy_staging_create(fy_staging *s, const char *rel, uint32_t mode, fy_err *e);
/* Only the directories. */
int fy_staging_mkdirs(fy_staging *s, const char *rel, fy_err *e);
/* A whole small file. */
int fy_staging_write(fy_staging *s, const char *rel, uint32_t mode, const void *p, size_t n,
                     fy_err *e);

/* FY_ENOSPACE unless `bytes` more fit on the disk. */
int fy_staging_need(const fy_staging *s, uint64_t bytes, fy_err *e);

/* Flushes the whole tree, renames it to DIR, frees `s` in every case; removes it on failure. */
int fy_staging_commit(fy_staging *s, fy_err *e);
/* Removes the tree, frees `s`. NULL is fine. */
void fy_staging_abort(fy_staging *s);

#endif
