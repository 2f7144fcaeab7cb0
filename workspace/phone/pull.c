#include "workspace/phone/pull.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/grow.h"
#include "base/log.h"
#include "base/quote.h"
#include "workspace/phone/adb.h"
#include "workspace/pack/digest.h"
#include "workspace/phone/phone_workspace.h"
#include "workspace/pack/staging.h"

/* Of one directory with everything below it. */
enum { MAX_DEPTH = 64, MAX_FILES = 1 << 20 };

typedef struct {
    char *rel; /* owned */
    uint64_t bytes;
    uint32_t mode;
} item;

typedef struct {
    fy_adb_sync *sync;
    const char *root; /* on the phone */
    fy_progress *progress;
    item *items; /* owned; files, and directories (S_ISDIR) */
    size_t n, cap;
    const char *at; /* of the directory that is listed; "" at the root */
} tree;

/* --- bytes ------------------------------------------------------------------------------------ */

typedef struct {
    int fd; /* or */
    fy_out *out;
    fy_str *text; /* or */
    size_t max_text;
    fy_digester *digest; /* may be NULL */
    const char *name;
    uint64_t bytes;
    fy_progress *progress;
} sink;

static int take(void *user, const void *p, size_t n, fy_err *e)
{
    sink *s = user;
    if (fy_check_interrupt(e) != 0)
        return -1;
    if (s->text != NULL && n > s->max_text - s->text->len)
        return fy_fail(e, FY_EFORMAT, "%s: more than %zu bytes", s->name, s->max_text);
    if (s->text != NULL) {
        fy_str_add(s->text, p, n);
        if (s->text->oom)
            return fy_nomem(e);
    } else if (s->out != NULL ? fy_out_pwrite(s->out, p, n, s->bytes, e) != 0
                              : fy_write_all(s->fd, p, n, s->name, e) != 0) {
        return -1;
    }
    s->bytes += n;
    fy_progress_add(s->progress, n);
    return s->digest != NULL ? fy_digester_add(s->digest, p, n, e) : 0;
}

static char *join(const char *dir, const char *rel, fy_err *e)
{
    char *p = *rel != '\0' ? fy_path_join(dir, rel) : strdup(dir);
    if (p == NULL)
        fy_nomem(e);
    return p;
}

/* One file into the staging directory. m: what it has to be; NULL: whatever it is. */
static int fetch(tree *t, fy_staging *to, const char *rel, uint32_t mode,
                 const fy_manifest_entry *m, fy_err *e)
{
    fy_digest d = {0};
    char *path = join(t->root, rel, e);
    sink s = {.name = rel, .progress = t->progress, .fd = -1};
    int rc = path != NULL ? 0 : -1;
    if (rc == 0 && m != NULL && (s.digest = fy_digester_new(e)) == NULL)
        rc = -1;
    if (rc == 0 && (s.fd = fy_staging_create(to, rel, mode, e)) < 0)
        rc = -1;
    if (rc == 0)
        rc = fy_adb_sync_recv(t->sync, path, take, &s, e);
    if (s.fd >= 0 && close(s.fd) != 0 && rc == 0)
        rc = fy_fail_errno(e, "%s: cannot close", rel);
    if (s.digest != NULL) {
        int ended = fy_digester_end(s.digest, rc == 0 ? &d : NULL, e);
        rc = rc == 0 ? ended : rc;
        if (rc == 0 && fy_digest_compare(&d, m, e) != 0)
            rc = fy_ctx(e, "%s on the phone", path);
    }
    fy_digest_release(&d);
    free(path);
    return rc;
}

/* --- a directory ------------------------------------------------------------------------------ */

static void tree_release(tree *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->items[i].rel);
    free(t->items);
}

static int add_item(void *user, const char *name, const fy_adb_stat *st, fy_err *e)
{
    tree *t = user;
    char shown[FY_QUOTE_BYTES];
    if (!fy_path_is_plain(fy_span_of(name)))
        return fy_fail(e, FY_EDEVICE, "the phone lists a file named '%s'",
                       fy_quote(shown, sizeof shown, fy_span_of(name)));
    if (!S_ISREG(st->mode) && !S_ISDIR(st->mode)) {
        fy_log(FY_LOG_WARN, "%s: left out: it is no regular file",
               fy_quote(shown, sizeof shown, fy_span_of(name)));
        return 0;
    }
    if (t->n == MAX_FILES)
        return fy_fail(e, FY_EUNSUPPORTED, "more than %d files", MAX_FILES);
    item *grown = fy_grow(t->items, t->n, &t->cap, sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    t->items = grown;
    char *rel = *t->at != '\0' ? fy_path_join(t->at, name) : strdup(name);
    if (rel == NULL)
        return fy_nomem(e);
    grown[t->n++] = (item){rel, st->size, st->mode};
    return 0;
}

static int depth_of(const char *rel)
{
    int n = 0;
    for (; *rel != '\0'; rel++)
        n += *rel == '/';
    return n;
}

/* What is found is listed in its turn. */
static int list_all(tree *t, fy_err *e)
{
    t->at = "";
    int rc = fy_adb_sync_list(t->sync, t->root, add_item, t, e);
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        if (!S_ISDIR(t->items[i].mode))
            continue;
        if (depth_of(t->items[i].rel) >= MAX_DEPTH)
            return fy_fail(e, FY_EUNSUPPORTED, "%s: directories more than %d deep", t->root,
                           MAX_DEPTH);
        char *path = join(t->root, t->items[i].rel, e), *at = strdup(t->items[i].rel);
        t->at = at;
        rc = path == NULL || at == NULL ? fy_nomem(e)
                                        : fy_adb_sync_list(t->sync, path, add_item, t, e);
        free(path);
        free(at);
    }
    return rc;
}

static int pull_plain_dir(tree *t, fy_staging *to, fy_pull_result *out, fy_err *e)
{
    int rc = list_all(t, e);
    uint64_t all = 0;
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        if (!S_ISDIR(t->items[i].mode))
            all = t->items[i].bytes > INT64_MAX - all ? INT64_MAX : all + t->items[i].bytes;
    }
    if (rc == 0)
        rc = fy_staging_need(to, all, e);
    if (t->progress != NULL)
        t->progress->total_bytes = all;
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        const item *it = &t->items[i];
        if (S_ISDIR(it->mode)) {
            char *inside = fy_path_join(it->rel, "x");
            rc = inside != NULL ? fy_staging_mkdirs(to, inside, e) : fy_nomem(e);
            free(inside);
        } else {
            rc = fetch(t, to, it->rel, (it->mode & 0777) | 0600, NULL, e);
            out->files++;
            out->bytes += it->bytes;
        }
    }
    return rc;
}

/* --- a workspace ------------------------------------------------------------------------------ */

/* The three files that no manifest lists; *n 0: it is not there. */
static int pull_unlisted(tree *t, fy_staging *to, const char *name, size_t max, fy_str *text,
                         fy_pull_result *out, fy_err *e)
{
    fy_adb_stat st;
    char *path = join(t->root, name, e);
    sink s = {.text = text, .max_text = max, .name = name};
    int rc = path != NULL ? fy_adb_sync_stat(t->sync, path, &st, e) : -1;
    bool there = rc == 0 && S_ISREG(st.mode);
    if (there)
        rc = fy_adb_sync_recv(t->sync, path, take, &s, e);
    if (there && rc == 0)
        rc = fy_staging_write(to, name, 0644, text->ptr, text->len, e);
    if (there && rc == 0) {
        out->files++;
        out->bytes += text->len;
    }
    free(path);
    return rc;
}

static int pull_listed(tree *t, fy_staging *to, const fy_str *text, fy_pull_result *out, fy_err *e)
{
    fy_manifest m;
    uint64_t all = 0;
    if (fy_manifest_parse(text->ptr, text->len, &m, e) != 0)
        return fy_ctx(e, "%s/" FY_MANIFEST_NAME " on the phone", t->root);
    for (size_t i = 0; i < m.n; i++)
        all = m.entry[i].bytes > INT64_MAX - all ? INT64_MAX : all + m.entry[i].bytes;
    if (t->progress != NULL)
        t->progress->total_bytes = all;
    int rc = fy_staging_need(to, all, e);
    for (size_t i = 0; rc == 0 && i < m.n; i++)
        rc = fetch(t, to, m.entry[i].path, m.entry[i].mode, &m.entry[i], e);
    out->files += m.n;
    out->bytes += all;
    out->verified = rc == 0;
    fy_manifest_release(&m);
    return rc;
}

static int pull_dir(tree *t, const char *here, fy_pull_result *out, fy_err *e)
{
    fy_str manifest = {0}, sig = {0}, key = {0};
    fy_staging *to = fy_staging_open(here, e);
    if (to == NULL)
        return -1;
    int rc = pull_unlisted(t, to, FY_MANIFEST_NAME, FY_MANIFEST_MAX_BYTES, &manifest, out, e);
    bool workspace = rc == 0 && out->files == 1;
    if (workspace) {
        rc = pull_unlisted(t, to, FY_MANIFEST_SIG, FY_MANIFEST_SIG_BYTES, &sig, out, e);
        if (rc == 0)
            rc = pull_unlisted(t, to, FY_MANIFEST_KEY, FY_MANIFEST_KEY_MAX, &key, out, e);
        if (rc == 0)
            rc = pull_listed(t, to, &manifest, out, e);
    } else if (rc == 0) {
        rc = pull_plain_dir(t, to, out, e);
    }
    fy_str_release(&manifest);
    fy_str_release(&sig);
    fy_str_release(&key);
    if (rc != 0) {
        fy_staging_abort(to);
        return rc;
    }
    return fy_staging_commit(to, e);
}

static int pull_file(tree *t, const fy_adb_stat *st, const char *here, fy_pull_result *out,
                     fy_err *e)
{
    if (t->progress != NULL)
        t->progress->total_bytes = st->size;
    sink s = {.name = here, .progress = t->progress, .fd = -1, .out = fy_out_open(here, 0, e)};
    if (s.out == NULL)
        return -1;
    if (fy_adb_sync_recv(t->sync, t->root, take, &s, e) != 0) {
        fy_out_abort(s.out);
        return -1;
    }
    out->files = 1;
    out->bytes = s.bytes;
    return fy_out_commit(s.out, e);
}

/* --- the job ---------------------------------------------------------------------------------- */

/* What the path leads to; a link is followed, whatever the phone's own answer is about. */
static int look_at(tree *t, fy_adb_stat *st, fy_err *e)
{
    if (fy_adb_sync_stat(t->sync, t->root, st, e) != 0)
        return -1;
    if (S_ISLNK(st->mode)) {
        fy_adb_stat to;
        char *inside = fy_path_join(t->root, ".");
        int rc = inside != NULL ? fy_adb_sync_stat(t->sync, inside, &to, e) : fy_nomem(e);
        free(inside);
        if (rc != 0)
            return -1;
        if (S_ISDIR(to.mode))
            *st = to;
        else
            st->mode = S_IFREG | 0644;
    }
    if (st->mode == 0)
        return fy_fail(e, FY_EDEVICE, "%s: there is nothing of this name on the phone", t->root);
    if (!S_ISREG(st->mode) && !S_ISDIR(st->mode))
        return fy_fail(e, FY_EDEVICE, "%s: is neither a file nor a directory", t->root);
    return 0;
}

int fy_pull(const fy_pull_params *p, fy_progress *progress, fy_pull_result *out, fy_err *e)
{
    tree t = {.progress = progress, .at = ""};
    fy_adb_stat st;
    *out = (fy_pull_result){0};
    char *root = p->path[0] == '/' ? strdup(p->path) : fy_path_join(FY_PHONE_DIR, p->path);
    if (root == NULL)
        return fy_nomem(e);
    for (size_t n = strlen(root); n > 1 && root[n - 1] == '/'; n--)
        root[n - 1] = '\0';
    t.root = root;
    fy_span name = fy_path_base(root);
    if (p->out != NULL)
        snprintf(out->path, sizeof out->path, "%s", p->out);
    else
        snprintf(out->path, sizeof out->path, "%.*s", (int)name.len, name.ptr);
    fy_adb *a = NULL;
    int rc = -1;
    if (p->out == NULL && !fy_path_is_plain(name))
        fy_fail(e, FY_EARG, "'%s' has no name of its own; give one with -o", p->path);
    else if (p->out != NULL && strlen(p->out) >= sizeof out->path)
        fy_fail(e, FY_EARG, "-o: a path of %zu bytes is too long", strlen(p->out));
    else if ((a = fy_adb_open(p->serial, e)) != NULL)
        t.sync = fy_adb_sync_open(a, e);
    if (t.sync != NULL && look_at(&t, &st, e) == 0)
        rc = S_ISDIR(st.mode) ? pull_dir(&t, out->path, out, e)
                              : pull_file(&t, &st, out->path, out, e);
    if (a != NULL)
        snprintf(out->serial, sizeof out->serial, "%s", fy_adb_serial(a));
    tree_release(&t);
    fy_adb_sync_close(t.sync);
    fy_adb_close(a);
    free(root);
    return rc;
}
