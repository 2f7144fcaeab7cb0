/* The cache that Hugging Face's tools share, as huggingface_hub (file_download.py, 0.x to 2.x) lays
 * it out:
 *
 *     CACHE/models--ORG--NAME/refs/REVISION              the commit that a branch or tag was at
 *                             blobs/HASH                 contents: SHA-256 (LFS), or git's SHA-1
 *                             blobs/HASH.incomplete      what has come of one
 *                             snapshots/COMMIT/FILE      -> ../../blobs/HASH
 *     CACHE/.locks/models--ORG--NAME/HASH.lock           held while a blob is downloaded
 *
 * CACHE is $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or
 * ~/.cache/huggingface/hub, the first that is set.  */
#ifndef FY_HUB_HUB_CACHE_H
#define FY_HUB_HUB_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define FY_HUB_ID_BYTES       200 /* ORG/NAME with its NUL */
#define FY_HUB_REVISION_BYTES 256
#define FY_HUB_TYPE_BYTES     32

/* "[ORG/]NAME[:TYPE][@REVISION]", parsed. */
typedef struct {
    char id[FY_HUB_ID_BYTES];
    char type[FY_HUB_TYPE_BYTES];         /* of a GGUF model: "Q4_K_M"; "": not given */
    char revision[FY_HUB_REVISION_BYTES]; /* "": not given, which is "main" */
} fy_hub_ref;

int fy_hub_ref_read(const char *text, fy_hub_ref *out, fy_err *e);

/* A revision becomes a part of paths: no empty, "." or ".." part, no control character, no '\\'. */
int fy_hub_check_revision(const char *revision, fy_err *e);

/* The caller frees these; NULL on failure. */
char *fy_hub_home(const char *name, fy_err *e); /* $HF_HOME/NAME, or where that is when not set */
char *fy_hub_cache_dir(fy_err *e);              /* CACHE */
char *fy_hub_storage(const fy_hub_ref *ref, fy_err *e); /* CACHE/models--ORG--NAME */

/* "ORG/NAME", or "NAME", of the cache entry that `dir` is a snapshot of, links followed: a new
 * string. NULL and 0: it is none. */
int fy_hub_id_of_snapshot(const char *dir, char **id, fy_err *e);

/* "ORG/NAME" of a directory's name "models--ORG--NAME", as a new string; NULL and 0: it is none. */
int fy_hub_entry_id(fy_span base, char **id, fy_err *e);

/* Is it a directory models--ORG--NAME of a cache? */
bool fy_hub_is_entry(const char *dir);

/* The snapshot of a revision in such a directory, of "main" for "", or the only one: a new string. */
int fy_hub_find_snapshot(const char *storage, const char *revision, char **dir, fy_err *e);

/* --- writing ----------------------------------------------------------------------------------
 *
 * What has come of a blob is "HASH.incomplete"; it becomes a blob when size and hash are those that
 * the hub reported, and not before. Two programs never write one blob: each holds the lock that
 * huggingface_hub takes too. A failed or interrupted download leaves what it has, and the next one
 * resumes it. */

typedef struct fy_hub_blob fy_hub_blob;

/* storage: of fy_hub_storage. Takes the lock, and reads (hashes) what an earlier download left.
 * NULL on failure. */
fy_hub_blob *fy_hub_blob_open(const char *storage, const char *hash, uint64_t size, fy_err *e);
uint64_t fy_hub_blob_bytes(const fy_hub_blob *b); /* that are there: where to resume */
int fy_hub_blob_add(fy_hub_blob *b, const void *p, size_t n,
                    fy_err *e);                     /* FY_EFORMAT: more than `size` */
int fy_hub_blob_restart(fy_hub_blob *b, fy_err *e); /* throws away what is there */

/* All bytes are there: 0: the blob is in its place; 1: they have another hash (*hex, 65 bytes), and
 * are thrown away. */
int fy_hub_blob_end(fy_hub_blob *b, char *hex, fy_err *e);
void fy_hub_blob_close(fy_hub_blob *b); /* gives the lock back; NULL is fine */

/* Is the blob there, as large as it should be? And how many bytes of it were downloaded? */
bool fy_hub_blob_is_there(const char *storage, const char *hash, uint64_t size);
uint64_t fy_hub_blob_partial(const char *storage, const char *hash);

/* snapshots/COMMIT/NAME -> the blob. */
int fy_hub_link(const char *storage, const char *commit, const char *name, const char *hash,
                fy_err *e);

/* refs/REVISION := COMMIT; nothing is written for a revision that is the commit. */
int fy_hub_write_ref(const char *storage, const char *revision, const char *commit, fy_err *e);

#endif
