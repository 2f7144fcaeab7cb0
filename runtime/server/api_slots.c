/* POST /slots/N?action=save|restore|erase: what a slot holds to a file of --slot-save-path and
 * back, in the form of prompt caches (model/prompt_cache.h).
 *
 * The engine never waits for a file. It keeps the slot free (fy_schedule_hold), and a worker reads
 * or writes the rows of that sequence where they lie, while other sequences are computed: no step
 * touches them, and there is no copy. One slot at a time is held, so one worker stays for other
 * requests. A slot that is busy is waited for; what is asked of it later waits for the hold.
 *
 * With API keys every key has a directory of its own, so that nobody restores, or finds by its
 * cached_tokens, what another one asked. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/process.h"
#include "model/prompt_cache.h"
#include "server/api.h"
#include "server/ask_read.h"
#include "server/reply_text.h"

enum { NAME_MAX_BYTES = 200, PATH_BYTES = NAME_MAX_BYTES + 64 };

typedef struct {
    fy_slot_hold hold; /* first: a hold is its job */
    fy_exchange *x;
    char name[NAME_MAX_BYTES + 1];
    double begun_s;
    fy_prompt_cache
        *cache;     /* owned; of the file that is restored, checked before the slot is held */
    uint64_t bytes; /* of it */
} job;

static void free_job(job *j)
{
    fy_prompt_cache_close(j->cache);
    free(j);
}

/* --- files ------------------------------------------------------------------------------------ */

static bool is_name(fy_span s)
{
    if (s.len == 0 || s.len > NAME_MAX_BYTES || s.ptr[0] == '.' || fy_span_ends(s, ".part") ||
        !fy_utf8_valid(s.ptr, s.len))
        return false;
    for (size_t i = 0; i < s.len; i++) {
        const unsigned char c = (unsigned char)s.ptr[i];
        if (c < ' ' || c == 0x7F || c == '/' || c == '\\')
            return false;
    }
    return true;
}

/* The directory of the request's key; -1 with *e. */
static int open_dir(const fy_exchange *x, fy_err *e)
{
    const fy_server_options *o = x->server->o;
    const int dir = open(o->slot_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint8_t hash[FY_SHA256_BYTES];
    char name[FY_SHA256_HEX];
    if (dir < 0 || o->n_keys == 0)
        return dir >= 0 ? dir : fy_fail_errno(e, "--slot-save-path");
    int own = -1;
    if (fy_sha256_of(o->keys[x->user].digest, sizeof o->keys[0].digest, hash, e) == 0) {
        fy_sha256_to_hex(hash,
                         name); /* not the digest itself, by which a weak key could be tried */
        name[16] = '\0';
        if (mkdirat(dir, name, 0700) == 0 || errno == EEXIST)
            own = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (own < 0)
            fy_fail_errno(e, "the key's directory");
    }
    close(dir);
    return own;
}

/* Messages go to clients, who learn no paths. */
static void forget_path(fy_err *e, const char *path)
{
    const size_t n = strlen(path);
    const char *found = strstr(e->msg, path);
    if (found != NULL) {
        const size_t at = (size_t)(found - e->msg);
        memmove(e->msg + at, e->msg + at + n, strlen(e->msg + at + n) + 1);
    }
}

static int save(job *j, uint64_t *bytes, fy_err *e)
{
    const fy_served *v = &j->x->server->served;
    char dir_path[32], path[PATH_BYTES];
    struct stat st;
    const int dir = open_dir(j->x, e);
    if (dir < 0)
        return -1;
    snprintf(dir_path, sizeof dir_path, "/proc/self/fd/%d/", dir);
    snprintf(path, sizeof path, "%s%s", dir_path, j->name);
    int rc = fy_prompt_cache_write(path, v->session, j->hold.slot, j->hold.ids, j->hold.n_ids, e);
    if (rc == 0 && fstatat(dir, j->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        *bytes = (uint64_t)st.st_size;
    if (rc != 0)
        forget_path(e, dir_path);
    close(dir);
    return rc;
}

/* 1: there is no such file. */
static int open_file(const job *j, int *fd, uint64_t *bytes, fy_err *e)
{
    struct stat st;
    const int dir = open_dir(j->x, e);
    if (dir < 0)
        return -1;
    *fd = openat(dir, j->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const int why = errno;
    close(dir);
    if (*fd < 0 && why == ENOENT)
        return 1;
    if (*fd < 0)
        return fy_fail(e, FY_EARG, "%s", why == ELOOP ? "is a symbolic link" : strerror(why));
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(*fd);
        return fy_fail(e, FY_EARG, "is not a regular file");
    }
    *bytes = (uint64_t)st.st_size;
    return 0;
}

static int check_file(job *j, const char *path, fy_err *e)
{
    const fy_served *v = &j->x->server->served;
    uint32_t n = 0;
    j->cache = fy_prompt_cache_open(path, v->session, e);
    if (j->cache == NULL)
        return -1;
    const int32_t *id = fy_prompt_cache_ids(j->cache, &n);
    if (n > v->n_ctx)
        return fy_fail(e, FY_EFIT, "holds %u tokens, a slot has room for %u (-c)", n, v->n_ctx);
    for (uint32_t i = 0; i < n; i++) {
        if ((uint32_t)id[i] >= v->n_vocab)
            return fy_fail(e, FY_EFORMAT, "token %u is %d, the vocabulary has %u", i, id[i],
                           v->n_vocab);
    }
    return 0;
}

/* Whatever is wrong with a file is found before the slot loses what it holds. 1: there is no such
 * file. */
static int prepare_restore(job *j, fy_err *e)
{
    char path[32], prefix[40], shown[FY_QUOTE_BYTES];
    int fd;
    int rc = open_file(j, &fd, &j->bytes, e);
    if (rc == 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        snprintf(prefix, sizeof prefix, "%s: ", path);
        rc = check_file(j, path, e);
        forget_path(e, prefix);
        close(fd);
    }
    return rc >= 0 ? rc : fy_ctx(e, "%s", fy_quote(shown, sizeof shown, fy_span_of(j->name)));
}

/* --- answers ---------------------------------------------------------------------------------- */

static void reply_done(job *j, const char *what, uint32_t n, const char *moved, uint64_t bytes,
                       const char *took)
{
    fy_str out = {0};
    fy_str_printf(&out, "{\"id_slot\":%u,", j->hold.slot);
    fy_put_span(&out, "filename", fy_span_of(j->name));
    fy_str_printf(&out, ",\"%s\":%u,\"%s\":%llu,\"timings\":{\"%s\":%.3f}}", what, n, moved,
                  (unsigned long long)bytes, took, (fy_now_s() - j->begun_s) * 1e3);
    fy_reply_json(j->x, 200, &out);
}

static void reply_failed(job *j, fy_err *e)
{
    fy_log(FY_LOG_WARN, "slot %u: %s", j->hold.slot, e->msg);
    fy_reply_failure(j->x, "filename", e);
}

static void finish_save(job *j)
{
    fy_err e = {0};
    uint64_t bytes = 0;
    const uint32_t n = j->hold.n_ids;
    const int rc = n > 0 ? save(j, &bytes, &e) : 0;
    fy_schedule_unhold(j->x->server->schedule, NULL);
    if (n == 0)
        fy_reply_error(j->x, &(fy_api_refusal){.status = 400, .param = "id_slot"},
                       "the slot holds nothing that this key has asked");
    else if (rc == 0)
        reply_done(j, "n_saved", n, "n_written", bytes, "save_ms");
    else
        reply_failed(j, &e);
}

static void finish_restore(job *j)
{
    fy_err e = {0};
    fy_ids ids = {0};
    uint32_t n = 0;
    const int32_t *id = fy_prompt_cache_ids(j->cache, &n);
    int rc = fy_ids_append(&ids, id, n, &e);
    if (rc == 0)
        rc = fy_prompt_cache_load(j->cache, j->x->server->served.session, j->hold.slot, n, &e);
    if (rc != 0)
        fy_ids_release(&ids);
    fy_schedule_unhold(j->x->server->schedule, &ids);
    if (rc == 0)
        reply_done(j, "n_restored", n, "n_read", j->bytes, "restore_ms");
    else
        reply_failed(j, &e);
}

/* A worker, once the slot is held. */
static void resume(fy_exchange *x)
{
    job *j = x->work;
    if (j->hold.kind == FY_HOLD_READ)
        finish_save(j);
    else
        finish_restore(j);
    free_job(j);
}

/* Engine thread. */
static void held(fy_slot_hold *h, bool refused)
{
    job *j = (job *)h;
    if (!refused && h->kind != FY_HOLD_ERASE) {
        fy_server_queue_job(j->x->server, j->x);
        return;
    }
    if (refused) {
        fy_reply_error(j->x, &(fy_api_refusal){.status = 503}, "the server is shutting down");
    } else {
        fy_str out = {0};
        fy_str_printf(&out, "{\"id_slot\":%u,\"n_erased\":%u}", h->slot, h->n_ids);
        fy_reply_json(j->x, 200, &out);
    }
    free_job(j);
}

/* --- the request ------------------------------------------------------------------------------ */

/* The number at the end of the path; -1: there is no such slot. */
static int64_t slot_of(const fy_exchange *x)
{
    const fy_span path = x->head.path;
    const size_t before = sizeof "/slots/" - 1;
    int64_t n = path.len > before ? 0 : -1;
    for (size_t i = before; i < path.len && n >= 0 && n < 1000000; i++) {
        const char c = path.ptr[i];
        n = c >= '0' && c <= '9' ? 10 * n + (c - '0') : -1;
    }
    return n < (int64_t)x->server->served.n_slots ? n : -1;
}

static int read_job(fy_exchange *x, job *j, fy_bad_ask *b)
{
    const fy_span action = fy_http_query(x->head.query, "action");
    const int64_t slot = slot_of(x);
    if (slot < 0)
        return fy_bad(b, "id_slot", "Invalid slot ID: expected 0 to %u",
                      x->server->served.n_slots - 1);
    j->hold.slot = (uint32_t)slot;
    j->hold.kind = fy_span_is(action, "save")      ? FY_HOLD_READ
                   : fy_span_is(action, "restore") ? FY_HOLD_FILL
                                                   : FY_HOLD_ERASE;
    if (j->hold.kind != FY_HOLD_ERASE)
        return 0;
    return action.ptr != NULL && fy_span_is(action, "erase")
               ? 0
               : fy_bad(b, "action", "Invalid action: expected save, restore or erase");
}

static int read_name(job *j, const json_t *o, fy_bad_ask *b)
{
    const json_t *name = json_object_get(o, "filename");
    const fy_span text = {name != NULL && json_is_string(name) ? json_string_value(name) : "",
                          name != NULL ? json_string_length(name) : 0};
    if (!is_name(text))
        return fy_bad(b, "filename",
                      "Invalid filename: expected a name of 1 to %d bytes that does not begin with "
                      "'.', has no '/', '\\' or control characters, and does not end in .part",
                      NAME_MAX_BYTES);
    memcpy(j->name, text.ptr, text.len);
    return 0;
}

/* The body's name, and the file for a restore. False: the request has been answered. */
static bool prepare(fy_exchange *x, job *j)
{
    fy_bad_ask b = {0};
    fy_err e = {0};
    if (read_job(x, j, &b) != 0) {
        fy_ask_refuse(x, NULL, &b);
        return false;
    }
    if (j->hold.kind == FY_HOLD_ERASE)
        return true;
    json_t *o = fy_body_read(x);
    if (o == NULL)
        return false;
    int rc = read_name(j, o, &b);
    json_decref(o);
    if (rc != 0) {
        fy_ask_refuse(x, NULL, &b);
        return false;
    }
    rc = j->hold.kind == FY_HOLD_FILL ? prepare_restore(j, &e) : 0;
    if (rc > 0)
        fy_reply_error(x, &(fy_api_refusal){.status = 404, .param = "filename"},
                       "there is no such file");
    else if (rc < 0)
        reply_failed(j, &e);
    return rc == 0;
}

void fy_handle_slot(fy_exchange *x)
{
    fy_err e = {0};
    const bool off = x->server->o->slot_dir == NULL;
    if (off || fy_session_check_saves(x->server->served.session, &e) != 0) {
        fy_reply_error(x, &(fy_api_refusal){.status = 501},
                       off ? "This server does not support slots action. Start it with "
                             "`--slot-save-path`"
                           : e.msg);
        return;
    }
    job *j = calloc(1, sizeof *j);
    if (j == NULL) {
        fy_nomem(&e);
        fy_reply_failure(x, NULL, &e);
        return;
    }
    j->x = x;
    j->begun_s = fy_now_s();
    j->hold.user = x->user;
    j->hold.held = held;
    if (!prepare(x, j)) {
        free_job(j);
        return;
    }
    x->work = j;
    x->resume = resume;
    if (fy_schedule_hold(x->server->schedule, &j->hold, &e) != 0) {
        fy_reply_error(x, &(fy_api_refusal){.status = 503}, e.msg);
        free_job(j);
    }
}
