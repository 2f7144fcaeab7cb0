/* What `ferry up` remembers, below $XDG_CACHE_HOME/ferry/up (else ~/.cache/ferry/up): hashes of
 * sources, and what each step made of what. Everything in it may be removed at any time.
 *
 * A step's key is a hash of all that its result depends on: the contents of its inputs, its
 * options, and the program. Sizes, times and inodes only spare reading a file again. */
#ifndef FY_WORKSPACE_UP_CACHE_H
#define FY_WORKSPACE_UP_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/call.h"

/* The hash of a file, or of all files of a directory (hidden ones and Markdown excepted), contents
 * and names; of a checkpoint only what conversion may look at. *n_read: how many files had to be
 * read. */
int fy_up_source(const char *cache, const char *path, bool checkpoint, fy_progress *progress,
                 char hex[FY_SHA256_HEX], size_t *n_read, fy_err *e);

/* --- keys ------------------------------------------------------------------------------------- */

/* A text that is hashed: "name\nvalue\n" parts, so that no two lists of them are the same text. */
void fy_up_key_add(fy_str *key, const char *name, const char *value);
/* The options of a call that were given, but those listed ("quiet|verbose"); of files and
 * directories that they name the contents too. */
int fy_up_key_add_call(fy_str *key, const char *cache, const fy_call *c, const char *except,
                       fy_err *e);
int fy_up_key_add_file(fy_str *key, const char *cache, const char *name, const char *path,
                       fy_err *e);
int fy_up_key_end(fy_str *key, char hex[FY_SHA256_HEX], fy_err *e); /* releases it */

/* --- records ---------------------------------------------------------------------------------- */

/* What a step made: CACHE/NAME/record, where NAME is the step's and its key's. */
typedef struct {
    char *source;                    /* owned; real path of what it was made of */
    char source_hash[FY_SHA256_HEX]; /* of its contents then */
    char *result;                    /* owned; path of what was made */
    char result_hash[FY_SHA256_HEX]; /* of the file, or of the workspace's manifest.json */
} fy_up_record;

void fy_up_record_release(fy_up_record *r);
/* 1: there is one; 0: none, or not a whole one; -1. */
int fy_up_record_read(const char *cache, const char *name, fy_up_record *out, fy_err *e);
int fy_up_record_write(const char *cache, const char *name, const fy_up_record *r, fy_err *e);

/* Is this result what some step has made, so that it may be replaced? */
bool fy_up_made(const char *cache, const char *result, const char *result_hash);

/* Removes the results, in the cache only, of steps whose source had other contents than it has now:
 * they will not be asked for again. Failures do not matter. */
void fy_up_forget(const char *cache, const char *source, const char *source_hash);

#endif
