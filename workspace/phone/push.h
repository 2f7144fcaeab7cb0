/* `ferry push`: a workspace onto the phone by content. The device build in the workspace
 * (bin/ferry) is started there as agent (bundle/agent.h) and told the manifest; it says what is
 * missing; only that travels. Without a usable helper every file is sent by plain sync.
 *
 * The workspace is checked as `ferry verify` does while it travels; the phone is told to switch
 * when both ends have checked every byte. Nothing has the final name on the phone before that; what
 * a broken push left is used by the next. */
#ifndef FY_WORKSPACE_PUSH_H
#define FY_WORKSPACE_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/progress.h"
#include "base/str.h"
#include "bundle/agent_proto.h"
#include "bundle/manifest_read.h"
#include "workspace/phone/adb.h"
#include "workspace/phone/phone_workspace.h"
#include "workspace/pack/sign.h"

#define FY_PHONE_AGENT FY_PHONE_DIR "/.agent/ferry-" /* and the first 12 digits of its SHA-256 */

typedef struct {
    const char *dir;    /* the workspace */
    const char *serial; /* NULL: as fy_adb_open */
    const char *to;     /* path on the phone; NULL: FY_PHONE_DIR/NAME */
    const char *self;   /* path of the running program, to find a device build; may be NULL */
    fy_trust trust;     /* whose signature is asked for */
    bool prune;         /* remove older versions */
    bool no_helper;     /* plain sync */
    int n_threads;      /* that hash here */
} fy_push_params;

typedef struct {
    char serial[128];
    char path[FY_AGENT_MAX_PATH + 1];
    uint64_t files, bytes; /* of the workspace, its manifest included */
    uint64_t sent_bytes;   /* that we gave to the phone, of whatever kind */
    uint64_t reused_bytes; /* of the workspace that were there already */
    bool up_to_date, helper;
    fy_agent_done done; /* about older versions */
} fy_push_result;

int fy_push(const fy_push_params *p, fy_progress *progress, fy_push_result *out, fy_err *e);

/* --- parts ------------------------------------------------------------------------------------ */

/* What is pushed. */
typedef struct {
    const char *dir; /* view */
    fy_str text;     /* manifest.json, its signature, the signer's key */
    size_t manifest_bytes, sig_bytes, key_bytes; /* of these in text; 0: there is none */
    fy_manifest m;
    uint8_t id[FY_SHA256_BYTES]; /* of manifest.json */
    uint64_t bytes;              /* of the listed files */
} fy_push_source;

int fy_push_source_open(fy_push_source *s, const char *dir, fy_err *e);
void fy_push_source_release(fy_push_source *s);

/* Says whether what has been sent may become the new version: 1 yes, 0 not yet, -1 no. */
typedef int fy_push_gate(void *user, fy_err *e);

/* A conversation with an agent over a socket (push_talk.c). */
typedef struct {
    int fd; /* view */
    fy_agent_reader in;
    fy_str out; /* not yet written */
    size_t out_done;
    uint64_t sent_bytes;
} fy_push_link;

/* 1: it is an agent that speaks our protocol; 0: it is not, *why says so; -1. */
int fy_push_greet(fy_push_link *l, int fd, fy_agent_hello *hello, fy_err *why, fy_err *e);
int fy_push_talk(fy_push_link *l, const fy_push_source *s, const char *path, bool prune,
                 fy_push_gate *gate, void *user, fy_progress *progress, fy_agent_done *done,
                 fy_err *e);
void fy_push_link_release(fy_push_link *l);

/* Every file by sync (push_plain.c). */
int fy_push_plain(const fy_adb *a, const fy_push_source *s, const char *path, bool prune,
                  fy_progress *progress, fy_push_result *out, fy_err *e);

#endif
