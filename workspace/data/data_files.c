/* Data files, compiled in or the user's, and the members of their JSON objects. */
#include "workspace/data/data_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/opts.h"
#include "base/path.h"
#include "base/str.h"

const fy_data_file *fy_data_find(const char *name)
{
    for (const fy_data_file *f = fy_data_files; f->name != NULL; f++) {
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

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

/* --- members ---------------------------------------------------------------------------------- */

bool fy_data_is_plain(const char *text)
{
    while ((unsigned char)*text >= ' ' && *text != 0x7F)
        text++;
    return *text == '\0';
}

int fy_data_list(fy_json *j, char ***out, size_t *n, fy_err *e)
{
    size_t cap = *n;
    fy_span s;
    int more;
    if (fy_json_array_begin(j, e) != 0)
        return -1;
    while ((more = fy_json_array_next(j, e)) == 1) {
        if (*n == FY_DATA_LIST_MAX)
            return fy_fail(e, FY_EFORMAT, "more than %d items", FY_DATA_LIST_MAX);
        if (fy_json_string(j, &s, NULL, e) != 0)
            return -1;
        char *copy = strndup(s.ptr, s.len);
        int rc = copy != NULL ? 0 : fy_nomem(e);
        if (rc == 0 && (s.len == 0 || s.len > FY_DATA_TEXT_MAX || strlen(copy) < s.len ||
                        !fy_data_is_plain(copy)))
            rc = fy_fail(e, FY_EFORMAT,
                         "%zu bytes of text, expected 1 to %d without control characters", s.len,
                         FY_DATA_TEXT_MAX);
        if (rc != 0 || fy_append(out, n, &cap, &copy, sizeof copy, e) != 0) {
            free(copy);
            return -1;
        }
    }
    return more;
}

void fy_data_list_free(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i]);
    free(list);
}
