#include "workspace/pack/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/grow.h"
#include "bundle/bundle_check.h"

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

static int stream(int fd, const char *path, int copy_fd, const char *copy_name, uint8_t *buf,
                  fy_digester *d, fy_progress *progress, fy_err *e)
{
    for (uint64_t at = 0;;) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        ssize_t n = read(fd, buf, READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fy_fail_errno(e, "%s: cannot read", path);
        if (n == 0)
            return 0;
        if (copy_fd >= 0 && fy_write_all(copy_fd, buf, (size_t)n, copy_name, e) != 0)
            return -1;
        if (copy_fd >= 0)
            fy_flush_behind(copy_fd, at, (size_t)n);
        if (fy_digester_add(d, buf, (size_t)n, e) != 0)
            return -1;
        at += (uint64_t)n;
        fy_progress_add(progress, (uint64_t)n);
    }
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
    int rc = -1;
    uint8_t *buf = NULL;
    fy_digester *d = NULL;
    if (fstat(fd, &st) != 0) {
        fy_fail_errno(e, "%s: cannot read its size", path);
    } else if (!S_ISREG(st.st_mode)) {
        fy_fail(e, FY_EVERIFY, "%s: is not a regular file", path);
    } else if ((d = fy_digester_new(e)) != NULL) {
        buf = malloc(READ_BYTES);
        rc = buf != NULL ? stream(fd, path, copy_fd, copy_name, buf, d, progress, e) : fy_nomem(e);
        int ended = fy_digester_end(d, rc == 0 ? out : NULL, e);
        rc = rc == 0 ? ended : rc;
    }
    free(buf);
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
