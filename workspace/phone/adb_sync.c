/* What the adb server and the phone answer, byte for byte, and files over the sync service (AOSP
 * adb: SYNC.TXT). */
#include "workspace/phone/adb_wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/math.h"
#include "base/str.h"

/* Four bytes that should have been a known word. */
static int strange(const unsigned char *p, const char *wanted, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, (fy_span){(const char *)p, 4});
    return fy_fail(e, FY_EDEVICE, "the answer is '%s', expected %s", shown, wanted);
}

/* --- the server ------------------------------------------------------------------------------- */

int fy_adb_read_text(fy_adb_source *s, fy_str *out, fy_err *e)
{
    unsigned char hex[4];
    char part[4096];
    if (s->read(s, hex, sizeof hex, e) != 0)
        return -1;
    size_t n = 0;
    for (int i = 0; i < 4; i++) {
        int digit = fy_hex_digit((char)hex[i]);
        if (digit < 0)
            return strange(hex, "four hex digits of a length", e);
        n = n << 4 | (size_t)digit;
    }
    while (n > 0) {
        size_t now = n < sizeof part ? n : sizeof part;
        if (s->read(s, part, now, e) != 0)
            return -1;
        fy_str_add(out, part, now);
        n -= now;
    }
    return out->oom ? fy_nomem(e) : 0;
}

int fy_adb_read_status(fy_adb_source *s, fy_str *why, fy_err *e)
{
    unsigned char word[4];
    if (s->read(s, word, sizeof word, e) != 0)
        return -1;
    if (memcmp(word, "OKAY", 4) == 0)
        return 1;
    if (memcmp(word, "FAIL", 4) != 0)
        return strange(word, "OKAY or FAIL", e);
    return fy_adb_read_text(s, why, e);
}

void fy_adb_devices_free(fy_adb_device *d, size_t n)
{
    for (size_t i = 0; d != NULL && i < n; i++) {
        free(d[i].serial);
        free(d[i].state);
        free(d[i].product);
        free(d[i].model);
        free(d[i].device);
    }
    free(d);
}

/* "SERIAL   STATE usb:1-1 product:P model:M device:D transport_id:N". A state may have spaces: "no
 * permissions (...); see [http://...]", and so does the name of a phone without a serial. */
static bool parse_device(fy_span line, fy_adb_device *d)
{
    static const char nameless[] = "(no serial number)";
    static const char *const others[] = {"usb:", "transport_id:", "features:"};
    fy_span serial = {line.ptr, sizeof nameless - 1};
    if (fy_span_begins(line, nameless)) {
        line.ptr += serial.len;
        line.len -= serial.len;
    } else {
        serial = fy_span_cut_word(&line);
    }
    const struct {
        const char *prefix;
        char **field;
    } fields[] = {{"product:", &d->product}, {"model:", &d->model}, {"device:", &d->device}};
    fy_span state = {"", 0}, word;
    bool in_state = true;
    while ((word = fy_span_cut_word(&line)).len > 0) {
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
            in_state = in_state && !fy_span_begins(word, others[i]);
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            if (!fy_span_begins(word, fields[i].prefix))
                continue;
            size_t skip = strlen(fields[i].prefix);
            in_state = false;
            free(*fields[i].field);
            *fields[i].field = strndup(word.ptr + skip, word.len - skip);
        }
        if (in_state)
            state = state.len == 0
                        ? word
                        : (fy_span){state.ptr, (size_t)(word.ptr - state.ptr) + word.len};
    }
    d->serial = strndup(serial.ptr, serial.len);
    d->state = strndup(state.ptr, state.len);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (*fields[i].field == NULL)
            *fields[i].field = strdup("");
    }
    return d->serial != NULL && d->state != NULL && d->product != NULL && d->model != NULL &&
           d->device != NULL;
}

int fy_adb_parse_devices(fy_span text, fy_adb_device **out, size_t *n_out, fy_err *e)
{
    fy_adb_device *list = NULL;
    size_t n = 0, cap = 0;
    while (text.len > 0) {
        fy_span line = fy_span_cut_line(&text), rest = line;
        if (fy_span_cut_word(&rest).len == 0)
            continue;
        fy_adb_device *grown = fy_grow(list, n, &cap, sizeof *list);
        if (grown == NULL)
            goto fail;
        list = grown;
        list[n] = (fy_adb_device){0};
        if (!parse_device(line, &list[n++]))
            goto fail;
    }
    *out = list;
    *n_out = n;
    return 0;
fail:
    fy_adb_devices_free(list, n);
    return fy_nomem(e);
}

/* --- shell v2 --------------------------------------------------------------------------------- */

static void put_le32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

void fy_adb_packet_head(unsigned char out[FY_ADB_PACKET_HEAD], int id, size_t n)
{
    out[0] = (unsigned char)id;
    put_le32(out + 1, (uint32_t)n);
}

int fy_adb_next_piece(fy_adb_packets *d, const unsigned char *bytes, size_t n, size_t *used,
                      fy_adb_piece *out, fy_err *e)
{
    while (*used < n) {
        if (d->n_head < sizeof d->head) {
            d->head[d->n_head++] = bytes[(*used)++];
            if (d->n_head < sizeof d->head)
                continue;
            d->left = fy_le32(d->head + 1);
            if (d->left > FY_ADB_PACKET_MAX || (d->head[0] == FY_ADB_EXIT && d->left != 1))
                return fy_fail(e, FY_EDEVICE,
                               "its shell service sent a packet %u of %lu bytes, which the "
                               "protocol does not have",
                               d->head[0], (unsigned long)d->left);
        }
        size_t now = d->left < n - *used ? d->left : n - *used;
        *out = (fy_adb_piece){.id = d->head[0], .p = bytes + *used, .n = now};
        *used += now;
        d->left -= (uint32_t)now;
        if (d->left == 0)
            d->n_head = 0;
        if (now > 0)
            return 1;
    }
    return 0;
}

/* --- sync ------------------------------------------------------------------------------------- */

void fy_adb_sync_head(unsigned char out[FY_ADB_SYNC_HEAD], const char *id, uint32_t n)
{
    memcpy(out, id, 4);
    put_le32(out + 4, n);
}

/* The phone's reason, n bytes after a FAIL; the connection cannot be used afterwards. */
static int refused(fy_adb_source *s, uint32_t n, fy_err *e)
{
    char reason[FY_ADB_REASON_MAX], shown[2 * FY_ADB_REASON_MAX];
    size_t len = n < sizeof reason ? n : sizeof reason;
    if (s->read(s, reason, len, e) != 0)
        return -1;
    bool full = memmem(reason, len, "No space left", 13) != NULL ||
                memmem(reason, len, "uota exceeded", 13) != NULL;
    fy_quote(shown, sizeof shown, (fy_span){reason, len});
    return fy_fail(e, full ? FY_ENOSPACE : FY_EDEVICE, "the phone says: %s", shown);
}

int fy_adb_read_sent(fy_adb_source *s, fy_err *e)
{
    unsigned char head[FY_ADB_SYNC_HEAD];
    if (s->read(s, head, sizeof head, e) != 0)
        return -1;
    if (memcmp(head, "FAIL", 4) == 0)
        return refused(s, fy_le32(head + 4), e);
    return memcmp(head, "OKAY", 4) == 0 ? 0 : strange(head, "OKAY or FAIL", e);
}

int fy_adb_read_file(fy_adb_source *s, fy_adb_bytes *sink, void *user, fy_err *e)
{
    unsigned char head[FY_ADB_SYNC_HEAD];
    unsigned char *data = malloc(FY_ADB_DATA_MAX);
    int rc = data != NULL ? 0 : fy_nomem(e);
    while (rc == 0) {
        rc = s->read(s, head, sizeof head, e);
        uint32_t n = fy_le32(head + 4);
        if (rc != 0 || memcmp(head, "DONE", 4) == 0)
            break;
        if (memcmp(head, "FAIL", 4) == 0)
            rc = refused(s, n, e);
        else if (memcmp(head, "DATA", 4) != 0)
            rc = strange(head, "DATA, DONE or FAIL", e);
        else if (n == 0 || n > FY_ADB_DATA_MAX)
            rc = fy_fail(e, FY_EDEVICE, "a part of %lu bytes, expected 1 to %d", (unsigned long)n,
                         FY_ADB_DATA_MAX);
        else if ((rc = s->read(s, data, n, e)) == 0)
            rc = sink(user, data, n, e);
    }
    free(data);
    return rc;
}

/* The fields of struct stat that follow the id in STA2, LST2, DNT2. */
enum { STAT_V1 = 16, STAT_V2 = 72 };

static uint32_t decode_stat(const unsigned char *p, bool v2, fy_adb_stat *out)
{
    if (!v2) {
        *out =
            (fy_adb_stat){.mode = fy_le32(p + 4), .size = fy_le32(p + 8), .mtime = fy_le32(p + 12)};
        return 0;
    }
    uint32_t error = fy_le32(p + 4);
    *out = (fy_adb_stat){0};
    if (error == 0)
        *out = (fy_adb_stat){
            .mode = fy_le32(p + 24), .size = fy_le64(p + 40), .mtime = (int64_t)fy_le64(p + 56)};
    return error;
}

int fy_adb_read_stat(fy_adb_source *s, bool v2, fy_adb_stat *out, fy_err *e)
{
    unsigned char p[STAT_V2];
    const char *id = v2 ? "STA2" : "STAT";
    if (s->read(s, p, FY_ADB_SYNC_HEAD, e) != 0)
        return -1;
    if (memcmp(p, "FAIL", 4) == 0)
        return refused(s, fy_le32(p + 4), e);
    if (memcmp(p, id, 4) != 0)
        return strange(p, id, e);
    if (s->read(s, p + FY_ADB_SYNC_HEAD, (v2 ? STAT_V2 : STAT_V1) - FY_ADB_SYNC_HEAD, e) != 0)
        return -1;
    uint32_t error = decode_stat(p, v2, out);
    if (error != 0 && error != ENOENT && error != ENOTDIR)
        return fy_fail(e, FY_EDEVICE, "the phone says: %s",
                       error < 4096 ? strerror((int)error) : "an error without a name");
    return 0;
}

/* One DENT or DNT2: 0, or 1 at DONE. */
static int read_entry(fy_adb_source *s, bool v2, char name[FY_ADB_NAME_MAX + 1], fy_adb_stat *st,
                      fy_err *e)
{
    unsigned char p[STAT_V2 + 4];
    const char *id = v2 ? "DNT2" : "DENT";
    size_t bytes = (v2 ? STAT_V2 : STAT_V1) + 4;
    if (s->read(s, p, FY_ADB_SYNC_HEAD, e) != 0)
        return -1;
    if (memcmp(p, "FAIL", 4) == 0)
        return refused(s, fy_le32(p + 4), e);
    if (memcmp(p, id, 4) != 0 && memcmp(p, "DONE", 4) != 0)
        return strange(p, v2 ? "DNT2 or DONE" : "DENT or DONE", e);
    if (s->read(s, p + FY_ADB_SYNC_HEAD, bytes - FY_ADB_SYNC_HEAD, e) != 0)
        return -1;
    if (memcmp(p, "DONE", 4) == 0)
        return 1;
    uint32_t n = fy_le32(p + bytes - 4);
    if (n == 0 || n > FY_ADB_NAME_MAX)
        return fy_fail(e, FY_EDEVICE, "a name of %lu bytes, expected 1 to %d", (unsigned long)n,
                       FY_ADB_NAME_MAX);
    decode_stat(p, v2, st);
    if (s->read(s, name, n, e) != 0)
        return -1;
    name[n] = '\0';
    bool self = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    if (!self && !fy_path_is_plain((fy_span){name, n})) {
        char shown[FY_QUOTE_BYTES];
        fy_quote(shown, sizeof shown, (fy_span){name, n});
        return fy_fail(e, FY_EDEVICE, "'%s' is not a file's name", shown);
    }
    return 0;
}

int fy_adb_read_entries(fy_adb_source *s, bool v2, fy_adb_entry *each, void *user, fy_err *e)
{
    char name[FY_ADB_NAME_MAX + 1];
    fy_adb_stat st;
    for (size_t n = 0;; n++) {
        int rc = read_entry(s, v2, name, &st, e);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        if (n == FY_ADB_ENTRIES_MAX)
            return fy_fail(e, FY_EDEVICE, "more than %d entries", FY_ADB_ENTRIES_MAX);
        bool self = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
        if (!self && each(user, name, &st, e) != 0)
            return -1;
    }
}

/* The phone ends its side after every refusal, and a broken exchange leaves it in an unknown place:
 * then the link is given up, and the next operation opens another. */
struct fy_adb_sync {
    const fy_adb *a; /* view */
    fy_adb_link link;
};

static int ready(fy_adb_sync *s, fy_err *e)
{
    return s->link.fd >= 0 ? 0 : fy_adb_service(s->a, &s->link, "sync:", "", e);
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
    bool v2 = fy_list_has(s->a->phone, ',', "stat_v2");
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
    bool v2 = fy_list_has(s->a->phone, ',', "ls_v2");
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

/* --- SEND ------------------------------------------------------------------------------------- */

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

/* The phone may refuse at any time, while we write or before it goes away. */
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
    char *target = fy_path_format(e, "%s,%u", path, (unsigned)((mode & 07777) | S_IFREG));
    int rc = target != NULL ? send_request(s, "SEND", target, e) : -1;
    if (rc == 0)
        rc = send_all(s, mtime, fill, user, e);
    free(target);
    return done(s, rc, "writing", path, e);
}
