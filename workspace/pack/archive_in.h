/* Reading a tar archive from a file, a stream or memory. zstd and gzip are decompressed on the way.
 * Every error can say how much was read, and in which entry. libarchive's reader sees only bytes;
 * nothing of an entry reaches the disk here. */
#ifndef FY_WORKSPACE_ARCHIVE_IN_H
#define FY_WORKSPACE_ARCHIVE_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct archive;
struct archive_entry;

typedef struct {
    /* set by the caller */
    const char *name;  /* view; for messages */
    const void *bytes; /* view; the archive itself, or NULL */
    size_t n;
    int fd;            /* else where it is read from; the caller's */
    uint64_t expected; /* bytes that the archive may well unfold to; 0: not known yet */
    /* the reader's */
    struct archive *a;          /* owned; NULL: not open */
    void *buf;                  /* owned */
    uint64_t read_bytes;        /* of the source */
    uint8_t head[512];          /* the first of them */
    bool ended;                 /* the source has no more */
    char entry[FY_QUOTE_BYTES]; /* the last one that began; "" before the first */
    uint64_t entry_read;        /* bytes of it */
    int64_t entry_size;         /* from its header; -1: not given */
} fy_archive_in;

/* Starts at the beginning; closes `in` first if it is open. A source that was read before must be
 * one that can be read again (memory, a regular file). */
int fy_archive_in_open(fy_archive_in *in, fy_err *e);
void fy_archive_in_close(fy_archive_in *in);

/* 1: *en is the next entry; 0: the archive has ended; -1. Here and below an archive that unfolds to
 * more than `expected`, 64 MiB and a thousand times what was read is refused. Every entry has to be
 * read or skipped before the next: the library would skip it without asking us. */
int fy_archive_in_next(fy_archive_in *in, struct archive_entry **en, fy_err *e);
/* 1: the entry's next bytes at *p; 0: the entry has ended; -1. A hole is refused. */
int fy_archive_in_read(fy_archive_in *in, const void **p, size_t *n, fy_err *e);
/* Reads over the rest of the entry. */
int fy_archive_in_skip(fy_archive_in *in, fy_err *e);
/* Reads what still comes, so that a program writing into the pipe does not fail; at most a
 * megabyte. */
void fy_archive_in_drain(fy_archive_in *in);

/* "ends after 1234 bytes, within 'x' (5 of 10 bytes)", for messages. */
void fy_archive_in_where(const fy_archive_in *in, char out[160]);

#endif
