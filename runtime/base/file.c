/* Input maps (read-only, copied or locked) and outputs that get their final name once they are
 * whole: locking, reserving, flushing in steps, renaming, and removal when the process dies. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "base/str.h"

enum {
    STEP_BYTES = 8 << 20,      /* read or locked at once: often enough to show and to stop */
    SYNC_BYTES = 8 << 20,      /* flushed at once: 0.1 s on a disk of 80 MB/s */
    HUGE_PAGE_BYTES = 2 << 20, /* of arm64 and x86-64 with pages of 4 KiB */
};

static int read_in(uint8_t *to, size_t size, int fd, const char *path, fy_progress *progress,
                   fy_err *e)
{
    for (size_t at = 0; at < size;) {
        const size_t want = size - at < STEP_BYTES ? size - at : STEP_BYTES;
        const ssize_t got = pread(fd, to + at, want, (off_t)at);
        if (fy_check_interrupt(e) != 0)
            return -1;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fy_fail_errno(e, "%s: cannot read at offset %zu", path, at);
        if (got == 0)
            return fy_fail(e, FY_EIO, "%s: ends at %zu of %zu bytes: it was cut short while in use",
                           path, at, size);
        at += (size_t)got;
        fy_progress_add(progress, (uint64_t)got);
    }
    return 0;
}

/* The copy begins on a huge page boundary, so that the kernel can use huge pages from the first
 * byte on. They are only requested: small pages work as well. */
static int make_copy(fy_map *m, int fd, const char *path, fy_progress *progress, fy_err *e)
{
    size_t bytes;
    if (__builtin_add_overflow(m->size, (size_t)HUGE_PAGE_BYTES, &bytes))
        return fy_fail(e, FY_EFIT, "%s: %zu bytes do not fit the address space", path, m->size);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return fy_fail(e, FY_EFIT,
                       "%s: no memory for a copy of its %zu MB; without one the file is mapped",
                       path, m->size >> 20);
    m->base = base;
    m->mapped = bytes;
    m->is_copy = true;
    uint8_t *begin = (uint8_t *)base + (-(uintptr_t)base & (HUGE_PAGE_BYTES - 1));
    m->data = begin;
    madvise(base, bytes, MADV_HUGEPAGE);
    if (read_in(begin, m->size, fd, path, progress, e) != 0)
        return -1;
    mprotect(base, bytes, PROT_READ); /* read-only, as a map of the file is */
    return 0;
}

static int map_file(fy_map *m, int fd, const char *path, bool huge, fy_err *e)
{
    void *base = mmap(NULL, m->size, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return fy_fail_errno(e, "%s: cannot map %zu bytes", path, m->size);
    m->base = base;
    m->data = base;
    m->mapped = m->size;
    if (huge)
        madvise(base, m->size, MADV_HUGEPAGE);
    return 0;
}

static void warn_not_locked(const char *path, size_t size, size_t at, int err)
{
    struct rlimit limit = {0};
    const bool limited = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < size;
    fy_str why = {0};
    if (limited)
        fy_str_printf(&why, "the limit is %.1f MB (ulimit -l); raise it, or run without locking",
                      (double)limit.rlim_cur * 1e-6);
    else
        fy_str_puts(&why, strerror(err));
    fy_log(FY_LOG_WARN, "%s: %.1f of its %.1f MB are locked in memory: %s", path, (double)at * 1e-6,
           (double)size * 1e-6, fy_str_z(&why));
    fy_str_release(&why);
}

/* Reads what is not copied yet. In steps, since mlock cannot be interrupted. */
static int lock(fy_map *m, const char *path, fy_progress *progress, fy_err *e)
{
    for (size_t at = 0; at < m->size; at += STEP_BYTES) {
        const size_t n = m->size - at < STEP_BYTES ? m->size - at : STEP_BYTES;
        if (fy_check_interrupt(e) != 0)
            return -1;
        if (mlock(m->data + at, n) != 0) {
            warn_not_locked(path, m->size, at, errno);
            return 0;
        }
        fy_progress_add(m->is_copy ? NULL : progress, n);
    }
    return 0;
}

static int fill(fy_map *m, int fd, const char *path, const fy_map_options *options, fy_err *e)
{
    if (m->size == 0)
        return 0;
    if (options->progress != NULL)
        options->progress->total_bytes = m->size;
    const int rc = options->read ? make_copy(m, fd, path, options->progress, e)
                                 : map_file(m, fd, path, options->huge, e);
    return rc == 0 && options->lock ? lock(m, path, options->progress, e) : rc;
}

/* A name that another machine has just replaced may be known by its old handle: a second look finds
 * the new one. */
static int open_now(const char *path, int flags)
{
    const int fd = open(path, flags, 0666);
    return fd < 0 && errno == ESTALE ? open(path, flags, 0666) : fd;
}

int fy_map_open_as(fy_map *m, const char *path, const fy_map_options *options, fy_err *e)
{
    *m = (fy_map){0};
    /* a pipe is refused below, not waited for */
    int fd = open_now(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fy_fail_errno(e, "%s: cannot open", path);
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) != 0)
        rc = fy_fail_errno(e, "%s: cannot read its size", path);
    else if (!S_ISREG(st.st_mode))
        rc = fy_fail(e, FY_EIO, "%s: %s, expected a file", path,
                     S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file");
    if (rc == 0) {
        *m = (fy_map){.data = (const uint8_t *)"", .size = (size_t)st.st_size};
        rc = fill(m, fd, path, options, e);
    }
    close(fd);
    if (rc != 0)
        fy_map_close(m);
    return rc;
}

int fy_map_open(fy_map *m, const char *path, fy_err *e)
{
    const fy_map_options mapped = {0};
    return fy_map_open_as(m, path, &mapped, e);
}

int fy_map_open_in(fy_map *m, const char *dir, const char *name, fy_err *e)
{
    char *path = fy_path_format(e, "%s/%s", dir, name);
    int rc = path != NULL ? fy_map_open(m, path, e) : -1;
    free(path);
    return rc;
}

void fy_map_close(fy_map *m)
{
    if (m->base != NULL)
        munmap(m->base, m->mapped);
    *m = (fy_map){0};
}

void fy_map_drop(const fy_map *m, uint64_t off, uint64_t len)
{
    if (m->base == NULL || m->is_copy || off >= m->size)
        return;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t end = len > m->size - off ? m->size : off + len;
    uint64_t begin = (off + page - 1) & ~(page - 1);
    end &= ~(page - 1);
    if (begin < end)
        madvise((char *)m->base + begin, end - begin, MADV_DONTNEED);
}

#define HASH_BYTES (UINT64_C(16) << 20)

int fy_file_sha256(const char *path, char out[FY_SHA256_HEX], fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    fy_map map;
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    fy_sha256 *h = fy_sha256_new(e);
    int rc = h != NULL ? 0 : -1;
    for (uint64_t at = 0; rc == 0 && at < map.size; at += HASH_BYTES) {
        const uint64_t n = map.size - at < HASH_BYTES ? map.size - at : HASH_BYTES;
        rc = fy_check_interrupt(e) == 0 ? fy_sha256_add(h, map.data + at, n, e) : -1;
        fy_map_drop(&map, at, n);
    }
    if (h != NULL && fy_sha256_end(h, rc == 0 ? hash : NULL, e) != 0)
        rc = -1;
    fy_map_close(&map);
    if (rc == 0)
        fy_sha256_to_hex(hash, out);
    return rc;
}

struct fy_out {
    int fd;     /* of part; holds the lock */
    char *path; /* owned */
    char *part; /* owned */
    int slot;   /* in g_parts; -1: none was free */
};

/* The .part files of this process, for a signal handler that ends it. A slot is taken while it is
 * not NULL. */
static char *_Atomic g_parts[16];
enum { N_PARTS = sizeof g_parts / sizeof g_parts[0] };

static void register_part(fy_out *o)
{
    for (o->slot = N_PARTS - 1; o->slot >= 0; o->slot--) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&g_parts[o->slot], &none, o->part))
            return;
    }
}

static void forget_part(fy_out *o)
{
    if (o->slot >= 0)
        atomic_store(&g_parts[o->slot], NULL);
    o->slot = -1;
}

void fy_out_unlink_all(void)
{
    for (int i = 0; i < N_PARTS; i++) {
        const char *part = atomic_load(&g_parts[i]);
        if (part != NULL)
            unlink(part);
    }
}

static void out_free(fy_out *o)
{
    forget_part(o);
    if (o->fd >= 0)
        close(o->fd);
    free(o->path);
    free(o->part);
    free(o);
}

/* Only a regular file may be replaced: a rename over /dev/null would take the device away. */
static int check_target(const char *path, fy_err *e)
{
    struct stat st;
    if (path[0] == '\0')
        return fy_fail(e, FY_EARG, "an empty name, expected the name of a file to write");
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
        return 0;
    return fy_fail(e, FY_EARG, "%s: %s, expected the name of a file to write", path,
                   S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file");
}

/* The directory that holds `path`; NULL when out of memory. The caller frees it. */
static char *dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

int fy_check_own(int fd, const char *path, fy_err *e)
{
    struct stat st, at;
    if (fstat(fd, &st) != 0)
        return fy_fail_errno(e, "%s: cannot read its owner", path);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return fy_fail(e, FY_EIO, "%s: is not a regular file; remove it", path);
    if (S_ISREG(st.st_mode) && st.st_nlink > 1)
        return fy_fail(e, FY_EIO, "%s: has %llu names (hard links), expected one; remove it", path,
                       (unsigned long long)st.st_nlink);
    if (st.st_uid == geteuid())
        return 0;
    char *dir = dir_of(path);
    if (dir == NULL)
        return fy_nomem(e);
    const bool by_dir = stat(dir, &at) == 0 && at.st_uid == st.st_uid;
    free(dir);
    return by_dir ? 0
                  : fy_fail(e, FY_EIO,
                            "%s: belongs to another user (uid %lu); remove it, or choose another "
                            "name",
                            path, (unsigned long)st.st_uid);
}

int fy_open_own(const char *path, fy_err *e)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open_now(path, flags | O_CREAT | O_EXCL);
    if (fd >= 0)
        return fd;
    if (errno == EEXIST)
        fd = open_now(path, flags);
    if (fd < 0)
        return errno == ELOOP ? fy_fail(e, FY_EIO, "%s: is a symbolic link; remove it", path)
                              : fy_fail_errno(e, "%s: cannot create", path);
    if (fy_check_own(fd, path, e) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Opens .part for this process alone: two writers would mix their bytes under one name. Nothing is
 * changed before the lock is held. */
static int open_part(fy_out *o, fy_err *e)
{
    struct stat by_fd, by_name;
    o->fd = fy_open_own(o->part, e);
    if (o->fd < 0)
        return -1;
    if (fstat(o->fd, &by_fd) != 0)
        return fy_fail_errno(e, "%s: cannot read its size", o->part);
    if (flock(o->fd, LOCK_EX | LOCK_NB) != 0 &&
        errno == EWOULDBLOCK) /* not every file system has locks */
        return fy_fail(e, FY_EIO, "%s: another ferry is writing it now", o->part);
    if (lstat(o->part, &by_name) != 0 || by_fd.st_ino != by_name.st_ino ||
        by_fd.st_dev != by_name.st_dev)
        return fy_fail(e, FY_EIO, "%s: another ferry has just finished it", o->part);
    return 0;
}

static fy_out *out_new(const char *path, fy_err *e)
{
    fy_out *o = calloc(1, sizeof *o);
    if (o == NULL) {
        fy_nomem(e);
        return NULL;
    }
    o->fd = o->slot = -1;
    o->path = strdup(path);
    o->part = malloc(strlen(path) + sizeof ".part");
    if (o->path == NULL || o->part == NULL) {
        fy_nomem(e);
        out_free(o);
        return NULL;
    }
    sprintf(o->part, "%s.part", path);
    return o;
}

fy_out *fy_out_open_kept(const char *path, fy_err *e)
{
    fy_out *o = out_new(path, e);
    if (o == NULL)
        return NULL;
    if (check_target(path, e) == 0 && open_part(o, e) == 0)
        return o;
    out_free(o);
    return NULL;
}

int fy_out_resize(fy_out *o, uint64_t size, fy_err *e)
{
    struct stat st;
    if (size > INT64_MAX)
        return fy_fail(e, FY_ENOSPACE, "%s: %llu bytes is more than a file can hold", o->path,
                       (unsigned long long)size);
    if (fstat(o->fd, &st) != 0)
        return fy_fail_errno(e, "%s: cannot read its size", o->part);
    if (size <= (uint64_t)st.st_size)
        return ftruncate(o->fd, (off_t)size) == 0
                   ? 0
                   : fy_fail_errno(e, "%s: cannot cut to %llu bytes", o->part,
                                   (unsigned long long)size);
    int err;
    do /* (posix_fallocate writes to every block where the file system cannot reserve) */
        err = fallocate(o->fd, 0, 0, (off_t)size) == 0 ? 0 : errno;
    while (err == EINTR && fy_check_interrupt(e) == 0);
    if (err == EINVAL || err == EOPNOTSUPP || err == ENOSYS)
        err = ftruncate(o->fd, (off_t)size) == 0 ? 0 : errno;
    if (err == 0)
        return 0;
    errno = err;
    return fy_fail_errno(e, "%s: cannot reserve %llu bytes", o->part, (unsigned long long)size);
}

fy_out *fy_out_open(const char *path, uint64_t size, fy_err *e)
{
    fy_out *o = fy_out_open_kept(path, e);
    if (o == NULL)
        return NULL;
    register_part(o);
    if (fy_out_resize(o, 0, e) == 0 && fy_out_resize(o, size, e) == 0)
        return o;
    fy_out_abort(o);
    return NULL;
}

/* --- an output of several processes ------------------------------------------------------------
 */

#define SHARED_MAGIC "FYPARTS\n" /* after the contents, with id and key */
enum { ID_BYTES = (FY_OUT_ID_HEX - 1) / 2, KEY_AT = 8 + ID_BYTES, TAG_BYTES = KEY_AT + 32 };

/* Makes the file, which takes no space yet, under a name of its own and links it to the one that
 * all open: it is there whole or not at all, and who comes second uses what the first has made. */
static int make_shared(const fy_out *o, uint64_t size, const uint8_t *key, fy_err *e)
{
    uint8_t tag[TAG_BYTES];
    char name[2 * ID_BYTES + 1];
    fy_str tmp = {0};
    memcpy(tag, SHARED_MAGIC, 8);
    memcpy(tag + KEY_AT, key, 32);
    if (getrandom(tag + 8, ID_BYTES, 0) != ID_BYTES)
        return fy_fail_errno(e, "no random bytes");
    for (int i = 0; i < ID_BYTES; i++)
        sprintf(name + 2 * i, "%02x", tag[8 + i]);
    fy_str_printf(&tmp, "%s.%s", o->part, name);
    if (tmp.oom)
        return fy_nomem(e);
    fy_out new = {.path = o->path, .part = (char *)(uintptr_t)fy_str_z(&tmp), .slot = -1};
    new.fd = fy_open_own(new.part, e);
    int rc = new.fd < 0 ? -1 : fy_out_pwrite(&new, tag, sizeof tag, size, e);
    if (rc == 0 && fsync(new.fd) != 0)
        rc = fy_fail_errno(e, "%s: cannot flush to disk", new.part);
    if (rc == 0 && link(new.part, o->part) != 0 && errno != EEXIST)
        rc = fy_fail_errno(e, "%s: cannot create", o->part);
    if (new.fd >= 0) {
        close(new.fd);
        unlink(new.part);
    }
    fy_str_release(&tmp);
    return rc;
}

static int open_shared(const fy_out *o, fy_err *e)
{
    struct stat st;
    const int fd = open_now(o->part, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return fy_fail_errno(e, "%s: cannot open", o->part);
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
        return fd;
    close(fd);
    return fy_fail(e, FY_EIO, "%s: is not a regular file of this user; remove it", o->part);
}

static int read_tag(fy_out *o, uint64_t size, const uint8_t *key, char id[FY_OUT_ID_HEX], fy_err *e)
{
    uint8_t tag[TAG_BYTES];
    uint64_t found = 0;
    if (fy_out_size(o, &found, e) != 0)
        return -1;
    id[0] = '\0';
    if (found == size)
        return 0;
    if (found != size + TAG_BYTES || fy_out_pread(o, tag, sizeof tag, size, NULL) != 0 ||
        memcmp(tag, SHARED_MAGIC, 8) != 0 || memcmp(tag + KEY_AT, key, 32) != 0)
        return fy_fail(e, FY_EARG,
                       "%s: is of other work: another source, other options or another program; "
                       "remove it when nothing writes it",
                       o->part);
    for (int i = 0; i < ID_BYTES; i++)
        sprintf(id + 2 * i, "%02x", tag[8 + i]);
    return 0;
}

fy_out *fy_out_open_shared(const char *path, uint64_t size, const uint8_t key[32], bool make,
                           char id[FY_OUT_ID_HEX], fy_err *e)
{
    struct stat st;
    fy_out *o = out_new(path, e);
    if (o == NULL)
        return NULL;
    if (check_target(path, e) == 0 &&
        (!make || lstat(o->part, &st) == 0 || make_shared(o, size, key, e) == 0) &&
        (o->fd = open_shared(o, e)) >= 0 && read_tag(o, size, key, id, e) == 0)
        return o;
    out_free(o);
    return NULL;
}

void fy_out_remove_unlinked(const char *path)
{
    const fy_span base = fy_path_base(path);
    char *dir = dir_of(path);
    DIR *d = dir != NULL ? opendir(dir) : NULL;
    const struct dirent *entry;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        const fy_span name = fy_span_of(entry->d_name);
        const size_t at = base.len + sizeof ".part." - 1;
        if (name.len == at + 2 * ID_BYTES && memcmp(name.ptr, base.ptr, base.len) == 0 &&
            memcmp(name.ptr + base.len, ".part.", at - base.len) == 0 &&
            strspn(name.ptr + at, "0123456789abcdef") == 2 * ID_BYTES)
            unlinkat(dirfd(d), entry->d_name, 0);
    }
    if (d != NULL)
        closedir(d);
    free(dir);
}

const char *fy_out_part(const fy_out *o)
{
    return o->part;
}

int fy_out_size(const fy_out *o, uint64_t *size, fy_err *e)
{
    struct stat st;
    if (fstat(o->fd, &st) != 0)
        return fy_fail_errno(e, "%s: cannot read its size", o->part);
    *size = (uint64_t)st.st_size;
    return 0;
}

int fy_out_pread(const fy_out *o, void *p, size_t n, uint64_t off, fy_err *e)
{
    for (char *to = p; n > 0;) {
        ssize_t got = pread(o->fd, to, n, (off_t)off);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fy_fail_errno(e, "%s: cannot read at offset %llu", o->part,
                                 (unsigned long long)off);
        if (got == 0)
            return fy_fail(e, FY_EIO, "%s: ends at %llu", o->part, (unsigned long long)off);
        to += got;
        n -= (size_t)got;
        off += (uint64_t)got;
    }
    return 0;
}

/* Waits step by step until the bytes of the file are written: an fsync cannot be stopped, so it is
 * left little to do. until_s 0: until interrupted, else until then; FY_EINTR after either. */
static int write_back(int fd, const char *name, double until_s, fy_err *e)
{
    const unsigned flags =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fy_fail_errno(e, "%s: cannot read its size", name);
    for (off_t at = 0; st.st_size - at > SYNC_BYTES; at += SYNC_BYTES) {
        sync_file_range(fd, at + SYNC_BYTES, SYNC_BYTES, SYNC_FILE_RANGE_WRITE); /* the next one */
        if (sync_file_range(fd, at, SYNC_BYTES, flags) != 0 && (errno == EIO || errno == ENOSPC))
            return fy_fail_errno(e, "%s: cannot flush to disk", name);
        if (until_s == 0 && fy_check_interrupt(e) != 0)
            return -1;
        if (until_s != 0 && fy_now_s() > until_s)
            return fy_fail(e, FY_EINTR, "%s: not flushed to disk in time", name);
    }
    return 0;
}

int fy_sync_fd(int fd, const char *name, fy_err *e)
{
    if (write_back(fd, name, 0, e) != 0)
        return -1;
    return fsync(fd) == 0 ? 0 : fy_fail_errno(e, "%s: cannot flush to disk", name);
}

int fy_out_sync(fy_out *o, int most_ms, fy_err *e)
{
    if (write_back(o->fd, o->part, most_ms > 0 ? fy_now_s() + most_ms * 1e-3 : 0, e) != 0)
        return -1;
    return fdatasync(o->fd) == 0 ? 0 : fy_fail_errno(e, "%s: cannot flush to disk", o->part);
}

uint64_t fy_out_held(const char *path)
{
    struct stat st;
    fy_str part = {0};
    fy_str_printf(&part, "%s.part", path);
    const bool there = !part.oom && lstat(part.ptr, &st) == 0 && S_ISREG(st.st_mode);
    fy_str_release(&part);
    return there ? (uint64_t)st.st_blocks * 512 : 0;
}

/* off: where; NULL: where the file stands. */
static int write_whole(int fd, const char *p, size_t n, const uint64_t *off, const char *name,
                       fy_err *e)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t w = off != NULL ? pwrite(fd, p + done, n - done, (off_t)(*off + done))
                                      : write(fd, p + done, n - done);
        if (w < 0 && errno == EINTR)
            continue;
        if (w == 0)
            errno = ENOSPC;
        if (w <= 0 && off == NULL)
            return fy_fail_errno(e, "%s: cannot write %zu bytes", name, n - done);
        if (w <= 0)
            return fy_fail_errno(e, "%s: cannot write %zu bytes at offset %llu", name, n - done,
                                 (unsigned long long)(*off + done));
        done += (size_t)w;
    }
    return 0;
}

int fy_write_all(int fd, const void *p, size_t n, const char *name, fy_err *e)
{
    return write_whole(fd, p, n, NULL, name, e);
}

int fy_out_pwrite(fy_out *o, const void *p, size_t n, uint64_t off, fy_err *e)
{
    return write_whole(o->fd, p, n, &off, o->part, e);
}

void fy_out_begin_sync(fy_out *o, uint64_t off, uint64_t n)
{
    sync_file_range(o->fd, (off_t)off, (off_t)n, SYNC_FILE_RANGE_WRITE);
}

void fy_flush_behind(int fd, uint64_t at, size_t n)
{
    const uint64_t step = (uint64_t)32 << 20;
    for (uint64_t k = at / step; k < (at + n) / step; k++) {
        sync_file_range(fd, (off_t)(k * step), (off_t)step, SYNC_FILE_RANGE_WRITE);
        if (k > 0)
            sync_file_range(fd, (off_t)((k - 1) * step), (off_t)step,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                SYNC_FILE_RANGE_WAIT_AFTER);
    }
}

void fy_out_flush_behind(fy_out *o, uint64_t at, size_t n)
{
    fy_flush_behind(o->fd, at, n);
}

void fy_sync_dir_of(const char *path)
{
    char *dir = dir_of(path);
    if (dir == NULL)
        return;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd); /* best effort: some file systems refuse it */
        close(fd);
    }
    free(dir);
}

int fy_out_commit(fy_out *o, fy_err *e)
{
    if (write_back(o->fd, o->part, 0, e) == 0)
        return fy_out_finish(o, e);
    fy_out_abort(o);
    return -1;
}

int fy_out_finish(fy_out *o, fy_err *e)
{
    int rc = 0;
    if (fsync(o->fd) != 0)
        rc = fy_fail_errno(e, "%s: cannot flush to disk", o->part);
    if (rc == 0 && rename(o->part, o->path) != 0)
        rc = fy_fail_errno(e, "%s: cannot rename to %s", o->part, o->path);
    if (rc != 0)
        unlink(o->part);
    forget_part(o);
    if (rc == 0)
        fy_sync_dir_of(o->path);
    out_free(o);
    return rc;
}

void fy_out_abort(fy_out *o)
{
    if (o == NULL)
        return;
    unlink(o->part);
    out_free(o);
}

void fy_out_leave(fy_out *o)
{
    if (o != NULL)
        out_free(o);
}

int fy_file_write(const char *path, const void *p, size_t n, fy_err *e)
{
    fy_out *o = fy_out_open(path, 0, e);
    if (o == NULL)
        return -1;
    if (fy_out_pwrite(o, p, n, 0, e) != 0) {
        fy_out_abort(o);
        return -1;
    }
    return fy_out_commit(o, e);
}

int fy_file_space(const char *path, uint64_t *bytes, fy_err *e)
{
    char *dir = strdup(path);
    if (dir == NULL)
        return fy_nomem(e);
    struct statvfs v;
    int rc;
    while ((rc = statvfs(dir[0] ? dir : ".", &v)) != 0 && errno == ENOENT && dir[0]) {
        char *slash = strrchr(dir, '/');
        if (slash == NULL)
            dir[0] = '\0';
        else
            slash[slash == dir] = '\0';
    }
    if (rc != 0)
        fy_fail_errno(e, "%s: cannot read the free space", path);
    else
        *bytes = (uint64_t)v.f_bavail * v.f_frsize;
    free(dir);
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    remove(path);
    return 0;
}

int fy_tree_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH);
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

bool fy_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool fy_file_is_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool fy_file_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool fy_dir_has(const char *dir, const char *name)
{
    char path[PATH_MAX]; /* no file has a longer one */
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path && fy_file_exists(path);
}
