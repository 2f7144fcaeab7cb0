/* The verb `push`: what is sent is checked, then given to the helper on the phone, or by plain sync
 * where no helper can run. push_helper.c starts the helper, push_talk.c talks to it. */
#include "workspace/phone/push.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/math.h"
#include "base/path.h"
#include "base/process.h"
#include "base/str.h"
#include "base/thread.h"
#include "bundle/agent_store.h"
#include "bundle/bundle.h"
#include "bundle/bundle_check.h"
#include "cli/call.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "cli/verb_rows.h"
#include "workspace/data/model_json.h"
#include "workspace/pack/known.h"
#include "workspace/pack/sign.h"
#include "workspace/pack/workspace.h"
#include "workspace/phone/adb.h"
#include "workspace/phone/phone_workspace.h"

/* One push. */
typedef struct {
    const fy_push_params *p;
    fy_progress *progress;
    fy_push_result *out;
    fy_push_source source;
    fy_signature signature;
    fy_adb *adb; /* owned */

    pthread_t thread; /* checks the whole workspace */
    bool running;
    _Atomic bool done;
    fy_verify_report report;
    fy_err found; /* why the check could not be made */
} push;

/* --- where to, and whose it is ---------------------------------------------------------------- */

/* The directory's own name on the phone. */
static int default_path(const char *dir, char *out, size_t n, fy_err *e)
{
    char *real = realpath(dir, NULL);
    if (real == NULL)
        return fy_fail_errno(e, "%s: cannot open", dir);
    fy_span name = fy_path_base(fy_path_is_plain(fy_path_base(dir)) ? dir : real);
    snprintf(out, n, FY_PHONE_DIR "/%.*s", (int)name.len, name.ptr);
    free(real);
    return 0;
}

static int choose_path(const fy_push_params *p, fy_push_result *out, fy_err *e)
{
    if (p->to != NULL)
        snprintf(out->path, sizeof out->path, "%s", p->to);
    else if (default_path(p->dir, out->path, sizeof out->path, e) != 0)
        return -1;
    size_t n = strlen(out->path);
    while (n > 1 && out->path[n - 1] == '/')
        out->path[--n] = '\0';
    if (fy_store_check_path(out->path, e) != 0)
        return p->to != NULL ? fy_ctx(e, "--to")
                             : fy_ctx(e, "%s: its name (--to gives another one)", p->dir);
    return 0;
}

/* The signature over the bytes that will be sent. Nothing leaves this machine before. */
static int check_signature(push *u, fy_err *e)
{
    fy_str why = {0};
    int rc = fy_trust_check(&u->p->trust, &u->source.seal, u->p->dir, &u->signature, &why, e);
    if (rc == 0 && why.len > 0)
        rc = fy_fail(e, FY_EVERIFY, "%s: " FY_MANIFEST_SIG ": %s", u->p->dir, why.ptr);
    fy_str_release(&why);
    return rc;
}

static void log_signature(const push *u)
{
    fy_str text = {0};
    fy_signature_text(&u->signature, u->p->dir, &text);
    if (text.len > 0)
        fy_log(FY_LOG_INFO, "%s: %s", u->p->dir, text.ptr);
    fy_str_release(&text);
}

/* --- the whole workspace, checked by a thread of its own -------------------------------------- */

static void *check(void *arg)
{
    push *u = arg;
    fy_verify_sealed(u->p->dir, &u->source.seal, &u->p->trust, u->p->n_threads, NULL, &u->report,
                     &u->found);
    atomic_store(&u->done, true);
    return NULL;
}

static int check_begin(push *u, fy_err *e)
{
    int rc = fy_thread_start(&u->thread, check, u, e);
    u->running = rc == 0;
    return rc;
}

static int check_result(const push *u, fy_err *e)
{
    char shown[FY_QUOTE_BYTES], text[160];
    if (u->found.code != FY_OK)
        return fy_fail(e, u->found.code, "%s", u->found.msg);
    if (u->report.n == 0)
        return 0;
    const fy_finding *f = &u->report.finding[0];
    return fy_fail(e, FY_EVERIFY, "%s: %zu problem%s, first %s: %s; 'ferry verify' lists them",
                   u->p->dir, u->report.n, u->report.n > 1 ? "s" : "",
                   fy_quote(shown, sizeof shown, fy_span_of(f->path)),
                   fy_quote(text, sizeof text, fy_span_of(f->text)));
}

static int check_end(push *u, fy_err *e)
{
    if (u->running)
        pthread_join(u->thread, NULL);
    u->running = false;
    return check_result(u, e);
}

static int gate(void *user, fy_err *e)
{
    push *u = user;
    if (!atomic_load(&u->done))
        return 0;
    return check_result(u, e) == 0 ? 1 : -1;
}

/* --- what plain sync is given ----------------------------------------------------------------- */

typedef struct {
    push *u;
    fy_span left;         /* what is read next; then */
    fy_push_units *units; /* units of a file, up to n_units; NULL: nothing */
    size_t file;
    uint64_t unit, n_units;
} content;

static ssize_t fill(void *user, void *p, size_t n, fy_err *e)
{
    content *c = user;
    if (fy_check_interrupt(e) != 0)
        return -1;
    while (c->left.len == 0) {
        if (c->unit == c->n_units)
            return 0;
        if (fy_push_unit_read(c->units, c->file, c->unit, e) != 0)
            return -1;
        c->left = (fy_span){(const char *)c->units->bytes,
                            fy_unit_bytes(&c->u->source.m.entry[c->file], c->unit)};
        c->unit++;
    }
    n = n < c->left.len ? n : c->left.len;
    memcpy(p, c->left.ptr, n);
    c->left.ptr += n;
    c->left.len -= n;
    c->u->out->sent_bytes += n;
    if (c->units != NULL)
        fy_progress_add(c->u->progress, n);
    return (ssize_t)n;
}

/* 1: pushed; 0: there is no usable helper, *why; -1. */
static int push_by_helper(push *u, fy_err *why, fy_err *e)
{
    fy_push_helper h;
    fy_push_link l;
    fy_push_result *out = u->out;
    int rc = fy_push_helper_find(&u->source, NULL, u->p->self, &h, why, e);
    if (rc == 1)
        rc = fy_push_helper_reach(u->adb, &h, u->p->prune, &l, &out->sent_bytes, why, e);
    if (rc == 1) {
        rc = fy_push_talk(&l, &u->source, out->path, u->p->prune, gate, u, u->progress, &out->done,
                          e) == 0
                 ? 1
                 : -1;
        out->sent_bytes += l.sent_bytes;
        close(l.fd);
        fy_push_link_release(&l);
    }
    out->helper = rc == 1;
    out->up_to_date = rc == 1 && out->done.up_to_date;
    out->reused_bytes = out->done.reused_bytes;
    fy_push_helper_release(&h);
    return rc;
}

/* --- without a helper ------------------------------------------------------------------------- */

/* Every file by sync, sizes checked; the same places and the same switch, by the phone's shell. */
typedef struct {
    push *u;
    char *base, *versions, *final, *part; /* owned; on the phone */
    const char *name;
} plain;

static int check_space(plain *l, fy_err *e)
{
    fy_str cmd = {0}, said = {0};
    fy_str_puts(&cmd, "mkdir -p ");
    fy_adb_quote(&cmd, l->versions);
    fy_str_puts(&cmd, " && rm -rf ");
    fy_adb_quote(&cmd, l->part);
    fy_str_puts(&cmd, " && { stat -f -c '%a %S' ");
    fy_adb_quote(&cmd, l->versions);
    fy_str_puts(&cmd, " || true; }");
    int rc = fy_phone_do(l->u->adb, &cmd, "make its directory there", &said, e);
    uint64_t space = rc == 0 ? fy_phone_parse_space(fy_str_z(&said)) : 0;
    if (rc == 0 && l->u->out->bytes > space)
        rc = fy_fail(e, FY_ENOSPACE,
                     "%s: needs %.1f MB, %.1f MB are free; remove files from the phone", l->base,
                     (double)l->u->out->bytes * 1e-6, (double)space * 1e-6);
    fy_str_release(&said);
    return rc;
}

/* `bytes` of c to the file rel. */
static int send_file(plain *l, fy_adb_sync *sync, const char *rel, uint32_t mode, uint64_t bytes,
                     content *c, fy_err *e)
{
    fy_adb_stat st;
    char *there = fy_path_format(e, "%s/%s", l->part, rel);
    int rc = there != NULL && fy_adb_sync_send(sync, there, S_IFREG | mode, 0, fill, c, e) == 0
                 ? fy_adb_sync_stat(sync, there, &st, e)
                 : -1;
    /* the older answer has 32 bits for the size */
    uint64_t mask = fy_adb_has(l->u->adb, "stat_v2") ? UINT64_MAX : UINT32_MAX;
    if (rc == 0 && (!S_ISREG(st.mode) || st.size != (bytes & mask)))
        rc = fy_fail(e, FY_EDEVICE, "%s: %llu bytes arrived, expected %llu", there,
                     (unsigned long long)st.size, (unsigned long long)bytes);
    free(there);
    return rc;
}

static int send_all(plain *l, fy_err *e)
{
    const fy_push_source *s = &l->u->source;
    const struct {
        const char *name;
        fy_span text;
    } unlisted[] = {{FY_MANIFEST_NAME, s->seal.manifest},
                    {FY_MANIFEST_SIG, s->seal.sig},
                    {FY_MANIFEST_KEY, s->seal.key}};
    fy_push_units units = {.source = s, .fd = -1};
    fy_adb_sync *sync = fy_adb_sync_open(l->u->adb, e);
    int rc = sync != NULL ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < s->m.n; i++) {
        const fy_manifest_entry *m = &s->m.entry[i];
        content c = {.u = l->u, .units = &units, .file = i, .n_units = fy_unit_count(m)};
        rc = send_file(l, sync, m->path, m->mode, m->bytes, &c, e);
    }
    for (size_t i = 0; rc == 0 && i < sizeof unlisted / sizeof unlisted[0]; i++) {
        content c = {.u = l->u, .left = unlisted[i].text};
        if (c.left.len > 0)
            rc = send_file(l, sync, unlisted[i].name, 0644, c.left.len, &c, e);
    }
    fy_adb_sync_close(sync);
    fy_push_units_release(&units);
    return rc;
}

/* "BASE/NAME", or a version's path, as one word of the phone's shell. */
static void put_path(fy_str *cmd, const char *dir, const char *name)
{
    char *path = fy_path_join(dir, name);
    fy_adb_quote(cmd, path != NULL ? path : "");
    cmd->oom |= path == NULL;
    free(path);
}

/* The new version under its name, the link switched; with prune the others removed. */
static int commit(plain *l, bool prune, fy_err *e)
{
    fy_str cmd = {0};
    const char *base = l->base, *versions = l->versions, *id = strrchr(l->final, '/') + 1;
    fy_str_puts(&cmd, "n=");
    put_path(&cmd, base, l->name);
    fy_str_puts(&cmd, "; f=");
    put_path(&cmd, versions, id);
    fy_str_puts(&cmd, "; sync; if [ -e \"$n\" ] && [ ! -L \"$n\" ]; then "
                      "echo \"$n is there already, and not a link that a push made\" >&2; false; "
                      "else rm -rf \"$f\" && mv \"$f" FY_STORE_PART "\" \"$f\" && ln -sfn ");
    put_path(&cmd, FY_STORE_VERSIONS, id);
    fy_str_puts(&cmd, " \"$n\"");
    if (prune) {
        fy_str_puts(&cmd, " && for o in ");
        put_path(&cmd, versions, l->name);
        fy_str_puts(&cmd, "-????????????; do [ \"$o\" = \"$f\" ] || rm -rf \"$o\"; done");
    }
    fy_str_puts(&cmd, "; fi");
    return fy_phone_do(l->u->adb, &cmd, "switch to the new version", NULL, e);
}

static int push_plain(push *u, fy_err *e)
{
    const char *path = u->out->path, *slash = strrchr(path, '/');
    char hex[FY_SHA256_HEX];
    plain l = {.u = u, .name = slash + 1};
    fy_sha256_to_hex(u->source.id, hex);
    l.base = fy_path_format(e, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (l.base != NULL)
        l.versions = fy_path_format(e, "%s/" FY_STORE_VERSIONS, l.base);
    if (l.versions != NULL)
        l.final = fy_path_format(e, "%s/%s-%.*s", l.versions, l.name, FY_STORE_ID_HEX, hex);
    if (l.final != NULL)
        l.part = fy_path_format(e, "%s" FY_STORE_PART, l.final);
    bool pushed = l.part != NULL && check_space(&l, e) == 0 && send_all(&l, e) == 0 &&
                  commit(&l, u->p->prune, e) == 0;
    free(l.base);
    free(l.versions);
    free(l.final);
    free(l.part);
    return pushed ? 0 : -1;
}

/* --- the job ---------------------------------------------------------------------------------- */

static int push_source(push *u, fy_err *e)
{
    const bool no_helper = u->p->no_helper;
    fy_err why = {0}, damaged = {0};
    if (check_begin(u, e) != 0)
        return -1;
    int rc = no_helper ? 0 : push_by_helper(u, &why, e);
    if (check_end(u, &damaged) != 0) {
        /* what is wrong with the workspace explains what the phone found in its bytes */
        if (rc >= 0 || e->code == FY_EVERIFY)
            *e = damaged;
        rc = -1;
    }
    if (rc == 0) {
        fy_log(no_helper ? FY_LOG_INFO : FY_LOG_WARN, "%s%s; every file is sent%s",
               no_helper ? "no helper" : "no helper on the phone: ", why.msg,
               no_helper ? ", and only their sizes are checked there" : "");
        rc = push_plain(u, e) == 0 ? 1 : -1;
    }
    if (rc == 1)
        log_signature(u);
    if (u->found.code == FY_OK)
        fy_verify_report_release(&u->report);
    return rc == 1 ? 0 : -1;
}

int fy_push(const fy_push_params *p, fy_progress *progress, fy_push_result *out, fy_err *e)
{
    push u = {.p = p, .progress = progress, .out = out};
    const fy_push_source *s = &u.source;
    *out = (fy_push_result){0};
    if (choose_path(p, out, e) != 0 || fy_push_source_open(&u.source, p->dir, e) != 0)
        return -1;
    if (progress != NULL)
        progress->total_bytes = s->bytes;
    out->files = s->m.n + 1 + (s->seal.sig.len > 0) + (s->seal.key.len > 0);
    out->bytes = s->bytes + s->text.len;
    int rc = check_signature(&u, e);
    if (rc == 0 && (u.adb = fy_adb_open(p->serial, e)) == NULL)
        rc = -1;
    if (rc == 0) {
        snprintf(out->serial, sizeof out->serial, "%s", fy_adb_serial(u.adb));
        rc = push_source(&u, e);
    }
    fy_adb_close(u.adb);
    fy_signature_release(&u.signature);
    fy_push_source_release(&u.source);
    return rc;
}

/* --- the verb --------------------------------------------------------------------------------- */

typedef struct {
    const char *serial, *to, *key;
    int64_t n_threads;
    bool require, prune, no_helper, json, quiet, verbose;
} options;

static const fy_opt opts[] = {
    FY_ROW_PHONE,
    FY_LINE_STR("Phone", "to", "PATH", to,
                "Where it will be on the phone; without it " FY_PHONE_DIR "/ and DIR's name."),
    FY_LINE_FLAG("Phone", "prune", prune, "Remove older versions from the phone."),
    FY_ANY_FLAG("Phone", "no-helper", no_helper,
                "Send every file, as adb push does, and run nothing on the phone but its shell."),
    FY_ROWS_TRUST,
    FY_ANY_FLAG("Output", "json", json, "What was done, as JSON."),
    FY_ROW_THREADS,
    FY_ROW_QUIET,
    FY_ROW_VERBOSE,
};

static int print_json(const fy_push_result *r, double seconds, fy_err *e)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:I, s:I, s:f, s:f}", "serial", r->serial, "path",
        r->path, "files", (json_int_t)r->files, "bytes", (json_int_t)r->bytes, "sent_bytes",
        (json_int_t)r->sent_bytes, "reused_bytes", (json_int_t)r->reused_bytes, "up_to_date",
        r->up_to_date, "helper", r->helper, "older_versions", (json_int_t)r->done.n_old,
        "older_bytes", (json_int_t)r->done.old_bytes, "seconds", seconds, "bytes_per_s",
        seconds > 0 ? (double)r->bytes / seconds : 0.0);
    return fy_json_print(root, 6, e);
}

static void report(const fy_push_result *r, double seconds)
{
    double mb = (double)r->bytes * 1e-6, sent = (double)r->sent_bytes * 1e-6;
    const fy_agent_done *d = &r->done;
    char phone[FY_QUOTE_BYTES];
    fy_quote(phone, sizeof phone, fy_span_of(r->serial));
    if (r->up_to_date)
        fy_log(FY_LOG_INFO, "%s on %s: up to date, %llu files, %.1f MB, checked there by hash",
               r->path, phone, (unsigned long long)r->files, mb);
    else
        fy_log(FY_LOG_INFO, "%s on %s: %llu files, %.1f MB, %s; sent %.1f MB in %.1f s, %.1f MB/s",
               r->path, phone, (unsigned long long)r->files, mb,
               r->helper ? "checked there by hash" : "checked there by size", sent, seconds,
               seconds > 0 ? sent / seconds : 0.0);
    if (d->n_pruned > 0)
        fy_log(FY_LOG_INFO, "%llu older version%s removed, %.1f MB",
               (unsigned long long)d->n_pruned, d->n_pruned > 1 ? "s" : "",
               (double)d->pruned_bytes * 1e-6);
    if (d->n_old > 0)
        fy_log(FY_LOG_INFO, "%llu older version%s kept there, %.1f MB; --prune removes %s",
               (unsigned long long)d->n_old, d->n_old > 1 ? "s" : "", (double)d->old_bytes * 1e-6,
               d->n_old > 1 ? "them" : "it");
}

static void say_next(const fy_push_result *r, const char *serial)
{
    fy_str command = {0};
    fy_str_puts(&command, "ferry chat --device");
    if (serial != NULL) {
        fy_str_putc(&command, '=');
        fy_str_put_word(&command, serial);
    }
    fy_str_puts(&command, " -d ");
    fy_str_put_word(&command, fy_path_base(r->path).ptr);
    fy_say_next(&command);
}

static int run_verb(void *opaque, int n_args, char **args, fy_err *e)
{
    const options *o = opaque;
    (void)n_args;
    fy_push_params p = {.dir = args[0],
                        .serial = o->serial,
                        .to = o->to,
                        .self = "/proc/self/exe",
                        .trust = {o->key, o->require},
                        .prune = o->prune,
                        .no_helper = o->no_helper,
                        .n_threads = o->n_threads == FY_OPT_UNSET_INT ? fy_default_threads()
                                                                      : (int)o->n_threads};
    fy_push_result r;
    fy_progress progress;
    double begin = fy_now_s();
    fy_show_begin(&progress, "pushing", 0);
    int rc = fy_push(&p, &progress, &r, e);
    fy_show_end(&progress);
    double seconds = fy_now_s() - begin;
    if (rc != 0)
        return rc;
    fy_known_add(args[0]);
    report(&r, seconds);
    say_next(&r, o->serial);
    return o->json ? print_json(&r, seconds, e) : 0;
}

const fy_verb fy_verb_push = {
    .name = "push",
    .summary = "put a workspace onto the phone, only what is not there",
    .synopsis = "DIR",
    .min_args = 1,
    .max_args = 1,
    .opts = opts,
    .n_opts = sizeof opts / sizeof opts[0],
    .opts_bytes = sizeof(options),
    .description =
        "Checks the signature, then starts the workspace's bin/ferry on the phone as helper. The "
        "helper looks for every file, and for every block of 4 MiB of large ones, in the versions "
        "on the phone; only the rest is sent. Each byte is compared with its hash before it is "
        "sent and again on the phone, the whole workspace is checked as 'ferry verify' does, and "
        "the new version replaces the old one in one step when both ends have found every byte "
        "right.\n\n"
        "An interrupted push is resumed by the next one. Free space is checked first (exit status "
        "6). Older versions are kept, and reported with their size, until --prune removes them.\n\n"
        "Where the helper cannot run every file is sent by plain sync, with a warning.",
    .examples = "ferry push workspace\n"
                "ferry push workspace --prune\n"
                "ferry push workspace -s R5CT60XXXXX --to /data/local/tmp/ferry/tales\n",
    .task = FY_TASK_PHONE,
    .environment = FY_ADB_ENVIRONMENT,
    .run = run_verb,
};
