/* Reading a tar archive from a file, a stream or memory, so that every failure can say where: how
 * much was read, and in which entry. zstd and gzip are taken off on the way. libarchive's reader
 * sees only bytes; nothing of an entry reaches the disk here. */
#ifndef FY_WORKSPACE_ARCHIVE_IN_H
#define FY_WORKSPACE_ARCHIVE_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/quote.h"

struct archive;
struct archive_entry;

typedef struct {
    /* set by the caller */
    const char *name;  /* view; for messages */
    const void *bytes; /* view; the archive itself, or NULL */
    size_t n;
    int fd; /* else where it is read from; the caller's */
    /* the reader's */
    struct archive *a;          /* owned; NULL: not open */
    void *buf;                  /* owned */
    uint64_t read_bytes;        /* of the source */
    uint8_t head[512];          /* the first of them */
    bool ended;                 /* the source has no more */
    char entry[FY_QUOTE_BYTES]; /* that was begun last; "" before the first */
    uint64_t entry_read;        /* bytes of it */
    int64_t entry_size;         /* as its header says; -1: it does not */
} fy_archive_in;

/* From the beginning; an open one is closed first. A source that was read before must be one that
 * can be read again (memory, a regular file). */
int fy_archive_in_open(fy_archive_in *in, fy_err *e);
void fy_archive_in_close(fy_archive_in *in);

/* 1: *en is the next entry; 0: the archive has ended; -1. */
int fy_archive_in_next(fy_archive_in *in, struct archive_entry **en, fy_err *e);
/* 1: a piece of the entry at *p; 0: the entry has ended; -1. A hole is refused. */
int fy_archive_in_piece(fy_archive_in *in, const void **p, size_t *n, fy_err *e);
/* Reads over the rest of the entry. One that unfolds to more than a thousand times what was read
 * and 64 MiB is refused. */
int fy_archive_in_skip(fy_archive_in *in, fy_err *e);
/* Takes what still comes, so that who writes into a pipe ends well; at most a megabyte. */
void fy_archive_in_drain(fy_archive_in *in);

/* "ends after 1234 bytes, within 'x' (5 of 10 bytes)", for messages. */
void fy_archive_in_where(const fy_archive_in *in, char out[160]);

#endif
