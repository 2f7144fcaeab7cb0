/* Writing into the cache (hub_cache.h). What has come of a blob is "HASH.incomplete"; it becomes a
 * blob when size and hash are those that the hub told, and not before. Two programs do not write
 * one blob: each holds the lock that huggingface_hub takes too. A failed or interrupted download
 * leaves what it has, to be gone on from. */
#ifndef FY_HUB_HUB_BLOB_H
#define FY_HUB_HUB_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct fy_hub_blob fy_hub_blob;

/* storage: of fy_hub_storage. Takes the lock, and reads (hashes) what an earlier download left.
 * NULL on failure. */
fy_hub_blob *fy_hub_blob_open(const char *storage, const char *hash, uint64_t size, fy_err *e);
uint64_t fy_hub_blob_bytes(const fy_hub_blob *b); /* that are there: where to go on */
int fy_hub_blob_add(fy_hub_blob *b, const void *p, size_t n,
                    fy_err *e);                     /* FY_EFORMAT: more than `size` */
int fy_hub_blob_restart(fy_hub_blob *b, fy_err *e); /* throws away what is there */

/* All bytes are there: 0: the blob is in its place; 1: they have another hash (*hex, 65 bytes), and
 * are thrown away. */
int fy_hub_blob_end(fy_hub_blob *b, char *hex, fy_err *e);
void fy_hub_blob_close(fy_hub_blob *b); /* gives the lock back; NULL is fine */

/* Is the blob there, as large as it should be? And what has come of it, in bytes? */
bool fy_hub_blob_is_there(const char *storage, const char *hash, uint64_t size);
uint64_t fy_hub_blob_partial(const char *storage, const char *hash);

/* snapshots/COMMIT/NAME -> the blob. */
int fy_hub_link(const char *storage, const char *commit, const char *name, const char *hash,
                fy_err *e);

/* refs/REVISION says COMMIT; nothing is written for a revision that is the commit. */
int fy_hub_write_ref(const char *storage, const char *revision, const char *commit, fy_err *e);

#endif
