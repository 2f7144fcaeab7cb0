/* Removes a model or a workspace of the list (local_items.h), and nothing else. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "bundle/manifest_read.h"
#include "hub/hub_store.h"
#include "workspace/phone/local_items.h"

/* What the disk has again: nothing for a file with another name. */
static uint64_t held(const struct stat *st)
{
    return st->st_nlink == 1 && S_ISREG(st->st_mode) ? (uint64_t)st->st_blocks * 512 : 0;
}

/* --- a workspace ------------------------------------------------------------------------------ */

/* The directory of `path` below `root`, opened part by part, so that no link is followed; *name is
 * its last part. -1: it is not there, or a part of it is a link. */
static int open_parent(int root, const char *path, const char **name)
{
    char part[FY_MANIFEST_MAX_PATH + 1];
    int fd = dup(root);
    while (fd >= 0) {
        const size_t n = strcspn(path, "/");
        if (path[n] == '\0')
            break;
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        const int next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(fd);
        fd = next;
        path += n + 1;
    }
    *name = path;
    return fd;
}

/* A file, or an empty directory. What is not there is fine. */
static int remove_at(int root, const char *path, int flag, uint64_t *freed, fy_err *e)
{
    const char *name;
    struct stat st = {0};
    const int fd = open_parent(root, path, &name);
    if (fd < 0)
        return 0;
    int rc = 0;
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (flag != 0 ? S_ISDIR(st.st_mode) : !S_ISDIR(st.st_mode))) {
        if (unlinkat(fd, name, flag) == 0)
            *freed += flag == 0 ? held(&st) : 0;
        else if (errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
            rc = fy_fail_errno(e, "%s", path);
    }
    close(fd);
    return rc;
}

/* The directories above a file, the deepest first. */
static int remove_parents(int root, const char *path, fy_err *e)
{
    uint64_t none = 0;
    char *dir = strdup(path);
    int rc = dir != NULL ? 0 : fy_nomem(e);
    for (char *slash; rc == 0 && (slash = strrchr(dir, '/')) != NULL;) {
        *slash = '\0';
        rc = remove_at(root, dir, AT_REMOVEDIR, &none, e);
    }
    free(dir);
    return rc;
}

/* The manifest goes last: what is interrupted can be called again. */
static int remove_listed(int root, const fy_manifest *m, uint64_t *freed, fy_err *e)
{
    static const char *const own[] = {FY_MANIFEST_SIG, FY_MANIFEST_KEY, FY_MANIFEST_NAME};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->n; i++)
        rc = fy_check_interrupt(e) != 0 ? -1 : remove_at(root, m->entry[i].path, 0, freed, e);
    for (size_t i = 0; rc == 0 && i < m->n; i++)
        rc = remove_parents(root, m->entry[i].path, e);
    for (size_t i = 0; rc == 0 && i < sizeof own / sizeof own[0]; i++)
        rc = remove_at(root, own[i], 0, freed, e);
    return rc;
}

/* nftw has no user pointer. */
static size_t g_left;
static uint64_t g_held;

static int count_left(const char *path, const struct stat *st, int what, struct FTW *at)
{
    (void)path, (void)at;
    g_left += what != FTW_D;
    g_held += what == FTW_F ? held(st) : 0;
    return 0;
}

static int remove_workspace(const fy_local_item *x, uint64_t *freed, size_t *left, fy_err *e)
{
    fy_manifest m;
    if (!fy_dir_has(x->path, FY_MANIFEST_NAME))
        return fy_fail(e, FY_EARG,
                       "%s: no " FY_MANIFEST_NAME " lists its files, so ferry does not know which "
                       "of them to remove: 'rm -r' does",
                       x->path);
    if (fy_manifest_read(x->path, &m, e) != 0)
        return -1;
    const int root = open(x->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = root >= 0 ? remove_listed(root, &m, freed, e) : fy_fail_errno(e, "%s", x->path);
    if (root >= 0)
        close(root);
    fy_manifest_release(&m);
    if (rc != 0)
        return fy_ctx(e, "%s", x->path);
    if (rmdir(x->path) == 0)
        return 0;
    g_left = 0;
    nftw(x->path, count_left, 16, FTW_PHYS);
    *left = g_left;
    return 0;
}

/* --- a model ---------------------------------------------------------------------------------- */

static int remove_model(const fy_local_item *x, uint64_t *freed, fy_err *e)
{
    const fy_hub_entry entry = {.id = x->name, .path = x->path};
    g_held = 0;
    nftw(x->path, count_left, 16, FTW_PHYS);
    if (fy_hub_entry_remove(&entry, e) != 0)
        return -1;
    *freed = g_held;
    return 0;
}

int fy_local_item_remove(const fy_local_item *x, uint64_t *freed, size_t *left, fy_err *e)
{
    *freed = 0;
    *left = 0;
    return x->kind == FY_LOCAL_MODEL ? remove_model(x, freed, e)
                                     : remove_workspace(x, freed, left, e);
}
