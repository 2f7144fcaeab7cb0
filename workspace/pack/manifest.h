/* Making manifest.json. One text per content: entries sorted by path, no time stamps. The last key,
 * "sha256", is the hash of the text in front of its comma, so that no byte of the file can change
 * unseen. */
#ifndef FY_WORKSPACE_MANIFEST_H
#define FY_WORKSPACE_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "bundle/manifest_read.h"

/* --- digests ---------------------------------------------------------------------------------- */

typedef struct {
    uint64_t bytes;
    uint8_t sha256[FY_SHA256_BYTES];
    uint8_t *blocks; /* owned; NULL when the file has none */
} fy_digest;
void fy_digest_release(fy_digest *d);

typedef struct fy_digester fy_digester;
fy_digester *fy_digester_new(fy_err *e); /* NULL on failure */
int fy_digester_add(fy_digester *d, const void *p, size_t n, fy_err *e);
/* Ends and frees `d`; out may be NULL to give up. */
int fy_digester_end(fy_digester *d, fy_digest *out, fy_err *e);

/* Reads a regular file from beginning to end; links are refused. With copy_fd >= 0 its bytes are
 * written there too (copy_name is for messages). */
int fy_digest_file(const char *path, int copy_fd, const char *copy_name, fy_progress *progress,
                   fy_digest *out, fy_err *e);

/* The same for an open file, from its current position; sink (may be NULL) gets its bytes. */
typedef int fy_digest_sink(void *user, const void *p, size_t n, fy_err *e);
int fy_digest_fd(int fd, const char *name, fy_digest_sink *sink, void *user, fy_progress *progress,
                 fy_digest *out, fy_err *e);

/* FY_EVERIFY when the file is not the one listed; the message tells whether size or hash differ,
 * and where, without the file's name: the caller prefixes it. */
int fy_digest_compare(const fy_digest *d, const fy_manifest_entry *m, fy_err *e);

/* --- what is not listed ----------------------------------------------------------------------- */

typedef struct {
    char **path; /* owned; relative, sorted; anything but directories counts as a file */
    size_t n, cap;
} fy_tree;

int fy_tree_unlisted(const char *dir, const fy_manifest *m, fy_tree *out, fy_err *e);
void fy_tree_release(fy_tree *t);

/* --- the text --------------------------------------------------------------------------------- */

/* A manifest without files. On failure the caller still releases it. */
int fy_manifest_begin(fy_manifest *m, const char *tool, const char *target, fy_err *e);

/* Adds a file; takes the digest's memory, also on failure. A path that readers would refuse is
 * FY_EARG. */
int fy_manifest_add(fy_manifest *m, const char *path, uint32_t mode, fy_digest *d, fy_err *e);

/* Sorts the entries and appends the text to `out`. */
int fy_manifest_text(fy_manifest *m, fy_str *out, fy_err *e);

#endif
