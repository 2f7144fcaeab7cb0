/* `ferry serve --device`: a server on the phone, reached through a forwarded port.
 *
 * A shell there starts the server and waits for its end. While this command runs, the server's
 * standard input is the connection: when that ends, whatever the reason, the server ends
 * (--end-with-input). With --detach the shell has a session of its own, and the server's lines go
 * to a file.
 *
 * /data/local/tmp/ferry/.serve says which server runs: a line "PID START DIGEST attached|detached",
 * START being the process's start in /proc/PID/stat, so that another process with that number is
 * not taken for it; then, as they become known, "stay N" (what --stay-on has to undo), "port N",
 * "exit N". One server at a time is on a phone. */
#ifndef FY_WORKSPACE_PHONE_SERVE_H
#define FY_WORKSPACE_PHONE_SERVE_H

#include "base/err.h"
#include "base/str.h"
#include "cli/serve/serve.h"
#include "workspace/phone/adb.h"

typedef struct {
    fy_serve_place place;
    const char *cmd;  /* the server's command there, complete; NULL with place.shutdown */
    const char *temp; /* directory there with files that it reads when it starts; NULL: none */
    fy_span identity; /* differs for servers that are not the same: command, versions, keys */
} fy_phone_server;

/* Until the server there ends, or is ready with --detach. *status: its exit status when it ended
 * before it was ready, having said why. */
int fy_phone_serve(const fy_adb *a, const fy_phone_server *s, int *status, fy_err *e);

/* The port of "listening on http://127.0.0.1:PORT"; 0: it is another line. */
uint16_t fy_phone_serve_port(fy_span line);

/* What .serve says, after a line "alive" or "dead". */
typedef struct {
    bool known, alive, detached;
    int64_t pid;
    char start[24], digest[24];
    uint16_t port; /* 0: not ready */
    int ended;     /* exit status; -1: not said */
} fy_phone_serving;
void fy_phone_serving_parse(fy_span text, fy_phone_serving *out);

#endif
