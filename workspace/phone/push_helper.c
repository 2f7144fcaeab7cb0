/* The program on the phone that a push talks to: found here, put there once per version, started and
 * greeted. */
#include "workspace/phone/push.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/agent_store.h"
#include "bundle/bundle.h"
#include "bundle/bundle_check.h"
#include "workspace/pack/elf.h"
#include "workspace/pack/workspace.h"
#include "workspace/phone/phone_workspace.h"

#define AGENT      FY_PHONE_DIR "/.agent/ferry-" /* and the first 12 digits of its SHA-256 */
#define MAX_HELPER ((uint64_t)256 << 20)         /* bytes; it is held in memory */

/* bin/ferry of the workspace, as its manifest lists it. */
static int read_listed(const fy_push_source *s, size_t file, fy_push_helper *h, fy_err *e)
{
    const fy_manifest_entry *m = &s->m.entry[file];
    fy_push_units units = {.source = s, .fd = -1};
    if (m->bytes > MAX_HELPER)
        return fy_fail(e, FY_EVERIFY, "%s: has %llu bytes, expected a program of at most %llu",
                       m->path, (unsigned long long)m->bytes, (unsigned long long)MAX_HELPER);
    h->n = (size_t)m->bytes;
    h->bytes = malloc(h->n + 1);
    int rc = h->bytes != NULL ? 0 : fy_nomem(e);
    for (uint64_t i = 0; rc == 0 && i < fy_unit_count(m); i++) {
        rc = fy_push_unit_read(&units, file, i, e);
        if (rc == 0)
            memcpy(h->bytes + fy_unit_offset(i), units.bytes, fy_unit_bytes(m, i));
    }
    fy_push_units_release(&units);
    if (rc == 0 && (rc = fy_sha256_of(h->bytes, h->n, h->sha256, e)) == 0 &&
        memcmp(h->sha256, m->sha256, sizeof h->sha256) != 0) {
        fy_manifest_changed(m, UINT64_MAX, e);
        rc = fy_ctx(e, "%s", m->path);
    }
    return rc;
}

static int read_installed(const char *path, fy_push_helper *h, fy_err *e)
{
    fy_map map;
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    h->n = map.size;
    h->bytes = malloc(h->n + 1);
    if (h->bytes != NULL)
        memcpy(h->bytes, map.data, map.size);
    fy_map_close(&map);
    return h->bytes != NULL ? fy_sha256_of(h->bytes, h->n, h->sha256, e) : fy_nomem(e);
}

int fy_push_helper_find(const fy_push_source *s, const char *exe_path, const char *self,
                        fy_push_helper *h, fy_err *why, fy_err *e)
{
    const fy_manifest_entry *listed = s != NULL ? fy_manifest_find(&s->m, FY_BUNDLE_EXE) : NULL;
    *h = (fy_push_helper){0};
    char *path = listed == NULL ? fy_device_exe(exe_path, self, why) : NULL;
    if (listed == NULL && path == NULL)
        return 0;
    int rc = listed != NULL ? read_listed(s, (size_t)(listed - s->m.entry), h, e)
                            : read_installed(path, h, e);
    if (rc == 0 && fy_elf_check(h->bytes, h->n, FY_TARGET_ARM64, e) != 0)
        rc = fy_ctx(e, "%s", path != NULL ? path : FY_BUNDLE_EXE);
    free(path);
    char hex[FY_SHA256_HEX];
    fy_sha256_to_hex(h->sha256, hex);
    snprintf(h->there, sizeof h->there, AGENT "%.*s", FY_STORE_ID_HEX, hex);
    return rc == 0 ? 1 : -1;
}

void fy_push_helper_release(fy_push_helper *h)
{
    free(h->bytes);
    *h = (fy_push_helper){0};
}

static ssize_t fill(void *user, void *p, size_t n, fy_err *e)
{
    fy_span *left = user;
    if (fy_check_interrupt(e) != 0)
        return -1;
    n = n < left->len ? n : left->len;
    memcpy(p, left->ptr, n);
    *left = (fy_span){left->ptr + n, left->len - n};
    return (ssize_t)n;
}

/* Sends it as .part unless the phone has it; starting it gives it its name. */
static int put_helper(const fy_adb *a, const fy_push_helper *h, bool again, bool *sent,
                      uint64_t *sent_bytes, fy_err *e)
{
    fy_adb_stat st;
    char part[sizeof h->there + sizeof FY_STORE_PART];
    snprintf(part, sizeof part, "%s" FY_STORE_PART, h->there);
    fy_adb_sync *sync = fy_adb_sync_open(a, e);
    if (sync == NULL)
        return -1;
    int rc = fy_adb_sync_stat(sync, h->there, &st, e);
    *sent = rc == 0 && (again || st.mode == 0 || st.size != h->n);
    if (*sent) {
        fy_span left = {(const char *)h->bytes, h->n};
        rc = fy_adb_sync_send(sync, part, 0100755, 0, fill, &left, e);
        *sent_bytes += h->n - left.len;
    }
    fy_adb_sync_close(sync);
    return rc;
}

static int start_helper(const fy_adb *a, const fy_push_helper *h, bool sent, bool prune, fy_err *e)
{
    fy_str cmd = {0};
    fy_str_printf(&cmd, "p=%s; ", h->there);
    if (sent)
        fy_str_puts(&cmd, "chmod 755 $p.part; mv -f $p.part $p; ");
    if (prune)
        fy_str_puts(&cmd, "for f in " AGENT "*; do [ \"$f\" = \"$p\" ] || rm -f \"$f\"; done; ");
    fy_str_puts(&cmd, "exec $p agent");
    int fd = cmd.oom ? fy_nomem(e) : fy_adb_exec(a, cmd.ptr, e);
    fy_str_release(&cmd);
    return fd;
}

int fy_push_helper_reach(const fy_adb *a, const fy_push_helper *h, bool prune, fy_push_link *l,
                         uint64_t *sent_bytes, fy_err *why, fy_err *e)
{
    for (int tries = 0;; tries++) {
        fy_agent_hello hello;
        bool sent;
        *why = (fy_err){0};
        if (put_helper(a, h, tries > 0, &sent, sent_bytes, e) != 0)
            return -1;
        int fd = start_helper(a, h, sent, prune, e);
        if (fd < 0)
            return -1;
        int rc = fy_push_greet(l, fd, &hello, why, e);
        if (rc == 1 && memcmp(hello.sha256, h->sha256, sizeof hello.sha256) == 0)
            return 1;
        if (rc == 1)
            fy_fail(why, FY_EVERIFY, "%s is not what was put there", h->there);
        *sent_bytes += l->sent_bytes;
        close(fd);
        fy_push_link_release(l);
        if (rc < 0 || tries > 0)
            return rc < 0 ? -1 : 0;
    }
}
