/* Building and writing manifest.json. One text per content: entries sorted by path, no time stamps.
 * The last key, "sha256", is the hash of the text in front of its comma, so that no byte of the
 * file can change unseen. */
#ifndef FY_WORKSPACE_MANIFEST_H
#define FY_WORKSPACE_MANIFEST_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "bundle/manifest_read.h"
#include "workspace/pack/digest.h"

/* A manifest without files. On failure the caller still releases it. */
int fy_manifest_begin(fy_manifest *m, const char *tool, const char *target, fy_err *e);

/* Adds a file; takes the digest's memory, also on failure. A path that readers would refuse is
 * FY_EARG. */
int fy_manifest_add(fy_manifest *m, const char *path, uint32_t mode, fy_digest *d, fy_err *e);

/* Sorts the entries and appends the text to `out`. */
int fy_manifest_text(fy_manifest *m, fy_str *out, fy_err *e);

#endif
