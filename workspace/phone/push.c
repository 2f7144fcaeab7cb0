#include "workspace/phone/push.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/quote.h"
#include "bundle/agent_store.h"
#include "bundle/bundle.h"
#include "workspace/pack/device_exe.h"
#include "workspace/pack/digest.h"
#include "workspace/pack/workspace.h"

/* --- what is pushed --------------------------------------------------------------------------- */

/* Appends the file, which may be absent. */
static int take_small(const char *dir, const char *name, fy_str *text, size_t *n, fy_err *e)
{
    fy_map map;
    char *path = fy_path_join(dir, name);
    int rc = path != NULL ? 0 : fy_nomem(e);
    *n = 0;
    if (rc == 0 && fy_file_exists(path) && (rc = fy_map_open(&map, path, e)) == 0) {
        fy_str_add(text, map.data, map.size);
        *n = map.size;
        fy_map_close(&map);
    }
    free(path);
    return rc == 0 && text->oom ? fy_nomem(e) : rc;
}

int fy_push_source_open(fy_push_source *s, const char *dir, fy_err *e)
{
    *s = (fy_push_source){.dir = dir};
    if (fy_manifest_read(dir, &s->m, e) != 0)
        return -1;
    if (take_small(dir, FY_MANIFEST_NAME, &s->text, &s->manifest_bytes, e) != 0 ||
        fy_sha256_of(s->text.ptr, s->manifest_bytes, s->id, e) != 0 ||
        take_small(dir, FY_MANIFEST_SIG, &s->text, &s->sig_bytes, e) != 0 ||
        take_small(dir, FY_MANIFEST_KEY, &s->text, &s->key_bytes, e) != 0) {
        fy_push_source_release(s);
        return -1;
    }
    if (s->sig_bytes > FY_MANIFEST_SIG_BYTES || s->key_bytes > FY_MANIFEST_KEY_MAX) {
        fy_fail(e, FY_EVERIFY,
                "%s: " FY_MANIFEST_SIG " has %zu bytes and " FY_MANIFEST_KEY
                " %zu, expected at most %u and %u",
                dir, s->sig_bytes, s->key_bytes, FY_MANIFEST_SIG_BYTES, FY_MANIFEST_KEY_MAX);
        fy_push_source_release(s);
        return -1;
    }
    for (size_t i = 0; i < s->m.n; i++)
        s->bytes += s->m.entry[i].bytes;
    return 0;
}

void fy_push_source_release(fy_push_source *s)
{
    fy_manifest_release(&s->m);
    fy_str_release(&s->text);
    *s = (fy_push_source){0};
}

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

/* --- verification, while the phone gets ready ------------------------------------------------- */

typedef struct {
    const char *dir;
    const fy_trust *trust;
    int n_threads;
    pthread_t thread;
    bool running;
    _Atomic bool done;
    fy_verify_report report;
    fy_err err;
} checker;

static void *check(void *arg)
{
    checker *c = arg;
    fy_verify_trusted(c->dir, c->trust, c->n_threads, NULL, &c->report, &c->err);
    atomic_store(&c->done, true);
    return NULL;
}

static int check_begin(checker *c, fy_err *e)
{
    sigset_t all, before; /* signals stay with the thread that waits */
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int err = pthread_create(&c->thread, NULL, check, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    c->running = err == 0;
    return err == 0 ? 0 : fy_fail(e, FY_ENOMEM, "cannot start a thread: %s", strerror(err));
}

static void check_join(checker *c)
{
    if (c->running)
        pthread_join(c->thread, NULL);
    c->running = false;
}

static int check_result(const checker *c, fy_err *e)
{
    char shown[FY_QUOTE_BYTES], text[160];
    if (c->err.code != FY_OK)
        return fy_fail(e, c->err.code, "%s", c->err.msg);
    if (c->report.n == 0)
        return 0;
    const fy_finding *f = &c->report.finding[0];
    return fy_fail(e, FY_EVERIFY, "%s: %zu problem%s, first %s: %s; 'ferry verify' lists them",
                   c->dir, c->report.n, c->report.n > 1 ? "s" : "",
                   fy_quote(shown, sizeof shown, fy_span_of(f->path)),
                   fy_quote(text, sizeof text, fy_span_of(f->text)));
}

static void say_signature(const checker *c)
{
    fy_str words = {0};
    fy_signature_words(&c->report.signature, c->dir, &words);
    if (words.len > 0)
        fy_log(FY_LOG_INFO, "%s: %s", c->dir, words.ptr);
    fy_str_release(&words);
}

static int gate(void *user, fy_err *e)
{
    checker *c = user;
    if (!atomic_load(&c->done))
        return 0;
    return check_result(c, e) == 0 ? 1 : -1;
}

/* --- the helper ------------------------------------------------------------------------------- */

typedef struct {
    char *path; /* owned; here */
    fy_digest digest;
    char there[64 + FY_SHA256_HEX];
} helper;

static void helper_release(helper *h)
{
    free(h->path);
    fy_digest_release(&h->digest);
}

/* The workspace's own device build, else the one of this installation. 1: found; 0: *why. */
static int find_helper(const fy_push_params *p, const fy_push_source *s, helper *h, fy_err *why,
                       fy_err *e)
{
    const fy_manifest_entry *m = fy_manifest_find(&s->m, FY_BUNDLE_EXE);
    h->path = m != NULL ? fy_path_join(s->dir, m->path) : fy_device_exe(NULL, p->self, why);
    if (h->path == NULL)
        return m != NULL ? fy_nomem(e) : 0;
    if (fy_digest_file(h->path, -1, NULL, NULL, &h->digest, e) != 0)
        return -1;
    /* it runs on the phone before the rest of the workspace has been checked */
    if (m != NULL && fy_digest_compare(&h->digest, m, e) != 0)
        return fy_ctx(e, "%s", h->path);
    char hex[FY_SHA256_HEX];
    fy_sha256_to_hex(h->digest.sha256, hex);
    snprintf(h->there, sizeof h->there, FY_PHONE_AGENT "%.*s", FY_STORE_ID_HEX, hex);
    return 1;
}

static int count_sent(void *user, const void *p, size_t n, fy_err *e)
{
    (void)p;
    *(uint64_t *)user += n;
    return fy_check_interrupt(e);
}

/* Puts it as .part; starting it gives it its name. */
static int put_helper(const fy_adb *a, const helper *h, bool again, uint64_t *sent, fy_err *e)
{
    fy_adb_stat st;
    char part[sizeof h->there + sizeof FY_STORE_PART];
    snprintf(part, sizeof part, "%s" FY_STORE_PART, h->there);
    fy_adb_sync *sync = fy_adb_sync_open(a, e);
    if (sync == NULL)
        return -1;
    int rc = fy_adb_sync_stat(sync, h->there, &st, e);
    if (rc == 0 && (again || st.mode == 0 || st.size != h->digest.bytes)) {
        int fd = open(h->path, O_RDONLY | O_CLOEXEC);
        rc = fd < 0 ? fy_fail_errno(e, "%s: cannot open", h->path)
                    : fy_adb_sync_send(sync, fd, part, 0100755, 0, count_sent, sent, e);
        if (fd >= 0)
            close(fd);
    }
    fy_adb_sync_close(sync);
    return rc;
}

static int start_helper(const fy_adb *a, const helper *h, bool prune, fy_err *e)
{
    fy_str cmd = {0};
    fy_str_printf(&cmd, "p=%s; if [ -f $p.part ]; then chmod 755 $p.part; mv -f $p.part $p; fi; ",
                  h->there);
    if (prune)
        fy_str_puts(&cmd,
                    "for f in " FY_PHONE_AGENT "*; do [ \"$f\" = \"$p\" ] || rm -f \"$f\"; done; ");
    fy_str_puts(&cmd, "exec $p agent");
    int fd = cmd.oom ? fy_nomem(e) : fy_adb_exec(a, cmd.ptr, e);
    fy_str_release(&cmd);
    return fd;
}

/* Puts, starts and greets it, twice if it is not what was put. 1: *l talks to it; 0: *why; -1. */
static int reach_helper(const fy_adb *a, const helper *h, bool prune, fy_push_link *l,
                        fy_push_result *out, fy_err *why, fy_err *e)
{
    for (int tries = 0;; tries++) {
        fy_agent_hello hello;
        *why = (fy_err){0};
        if (put_helper(a, h, tries > 0, &out->sent_bytes, e) != 0)
            return -1;
        int fd = start_helper(a, h, prune, e);
        if (fd < 0)
            return -1;
        int rc = fy_push_greet(l, fd, &hello, why, e);
        if (rc == 1 && memcmp(hello.sha256, h->digest.sha256, sizeof hello.sha256) == 0)
            return 1;
        if (rc == 1)
            fy_fail(why, FY_EVERIFY, "%s is not what was put there", h->there);
        out->sent_bytes += l->sent_bytes;
        close(fd);
        fy_push_link_release(l);
        if (rc < 0 || tries > 0)
            return rc < 0 ? -1 : 0;
    }
}

/* 1: pushed; 0: there is no usable helper, *why; -1. */
static int push_by_helper(const fy_push_params *p, const fy_adb *a, const fy_push_source *s,
                          checker *c, fy_progress *progress, fy_push_result *out, fy_err *why,
                          fy_err *e)
{
    helper h = {0};
    fy_push_link l;
    int rc = find_helper(p, s, &h, why, e);
    if (rc == 1)
        rc = reach_helper(a, &h, p->prune, &l, out, why, e);
    if (rc == 1) {
        rc = fy_push_talk(&l, s, out->path, p->prune, gate, c, progress, &out->done, e) == 0 ? 1
                                                                                             : -1;
        out->sent_bytes += l.sent_bytes;
        close(l.fd);
        fy_push_link_release(&l);
    }
    out->helper = rc == 1;
    out->up_to_date = rc == 1 && out->done.up_to_date;
    out->reused_bytes = out->done.reused_bytes;
    helper_release(&h);
    return rc;
}

/* --- the job ---------------------------------------------------------------------------------- */

static int push_source(const fy_push_params *p, const fy_adb *a, const fy_push_source *s,
                       fy_progress *progress, fy_push_result *out, fy_err *e)
{
    checker c = {.dir = p->dir, .trust = &p->trust, .n_threads = p->n_threads};
    fy_err why = {0};
    if (check_begin(&c, e) != 0)
        return -1;
    int rc = p->no_helper ? 0 : push_by_helper(p, a, s, &c, progress, out, &why, e);
    check_join(&c);
    if (rc >= 0 && check_result(&c, e) != 0)
        rc = -1;
    if (rc == 0) {
        fy_log(p->no_helper ? FY_LOG_INFO : FY_LOG_WARN, "%s%s; every file is sent%s",
               p->no_helper ? "no helper" : "no helper on the phone: ", why.msg,
               p->no_helper ? ", and only their sizes are checked there" : "");
        rc = fy_push_plain(a, s, out->path, p->prune, progress, out, e) == 0 ? 1 : -1;
    }
    if (rc == 1)
        say_signature(&c);
    /* what is wrong with the workspace explains what the phone found in its bytes */
    if (rc < 0 && e->code == FY_EVERIFY) {
        fy_err own = {0};
        if (check_result(&c, &own) != 0)
            *e = own;
    }
    if (c.err.code == FY_OK)
        fy_verify_report_release(&c.report);
    return rc == 1 ? 0 : -1;
}

int fy_push(const fy_push_params *p, fy_progress *progress, fy_push_result *out, fy_err *e)
{
    fy_push_source s;
    *out = (fy_push_result){0};
    if (choose_path(p, out, e) != 0 || fy_push_source_open(&s, p->dir, e) != 0)
        return -1;
    if (progress != NULL)
        progress->total_bytes = s.bytes;
    out->files = s.m.n + 1 + (s.sig_bytes > 0) + (s.key_bytes > 0);
    out->bytes = s.bytes + s.text.len;
    fy_adb *a = fy_adb_open(p->serial, e);
    int rc = a != NULL ? 0 : -1;
    if (rc == 0) {
        snprintf(out->serial, sizeof out->serial, "%s", fy_adb_serial(a));
        rc = push_source(p, a, &s, progress, out, e);
    }
    fy_adb_close(a);
    fy_push_source_release(&s);
    return rc;
}
