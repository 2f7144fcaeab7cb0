/* The list of this user's workspaces (known.h): read, and written again under a lock. */
#include "workspace/pack/known.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "bundle/bundle.h"

#define BYTES_MAX (8 << 20)

/* The file's path; its directory is made when `make` is set. NULL on failure. */
static char *state_path(bool make, fy_err *e)
{
    fy_str s = {0};
    if (!fy_state_path("workspaces", &s)) {
        fy_fail(e, FY_EARG, "neither XDG_STATE_HOME nor HOME is set");
        return NULL;
    }
    char *dir = s.oom ? NULL : strndup(s.ptr, (size_t)(strrchr(s.ptr, '/') - s.ptr));
    int rc = dir == NULL ? fy_nomem(e) : make ? fy_mkdirs(dir, e) : 0;
    free(dir);
    if (rc != 0)
        fy_str_release(&s);
    return s.ptr;
}

int fy_known_append(fy_known *l, const char *dir, fy_err *e)
{
    char *real = realpath(dir, NULL);
    bool wanted = real != NULL && strchr(real, '\n') == NULL && fy_file_is_dir(real) &&
                  fy_dir_has(real, FY_BUNDLE_WORKSPACE_JSON);
    for (size_t i = 0; wanted && i < l->n; i++)
        wanted = strcmp(l->path[i], real) != 0;
    int rc = wanted ? fy_append(&l->path, &l->n, &l->cap, &real, sizeof real, e) : 0;
    if (!wanted || rc != 0)
        free(real);
    return rc;
}

static int read_lines(const char *path, fy_known *l, fy_err *e)
{
    fy_map m;
    if (!fy_file_exists(path))
        return 0;
    if (fy_map_open(&m, path, e) != 0)
        return -1;
    int rc = m.size > BYTES_MAX ? fy_fail(e, FY_EFORMAT, "%s: more than %d bytes", path, BYTES_MAX)
                                : 0;
    for (fy_span rest = {(const char *)m.data, m.size}; rc == 0 && rest.len > 0;) {
        fy_span line = fy_span_cut_line(&rest);
        const bool sound = line.len > 0 && line.ptr[0] == '/' &&
                           memchr(line.ptr, '\0', line.len) == NULL;
        char *dir = sound ? strndup(line.ptr, line.len) : NULL;
        if (sound)
            rc = dir != NULL ? fy_known_append(l, dir, e) : fy_nomem(e);
        free(dir);
    }
    fy_map_close(&m);
    return rc;
}

static int write_lines(const char *path, const fy_known *l, fy_err *e)
{
    fy_str s = {0};
    for (size_t i = l->n > FY_KNOWN_MAX ? l->n - FY_KNOWN_MAX : 0; i < l->n; i++)
        fy_str_printf(&s, "%s\n", l->path[i]);
    int rc = s.oom ? fy_nomem(e) : fy_file_write(path, fy_str_z(&s), s.len, e);
    fy_str_release(&s);
    return rc;
}

/* Two programs may add at once: the second one waits. */
static int lock(const char *path, int *fd, fy_err *e)
{
    char *name = fy_path_format(e, "%s.lock", path);
    *fd = name != NULL ? open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    int rc = *fd < 0 || flock(*fd, LOCK_EX) != 0 ? fy_fail_errno(e, "%s", name != NULL ? name : path)
                                                 : 0;
    free(name);
    return rc;
}

static int add(const char *dir, fy_err *e)
{
    fy_known l = {0};
    int fd = -1;
    char *path = state_path(true, e);
    int rc = path != NULL ? lock(path, &fd, e) : -1;
    if (rc == 0)
        rc = read_lines(path, &l, e) != 0 || fy_known_append(&l, dir, e) != 0 ||
                     write_lines(path, &l, e) != 0
                 ? -1
                 : 0;
    if (fd >= 0)
        close(fd);
    fy_known_release(&l);
    free(path);
    return rc;
}

void fy_known_add(const char *dir)
{
    fy_err e = {0};
    if (add(dir, &e) != 0)
        fy_log(FY_LOG_DEBUG, "%s is not recorded for 'ferry list': %s", dir, e.msg);
}

int fy_known_read(fy_known *out, fy_err *e)
{
    fy_known l = {0};
    char *path = state_path(false, NULL);
    if (path != NULL && read_lines(path, &l, e) != 0) {
        fy_known_release(&l);
        free(path);
        return -1;
    }
    free(path);
    *out = l;
    return 0;
}

void fy_known_release(fy_known *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->path[i]);
    free(l->path);
    *l = (fy_known){0};
}
