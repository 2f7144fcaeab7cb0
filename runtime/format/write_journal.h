/* How far an unfinished output is: a journal after its contents, in the same .part file, so that
 * neither can exist without the other. It goes when the file is finished.
 *
 *   contents | slot, 4 KiB | slot, 4 KiB | identity | foot, 56 bytes        (all little-endian)
 *
 * identity: text, a line for each thing that the bytes depend on. foot: "FYRESUME", where the
 * slots begin, length of the identity, SHA-256 of these and the identity. slot: u64, how many
 * pieces from the first on are written and durable; the SHA-256 of that and the foot's hash, cut
 * to 24 bytes. The slots are written in turn: a torn write spoils the one that was less far, and
 * one of other contents never fits. Nothing but a journal that is right in every byte is read. */
#ifndef FY_FORMAT_WRITE_JOURNAL_H
#define FY_FORMAT_WRITE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"

enum {
    FY_JOURNAL_SLOT_BYTES = 4096, /* between slots: no write of a disk or file system hits both */
    FY_JOURNAL_FOOT_BYTES = 56,
    FY_JOURNAL_MAX_IDENTITY = 16 << 20,
};

typedef struct {
    uint64_t at; /* in the file, after the contents */
    uint64_t done;
    int slot; /* to be written next */
    uint8_t key[FY_SHA256_BYTES];
    fy_span identity; /* view of what was parsed */
} fy_journal;

/* Length of the journal that a file of file_bytes ends with, by its foot; 0: none. */
uint64_t fy_journal_bytes(const uint8_t foot[FY_JOURNAL_FOOT_BYTES], uint64_t file_bytes);

/* p: the last n bytes of the file, as many as fy_journal_bytes returns. False: not a journal. */
bool fy_journal_parse(fy_journal *j, const void *p, size_t n, uint64_t file_bytes);

/* The journal of an opened .part into `bytes`: 0; 1: there is none; -1: it cannot be read. */
int fy_journal_read(fy_journal *j, fy_out *out, fy_str *bytes, fy_err *e);

/* Begins one, nothing done, after `at` bytes of contents; the .part gets its full size. */
int fy_journal_begin(fy_journal *j, fy_out *out, uint64_t at, fy_span identity, fy_err *e);

/* Records that `done` pieces are written. Their data must be durable already. */
int fy_journal_mark(fy_journal *j, fy_out *out, uint64_t done, fy_err *e);

/* How the identity differs, for people: "'type: f16', it was 'type: q8_0'" (the first line). */
void fy_journal_difference(fy_span was, fy_span is, fy_str *out);

/* --- lines of the identity --- */

/* What a program or file is, on this machine: path, size, time of change and inode. Or on any
 * machine that has a copy: of a program its SHA-256, of a file its name, its size, and the SHA-256
 * of 16 samples of 4 KiB. */
typedef enum { FY_IDENTITY_HERE, FY_IDENTITY_ANYWHERE } fy_identity_kind;

/* This program and its version. */
int fy_identity_program(fy_str *out, fy_identity_kind kind, fy_err *e);
/* "WHAT PATH: ..." */
int fy_identity_file(fy_str *out, fy_identity_kind kind, const char *what, const char *path,
                     fy_err *e);

#endif
