/* The host's end of the conversation with the helper on the phone: one thread, one socket, never
 * blocked in either direction, so that the phone's requests are read while blocks are sent. Also
 * what is sent: the manifest with its signature, and units of files that were compared with it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/file.h"
#include "base/process.h"
#include "base/log.h"
#include "base/str.h"
#include "bundle/bundle_check.h"
#include "workspace/phone/push.h"

/* Longer than any work takes: an agent reports something every FY_AGENT_BEAT_S. */
#define SILENCE_S 60.0

/* --- what is sent ----------------------------------------------------------------------------- */

int fy_push_source_parse(fy_push_source *s, const char *name, fy_err *e)
{
    if (fy_manifest_parse(s->seal.manifest.ptr, s->seal.manifest.len, &s->m, e) != 0)
        return fy_manifest_ctx(name, e);
    for (size_t i = 0; i < s->m.n; i++)
        s->bytes += s->m.entry[i].bytes;
    return fy_sha256_of(s->seal.manifest.ptr, s->seal.manifest.len, s->id, e);
}

int fy_push_source_open(fy_push_source *s, const char *dir, fy_err *e)
{
    fy_seal seal;
    *s = (fy_push_source){.dir = dir};
    if (fy_seal_open(dir, &seal, e) != 0)
        return -1;
    fy_str_add(&s->text, seal.manifest.ptr, seal.manifest.len);
    fy_str_add(&s->text, seal.sig.ptr, seal.sig.len);
    fy_str_add(&s->text, seal.key.ptr, seal.key.len);
    const char *p = fy_str_z(&s->text);
    s->seal = (fy_seal){.has_sig = seal.has_sig, .has_key = seal.has_key};
    s->seal.manifest = (fy_span){p, seal.manifest.len};
    s->seal.sig = (fy_span){p + seal.manifest.len, seal.sig.len};
    s->seal.key = (fy_span){p + seal.manifest.len + seal.sig.len, seal.key.len};
    fy_seal_close(&seal);
    int rc = s->text.oom ? fy_nomem(e) : fy_push_source_parse(s, dir, e);
    if (rc == 0 &&
        (s->seal.sig.len > FY_MANIFEST_SIG_BYTES || s->seal.key.len > FY_MANIFEST_KEY_MAX))
        rc = fy_fail(e, FY_EVERIFY,
                     "%s: " FY_MANIFEST_SIG " has %zu bytes and " FY_MANIFEST_KEY
                     " %zu, expected at most %u and %u",
                     dir, s->seal.sig.len, s->seal.key.len, FY_MANIFEST_SIG_BYTES,
                     FY_MANIFEST_KEY_MAX);
    if (rc != 0)
        fy_push_source_release(s);
    return rc;
}

void fy_push_source_release(fy_push_source *s)
{
    for (size_t i = 0; i < s->n_local; i++)
        free(s->local[i]);
    free(s->local);
    fy_manifest_release(&s->m);
    fy_str_release(&s->text);
    *s = (fy_push_source){0};
}

static int open_file(fy_push_units *u, size_t file, fy_err *e)
{
    if (u->fd >= 0 && u->file == file)
        return 0;
    if (u->fd >= 0)
        close(u->fd);
    const fy_push_source *s = u->source;
    char *path = s->local != NULL ? strdup(s->local[file])
                                  : fy_path_join(s->dir, s->m.entry[file].path);
    if (path == NULL)
        return fy_nomem(e);
    u->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    u->file = file;
    int rc = u->fd < 0 ? fy_fail_errno(e, "%s: cannot open", path) : 0;
    free(path);
    return rc;
}

int fy_push_unit_read(fy_push_units *u, size_t file, uint64_t unit, fy_err *e)
{
    const fy_manifest_entry *m = &u->source->m.entry[file];
    size_t n = fy_unit_bytes(m, unit);
    uint8_t hash[FY_SHA256_BYTES];
    if (u->bytes == NULL && (u->bytes = malloc(FY_MANIFEST_BLOCK)) == NULL)
        return fy_nomem(e);
    if (open_file(u, file, e) != 0)
        return -1;
    for (size_t have = 0; have < n;) {
        ssize_t got = pread(u->fd, u->bytes + have, n - have, (off_t)(fy_unit_offset(unit) + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fy_fail_errno(e, "%s: cannot read", m->path);
        if (got == 0)
            return fy_fail(e, FY_EVERIFY, "%s: became shorter while it was sent", m->path);
        have += (size_t)got;
    }
    if (fy_sha256_of(u->bytes, n, hash, e) != 0)
        return -1;
    if (memcmp(hash, fy_unit_hash(m, unit), sizeof hash) != 0) {
        fy_manifest_changed(m, unit, e);
        return fy_ctx(e, "%s", m->path);
    }
    return 0;
}

void fy_push_units_release(fy_push_units *u)
{
    if (u->fd >= 0)
        close(u->fd);
    free(u->bytes);
    *u = (fy_push_units){.fd = -1};
}

typedef struct {
    uint32_t file, unit;
} want;

typedef struct {
    fy_push_link *link;
    const fy_push_source *source;
    fy_progress *progress;
    fy_push_gate *gate;
    void *user;
    size_t manifest_sent;
    fy_push_units units; /* holds queue[at_queue] once at_byte > 0 */
    want *queue;         /* owned */
    size_t n_queue, cap_queue, at_queue;
    uint32_t at_byte; /* of queue[at_queue] */
    uint8_t *asked;   /* owned; of each unit */
    size_t *first;    /* owned; of each file's units in `asked` */
    uint64_t reused_bytes;
    double heard_s; /* when the phone last took or said something */
    bool ready, committed, over;
    fy_agent_done done;
} talk;

/* --- the link --------------------------------------------------------------------------------- */

void fy_push_link_release(fy_push_link *l)
{
    fy_agent_reader_release(&l->in);
    fy_str_release(&l->out);
}

/* Writes what the socket takes; 1 when something went, 0 when it is full, -1. */
static int flush_some(fy_push_link *l, fy_err *e)
{
    ssize_t n = write(l->fd, l->out.ptr + l->out_done, l->out.len - l->out_done);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        return fy_fail(e, FY_EDEVICE, "the connection to the phone was lost (%s)", strerror(errno));
    l->sent_bytes += (uint64_t)n;
    l->out_done += (size_t)n;
    if (l->out_done == l->out.len) {
        fy_str_clear(&l->out);
        l->out_done = 0;
    }
    return 1;
}

/* Waits for the socket, 200 ms at most, and moves bytes. *moved when any did; 0: the stream has
 * ended; 1; -1. */
static int move_bytes(fy_push_link *l, int timeout_ms, bool *moved, fy_err *e)
{
    bool writing = l->out_done < l->out.len;
    struct pollfd p = {.fd = l->fd, .events = (short)(POLLIN | (writing ? POLLOUT : 0))};
    *moved = false;
    if (fy_check_interrupt(e) != 0)
        return -1;
    if (poll(&p, 1, timeout_ms) <= 0)
        return 1;
    if ((p.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        int rc = fy_agent_fill(&l->in, l->fd, e);
        if (rc <= 0)
            return rc;
        *moved = rc == 1;
    }
    if (writing && (p.revents & POLLOUT) != 0) {
        fy_err lost = {0};
        int rc = flush_some(l, &lost);
        /* what the phone said before it hung up explains more than the broken pipe */
        if (rc < 0 && fy_agent_fill(&l->in, l->fd, NULL) <= 0)
            return fy_fail(e, lost.code, "%s", lost.msg);
        *moved |= rc == 1;
    }
    return 1;
}

int fy_push_greet(fy_push_link *l, int fd, fy_agent_hello *hello, fy_err *why, fy_err *e)
{
    *l = (fy_push_link){.fd = fd, .in = {.peer = "the phone"}};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fy_agent_put_greet(&l->out);
    if (l->out.oom)
        return fy_nomem(e);
    double begin = fy_now_s();
    for (;;) {
        fy_agent_frame f;
        bool moved;
        int rc = fy_agent_next(&l->in, &f, why);
        if (rc < 0)
            return 0;
        if (rc == 1)
            return f.type == FY_AGENT_FAIL ? (fy_agent_get_fail(&f, why), 0)
                                           : fy_agent_get_hello(&f, hello, why) == 0;
        rc = move_bytes(l, 200, &moved, why);
        if (rc < 0 && why->code == FY_EINTR)
            return fy_fail(e, why->code, "%s", why->msg);
        if (rc < 0)
            return 0;
        if (rc == 0 || fy_now_s() - begin > SILENCE_S) {
            char shown[64];
            fy_span said = {(const char *)l->in.buf + l->in.begin, l->in.end - l->in.begin};
            fy_fail(why, FY_EDEVICE, said.len > 0 ? "it said '%s'" : "it %s",
                    said.len > 0 ? fy_quote(shown, sizeof shown, said)
                    : rc == 0    ? "ended without a word"
                                 : "says nothing");
            return 0;
        }
    }
}

/* --- what goes -------------------------------------------------------------------------------- */

/* The next part of the block that was asked for first. */
static int put_data(talk *t, fy_err *e)
{
    const want *w = &t->queue[t->at_queue];
    uint8_t head[FY_AGENT_DATA_HEAD];
    uint32_t left = fy_unit_bytes(&t->source->m.entry[w->file], w->unit) - t->at_byte;
    size_t n = left < FY_AGENT_MAX_DATA ? left : FY_AGENT_MAX_DATA;
    if (t->at_byte == 0 && fy_push_unit_read(&t->units, w->file, w->unit, e) != 0)
        return -1;
    fy_agent_data_head(head, w->file, w->unit, n);
    fy_str_add(&t->link->out, head, sizeof head);
    fy_str_add(&t->link->out, t->units.bytes + t->at_byte, n);
    fy_progress_add(t->progress, n);
    t->at_byte += (uint32_t)n;
    if (n == left) {
        t->at_queue++;
        t->at_byte = 0;
    }
    return 0;
}

/* Fills the empty output with what is next. *waiting: the gate is not open yet. */
static int put_next(talk *t, bool *waiting, fy_err *e)
{
    const fy_str *text = &t->source->text;
    fy_str *out = &t->link->out;
    *waiting = false;
    if (out->len > 0)
        return 0;
    if (t->manifest_sent < text->len) {
        size_t left = text->len - t->manifest_sent;
        size_t n = left < FY_AGENT_MAX_PAYLOAD ? left : FY_AGENT_MAX_PAYLOAD;
        fy_agent_put(out, FY_AGENT_MANIFEST, text->ptr + t->manifest_sent, n);
        t->manifest_sent += n;
    } else if (t->at_queue < t->n_queue) {
        if (put_data(t, e) != 0)
            return -1;
    } else if (t->ready && !t->committed) {
        int open_now = t->gate != NULL ? t->gate(t->user, e) : 1;
        if (open_now < 0)
            return -1;
        *waiting = open_now == 0;
        t->committed = open_now > 0;
        if (t->committed)
            fy_agent_put(out, FY_AGENT_COMMIT, NULL, 0);
    }
    return out->oom ? fy_nomem(e) : 0;
}

/* --- what comes ------------------------------------------------------------------------------- */

static int take_want(talk *t, const fy_agent_frame *f, fy_err *e)
{
    uint32_t file, unit;
    if (fy_agent_get_unit(f, &t->source->m, &file, &unit, e) != 0)
        return -1;
    uint8_t *asked = &t->asked[t->first[file] + unit];
    if (*asked)
        return fy_fail(e, FY_EDEVICE, "asked twice for block %u of file %u", unit, file);
    if (fy_append(&t->queue, &t->n_queue, &t->cap_queue, &(want){file, unit}, sizeof *t->queue,
                  e) != 0)
        return -1;
    *asked = 1;
    return 0;
}

static int take_reused(talk *t, const fy_agent_frame *f, fy_err *e)
{
    uint64_t n, most = 2 * t->source->bytes; /* a damaged version is looked through twice */
    if (fy_agent_get_u64s(f, &n, NULL, e) != 0)
        return -1;
    if (n > most || t->reused_bytes > most - n)
        return fy_fail(e, FY_EDEVICE, "says that it has more than there is");
    t->reused_bytes += n;
    fy_progress_add(t->progress, n);
    return 0;
}

static int take_done(talk *t, const fy_agent_frame *f, fy_err *e)
{
    if (fy_agent_get_done(f, &t->done, e) != 0)
        return -1;
    if (!t->committed || t->at_queue < t->n_queue || t->done.reused_bytes > t->source->bytes ||
        t->done.received_bytes != t->source->bytes - t->done.reused_bytes)
        return fy_fail(e, FY_EDEVICE, "says that it is done with %llu bytes of %llu",
                       (unsigned long long)(t->done.received_bytes + t->done.reused_bytes),
                       (unsigned long long)t->source->bytes);
    t->over = true;
    return 0;
}

static int take_frame(talk *t, const fy_agent_frame *f, fy_err *e)
{
    uint64_t space, need;
    switch ((fy_agent_type)f->type) {
    case FY_AGENT_STATE:
        return fy_agent_get_u64s(f, &space, &need, e);
    case FY_AGENT_REUSED:
        return take_reused(t, f, e);
    case FY_AGENT_WANT:
        return take_want(t, f, e);
    case FY_AGENT_READY:
        t->ready = true;
        return 0;
    case FY_AGENT_DONE:
        return take_done(t, f, e);
    case FY_AGENT_FAIL:
        return fy_agent_get_fail(f, e);
    case FY_AGENT_GREET:
    case FY_AGENT_PUSH:
    case FY_AGENT_MANIFEST:
    case FY_AGENT_DATA:
    case FY_AGENT_COMMIT:
    case FY_AGENT_HELLO:
        break;
    }
    return fy_agent_unexpected(f, "a question or a result", e);
}

static int talk_on(talk *t, fy_err *e)
{
    while (!t->over) {
        fy_agent_frame f;
        bool waiting, moved;
        int rc;
        while (!t->over && (rc = fy_agent_next(&t->link->in, &f, e)) != 0) {
            if (rc < 0 || take_frame(t, &f, e) != 0)
                return fy_ctx(e, "the phone");
        }
        if (t->over)
            break;
        if (put_next(t, &waiting, e) != 0)
            return -1;
        rc = move_bytes(t->link, waiting ? 20 : 200, &moved, e);
        if (rc < 0)
            return -1;
        double now = fy_now_s();
        if (moved || waiting)
            t->heard_s = now;
        if (rc == 0)
            return fy_fail(e, FY_EDEVICE,
                           "the connection to the phone was lost, or its helper was ended; what "
                           "has arrived is kept there: run the same command again to resume");
        if (now - t->heard_s > SILENCE_S)
            return fy_fail(e, FY_EDEVICE,
                           "the phone has said nothing for %.0f s; what has arrived is kept there: "
                           "run the same command again to resume",
                           SILENCE_S);
    }
    return 0;
}

int fy_push_talk(fy_push_link *l, const fy_push_source *s, const char *path, bool prune,
                 fy_push_gate *gate, void *user, fy_progress *progress, fy_agent_done *done,
                 fy_err *e)
{
    talk t = {.link = l,
              .source = s,
              .progress = progress,
              .gate = gate,
              .user = user,
              .units = {.source = s, .fd = -1},
              .heard_s = fy_now_s(),
              .first = calloc(s->m.n + 1, sizeof *t.first)};
    fy_agent_push push = {.manifest_bytes = s->seal.manifest.len,
                          .sig_bytes = (uint32_t)s->seal.sig.len,
                          .key_bytes = (uint32_t)s->seal.key.len,
                          .prune = prune};
    size_t n_units = 0;
    for (size_t i = 0; t.first != NULL && i < s->m.n; i++) {
        t.first[i] = n_units;
        n_units += fy_unit_count(&s->m.entry[i]);
    }
    t.asked = calloc(n_units + 1, 1);
    memccpy(push.path, path, '\0', sizeof push.path - 1);
    fy_agent_put_push(&l->out, &push);
    bool ok = t.first != NULL && t.asked != NULL;
    int rc = ok ? talk_on(&t, e) : fy_nomem(e);
    if (rc == 0)
        *done = t.done;
    fy_push_units_release(&t.units);
    free(t.queue);
    free(t.asked);
    free(t.first);
    return rc;
}
