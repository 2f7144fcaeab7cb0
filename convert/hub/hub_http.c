/* GET requests over libcurl's multi interface (hub_http.h). */
#include "hub/hub_http.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/log.h"
#include "base/process.h"
#include "base/str.h"

#define HOPS_MAX  8
#define POLL_MS   200 /* fy_interrupted is seen within */
#define BUFFER    (256L << 10)
#define PAGE_MAX  ((size_t)64 << 10)
#define PAUSE_S   0.25 /* the first one */
#define PAUSE_MAX 30
#define FLOOR_BPS 1000 /* bytes per second: an attempt that is slower over silence_s ends */
#define STALL_S   1    /* a turn of the loop that took longer was our own work (a flush, a hash) */

typedef enum { WAITING, RUNNING, DONE } state;

/* One job on its way. */
typedef struct {
    fy_http_job *job;
    struct run *run;
    state state;
    CURL *easy;               /* owned while RUNNING */
    char *url;                /* owned; where a redirect leads, NULL: the job's own */
    int hops;                 /* redirects followed in this attempt */
    int tries;                /* failed attempts since the last progress */
    double not_before, heard; /* when it may start; when the last byte came */
    double began, took;       /* when the attempt began; seconds of the last one that failed */
    double window;            /* when the present window of silence_s began */
    size_t in_window;         /* bytes that came in that window */
    uint64_t from, last_from;
    bool begun, headed; /* job->begin and job->from were called in this attempt */
    bool has_told;      /* job->told was */
    size_t skipped;     /* bytes of a page that is not read */
    char range[24], words[CURL_ERROR_SIZE];
} transfer;

typedef struct run {
    const fy_http_params *p;
    CURLM *multi;              /* owned */
    struct curl_slist *secret; /* owned; the token's header */
    CURLU *endpoint;           /* owned */
    transfer *list;            /* owned */
    size_t n;
    double checked; /* when the speeds were looked at last */
    fy_http_refusal *refusal;
    fy_err *e;
} run;

/* --- addresses -------------------------------------------------------------------------------- */

static bool same_part(CURLU *a, CURLU *b, CURLUPart part)
{
    char *x = NULL, *y = NULL;
    bool same = curl_url_get(a, part, &x, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                curl_url_get(b, part, &y, CURLU_DEFAULT_PORT) == CURLUE_OK && strcasecmp(x, y) == 0;
    curl_free(x);
    curl_free(y);
    return same;
}

/* Scheme, host and port are the endpoint's: only then may the token go there. */
static bool is_endpoint(const run *r, const char *url)
{
    CURLU *u = curl_url();
    bool same = u != NULL && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
                same_part(u, r->endpoint, CURLUPART_SCHEME) &&
                same_part(u, r->endpoint, CURLUPART_HOST) &&
                same_part(u, r->endpoint, CURLUPART_PORT);
    curl_url_cleanup(u);
    return same;
}

static const char *url_of(const transfer *t)
{
    return t->url != NULL ? t->url : t->job->url;
}

/* "scheme://host", for a message: what follows may be a signature. */
static const char *host_of(const transfer *t, char out[FY_QUOTE_BYTES])
{
    const char *url = url_of(t), *host = strstr(url, "://");
    size_t n = host != NULL ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
    return fy_quote(out, FY_QUOTE_BYTES, (fy_span){url, n});
}

/* --- replies ---------------------------------------------------------------------------------- */

static const char *header_of(CURL *easy, const char *name)
{
    struct curl_header *h;
    return curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK ? h->value : NULL;
}

static uint64_t number_of(const char *text)
{
    char *end;
    unsigned long long v =
        text != NULL && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    return text != NULL && *text >= '0' && *text <= '9' && (*end == '\0' || *end == ' ')
               ? v
               : UINT64_MAX;
}

/* W/"abc" -> abc */
static void copy_etag(const char *v, char *out, size_t size)
{
    if (v[0] == 'W' && v[1] == '/')
        v += 2;
    v += *v == '"';
    size_t n = strcspn(v, "\"");
    snprintf(out, size, "%.*s", n < size ? (int)n : 0, v);
}

/* What the endpoint says about a file; the host that it redirects to has headers of its own. */
static int tell(transfer *t)
{
    fy_http_told told = {.size = UINT64_MAX};
    const char *etag = header_of(t->easy, "X-Linked-Etag"),
               *size = header_of(t->easy, "X-Linked-Size");
    if (t->has_told || t->job->told == NULL || !is_endpoint(t->run, url_of(t)))
        return 0;
    if (etag == NULL)
        etag = header_of(t->easy, "ETag");
    if (etag != NULL)
        copy_etag(etag, told.hash, sizeof told.hash);
    told.size = number_of(size);
    curl_off_t length = -1;
    if (size == NULL && t->job->is_head &&
        curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length) == CURLE_OK &&
        length >= 0)
        told.size = (uint64_t)length;
    t->has_told = true;
    return t->job->told(t->job->user, &told, t->run->e) == 0
               ? 0
               : fy_ctx(t->run->e, "%s", t->job->name);
}

static long status_of(const transfer *t)
{
    long status = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* "bytes 100-199/200" -> 100 */
static uint64_t range_begin(const char *v)
{
    return v != NULL && strncasecmp(v, "bytes ", 6) == 0 ? strtoull(v + 6, NULL, 10) : UINT64_MAX;
}

/* Once per attempt, as soon as the reply's own bytes begin. */
static int begin_body(transfer *t)
{
    fy_err *e = t->run->e;
    t->headed = true;
    if (tell(t) != 0)
        return -1;
    uint64_t from = status_of(t) == 206 ? range_begin(header_of(t->easy, "Content-Range")) : 0;
    if (from != 0 && from != t->from)
        return fy_fail(e, FY_EIO,
                       "%s: asked for the bytes from %" PRIu64 " on, the server sent others",
                       t->job->name, t->from);
    return t->job->from == NULL || t->job->from(t->job->user, from, e) == 0
               ? 0
               : fy_ctx(e, "%s", t->job->name);
}

static size_t on_body(char *p, size_t size, size_t n, void *user)
{
    transfer *t = user;
    long status = status_of(t);
    (void)size; /* 1 */
    t->heard = fy_now_s();
    t->in_window += n;
    if (status != 200 && status != 206) { /* a page about an error or a redirect */
        t->skipped += n;
        return t->skipped > PAGE_MAX ? 0 : n;
    }
    if (!t->headed && begin_body(t) != 0)
        return 0;
    if (t->job->body(t->job->user, p, n, t->run->e) != 0) {
        fy_ctx(t->run->e, "%s", t->job->name);
        return 0;
    }
    return n;
}

/* --- attempts --------------------------------------------------------------------------------- */

static void set_options(transfer *t)
{
    const run *r = t->run;
    bool secure = strncasecmp(r->p->endpoint, "https:", 6) == 0;
    curl_easy_setopt(t->easy, CURLOPT_URL, url_of(t));
    curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, secure ? "https" : "http,https");
    curl_easy_setopt(t->easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(t->easy, CURLOPT_USERAGENT, "ferry/" FERRY_VERSION);
    /* a connection per request: shards come side by side, and one lost packet holds up one of them
     */
    curl_easy_setopt(t->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(t->easy, CURLOPT_BUFFERSIZE, BUFFER);
    curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT, (long)r->p->silence_s);
    curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->words);
    curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
    curl_easy_setopt(t->easy, CURLOPT_NOBODY, t->job->is_head ? 1L : 0L);
    if (t->from >
        0) { /* with CURLOPT_RESUME_FROM a server that sends all of it would be an error */
        snprintf(t->range, sizeof t->range, "%" PRIu64 "-", t->from);
        curl_easy_setopt(t->easy, CURLOPT_RANGE, t->range);
    }
    if (r->secret != NULL && is_endpoint(r, url_of(t))) {
        curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, r->secret);
        curl_easy_setopt(t->easy, CURLOPT_HEADEROPT,
                         (long)CURLHEADER_SEPARATE); /* not to a proxy */
    }
}

static void drop(transfer *t)
{
    if (t->easy == NULL)
        return;
    curl_multi_remove_handle(t->run->multi, t->easy);
    curl_easy_cleanup(t->easy);
    t->easy = NULL;
}

/* The next attempt begins at the job's own address. */
static void reset(transfer *t)
{
    drop(t);
    free(t->url);
    t->url = NULL;
    t->hops = 0;
    t->begun = false;
    t->state = WAITING;
}

/* `why` ended an attempt: another one follows after a pause, unless the attempts are used up.
 * wait_s: what the server asks for, 0: nothing. */
static int try_again(transfer *t, const char *why, double wait_s)
{
    char host[FY_QUOTE_BYTES];
    const run *r = t->run;
    host_of(t, host);
    if (t->tries >= r->p->retries)
        return fy_fail(r->e, FY_EIO, "%s: %s (%s), in %d attempts; run this again later to resume",
                       t->job->name, why, host, t->tries + 1);
    if (wait_s > FY_HTTP_WAIT_MAX_S)
        return fy_fail(r->e, FY_EIO, "%s: %s (%s); it asks to wait for %.0f s: run this again then",
                       t->job->name, why, host, wait_s);
    double pause = PAUSE_S * (double)(1u << (t->tries < 10 ? t->tries : 10));
    pause = pause > PAUSE_MAX ? PAUSE_MAX : pause;
    pause = wait_s > 0 ? wait_s : pause;
    t->tries++;
    t->took = fy_now_s() - t->began;
    reset(t);
    t->not_before = fy_now_s() + pause;
    fy_log(FY_LOG_INFO, "%s: %s (%s); attempt %d of %d in %.1f s", t->job->name, why, host,
           t->tries + 1, r->p->retries + 1, pause);
    return 0;
}

static int end(transfer *t)
{
    int rc = t->job->end != NULL ? t->job->end(t->job->user, t->run->e) : 0;
    if (rc < 0)
        return fy_ctx(t->run->e, "%s", t->job->name);
    if (rc == 1)
        return try_again(t, "not all of it came", 0);
    t->state = DONE;
    return 0;
}

static int start(transfer *t)
{
    fy_err *e = t->run->e;
    if (!t->begun) {
        t->begun = true;
        t->headed = t->has_told = false;
        t->from = 0;
        int rc = t->job->begin != NULL ? t->job->begin(t->job->user, &t->from, e) : 0;
        if (rc < 0)
            return fy_ctx(e, "%s", t->job->name);
        if (rc == 1)
            return end(t);
        if (t->from > t->last_from && (double)(t->from - t->last_from) >= FLOOR_BPS * t->took)
            t->tries = 0;
        t->began = fy_now_s();
        t->last_from = t->from;
    }
    t->easy = curl_easy_init();
    if (t->easy == NULL)
        return fy_nomem(e);
    t->words[0] = '\0';
    t->skipped = 0;
    set_options(t);
    t->state = RUNNING;
    t->heard = t->window = fy_now_s();
    t->in_window = 0;
    return curl_multi_add_handle(t->run->multi, t->easy) == CURLM_OK ? 0 : fy_nomem(e);
}

static int redirect(transfer *t)
{
    char *to = NULL;
    if (header_of(t->easy, "X-Linked-Etag") !=
        NULL) { /* else the hub says more where it leads to */
        if (tell(t) != 0)
            return -1;
        if (t->job->is_head) {
            t->state = DONE;
            return 0;
        }
    }
    curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &to);
    if (to == NULL)
        return fy_fail(t->run->e, FY_EIO, "%s: a redirect without an address", t->job->name);
    if (++t->hops > HOPS_MAX)
        return fy_fail(t->run->e, FY_EIO, "%s: more than %d redirects", t->job->name, HOPS_MAX);
    char *copy = strdup(to);
    drop(t);
    if (copy == NULL)
        return fy_nomem(t->run->e);
    free(t->url);
    t->url = copy;
    t->not_before = 0;
    t->state = WAITING;
    return 0;
}

static int refuse(transfer *t, long status)
{
    char host[FY_QUOTE_BYTES], q[FY_QUOTE_BYTES];
    fy_http_refusal *f = t->run->refusal;
    const char *code = header_of(t->easy, "X-Error-Code"),
               *words = header_of(t->easy, "X-Error-Message");
    *f = (fy_http_refusal){.status = status, .was_endpoint = is_endpoint(t->run, url_of(t))};
    snprintf(f->code, sizeof f->code, "%s", code != NULL ? code : "");
    return fy_fail(t->run->e, FY_EIO, "%s: HTTP status %ld of %s%s%s", t->job->name, status,
                   host_of(t, host), words != NULL ? ": " : "",
                   words != NULL ? fy_quote(q, sizeof q, fy_span_of(words)) : "");
}

static int judge(transfer *t, long status)
{
    if (status >= 300 && status < 400 && status != 304)
        return redirect(t);
    if (status == 200 && t->job->is_head) {
        t->state = DONE;
        return tell(t);
    }
    if (status == 200 || status == 206) {
        if (!t->headed && begin_body(t) != 0)
            return -1;
        return end(t);
    }
    /* a signed address has an end: the endpoint gives another one */
    bool expired = status == 403 && !is_endpoint(t->run, url_of(t));
    if (status == 408 || status == 429 || status == 416 || status >= 500 || expired) {
        char why[32];
        curl_off_t wait = 0;
        curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &wait);
        snprintf(why, sizeof why, "HTTP status %ld", status);
        return try_again(t, why, (double)wait);
    }
    return refuse(t, status);
}

/* May the same request succeed a moment later? Certificates, names of protocols and the like do not
 * change. */
static bool is_passing(CURLcode c)
{
    static const CURLcode codes[] = {
        CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY,
        CURLE_COULDNT_CONNECT,      CURLE_PARTIAL_FILE,
        CURLE_OPERATION_TIMEDOUT,   CURLE_SSL_CONNECT_ERROR,
        CURLE_GOT_NOTHING,          CURLE_SEND_ERROR,
        CURLE_RECV_ERROR,           CURLE_AGAIN,
        CURLE_WEIRD_SERVER_REPLY,
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i] == c)
            return true;
    }
    return false;
}

static int finish(transfer *t, CURLcode c)
{
    char words[CURL_ERROR_SIZE + 8];
    fy_err *e = t->run->e;
    if (e->code != FY_OK)
        return -1; /* of a callback */
    if (c == CURLE_OK || t->skipped > PAGE_MAX)
        return judge(t, status_of(t));
    snprintf(words, sizeof words, "%s", t->words[0] != '\0' ? t->words : curl_easy_strerror(c));
    if (is_passing(c))
        return try_again(t, words, 0);
    return fy_fail(e, FY_EIO, "%s: %s", t->job->name, words);
}

/* --- all of them ------------------------------------------------------------------------------ */

/* Starts what may start. *soon_ms: when the next one that waits may; *left: how many are not done.
 */
static int start_some(run *r, int *soon_ms, size_t *left)
{
    double now = fy_now_s();
    int running = 0;
    *left = 0;
    for (size_t i = 0; i < r->n; i++) {
        running += r->list[i].state == RUNNING;
        *left += r->list[i].state != DONE;
    }
    for (size_t i = 0; i < r->n && running < r->p->parallel; i++) {
        transfer *t = &r->list[i];
        if (t->state != WAITING)
            continue;
        if (t->not_before > now) {
            int ms = (int)((t->not_before - now) * 1000) + 1;
            *soon_ms = ms < *soon_ms ? ms : *soon_ms;
            continue;
        }
        if (start(t) != 0)
            return -1;
        running++;
    }
    return 0;
}

/* How many attempts have ended, -1: an error. */
static int collect(run *r)
{
    CURLMsg *m;
    int n, ended = 0;
    while ((m = curl_multi_info_read(r->multi, &n)) != NULL) {
        transfer *t = NULL;
        CURLcode c = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
        if (finish(t, c) != 0)
            return -1;
        if (t->state == DONE)
            drop(t);
        ended++;
    }
    return ended;
}

/* Ends attempts that fell silent, or in which bytes drip. libcurl's own limit
 * (CURLOPT_LOW_SPEED_TIME) notices silence seconds late, and counts our own pauses. */
static int end_slow(run *r)
{
    char why[64];
    const double now = fy_now_s(), pause = now - r->checked, most = r->p->silence_s;
    for (size_t i = 0; i < r->n; i++) {
        transfer *t = &r->list[i];
        if (t->state != RUNNING)
            continue;
        if (pause > STALL_S)
            t->window += pause;
        const bool silent = now - t->heard >= most, over = now - t->window >= most;
        if (silent)
            snprintf(why, sizeof why, "nothing came for %d s", r->p->silence_s);
        else if (over && (double)t->in_window < FLOOR_BPS * most)
            snprintf(why, sizeof why, "only %zu bytes came in %d s", t->in_window, r->p->silence_s);
        else if (over) {
            t->window = now;
            t->in_window = 0;
            continue;
        } else
            continue;
        if (try_again(t, why, 0) != 0)
            return -1;
    }
    r->checked = now;
    return 0;
}

static int run_all(run *r)
{
    r->checked = fy_now_s();
    for (;;) {
        int active, soon_ms = POLL_MS;
        size_t left;
        if (fy_check_interrupt(r->e) != 0 || start_some(r, &soon_ms, &left) != 0)
            return -1;
        if (left == 0)
            return 0;
        if (curl_multi_perform(r->multi, &active) != CURLM_OK)
            return fy_fail(r->e, FY_EIO, "libcurl failed");
        /* in this order: what has come while a file was synced or hashed is read before */
        int ended = end_slow(r) == 0 ? collect(r) : -1;
        if (ended < 0)
            return -1;
        /* after a redirect or the end of a request, the next one starts at once */
        if (curl_multi_poll(r->multi, NULL, 0, ended > 0 ? 0 : soon_ms, NULL) != CURLM_OK)
            return fy_fail(r->e, FY_EIO, "libcurl failed");
    }
}

static int prepare(run *r, fy_http_job *jobs)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return fy_nomem(r->e);
    r->multi = curl_multi_init();
    r->endpoint = curl_url();
    r->list = calloc(r->n > 0 ? r->n : 1, sizeof *r->list);
    if (r->multi == NULL || r->endpoint == NULL || r->list == NULL)
        return fy_nomem(r->e);
    if (curl_url_set(r->endpoint, CURLUPART_URL, r->p->endpoint, 0) != CURLUE_OK)
        return fy_fail(r->e, FY_EARG, "'%s' is not the address of a hub", r->p->endpoint);
    for (size_t i = 0; i < r->n; i++)
        r->list[i] = (transfer){.job = &jobs[i], .run = r};
    if (r->p->token == NULL)
        return 0;
    fy_str s = {0};
    fy_str_printf(&s, "Authorization: Bearer %s", r->p->token);
    r->secret = s.oom ? NULL : curl_slist_append(NULL, s.ptr);
    fy_str_release(&s);
    return r->secret != NULL ? 0 : fy_nomem(r->e);
}

int fy_http_run(const fy_http_params *p, fy_http_job *jobs, size_t n_jobs, fy_http_refusal *refusal,
                fy_err *e)
{
    fy_err own = {0};
    run r = {.p = p, .n = n_jobs, .refusal = refusal, .e = &own};
    *refusal = (fy_http_refusal){0};
    int rc = prepare(&r, jobs) == 0 ? run_all(&r) : -1;
    for (size_t i = 0; r.list != NULL && i < n_jobs; i++) {
        drop(&r.list[i]);
        free(r.list[i].url);
    }
    free(r.list);
    curl_slist_free_all(r.secret);
    curl_url_cleanup(r.endpoint);
    curl_multi_cleanup(r.multi);
    return rc == 0 ? 0 : fy_fail(e, own.code, "%s", own.msg);
}

void fy_http_library(fy_str *out)
{
    fy_str_printf(out, "libcurl %s\n", curl_version_info(CURLVERSION_NOW)->version);
}
