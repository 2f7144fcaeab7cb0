#include "hub/hub_cache.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "base/str.h"

#define ENTRY         "models--"
#define REF_BYTES_MAX 200 /* of a file below refs: a commit has 40 */

/* --- names ------------------------------------------------------------------------------------ */

int fy_hub_check_revision(const char *revision, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    size_t n = strlen(revision);
    bool good = n > 0 && n < FY_HUB_REVISION_BYTES;
    for (const char *p = revision; good && *p != '\0';) {
        size_t part = strcspn(p, "/");
        good =
            part > 0 && !(part == 1 && p[0] == '.') && !(part == 2 && p[0] == '.' && p[1] == '.');
        for (size_t i = 0; i < part; i++)
            good &= (unsigned char)p[i] > ' ' && p[i] != '\\' && p[i] != 127;
        p += part;
        if (*p == '/')
            good &= *++p != '\0';
    }
    if (good)
        return 0;
    return fy_fail(e, FY_EARG, "'%s' is no revision; expected a branch, a tag or a commit",
                   fy_quote(q, sizeof q, fy_span_of(revision)));
}

int fy_hub_ref_read(const char *text, fy_hub_ref *out, fy_err *e)
{
    char q[FY_QUOTE_BYTES];
    fy_hub_ref r = {0};
    size_t n = fy_hub_id_bytes(text);
    if (n == 0)
        return fy_fail(
            e, FY_EARG,
            "'%s' is no name of a repository; expected ORG/NAME, as in the address of its page",
            fy_quote(q, sizeof q, fy_span_of(text)));
    snprintf(r.id, sizeof r.id, "%.*s", (int)n, text); /* two parts of 96 fit */
    if (text[n] == '@') {
        if (fy_hub_check_revision(text + n + 1, e) != 0)
            return -1;
        snprintf(r.revision, sizeof r.revision, "%s", text + n + 1);
    }
    *out = r;
    return 0;
}

static char *finish(fy_str *s, fy_err *e)
{
    if (s->oom) {
        fy_str_release(s);
        fy_nomem(e);
        return NULL;
    }
    return s->ptr;
}

/* The variable's value with "~/" resolved, and a name behind it; NULL: not set. */
static bool put_variable(fy_str *s, const char *variable, const char *name)
{
    const char *v = getenv(variable), *home = getenv("HOME");
    if (v == NULL || *v == '\0')
        return false;
    if (v[0] == '~' && v[1] == '/' && home != NULL) {
        fy_str_puts(s, home);
        v++;
    }
    fy_str_printf(s, "%s%s", v, name);
    return true;
}

char *fy_hub_home(const char *name, fy_err *e)
{
    fy_str s = {0};
    if (put_variable(&s, "HF_HOME", "/") || put_variable(&s, "XDG_CACHE_HOME", "/huggingface/") ||
        put_variable(&s, "HOME", "/.cache/huggingface/")) {
        fy_str_puts(&s, name);
        return finish(&s, e);
    }
    fy_fail(e, FY_EARG, "neither HF_HUB_CACHE nor HF_HOME nor HOME is set: where is the cache?");
    return NULL;
}

char *fy_hub_cache_dir(fy_err *e)
{
    fy_str s = {0};
    if (put_variable(&s, "HF_HUB_CACHE", "") || put_variable(&s, "HUGGINGFACE_HUB_CACHE", ""))
        return finish(&s, e);
    return fy_hub_home("hub", e);
}

char *fy_hub_storage(const fy_hub_ref *ref, fy_err *e)
{
    char *cache = fy_hub_cache_dir(e);
    fy_str s = {0};
    if (cache == NULL)
        return NULL;
    fy_str_printf(&s, "%s/" ENTRY, cache);
    for (const char *p = ref->id; *p != '\0'; p++)
        fy_str_puts(&s, *p == '/' ? "--" : (char[]){*p, '\0'});
    free(cache);
    return finish(&s, e);
}

void fy_hub_place_release(fy_hub_place *p)
{
    free(p->dir);
    free(p->name);
    *p = (fy_hub_place){0};
}

/* --- entries ---------------------------------------------------------------------------------- */

static char *path_of(const char *storage, const char *part, const char *name, fy_err *e)
{
    fy_str s = {0};
    fy_str_printf(&s, "%s/%s/%s", storage, part, name);
    return finish(&s, e);
}

/* 1 and *dir: the snapshot is there; 0: it is not. */
static int snapshot_of(const char *storage, const char *commit, char **dir, fy_err *e)
{
    char *path = path_of(storage, "snapshots", commit, e);
    if (path == NULL)
        return -1;
    if (!fy_file_is_dir(path)) {
        free(path);
        return 0;
    }
    *dir = path;
    return 1;
}

/* What refs/REVISION says: 1; 0: no such file. */
static int read_ref(const char *storage, const char *revision, char commit[REF_BYTES_MAX + 1],
                    fy_err *e)
{
    fy_map m;
    char *path = path_of(storage, "refs", revision, e);
    if (path == NULL)
        return -1;
    int rc = fy_file_exists(path) && !fy_file_is_dir(path);
    if (rc == 1 && fy_map_open(&m, path, e) != 0)
        rc = -1;
    if (rc == 1) {
        size_t n = m.size < REF_BYTES_MAX ? m.size : REF_BYTES_MAX;
        memcpy(commit, m.data, n);
        commit[n] = '\0';
        commit[strcspn(commit, " \t\r\n")] = '\0';
        fy_map_close(&m);
        if (strchr(commit, '/') != NULL || fy_hub_check_revision(commit, NULL) != 0)
            rc = fy_fail(e, FY_EFORMAT, "%s: holds no commit", path);
    }
    free(path);
    return rc;
}

/* The only snapshot; *n is how many there are. */
static int only_snapshot(const char *storage, char **dir, size_t *n, fy_err *e)
{
    char *path = fy_path_join(storage, "snapshots");
    DIR *d = path != NULL ? opendir(path) : NULL;
    int rc = path != NULL ? 0 : fy_nomem(e);
    char *found = NULL;
    *n = 0;
    for (struct dirent *en; rc == 0 && d != NULL && (en = readdir(d)) != NULL;) {
        char *sub = en->d_name[0] != '.' ? fy_path_join(path, en->d_name) : NULL;
        if (sub != NULL && fy_file_is_dir(sub)) {
            *n += 1;
            free(found);
            found = sub;
        } else {
            free(sub);
        }
    }
    if (d != NULL)
        closedir(d);
    free(path);
    if (rc == 0 && *n == 1) {
        *dir = found;
        return 0;
    }
    free(found);
    return rc;
}

static int find_snapshot(const char *storage, const char *revision, char **dir, fy_err *e)
{
    char commit[REF_BYTES_MAX + 1], q[FY_QUOTE_BYTES];
    const char *name = *revision != '\0' ? revision : "main";
    size_t n;
    int rc = read_ref(storage, name, commit, e);
    if (rc == 1) {
        rc = snapshot_of(storage, commit, dir, e);
        if (rc == 0)
            return fy_fail(
                e, FY_EIO,
                "%s: refs/%s names the snapshot %s, which is not there; 'ferry fetch' mends that",
                storage, name, fy_quote(q, sizeof q, fy_span_of(commit)));
    } else if (rc == 0 && *revision != '\0') {
        rc = strchr(revision, '/') == NULL ? snapshot_of(storage, revision, dir, e) : 0;
        if (rc == 0)
            return fy_fail(e, FY_EIO,
                           "%s: neither refs/%s nor snapshots/%s is there; 'ferry fetch' with "
                           "--revision=%s brings it",
                           storage, revision, revision, revision);
    } else if (rc == 0) {
        rc = only_snapshot(storage, dir, &n, e);
        if (rc == 0 && n != 1)
            return fy_fail(e, FY_EIO,
                           n == 0 ? "%s: no snapshot is in it; 'ferry fetch' downloads one"
                                  : "%s: no refs/main, and several snapshots; give the path of one "
                                    "below snapshots",
                           storage);
    }
    return rc < 0 ? -1 : 0;
}

/* "ORG/NAME" of a directory "models--ORG--NAME", as a new string; NULL and 0: it is none. */
static int entry_id(fy_span base, char **id, fy_err *e)
{
    size_t skip = strlen(ENTRY);
    if (base.len <= skip || !fy_span_begins(base, ENTRY))
        return 0;
    *id = strndup(base.ptr + skip, base.len - skip);
    if (*id == NULL)
        return fy_nomem(e);
    char *cut = strstr(*id, "--");
    if (cut != NULL && cut[2] != '\0') {
        *cut = '/';
        memmove(cut + 1, cut + 2, strlen(cut + 2) + 1);
    }
    return 0;
}

int fy_hub_id_of_snapshot(const char *dir, char **id, fy_err *e)
{
    char *real = realpath(dir, NULL);
    char *commit = real != NULL ? strrchr(real, '/') : NULL;
    int rc = 0;
    *id = NULL;
    if (commit != NULL) {
        *commit = '\0';
        if (fy_span_is(fy_path_base(real), "snapshots")) {
            *strrchr(real, '/') = '\0';
            rc = entry_id(fy_path_base(real), id, e);
        }
    }
    free(real);
    return rc;
}

/* Its last part. */
static int snapshot_name(const char *dir, char **name, fy_err *e)
{
    char *id;
    if (fy_hub_id_of_snapshot(dir, &id, e))
        return -1;
    const char *slash = id != NULL ? strrchr(id, '/') : NULL;
    if (slash != NULL)
        memmove(id, slash + 1, strlen(slash + 1) + 1);
    *name = id;
    return 0;
}

static bool is_entry(const char *dir)
{
    char *snapshots = fy_path_join(dir, "snapshots"), *config = fy_path_join(dir, "config.json");
    bool yes =
        snapshots != NULL && config != NULL && fy_file_is_dir(snapshots) && !fy_file_exists(config);
    free(snapshots);
    free(config);
    return yes;
}

static int find_path(const char *path, fy_hub_place *p, fy_err *e)
{
    if (fy_file_is_dir(path) && is_entry(path)) {
        if (find_snapshot(path, "", &p->dir, e) != 0)
            return -1;
    } else {
        p->dir = strdup(path);
        if (p->dir == NULL)
            return fy_nomem(e);
    }
    return fy_file_is_dir(p->dir) ? snapshot_name(p->dir, &p->name, e) : 0;
}

static int find_id(const char *text, fy_hub_place *p, fy_err *e)
{
    fy_hub_ref ref;
    if (fy_hub_ref_read(text, &ref, e) != 0)
        return -1;
    char *storage = fy_hub_storage(&ref, e);
    if (storage == NULL)
        return -1;
    int rc;
    if (fy_file_is_dir(storage))
        rc = find_snapshot(storage, ref.revision, &p->dir, e);
    else
        rc = fy_fail(e, FY_EIO,
                     "%s: no such file or directory, and not in the cache (no %s); "
                     "'ferry fetch %s' downloads it",
                     text, storage, text);
    free(storage);
    return rc == 0 ? snapshot_name(p->dir, &p->name, e) : -1;
}

int fy_hub_find(const char *text, fy_hub_place *out, fy_err *e)
{
    fy_hub_place p = {0};
    int rc;
    if (fy_file_exists(text))
        rc = find_path(text, &p, e);
    else if (fy_hub_id_bytes(text) > 0)
        rc = find_id(text, &p, e);
    else
        rc = fy_fail(e, FY_EIO, "%s: no such file or directory", text);
    if (rc != 0) {
        fy_hub_place_release(&p);
        return -1;
    }
    *out = p;
    return 0;
}
