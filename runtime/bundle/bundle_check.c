/* The rules for one file of a workspace, and reading all of them on many threads. */
#include "bundle/bundle_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/thread.h"
#include "bundle/seal.h"

#define READ_BYTES ((size_t)1 << 20)
#define WHOLE      UINT64_MAX /* in place of a block's number */

/* What is known of one file. */
typedef struct {
    _Atomic uint64_t bad_block; /* the first one whose hash differs; UINT64_MAX: none */
    _Atomic bool stopped;       /* could not be read: code and text give the reason */
    bool whole_differs;
    fy_code code;        /* written by the thread that set stopped, or before the threads */
    char *text;          /* owned */
    uint64_t first_item; /* its items follow each other */
} file_state;

typedef struct {
    const char *dir;
    const fy_manifest *m;
    bool strict;
    file_state *file;   /* owned; [m->n + 1], the last one only ends the items */
    uint8_t **buf;      /* owned; per thread, made when it is needed */
    _Atomic bool fatal; /* out of memory or interrupted: `stop` has the message */
    fy_err stop;
    fy_progress *progress;
} checker;

int fy_manifest_changed(const fy_manifest_entry *m, uint64_t block, fy_err *e)
{
    uint64_t n_blocks = fy_manifest_n_blocks(m->bytes);
    if (block >= n_blocks)
        return fy_fail(e, FY_EVERIFY, "changed: SHA-256 differs from the manifest's");
    uint64_t begin = block * FY_MANIFEST_BLOCK;
    uint64_t end = block + 1 < n_blocks ? begin + FY_MANIFEST_BLOCK : m->bytes;
    return fy_fail(e, FY_EVERIFY,
                   "changed: SHA-256 differs from the manifest's, first in bytes %llu to %llu",
                   (unsigned long long)begin, (unsigned long long)end - 1);
}

/* --- before reading --------------------------------------------------------------------------- */

int fy_listed_fits(const struct stat *st, const fy_manifest_entry *m, bool strict, fy_err *e)
{
    if (S_ISLNK(st->st_mode))
        return fy_fail(e, FY_EVERIFY, "is a symbolic link, expected a file");
    if (!S_ISREG(st->st_mode))
        return fy_fail(e, FY_EVERIFY, "is not a regular file");
    if ((uint64_t)st->st_size != m->bytes)
        return fy_fail(e, FY_EVERIFY, "%llu bytes, the manifest lists %llu",
                       (unsigned long long)st->st_size, (unsigned long long)m->bytes);
    /* other bits depend on the disk and do no harm */
    if (strict && (((m->mode & 0100) != 0 && (st->st_mode & 0100) == 0) ||
                   (st->st_mode & FY_MODE_REFUSED) != 0))
        return fy_fail(e, FY_EVERIFY, "mode %04o, the manifest lists %04o",
                       (unsigned)(st->st_mode & 07777), (unsigned)m->mode);
    return 0;
}

int fy_listed_check(const char *dir, const fy_manifest_entry *m, bool strict, fy_err *e)
{
    struct stat st;
    char *path = fy_path_join(dir, m->path);
    if (path == NULL)
        return fy_nomem(e);
    int rc = lstat(path, &st) == 0 ? fy_listed_fits(&st, m, strict, e)
             : errno == ENOENT || errno == ENOTDIR
                 ? fy_fail(e, FY_EVERIFY, "missing, the manifest lists %llu bytes",
                           (unsigned long long)m->bytes)
                 : fy_fail_errno(e, "cannot read its size");
    free(path);
    return rc;
}

static uint64_t count_items(const checker *c, const fy_manifest_entry *m)
{
    uint64_t n_blocks = fy_manifest_n_blocks(m->bytes);
    return n_blocks == 0 ? 1 : n_blocks + c->strict;
}

/* Gives every readable file its items. */
static int plan(checker *c, fy_err *e)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->m->n; i++) {
        file_state *f = &c->file[i];
        fy_err what = {0};
        f->first_item = n;
        atomic_init(&f->bad_block, UINT64_MAX);
        if (fy_listed_check(c->dir, &c->m->entry[i], c->strict, &what) == 0) {
            n += count_items(c, &c->m->entry[i]);
        } else if (what.code == FY_ENOMEM || (f->text = strdup(what.msg)) == NULL) {
            return fy_nomem(e);
        } else {
            f->code = what.code;
            atomic_init(&f->stopped, true);
        }
    }
    c->file[c->m->n].first_item = n;
    return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void fail_file(checker *c, file_state *f, const fy_err *what)
{
    if (what->code == FY_ENOMEM || what->code == FY_EINTR) {
        if (!atomic_exchange(&c->fatal, true))
            c->stop = *what;
    } else if (!atomic_exchange(&f->stopped, true)) {
        f->code = what->code;
        f->text = strdup(what->msg);
    }
}

/* Hashes bytes [at, at + n) of fd. */
static int hash_range(checker *c, int fd, uint64_t at, uint64_t n, uint8_t *buf, bool counts,
                      uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    fy_sha256 *h = fy_sha256_new(e);
    int rc = h != NULL ? 0 : -1;
    while (rc == 0 && n > 0 && (rc = fy_check_interrupt(e)) == 0) {
        ssize_t got = pread(fd, buf, n < READ_BYTES ? (size_t)n : READ_BYTES, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            rc = fy_fail_errno(e, "cannot read");
        else if (got == 0)
            rc = fy_fail(e, FY_EVERIFY, "has become shorter while it was read");
        else if ((rc = fy_sha256_add(h, buf, (size_t)got, e)) == 0 && counts)
            fy_progress_add(c->progress, (uint64_t)got);
        if (rc == 0) {
            at += (uint64_t)got;
            n -= (uint64_t)got;
        }
    }
    int ended = h != NULL ? fy_sha256_end(h, rc == 0 ? out : NULL, e) : -1;
    return rc == 0 ? ended : rc;
}

static void note_block(file_state *f, uint64_t block)
{
    uint64_t seen = atomic_load(&f->bad_block);
    while (block < seen && !atomic_compare_exchange_weak(&f->bad_block, &seen, block)) {
    }
}

/* block: its number, or WHOLE. */
static int check_item(checker *c, size_t i, uint64_t block, uint8_t *buf, fy_err *e)
{
    const fy_manifest_entry *m = &c->m->entry[i];
    uint64_t at = block == WHOLE ? 0 : block * FY_MANIFEST_BLOCK, n = m->bytes - at;
    if (block != WHOLE && n > FY_MANIFEST_BLOCK)
        n = FY_MANIFEST_BLOCK;
    char *path = fy_path_join(c->dir, m->path);
    if (path == NULL)
        return fy_nomem(e);
    /* O_NONBLOCK: a FIFO that takes the place now must not stop us */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    free(path);
    if (fd < 0)
        return fy_fail_errno(e, "cannot open");
    uint8_t found[FY_SHA256_BYTES];
    bool counts = block != WHOLE || fy_manifest_n_blocks(m->bytes) == 0;
    int rc = hash_range(c, fd, at, n, buf, counts, found, e);
    close(fd);
    if (rc != 0)
        return rc;
    const uint8_t *listed = block == WHOLE ? m->sha256 : m->blocks + block * FY_SHA256_BYTES;
    if (memcmp(found, listed, sizeof found) != 0) {
        if (block == WHOLE)
            c->file[i].whole_differs = true;
        else
            note_block(&c->file[i], block);
    }
    return 0;
}

static int by_first_item(const void *key, const void *member)
{
    const file_state *f = member;
    const uint64_t item = *(const uint64_t *)key;
    return item < f[0].first_item ? -1 : item >= f[1].first_item;
}

static void check_items(void *ctx, int64_t begin, int64_t end, int thread)
{
    checker *c = ctx;
    for (int64_t k = begin; k < end && !atomic_load(&c->fatal); k++) {
        const uint64_t item = (uint64_t)k;
        file_state *f = bsearch(&item, c->file, c->m->n, sizeof *f, by_first_item);
        size_t i = (size_t)(f - c->file);
        fy_err what = {0};
        /* the whole of a file first: it takes the longest, and its blocks go to other threads */
        uint64_t n = (uint64_t)k - f->first_item,
                 n_blocks = fy_manifest_n_blocks(c->m->entry[i].bytes);
        bool has_whole = n_blocks == 0 || c->strict;
        uint64_t block = has_whole && n == 0 ? WHOLE : n - has_whole;
        if (atomic_load(&f->stopped))
            continue;
        if (c->buf[thread] == NULL && (c->buf[thread] = malloc(READ_BYTES)) == NULL)
            fy_nomem(&what);
        else
            check_item(c, i, block, c->buf[thread], &what);
        if (what.code != FY_OK)
            fail_file(c, f, &what);
    }
}

/* --- the job ---------------------------------------------------------------------------------- */

static int report(checker *c, fy_bundle_bad *bad, void *user, fy_err *e)
{
    for (size_t i = 0; i < c->m->n; i++) {
        file_state *f = &c->file[i];
        uint64_t block = atomic_load(&f->bad_block);
        fy_err what = {0};
        if (atomic_load(&f->stopped))
            fy_fail(&what, f->code, "%s", f->text != NULL ? f->text : "cannot be read");
        else if (f->whole_differs || block != UINT64_MAX)
            fy_manifest_changed(&c->m->entry[i], block, &what);
        if (what.code != FY_OK && bad(user, &c->m->entry[i], &what, e) != 0)
            return -1;
    }
    return 0;
}

int fy_bundle_hash_all(const char *dir, const fy_manifest *m, bool strict, int n_threads,
                       fy_progress *progress, fy_bundle_bad *bad, void *user, fy_err *e)
{
    checker c = {.dir = dir, .m = m, .strict = strict, .progress = progress};
    c.file = calloc(m->n + 1, sizeof *c.file);
    c.buf = calloc((size_t)n_threads, sizeof *c.buf);
    fy_pool *pool = NULL;
    int rc = c.file != NULL && c.buf != NULL ? plan(&c, e) : fy_nomem(e);
    if (rc == 0 && (pool = fy_pool_new(n_threads, e)) == NULL)
        rc = -1;
    for (size_t i = 0; rc == 0 && progress != NULL && i < m->n; i++)
        progress->total_bytes += c.file[i].text == NULL ? m->entry[i].bytes : 0;
    if (rc == 0) {
        /* at most 2^63 / 4 MiB items and one per file */
        fy_pool_run(pool, (int64_t)c.file[m->n].first_item, 1, check_items, &c);
        rc = atomic_load(&c.fatal) ? fy_fail(e, c.stop.code, "%s", c.stop.msg)
                                   : report(&c, bad, user, e);
    }
    fy_pool_free(pool);
    for (int i = 0; c.buf != NULL && i < n_threads; i++)
        free(c.buf[i]);
    for (size_t i = 0; c.file != NULL && i < m->n; i++)
        free(c.file[i].text);
    free(c.buf);
    free(c.file);
    return rc;
}

typedef struct {
    const char *first; /* view of the manifest */
    fy_err what;
    size_t n;
} first_bad;

static int keep_first(void *user, const fy_manifest_entry *m, const fy_err *what, fy_err *e)
{
    (void)e;
    first_bad *b = user;
    if (b->n++ == 0) {
        b->first = m->path;
        b->what = *what;
    }
    return 0;
}

static int check_seal(const char *dir, fy_bundle_checked *out, fy_err *e)
{
    fy_seal seal;
    uint8_t key[FY_PUBLIC_KEY_BYTES];
    if (fy_seal_open(dir, &seal, e) != 0)
        return -1;
    int rc = fy_seal_check(&seal, key, e);
    if (rc != 0)
        fy_ctx(e, "%s", dir);
    else if (seal.has_key)
        rc = fy_public_key_fingerprint(key, out->fingerprint, e);
    out->is_signed = seal.has_sig;
    fy_seal_close(&seal);
    return rc;
}

int fy_bundle_check(const char *dir, int n_threads, fy_progress *progress, fy_bundle_checked *out,
                    fy_err *e)
{
    fy_manifest m;
    if (fy_manifest_read(dir, &m, e) != 0)
        return -1;
    first_bad b = {0};
    fy_bundle_checked found = {.n_files = m.n};
    int rc = check_seal(dir, &found, e);
    if (rc == 0)
        rc = fy_bundle_hash_all(dir, &m, false, n_threads, progress, keep_first, &b, e);
    if (rc == 0 && b.n == 1)
        rc = fy_fail(e, b.what.code, "%s/%s: %s", dir, b.first, b.what.msg);
    else if (rc == 0 && b.n > 1)
        rc = fy_fail(e, b.what.code, "%s/%s: %s; so %s %zu more file%s", dir, b.first, b.what.msg,
                     b.n > 2 ? "are" : "is", b.n - 1, b.n > 2 ? "s" : "");
    for (size_t i = 0; i < m.n; i++)
        found.bytes += m.entry[i].bytes;
    fy_manifest_release(&m);
    if (rc == 0)
        *out = found;
    return rc;
}
