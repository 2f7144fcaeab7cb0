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

#define MAX_TEXT 1000

static char *take_text(fy_json *j, const char *key, fy_err *e)
{
    fy_span s;
    if (fy_json_string(j, &s, NULL, e) != 0) {
        fy_ctx(e, "%s", key);
        return NULL;
    }
    size_t controls = 0;
    for (size_t i = 0; i < s.len; i++)
        controls += (unsigned char)s.ptr[i] < ' ' || s.ptr[i] == 0x7F;
    if (s.len == 0 || s.len > MAX_TEXT || controls > 0) {
        fy_fail(e, FY_EFORMAT,
                "%s: %zu bytes of text%s, expected 1 to %d without control characters", key, s.len,
                controls > 0 ? " with control characters" : "", MAX_TEXT);
        return NULL;
    }
    char *copy = strndup(s.ptr, s.len);
    if (copy == NULL)
        fy_nomem(e);
    return copy;
}

int fy_data_text(fy_json *j, const char *key, char **out, fy_err *e)
{
    char *text = take_text(j, key, e);
    if (text == NULL)
        return -1;
    free(*out);
    *out = text;
    return 0;
}

int fy_data_list(fy_json *j, const char *key, char ***out, size_t *n, fy_err *e)
{
    size_t cap = *n;
    int more;
    if (fy_json_array_begin(j, e) != 0)
        return fy_ctx(e, "%s", key);
    while ((more = fy_json_array_next(j, e)) == 1) {
        if (*n == FY_DATA_LIST_MAX)
            return fy_fail(e, FY_EFORMAT, "%s: more than %d items", key, FY_DATA_LIST_MAX);
        char **grown = fy_grow(*out, *n, &cap, sizeof **out);
        if (grown == NULL)
            return fy_nomem(e);
        *out = grown;
        if ((grown[*n] = take_text(j, key, e)) == NULL)
            return -1;
        ++*n;
    }
    return more == 0 ? 0 : fy_ctx(e, "%s", key);
}

void fy_data_list_free(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i]);
    free(list);
}

int fy_data_number(fy_json *j, const char *key, int64_t min, int64_t max, uint64_t *out, fy_err *e)
{
    int64_t v;
    if (fy_json_i64_in(j, key, min, max, &v, e) != 0)
        return -1;
    *out = (uint64_t)v;
    return 0;
}

int fy_data_unknown(fy_span key, const char *const *keys, size_t n, fy_err *e)
{
    char shown[FY_QUOTE_BYTES], word[FY_QUOTE_BYTES];
    fy_quote(shown, sizeof shown, key);
    snprintf(word, sizeof word, "%.*s", (int)(key.len < sizeof word ? key.len : sizeof word - 1),
             key.ptr);
    const char *near = fy_nearest(word, keys, n);
    if (near != NULL)
        return fy_fail(e, FY_EFORMAT, "unknown key '%s'; did you mean '%s'?", shown, near);
    fy_str all = {0};
    for (size_t i = 0; i < n; i++)
        fy_str_printf(&all, "%s%s", i > 0 ? ", " : "", keys[i]);
    fy_fail(e, FY_EFORMAT, "unknown key '%s', expected one of %s", shown, fy_str_z(&all));
    fy_str_release(&all);
    return -1;
}
