/* Answers of an adb server and of a phone: whatever the bytes are, a reader refuses them with a
 * message, or what it hands out keeps to the limits. The first byte chooses the reader, the second
 * how the bytes are cut up. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "workspace/phone/adb_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    fy_adb_source source;
    const uint8_t *p;
    size_t left;
} memory;

static int memory_read(fy_adb_source *s, void *p, size_t n, fy_err *e)
{
    memory *m = (memory *)(void *)s;
    if (n > m->left)
        return fy_fail(e, FY_EDEVICE, "connection lost");
    memcpy(p, m->p, n);
    m->p += n;
    m->left -= n;
    return 0;
}

static void check(int rc, const fy_err *e)
{
    if (rc >= 0 ? e->code != FY_OK
                : (e->code != FY_EDEVICE && e->code != FY_ENOSPACE) || e->msg[0] == '\0')
        abort();
}

static void read_devices(const uint8_t *p, size_t n)
{
    fy_adb_device *d = NULL;
    size_t n_devices = 0;
    fy_err e = {0};
    int rc = fy_adb_parse_devices((fy_span){(const char *)p, n}, &d, &n_devices, &e);
    check(rc, &e);
    for (size_t i = 0; i < n_devices; i++) {
        if (strlen(d[i].serial) + strlen(d[i].state) + strlen(d[i].product) + strlen(d[i].model) +
                strlen(d[i].device) >
            n)
            abort();
    }
    fy_adb_devices_free(d, n_devices);
}

static void read_packets(const uint8_t *p, size_t n, size_t part)
{
    fy_adb_packets d = {0};
    fy_adb_piece piece;
    fy_err e = {0};
    size_t total = 0;
    for (size_t at = 0, now; at < n; at += now) {
        int rc;
        now = n - at < part ? n - at : part;
        for (size_t used = 0; (rc = fy_adb_next_piece(&d, p + at, now, &used, &piece, &e)) > 0;) {
            if (piece.n == 0 || piece.p < p + at || piece.n > now ||
                (size_t)(piece.p - p) - at > now - piece.n || used > now ||
                (piece.id == FY_ADB_EXIT && piece.n != 1))
                abort();
            total += piece.n;
        }
        check(rc, &e);
        if (rc < 0)
            break;
    }
    if (total > n)
        abort();
}

static int each(void *user, const char *name, const fy_adb_stat *st, fy_err *e)
{
    (void)st, (void)e;
    size_t n = strlen(name);
    if (n > FY_ADB_NAME_MAX || !fy_path_is_plain((fy_span){name, n}))
        abort();
    *(size_t *)user += n;
    return 0;
}

static int sink(void *user, const void *p, size_t n, fy_err *e)
{
    (void)p, (void)e;
    if (n == 0 || n > FY_ADB_DATA_MAX)
        abort();
    *(size_t *)user += n;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t part = (size_t)data[1] + 1, got = 0;
    memory m = {{memory_read}, data + 2, size - 2};
    fy_str text = {0};
    fy_adb_stat st = {0};
    fy_err e = {0};
    switch (data[0] % 8) {
    case 0:
        read_devices(m.p, m.left);
        break;
    case 1:
        read_packets(m.p, m.left, part);
        break;
    case 2:
        check(fy_adb_read_status(&m.source, &text, &e), &e);
        break;
    case 3:
        check(fy_adb_read_text(&m.source, &text, &e), &e);
        break;
    case 4:
        check(fy_adb_read_stat(&m.source, part % 2 == 0, &st, &e), &e);
        break;
    case 5:
        check(fy_adb_read_entries(&m.source, part % 2 == 0, each, &got, &e), &e);
        break;
    case 6:
        check(fy_adb_read_file(&m.source, sink, &got, &e), &e);
        break;
    default:
        check(fy_adb_read_sent(&m.source, &e), &e);
        break;
    }
    if (got > size || text.len > FY_ADB_TEXT_MAX)
        abort();
    fy_str_release(&text);
    return 0;
}
