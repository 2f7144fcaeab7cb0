/* Downloads from the hub (hub_fetch.h): the environment's settings, the questions to the hub, one
 * job per file, and messages for its refusals. */
#include "hub/hub_fetch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/math.h"
#include "base/names.h"
#include "base/opts.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "hub/hub_cache.h"
#include "hub/hub_http.h"

#define TOKEN_BYTES_MAX 4096
#define SILENCE_S       30

/* --- the environment --------------------------------------------------------------------------
 *
 * The variables of huggingface_hub: HF_ENDPOINT, HF_TOKEN (else HUGGING_FACE_HUB_TOKEN, else the
 * file that 'hf auth login' writes: $HF_TOKEN_PATH, $HF_HOME/token), HF_HUB_OFFLINE,
 * HF_HUB_DOWNLOAD_TIMEOUT. The token never appears in a message. */

typedef struct {
    char *endpoint; /* owned; without a slash at its end */
    char *token;    /* owned; NULL: none */
    int silence_s;
} hub_env;

/* Not empty, or NULL. */
static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v != NULL && *v != '\0' ? v : NULL;
}

static bool is_true(const char *name)
{
    static const char *const words[] = {"1", "on", "yes", "true"};
    const char *v = variable(name);
    for (size_t i = 0; v != NULL && i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(v, words[i]) == 0)
            return true;
    }
    return false;
}

bool fy_hub_is_offline(void)
{
    return is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE");
}

/* Strips white space at both ends; NULL in *out when nothing is left. `source` is for the message.
 */
static int clean_token(const char *text, size_t n, const char *source, char **out, fy_err *e)
{
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
        n--;
    while (n > 0 && strchr(" \t\r\n", *text) != NULL) {
        text++;
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] <= ' ' || text[i] > '~')
            return fy_fail(
                e, FY_EARG,
                "%s: byte %zu cannot be part of a token; expected letters, digits and '_'", source,
                i + 1);
    }
    *out = n > 0 ? strndup(text, n) : NULL;
    return n > 0 && *out == NULL ? fy_nomem(e) : 0;
}

static int read_token_file(char **out, fy_err *e)
{
    const char *given = variable("HF_TOKEN_PATH");
    char *path = given != NULL ? strdup(given) : fy_hub_home("token", e);
    fy_map m;
    int rc = path != NULL ? 0 : fy_nomem(e);
    if (rc == 0 && fy_file_exists(path)) {
        rc = fy_map_open(&m, path, e);
        if (rc == 0) {
            rc = m.size > TOKEN_BYTES_MAX
                     ? fy_fail(e, FY_EFORMAT, "%s: %zu bytes, too many for a token", path, m.size)
                     : clean_token((const char *)m.data, m.size, path, out, e);
            fy_map_close(&m);
        }
    }
    free(path);
    return rc;
}

static int read_token(char **out, fy_err *e)
{
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *v = variable(names[i]);
        if (v != NULL)
            return clean_token(v, strlen(v), names[i], out, e);
    }
    return is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN") ? 0 : read_token_file(out, e);
}

static int read_endpoint(char **out, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    const char *v = variable("HF_ENDPOINT");
    if (v == NULL)
        v = "https://huggingface.co";
    size_t n = strlen(v);
    while (n > 0 && v[n - 1] == '/')
        n--;
    if (strncasecmp(v, "https://", 8) != 0 && strncasecmp(v, "http://", 7) != 0)
        return fy_fail(e, FY_EARG, "HF_ENDPOINT: '%s', expected https://HOST",
                       fy_quote(q, sizeof q, fy_span_of(v)));
    if (memchr(v, '@', n) != NULL)
        return fy_fail(e, FY_EARG, "HF_ENDPOINT: expected https://HOST, without a user's name");
    *out = strndup(v, n);
    return *out != NULL ? 0 : fy_nomem(e);
}

static void env_release(hub_env *v)
{
    free(v->endpoint);
    if (v->token != NULL)
        explicit_bzero(v->token, strlen(v->token));
    free(v->token);
    *v = (hub_env){0};
}

static int env_read(hub_env *out, fy_err *e)
{
    hub_env v = {.silence_s = SILENCE_S};
    const char *timeout = variable("HF_HUB_DOWNLOAD_TIMEOUT");
    int64_t s;
    int rc = 0;
    if (timeout != NULL) {
        if (!fy_parse_size(timeout, &s) || s < 1 || s > 3600)
            rc = fy_fail(e, FY_EARG, "HF_HUB_DOWNLOAD_TIMEOUT: expected 1 to 3600 seconds");
        else
            v.silence_s = (int)s;
    }
    if (rc != 0 || read_endpoint(&v.endpoint, e) != 0 || read_token(&v.token, e) != 0) {
        env_release(&v);
        return -1;
    }
    *out = v;
    return 0;
}

/* --- addresses -------------------------------------------------------------------------------- */

/* RFC 3986: encodes all but the unreserved characters; '/' stays in a path of files, but not in a
 * revision. */
static void put_encoded(fy_str *s, const char *text, bool keep_slash)
{
    for (const char *p = text; *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || strchr("-._~", *p) != NULL ||
                     (keep_slash && *p == '/');
        fy_str_printf(s, plain ? "%c" : "%%%02X", (unsigned char)*p);
    }
}

static const char *revision_of(const fy_hub_want *w)
{
    return w->ref.revision[0] != '\0' ? w->ref.revision : "main";
}

/* Of file `name` of the commit; without a commit, the question about revision `name`. NULL on
 * failure. */
static char *url_of(const hub_env *v, const fy_hub_want *w, const char *commit, const char *name,
                    fy_err *e)
{
    fy_str s = {0};
    if (commit != NULL)
        fy_str_printf(&s, "%s/%s/resolve/%s/", v->endpoint, w->ref.id, commit);
    else
        fy_str_printf(&s, "%s/api/models/%s/revision/", v->endpoint, w->ref.id);
    put_encoded(&s, name, commit != NULL);
    fy_str_puts(&s, commit != NULL ? "" : "?blobs=true");
    if (s.oom) {
        fy_str_release(&s);
        fy_nomem(e);
    }
    return s.ptr;
}

/* What a refusal means, and what to do. */
static int explain(const hub_env *v, const fy_hub_want *w, const fy_http_refusal *r,
                   const fy_err *why, fy_err *e)
{
    const char *id = w->ref.id;
    bool ask = r->status == 401 || r->status == 403;
    if (r->was_endpoint && strcmp(r->code, "RevisionNotFound") == 0)
        return fy_fail(e, FY_EIO, "%s has no revision '%s' at %s", id, revision_of(w), v->endpoint);
    if (r->was_endpoint && r->status == 404 && strcmp(r->code, "EntryNotFound") != 0)
        return fy_fail(e, FY_EIO, "%s, revision '%s', is not at %s (HTTP status 404)", id,
                       revision_of(w), v->endpoint);
    if (r->was_endpoint && ask && strcmp(r->code, "GatedRepo") == 0)
        return fy_fail(e, FY_EIO, "%s is gated: accept its licence at %s/%s%s (HTTP status %ld)",
                       id, v->endpoint, id,
                       v->token != NULL ? " with the account of the token"
                                        : ", then set HF_TOKEN to a token of that account",
                       r->status);
    if (r->was_endpoint && ask)
        return fy_fail(
            e, FY_EIO,
            v->token != NULL
                ? "%s does not exist, or the token may not read it (HTTP status %ld of %s)"
                : "%s does not exist, or is private: set HF_TOKEN to a token that may read it "
                  "(HTTP status %ld of %s)",
            id, r->status, v->endpoint);
    return fy_fail(e, why->code, "%s: %s", id, why->msg);
}

static int run_jobs(const hub_env *v, const fy_hub_want *w, fy_http_job *jobs, size_t n, fy_err *e)
{
    const fy_http_params p = {.endpoint = v->endpoint,
                              .token = v->token,
                              .parallel = w->parallel,
                              .retries = w->retries,
                              .silence_s = v->silence_s};
    fy_http_refusal refusal;
    fy_err own = {0};
    if (fy_http_run(&p, jobs, n, &refusal, &own) == 0)
        return 0;
    return explain(v, w, &refusal, &own, e);
}

/* --- the list --------------------------------------------------------------------------------- */

static int reply_begin(void *user, uint64_t *from, fy_err *e)
{
    (void)e;
    fy_str_clear(user);
    *from = 0;
    return 0;
}

static int reply_add(void *user, const void *p, size_t n, fy_err *e)
{
    fy_str *s = user;
    if (n > FY_HUB_REPLY_MAX - s->len)
        return fy_fail(e, FY_EFORMAT, "more than %zu bytes", FY_HUB_REPLY_MAX);
    fy_str_add(s, p, n);
    return s->oom ? fy_nomem(e) : 0;
}

static int ask_list(const hub_env *v, const fy_hub_want *w, fy_hub_list *out, fy_err *e)
{
    fy_str reply = {0};
    fy_http_job job = {.url = url_of(v, w, NULL, revision_of(w), e),
                       .name = "the list of files",
                       .user = &reply,
                       .begin = reply_begin,
                       .body = reply_add};
    int rc = job.url != NULL ? run_jobs(v, w, &job, 1, e) : -1;
    if (rc == 0)
        rc = fy_hub_list_read(fy_str_z(&reply), reply.len, out, e);
    if (rc == 0 && fy_hub_is_hash(revision_of(w), strlen(revision_of(w))) &&
        strcmp(revision_of(w), out->commit) != 0) {
        rc = fy_fail(e, FY_EVERIFY, "%s: asked for the commit %s, the hub reports %s", w->ref.id,
                     revision_of(w), out->commit);
        fy_hub_list_release(out);
    }
    fy_str_release(&reply);
    free(job.url);
    return rc;
}

/* --- files that the list describes too briefly ------------------------------------------------ */

static int file_is_told(void *user, const fy_http_told *h, fy_err *e)
{
    fy_hub_file *f = user;
    if (!fy_hub_is_hash(h->hash, strlen(h->hash)) || h->size == UINT64_MAX)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the hub reports no hash or no size, so it could not be checked");
    memcpy(f->hash, h->hash, strlen(h->hash) + 1);
    f->size = h->size;
    return 0;
}

static void free_jobs(fy_http_job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(jobs[i].url);
    free(jobs);
}

static int ask_files(const hub_env *v, const fy_hub_want *w, fy_hub_list *l, fy_err *e)
{
    fy_http_job *jobs = calloc(l->n + 1, sizeof *jobs);
    size_t n = 0;
    int rc = jobs != NULL ? 0 : fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < l->n; i++) {
        fy_hub_file *f = &l->files[i];
        if (!f->wanted || f->hash[0] != '\0')
            continue;
        jobs[n] = (fy_http_job){.url = url_of(v, w, l->commit, f->name, e),
                                .name = f->shown,
                                .user = f,
                                .told = file_is_told,
                                .is_head = true};
        rc = jobs[n++].url != NULL ? 0 : -1;
    }
    if (rc == 0 && n > 0)
        rc = run_jobs(v, w, jobs, n, e);
    free_jobs(jobs, n);
    return rc;
}

static int count(fy_hub_got *g, fy_err *e)
{
    for (size_t i = 0; i < g->list.n; i++) {
        const fy_hub_file *f = &g->list.files[i];
        if (!f->wanted)
            continue;
        g->n_wanted++;
        if (!fy_add_u64(g->bytes, f->size, &g->bytes) || g->bytes > INT64_MAX)
            return fy_fail(e, FY_EFORMAT, "%s: %" PRIu64 " bytes, which no disk has", f->shown,
                           f->size);
        if (fy_hub_blob_is_there(g->storage, f->hash, f->size))
            continue;
        uint64_t part = fy_hub_blob_partial(g->storage, f->hash);
        g->to_bring += f->size - (part < f->size ? part : f->size);
    }
    return 0;
}

/* --- several types ---------------------------------------------------------------------------- */

static void put_models(const char *id, const fy_gguf_variants *l, fy_str *s)
{
    fy_str_printf(s, "%s has several types:\n", id);
    for (size_t i = 0; i < l->n; i++) {
        const fy_gguf_variant *v = &l->v[i];
        fy_str_printf(s, "%4zu  %-12s %9.1f MB  ", i + 1, v->name.label, (double)v->bytes * 1e-6);
        fy_str_put_quoted(s, fy_span_of(v->first), 100);
        fy_str_puts(s, v->runs ? "\n" : " (ferry cannot run it)\n");
    }
}

/* A number of the list, or a type; empty: the default, if there is one. */
static const fy_gguf_variant *find_answer(const char *answer, const fy_gguf_variants *l,
                                          const fy_gguf_variant *preset, fy_err *e)
{
    int64_t n;
    if (answer[0] == '\0' && preset != NULL)
        return preset;
    if (fy_parse_size(answer, &n) && n >= 1 && (uint64_t)n <= l->n)
        return &l->v[n - 1];
    return answer[0] != '\0' ? fy_gguf_variants_choose(l, answer, e) : NULL;
}

static int ask_type(const char *id, const fy_gguf_variants *l, const fy_gguf_variant **chosen,
                    fy_err *e)
{
    const fy_gguf_variant *preset = *chosen;
    char question[FY_GGUF_LABEL_BYTES + 32], answer[80];
    fy_str s = {0};
    put_models(id, l, &s);
    int rc = s.oom ? fy_nomem(e) : fy_stderr(fy_str_z(&s), s.len, e);
    fy_str_release(&s);
    snprintf(question, sizeof question, preset != NULL ? "which one [%s]? " : "which one? ",
             preset != NULL ? preset->name.label : "");
    for (*chosen = NULL; rc == 0 && *chosen == NULL;) {
        fy_err why = {0};
        rc = fy_ask(question, answer, sizeof answer, e);
        if (rc == 0)
            *chosen = find_answer(answer, l, preset, &why);
        if (rc == 0 && *chosen == NULL)
            fy_log(FY_LOG_INFO, "%s", why.code != FY_OK ? why.msg : "expected a number or a type");
    }
    return rc;
}

static int choose(const fy_hub_want *w, fy_hub_list *l, fy_err *e)
{
    const bool may_ask = fy_may_ask();
    const fy_hub_choice c = {.id = w->ref.id,
                             .include = &w->include,
                             .exclude = &w->exclude,
                             .kind = w->kind,
                             .type = w->ref.type,
                             .ask = may_ask ? ask_type : NULL};
    if (w->ref.type[0] != '\0' && w->include.n > 0)
        return fy_fail(e, FY_EARG, "give a type (:%s) or --include, not both", w->ref.type);
    if (fy_hub_list_choose(l, &c, e) != 0)
        return -1;
    const char *label = l->model.name.label;
    if (l->model.first != NULL && !l->model.runs) {
        if (w->kind == FY_HUB_GGUF)
            return fy_fail(e, FY_EUNSUPPORTED, "ferry cannot run %s yet; nothing is downloaded",
                           label);
        fy_log(FY_LOG_WARN, "ferry cannot run %s yet", label);
    } else if (l->model.first != NULL && l->n_models > 1 && c.type[0] == '\0' && !may_ask) {
        fy_log(FY_LOG_INFO, "%s: %s of %zu types (%s:TYPE takes another)", w->ref.id, label,
               l->n_models, w->ref.id);
    }
    return 0;
}

int fy_hub_ask(const fy_hub_want *want, fy_hub_got *got, fy_err *e)
{
    hub_env v;
    fy_hub_got g = {0};
    if (env_read(&v, e) != 0)
        return -1;
    int rc = ask_list(&v, want, &g.list, e);
    if (rc == 0 && (choose(want, &g.list, e) != 0 || ask_files(&v, want, &g.list, e) != 0))
        rc = fy_ctx(e, "%s", want->ref.id);
    if (rc == 0) {
        g.storage = fy_hub_storage(&want->ref, e);
        rc = g.storage != NULL ? count(&g, e) : -1;
    }
    if (rc == 0) {
        g.snapshot = fy_path_format(e, "%s/snapshots/%s", g.storage, g.list.commit);
        rc = g.snapshot != NULL ? 0 : -1;
    }
    env_release(&v);
    if (rc != 0) {
        fy_hub_got_release(&g);
        return -1;
    }
    *got = g;
    return 0;
}

char *fy_hub_got_path(const fy_hub_got *got, fy_err *e)
{
    const char *file = got->list.model.first;
    return fy_path_format(e, "%s%s%s", got->snapshot, file != NULL ? "/" : "",
                          file != NULL ? file : "");
}

void fy_hub_got_release(fy_hub_got *got)
{
    fy_hub_list_release(&got->list);
    free(got->storage);
    free(got->snapshot);
    *got = (fy_hub_got){0};
}

/* --- downloads -------------------------------------------------------------------------------- */

/* One blob on its way. */
typedef struct {
    const fy_hub_file *f;
    const char *storage;
    fy_hub_blob *blob; /* owned */
    fy_progress *progress;
    bool is_continued; /* bytes of more than one attempt: a wrong hash may be an old one's fault */
} download;

static int file_begin(void *user, uint64_t *from, fy_err *e)
{
    download *d = user;
    if (d->blob == NULL) {
        d->blob = fy_hub_blob_open(d->storage, d->f->hash, d->f->size, e);
        if (d->blob == NULL)
            return -1;
        fy_progress_add(d->progress, fy_hub_blob_bytes(d->blob));
    }
    *from = fy_hub_blob_bytes(d->blob);
    d->is_continued |= *from > 0;
    return *from == d->f->size;
}

static int file_restart(download *d, fy_err *e)
{
    atomic_fetch_sub(&d->progress->done_bytes, fy_hub_blob_bytes(d->blob));
    d->is_continued = false;
    return fy_hub_blob_restart(d->blob, e);
}

static int file_told(void *user, const fy_http_told *h, fy_err *e)
{
    download *d = user;
    if (strlen(h->hash) == strlen(d->f->hash) && fy_hub_is_hash(h->hash, strlen(h->hash)) &&
        strcmp(h->hash, d->f->hash) != 0)
        return fy_fail(e, FY_EVERIFY,
                       "the hub's list has %s %s, its reply %s; nothing is downloaded",
                       strlen(h->hash) == 64 ? "SHA-256" : "git hash", d->f->hash, h->hash);
    return 0;
}

static int file_from(void *user, uint64_t from, fy_err *e)
{
    download *d = user;
    if (from == 0 && fy_hub_blob_bytes(d->blob) > 0)
        return file_restart(d, e); /* the server sends all of it */
    return 0;
}

static int file_body(void *user, const void *p, size_t n, fy_err *e)
{
    download *d = user;
    if (fy_hub_blob_add(d->blob, p, n, e) != 0) {
        if (e->code == FY_EFORMAT)
            fy_hub_blob_restart(d->blob, NULL);
        return -1;
    }
    fy_progress_add(d->progress, n);
    return 0;
}

static int file_end(void *user, fy_err *e)
{
    download *d = user;
    char hex[FY_HUB_HASH_BYTES];
    uint64_t bytes = fy_hub_blob_bytes(d->blob);
    if (bytes < d->f->size)
        return 1;
    int rc = fy_hub_blob_end(d->blob, hex, e);
    if (rc == 0) {
        fy_hub_blob_close(d->blob);
        d->blob = NULL;
        return 0;
    }
    if (rc == 1 && d->is_continued) {
        fy_log(FY_LOG_WARN, "%s: what was there did not belong to it; starting over", d->f->shown);
        atomic_fetch_sub(&d->progress->done_bytes, bytes);
        d->is_continued = false;
        return 1;
    }
    return rc < 0
               ? -1
               : fy_fail(e, FY_EVERIFY,
                         "%s %s of what came is not %s, which the hub announced; it is thrown away",
                         strlen(hex) == 64 ? "SHA-256" : "git hash", hex, d->f->hash);
}

/* One download per blob: two files may have the same contents. */
static int list_downloads(const hub_env *v, const fy_hub_want *w, const fy_hub_got *g,
                          fy_progress *progress, download *d, fy_http_job *jobs, size_t *n,
                          fy_err *e)
{
    fy_names seen = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->list.n; i++) {
        const fy_hub_file *f = &g->list.files[i];
        if (!f->wanted || fy_hub_blob_is_there(g->storage, f->hash, f->size))
            continue;
        int added = fy_names_add(&seen, fy_span_of(f->hash), 0);
        if (added == 1)
            continue;
        d[*n] = (download){.f = f, .storage = g->storage, .progress = progress};
        jobs[*n] = (fy_http_job){.url = url_of(v, w, g->list.commit, f->name, e),
                                 .name = f->shown,
                                 .user = &d[*n],
                                 .begin = file_begin,
                                 .told = file_told,
                                 .from = file_from,
                                 .body = file_body,
                                 .end = file_end};
        rc = added < 0 ? fy_nomem(e) : jobs[*n].url == NULL ? -1 : 0;
        *n += 1;
    }
    fy_names_release(&seen);
    return rc;
}

static int bring_blobs(const hub_env *v, const fy_hub_want *w, fy_hub_got *g, fy_err *e)
{
    download *d = calloc(g->n_wanted + 1, sizeof *d);
    fy_http_job *jobs = calloc(g->n_wanted + 1, sizeof *jobs);
    fy_progress progress;
    uint64_t total = 0;
    size_t n = 0;
    int rc = d != NULL && jobs != NULL ? list_downloads(v, w, g, &progress, d, jobs, &n, e)
                                       : fy_nomem(e);
    for (size_t i = 0; i < n; i++)
        total += d[i].f->size; /* a part of g->bytes */
    fy_show_begin(&progress, "fetching", total);
    if (rc == 0 && n > 0)
        rc = run_jobs(v, w, jobs, n, e);
    fy_show_end(&progress);
    for (size_t i = 0; i < n; i++)
        fy_hub_blob_close(d[i].blob);
    free_jobs(jobs, n);
    free(d);
    return rc;
}

static int check_space(const fy_hub_got *g, fy_err *e)
{
    uint64_t space;
    if (fy_file_space(g->storage, &space, e) != 0)
        return -1;
    if (g->to_bring <= space)
        return 0;
    return fy_fail(
        e, FY_ENOSPACE,
        "%s: %.1f MB are free and %.1f MB are to be downloaded; HF_HUB_CACHE names another place",
        g->storage, (double)space * 1e-6, (double)g->to_bring * 1e-6);
}

static uint64_t kept_bytes(const fy_hub_got *g)
{
    uint64_t n = 0;
    for (size_t i = 0; i < g->list.n; i++) {
        const fy_hub_file *f = &g->list.files[i];
        if (f->wanted)
            n += fy_hub_blob_is_there(g->storage, f->hash, f->size)
                     ? f->size
                     : fy_hub_blob_partial(g->storage, f->hash);
    }
    return n;
}

int fy_hub_bring(const fy_hub_want *want, fy_hub_got *got, fy_err *e)
{
    hub_env v;
    fy_err own = {0};
    if (env_read(&v, e) != 0)
        return -1;
    int rc = fy_mkdirs(got->storage, &own) != 0 || check_space(got, &own) != 0 ||
                     bring_blobs(&v, want, got, &own) != 0
                 ? -1
                 : 0;
    for (size_t i = 0; rc == 0 && i < got->list.n; i++) {
        const fy_hub_file *f = &got->list.files[i];
        if (f->wanted)
            rc = fy_hub_link(got->storage, got->list.commit, f->name, f->hash, &own);
    }
    if (rc == 0)
        rc = fy_hub_write_ref(got->storage, revision_of(want), got->list.commit, &own);
    env_release(&v);
    if (rc == 0)
        return 0;
    if (own.code == FY_EINTR)
        return fy_fail(e, FY_EINTR,
                       "interrupted: %.1f of %.1f MB are there; the same command resumes",
                       (double)kept_bytes(got) * 1e-6, (double)got->bytes * 1e-6);
    return fy_fail(e, own.code, "%s", own.msg);
}
