/* Workspaces here and on the phone, and files that are sent for one call or fetched. */
#include "workspace/phone/phone_workspace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_rows.h"
#include "base/log.h"
#include "base/math.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "cli/terminal.h"

/* --- here ------------------------------------------------------------------------------------- */

static int hash_manifest(const char *dir, char out[FY_SHA256_HEX], fy_err *e)
{
    fy_map map;
    uint8_t hash[FY_SHA256_BYTES];
    if (fy_map_open_in(&map, dir, FY_MANIFEST_NAME, e) != 0)
        return -1;
    int rc = fy_sha256_of(map.data, map.size, hash, e);
    fy_map_close(&map);
    if (rc == 0)
        fy_sha256_to_hex(hash, out);
    return rc;
}

/* Cuts `real` after the directory of the workspace; *rel gets a copy of what followed. */
static bool split(char *real, char **rel)
{
    size_t whole = strlen(real);
    for (size_t n = whole; n > 0;) {
        char *slash, c = real[n];
        real[n] = '\0';
        if (fy_dir_has(real, FY_BUNDLE_WORKSPACE_JSON) && fy_dir_has(real, FY_MANIFEST_NAME)) {
            *rel = strdup(n < whole ? real + n + 1 : "");
            return true;
        }
        real[n] = c;
        slash = memrchr(real, '/', n);
        n = slash != NULL ? (size_t)(slash - real) : 0;
    }
    return false;
}

int fy_local_workspace_of(const char *path, fy_local_workspace *out, fy_err *e)
{
    *out = (fy_local_workspace){0};
    char *real = realpath(path, NULL), *rel = NULL;
    if (real == NULL)
        return fy_fail_errno(e, "%s", path);
    if (!split(real, &rel)) {
        free(real);
        return 0;
    }
    fy_span base = fy_path_base(real);
    out->dir = real;
    out->name = strndup(base.ptr, base.len);
    out->rel = rel;
    int rc =
        out->name != NULL && out->rel != NULL ? hash_manifest(real, out->sha256, e) : fy_nomem(e);
    if (rc != 0)
        fy_local_workspace_release(out);
    return rc == 0 ? 1 : -1;
}

void fy_local_workspace_release(fy_local_workspace *w)
{
    free(w->dir);
    free(w->name);
    free(w->rel);
    *w = (fy_local_workspace){0};
}

int fy_workspace_exec(fy_span text, char **out, fy_err *e)
{
    const fy_json_row rows[] = {{.key = "exec", .type = FY_JSON_ROW_TEXT}};
    const fy_json_table table = {FY_JSON_ROWS(rows)};
    *out = NULL;
    if (fy_json_document_of(text, &table, out, e) == 0)
        return 0;
    free(*out);
    *out = NULL;
    return -1;
}

/* --- there ------------------------------------------------------------------------------------ */

static bool is_hash(fy_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (fy_hex_digit(s.ptr[i]) < 0)
            return false;
    }
    return s.len == FY_SHA256_HEX - 1;
}

int fy_phone_workspace_of(const fy_adb *a, const char *path, fy_phone_workspace *out, fy_err *e)
{
    fy_str cmd = {0}, text = {0};
    int status;
    *out = (fy_phone_workspace){0};
    fy_str_puts(&cmd, "p=");
    fy_adb_quote(&cmd, path);
    fy_str_printf(&cmd,
                  "; [ -e \"$p\" ] || p=; "
                  "while [ -n \"$p\" ] && [ ! -f \"$p/" FY_BUNDLE_WORKSPACE_JSON "\" ]; do "
                  "p=${p%%/*}; done; echo \"$p\"; [ -n \"$p\" ] || exit 0; "
                  "echo $(sha256sum <\"$p/" FY_MANIFEST_NAME "\" 2>/dev/null); "
                  "[ -x \"$p/" FY_BUNDLE_EXE "\" ] && echo yes || echo no; "
                  "head -c %u \"$p/" FY_BUNDLE_WORKSPACE_JSON "\"",
                  FY_BUNDLE_JSON_MAX_BYTES + 1);
    int rc = fy_adb_run(a, &cmd, &text, NULL, &status, e);
    if (rc == 0) {
        fy_span rest = {fy_str_z(&text), text.len}, dir = fy_span_cut_line(&rest);
        fy_span hash = fy_span_cut_line(&rest);
        out->dir = strndup(dir.ptr, dir.len);
        hash.len = hash.len < FY_SHA256_HEX - 1 ? hash.len : FY_SHA256_HEX - 1; /* "HASH  -" */
        if (is_hash(hash))
            memcpy(out->sha256, hash.ptr, hash.len);
        out->exe = fy_span_is(fy_span_cut_line(&rest), "yes");
        fy_str_add(&out->workspace_json, rest.ptr, rest.len);
        if (out->dir == NULL || out->workspace_json.oom) {
            fy_phone_workspace_release(out);
            rc = fy_nomem(e);
        }
    }
    fy_str_release(&text);
    return rc;
}

int fy_phone_version_of(const fy_adb *a, const char *name, char sha256[FY_SHA256_HEX], fy_err *e)
{
    fy_phone_workspace w;
    char *path = fy_path_format(e, FY_PHONE_DIR "/%s", name);
    int rc = path != NULL ? fy_phone_workspace_of(a, path, &w, e) : -1;
    if (rc == 0) {
        memcpy(sha256, w.sha256, FY_SHA256_HEX);
        fy_phone_workspace_release(&w);
    }
    free(path);
    return rc;
}

void fy_phone_workspace_release(fy_phone_workspace *w)
{
    free(w->dir);
    fy_str_release(&w->workspace_json);
    *w = (fy_phone_workspace){0};
}

/* --- files ------------------------------------------------------------------------------------ */

int fy_phone_stat(const fy_adb *a, fy_adb_sync *s, const char *path, fy_adb_stat *out, fy_err *e)
{
    fy_str cmd = {0}, text = {0};
    int status;
    unsigned long long size;
    if (fy_adb_sync_stat(s, path, out, e) != 0)
        return -1;
    if (!S_ISREG(out->mode) || fy_adb_has(a, "stat_v2"))
        return 0;
    fy_str_puts(&cmd, "stat -c %s ");
    fy_adb_quote(&cmd, path);
    int rc = fy_adb_run(a, &cmd, &text, NULL, &status, e);
    /* the answer of sync is the size modulo 4 GiB */
    if (rc == 0 && status == 0 && sscanf(fy_str_z(&text), "%llu", &size) == 1 &&
        (size & UINT32_MAX) == out->size)
        out->size = size;
    fy_str_release(&text);
    return rc;
}

typedef struct {
    fy_out *out;
    uint64_t at, most;
    fy_progress *progress;
} sink;

static int put(void *user, const void *p, size_t n, fy_err *e)
{
    sink *s = user;
    if (fy_check_interrupt(e) != 0)
        return -1;
    if (n > s->most - s->at)
        return fy_fail(e, FY_EDEVICE, "the phone sends more bytes than it listed");
    if (fy_out_pwrite(s->out, p, n, s->at, e) != 0)
        return -1;
    s->at += n;
    fy_progress_add(s->progress, n);
    return 0;
}

int fy_phone_fetch(fy_adb_sync *s, const char *path, const fy_adb_stat *st, fy_out *out,
                   fy_progress *progress, uint64_t *bytes, fy_err *e)
{
    uint64_t space, most;
    if (fy_file_space(fy_out_part(out), &space, e) != 0)
        return -1;
    if (st->size > space)
        return fy_fail(e, FY_ENOSPACE, "%s: needs %.1f MB, the disk has %.1f MB free",
                       fy_out_part(out), (double)st->size * 1e-6, (double)space * 1e-6);
    most = st->size + FY_PHONE_GROWTH; /* cannot wrap: no disk has so much space */
    sink to = {.out = out, .most = most, .progress = progress};
    if (fy_adb_sync_recv(s, path, put, &to, e) != 0)
        return -1;
    if (bytes != NULL)
        *bytes = to.at;
    return 0;
}

/* --- commands --------------------------------------------------------------------------------- */

int fy_phone_do(const fy_adb *a, fy_str *cmd, const char *what, fy_str *said, fy_err *e)
{
    static const char sentinel[] = "ferry-ran-all";
    fy_str out = {0}, err = {0};
    int status = 0;
    char shown[160];
    fy_str_printf(cmd, " && echo %s", sentinel);
    int rc = fy_adb_run(a, cmd, &out, &err, &status, e);
    const char *end = rc == 0 ? strstr(fy_str_z(&out), sentinel) : NULL;
    if (rc == 0 && (status != 0 || end == NULL))
        rc = fy_fail(e, FY_EDEVICE, "the phone cannot %s (exit status %d): %s", what, status,
                     fy_quote(shown, sizeof shown, (fy_span){fy_str_z(&err), err.len}));
    if (rc == 0 && said != NULL)
        fy_str_add(said, out.ptr, (size_t)(end - out.ptr));
    fy_str_release(&out);
    fy_str_release(&err);
    return rc == 0 && said != NULL && said->oom ? fy_nomem(e) : rc;
}

uint64_t fy_phone_parse_space(const char *text)
{
    unsigned long long blocks, bytes;
    uint64_t space = UINT64_MAX;
    if (sscanf(text, "%llu %llu", &blocks, &bytes) == 2)
        fy_mul_u64(blocks, bytes, &space);
    return space;
}

/* --- files for one call ----------------------------------------------------------------------- */

#define TEMP_PARENT FY_PHONE_DIR "/.tmp"

char *fy_phone_temp_name(fy_err *e)
{
    uint64_t nonce = 0;
    if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
        nonce = (uint64_t)getpid();
    return fy_path_format(e, TEMP_PARENT "/%016llx", (unsigned long long)nonce);
}

int fy_phone_send(const fy_adb *a, const char *file, const char *to, unsigned mode, fy_err *e)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC), rc = -1;
    if (fd < 0)
        return fy_fail_errno(e, "%s: cannot open", file);
    fy_adb_sync *s = fy_adb_sync_open(a, e);
    if (s != NULL)
        rc = fy_adb_sync_send(s, to, S_IFREG | mode, 0, fy_adb_fill_fd, &fd, e);
    fy_adb_sync_close(s);
    close(fd);
    return rc;
}

void fy_phone_temp_remove(const fy_adb *a, const char *dir)
{
    fy_str cmd = {0};
    int status, sig = fy_signals_take(); /* an interrupt would keep the phone from being asked */
    fy_str_puts(&cmd, "rm -rf ");
    fy_adb_quote(&cmd, dir);
    fy_str_puts(&cmd, "; find " TEMP_PARENT
                      " -mindepth 1 -maxdepth 1 -mtime +1 -exec rm -rf {} + 2>/dev/null; "
                      "rmdir " TEMP_PARENT " 2>/dev/null");
    fy_adb_run(a, &cmd, NULL, NULL, &status, NULL);
    if (sig != 0)
        fy_interrupted = 1;
}
