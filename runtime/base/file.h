/* Files: read-only maps for input, and output that has its final name only once it is whole.
 *
 * An output is written as "<path>.part", fsynced, renamed, and its directory fsynced; until
 * fy_out_commit returns 0 nothing exists under the final name (or the previous file is still there,
 * untouched). A .part may be left on purpose, for another process to resume (fy_out_leave). */
#ifndef FY_BASE_FILE_H
#define FY_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"

typedef struct {
    const uint8_t *data; /* the mapping; a valid pointer even when size is 0 */
    size_t size;
    void *base;    /* owned; NULL when nothing is mapped */
    size_t mapped; /* bytes at base */
    bool is_copy;  /* of its own memory, not of the file */
} fy_map;

/* Maps a regular file read-only. Messages name `path`; directories and special files are refused.
 */
int fy_map_open(fy_map *m, const char *path, fy_err *e);
int fy_map_open_in(fy_map *m, const char *dir, const char *name, fy_err *e); /* "<dir>/<name>" */
void fy_map_close(fy_map *m);

/* How the bytes of a file get into memory. Zeroed: the file is mapped, and read where it is
 * touched. */
typedef struct {
    bool read; /* read whole into memory of its own, in huge pages where the system has them: the
                  file may then change or vanish, but its bytes are memory that cannot be given back
                  under pressure, and no other process shares them */
    bool huge; /* for bytes that are read again and again: ask for huge pages for the map, too. The
                  kernel has them for a file from its first reading on, or not at all */
    bool lock; /* stay in memory: read all of it now, and page nothing out. What the system does not
                  allow is a warning */
    fy_progress *progress; /* of either; gets the size; may be NULL */
} fy_map_options;

/* As fy_map_open; also FY_EINTR, and FY_EFIT when there is no memory for a copy. */
int fy_map_open_as(fy_map *m, const char *path, const fy_map_options *options, fy_err *e);

/* Tells the system that data[off, off+len) will not be needed again soon, so that resident memory
 * stays small while a large file streams through. Advice only: never fails. */
void fy_map_drop(const fy_map *m, uint64_t off, uint64_t len);

/* SHA-256 of a regular file; may be interrupted. */
int fy_file_sha256(const char *path, char out[FY_SHA256_HEX], fy_err *e);

typedef struct fy_out fy_out;

/* Creates "<path>.part", truncating an older one; one that another process writes is an error, and
 * so is a path under which something else than a regular file stands. With size > 0 the space is
 * reserved at once, so that a full disk is found before the work. NULL on failure. */
fy_out *fy_out_open(const char *path, uint64_t size, fy_err *e);

/* As fy_out_open without a size, but an older .part keeps its bytes, and fy_out_unlink_all does not
 * touch it: for work that another process may resume. */
fy_out *fy_out_open_kept(const char *path, fy_err *e);
/* A .part that several processes write at once, on any machine that sees it, each its own ranges:
 * made by the first of them with `size` bytes and, after those, a mark. The mark has the key of the
 * work, which is the same for all, and an id by which a process knows that it is still the same
 * file:
 * "" when it was cut to `size` already, as what ends the work was interrupted. FY_EARG: there is a
 * .part of other work; FY_EIO without `make`: none. */
#define FY_OUT_ID_HEX 33
fy_out *fy_out_open_shared(const char *path, uint64_t size, const uint8_t key[32], bool make,
                           char id[FY_OUT_ID_HEX], fy_err *e);
/* Removes what processes that were killed while they made that file have left next to it. */
void fy_out_remove_unlinked(const char *path);
const char *fy_out_part(const fy_out *o); /* name of the .part file; view */
int fy_out_size(const fy_out *o, uint64_t *size, fy_err *e);
/* Cuts, or grows and reserves the space. */
int fy_out_resize(fy_out *o, uint64_t size, fy_err *e);
int fy_out_pread(const fy_out *o, void *p, size_t n, uint64_t off, fy_err *e);
/* What was written before is on the disk. most_ms 0: may be interrupted; else not, but gives up
 * after so long. FY_EINTR in both cases. */
int fy_out_sync(fy_out *o, int most_ms, fy_err *e);
/* Closes, the .part file stays; frees `o`. NULL is fine. */
void fy_out_leave(fy_out *o);
/* Bytes of disk that the .part file of this output takes now: free again once it is opened. */
uint64_t fy_out_held(const char *path);

/* Writes all n bytes at `off`. Thread-safe for disjoint ranges. */
int fy_out_pwrite(fy_out *o, const void *p, size_t n, uint64_t off, fy_err *e);

/* Tells the system to begin writing that range to the disk, so that it works while more is made and
 * little is left for fy_out_sync or fy_out_commit to wait for. Advice only: never fails. */
void fy_out_begin_sync(fy_out *o, uint64_t off, uint64_t n);

/* After a write of n bytes at `at` to a file that grows from its beginning: every 32 MiB the system
 * begins to write what came last to the disk, and what came 32 MiB before that must have arrived.
 * So no flush takes long, and a Ctrl-C is heard between them. Advice only: never fails. */
void fy_flush_behind(int fd, uint64_t at, size_t n);
void fy_out_flush_behind(fy_out *o, uint64_t at, size_t n);

/* Flush, rename to the final name, fsync of the directory; frees `o` in every case. On failure,
 * and when interrupted, the .part file is removed. */
int fy_out_commit(fy_out *o, fy_err *e);
/* The same right after fy_out_sync: cannot be interrupted. */
int fy_out_finish(fy_out *o, fy_err *e);

/* Closes and removes the .part file, frees `o`. NULL is fine. */
void fy_out_abort(fy_out *o);

/* Removes the .part files that are open now. Async-signal-safe: for a handler that ends the
 * process. */
void fy_out_unlink_all(void);

/* Whole small file in one call, through fy_out. */
int fy_file_write(const char *path, const void *p, size_t n, fy_err *e);

/* Opens a file that a run fills under a provisional name, for reading and writing: a new one, or
 * what an earlier run left. Refused is what somebody else could write to or read from later, or
 * made us overwrite: links, a file with several names, one of another user (unless the directory is
 * that user's too: then so is everything in it). The descriptor, or -1. */
int fy_open_own(const char *path, fy_err *e);
/* The same check for a file or directory that is open already. */
int fy_check_own(int fd, const char *path, fy_err *e);

/* fsync, of large files in steps between which it can be interrupted. */
int fy_sync_fd(int fd, const char *name, fy_err *e);

/* All n bytes at the descriptor's position; `name` is for the message. */
int fy_write_all(int fd, const void *p, size_t n, const char *name, fy_err *e);

/* fsync of the directory that holds `path`, so that a name in it lasts. Best effort: some file
 * systems refuse. */
void fy_sync_dir_of(const char *path);

/* Bytes free for this user on the file system of `path` (its directory when it does not exist yet).
 */
int fy_file_space(const char *path, uint64_t *bytes, fy_err *e);

/* Removes a file, or a directory and all that is in it, as far as possible: 0, also when there was
 * none; -1 with errno when something is left. */
int fy_tree_remove(const char *path);

bool fy_file_exists(const char *path); /* follows links */
bool fy_file_is_dir(const char *path);
bool fy_dir_has(const char *dir, const char *name); /* a file or directory of that name */
bool fy_file_is_same(const char *a, const char *b); /* one file under both names, links followed */

#endif
