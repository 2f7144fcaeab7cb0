/* What the adb server and the phone answer, byte for byte (AOSP adb: OVERVIEW.TXT, SERVICES.TXT,
 * SYNC.TXT, shell_protocol.h), without sockets: the answers come from a fy_adb_source, which tests
 * and fuzzers fill from memory.
 *
 * Nothing here believes a length: each has a limit, and what breaks the protocol is FY_EDEVICE.
 * Text of the other side is made fit for a terminal before it enters a message. */
#ifndef FY_WORKSPACE_ADB_WIRE_H
#define FY_WORKSPACE_ADB_WIRE_H

#include <sys/types.h>

#include "base/str.h"
#include "workspace/phone/adb.h"

typedef struct fy_adb_source fy_adb_source;
struct fy_adb_source {
    /* Exactly n bytes, or -1 with *e. */
    int (*read)(fy_adb_source *s, void *p, size_t n, fy_err *e);
};

enum {
    FY_ADB_TEXT_MAX = 0xffff,     /* of a request or an answer with four hex digits of length */
    FY_ADB_DATA_MAX = 64 * 1024,  /* of one DATA message of sync */
    FY_ADB_PATH_MAX = 1024,       /* of a sync request: "path", "path,mode" */
    FY_ADB_NAME_MAX = 255,        /* of an entry of a directory */
    FY_ADB_ENTRIES_MAX = 1 << 20, /* of one directory */
    FY_ADB_PACKET_MAX = 1 << 20,  /* of the shell service: adbd's MAX_PAYLOAD */
    FY_ADB_REASON_MAX = 200,      /* of a refusal, in a message; the rest of it is dropped */
};

/* --- the server ------------------------------------------------------------------------------- */

/* 1: OKAY. 0: FAIL, the reason appended to `why`. -1: neither. */
int fy_adb_read_status(fy_adb_source *s, fy_str *why, fy_err *e);

/* Four hex digits of length and so many bytes, appended. */
int fy_adb_read_text(fy_adb_source *s, fy_str *out, fy_err *e);

/* The lines of host:devices-l. */
int fy_adb_parse_devices(fy_span text, fy_adb_device **out, size_t *n, fy_err *e);

/* --- shell v2 --------------------------------------------------------------------------------- */

enum {
    FY_ADB_STDIN,
    FY_ADB_STDOUT,
    FY_ADB_STDERR,
    FY_ADB_EXIT,
    FY_ADB_CLOSE_STDIN,
    FY_ADB_WINDOW,
    FY_ADB_PACKET_HEAD = 5
};

void fy_adb_packet_head(unsigned char out[FY_ADB_PACKET_HEAD], int id, size_t n);

/* Takes packets apart as their bytes come in, in pieces of any size. Starts as {0}. */
typedef struct {
    unsigned char head[FY_ADB_PACKET_HEAD];
    size_t n_head;
    uint32_t left; /* of the packet's bytes */
} fy_adb_packets;

typedef struct {
    int id;                 /* FY_ADB_STDOUT, ...; others are dropped by whoever reads them */
    const unsigned char *p; /* view: a part of the packet's bytes, n >= 1 */
    size_t n;
} fy_adb_piece;

/* The next piece of bytes[*used..n); *used moves on. 1: *out is filled; 0: all bytes are used; -1:
 * no such packet. An exit packet comes whole, as the one byte that it is. */
int fy_adb_next_piece(fy_adb_packets *d, const unsigned char *bytes, size_t n, size_t *used,
                      fy_adb_piece *out, fy_err *e);

/* --- sync ------------------------------------------------------------------------------------- */

/* Id and length of a request or a DATA message. */
enum { FY_ADB_SYNC_HEAD = 8 };
void fy_adb_sync_head(unsigned char out[FY_ADB_SYNC_HEAD], const char *id, uint32_t n);

/* v2: the answer to STA2 and LIS2, whose sizes have 64 bits, else to STAT and LIST. */
int fy_adb_read_stat(fy_adb_source *s, bool v2, fy_adb_stat *out, fy_err *e);
int fy_adb_read_entries(fy_adb_source *s, bool v2, fy_adb_entry *each, void *user, fy_err *e);
int fy_adb_read_file(fy_adb_source *s, fy_adb_bytes *sink, void *user, fy_err *e);
int fy_adb_read_sent(fy_adb_source *s, fy_err *e); /* the end of SEND */

/* --- connections ------------------------------------------------------------------------------ */

/* One socket per operation, every wait bounded and interruptible. Shared by the files of adb.h;
 * nobody else needs it. */

/* Where the server listens, from the environment. */
typedef struct {
    char host[128], port[6];
    bool local;               /* this machine's loopback: a server may be started there */
    double answer_s, stall_s; /* FY_ADB_ANSWER_S, FY_ADB_STALL_S, or what FERRY_ADB_TIMEOUT says */
} fy_adb_address;

struct fy_adb {
    fy_adb_address at;
    char *serial; /* owned */
    char name[FY_QUOTE_BYTES];
    char *phone, *server; /* owned; features, "a,b,c" */
};

typedef struct {
    fy_adb_source source; /* first: the readers of adb_wire.h take it */
    int fd;               /* -1: closed */
    double limit_s;       /* longest wait without a byte; 0: none */
    bool after_interrupt; /* fy_interrupted does not end a wait: this link passes it on */
} fy_adb_link;

int fy_adb_address_get(fy_adb_address *at, fy_err *e);

/* 0: connected; 1: nothing listens there; -1 */
int fy_adb_dial(fy_adb_link *l, const fy_adb_address *at, fy_err *e);
void fy_adb_hang_up(fy_adb_link *l);
int fy_adb_link_write(fy_adb_link *l, const void *p, size_t n, fy_err *e);
/* What has come, at least a byte: how much; 0: the other side has ended it; -1. */
ssize_t fy_adb_link_read_some(fy_adb_link *l, void *p, size_t n, fy_err *e);
bool fy_adb_link_has_input(const fy_adb_link *l);

/* Sends a request; 0 when the server said OKAY. A refusal is explained as one of a phone, or quoted
 * as one of the server's. */
int fy_adb_ask(fy_adb_link *l, const char *request, bool of_phone, fy_err *e);
int fy_adb_take_okay(fy_adb_link *l, bool of_phone, fy_err *e);

/* A link to a service of the phone: "sync:", ""; "shell,v2,raw:", "ls". It waits FY_ADB_STALL_S. */
int fy_adb_service(const fy_adb *a, fy_adb_link *l, const char *service, const char *arg,
                   fy_err *e);

/* In front of a command: the shell says its process id first, on the standard error, so that an
 * interrupt can be sent to its process group; the protocol itself has no signals. */
#define FY_ADB_ANNOUNCE  "echo \"" FY_ADB_ANNOUNCED "$$\" >&2; "
#define FY_ADB_ANNOUNCED "ferry-pid "
/* SIGINT to the group of that process, by a connection of its own, which stays open. */
void fy_adb_pass_interrupt(const fy_adb *a, long pid, fy_adb_link *passer);

extern const char fy_adb_lost[]; /* the message about a connection that ended too early */

/* What adb's word for a phone's state, or its refusal, means and what to do about it: *e. */
int fy_adb_bad_state(const char *said, fy_err *e);

/* Runs `adb start-server`. */
int fy_adb_start_server(const fy_adb_address *at, fy_err *e);

/* Puts "phone SERIAL: doing: " in front of a message; doing may be NULL. */
int fy_adb_ctx(const char *serial, const char *doing, fy_err *e);

#endif
