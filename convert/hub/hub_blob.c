#include "hub/hub_blob.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "hub/hub_hash.h"

#define READ_BYTES ((size_t)1 << 20)

struct fy_hub_blob {
    char *path, *part; /* owned; of the blob, and of what has come of it */
    char hash[65];
    uint64_t size, bytes;
    int fd, lock;         /* -1: none */
    fy_hub_hash *running; /* owned; of the bytes that are there */
};

static char *blob_path(const char *storage, const char *hash, const char *end)
{
    fy_str s = {0};
    fy_str_printf(&s, "%s/blobs/%s%s", storage, hash, end);
    if (s.oom)
        fy_str_release(&s);
    return s.ptr;
}

/* "A/B/C" -> the directory "A/B" is there. */
static int make_parent(const char *path, fy_err *e)
{
    char *dir = strdup(path);
    if (dir == NULL)
        return fy_nomem(e);
    *strrchr(dir, '/') = '\0';
    int rc = fy_mkdirs(dir, e);
    free(dir);
    return rc;
}

/* --- the lock --------------------------------------------------------------------------------- */

static char *lock_path(const char *storage, const char *hash)
{
    fy_span base = fy_path_base(storage);
    fy_str s = {0};
    fy_str_printf(&s, "%.*s.locks/%.*s/%s.lock", (int)(base.ptr - storage), storage, (int)base.len,
                  base.ptr, hash);
    if (s.oom)
        fy_str_release(&s);
    return s.ptr;
}

/* Whoever holds a lock may remove its file: then another one must be locked. */
static int take_lock(fy_hub_blob *b, const char *path, fy_err *e)
{
    for (;;) {
        struct stat held, named;
        b->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (b->lock < 0)
            return fy_fail_errno(e, "%s", path);
        if (flock(b->lock, LOCK_EX | LOCK_NB) != 0)
            return errno != EWOULDBLOCK
                       ? fy_fail_errno(e, "%s", path)
                       : fy_fail(e, FY_EIO,
                                 "%s: another program downloads it now; run this again "
                                 "when it has ended",
                                 b->path);
        if (fstat(b->lock, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino)
            return 0;
        close(b->lock);
    }
}

/* --- contents --------------------------------------------------------------------------------- */

static int hash_what_is_there(fy_hub_blob *b, fy_err *e)
{
    char *buf = malloc(READ_BYTES);
    int rc = buf != NULL ? 0 : fy_nomem(e);
    for (uint64_t at = 0; rc == 0 && at < b->bytes;) {
        uint64_t left = b->bytes - at;
        ssize_t n = pread(b->fd, buf, left < READ_BYTES ? (size_t)left : READ_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n <= 0)
            rc = fy_fail_errno(e, "%s", b->part);
        if (rc == 0 && n > 0)
            rc = fy_hub_hash_add(b->running, buf, (size_t)n, e);
        if (rc == 0)
            rc = fy_check_interrupt(e);
        at += n > 0 ? (uint64_t)n : 0;
    }
    free(buf);
    return rc;
}

int fy_hub_blob_restart(fy_hub_blob *b, fy_err *e)
{
    fy_hub_hash_free(b->running);
    b->bytes = 0;
    b->running = fy_hub_hash_new(strlen(b->hash), b->size, e);
    if (b->running == NULL)
        return -1;
    return ftruncate(b->fd, 0) == 0 ? 0 : fy_fail_errno(e, "%s", b->part);
}

static int open_part(fy_hub_blob *b, fy_err *e)
{
    struct stat st;
    b->fd = fy_open_own(b->part, e);
    if (b->fd < 0)
        return -1;
    if (fstat(b->fd, &st) != 0)
        return fy_fail_errno(e, "%s", b->part);
    if ((uint64_t)st.st_size > b->size)
        return fy_hub_blob_restart(b, e);
    b->bytes = (uint64_t)st.st_size;
    b->running = fy_hub_hash_new(strlen(b->hash), b->size, e);
    return b->running != NULL ? hash_what_is_there(b, e) : -1;
}

fy_hub_blob *fy_hub_blob_open(const char *storage, const char *hash, uint64_t size, fy_err *e)
{
    fy_hub_blob *b = calloc(1, sizeof *b);
    char *lock = lock_path(storage, hash);
    if (b == NULL || lock == NULL) {
        free(b);
        free(lock);
        fy_nomem(e);
        return NULL;
    }
    *b = (fy_hub_blob){.path = blob_path(storage, hash, ""),
                       .part = blob_path(storage, hash, ".incomplete"),
                       .size = size,
                       .fd = -1,
                       .lock = -1};
    snprintf(b->hash, sizeof b->hash, "%s", hash);
    int rc = b->path != NULL && b->part != NULL ? 0 : fy_nomem(e);
    if (rc != 0 || make_parent(lock, e) != 0 || make_parent(b->path, e) != 0 ||
        take_lock(b, lock, e) != 0 || open_part(b, e) != 0) {
        fy_hub_blob_close(b);
        b = NULL;
    }
    free(lock);
    return b;
}

uint64_t fy_hub_blob_bytes(const fy_hub_blob *b)
{
    return b->bytes;
}

int fy_hub_blob_add(fy_hub_blob *b, const void *p, size_t n, fy_err *e)
{
    if (n > b->size - b->bytes)
        return fy_fail(e, FY_EFORMAT,
                       "more bytes came than the %llu that the hub told; nothing of it is used",
                       (unsigned long long)b->size);
    for (size_t at = 0; at < n;) {
        ssize_t w = pwrite(b->fd, (const char *)p + at, n - at, (off_t)(b->bytes + at));
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return fy_fail_errno(e, "%s", b->part);
        at += (size_t)w;
    }
    b->bytes += n;
    return fy_hub_hash_add(b->running, p, n, e);
}

int fy_hub_blob_end(fy_hub_blob *b, char *hex, fy_err *e)
{
    int rc = fy_hub_hash_end(b->running, hex, e);
    b->running = NULL;
    if (rc != 0)
        return -1;
    if (strcmp(hex, b->hash) != 0)
        return fy_hub_blob_restart(b, e) == 0 ? 1 : -1;
    if (fy_sync_fd(b->fd, b->part, e) != 0)
        return -1;
    if (rename(b->part, b->path) != 0)
        return fy_fail_errno(e, "%s", b->path);
    fy_sync_dir_of(b->path);
    close(b->fd);
    b->fd = -1;
    return 0;
}

void fy_hub_blob_close(fy_hub_blob *b)
{
    if (b == NULL)
        return;
    if (b->fd >= 0) {
        if (b->bytes == 0)
            unlink(b->part);
        close(b->fd);
    }
    if (b->lock >= 0)
        close(b->lock);
    fy_hub_hash_free(b->running);
    free(b->path);
    free(b->part);
    free(b);
}

static bool size_of(const char *storage, const char *hash, const char *end, uint64_t *size)
{
    struct stat st;
    char *path = blob_path(storage, hash, end);
    bool there = path != NULL && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    free(path);
    if (there)
        *size = (uint64_t)st.st_size;
    return there;
}

bool fy_hub_blob_is_there(const char *storage, const char *hash, uint64_t size)
{
    uint64_t is;
    return size_of(storage, hash, "", &is) && is == size;
}

uint64_t fy_hub_blob_partial(const char *storage, const char *hash)
{
    uint64_t is;
    return size_of(storage, hash, ".incomplete", &is) ? is : 0;
}

/* --- names ------------------------------------------------------------------------------------ */

/* A link that says something else is replaced, as is what huggingface_hub leaves where it cannot
 * make links. */
static int place_link(const char *target, const char *path, fy_err *e)
{
    char now[PATH_MAX];
    ssize_t n = readlink(path, now, sizeof now - 1);
    now[n > 0 ? n : 0] = '\0';
    if (strcmp(now, target) == 0)
        return 0;
    if (unlink(path) != 0 && errno != ENOENT)
        return fy_fail_errno(e, "%s", path);
    return symlink(target, path) == 0 ? 0
                                      : fy_fail_errno(e, "%s: cannot make a symbolic link", path);
}

int fy_hub_link(const char *storage, const char *commit, const char *name, const char *hash,
                fy_err *e)
{
    fy_err own = {0};
    char shown[sizeof own.msg];
    fy_str path = {0}, target = {0};
    fy_str_printf(&path, "%s/snapshots/%s/%s", storage, commit, name);
    fy_str_puts(&target, "../../");
    for (const char *p = name; *p != '\0'; p++)
        fy_str_puts(&target, *p == '/' ? "../" : "");
    fy_str_printf(&target, "blobs/%s", hash);
    int rc = path.oom || target.oom ? fy_nomem(&own) : make_parent(path.ptr, &own);
    if (rc == 0)
        rc = place_link(target.ptr, path.ptr, &own);
    fy_str_release(&path);
    fy_str_release(&target);
    if (rc == 0)
        return 0;
    return fy_fail(e, own.code, "%s", fy_quote(shown, sizeof shown, fy_span_of(own.msg)));
}

int fy_hub_write_ref(const char *storage, const char *revision, const char *commit, fy_err *e)
{
    if (strcmp(revision, commit) == 0)
        return 0;
    fy_str path = {0};
    fy_str_printf(&path, "%s/refs/%s", storage, revision);
    int rc = path.oom ? fy_nomem(e) : make_parent(path.ptr, e);
    if (rc == 0)
        rc = fy_file_write(path.ptr, commit, strlen(commit), e);
    fy_str_release(&path);
    return rc;
}
