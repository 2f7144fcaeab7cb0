/* The frames of a push: one writer and one reader for each. */
#include "bundle/agent_proto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/math.h"
#include "base/str.h"

enum {
    FRAME_BYTES = FY_AGENT_HEAD + FY_AGENT_MAX_PAYLOAD,
    BUF_BYTES = 4 * FRAME_BYTES, /* so that the rest is rarely moved to the front */
    PUSH_HEAD = 17
};

/* --- writing ---------------------------------------------------------------------------------- */

static void put_u32(fy_str *s, uint32_t v)
{
    fy_str_add(s, &v, sizeof v);
}

static void put_u64(fy_str *s, uint64_t v)
{
    fy_str_add(s, &v, sizeof v);
}

static void put_head(fy_str *out, fy_agent_type type, size_t n)
{
    put_u32(out, (uint32_t)n);
    fy_str_putc(out, (char)type);
}

void fy_agent_put(fy_str *out, fy_agent_type type, const void *p, size_t n)
{
    put_head(out, type, n);
    fy_str_add(out, p, n);
}

void fy_agent_put_greet(fy_str *out)
{
    put_head(out, FY_AGENT_GREET, 8);
    fy_str_puts(out, FY_AGENT_MAGIC);
    put_u32(out, FY_AGENT_PROTOCOL);
}

void fy_agent_put_push(fy_str *out, const fy_agent_push *p)
{
    size_t n = strlen(p->path);
    put_head(out, FY_AGENT_PUSH, PUSH_HEAD + n);
    put_u64(out, p->manifest_bytes);
    put_u32(out, p->sig_bytes);
    put_u32(out, p->key_bytes);
    fy_str_putc(out, p->prune ? 1 : 0);
    fy_str_add(out, p->path, n);
}

void fy_agent_put_hello(fy_str *out, const fy_agent_hello *h)
{
    size_t n = strlen(h->version);
    put_head(out, FY_AGENT_HELLO, 8 + sizeof h->sha256 + n);
    fy_str_puts(out, FY_AGENT_MAGIC);
    put_u32(out, FY_AGENT_PROTOCOL);
    fy_str_add(out, h->sha256, sizeof h->sha256);
    fy_str_add(out, h->version, n);
}

void fy_agent_put_u64s(fy_str *out, fy_agent_type type, uint64_t a, const uint64_t *b)
{
    put_head(out, type, b != NULL ? 16 : 8);
    put_u64(out, a);
    if (b != NULL)
        put_u64(out, *b);
}

void fy_agent_put_want(fy_str *out, uint32_t file, uint32_t unit)
{
    put_head(out, FY_AGENT_WANT, 8);
    put_u32(out, file);
    put_u32(out, unit);
}

void fy_agent_put_done(fy_str *out, const fy_agent_done *d)
{
    put_head(out, FY_AGENT_DONE, 1 + 6 * 8);
    fy_str_putc(out, d->up_to_date ? 1 : 0);
    put_u64(out, d->reused_bytes);
    put_u64(out, d->received_bytes);
    put_u64(out, d->n_old);
    put_u64(out, d->old_bytes);
    put_u64(out, d->n_pruned);
    put_u64(out, d->pruned_bytes);
}

void fy_agent_put_fail(fy_str *out, const fy_err *e)
{
    size_t n = strlen(e->msg);
    put_head(out, FY_AGENT_FAIL, 1 + n);
    fy_str_putc(out, (char)e->code);
    fy_str_add(out, e->msg, n);
}

void fy_agent_data_head(uint8_t head[FY_AGENT_DATA_HEAD], uint32_t file, uint32_t unit, size_t n)
{
    uint32_t payload = (uint32_t)n + 8;
    memcpy(head, &payload, 4);
    head[4] = FY_AGENT_DATA;
    memcpy(head + 5, &file, 4);
    memcpy(head + 9, &unit, 4);
}

/* --- the stream ------------------------------------------------------------------------------- */

void fy_agent_reader_release(fy_agent_reader *r)
{
    free(r->buf);
    *r = (fy_agent_reader){.peer = r->peer};
}

int fy_agent_fill(fy_agent_reader *r, int fd, fy_err *e)
{
    if (r->buf == NULL && (r->buf = malloc(BUF_BYTES)) == NULL)
        return fy_nomem(e);
    if (r->begin == r->end)
        r->begin = r->end = 0;
    if (r->begin > 0 && BUF_BYTES - r->end < FRAME_BYTES) {
        memmove(r->buf, r->buf + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->begin = 0;
    }
    if (r->end == BUF_BYTES) /* a whole frame is here */
        return 1;
    ssize_t n = read(fd, r->buf + r->end, BUF_BYTES - r->end);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 2;
    if (n < 0 && errno != ECONNRESET && errno != EPIPE)
        return fy_fail_errno(e, "cannot read from %s", r->peer);
    if (n <= 0)
        return 0;
    r->end += (size_t)n;
    r->taken += (uint64_t)n;
    return 1;
}

int fy_agent_next(fy_agent_reader *r, fy_agent_frame *f, fy_err *e)
{
    size_t have = r->end - r->begin;
    if (have < FY_AGENT_HEAD)
        return 0;
    const uint8_t *at = r->buf + r->begin;
    uint32_t n = fy_le32(at);
    if (n > FY_AGENT_MAX_PAYLOAD) {
        char shown[FY_QUOTE_BYTES];
        return fy_fail(e, FY_EDEVICE, "%s sent '%s', expected frames of at most %u bytes", r->peer,
                       fy_quote(shown, sizeof shown, (fy_span){(const char *)at, have}),
                       FY_AGENT_MAX_PAYLOAD);
    }
    if (have - FY_AGENT_HEAD < n)
        return 0;
    *f = (fy_agent_frame){.type = at[4], .p = at + FY_AGENT_HEAD, .n = n};
    r->begin += FY_AGENT_HEAD + n;
    return 1;
}

/* --- payloads --------------------------------------------------------------------------------- */

static const char *frame_name(uint8_t type)
{
    static const struct {
        uint8_t type;
        const char *name;
    } rows[] = {
        {FY_AGENT_GREET, "greeting"}, {FY_AGENT_PUSH, "push"},     {FY_AGENT_MANIFEST, "manifest"},
        {FY_AGENT_DATA, "data"},      {FY_AGENT_COMMIT, "commit"}, {FY_AGENT_READY, "ready"},
        {FY_AGENT_HELLO, "hello"},    {FY_AGENT_STATE, "state"},   {FY_AGENT_REUSED, "reused"},
        {FY_AGENT_WANT, "want"},      {FY_AGENT_DONE, "done"},     {FY_AGENT_FAIL, "error"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].type == type)
            return rows[i].name;
    }
    return "unknown";
}

int fy_agent_unexpected(const fy_agent_frame *f, const char *when, fy_err *e)
{
    return fy_fail(e, FY_EDEVICE, "%s frame of %zu bytes (type %u), expected %s",
                   frame_name(f->type), f->n, f->type, when);
}

static int short_frame(const fy_agent_frame *f, const char *expected, fy_err *e)
{
    return fy_fail(e, FY_EDEVICE, "%s frame of %zu bytes, expected %s", frame_name(f->type), f->n,
                   expected);
}

static int get_magic(const fy_agent_frame *f, fy_err *e)
{
    if (f->n < 8 || memcmp(f->p, FY_AGENT_MAGIC, 4) != 0)
        return short_frame(f, "one that begins with " FY_AGENT_MAGIC, e);
    uint32_t v = fy_le32(f->p + 4);
    return v == FY_AGENT_PROTOCOL
               ? 0
               : fy_fail(e, FY_EUNSUPPORTED, "speaks version %u of the protocol, expected %u", v,
                         FY_AGENT_PROTOCOL);
}

int fy_agent_get_greet(const fy_agent_frame *f, fy_err *e)
{
    if (f->type != FY_AGENT_GREET)
        return fy_agent_unexpected(f, "a greeting", e);
    return get_magic(f, e);
}

int fy_agent_get_push(const fy_agent_frame *f, fy_agent_push *out, fy_err *e)
{
    if (f->type != FY_AGENT_PUSH)
        return fy_agent_unexpected(f, "a push", e);
    if (f->n <= PUSH_HEAD || f->n > PUSH_HEAD + FY_AGENT_MAX_PATH || f->p[16] > 1 ||
        memchr(f->p + PUSH_HEAD, '\0', f->n - PUSH_HEAD) != NULL)
        return short_frame(f, "sizes, a flag and a path of at most 1024 bytes", e);
    *out = (fy_agent_push){.manifest_bytes = fy_le64(f->p),
                           .sig_bytes = fy_le32(f->p + 8),
                           .key_bytes = fy_le32(f->p + 12),
                           .prune = f->p[16] == 1};
    memcpy(out->path, f->p + PUSH_HEAD, f->n - PUSH_HEAD);
    if (out->manifest_bytes > FY_MANIFEST_MAX_BYTES || out->sig_bytes > FY_MANIFEST_SIG_BYTES ||
        out->key_bytes > FY_MANIFEST_KEY_MAX)
        return fy_fail(e, FY_EFORMAT,
                       "manifest of %llu bytes, signature of %u, key of %u; expected at most %u, "
                       "%u and %u",
                       (unsigned long long)out->manifest_bytes, out->sig_bytes, out->key_bytes,
                       FY_MANIFEST_MAX_BYTES, FY_MANIFEST_SIG_BYTES, FY_MANIFEST_KEY_MAX);
    return 0;
}

int fy_agent_get_hello(const fy_agent_frame *f, fy_agent_hello *out, fy_err *e)
{
    if (f->type != FY_AGENT_HELLO)
        return fy_agent_unexpected(f, "a hello", e);
    if (get_magic(f, e) != 0)
        return -1;
    size_t head = 8 + FY_SHA256_BYTES;
    if (f->n < head || f->n - head >= sizeof out->version)
        return short_frame(f, "a hash and a version", e);
    *out = (fy_agent_hello){0};
    memcpy(out->sha256, f->p + 8, FY_SHA256_BYTES);
    for (size_t i = 0; i < f->n - head; i++) {
        char c = (char)f->p[head + i];
        out->version[i] = c >= ' ' && c <= '~' ? c : '?';
    }
    return 0;
}

int fy_agent_get_u64s(const fy_agent_frame *f, uint64_t *a, uint64_t *b, fy_err *e)
{
    if (f->n != (b != NULL ? 16u : 8u))
        return short_frame(f, b != NULL ? "16" : "8", e);
    *a = fy_le64(f->p);
    if (b != NULL)
        *b = fy_le64(f->p + 8);
    return 0;
}

int fy_agent_get_unit(const fy_agent_frame *f, const fy_manifest *m, uint32_t *file, uint32_t *unit,
                      fy_err *e)
{
    if (f->n < 8 || (f->type == FY_AGENT_WANT && f->n != 8))
        return short_frame(f, "the numbers of a file and a block", e);
    uint32_t a = fy_le32(f->p), b = fy_le32(f->p + 4);
    if (a >= m->n || b >= fy_unit_count(&m->entry[a]))
        return fy_fail(e, FY_EDEVICE, "%s of block %u of file %u, which the manifest does not list",
                       frame_name(f->type), b, a);
    *file = a;
    *unit = b;
    return 0;
}

int fy_agent_get_done(const fy_agent_frame *f, fy_agent_done *out, fy_err *e)
{
    if (f->n != 1 + 6 * 8 || f->p[0] > 1)
        return short_frame(f, "49", e);
    const uint8_t *p = f->p + 1;
    *out = (fy_agent_done){.up_to_date = f->p[0] == 1,
                           .reused_bytes = fy_le64(p),
                           .received_bytes = fy_le64(p + 8),
                           .n_old = fy_le64(p + 16),
                           .old_bytes = fy_le64(p + 24),
                           .n_pruned = fy_le64(p + 32),
                           .pruned_bytes = fy_le64(p + 40)};
    return 0;
}

int fy_agent_get_fail(const fy_agent_frame *f, fy_err *e)
{
    if (f->n < 1 || f->p[0] == FY_OK || f->p[0] > FY_ELOST)
        return short_frame(f, "a code and a text", e);
    char text[448]; /* fits the message, fit for a terminal */
    fy_quote(text, sizeof text, (fy_span){(const char *)f->p + 1, f->n - 1});
    return fy_fail(e, (fy_code)f->p[0], "%s", text);
}
