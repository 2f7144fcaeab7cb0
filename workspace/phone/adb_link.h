/* Connections to the adb server: one socket per operation, every wait bounded and interruptible.
 * Shared by the files of adb.h; nobody else needs it. */
#ifndef FY_WORKSPACE_ADB_LINK_H
#define FY_WORKSPACE_ADB_LINK_H

#include <sys/types.h>

#include "base/str.h"
#include "workspace/phone/adb_wire.h"

/* Where the server listens, from the environment. */
typedef struct {
    char host[128], port[6];
    bool local;               /* this machine's loopback: a server may be started there */
    double answer_s, stall_s; /* FY_ADB_ANSWER_S, FY_ADB_STALL_S, or what FERRY_ADB_TIMEOUT says */
} fy_adb_address;

struct fy_adb {
    fy_adb_address at;
    char *serial;         /* owned */
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

/* A link to a service of the phone: "sync:", "shell,v2,raw:ls". It waits FY_ADB_STALL_S. */
int fy_adb_service(const fy_adb *a, fy_adb_link *l, const char *service, fy_err *e);

extern const char fy_adb_lost[]; /* the message about a connection that ended too early */

/* What adb's word for a phone's state, or its refusal, means and what to do about it: *e. */
int fy_adb_bad_state(const char *said, fy_err *e);

/* Runs `adb start-server`. */
int fy_adb_start_server(const fy_adb_address *at, fy_err *e);

/* Puts "phone SERIAL: doing: " in front of a message; doing may be NULL. */
int fy_adb_ctx(const char *serial, const char *doing, fy_err *e);

#endif
