/* Making a manifest: size and hashes of a file, which files it does not list, and its text. */
#include "workspace/pack/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "bundle/bundle_check.h"

/* --- digests ---------------------------------------------------------------------------------- */

#define READ_BYTES ((size_t)1 << 20)

struct fy_digester {
    fy_sha256 *whole, *block; /* owned */
    uint64_t bytes;
    uint8_t *blocks; /* owned */
    size_t n_blocks, cap_blocks;
};

void fy_digest_release(fy_digest *d)
{
    free(d->blocks);
    *d = (fy_digest){0};
}

fy_digester *fy_digester_new(fy_err *e)
{
    fy_digester *d = calloc(1, sizeof *d);
    if (d == NULL) {
        fy_nomem(e);
        return NULL;
    }
    d->whole = fy_sha256_new(e);
    d->block = d->whole != NULL ? fy_sha256_new(e) : NULL;
    if (d->block == NULL) {
        fy_digester_end(d, NULL, NULL);
        return NULL;
    }
    return d;
}

static int end_block(fy_digester *d, fy_err *e)
{
    uint8_t *grown = fy_grow(d->blocks, d->n_blocks, &d->cap_blocks, FY_SHA256_BYTES);
    if (grown == NULL)
        return fy_nomem(e);
    d->blocks = grown;
    fy_sha256 *h = d->block;
    d->block = NULL;
    if (fy_sha256_end(h, d->blocks + d->n_blocks * FY_SHA256_BYTES, e) != 0)
        return -1;
    d->n_blocks++;
    d->block = fy_sha256_new(e);
    return d->block != NULL ? 0 : -1;
}

int fy_digester_add(fy_digester *d, const void *p, size_t n, fy_err *e)
{
    const uint8_t *s = p;
    if (fy_sha256_add(d->whole, p, n, e) != 0)
        return -1;
    while (n > 0) {
        size_t room = FY_MANIFEST_BLOCK - (size_t)(d->bytes % FY_MANIFEST_BLOCK);
        size_t now = n < room ? n : room;
        if (fy_sha256_add(d->block, s, now, e) != 0)
            return -1;
        d->bytes += now;
        s += now;
        n -= now;
        if (now == room && end_block(d, e) != 0)
            return -1;
    }
    return 0;
}

int fy_digester_end(fy_digester *d, fy_digest *out, fy_err *e)
{
    if (d == NULL)
        return 0;
    int rc = 0;
    if (out != NULL) {
        fy_digest made = {.bytes = d->bytes};
        if (d->bytes > FY_MANIFEST_BLOCK && d->bytes % FY_MANIFEST_BLOCK != 0)
            rc = end_block(d, e);
        if (rc == 0) {
            rc = fy_sha256_end(d->whole, made.sha256, e);
            d->whole = NULL;
        }
        if (rc == 0 && d->bytes > FY_MANIFEST_BLOCK) {
            made.blocks = d->blocks;
            d->blocks = NULL;
        }
        if (rc == 0)
            *out = made;
    }
    if (d->whole != NULL)
        fy_sha256_end(d->whole, NULL, NULL);
    if (d->block != NULL)
        fy_sha256_end(d->block, NULL, NULL);
    free(d->blocks);
    free(d);
    return rc;
}

static int stream(int fd, const char *name, fy_digest_sink *sink, void *user, uint8_t *buf,
                  fy_digester *d, fy_progress *progress, fy_err *e)
{
    for (;;) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        ssize_t n = read(fd, buf, READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fy_fail_errno(e, "%s: cannot read", name);
        if (n == 0)
            return 0;
        if ((sink != NULL && sink(user, buf, (size_t)n, e) != 0) ||
            fy_digester_add(d, buf, (size_t)n, e) != 0)
            return -1;
        fy_progress_add(progress, (uint64_t)n);
    }
}

int fy_digest_fd(int fd, const char *name, fy_digest_sink *sink, void *user, fy_progress *progress,
                 fy_digest *out, fy_err *e)
{
    fy_digester *d = fy_digester_new(e);
    uint8_t *buf = malloc(READ_BYTES);
    int rc = d == NULL     ? -1
             : buf == NULL ? fy_nomem(e)
                           : stream(fd, name, sink, user, buf, d, progress, e);
    int ended = fy_digester_end(d, rc == 0 ? out : NULL, e);
    free(buf);
    return rc == 0 ? ended : rc;
}

typedef struct {
    int fd;
    const char *name; /* view */
    uint64_t at;
} copy;

static int to_copy(void *user, const void *p, size_t n, fy_err *e)
{
    copy *c = user;
    if (fy_write_all(c->fd, p, n, c->name, e) != 0)
        return -1;
    fy_flush_behind(c->fd, c->at, n);
    c->at += n;
    return 0;
}

int fy_digest_file(const char *path, int copy_fd, const char *copy_name, fy_progress *progress,
                   fy_digest *out, fy_err *e)
{
    /* O_NONBLOCK: a FIFO under this name must not stop us before it is refused */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ELOOP)
        return fy_fail(e, FY_EVERIFY, "%s: is a symbolic link, expected a file", path);
    if (fd < 0)
        return fy_fail_errno(e, "%s: cannot open", path);
    struct stat st;
    copy c = {copy_fd, copy_name, 0};
    int rc = fstat(fd, &st) != 0 ? fy_fail_errno(e, "%s: cannot read its size", path)
             : !S_ISREG(st.st_mode)
                 ? fy_fail(e, FY_EVERIFY, "%s: is not a regular file", path)
                 : fy_digest_fd(fd, path, copy_fd >= 0 ? to_copy : NULL, &c, progress, out, e);
    close(fd);
    return rc;
}

int fy_digest_compare(const fy_digest *d, const fy_manifest_entry *m, fy_err *e)
{
    if (d->bytes != m->bytes)
        return fy_fail(e, FY_EVERIFY, "%llu bytes, the manifest lists %llu",
                       (unsigned long long)d->bytes, (unsigned long long)m->bytes);
    uint64_t n_blocks = fy_manifest_n_blocks(m->bytes);
    for (uint64_t i = 0; i < n_blocks; i++) {
        if (memcmp(d->blocks + i * FY_SHA256_BYTES, m->blocks + i * FY_SHA256_BYTES,
                   FY_SHA256_BYTES) != 0)
            return fy_manifest_changed(m, i, e);
    }
    if (memcmp(d->sha256, m->sha256, FY_SHA256_BYTES) != 0)
        return fy_manifest_changed(m, n_blocks, e);
    return 0;
}

/* --- what is not listed ----------------------------------------------------------------------- */

void fy_tree_release(fy_tree *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->path[i]);
    free(t->path);
    *t = (fy_tree){0};
}

static int add(fy_tree *t, const char *path, fy_err *e)
{
    char *kept = strdup(path);
    if (kept != NULL && fy_append(&t->path, &t->n, &t->cap, &kept, sizeof kept, e) == 0)
        return 0;
    free(kept);
    return fy_nomem(e);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Has a listed file its place below rel? */
static bool is_needed(const fy_manifest *m, const char *rel)
{
    size_t lo = 0, hi = m->n, n = strlen(rel);
    while (lo < hi) { /* the first path that does not sort before "rel/" */
        size_t mid = lo + (hi - lo) / 2;
        int c = strncmp(m->entry[mid].path, rel, n);
        if (c < 0 || (c == 0 && m->entry[mid].path[n] < '/'))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < m->n && strncmp(m->entry[lo].path, rel, n) == 0 && m->entry[lo].path[n] == '/';
}

static int add_directory(fy_tree *t, const char *rel, fy_err *e)
{
    char *path = fy_path_join(rel, "");
    int rc = path != NULL ? add(t, path, e) : fy_nomem(e);
    free(path);
    return rc;
}

static int walk(FTS *fts, const char *dir, const fy_manifest *m, fy_tree *t, fy_err *e)
{
    FTSENT *en;
    while (errno = 0, (en = fts_read(fts)) != NULL) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        const char *rel = en->fts_path + strlen(dir);
        while (*rel == '/')
            rel++;
        switch (en->fts_info) {
        case FTS_D:
            en->fts_number = (long)t->n;
            break;
        case FTS_DP: /* what is in it was reported already */
            if (*rel != '\0' && (size_t)en->fts_number == t->n && !is_needed(m, rel) &&
                add_directory(t, rel, e) != 0)
                return -1;
            break;
        case FTS_DNR:
        case FTS_ERR:
        case FTS_NS:
            errno = en->fts_errno;
            return fy_fail_errno(e, "%s: cannot read", en->fts_path);
        default:
            if (!fy_manifest_is_unlisted(rel) && fy_manifest_find(m, rel) == NULL &&
                add(t, rel, e) != 0)
                return -1;
        }
    }
    return errno == 0 ? 0 : fy_fail_errno(e, "%s: cannot list", dir);
}

int fy_tree_unlisted(const char *dir, const fy_manifest *m, fy_tree *out, fy_err *e)
{
    char *root = strdup(dir);
    if (root == NULL)
        return fy_nomem(e);
    char *const roots[] = {root, NULL};
    fy_tree t = {0};
    int rc = -1;
    /* COMFOLLOW: the workspace itself may be reached through a link, nothing below it */
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    if (fts == NULL) {
        fy_fail_errno(e, "%s: cannot list", dir);
    } else {
        rc = walk(fts, dir, m, &t, e);
        fts_close(fts);
    }
    free(root);
    if (rc != 0) {
        fy_tree_release(&t);
        return rc;
    }
    if (t.n > 0)
        qsort(t.path, t.n, sizeof *t.path, by_text);
    *out = t;
    return 0;
}

/* --- the text --------------------------------------------------------------------------------- */

int fy_manifest_begin(fy_manifest *m, const char *tool, const char *target, fy_err *e)
{
    *m = (fy_manifest){.tool = strdup(tool), .target = strdup(target)};
    return m->tool != NULL && m->target != NULL ? 0 : fy_nomem(e);
}

int fy_manifest_add(fy_manifest *m, const char *path, uint32_t mode, fy_digest *d, fy_err *e)
{
    fy_manifest_entry en = {.bytes = d->bytes, .mode = mode, .blocks = d->blocks};
    memcpy(en.sha256, d->sha256, sizeof en.sha256);
    d->blocks = NULL;
    int rc = -1;
    if (!fy_manifest_path_ok(path))
        fy_fail(e, FY_EARG, "'%s' cannot be the path of a file in a workspace", path);
    else if ((en.path = fy_path_format(e, "%s", path)) != NULL)
        rc = fy_append(&m->entry, &m->n, &m->cap, &en, sizeof en, e);
    if (rc != 0) {
        free(en.path);
        free(en.blocks);
    }
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const fy_manifest_entry *)a)->path, ((const fy_manifest_entry *)b)->path);
}

static void put_entry(const fy_manifest_entry *m, fy_str *out)
{
    char hex[FY_SHA256_HEX];
    fy_sha256_to_hex(m->sha256, hex);
    fy_str_printf(out,
                  "  {\"path\": \"%s\", \"size\": %llu, \"mode\": \"%04o\",\n   \"sha256\": \"%s\"",
                  m->path, (unsigned long long)m->bytes, (unsigned)m->mode, hex);
    uint64_t n_blocks = fy_manifest_n_blocks(m->bytes);
    for (uint64_t i = 0; i < n_blocks; i++) {
        fy_sha256_to_hex(m->blocks + i * FY_SHA256_BYTES, hex);
        fy_str_printf(out, "%s    \"%s\"", i == 0 ? ",\n   \"blocks\": [\n" : ",\n", hex);
    }
    fy_str_puts(out, n_blocks > 0 ? "]}" : "}");
}

int fy_manifest_text(fy_manifest *m, fy_str *out, fy_err *e)
{
    if (m->n > 0)
        qsort(m->entry, m->n, sizeof *m->entry, by_path);
    size_t begin = out->len;
    fy_str_printf(
        out, "{\n \"format_version\": %d,\n \"tool\": \"%s\",\n \"target\": \"%s\",\n \"files\": [",
        FY_MANIFEST_VERSION, m->tool, m->target);
    for (size_t i = 0; i < m->n; i++) {
        fy_str_puts(out, i == 0 ? "\n" : ",\n");
        put_entry(&m->entry[i], out);
    }
    fy_str_puts(out, "\n ]");
    if (out->oom)
        return fy_nomem(e);
    uint8_t hash[FY_SHA256_BYTES];
    char hex[FY_SHA256_HEX];
    if (fy_sha256_of(out->ptr + begin, out->len - begin, hash, e) != 0)
        return -1;
    fy_sha256_to_hex(hash, hex);
    fy_str_printf(out, ",\n \"sha256\": \"%s\"\n}\n", hex);
    return out->oom ? fy_nomem(e) : 0;
}
