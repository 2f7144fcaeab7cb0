/* The entries of the hub's cache (hub_store.h). */
#include "hub/hub_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "hub/hub_cache.h"
#include "hub/hub_model.h"

/* --- looking ---------------------------------------------------------------------------------- */

/* Sums the regular files of blobs/. */
static int count_blobs(fy_hub_entry *x, fy_err *e)
{
    char *path = fy_path_join(x->path, "blobs");
    DIR *d = path != NULL ? opendir(path) : NULL;
    struct stat st;
    for (struct dirent *en; d != NULL && (en = readdir(d)) != NULL;) {
        if (fstatat(dirfd(d), en->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        x->bytes += (uint64_t)st.st_size;
        if (fy_span_ends(fy_span_of(en->d_name), ".incomplete"))
            x->partial_bytes += (uint64_t)st.st_size;
        if (st.st_atime > x->used)
            x->used = st.st_atime;
        if (st.st_mtime > x->used)
            x->used = st.st_mtime;
    }
    if (d != NULL)
        closedir(d);
    free(path);
    return path != NULL ? 0 : fy_nomem(e);
}

/* Every snapshot's models, each type once. */
static int list_models(fy_hub_entry *x, fy_err *e)
{
    fy_str what = {0};
    char *path = fy_path_join(x->path, "snapshots");
    DIR *d = path != NULL ? opendir(path) : NULL;
    int rc = path != NULL ? 0 : fy_nomem(e);
    for (struct dirent *en; rc == 0 && d != NULL && (en = readdir(d)) != NULL;) {
        if (en->d_name[0] == '.')
            continue;
        char *dir = fy_path_join(path, en->d_name);
        if (dir == NULL)
            rc = fy_nomem(e);
        else if (fy_file_is_dir(dir))
            rc = fy_hub_put_models(dir, &what, e);
        free(dir);
    }
    if (d != NULL)
        closedir(d);
    free(path);
    x->what = rc == 0 && !what.oom ? strdup(fy_str_z(&what)) : NULL;
    fy_str_release(&what);
    return rc != 0 ? -1 : x->what != NULL ? 0 : fy_nomem(e);
}

static void release(fy_hub_entry *x)
{
    free(x->id);
    free(x->path);
    free(x->what);
}

static int add_entry(fy_hub_entries *l, const char *cache, const char *name, fy_err *e)
{
    fy_hub_entry x = {.path = fy_path_join(cache, name)};
    struct stat st;
    int rc = x.path != NULL ? 0 : fy_nomem(e);
    if (rc == 0 && (lstat(x.path, &st) != 0 || !S_ISDIR(st.st_mode))) {
        release(&x);
        return 0;
    }
    if (rc == 0)
        rc = fy_hub_entry_id(fy_span_of(name), &x.id, e);
    if (rc == 0 && x.id != NULL)
        rc = count_blobs(&x, e) != 0 || list_models(&x, e) != 0 ||
                     fy_append(&l->entry, &l->n, &l->cap, &x, sizeof x, e) != 0
                 ? -1
                 : 0;
    if (rc != 0 || x.id == NULL)
        release(&x);
    return rc;
}

static int by_id(const void *a, const void *b)
{
    const fy_hub_entry *x = a, *y = b;
    return strcmp(x->id, y->id);
}

int fy_hub_entries_of(const char *cache, fy_hub_entries *out, fy_err *e)
{
    fy_hub_entries l = {0};
    DIR *d = opendir(cache);
    if (d == NULL && errno != ENOENT)
        return fy_fail_errno(e, "%s", cache);
    int rc = 0;
    for (struct dirent *en; rc == 0 && d != NULL && (en = readdir(d)) != NULL;)
        rc = add_entry(&l, cache, en->d_name, e);
    if (d != NULL)
        closedir(d);
    if (rc != 0) {
        fy_hub_entries_release(&l);
        return -1;
    }
    if (l.n > 0)
        qsort(l.entry, l.n, sizeof *l.entry, by_id);
    *out = l;
    return 0;
}

void fy_hub_entries_release(fy_hub_entries *l)
{
    for (size_t i = 0; i < l->n; i++)
        release(&l->entry[i]);
    free(l->entry);
    *l = (fy_hub_entries){0};
}

/* --- removing --------------------------------------------------------------------------------- */

/* FY_EIO when a file of the directory is locked. */
static int check_locks(const char *locks, fy_err *e)
{
    DIR *d = opendir(locks);
    int rc = 0;
    for (struct dirent *en; rc == 0 && d != NULL && (en = readdir(d)) != NULL;) {
        int fd = openat(dirfd(d), en->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            rc = -1;
        if (fd >= 0)
            close(fd);
    }
    if (d != NULL)
        closedir(d);
    return rc == 0 ? 0 : fy_fail(e, FY_EIO, "another program downloads into it now");
}

int fy_hub_entry_remove(const fy_hub_entry *x, fy_err *e)
{
    const fy_span base = fy_path_base(x->path);
    char *locks = fy_path_format(e, "%.*s.locks/%.*s", (int)(base.ptr - x->path), x->path,
                                 (int)base.len, base.ptr);
    int rc = locks == NULL || check_locks(locks, e) != 0 ? -1 : 0;
    if (rc == 0 && (fy_tree_remove(x->path) != 0 || fy_tree_remove(locks) != 0))
        rc = fy_fail_errno(e, "cannot be removed whole");
    free(locks);
    return rc != 0 ? fy_ctx(e, "%s", x->id) : 0;
}
