/* What a manifest says about a file, computed while its bytes stream by: size, SHA-256, and for
 * files larger than FY_MANIFEST_BLOCK a SHA-256 per block. */
#ifndef FY_WORKSPACE_DIGEST_H
#define FY_WORKSPACE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/progress.h"
#include "bundle/manifest_read.h"

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

/* FY_EVERIFY when the file is not the one listed; says whether size or hash differ, and where.
 * Without a name of the file: the caller prefixes it. */
int fy_digest_compare(const fy_digest *d, const fy_manifest_entry *m, fy_err *e);

#endif
