/* The verb `pull`: a file or a directory from the phone, which gets its name here only once it is
 * whole. A workspace is taken by its manifest: the listed files, each compared with its hash. The
 * phone is not trusted with this machine's disk: it can send no more than it listed before. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/data/model_json.h"
#include "workspace/pack/manifest.h"
#include "workspace/pack/staging.h"
#include "workspace/phone/adb.h"
#include "workspace/phone/phone_workspace.h"

/* Of one directory with everything below it. */
enum { MAX_DEPTH = 64, MAX_FILES = 1 << 20 };

typedef struct {
    char serial[128];
    char path[1200]; /* here */
    uint64_t files, bytes;
    bool verified; /* by a manifest */
} result;

typedef struct {
    char *rel; /* owned */
    uint64_t bytes;
    uint32_t mode;
} item;

typedef struct {
    const fy_adb *adb;
    fy_adb_sync *sync;
    const char *root; /* on the phone */
    fy_progress *progress;
    item *items; /* owned; files, and directories (S_ISDIR) */
    size_t n, cap;
    const char *at; /* of the directory that is listed; "" at the root */
    uint64_t room;  /* bytes that the phone may still send for files without a manifest */
} tree;

/* --- bytes ------------------------------------------------------------------------------------ */

typedef struct {
    int fd;       /* or */
    fy_str *text; /* or NULL */
    uint64_t *room;
    fy_digester *digest; /* may be NULL */
    const char *name;
    fy_progress *progress;
} sink;

static int take(void *user, const void *p, size_t n, fy_err *e)
{
    sink *s = user;
    if (fy_check_interrupt(e) != 0)
        return -1;
    if (n > *s->room)
        return fy_fail(e, FY_EDEVICE, "the phone sends more bytes than it listed");
    *s->room -= n;
    if (s->text != NULL) {
        fy_str_add(s->text, p, n);
        if (s->text->oom)
            return fy_nomem(e);
    } else if (fy_write_all(s->fd, p, n, s->name, e) != 0) {
        return -1;
    }
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

/* One file into the staging directory. m: the one it has to be; NULL: any. */
static int fetch(tree *t, fy_staging *to, const char *rel, uint32_t mode,
                 const fy_manifest_entry *m, fy_err *e)
{
    fy_digest d = {0};
    char *path = join(t->root, rel, e);
    uint64_t listed = m != NULL ? m->bytes : 0;
    sink s = {
        .name = rel, .progress = t->progress, .fd = -1, .room = m != NULL ? &listed : &t->room};
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
        fy_log(FY_LOG_WARN, "%s: left out: it is not a regular file",
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

/* Directories that are found are listed in their turn. */
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

/* Sizes of the older listing are modulo 4 GiB. */
static int size_of(tree *t, item *it, fy_err *e)
{
    fy_adb_stat st;
    char *path = join(t->root, it->rel, e);
    int rc = path != NULL ? fy_phone_stat(t->adb, t->sync, path, &st, e) : -1;
    if (rc == 0)
        it->bytes = st.size;
    free(path);
    return rc;
}

static int pull_plain_dir(tree *t, fy_staging *to, result *out, fy_err *e)
{
    int rc = list_all(t, e);
    const bool sized = fy_adb_has(t->adb, "ls_v2");
    uint64_t all = 0;
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        item *it = &t->items[i];
        if (S_ISDIR(it->mode))
            continue;
        rc = sized ? 0 : size_of(t, it, e);
        all = it->bytes > INT64_MAX - all ? INT64_MAX : all + it->bytes;
    }
    t->room = all + FY_PHONE_GROWTH;
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
                         result *out, fy_err *e)
{
    fy_adb_stat st;
    char *path = join(t->root, name, e);
    sink s = {.text = text, .room = &st.size, .name = name};
    int rc = path != NULL ? fy_adb_sync_stat(t->sync, path, &st, e) : -1;
    bool there = rc == 0 && S_ISREG(st.mode);
    if (there && st.size > max) {
        there = false;
        rc = fy_fail(e, FY_EFORMAT, "%s: more than %zu bytes", name, max);
    }
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

static int pull_listed(tree *t, fy_staging *to, const fy_str *text, result *out, fy_err *e)
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

static int pull_dir(tree *t, const char *here, result *out, fy_err *e)
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

static int pull_file(tree *t, const fy_adb_stat *st, const char *here, result *out, fy_err *e)
{
    if (t->progress != NULL)
        t->progress->total_bytes = st->size;
    fy_out *o = fy_out_open(here, 0, e);
    if (o == NULL)
        return -1;
    if (fy_phone_fetch(t->sync, t->root, st, o, t->progress, &out->bytes, e) != 0) {
        fy_out_abort(o);
        return -1;
    }
    out->files = 1;
    return fy_out_commit(o, e);
}

/* --- the job ---------------------------------------------------------------------------------- */

/* What the path leads to; a link is followed, even where the phone's answer is about the link. */
static int look_at(tree *t, fy_adb_stat *st, fy_err *e)
{
    if (fy_phone_stat(t->adb, t->sync, t->root, st, e) != 0)
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

typedef struct {
    const char *serial, *out;
    bool json, quiet, verbose;
} options;

static const fy_opt opts[] = {
    FY_ROW_PHONE,
    FY_LINE_STR_AS("Output", "output", "o", "PATH", out,
                   "The file or directory to write; without it the name on the phone, here."),
    FY_ANY_FLAG("Output", "json", json, "What was done, as JSON."),
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int pull(const options *p, const char *from, fy_progress *progress, result *out, fy_err *e)
{
    tree t = {.progress = progress, .at = ""};
    fy_adb_stat st;
    *out = (result){0};
    char *root = from[0] == '/' ? strdup(from) : fy_path_join(FY_PHONE_DIR, from);
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
        fy_fail(e, FY_EARG, "'%s' has no name of its own; give one with -o", from);
    else if (p->out != NULL && strlen(p->out) >= sizeof out->path)
        fy_fail(e, FY_EARG, "-o: a path of %zu bytes is too long", strlen(p->out));
    else if ((a = fy_adb_open(p->serial, e)) != NULL)
        t.sync = fy_adb_sync_open(a, e);
    t.adb = a;
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

static int print_json(const result *r, double seconds, fy_err *e)
{
    json_t *root = json_pack("{s:s, s:s, s:I, s:I, s:b, s:f, s:f}", "serial", r->serial, "path",
                             r->path, "files", (json_int_t)r->files, "bytes", (json_int_t)r->bytes,
                             "verified", r->verified, "seconds", seconds, "bytes_per_s",
                             seconds > 0 ? (double)r->bytes / seconds : 0.0);
    return fy_json_print(root, 6, e);
}

static int run(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    result r;
    fy_progress progress;
    double begin = fy_now_s();
    fy_show_begin(&progress, "pulling", 0);
    int rc = pull(o, args[0], &progress, &r, e);
    fy_show_end(&progress);
    double seconds = fy_now_s() - begin;
    if (rc != 0 && args[0][0] != '/')
        fy_ctx(e, "pull takes from the phone ('ferry fetch ORG/NAME' downloads from the hub)");
    if (rc != 0)
        return rc;
    fy_log(FY_LOG_INFO, "%s: %llu file%s, %.1f MB%s, in %.1f s, %.1f MB/s", r.path,
           (unsigned long long)r.files, r.files == 1 ? "" : "s", (double)r.bytes * 1e-6,
           r.verified ? ", every file as its manifest lists it" : "", seconds,
           seconds > 0 ? (double)r.bytes * 1e-6 / seconds : 0.0);
    return o->json ? print_json(&r, seconds, e) : 0;
}

const fy_verb fy_verb_pull = {
    .name = "pull",
    .summary = "take a file, a directory or a workspace from the phone",
    .synopsis = "PATH",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "PATH is a path on the phone, or the name of a workspace in " FY_PHONE_DIR ". A directory "
        "with a manifest.json is taken as a workspace: the files that it lists, each compared "
        "with its hash. The result has its name once it is whole; a directory of that name must "
        "not exist, or be empty.",
    .examples = "ferry pull workspace -o pulled\n"
                "ferry pull /data/local/tmp/notes.txt\n",
    .task = FY_TASK_PHONE,
    .environment = FY_ADB_ENVIRONMENT,
    .run = run,
};
