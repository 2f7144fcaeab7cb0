/* Files with the results of a part: appending, resuming, and reading all of them in order. */
#include "format/part_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/math.h"
#include "base/process.h"
#include "format/write_journal.h"

#define MAGIC "FERRYPRT"
enum {
    VERSION = 1,
    HEAD_BYTES = 24,  /* of the file */
    FRAME_BYTES = 16, /* of a record, before its bytes */
    END_BYTES = 16,   /* first step, number of all steps */
    TAIL_BYTES = FRAME_BYTES + END_BYTES + FY_SHA256_BYTES,
    SECONDS_BETWEEN_SYNCS = 10,
};

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct {
    const fy_out *out;     /* NULL: memory */
    const uint8_t *memory; /* view */
    uint64_t size, at;
    uint8_t hash[FY_SHA256_BYTES]; /* of all that was read */
    fy_str bytes;                  /* released by who reads: of the head, then of a record */
} reader;

static int read_at(const reader *r, void *p, size_t n, uint64_t at, fy_err *e)
{
    if (r->out != NULL)
        return fy_out_pread(r->out, p, n, at, e);
    memcpy(p, r->memory + at, n);
    return 0;
}

static uint64_t left(const reader *r)
{
    return r->size - r->at;
}

/* The next n bytes to the end of r->bytes; they are there. */
static int take(reader *r, uint64_t n, fy_err *e)
{
    static const uint8_t zero[4096];
    fy_str *s = &r->bytes;
    const size_t from = s->len;
    for (uint64_t k = 0; k < n && !s->oom; k += sizeof zero)
        fy_str_add(s, zero, n - k < sizeof zero ? (size_t)(n - k) : sizeof zero);
    if (s->oom)
        return fy_nomem(e);
    if (n > 0 && read_at(r, s->ptr + from, (size_t)n, r->at, e) != 0)
        return -1;
    r->at += n;
    return 0;
}

static int hash_of(const uint8_t *before, fy_span frame, fy_span bytes,
                   uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    fy_sha256 *h = fy_sha256_new(e);
    if (h == NULL)
        return -1;
    const int rc = (before != NULL && fy_sha256_add(h, before, FY_SHA256_BYTES, e) != 0) ||
                           fy_sha256_add(h, frame.ptr, frame.len, e) != 0 ||
                           (bytes.len > 0 && fy_sha256_add(h, bytes.ptr, bytes.len, e) != 0)
                       ? -1
                       : 0;
    return fy_sha256_end(h, rc == 0 ? out : NULL, e) == 0 ? rc : -1;
}

/* 0; 1: it does not begin as such a file. The identity is a view of r->bytes. */
static int read_head(reader *r, fy_part_bytes *out, fy_err *e)
{
    uint8_t found[FY_SHA256_BYTES];
    r->at = 0;
    fy_str_clear(&r->bytes);
    if (left(r) < HEAD_BYTES)
        return 1;
    if (take(r, HEAD_BYTES, e) != 0)
        return -1;
    const char *p = r->bytes.ptr;
    const uint32_t len = fy_le32(p + 20);
    if (memcmp(p, MAGIC, 8) != 0 || fy_le32(p + 8) != VERSION || len > FY_PART_MAX_BYTES ||
        left(r) < (uint64_t)len + FY_SHA256_BYTES)
        return 1;
    *out = (fy_part_bytes){.part = {fy_le32(p + 12), fy_le32(p + 16)}};
    if (take(r, len, e) != 0 || read_at(r, found, sizeof found, r->at, e) != 0 ||
        hash_of(NULL, (fy_span){r->bytes.ptr, r->bytes.len}, (fy_span){0}, r->hash, e) != 0)
        return -1;
    r->at += sizeof found;
    out->identity = (fy_span){r->bytes.ptr + HEAD_BYTES, len};
    return memcmp(found, r->hash, sizeof found) == 0 ? 0 : 1;
}

/* 0; 1: no whole record follows. */
static int next_record(reader *r, fy_part_record *out, fy_err *e)
{
    uint8_t frame[FRAME_BYTES], found[FY_SHA256_BYTES], want[FY_SHA256_BYTES];
    if (left(r) < FRAME_BYTES)
        return 1;
    if (read_at(r, frame, sizeof frame, r->at, e) != 0)
        return -1;
    const uint32_t kind = fy_le32(frame), len = fy_le32(frame + 4);
    if (kind < FY_PART_DATA || kind > FY_PART_END || len > FY_PART_MAX_BYTES ||
        left(r) < (uint64_t)FRAME_BYTES + len + FY_SHA256_BYTES)
        return 1;
    const uint64_t begin = r->at;
    r->at += FRAME_BYTES;
    fy_str_clear(&r->bytes);
    if (take(r, len, e) != 0 || read_at(r, found, sizeof found, r->at, e) != 0)
        return -1;
    const fy_span bytes = {fy_str_z(&r->bytes), len};
    if (hash_of(r->hash, (fy_span){(char *)frame, sizeof frame}, bytes, want, e) != 0)
        return -1;
    if (memcmp(found, want, sizeof want) != 0) {
        r->at = begin;
        return 1;
    }
    r->at += sizeof found;
    memcpy(r->hash, want, sizeof want);
    *out = (fy_part_record){(fy_part_kind)kind, fy_le64(frame + 8), bytes};
    return 0;
}

/* All whole records after the head. hash: where the last whole step ends. */
static int scan(reader *r, fy_part_bytes *out, uint8_t hash[FY_SHA256_BYTES], fy_part_sink *sink,
                void *user, fy_err *e)
{
    fy_part_record record;
    int rc;
    out->end = r->at;
    memcpy(hash, r->hash, FY_SHA256_BYTES);
    while (!out->is_done && (rc = next_record(r, &record, e)) != 1) {
        if (rc < 0 || fy_check_interrupt(e) != 0)
            return -1;
        out->is_done = record.kind == FY_PART_END;
        if (!out->is_done && sink != NULL && sink(user, &record, e) != 0)
            return -1;
        if (record.kind != FY_PART_STEP)
            continue;
        out->end = r->at;
        out->next_step = record.step + 1;
        out->n_steps_there++;
        memcpy(hash, r->hash, FY_SHA256_BYTES);
    }
    return 0;
}

int fy_part_bytes_parse(const void *p, size_t n, fy_part_bytes *out, fy_part_sink *sink, void *user,
                        fy_err *e)
{
    reader r = {.memory = p, .size = n};
    uint8_t hash[FY_SHA256_BYTES];
    int rc = read_head(&r, out, e);
    if (rc == 1)
        rc = fy_fail(e, FY_EFORMAT, "not the results of a part: it does not begin as such a file");
    if (rc == 0)
        out->identity.ptr = (const char *)p + HEAD_BYTES;
    if (rc == 0)
        rc = scan(&r, out, hash, sink, user, e);
    fy_str_release(&r.bytes);
    return rc;
}

/* --- one part --------------------------------------------------------------------------------- */

struct fy_part_file {
    fy_out *out;       /* owned */
    uint64_t at, next; /* where the next record goes; the step after the last whole one */
    uint8_t hash[FY_SHA256_BYTES]; /* of all before it */
    bool is_done;
    double synced_s;
};

/* "BASE.I-of-N": what fy_out calls the output. */
static int put_name(fy_str *s, const char *base, fy_job_part part, fy_err *e)
{
    fy_str_clear(s);
    fy_str_printf(s, "%s.%u-of-%u", base, part.i, part.n);
    return s->oom ? fy_nomem(e) : 0;
}

static int begin(fy_part_file *f, fy_job_part part, fy_span identity, fy_err *e)
{
    const uint32_t numbers[] = {VERSION, part.i, part.n, (uint32_t)identity.len};
    fy_str s = {0};
    fy_str_add(&s, MAGIC, 8);
    fy_str_add(&s, numbers, sizeof numbers);
    fy_str_add(&s, identity.ptr, identity.len);
    int rc = s.oom ? fy_nomem(e) : hash_of(NULL, (fy_span){s.ptr, s.len}, (fy_span){0}, f->hash, e);
    if (rc == 0)
        fy_str_add(&s, f->hash, sizeof f->hash);
    if (rc == 0 && s.oom)
        rc = fy_nomem(e);
    if (rc == 0)
        rc = fy_out_resize(f->out, 0, e) == 0 ? fy_out_pwrite(f->out, s.ptr, s.len, 0, e) : -1;
    f->at = s.len;
    fy_str_release(&s);
    return rc;
}

static int refuse(const fy_part_file *f, fy_span was, fy_span is, fy_err *e)
{
    fy_str why = {0};
    fy_journal_difference(was, is, &why);
    fy_fail(e, FY_EARG, "%s: is of other work: %s; remove it when nothing writes it",
            fy_out_part(f->out), fy_str_z(&why));
    fy_str_release(&why);
    return -1;
}

static int resume(fy_part_file *f, fy_job_part part, fy_span identity, fy_err *e)
{
    reader r = {.out = f->out};
    fy_part_bytes found;
    if (fy_out_size(f->out, &r.size, e) != 0)
        return -1;
    int rc = read_head(&r, &found, e);
    if (rc == 0 &&
        (found.part.i != part.i || found.part.n != part.n || !fy_span_eq(found.identity, identity)))
        rc = refuse(f, found.identity, identity, e);
    else if (rc == 0)
        rc = scan(&r, &found, f->hash, NULL, NULL, e);
    else if (rc == 1)
        rc = begin(f, part, identity, e) == 0 ? 1 : -1;
    if (rc == 0) {
        f->at = found.end;
        f->next = found.next_step;
        f->is_done = found.is_done && r.at == r.size;
    }
    fy_str_release(&r.bytes);
    return rc < 0 ? -1 : 0;
}

fy_part_file *fy_part_file_open(const char *base, fy_job_part part, fy_span identity, fy_err *e)
{
    fy_str name = {0};
    fy_part_file *f = calloc(1, sizeof *f);
    int rc = f != NULL ? put_name(&name, base, part, e) : fy_nomem(e);
    if (rc == 0) {
        f->synced_s = fy_now_s();
        f->out = fy_out_open_kept(fy_str_z(&name), e);
        rc = f->out != NULL ? resume(f, part, identity, e) : -1;
    }
    fy_str_release(&name);
    if (rc == 0)
        return f;
    fy_part_file_close(f);
    return NULL;
}

void fy_part_file_close(fy_part_file *f)
{
    if (f != NULL)
        fy_out_leave(f->out);
    free(f);
}

bool fy_part_file_is_done(const fy_part_file *f)
{
    return f->is_done;
}

uint64_t fy_part_file_next(const fy_part_file *f)
{
    return f->next;
}

int fy_part_file_add(fy_part_file *f, fy_part_kind kind, uint64_t step, fy_span bytes, fy_err *e)
{
    const uint32_t numbers[] = {kind, (uint32_t)bytes.len};
    fy_str s = {0};
    if (bytes.len > FY_PART_MAX_BYTES)
        return fy_fail(e, FY_EFIT, "%s: %zu bytes of one result, at most %u", fy_out_part(f->out),
                       bytes.len, FY_PART_MAX_BYTES);
    fy_str_add(&s, numbers, sizeof numbers);
    fy_str_add(&s, &step, sizeof step);
    fy_str_add(&s, bytes.ptr, bytes.len);
    int rc =
        s.oom ? fy_nomem(e) : hash_of(f->hash, (fy_span){s.ptr, s.len}, (fy_span){0}, f->hash, e);
    fy_str_add(&s, f->hash, sizeof f->hash);
    if (rc == 0)
        rc = s.oom ? fy_nomem(e) : fy_out_pwrite(f->out, s.ptr, s.len, f->at, e);
    f->at += s.len;
    fy_str_release(&s);
    /* what a machine that dies may lose: what a process writes before it is killed is there */
    if (rc == 0 && kind == FY_PART_STEP && fy_now_s() - f->synced_s > SECONDS_BETWEEN_SYNCS) {
        rc = fy_out_sync(f->out, 0, e);
        f->synced_s = fy_now_s();
    }
    return rc;
}

int fy_part_file_end(fy_part_file *f, uint64_t first, uint64_t end, uint64_t n_steps, fy_err *e)
{
    const uint64_t numbers[] = {first, n_steps};
    const fy_span bytes = {(const char *)numbers, sizeof numbers};
    if (fy_part_file_add(f, FY_PART_END, end, bytes, e) != 0 ||
        fy_out_resize(f->out, f->at, e) != 0 || fy_out_sync(f->out, 0, e) != 0)
        return -1;
    fy_sync_dir_of(fy_out_part(f->out));
    f->is_done = true;
    return 0;
}

/* --- all of them ------------------------------------------------------------------------------ */

typedef struct {
    const char *base, *command;
    uint32_t n;
    fy_span identity;
    uint64_t next, n_steps; /* where the next part begins; of the whole */
    bool is_known;          /* these two: the part before is there */
    fy_part_sink *sink;
    void *user;
} gathering;

/* Opens part i and reads its head: 0; 1: it is not there. */
static int open_part(const gathering *g, uint32_t i, fy_out **out, reader *r, fy_part_bytes *head,
                     fy_err *e)
{
    fy_str name = {0};
    *out = NULL;
    *r = (reader){0};
    int rc = put_name(&name, g->base, (fy_job_part){i, g->n}, e);
    const size_t len = name.len;
    fy_str_puts(&name, ".part");
    if (rc == 0 && !name.oom && !fy_file_exists(name.ptr))
        rc = 1;
    if (rc == 0 && !name.oom) {
        name.ptr[len] = '\0';
        *out = fy_out_open_kept(name.ptr, e);
        rc = *out != NULL && fy_out_size(*out, &r->size, e) == 0 ? 0 : -1;
        r->out = *out;
    }
    fy_str_release(&name);
    return rc == 0 ? read_head(r, head, e) : rc;
}

/* What the end of the file says of the part; the whole of it is read later. */
static bool read_tail(const reader *r, uint64_t *first, uint64_t *end, uint64_t *n_steps)
{
    uint8_t tail[TAIL_BYTES];
    if (r->size < TAIL_BYTES || read_at(r, tail, sizeof tail, r->size - sizeof tail, NULL) != 0 ||
        fy_le32(tail) != FY_PART_END || fy_le32(tail + 4) != END_BYTES)
        return false;
    *end = fy_le64(tail + 8);
    *first = fy_le64(tail + FRAME_BYTES);
    *n_steps = fy_le64(tail + FRAME_BYTES + 8);
    return true;
}

/* Is part i done, and does it begin where the last one ended? 0; 1 with why. */
static int check_part(gathering *g, uint32_t i, fy_str *why, fy_err *e)
{
    fy_out *out;
    reader r;
    fy_part_bytes head;
    uint64_t first = 0, end = 0, n_steps = 0;
    fy_str_clear(why);
    int rc = open_part(g, i, &out, &r, &head, e);
    if (rc == 1) {
        fy_str_puts(why, out == NULL ? "is not there" : "has done nothing");
    } else if (rc == 0 && !fy_span_eq(head.identity, g->identity)) {
        fy_str_puts(why, "is of other work: ");
        fy_journal_difference(head.identity, g->identity, why);
        rc = 1;
    } else if (rc == 0 && (head.part.i != i || head.part.n != g->n ||
                           !read_tail(&r, &first, &end, &n_steps))) {
        fy_str_puts(why, "is not done");
        rc = 1;
    } else if (rc == 0 && (end < first || end > n_steps || (i == g->n && end != n_steps) ||
                           (g->is_known && first != g->next) ||
                           (g->is_known && i > 1 && n_steps != g->n_steps))) {
        fy_str_printf(why, "has steps %llu to %llu of %llu, which do not follow the part before",
                      (unsigned long long)first, (unsigned long long)end,
                      (unsigned long long)n_steps);
        rc = 1;
    } else if (rc == 0) {
        g->next = end;
        g->n_steps = n_steps;
    }
    g->is_known = rc == 0;
    fy_out_leave(out);
    fy_str_release(&r.bytes);
    return rc;
}

static int check_parts(gathering *g, fy_err *e)
{
    fy_str missing = {0}, why = {0};
    uint32_t n_missing = 0;
    int rc = 0;
    for (uint32_t i = 1; i <= g->n && rc >= 0; i++) {
        rc = fy_check_interrupt(e) != 0 ? -1 : check_part(g, i, &why, e);
        if (rc == 1 && n_missing++ == 0)
            fy_str_printf(&missing, "part %u %s: make it with '%s --part %u/%u'", i, fy_str_z(&why),
                          g->command, i, g->n);
    }
    if (rc >= 0 && n_missing > 0)
        rc = fy_fail(e, FY_EVERIFY, "%s: %u of %u parts are missing; %s", g->base, n_missing, g->n,
                     fy_str_z(&missing));
    fy_str_release(&missing);
    fy_str_release(&why);
    return rc >= 0 ? 0 : -1;
}

/* Steps come in order, none twice and none left out. */
static int pass_on(void *user, const fy_part_record *r, fy_err *e)
{
    gathering *g = user;
    if (r->step != g->next)
        return fy_fail(e, FY_EVERIFY, "has step %llu, expected %llu", (unsigned long long)r->step,
                       (unsigned long long)g->next);
    g->next += r->kind == FY_PART_STEP;
    return g->sink(g->user, r, e);
}

static int read_part(gathering *g, uint32_t i, fy_err *e)
{
    fy_out *out;
    reader r;
    fy_part_bytes part;
    uint8_t hash[FY_SHA256_BYTES];
    uint64_t first = 0, end = UINT64_MAX, n_steps;
    int rc = open_part(g, i, &out, &r, &part, e);
    if (rc == 0)
        rc = scan(&r, &part, hash, pass_on, g, e);
    if (rc == 0 && (!part.is_done || r.at != r.size || !read_tail(&r, &first, &end, &n_steps) ||
                    end != g->next))
        rc = 1;
    if (rc == 1)
        rc = fy_fail(e, FY_EVERIFY,
                     "is damaged: remove it, and make it again with '%s --part %u/%u'", g->command,
                     i, g->n);
    if (rc != 0)
        fy_ctx(e, "%s.%u-of-%u.part", g->base, i, g->n);
    fy_out_leave(out);
    fy_str_release(&r.bytes);
    return rc;
}

int fy_part_files_read(const char *base, uint32_t n, fy_span identity, const char *command,
                       fy_part_sink *sink, void *user, fy_err *e)
{
    gathering g = {.base = base,
                   .command = command,
                   .n = n,
                   .identity = identity,
                   .is_known = true,
                   .sink = sink,
                   .user = user};
    if (check_parts(&g, e) != 0)
        return -1;
    g.next = 0;
    for (uint32_t i = 1; i <= n; i++) {
        if (read_part(&g, i, e) != 0)
            return -1;
    }
    return 0;
}

void fy_part_files_remove(const char *base, uint32_t n)
{
    fy_str s = {0};
    for (uint32_t i = 1; i <= n; i++) {
        fy_str_clear(&s);
        fy_str_printf(&s, "%s.%u-of-%u.part", base, i, n);
        unlink(fy_str_z(&s));
    }
    fy_str_release(&s);
}
