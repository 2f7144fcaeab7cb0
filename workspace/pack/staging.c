/* Directories that get their name once they are complete. */
#include "workspace/pack/staging.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

struct fy_staging {
    char *dir;  /* owned; the final name, without trailing slashes */
    char *part; /* owned */
    int fd;     /* of part; holds the lock */
};

/* --- trees ------------------------------------------------------------------------------------ */

static int remove_below(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st, (void)flag;
    if (at->level > 0)
        remove(path); /* best effort; what is left is found when the directory is reused */
    return 0;
}

static int sync_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st, (void)at;
    if (fy_interrupted) {
        errno = EINTR;
        return -1;
    }
    if (flag != FTW_F && flag != FTW_DP)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == EACCES
                   ? 0
                   : -1; /* a linked file that we may not read: its owner has flushed it */
    int rc = fy_sync_fd(fd, path, NULL);
    int err = errno;
    close(fd);
    errno = err;
    return rc != 0 && flag == FTW_F ? -1 : 0; /* some file systems refuse it for directories */
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool is_empty_dir(const char *path)
{
    DIR *d = opendir(path);
    if (d == NULL)
        return false;
    bool empty = true;
    for (struct dirent *en; empty && (en = readdir(d)) != NULL;)
        empty = strcmp(en->d_name, ".") == 0 || strcmp(en->d_name, "..") == 0;
    closedir(d);
    return empty;
}

/* The final name: that of an existing empty directory with links resolved, else the text without
 * trailing slashes. */
static char *final_name(const char *dir, fy_err *e)
{
    struct stat st;
    if (lstat(dir, &st) != 0) {
        char *s = strdup(dir);
        size_t n = s != NULL ? strlen(s) : 0;
        while (n > 1 && s[n - 1] == '/')
            s[--n] = '\0';
        if (s == NULL)
            fy_nomem(e);
        else if (n == 0 || strcmp(s, "/") == 0) {
            fy_fail(e, FY_EARG, "'%s' cannot be the name of a workspace", dir);
            free(s);
            s = NULL;
        }
        return s;
    }
    if (!fy_file_is_dir(dir) || !is_empty_dir(dir)) {
        fy_fail(e, FY_EARG, "%s: %s; expected a new name or an empty directory", dir,
                fy_file_is_dir(dir) ? "exists and is not empty" : "exists");
        return NULL;
    }
    char *real = realpath(dir, NULL), *cwd = getcwd(NULL, 0);
    if (real == NULL)
        fy_fail_errno(e, "%s: cannot find its real name", dir);
    else if (strcmp(real, "/") == 0 || (cwd != NULL && strcmp(real, cwd) == 0)) {
        /* after the rename the user's shell would be in the old directory */
        fy_fail(e, FY_EARG,
                "%s: is the current directory; expected the name of a directory to create", dir);
        free(real);
        real = NULL;
    }
    free(cwd);
    return real;
}

static int make_parent(const char *path, fy_err *e)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return 0;
    char *parent = strndup(path, (size_t)(slash - path));
    int rc = parent != NULL ? fy_mkdirs(parent, e) : fy_nomem(e);
    free(parent);
    return rc;
}

static int lock_part(fy_staging *s, bool *is_new, fy_err *e)
{
    *is_new = mkdir(s->part, 0777) == 0;
    if (!*is_new && errno != EEXIST)
        return fy_fail_errno(e, "%s: cannot create the directory", s->part);
    s->fd = open(s->part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->fd < 0)
        return fy_fail_errno(e, "%s: cannot open the directory", s->part);
    if (!*is_new && fy_check_own(s->fd, s->part, e) != 0)
        return -1;
    struct stat by_fd, by_name;
    if (flock(s->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? fy_fail(e, FY_EIO, "%s: another ferry is writing it now", s->part)
                   : fy_fail_errno(e, "%s: cannot lock", s->part);
    if (fstat(s->fd, &by_fd) != 0 || lstat(s->part, &by_name) != 0 ||
        by_fd.st_ino != by_name.st_ino || by_fd.st_dev != by_name.st_dev)
        return fy_fail(e, FY_EIO, "%s: another ferry has just finished it", s->part);
    return 0;
}

static void staging_free(fy_staging *s)
{
    if (s->fd >= 0)
        close(s->fd);
    free(s->dir);
    free(s->part);
    free(s);
}

fy_staging *fy_staging_open(const char *dir, fy_err *e)
{
    fy_staging *s = calloc(1, sizeof *s);
    if (s == NULL) {
        fy_nomem(e);
        return NULL;
    }
    s->fd = -1;
    s->dir = final_name(dir, e);
    if (s->dir == NULL)
        goto fail;
    s->part = fy_path_format(e, "%s.part", s->dir);
    if (s->part == NULL)
        goto fail;
    bool is_new;
    if (make_parent(s->part, e) != 0 || lock_part(s, &is_new, e) != 0)
        goto fail;
    if (!is_new) {
        nftw(s->part, remove_below, 16, FTW_PHYS | FTW_DEPTH);
        if (!is_empty_dir(s->part)) {
            fy_fail(e, FY_EIO, "%s: cannot remove the files of an earlier run; remove them by hand",
                    s->part);
            goto fail;
        }
    }
    return s;
fail:
    staging_free(s);
    return NULL;
}

/* --- filling ---------------------------------------------------------------------------------- */

char *fy_staging_path(const fy_staging *s, const char *rel, fy_err *e)
{
    return fy_path_format(e, "%s/%s", s->part, rel);
}

int fy_staging_mkdirs(fy_staging *s, const char *rel, fy_err *e)
{
    char *path = fy_staging_path(s, rel, e);
    int rc = path != NULL ? make_parent(path, e) : -1;
    free(path);
    return rc;
}

int fy_staging_create(fy_staging *s, const char *rel, uint32_t mode, fy_err *e)
{
    char *path = fy_staging_path(s, rel, e);
    if (path == NULL || make_parent(path, e) != 0) {
        free(path);
        return -1;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        fy_fail_errno(e, "%s: cannot create", path);
    else if (fchmod(fd, (mode_t)mode) != 0) {
        fy_fail_errno(e, "%s: cannot set its mode", path);
        close(fd);
        fd = -1;
    }
    free(path);
    return fd;
}

int fy_staging_write(fy_staging *s, const char *rel, uint32_t mode, const void *p, size_t n,
                     fy_err *e)
{
    int fd = fy_staging_create(s, rel, mode, e);
    if (fd < 0)
        return -1;
    int rc = fy_write_all(fd, p, n, rel, e);
    if (close(fd) != 0 && rc == 0)
        rc = fy_fail_errno(e, "%s: cannot close", rel);
    return rc;
}

int fy_staging_need(const fy_staging *s, uint64_t bytes, fy_err *e)
{
    uint64_t have;
    if (fy_file_space(s->part, &have, e) != 0)
        return -1;
    return have >= bytes ? 0
                         : fy_fail(e, FY_ENOSPACE, "%s: needs %.1f MB, the disk has %.1f MB free",
                                   s->dir, (double)bytes * 1e-6, (double)have * 1e-6);
}

/* --- the end ---------------------------------------------------------------------------------- */

int fy_staging_commit(fy_staging *s, fy_err *e)
{
    int rc = fy_check_interrupt(e);
    if (rc == 0 && nftw(s->part, sync_one, 16, FTW_PHYS | FTW_DEPTH) != 0) {
        int err = errno;
        rc = fy_check_interrupt(e);
        errno = err;
        rc = rc != 0 ? rc : fy_fail_errno(e, "%s: cannot flush to disk", s->part);
    }
    if (rc == 0 && rename(s->part, s->dir) != 0)
        rc = fy_fail_errno(e, "%s: cannot rename to %s", s->part, s->dir);
    if (rc != 0) {
        fy_staging_abort(s);
        return rc;
    }
    fy_sync_dir_of(s->dir);
    staging_free(s);
    return 0;
}

void fy_staging_abort(fy_staging *s)
{
    if (s == NULL)
        return;
    fy_tree_remove(s->part);
    staging_free(s);
}
