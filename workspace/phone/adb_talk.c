/* A command on the phone that is talked with: lines in both directions over the shell service, its
 * errors shown as they come, an interrupt when it is asked for. */
#include "workspace/phone/adb_wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/process.h"
#include "cli/terminal.h"

enum { PART = 64 * 1024 };

struct fy_adb_talk {
    const fy_adb *a; /* view */
    fy_adb_link link, passer;
    fy_adb_packets packets;
    fy_str out, err; /* what has come; of err without whole lines */
    size_t at;       /* of out: what was handed out */
    long pid;        /* of the phone's shell; 0: unknown */
    bool announced;
    int status; /* -1: it runs */
};

fy_adb_talk *fy_adb_talk_open(const fy_adb *a, const char *cmd, fy_err *e)
{
    fy_adb_talk *t = calloc(1, sizeof *t);
    if (t == NULL) {
        fy_nomem(e);
        return NULL;
    }
    t->a = a;
    t->link.fd = t->passer.fd = -1;
    t->passer.after_interrupt = true;
    t->status = -1;
    if (fy_adb_service(a, &t->link, "shell,v2,raw:" FY_ADB_ANNOUNCE, cmd, e) != 0) {
        fy_adb_ctx(a->serial, "running a command", e);
        fy_adb_talk_close(t);
        return NULL;
    }
    return t;
}

void fy_adb_talk_close(fy_adb_talk *t)
{
    if (t == NULL)
        return;
    fy_adb_hang_up(&t->link);
    fy_adb_hang_up(&t->passer);
    fy_str_release(&t->out);
    fy_str_release(&t->err);
    free(t);
}

int fy_adb_talk_send(fy_adb_talk *t, const void *p, size_t n, fy_err *e)
{
    const char *at = p;
    while (n > 0) {
        unsigned char head[FY_ADB_PACKET_HEAD];
        size_t now = n < PART ? n : PART;
        fy_adb_packet_head(head, FY_ADB_STDIN, now);
        if (fy_adb_link_write(&t->link, head, sizeof head, e) != 0 ||
            fy_adb_link_write(&t->link, at, now, e) != 0)
            return -1;
        at += now;
        n -= now;
    }
    return 0;
}

void fy_adb_talk_interrupt(fy_adb_talk *t)
{
    fy_adb_hang_up(&t->passer);
    if (t->pid > 1)
        fy_adb_pass_interrupt(t->a, t->pid, &t->passer);
}

/* Whole lines of the standard error; the first one may be the announcement. */
static int take_errors(fy_adb_talk *t, bool at_end, fy_err *e)
{
    fy_span rest = {fy_str_z(&t->err), t->err.len};
    while (rest.len > 0) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        if (end == NULL && !at_end && rest.len < PART)
            break;
        fy_span line = {rest.ptr, end != NULL ? (size_t)(end - rest.ptr) + 1 : rest.len};
        rest = (fy_span){rest.ptr + line.len, rest.len - line.len};
        bool first = !t->announced;
        t->announced = true;
        if (first && fy_span_begins(line, FY_ADB_ANNOUNCED) && end != NULL)
            t->pid = strtol(line.ptr + sizeof FY_ADB_ANNOUNCED - 1, NULL, 10);
        else if (fy_stderr(line.ptr, line.len, e) != 0)
            return -1;
    }
    memmove(t->err.ptr, rest.ptr, rest.len);
    t->err.len = rest.len;
    return 0;
}

static int take_packets(fy_adb_talk *t, const unsigned char *p, size_t n, fy_err *e)
{
    fy_adb_piece piece;
    int rc = 0;
    for (size_t used = 0; t->status < 0 && (rc = fy_adb_next_piece(&t->packets, p, n, &used, &piece,
                                                                   e)) > 0;) {
        if (piece.id == FY_ADB_EXIT)
            t->status = piece.p[0];
        else if (piece.id == FY_ADB_STDOUT)
            fy_str_add(&t->out, piece.p, piece.n);
        else if (piece.id == FY_ADB_STDERR)
            fy_str_add(&t->err, piece.p, piece.n);
        if (t->out.oom || t->err.oom)
            return fy_nomem(e);
        if (t->out.len - t->at > FY_ADB_LINE_MAX)
            return fy_fail(e, FY_EDEVICE, "the phone's program sends a line of more than %u bytes",
                           FY_ADB_LINE_MAX);
    }
    if (rc < 0)
        return -1;
    return t->err.len > 0 ? take_errors(t, t->status >= 0, e) : 0;
}

/* 1: the next whole line, without its end; 0: there is none yet. */
static int cut_line(fy_adb_talk *t, fy_str *line)
{
    const char *begin = fy_str_z(&t->out) + t->at;
    const char *end = t->out.len > t->at ? memchr(begin, '\n', t->out.len - t->at) : NULL;
    if (end == NULL)
        return 0;
    fy_str_clear(line);
    fy_str_add(line, begin, (size_t)(end - begin));
    t->at += (size_t)(end - begin) + 1;
    if (t->at == t->out.len) {
        fy_str_clear(&t->out);
        t->at = 0;
    }
    return 1;
}

int fy_adb_talk_line(fy_adb_talk *t, int wait_ms, fy_str *line, int *status, fy_err *e)
{
    unsigned char part[PART];
    for (int tries = 0;; tries++) {
        if (cut_line(t, line) == 1)
            return line->oom ? fy_nomem(e) : 1;
        if (t->status >= 0) {
            *status = t->status;
            return 0;
        }
        if (tries > 0)
            return 2;
        if (t->at > 0) {
            memmove(t->out.ptr, t->out.ptr + t->at, t->out.len - t->at);
            t->out.len -= t->at;
            t->at = 0;
        }
        struct pollfd f = {.fd = t->link.fd, .events = POLLIN};
        if (poll(&f, 1, wait_ms) <= 0)
            return 2;
        ssize_t n = recv(t->link.fd, part, sizeof part, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 2;
        if (n <= 0)
            return fy_fail(e, FY_EDEVICE, "%s", fy_adb_lost);
        if (take_packets(t, part, (size_t)n, e) != 0)
            return -1;
    }
}

void fy_adb_talk_end(fy_adb_talk *t, double most_s)
{
    unsigned char head[FY_ADB_PACKET_HEAD];
    fy_str line = {0};
    int status;
    fy_adb_packet_head(head, FY_ADB_CLOSE_STDIN, 0);
    double until = fy_now_s() + most_s;
    if (fy_adb_link_write(&t->link, head, sizeof head, NULL) == 0) {
        while (!fy_interrupted && fy_now_s() < until &&
               fy_adb_talk_line(t, 100, &line, &status, NULL) > 0) {
        }
    }
    fy_str_release(&line);
}
