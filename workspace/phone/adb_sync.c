/* Files over the sync service (AOSP adb: SYNC.TXT). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "workspace/phone/adb_link.h"

/* The phone ends its side after every refusal, and a broken exchange leaves it in an unknown place:
 * then the link is given up, and the next operation opens another. */
struct fy_adb_sync {
    const fy_adb *a; /* view */
    fy_adb_link link;
};

static int ready(fy_adb_sync *s, fy_err *e)
{
    return s->link.fd >= 0 ? 0 : fy_adb_service(s->a, &s->link, "sync:", e);
}

fy_adb_sync *fy_adb_sync_open(const fy_adb *a, fy_err *e)
{
    fy_adb_sync *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    s->a = a;
    s->link.fd = -1;
    if (ready(s, e) != 0) {
        fy_adb_ctx(a->serial, "opening its file service", e);
        free(s);
        return NULL;
    }
    return s;
}

void fy_adb_sync_close(fy_adb_sync *s)
{
    if (s == NULL)
        return;
    unsigned char quit[FY_ADB_SYNC_HEAD];
    fy_adb_sync_head(quit, "QUIT", 0);
    if (s->link.fd >= 0)
        fy_adb_link_write(&s->link, quit, sizeof quit, NULL);
    fy_adb_hang_up(&s->link);
    free(s);
}

/* Ends an operation: a failed one names phone and path, and costs the link. */
static int done(fy_adb_sync *s, int rc, const char *verb, const char *path, fy_err *e)
{
    if (rc == 0)
        return 0;
    char shown[2 * FY_QUOTE_BYTES], doing[3 * FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, fy_span_of(path));
    snprintf(doing, sizeof doing, "%s %s", verb, shown);
    fy_adb_hang_up(&s->link);
    return fy_adb_ctx(s->a->serial, doing, e);
}

static int send_request(fy_adb_sync *s, const char *id, const char *path, fy_err *e)
{
    unsigned char head[FY_ADB_SYNC_HEAD];
    size_t n = strlen(path);
    if (n == 0 || n > FY_ADB_PATH_MAX)
        return fy_fail(e, FY_EARG, "a path of %zu bytes, expected 1 to %d", n, FY_ADB_PATH_MAX);
    if (ready(s, e) != 0)
        return -1;
    fy_adb_sync_head(head, id, (uint32_t)n);
    if (fy_adb_link_write(&s->link, head, sizeof head, e) != 0)
        return -1;
    return fy_adb_link_write(&s->link, path, n, e);
}

int fy_adb_sync_stat(fy_adb_sync *s, const char *path, fy_adb_stat *out, fy_err *e)
{
    /* The server only carries these bytes: what the phone can do is what counts. */
    bool v2 = fy_adb_in_list(s->a->phone, "stat_v2");
    fy_adb_stat st;
    int rc = send_request(s, v2 ? "STA2" : "STAT", path, e);
    if (rc == 0)
        rc = fy_adb_read_stat(&s->link.source, v2, &st, e);
    if (rc == 0)
        *out = st;
    return done(s, rc, "looking at", path, e);
}

int fy_adb_sync_list(fy_adb_sync *s, const char *dir, fy_adb_entry *each, void *user, fy_err *e)
{
    bool v2 = fy_adb_in_list(s->a->phone, "ls_v2");
    int rc = send_request(s, v2 ? "LIS2" : "LIST", dir, e);
    if (rc == 0)
        rc = fy_adb_read_entries(&s->link.source, v2, each, user, e);
    return done(s, rc, "listing", dir, e);
}

int fy_adb_sync_recv(fy_adb_sync *s, const char *path, fy_adb_bytes *sink, void *user, fy_err *e)
{
    int rc = send_request(s, "RECV", path, e);
    if (rc == 0)
        rc = fy_adb_read_file(&s->link.source, sink, user, e);
    return done(s, rc, "reading", path, e);
}

/* --- SEND --------------------------------------------------------------------------------------
 */

ssize_t fy_adb_fill_fd(void *user, void *p, size_t n, fy_err *e)
{
    const int *fd = user;
    for (;;) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        ssize_t got = read(*fd, p, n);
        if (got >= 0)
            return got;
        if (errno != EINTR)
            return fy_fail_errno(e, "cannot read what to send");
    }
}

/* The phone may refuse at any time: it says so while we write, or before it goes away. */
static int write_message(fy_adb_sync *s, const unsigned char *p, size_t n, fy_err *e)
{
    fy_err why = {0}, said = {0};
    if (fy_adb_link_has_input(&s->link)) {
        if (fy_adb_read_sent(&s->link.source, e) == 0)
            fy_fail(e, FY_EDEVICE, "the phone says it has the file before it was sent");
        return -1;
    }
    if (fy_adb_link_write(&s->link, p, n, &why) == 0)
        return 0;
    if (why.code == FY_EDEVICE && fy_adb_link_has_input(&s->link) &&
        fy_adb_read_sent(&s->link.source, &said) != 0)
        why = said;
    return fy_fail(e, why.code, "%s", why.msg);
}

/* One DATA message at a time is as fast as several, and on a fast link faster: the server passes
 * it on while the next one is read. */
static int send_all(fy_adb_sync *s, int64_t mtime, fy_adb_fill *fill, void *user, fy_err *e)
{
    unsigned char *message = malloc(FY_ADB_SYNC_HEAD + FY_ADB_DATA_MAX), end[FY_ADB_SYNC_HEAD];
    ssize_t n = message != NULL ? 1 : fy_nomem(e);
    while (n > 0) {
        n = fill(user, message + FY_ADB_SYNC_HEAD, FY_ADB_DATA_MAX, e);
        if (n <= 0)
            break;
        fy_adb_sync_head(message, "DATA", (uint32_t)n);
        if (write_message(s, message, FY_ADB_SYNC_HEAD + (size_t)n, e) != 0)
            n = -1;
    }
    free(message);
    fy_adb_sync_head(end, "DONE", (uint32_t)mtime);
    if (n < 0 || write_message(s, end, sizeof end, e) != 0)
        return -1;
    return fy_adb_read_sent(&s->link.source, e);
}

int fy_adb_sync_send(fy_adb_sync *s, const char *path, uint32_t mode, int64_t mtime,
                     fy_adb_fill *fill, void *user, fy_err *e)
{
    fy_str target = {0};
    fy_str_printf(&target, "%s,%u", path, (unsigned)((mode & 07777) | S_IFREG));
    int rc = target.oom ? fy_nomem(e) : send_request(s, "SEND", target.ptr, e);
    if (rc == 0)
        rc = send_all(s, mtime, fill, user, e);
    fy_str_release(&target);
    return done(s, rc, "writing", path, e);
}
