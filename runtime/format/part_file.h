/* What a part of a measurement has found, as a file of records, "BASE.I-of-N.part" (docs/parts.md).
 * Numbers are little-endian; the format is ours, version 1:
 *
 *     "FERRYPRT"  u32 version  u32 part  u32 parts  u32 length of the identity
 *     identity: text, a line for each thing that the numbers depend on
 *     SHA-256 of all this
 *     records: u32 kind  u32 length  u64 step  the bytes  SHA-256 of the hash before and the record
 *
 * A step is a unit of the work, such as a window of a text; the records of its data come before the
 * one that ends it. The last record ends the part. Every record is bound to all that stand before
 * it: a part that was interrupted goes on after the last whole step, and bytes that nobody wrote
 * are found. A part that runs twice writes the same bytes twice.
 *
 * Memory: one record. No lock and no clock is relied on, and nothing is mapped. */
#ifndef FY_FORMAT_PART_FILE_H
#define FY_FORMAT_PART_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/job_part.h"
#include "base/str.h"

#define FY_PART_MAX_BYTES (64u << 20) /* of a record, and of an identity */

typedef enum {
    FY_PART_DATA = 1,
    FY_PART_STEP = 2, /* the step is complete */
    FY_PART_END = 3,  /* of the part; `step` is the one after its last */
} fy_part_kind;

typedef struct {
    fy_part_kind kind;
    uint64_t step;
    fy_span bytes; /* view, until the next record is read */
} fy_part_record;

/* Sees the records in order, without the one that ends a part. -1 stops. */
typedef int fy_part_sink(void *user, const fy_part_record *r, fy_err *e);

/* --- one part --- */

typedef struct fy_part_file fy_part_file;
/* Begins the file, or opens what an earlier run of the same part has left. FY_EARG: it is of other
 * work. NULL on failure. */
fy_part_file *fy_part_file_open(const char *base, fy_job_part part, fy_span identity, fy_err *e);
void fy_part_file_close(fy_part_file *f); /* the file stays; NULL is fine */
bool fy_part_file_is_done(const fy_part_file *f);
uint64_t fy_part_file_next(const fy_part_file *f); /* steps below this one are there */
int fy_part_file_add(fy_part_file *f, fy_part_kind kind, uint64_t step, fy_span bytes, fy_err *e);
/* The part is steps [first, end) of n_steps: on the disk, and done. */
int fy_part_file_end(fy_part_file *f, uint64_t first, uint64_t end, uint64_t n_steps, fy_err *e);

/* --- all of them --- */

/* Checks that n parts are there and done, of this work, and shows their records in the order of the
 * steps. FY_EVERIFY names the first that is missing, and what makes it: `command` with --part. */
int fy_part_files_read(const char *base, uint32_t n, fy_span identity, const char *command,
                       fy_part_sink *sink, void *user, fy_err *e);
void fy_part_files_remove(const char *base, uint32_t n);

/* --- bytes: what the two above read --- */

typedef struct {
    fy_job_part part;
    fy_span identity; /* view */
    bool is_done;
    uint64_t n_steps_there; /* whole ones; after the last of them: */
    uint64_t next_step, end;
} fy_part_bytes;

/* The whole records at the beginning of p[0..n). FY_EFORMAT when there is no head, and what `sink`
 * (may be NULL) fails with. */
int fy_part_bytes_parse(const void *p, size_t n, fy_part_bytes *out, fy_part_sink *sink, void *user,
                        fy_err *e);

#endif
