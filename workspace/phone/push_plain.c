/* A push without a helper on the phone: every file by sync, sizes checked, the same places and the
 * same switch by the phone's own shell. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/math.h"
#include "base/quote.h"
#include "bundle/agent_store.h"
#include "workspace/phone/push.h"

typedef struct {
    const fy_adb *a;
    const fy_push_source *source;
    fy_progress *progress;
    fy_push_result *out;
    fy_str base, versions, final, part; /* on the phone */
    const char *name;
} plain;

static int seen(void *user, const void *p, size_t n, fy_err *e)
{
    plain *l = user;
    (void)p;
    l->out->sent_bytes += n;
    fy_progress_add(l->progress, n);
    return fy_check_interrupt(e);
}

/* Runs words of ours, ended by a word that shows that all of them ran: a shell that was cut off can
 * look like one that succeeded. */
static int run(const plain *l, fy_str *cmd, const char *what, fy_str *said, fy_err *e)
{
    static const char sentinel[] = "ferry-ran-all";
    fy_str out = {0}, err = {0};
    int status = 0, rc;
    char shown[160];
    fy_str_printf(cmd, " && echo %s", sentinel);
    rc = cmd->oom ? fy_nomem(e) : fy_adb_shell(l->a, cmd->ptr, &out, &err, &status, e);
    const char *end = rc == 0 ? strstr(fy_str_z(&out), sentinel) : NULL;
    if (rc == 0 && (status != 0 || end == NULL))
        rc = fy_fail(e, FY_EDEVICE, "the phone cannot %s (exit status %d): %s", what, status,
                     fy_quote(shown, sizeof shown, (fy_span){fy_str_z(&err), err.len}));
    if (rc == 0 && said != NULL)
        fy_str_add(said, out.ptr, (size_t)(end - out.ptr));
    fy_str_release(&out);
    fy_str_release(&err);
    fy_str_release(cmd);
    return rc == 0 && said != NULL && said->oom ? fy_nomem(e) : rc;
}

/* "blocks bytes" of `stat -f -c '%a %S'`; UINT64_MAX when the phone says something else. */
static uint64_t parse_space(const char *text)
{
    unsigned long long blocks, bytes;
    uint64_t space = UINT64_MAX;
    if (sscanf(text, "%llu %llu", &blocks, &bytes) == 2)
        fy_mul_u64(blocks, bytes, &space);
    return space;
}

static int check_space(plain *l, fy_err *e)
{
    fy_str cmd = {0}, said = {0};
    fy_str_puts(&cmd, "mkdir -p ");
    fy_adb_quote(&cmd, fy_str_z(&l->versions));
    fy_str_puts(&cmd, " && rm -rf ");
    fy_adb_quote(&cmd, fy_str_z(&l->part));
    fy_str_puts(&cmd, " && { stat -f -c '%a %S' ");
    fy_adb_quote(&cmd, fy_str_z(&l->versions));
    fy_str_puts(&cmd, " || true; }");
    int rc = run(l, &cmd, "make its directory there", &said, e);
    uint64_t space = rc == 0 ? parse_space(fy_str_z(&said)) : 0;
    if (rc == 0 && l->out->bytes > space)
        rc = fy_fail(e, FY_ENOSPACE,
                     "%s: needs %.1f MB, %.1f MB are free; remove files from the phone",
                     fy_str_z(&l->base), (double)l->out->bytes * 1e-6, (double)space * 1e-6);
    fy_str_release(&said);
    return rc;
}

static int send_file(plain *l, fy_adb_sync *sync, const char *rel, uint32_t mode, uint64_t bytes,
                     fy_err *e)
{
    fy_adb_stat st;
    fy_str there = {0};
    char *here = fy_path_join(l->source->dir, rel);
    fy_str_printf(&there, "%s/%s", fy_str_z(&l->part), rel);
    int fd = -1, rc = here == NULL || there.oom ? fy_nomem(e) : 0;
    if (rc == 0 && (fd = open(here, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) < 0)
        rc = fy_fail_errno(e, "%s: cannot open", here);
    if (rc == 0)
        rc = fy_adb_sync_send(sync, fd, there.ptr, S_IFREG | mode, 0, seen, l, e);
    if (rc == 0)
        rc = fy_adb_sync_stat(sync, there.ptr, &st, e);
    /* the older answer has 32 bits for the size */
    uint64_t mask = fy_adb_has(l->a, "stat_v2") ? UINT64_MAX : UINT32_MAX;
    if (rc == 0 && (!S_ISREG(st.mode) || st.size != (bytes & mask)))
        rc = fy_fail(e, FY_EDEVICE, "%s: %llu bytes arrived, expected %llu", there.ptr,
                     (unsigned long long)st.size, (unsigned long long)bytes);
    if (fd >= 0)
        close(fd);
    free(here);
    fy_str_release(&there);
    return rc;
}

static int send_all(plain *l, fy_err *e)
{
    const fy_push_source *s = l->source;
    const struct {
        const char *name;
        size_t bytes;
    } unlisted[] = {{FY_MANIFEST_NAME, s->manifest_bytes},
                    {FY_MANIFEST_SIG, s->sig_bytes},
                    {FY_MANIFEST_KEY, s->key_bytes}};
    fy_adb_sync *sync = fy_adb_sync_open(l->a, e);
    int rc = sync != NULL ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < s->m.n; i++)
        rc = send_file(l, sync, s->m.entry[i].path, s->m.entry[i].mode, s->m.entry[i].bytes, e);
    for (size_t i = 0; rc == 0 && i < sizeof unlisted / sizeof unlisted[0]; i++) {
        if (unlisted[i].bytes > 0)
            rc = send_file(l, sync, unlisted[i].name, 0644, unlisted[i].bytes, e);
    }
    fy_adb_sync_close(sync);
    return rc;
}

/* "BASE/NAME", or a version's path, as one word of the phone's shell. */
static void put_path(fy_str *cmd, const char *dir, const char *name)
{
    fy_str path = {0};
    fy_str_printf(&path, "%s/%s", dir, name);
    fy_adb_quote(cmd, fy_str_z(&path));
    cmd->oom |= path.oom;
    fy_str_release(&path);
}

/* The new version under its name, the link switched; with prune the others removed. */
static int commit(plain *l, bool prune, fy_err *e)
{
    fy_str cmd = {0};
    const char *base = fy_str_z(&l->base), *versions = fy_str_z(&l->versions);
    const char *id = strrchr(fy_str_z(&l->final), '/') + 1;
    fy_str_puts(&cmd, "n=");
    put_path(&cmd, base, l->name);
    fy_str_puts(&cmd, "; f=");
    put_path(&cmd, versions, id);
    fy_str_puts(&cmd, "; sync; if [ -e \"$n\" ] && [ ! -L \"$n\" ]; then "
                      "echo \"$n is there already, and no link that a push made\" >&2; false; "
                      "else rm -rf \"$f\" && mv \"$f" FY_STORE_PART "\" \"$f\" && ln -sfn ");
    put_path(&cmd, FY_STORE_VERSIONS, id);
    fy_str_puts(&cmd, " \"$n\"");
    if (prune) {
        fy_str_puts(&cmd, " && for o in ");
        put_path(&cmd, versions, l->name);
        fy_str_puts(&cmd, "-????????????; do [ \"$o\" = \"$f\" ] || rm -rf \"$o\"; done");
    }
    fy_str_puts(&cmd, "; fi");
    return run(l, &cmd, "switch to the new version", NULL, e);
}

int fy_push_plain(const fy_adb *a, const fy_push_source *s, const char *path, bool prune,
                  fy_progress *progress, fy_push_result *out, fy_err *e)
{
    const char *slash = strrchr(path, '/');
    char hex[FY_SHA256_HEX];
    plain l = {.a = a, .source = s, .progress = progress, .out = out, .name = slash + 1};
    fy_sha256_to_hex(s->id, hex);
    fy_str_add(&l.base, path, slash == path ? 1 : (size_t)(slash - path));
    fy_str_printf(&l.versions, "%s/" FY_STORE_VERSIONS, fy_str_z(&l.base));
    fy_str_printf(&l.final, "%s/%s-%.*s", fy_str_z(&l.versions), l.name, FY_STORE_ID_HEX, hex);
    fy_str_printf(&l.part, "%s" FY_STORE_PART, fy_str_z(&l.final));
    int rc = l.base.oom || l.versions.oom || l.final.oom || l.part.oom ? fy_nomem(e) : 0;
    if (rc == 0)
        rc = check_space(&l, e);
    if (rc == 0)
        rc = send_all(&l, e);
    if (rc == 0)
        rc = commit(&l, prune, e);
    fy_str_release(&l.base);
    fy_str_release(&l.versions);
    fy_str_release(&l.final);
    fy_str_release(&l.part);
    return rc;
}
