/* Workspaces on the phone and their counterparts here (docs/device.md). A workspace lies at
 * /data/local/tmp/ferry/NAME; which version of it that is, its manifest's hash says. */
#ifndef FY_WORKSPACE_PHONE_WORKSPACE_H
#define FY_WORKSPACE_PHONE_WORKSPACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "workspace/phone/adb.h"

#define FY_PHONE_TMP "/data/local/tmp" /* what the shell user may write to and execute from */
#define FY_PHONE_DIR FY_PHONE_TMP "/ferry"

/* --- here ------------------------------------------------------------------------------------- */

typedef struct {
    char *dir;  /* owned; real path of the workspace */
    char *name; /* owned; its last part: the name on the phone */
    char *rel;  /* owned; where the path leads inside it, "" for the workspace itself */
    char sha256[FY_SHA256_HEX]; /* of manifest.json */
} fy_local_workspace;

/* The workspace that the path names or lies in. 1: found, 0: it lies in none, -1. */
int fy_local_workspace_of(const char *path, fy_local_workspace *out, fy_err *e);
void fy_local_workspace_release(fy_local_workspace *w);

/* "exec" of a workspace.json: the command line of the runtime that came with the workspace, which
 * the caller frees; *out NULL: there is none. */
int fy_workspace_exec(fy_span json, char **out, fy_err *e);

/* --- there ------------------------------------------------------------------------------------ */

typedef struct {
    char *dir;                  /* owned; "": the path lies in no workspace */
    char sha256[FY_SHA256_HEX]; /* of manifest.json; "" when it could not be read */
    fy_str workspace_json;      /* as it was found, at most FY_BUNDLE_JSON_MAX_BYTES + 1 bytes */
    bool exe;                   /* bin/ferry is there, to be executed */
} fy_phone_workspace;

/* The manifest's hash of the workspace of this name there, "" without one. */
int fy_phone_version_of(const fy_adb *a, const char *name, char sha256[FY_SHA256_HEX], fy_err *e);
/* The workspace that an absolute path on the phone names or lies in. A path that is not there lies
 * in none. */
int fy_phone_workspace_of(const fy_adb *a, const char *path, fy_phone_workspace *out, fy_err *e);
void fy_phone_workspace_release(fy_phone_workspace *w);

/* --- files ------------------------------------------------------------------------------------ */

/* As fy_adb_sync_stat, with the whole size on every phone. */
int fy_phone_stat(const fy_adb *a, fy_adb_sync *s, const char *path, fy_adb_stat *out, fy_err *e);

/* Bytes by which a file may grow while it is read; a file of /proc lists 0. */
#define FY_PHONE_GROWTH ((uint64_t)16 << 20)
/* The file whose listing is st into `out`. A phone that sends more than it listed is FY_EDEVICE,
 * one that lists more than the disk has room for FY_ENOSPACE. *bytes, progress: may be NULL. */
int fy_phone_fetch(fy_adb_sync *s, const char *path, const fy_adb_stat *st, fy_out *out,
                   fy_progress *progress, uint64_t *bytes, fy_err *e);

/* --- commands --------------------------------------------------------------------------------- */

/* Runs a command of ours that ends with a word which shows that all of it ran: a shell that was cut
 * off can look like one that succeeded. what: "list its files", for the message. said: gets what it
 * printed; NULL: dropped. Releases cmd. */
int fy_phone_do(const fy_adb *a, fy_str *cmd, const char *what, fy_str *said, fy_err *e);
/* "blocks bytes" of `stat -f -c '%a %S'`; UINT64_MAX when the phone prints something else. */
uint64_t fy_phone_parse_space(const char *text);

/* --- files for one call ----------------------------------------------------------------------- */

/* A new name, which needs no quotes, for a directory on the phone that is used for one call only;
 * the caller frees it. */
char *fy_phone_temp_name(fy_err *e);
/* Sends a local file to this path there, with this mode. Directories on the way are made. */
int fy_phone_send(const fy_adb *a, const char *file, const char *to, unsigned mode, fy_err *e);
/* Removes it, and those that calls of earlier days left; failures do not matter. Works after an
 * interrupt, too. */
void fy_phone_temp_remove(const fy_adb *a, const char *dir);

/* fy_program's run_on_phone (cli/verb.h): input files of this machine go along, output files come
 * back. */
int fy_remote_run(const fy_call *c, const char *serial, int *status, fy_err *e);

#endif
