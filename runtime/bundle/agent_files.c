/* The files of a push on the phone: space, links to files of older versions, units that are there
 * already or arrive, and the commit. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/math.h"
#include "bundle/agent_job.h"

static const char *home_of(const fy_agent_job *j)
{
    return j->checking ? j->store.final : j->store.part;
}

/* dir/rel, opened; -1 with errno. A link under the last name is refused. */
static int open_at(const char *dir, const char *rel, int flags)
{
    char *path = fy_path_join(dir, rel);
    if (path == NULL) {
        errno = ENOMEM;
        return -1;
    }
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    int err = errno;
    free(path);
    errno = err;
    return fd;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int check_below(const fy_agent_job *j, fy_err *e)
{
    const char *below = j->p->below;
    size_t n = below != NULL ? strlen(below) : 0;
    if (below == NULL || (strncmp(j->push.path, below, n) == 0 && j->push.path[n] == '/'))
        return 0;
    return fy_fail(e, FY_EARG, "'%.200s' is not below %s", j->push.path, below);
}

int fy_agent_job_open(fy_agent_job *j, fy_err *e)
{
    uint8_t id[FY_SHA256_BYTES];
    if (check_below(j, e) != 0 || fy_sha256_of(j->text.ptr, j->push.manifest_bytes, id, e) != 0 ||
        fy_store_open(&j->store, j->push.path, id, e) != 0)
        return -1;
    j->file = calloc(j->m.n + 1, sizeof *j->file);
    j->scan = calloc(2 * j->m.n + 1, sizeof *j->scan);
    if (j->file == NULL || j->scan == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < j->m.n; i++) {
        j->file[i].first = j->n_units;
        j->n_units += fy_unit_count(&j->m.entry[i]);
    }
    j->unit = calloc(j->n_units + 1, 1);
    return j->unit != NULL ? 0 : fy_nomem(e);
}

/* --- preparing -------------------------------------------------------------------------------- */

/* Bytes that the file will take beyond what it has in .part; 0 where a link will probably do. */
static int need_of(const fy_agent_job *j, size_t i, uint64_t *need, fy_err *e)
{
    const fy_manifest_entry *m = &j->m.entry[i];
    const char *dir;
    struct stat st;
    char *path = fy_path_join(j->store.part, m->path);
    if (path == NULL)
        return fy_nomem(e);
    uint64_t have = 0;
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
        have = st.st_nlink > 1 ? m->bytes : (uint64_t)st.st_blocks * 512;
    else if (fy_store_same_file(&j->store, m, &dir) != NULL)
        have = m->bytes;
    free(path);
    return have >= m->bytes || fy_add_u64(*need, m->bytes - have, need)
               ? 0
               : fy_fail(e, FY_ENOSPACE, "more bytes than any disk holds");
}

static int no_space(const fy_agent_job *j, uint64_t need, uint64_t space, uint64_t old, fy_err *e)
{
    char more[96] = "";
    if (old > 0)
        snprintf(more, sizeof more, ", or %.1f MB of older versions with --prune",
                 (double)old * 1e-6);
    return fy_fail(e, FY_ENOSPACE,
                   "%s: needs %.1f MB more, %.1f MB are free; remove files from the phone%s",
                   j->store.base, (double)need * 1e-6, (double)space * 1e-6, more);
}

/* Before anything is written. */
static int check_space(fy_agent_job *j, fy_err *e)
{
    for (bool again = false;; again = true) {
        uint64_t need = j->text.len, space;
        fy_agent_done old = {0};
        if (fy_store_index(&j->store, j->p->self, j->self_hash, e) != 0 ||
            fy_file_space(j->store.versions, &space, e) != 0)
            return -1;
        for (size_t i = 0; i < j->m.n; i++) {
            if (need_of(j, i, &need, e) != 0)
                return -1;
        }
        if (need <= space) {
            fy_str s = {0};
            fy_agent_put_u64s(&s, FY_AGENT_STATE, space, &need);
            int rc = s.oom ? fy_nomem(e) : fy_agent_job_send(j, s.ptr, s.len, e);
            fy_str_release(&s);
            return rc;
        }
        bool prune = j->push.prune && !again;
        if (fy_store_clean(&j->store, prune, &old, e) != 0)
            return -1;
        if (!prune)
            return no_space(j, need, space, old.old_bytes, e);
    }
}

static int make_parents(const char *path, fy_err *e)
{
    char *dir = strndup(path, (size_t)(strrchr(path, '/') - path));
    if (dir == NULL)
        return fy_nomem(e);
    int rc = fy_mkdirs(dir, e);
    free(dir);
    return rc;
}

/* An empty file of the right size, its space reserved. */
static int reserve(const fy_agent_job *j, const char *path, uint64_t bytes, fy_err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644), err = 0;
    if (fd < 0)
        return fy_fail_errno(e, "%s: cannot create", path);
    if (bytes > 0 && fallocate(fd, 0, 0, (off_t)bytes) != 0)
        err = errno;
    bool full = err == ENOSPC || err == EDQUOT; /* else: a file system without reservation */
    if (!full && ftruncate(fd, (off_t)bytes) != 0)
        err = errno;
    else if (!full)
        err = 0;
    close(fd);
    uint64_t space = 0;
    if (err == ENOSPC || err == EDQUOT) {
        unlink(path);
        fy_file_space(j->store.versions, &space, NULL);
        return no_space(j, bytes, space, 0, e);
    }
    errno = err;
    return err == 0 ? 0 : fy_fail_errno(e, "%s: cannot reserve its bytes", path);
}

/* The same file of an older version under the new name, if the phone allows links. */
static bool link_same(const fy_agent_job *j, const fy_manifest_entry *m, const char *path)
{
    const char *dir;
    struct stat st;
    const fy_manifest_entry *same = fy_store_same_file(&j->store, m, &dir);
    char *from = same != NULL ? fy_path_join(dir, same->path) : NULL;
    bool linked = from != NULL && lstat(from, &st) == 0 && S_ISREG(st.st_mode) &&
                  (uint64_t)st.st_size == m->bytes && (st.st_mode & 0777) == m->mode &&
                  link(from, path) == 0;
    free(from);
    return linked;
}

static int prepare_file(fy_agent_job *j, size_t i, fy_err *e)
{
    const fy_manifest_entry *m = &j->m.entry[i];
    fy_agent_file *f = &j->file[i];
    struct stat st;
    char *path = fy_path_join(j->store.part, m->path);
    int rc = path != NULL ? make_parents(path, e) : fy_nomem(e);
    bool there = rc == 0 && lstat(path, &st) == 0;
    f->linked = f->existed = false;
    if (there && S_ISREG(st.st_mode) && st.st_nlink == 1)
        f->existed = true;
    else if (there && S_ISREG(st.st_mode) && (uint64_t)st.st_size == m->bytes &&
             (st.st_mode & 0777) == m->mode)
        f->linked = true;
    else if (there)
        rc = fy_store_remove(path, e);
    if (rc == 0 && !f->existed && !f->linked)
        f->linked = link_same(j, m, path);
    if (rc == 0 && !f->linked)
        rc = reserve(j, path, m->bytes, e);
    free(path);
    return rc;
}

/* n 0: the file is removed. The commit flushes it. */
static int write_small(const char *path, const char *p, size_t n, fy_err *e)
{
    fy_map map;
    if (n == 0)
        return fy_store_remove(path, e);
    if (fy_map_open(&map, path, NULL) == 0) {
        bool same = map.size == n && memcmp(map.data, p, n) == 0;
        fy_map_close(&map);
        if (same)
            return 0;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (fd < 0)
        return fy_fail_errno(e, "%s: cannot create", path);
    int rc = fy_write_all(fd, p, n, path, e);
    close(fd);
    return rc;
}

int fy_agent_write_unlisted(fy_agent_job *j, const char *dir, fy_err *e)
{
    const struct {
        const char *name;
        size_t bytes;
    } files[] = {{FY_MANIFEST_NAME, (size_t)j->push.manifest_bytes},
                 {FY_MANIFEST_SIG, j->push.sig_bytes},
                 {FY_MANIFEST_KEY, j->push.key_bytes}};
    const char *at = fy_str_z(&j->text);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof files / sizeof files[0]; i++) {
        char *path = fy_path_join(dir, files[i].name);
        rc = path != NULL ? write_small(path, at, files[i].bytes, e) : fy_nomem(e);
        free(path);
        at += files[i].bytes;
    }
    return rc;
}

int fy_agent_job_prepare(fy_agent_job *j, fy_err *e)
{
    if (check_space(j, e) != 0 || fy_mkdirs(j->store.part, e) != 0)
        return -1;
    int rc = fy_agent_write_unlisted(j, j->store.part, e);
    for (size_t i = 0; rc == 0 && i < j->m.n; i++)
        rc = prepare_file(j, i, e);
    return rc;
}

int fy_agent_replace_link(fy_agent_job *j, size_t file, fy_err *e)
{
    const fy_manifest_entry *m = &j->m.entry[file];
    char *path = fy_path_join(j->store.part, m->path);
    int rc = path != NULL ? fy_store_remove(path, e) : fy_nomem(e);
    if (rc == 0)
        rc = reserve(j, path, m->bytes, e);
    j->file[file].linked = j->file[file].existed = false;
    free(path);
    return rc;
}

/* --- units ------------------------------------------------------------------------------------ */

/* Hashes n bytes of fd; with to_fd >= 0 they are written there, too. 1: it is the hash; 0: not, or
 * fewer bytes; -1: only for what is ours to write. */
static int hash_part(int fd, uint64_t off, uint32_t n, int to_fd, uint64_t to_off,
                     const uint8_t want[FY_SHA256_BYTES], uint8_t *scratch, fy_err *e)
{
    fy_sha256 *h = fy_sha256_new(e);
    if (h == NULL)
        return -1;
    int rc = 0;
    while (n > 0) {
        ssize_t got = pread(fd, scratch, n < FY_AGENT_SCRATCH ? n : FY_AGENT_SCRATCH, (off_t)off);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        for (ssize_t put = 0, w; rc == 0 && to_fd >= 0 && put < got; put += w) {
            w = pwrite(to_fd, scratch + put, (size_t)(got - put), (off_t)to_off + put);
            if (w < 0 && errno != EINTR)
                rc = fy_fail_errno(e, "cannot write");
            w = w < 0 ? 0 : w;
        }
        if (rc != 0 || fy_sha256_add(h, scratch, (size_t)got, e) != 0) {
            rc = -1;
            break;
        }
        off += (uint64_t)got;
        to_off += (uint64_t)got;
        n -= (uint32_t)got;
    }
    uint8_t is[FY_SHA256_BYTES];
    if (fy_sha256_end(h, is, e) != 0 || rc != 0)
        return -1;
    return n == 0 && memcmp(is, want, sizeof is) == 0;
}

/* What a broken push reserved but never filled reads as zeros: there is nothing to hash. */
static bool is_hole(int fd, uint64_t off, uint32_t n)
{
    off_t data = n > 0 ? lseek(fd, (off_t)off, SEEK_DATA) : (off_t)off;
    return data < 0 ? errno == ENXIO : (uint64_t)data >= off + n && n > 0;
}

/* In a file of an older version; copied into fd. */
static int copy_from(const fy_agent_job *j, const fy_store_source *at, int fd, uint64_t to_off,
                     const uint8_t *want, uint32_t n, uint8_t *scratch, fy_err *e)
{
    const fy_store_version *v = &j->store.version[at->version];
    const fy_manifest_entry *m = &v->m.entry[at->file];
    if (fy_unit_bytes(m, at->unit) != n)
        return 0;
    int from = open_at(v->dir, m->path, O_RDONLY);
    if (from < 0)
        return 0;
    int rc = hash_part(from, fy_unit_offset(at->unit), n, fd, to_off, want, scratch, e);
    close(from);
    return rc;
}

int fy_agent_find_unit(fy_agent_job *j, size_t file, uint64_t unit, uint8_t *scratch, fy_err *e)
{
    const fy_manifest_entry *m = &j->m.entry[file];
    const fy_agent_file *f = &j->file[file];
    const uint8_t *want = fy_unit_hash(m, unit);
    uint64_t off = fy_unit_offset(unit);
    uint32_t n = fy_unit_bytes(m, unit);
    bool reads_only = j->checking || f->linked;
    int fd = open_at(home_of(j), m->path, reads_only ? O_RDONLY : O_RDWR), rc = 0;
    struct stat st;
    if (fd < 0 && reads_only)
        return 0;
    if (fd < 0 || fstat(fd, &st) != 0) {
        rc = fy_fail_errno(e, "%s: cannot open", m->path);
    } else if (reads_only) {
        bool fits = S_ISREG(st.st_mode) && (uint64_t)st.st_size == m->bytes &&
                    (st.st_mode & 0777) == m->mode;
        rc = fits ? hash_part(fd, off, n, -1, 0, want, scratch, e) : 0;
    } else {
        if (n == 0 || (f->existed && !is_hole(fd, off, n)))
            rc = hash_part(fd, off, n, -1, 0, want, scratch, e);
        size_t n_sources = 0;
        const fy_store_source *at = fy_store_find(&j->store, want, &n_sources);
        for (size_t i = 0; rc == 0 && i < n_sources; i++)
            rc = copy_from(j, &at[i], fd, off, want, n, scratch, e);
        if (rc < 0)
            fy_ctx(e, "%s/%s", j->store.part, m->path);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

int fy_agent_take_unit(fy_agent_job *j, const fy_agent_buffer *b, const uint8_t is[FY_SHA256_BYTES],
                       fy_err *e)
{
    const fy_manifest_entry *m = &j->m.entry[b->file];
    uint64_t off = fy_unit_offset(b->unit), done = 0;
    if (memcmp(is, fy_unit_hash(m, b->unit), FY_SHA256_BYTES) != 0)
        return fy_fail(e, FY_EVERIFY,
                       "%s: bytes %llu to %llu arrived with another SHA-256 than the manifest "
                       "lists: the file changed while it was sent, or the link is at fault",
                       m->path, (unsigned long long)off,
                       (unsigned long long)(off + b->have - (b->have > 0)));
    int fd = open_at(j->store.part, m->path, O_WRONLY), rc = 0;
    if (fd < 0)
        return fy_fail_errno(e, "%s/%s: cannot open", j->store.part, m->path);
    while (rc == 0 && done < b->have) {
        ssize_t w = pwrite(fd, b->bytes + done, b->have - done, (off_t)(off + done));
        if (w < 0 && errno != EINTR)
            rc = fy_fail_errno(e, "%s/%s: cannot write", j->store.part, m->path);
        done += w > 0 ? (uint64_t)w : 0;
    }
    /* begin to write it to the disk now, so that the fsync at the end waits less */
    sync_file_range(fd, (off_t)off, b->have, SYNC_FILE_RANGE_WRITE);
    close(fd);
    return rc;
}

int fy_agent_finish_file(fy_agent_job *j, size_t file, fy_err *e)
{
    const fy_manifest_entry *m = &j->m.entry[file];
    if (j->file[file].linked)
        return 0;
    int fd = open_at(j->store.part, m->path, O_RDWR), rc = 0;
    if (fd < 0 || fchmod(fd, m->mode) != 0 || fsync(fd) != 0)
        rc = fy_fail_errno(e, "%s/%s: cannot flush to disk", j->store.part, m->path);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Names last only when their directories were flushed: each one between a file and .part, once.
 * Paths are sorted, so the files below a directory follow each other. */
static int sync_directories(const fy_agent_job *j, fy_err *e)
{
    for (size_t i = 0; i < j->m.n; i++) {
        const char *rel = j->m.entry[i].path, *next = i + 1 < j->m.n ? j->m.entry[i + 1].path : "";
        char *path = fy_path_join(j->store.part, rel);
        if (path == NULL)
            return fy_nomem(e);
        size_t root = strlen(path) - strlen(rel);
        for (char *slash; (slash = strrchr(path, '/')) != NULL && (size_t)(slash - path) >= root;) {
            size_t n = (size_t)(slash - path) - root + 1; /* "a/b/" of rel */
            if (strncmp(rel, next, n) != 0)
                fy_sync_dir_of(path);
            *slash = '\0';
        }
        free(path);
    }
    const char *unlisted[] = {FY_MANIFEST_NAME, FY_MANIFEST_SIG, FY_MANIFEST_KEY};
    for (size_t i = 0; i < sizeof unlisted / sizeof unlisted[0]; i++) {
        int fd = open_at(j->store.part, unlisted[i], O_RDONLY);
        if (fd >= 0 && fsync(fd) != 0)
            fy_fail_errno(e, "%s/%s: cannot flush to disk", j->store.part, unlisted[i]);
        if (fd >= 0)
            close(fd);
    }
    if (e->code != FY_OK)
        return -1;
    char *inside = fy_path_join(j->store.part, FY_MANIFEST_NAME);
    if (inside == NULL)
        return fy_nomem(e);
    fy_sync_dir_of(inside);
    free(inside);
    return 0;
}

int fy_agent_job_commit(fy_agent_job *j, fy_err *e)
{
    return sync_directories(j, e) == 0 ? fy_store_commit(&j->store, e) : -1;
}
