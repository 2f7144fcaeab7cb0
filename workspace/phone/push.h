/* `ferry push`: puts a workspace onto the phone and sends only what is missing there. The device
 * build in the workspace (bin/ferry) is started on the phone as helper (bundle/agent.h) and gets
 * the manifest; it asks for the blocks that it cannot find. Without a usable helper every file is
 * sent by plain sync.
 *
 * The order is what makes it safe. The manifest and its signature are read once, and nothing leaves
 * this machine before the signature was accepted. The helper's bytes, which run on the phone, are
 * compared with that manifest, and their ELF header is checked, before they are sent from memory.
 * Every block of every file is compared with its hash in the same memory that is sent. A thread
 * checks the whole workspace meanwhile, as `ferry verify` does; the phone switches to the new
 * version only when both ends have checked every byte. What a broken push left is used by the next.
 */
#ifndef FY_WORKSPACE_PUSH_H
#define FY_WORKSPACE_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "bundle/agent_proto.h"
#include "bundle/manifest_read.h"
#include "bundle/seal.h"
#include "workspace/pack/sign.h"
#include "workspace/phone/adb.h"

typedef struct {
    const char *dir;    /* the workspace */
    const char *serial; /* NULL: as fy_adb_open */
    const char *to;     /* path on the phone; NULL: FY_PHONE_DIR/NAME */
    const char *self;   /* path of the running program, to find a device build; may be NULL */
    fy_trust trust;     /* whose signature is required */
    bool prune;         /* remove older versions */
    bool no_helper;     /* plain sync */
    int n_threads;      /* for hashing on this machine */
} fy_push_params;

typedef struct {
    char serial[128];
    char path[FY_AGENT_MAX_PATH + 1];
    uint64_t files, bytes; /* of the workspace, its manifest included */
    uint64_t sent_bytes;   /* all bytes given to the phone */
    uint64_t reused_bytes; /* of the workspace, already on the phone */
    bool up_to_date, helper;
    fy_agent_done done; /* about older versions */
} fy_push_result;

int fy_push(const fy_push_params *p, fy_progress *progress, fy_push_result *out, fy_err *e);

/* --- what is sent (push_talk.c) --------------------------------------------------------------- */

typedef struct {
    const char *dir; /* view; NULL: files of other places, */
    char **local;    /* owned: [n_local] the path here of each entry of m */
    size_t n_local;
    fy_str text;     /* owned; manifest.json, its signature, the signer's key, each read once */
    fy_seal seal;    /* views of text */
    fy_manifest m;   /* owned */
    uint8_t id[FY_SHA256_BYTES]; /* of manifest.json */
    uint64_t bytes;              /* of the listed files */
} fy_push_source;

/* Whose signature it is, or whether it is one, fy_trust_check says. */
int fy_push_source_open(fy_push_source *s, const char *dir, fy_err *e);
/* Fills m, id and bytes from s->seal.manifest; name: what it belongs to, for messages. */
int fy_push_source_parse(fy_push_source *s, const char *name, fy_err *e);
void fy_push_source_release(fy_push_source *s);

/* Reads units (bundle/agent_proto.h) of a source, one at a time. Starts as {source, .fd = -1}. */
typedef struct {
    const fy_push_source *source;
    uint8_t *bytes; /* owned; the unit that was read last */
    int fd;         /* of file `file`; -1: none */
    size_t file;
} fy_push_units;

/* The whole unit into u->bytes; FY_EVERIFY unless its hash is the one that the manifest lists. */
int fy_push_unit_read(fy_push_units *u, size_t file, uint64_t unit, fy_err *e);
void fy_push_units_release(fy_push_units *u);

/* --- a conversation with the helper over a socket (push_talk.c) ------------------------------- */

/* May the new version take its name? 1 yes, 0 not yet, -1 no. */
typedef int fy_push_gate(void *user, fy_err *e);

typedef struct {
    int fd; /* view */
    fy_agent_reader in;
    fy_str out; /* not yet written */
    size_t out_done;
    uint64_t sent_bytes;
} fy_push_link;

/* 1: the other end is an agent that speaks our protocol; 0: it is not, *why tells more; -1. */
int fy_push_greet(fy_push_link *l, int fd, fy_agent_hello *hello, fy_err *why, fy_err *e);
int fy_push_talk(fy_push_link *l, const fy_push_source *s, const char *path, bool prune,
                 fy_push_gate *gate, void *user, fy_progress *progress, fy_agent_done *done,
                 fy_err *e);
void fy_push_link_release(fy_push_link *l);

/* --- the helper (push_helper.c) --------------------------------------------------------------- */

/* An arm64 program; what is sent are these bytes, as they were checked. */
typedef struct {
    uint8_t *bytes; /* owned */
    size_t n;
    uint8_t sha256[FY_SHA256_BYTES];
    char there[80]; /* its path on the phone, which needs no quotes */
} fy_push_helper;

/* The source's own bin/ferry (source NULL, or it lists none: the device build of this installation,
 * as fy_device_exe). 1: found; 0: *why; -1. Release it in every case. */
int fy_push_helper_find(const fy_push_source *s, const char *exe_path, const char *self,
                        fy_push_helper *h, fy_err *why, fy_err *e);
void fy_push_helper_release(fy_push_helper *h);

/* Puts it onto the phone unless it is there, starts and greets it; twice if it is not what was put.
 * prune: other helpers are removed. 1: *l talks to it, its end is the caller's to close and release;
 * 0: *why; -1. */
int fy_push_helper_reach(const fy_adb *a, const fy_push_helper *h, bool prune, fy_push_link *l,
                         uint64_t *sent_bytes, fy_err *why, fy_err *e);

#endif
