/* Commands on the phone: the shell service (protocol v2) and exec. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/phone/adb_link.h"

void fy_adb_quote(fy_str *cmd, const char *arg)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:@%+,-";
    if (*arg != '\0' && strspn(arg, plain) == strlen(arg)) {
        fy_str_puts(cmd, arg);
        return;
    }
    fy_str_putc(cmd, '\'');
    for (const char *c = arg; *c != '\0'; c++) {
        if (*c == '\'')
            fy_str_puts(cmd, "'\\''");
        else
            fy_str_putc(cmd, *c);
    }
    fy_str_putc(cmd, '\'');
}

/* Names the phone and the beginning of the command in front of a message. */
static int failed(const fy_adb *a, const char *cmd, fy_err *e)
{
    enum { SHOWN = 40 };
    char doing[2 * SHOWN];
    size_t n = strcspn(cmd, "\n");
    snprintf(doing, sizeof doing, "running '%.*s%s'", n < SHOWN ? (int)n : SHOWN, cmd,
             n < SHOWN && cmd[n] == '\0' ? "" : "...");
    return fy_adb_ctx(a->serial, doing, e);
}

/* --- short commands ----------------------------------------------------------------------------
 */

typedef struct {
    fy_str *out, *err;
    size_t total; /* bytes that came, packets' heads too */
    int status;   /* -1: not yet */
} collection;

static int collect(collection *c, fy_adb_packets *packets, const unsigned char *p, size_t n,
                   fy_err *e)
{
    fy_adb_piece piece;
    int more;
    c->total += n;
    if (c->total > FY_ADB_MAX_OUTPUT)
        return fy_fail(e, FY_EDEVICE, "more than %u MiB of output", FY_ADB_MAX_OUTPUT >> 20);
    for (size_t used = 0; (more = fy_adb_next_piece(packets, p, n, &used, &piece, e)) > 0;) {
        if (piece.id == FY_ADB_EXIT) {
            c->status = piece.p[0];
            return 0;
        }
        fy_str *to = piece.id == FY_ADB_STDOUT ? c->out : piece.id == FY_ADB_STDERR ? c->err : NULL;
        if (to != NULL) {
            fy_str_add(to, piece.p, piece.n);
            if (to->oom)
                return fy_nomem(e);
        }
    }
    return more;
}

static int run(const fy_adb *a, fy_adb_link *l, const char *cmd, collection *c, fy_err *e)
{
    enum { PART = 64 * 1024 };
    fy_adb_packets packets = {0};
    unsigned char no_input[FY_ADB_PACKET_HEAD], *part = malloc(PART);
    fy_str service = {0};
    fy_str_puts(&service, "shell,v2,raw:");
    fy_str_puts(&service, cmd);
    fy_adb_packet_head(no_input, FY_ADB_CLOSE_STDIN, 0);
    int rc = part == NULL || service.oom ? fy_nomem(e) : 0;
    if (rc == 0)
        rc = fy_adb_service(a, l, service.ptr, e);
    if (rc == 0) /* a command that has ended already does not take it: its answer counts */
        fy_adb_link_write(l, no_input, sizeof no_input, NULL);
    while (rc == 0 && c->status < 0) {
        ssize_t n = fy_adb_link_read_some(l, part, PART, e);
        if (n > 0)
            rc = collect(c, &packets, part, (size_t)n, e);
        else
            rc = n < 0 ? -1 : fy_fail(e, FY_EDEVICE, "no exit status came: %s", fy_adb_lost);
    }
    fy_str_release(&service);
    free(part);
    return rc;
}

int fy_adb_shell(const fy_adb *a, const char *cmd, fy_str *out, fy_str *err, int *status, fy_err *e)
{
    fy_adb_link l = {.fd = -1};
    collection c = {.out = out, .err = err, .status = -1};
    int rc = run(a, &l, cmd, &c, e);
    fy_adb_hang_up(&l);
    if (rc != 0)
        return failed(a, cmd, e);
    *status = c.status;
    return 0;
}

int fy_adb_exec(const fy_adb *a, const char *cmd, fy_err *e)
{
    fy_adb_link l = {.fd = -1};
    fy_str service = {0};
    fy_str_puts(&service, "exec:");
    fy_str_puts(&service, cmd);
    int rc = service.oom ? fy_nomem(e) : fy_adb_service(a, &l, service.ptr, e);
    fy_str_release(&service);
    return rc == 0 ? l.fd : failed(a, cmd, e);
}
