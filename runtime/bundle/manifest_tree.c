/* A workspace without a manifest, as `powerserve create` makes it: what is there is listed, without
 * hashes. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_rows.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"

enum { MOST_FILES = 65536, DEEPEST = 8 };

/* --- whose it is ------------------------------------------------------------------------------ */

typedef struct {
    int64_t version;
    char *main; /* owned */
} names;

static const fy_json_row name_rows[] = {
    FY_JSON_FIELD(I64, "format_version", names, version, false),
    {.key = "model_main", .type = FY_JSON_ROW_TEXT, .offset = offsetof(names, main)},
};

bool fy_manifest_is_foreign(const char *dir)
{
    const fy_json_table table = {FY_JSON_ROWS(name_rows)};
    names n = {.version = -1};
    fy_map map = {0};
    if (fy_dir_has(dir, FY_MANIFEST_NAME))
        return false;
    char *path = fy_path_join(dir, FY_BUNDLE_WORKSPACE_JSON);
    const bool there = path != NULL && fy_file_exists(path) && fy_map_open(&map, path, NULL) == 0;
    const bool read =
        there && map.size <= FY_BUNDLE_JSON_MAX_BYTES &&
        fy_json_document_of((fy_span){(const char *)map.data, map.size}, &table, &n, NULL) == 0;
    if (there)
        fy_map_close(&map);
    free(path);
    const bool foreign = read && n.version < 0 && n.main != NULL;
    free(n.main);
    return foreign;
}

/* --- its files -------------------------------------------------------------------------------- */

static int walk(const char *dir, const char *rel, int depth, fy_manifest *m, fy_err *e);

static int add_one(const char *dir, const char *rel, const char *name, int depth, fy_manifest *m,
                   fy_err *e)
{
    struct stat st;
    char *below =
        *rel != '\0' ? fy_path_format(e, "%s/%s", rel, name) : fy_path_format(e, "%s", name);
    char *path = below != NULL ? fy_path_format(e, "%s/%s", dir, below) : NULL;
    int rc = path != NULL ? 0 : -1;
    if (rc == 0 && lstat(path, &st) != 0)
        rc = fy_fail_errno(e, "%s", path);
    else if (rc == 0 && S_ISDIR(st.st_mode))
        rc = walk(dir, below, depth + 1, m, e);
    else if (rc == 0 && !S_ISREG(st.st_mode))
        rc = fy_fail(e, FY_EVERIFY, "%s: is neither a file nor a directory", path);
    else if (rc == 0 && (!fy_manifest_path_ok(below) || m->n == MOST_FILES))
        rc = fy_fail(e, FY_EFORMAT, "%s: %s", path,
                     m->n == MOST_FILES ? "too many files for a workspace"
                                        : "expected a name of letters, digits and signs, no space");
    else if (rc == 0) {
        fy_manifest_entry en = {.path = below,
                                .bytes = (uint64_t)st.st_size,
                                .mode = (st.st_mode & 0100) != 0 ? 0755 : 0644};
        rc = fy_append(&m->entry, &m->n, &m->cap, &en, sizeof en, e);
        below = rc == 0 ? NULL : below;
    }
    free(path);
    free(below);
    return rc;
}

static int walk(const char *dir, const char *rel, int depth, fy_manifest *m, fy_err *e)
{
    if (depth > DEEPEST)
        return fy_fail(e, FY_EFORMAT, "%s/%s: deeper than a workspace is", dir, rel);
    char *path = fy_path_format(e, "%s/%s", dir, rel);
    DIR *d = path != NULL ? opendir(path) : NULL;
    int rc = d != NULL ? 0 : path != NULL ? fy_fail_errno(e, "%s", path) : -1;
    for (const struct dirent *f; rc == 0 && (f = readdir(d)) != NULL;) {
        if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0)
            rc = add_one(dir, rel, f->d_name, depth, m, e);
        if (rc == 0)
            rc = fy_check_interrupt(e);
    }
    if (d != NULL)
        closedir(d);
    free(path);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const fy_manifest_entry *)a)->path, ((const fy_manifest_entry *)b)->path);
}

int fy_manifest_of(const char *dir, fy_manifest *out, fy_err *e)
{
    if (!fy_manifest_is_foreign(dir))
        return fy_manifest_read(dir, out, e);
    fy_manifest m = {
        .not_hashed = true, .tool = strdup("powerserve"), .target = strdup("aarch64-linux")};
    int rc = m.tool != NULL && m.target != NULL ? walk(dir, "", 0, &m, e) : fy_nomem(e);
    if (rc == 0) {
        qsort(m.entry, m.n, sizeof *m.entry, by_path);
        *out = m;
    } else {
        fy_manifest_release(&m);
    }
    return rc;
}
