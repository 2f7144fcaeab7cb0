/* What `ferry push` and the agent on the phone send each other: frames over one byte stream, and
 * the units that files travel in. Version FY_AGENT_PROTOCOL; docs/phone.md ("The agent") shows a
 * whole conversation.
 *
 * A frame is {u32 payload bytes, u8 type, payload}; numbers are little-endian. Both ends treat the
 * other as unknown: every reader here checks lengths and says what was wrong.
 *
 * A unit is what is hashed, asked for and sent as one: a block of FY_MANIFEST_BLOCK bytes (the last
 * one of a file may be shorter) of a file that has block hashes, else the whole file. */
#ifndef FY_BUNDLE_AGENT_PROTO_H
#define FY_BUNDLE_AGENT_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "bundle/manifest_read.h"

#define FY_AGENT_PROTOCOL    1u
#define FY_AGENT_MAGIC       "FRYA"
#define FY_AGENT_HEAD        5u           /* bytes in front of a payload */
#define FY_AGENT_MAX_PAYLOAD (256u << 10) /* DATA frames carry up to this much, head included */
#define FY_AGENT_MAX_PATH    1024u        /* of the place on the phone */
#define FY_AGENT_BEAT_S      5.0          /* a working agent sends something at least this often */

typedef enum {
    /* of the host */
    FY_AGENT_GREET = 'G',    /* magic, u32 protocol */
    FY_AGENT_PUSH = 'P',     /* u64 bytes of manifest.json, u32 of .sig, u32 of .pub.pem, u8 prune,
                              * path */
    FY_AGENT_MANIFEST = 'M', /* the next bytes of the three, one after another */
    FY_AGENT_DATA = 'D',     /* u32 file, u32 unit, the next bytes of it */
    FY_AGENT_COMMIT = 'C',   /* the host has checked its own files, too: switch */
    /* of the phone */
    FY_AGENT_HELLO = 'H',  /* magic, u32 protocol, SHA-256 of itself, version */
    FY_AGENT_STATE = 'S',  /* u64 bytes free, u64 bytes that the new version takes */
    FY_AGENT_REUSED = 'R', /* u64 bytes that are there already; 0: still at work */
    FY_AGENT_WANT = 'W',   /* u32 file, u32 unit */
    FY_AGENT_READY = 'Y',  /* every unit is here; the end of the work without COMMIT */
    FY_AGENT_DONE = 'F',   /* fy_agent_done */
    FY_AGENT_FAIL = 'E',   /* u8 fy_code, text */
} fy_agent_type;

typedef struct {
    uint8_t sha256[FY_SHA256_BYTES];
    char version[64];
} fy_agent_hello;

typedef struct {
    uint64_t manifest_bytes;
    uint32_t sig_bytes, key_bytes; /* 0: there is none */
    bool prune;
    char path[FY_AGENT_MAX_PATH + 1]; /* absolute; its last part is the name */
} fy_agent_push;

typedef struct {
    bool up_to_date;
    uint64_t reused_bytes, received_bytes;
    uint64_t n_old, old_bytes; /* older versions that were left */
    uint64_t n_pruned, pruned_bytes;
} fy_agent_done;

/* --- writing: each appends one whole frame ---------------------------------------------------- */

void fy_agent_put(fy_str *out, fy_agent_type type, const void *p, size_t n);
void fy_agent_put_greet(fy_str *out);
void fy_agent_put_push(fy_str *out, const fy_agent_push *p);
void fy_agent_put_hello(fy_str *out, const fy_agent_hello *h);
void fy_agent_put_u64s(fy_str *out, fy_agent_type type, uint64_t a, const uint64_t *b);
void fy_agent_put_want(fy_str *out, uint32_t file, uint32_t unit);
void fy_agent_put_done(fy_str *out, const fy_agent_done *d);
void fy_agent_put_fail(fy_str *out, const fy_err *e);
/* The head of a DATA frame whose n bytes follow it. */
#define FY_AGENT_DATA_HEAD (FY_AGENT_HEAD + 8u)
#define FY_AGENT_MAX_DATA  (FY_AGENT_MAX_PAYLOAD - 8u)
void fy_agent_data_head(uint8_t head[FY_AGENT_DATA_HEAD], uint32_t file, uint32_t unit, size_t n);

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct {
    uint8_t type;
    const uint8_t *p; /* view of the reader's buffer, until it is filled again */
    size_t n;
} fy_agent_frame;

/* Bytes of the stream, cut into frames. Zero-initialise but for `peer`. */
typedef struct {
    const char *peer; /* view: "the phone", for messages */
    uint8_t *buf;     /* owned */
    size_t begin, end;
    uint64_t taken; /* bytes of the stream so far */
} fy_agent_reader;
void fy_agent_reader_release(fy_agent_reader *r);
/* Reads once from fd, which must be ready: 1: there is more to look at; 0: the stream has ended; 2:
 * nothing came (EAGAIN, EINTR); -1. */
int fy_agent_fill(fy_agent_reader *r, int fd, fy_err *e);
/* 1: *f is the next frame; 0: not all of it is here; -1: no frame can begin like this. */
int fy_agent_next(fy_agent_reader *r, fy_agent_frame *f, fy_err *e);

int fy_agent_get_greet(const fy_agent_frame *f, fy_err *e);
int fy_agent_get_push(const fy_agent_frame *f, fy_agent_push *out, fy_err *e);
int fy_agent_get_hello(const fy_agent_frame *f, fy_agent_hello *out, fy_err *e);
/* One number, or two when b is not NULL. */
int fy_agent_get_u64s(const fy_agent_frame *f, uint64_t *a, uint64_t *b, fy_err *e);
/* file and unit of WANT and DATA, checked against the manifest. */
int fy_agent_get_unit(const fy_agent_frame *f, const fy_manifest *m, uint32_t *file, uint32_t *unit,
                      fy_err *e);
int fy_agent_get_done(const fy_agent_frame *f, fy_agent_done *out, fy_err *e);
/* The other end's error becomes ours; always -1. */
int fy_agent_get_fail(const fy_agent_frame *f, fy_err *e);
/* A frame that has no place here; always -1. */
int fy_agent_unexpected(const fy_agent_frame *f, const char *when, fy_err *e);

/* --- units ------------------------------------------------------------------------------------ */

static inline uint64_t fy_unit_count(const fy_manifest_entry *m)
{
    uint64_t n = fy_manifest_n_blocks(m->bytes);
    return n > 0 ? n : 1;
}

static inline uint64_t fy_unit_offset(uint64_t unit)
{
    return unit * FY_MANIFEST_BLOCK;
}

static inline uint32_t fy_unit_bytes(const fy_manifest_entry *m, uint64_t unit)
{
    uint64_t left = m->bytes - fy_unit_offset(unit);
    return left < FY_MANIFEST_BLOCK ? (uint32_t)left : FY_MANIFEST_BLOCK;
}

static inline const uint8_t *fy_unit_hash(const fy_manifest_entry *m, uint64_t unit)
{
    return m->blocks != NULL ? m->blocks + unit * FY_SHA256_BYTES : m->sha256;
}

#endif
