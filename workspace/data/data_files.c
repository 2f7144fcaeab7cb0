#include "workspace/data/data_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_dir.h"
#include "base/file.h"

int fy_data_read(const char *path, fy_data_each *each, void *user, fy_err *e)
{
    fy_map map;
    if (fy_map_open(&map, path, e) != 0)
        return -1;
    int rc = map.size <= FY_DATA_MAX_BYTES
                 ? each(user, map.data, map.size, path, e)
                 : fy_fail(e, FY_EFORMAT, "%s: %zu bytes, expected at most %u", path, map.size,
                           FY_DATA_MAX_BYTES);
    fy_map_close(&map);
    return rc;
}

static int is_json(const struct dirent *d)
{
    return d->d_name[0] != '.' && fy_span_ends(fy_span_of(d->d_name), ".json");
}

/* By bytes, whatever the locale sorts by. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int fy_data_read_own(const char *dir, fy_data_each *each, void *user, fy_err *e)
{
    fy_str path = {0};
    struct dirent **names = NULL;
    bool there = fy_config_path(dir, &path);
    if (path.oom)
        return fy_nomem(e);
    int n = there ? scandir(path.ptr, &names, is_json, by_name) : 0, rc = 0;
    if (n < 0 && errno != ENOENT && errno != ENOTDIR)
        rc = fy_fail_errno(e, "%s: cannot read", path.ptr);
    for (int i = 0; i < n; i++) {
        char *file = rc == 0 ? fy_path_join(path.ptr, names[i]->d_name) : NULL;
        if (rc == 0)
            rc = file != NULL ? fy_data_read(file, each, user, e) : fy_nomem(e);
        free(file);
        free(names[i]);
    }
    free(names);
    fy_str_release(&path);
    return rc;
}
