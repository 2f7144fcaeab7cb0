/* The phone through the adb server's smart socket (AOSP adb: protocol.txt, SERVICES.TXT, SYNC.TXT;
 * protocol 1.0.41). Our own client: host services, shell v2, exec and sync on plain sockets; only
 * `adb start-server` is run, when nothing listens.
 *
 * A fy_adb is one chosen device. Each operation opens its own connection, so a fy_adb may be used
 * by several threads. Every failure is FY_EDEVICE with what to do about it (no adb, no device,
 * several, unauthorized, offline, recovery, no permissions, no shell v2, connection lost),
 * FY_ENOSPACE for a phone that is full, or FY_EINTR: every wait looks at fy_interrupted, and every
 * wait but that for a streamed command ends after a time. Environment: FY_ADB_ENVIRONMENT
 * (cli/verb.h). */
#ifndef FY_WORKSPACE_ADB_H
#define FY_WORKSPACE_ADB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

/* Longest silence in seconds: of the server (and of the phone, to start a service), and of a file
 * transfer or a short command. FERRY_ADB_TIMEOUT (seconds) replaces both. */
#define FY_ADB_ANSWER_S 30
#define FY_ADB_STALL_S  120

/* --- devices ---------------------------------------------------------------------------------- */

typedef struct {
    char *serial, *state;           /* owned; state as adb says it: "device", "unauthorized", ... */
    char *product, *model, *device; /* owned; "" when not said */
} fy_adb_device;

/* All that the server knows; starts the server when nothing listens. */
int fy_adb_devices(fy_adb_device **out, size_t *n, fy_err *e);
void fy_adb_devices_free(fy_adb_device *d, size_t n);

typedef struct fy_adb fy_adb;

/* serial NULL or "": ANDROID_SERIAL, else the only device there is. Checked to be usable: state
 * "device", shell v2. NULL with *e set. */
fy_adb *fy_adb_open(const char *serial, fy_err *e);
void fy_adb_close(fy_adb *a);                          /* NULL is fine */
const char *fy_adb_serial(const fy_adb *a);            /* as adb has it */
const char *fy_adb_name(const fy_adb *a);              /* the serial, fit for a message */
bool fy_adb_has(const fy_adb *a, const char *feature); /* of the server and the device both */

/* --- commands --------------------------------------------------------------------------------- */

/* Appends arg as one word of the phone's shell, quoted where needed, without spaces around it. */
void fy_adb_quote(fy_str *cmd, const char *arg);

/* Runs a short command with no input. Output beyond FY_ADB_MAX_OUTPUT is an error. out, err: NULL:
 * dropped. *status: exit status of the command, 128 + n after signal n, as the phone's shell says.
 */
#define FY_ADB_MAX_OUTPUT (16u << 20)
int fy_adb_shell(const fy_adb *a, const char *cmd, fy_str *out, fy_str *err, int *status,
                 fy_err *e);

/* The same of a command that was put together; releases `cmd`. */
int fy_adb_run(const fy_adb *a, fy_str *cmd, fy_str *out, fy_str *err, int *status, fy_err *e);

/* Runs a command with this process's streams: in_fd (-1: none) is sent until its end, output goes
 * to out_fd and err_fd (-1: dropped) as it comes. tty: the phone gives it a terminal of this one's
 * size and changes of it; if in_fd is a terminal it is raw meanwhile, and the phone's echoes.
 *
 * An interrupt (fy_interrupted) is passed on: to the phone's terminal, without one as SIGINT to the
 * command's process group. Then the command has `grace_s` seconds before the connection is cut
 * (FY_EINTR; the phone sends it SIGHUP). When it ends in time the call succeeds with its status;
 * fy_interrupted stays raised. A Ctrl-C typed into a raw terminal is a byte for the phone; if the
 * phone stays silent for grace_s, the next one cuts. */
typedef struct {
    int in_fd, out_fd, err_fd;
    bool tty;
    double grace_s;
} fy_adb_streams;
int fy_adb_shell_stream(const fy_adb *a, const char *cmd, const fy_adb_streams *s, int *status,
                        fy_err *e);

/* A command that reads and writes lines. Its standard error goes to ours. */
typedef struct fy_adb_talk fy_adb_talk;
#define FY_ADB_LINE_MAX (16u << 20) /* bytes of a line */
fy_adb_talk *fy_adb_talk_open(const fy_adb *a, const char *cmd, fy_err *e);
void fy_adb_talk_close(fy_adb_talk *t); /* NULL is fine; the command gets SIGHUP */
int fy_adb_talk_send(fy_adb_talk *t, const void *p, size_t n, fy_err *e);
/* Its next line, without the end: 1; 2: none within wait_ms; 0: it has ended with *status; -1: the
 * connection was lost. An interrupt ends the wait, and is the caller's to look at. */
int fy_adb_talk_line(fy_adb_talk *t, int wait_ms, fy_str *line, int *status, fy_err *e);
void fy_adb_talk_end(fy_adb_talk *t, double most_s); /* ends its input and waits for it to end */
void fy_adb_talk_interrupt(fy_adb_talk *t); /* SIGINT to it, also while fy_interrupted is set */

/* The `exec:` service: a connected, blocking socket whose two directions are the command's raw
 * standard input and output (its standard error is lost); the caller closes it. -1 on failure. adb
 * cannot close one direction only: a command that reads has to know by itself where its input ends,
 * and shutdown() would end both. */
int fy_adb_exec(const fy_adb *a, const char *cmd, fy_err *e);

/* --- files (sync service) --------------------------------------------------------------------- */

typedef struct {
    uint32_t mode; /* S_IFMT and permission bits; 0: there is no such file */
    uint64_t size;
    int64_t mtime;
} fy_adb_stat;

/* One at a time. An operation that failed leaves it usable: the next one connects anew. */
typedef struct fy_adb_sync fy_adb_sync;
fy_adb_sync *fy_adb_sync_open(const fy_adb *a, fy_err *e);
void fy_adb_sync_close(fy_adb_sync *s); /* NULL is fine */
/* Of what a link leads to; sizes are modulo 4 GiB, and of links themselves, on phones without
 * stat_v2 (before Android 8). */
int fy_adb_sync_stat(fy_adb_sync *s, const char *path, fy_adb_stat *out, fy_err *e);
/* Gives the next bytes of what is sent, n at most: how many, 0 at the end, -1. */
typedef ssize_t fy_adb_fill(void *user, void *p, size_t n, fy_err *e);
ssize_t fy_adb_fill_fd(void *user, void *p, size_t n, fy_err *e); /* user: an int, the file */
/* Writes a file on the phone, and the directories on the way. The phone's own refusal (its text) is
 * in the message; a full disk is FY_ENOSPACE. */
int fy_adb_sync_send(fy_adb_sync *s, const char *path, uint32_t mode, int64_t mtime,
                     fy_adb_fill *fill, void *user, fy_err *e);
/* Gets the bytes of a file as they come; -1 stops the transfer. */
typedef int fy_adb_bytes(void *user, const void *p, size_t n, fy_err *e);
int fy_adb_sync_recv(fy_adb_sync *s, const char *path, fy_adb_bytes *sink, void *user, fy_err *e);
/* Calls `each` for every entry but "." and ".."; names are plain. A directory that is not there has
 * none. Sizes are modulo 4 GiB on phones without ls_v2 (before Android 11). */
typedef int fy_adb_entry(void *user, const char *name, const fy_adb_stat *st, fy_err *e);
int fy_adb_sync_list(fy_adb_sync *s, const char *dir, fy_adb_entry *each, void *user, fy_err *e);

/* --- ports ------------------------------------------------------------------------------------ */

/* host port -> device port, both TCP on loopback; host 0: a free one. *bound is what was taken. */
int fy_adb_forward(const fy_adb *a, uint16_t host, uint16_t device, uint16_t *bound, fy_err *e);
/* Removes every forward to that port of the phone. */
int fy_adb_forward_forget(const fy_adb *a, uint16_t device, fy_err *e);
int fy_adb_forward_remove(const fy_adb *a, uint16_t host, fy_err *e);

#endif
