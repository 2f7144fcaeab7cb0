/* The store of versions on the phone: its directories and lock, the index of what is there, the
 * switch to a new version, and the removal of old ones. */
#include "bundle/agent_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"

enum { MAX_NAME = 200, MAX_VERSIONS = 64, LOCK_TRIES = 100, LOCK_WAIT_MS = 100 };

int fy_store_check_path(const char *path, fy_err *e)
{
    if (path[0] != '/' || strlen(path) > FY_AGENT_MAX_PATH || !fy_manifest_path_ok(path + 1))
        return fy_fail(e, FY_EARG,
                       "'%.200s': expected an absolute path of plain names in printable ASCII, "
                       "without spaces",
                       path);
    const char *name = strrchr(path, '/') + 1;
    if (name == path + 1 || name[0] == '.' || strlen(name) > MAX_NAME)
        return fy_fail(e, FY_EARG,
                       "'%.200s': expected a directory and a name in it that does not begin with "
                       "'.', of at most %d characters",
                       path, MAX_NAME);
    return 0;
}

/* Another agent may be about to end: the one whose cable was pulled a moment ago. */
static int lock(fy_store *s, fy_err *e)
{
    s->lock = open(s->versions, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0)
        return fy_fail_errno(e, "%s: cannot open", s->versions);
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(s->lock, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return 0; /* not every file system has locks */
        nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT_MS * 1000000L}, NULL);
    }
    return fy_fail(e, FY_EDEVICE, "%s: another push to this directory is under way", s->base);
}

int fy_store_open(fy_store *s, const char *path, const uint8_t id[FY_SHA256_BYTES], fy_err *e)
{
    *s = (fy_store){.lock = -1};
    if (fy_store_check_path(path, e) != 0)
        return -1;
    const char *slash = strrchr(path, '/');
    char hex[FY_SHA256_HEX];
    fy_sha256_to_hex(id, hex);
    int base = slash == path ? 1 : (int)(slash - path);
    s->base = fy_path_format(e, "%.*s", base, path);
    s->name = fy_path_format(e, "%s", slash + 1);
    s->versions = fy_path_format(e, "%.*s/" FY_STORE_VERSIONS, base, path);
    s->final = fy_path_format(e, "%.*s/" FY_STORE_VERSIONS "/%s-%.*s", base, path, slash + 1,
                              FY_STORE_ID_HEX, hex);
    if (s->base == NULL || s->name == NULL || s->versions == NULL || s->final == NULL ||
        (s->part = fy_path_format(e, "%s" FY_STORE_PART, s->final)) == NULL)
        return -1;
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
        return fy_fail(e, FY_EDEVICE,
                       "%s: exists, and is not a link that a push made; remove it, or choose "
                       "another place with --to",
                       path);
    if (fy_mkdirs(s->versions, e) != 0)
        return -1;
    return lock(s, e);
}

static void forget_versions(fy_store *s)
{
    for (size_t i = 0; i < s->n_versions; i++) {
        free(s->version[i].dir);
        fy_manifest_release(&s->version[i].m);
    }
    free(s->version);
    free(s->source);
    s->version = NULL;
    s->source = NULL;
    s->n_versions = s->cap_versions = s->n_sources = 0;
}

void fy_store_close(fy_store *s)
{
    forget_versions(s);
    if (s->lock >= 0)
        close(s->lock);
    free(s->base);
    free(s->name);
    free(s->versions);
    free(s->final);
    free(s->part);
    *s = (fy_store){.lock = -1};
}

bool fy_store_has_final(const fy_store *s, const void *manifest, size_t n)
{
    fy_map map;
    if (fy_map_open_in(&map, s->final, FY_MANIFEST_NAME, NULL) != 0)
        return false;
    bool same = map.size == n && memcmp(map.data, manifest, n) == 0;
    fy_map_close(&map);
    return same;
}

/* --- what is there ---------------------------------------------------------------------------- */

/* Takes dir and m, also on failure. */
static int add_version(fy_store *s, char *dir, fy_manifest *m, fy_err *e)
{
    const fy_store_version v = {dir, *m};
    if (dir != NULL &&
        fy_append(&s->version, &s->n_versions, &s->cap_versions, &v, sizeof v, e) == 0)
        return 0;
    free(dir);
    fy_manifest_release(m);
    return fy_nomem(e);
}

/* This program as a version of one file: workspaces hold it too. */
static int add_self(fy_store *s, const char *self, const uint8_t hash[FY_SHA256_BYTES], fy_err *e)
{
    struct stat st;
    const char *slash = self != NULL ? strrchr(self, '/') : NULL;
    if (slash == NULL || slash == self || stat(self, &st) != 0 || !S_ISREG(st.st_mode) ||
        st.st_size > FY_MANIFEST_BLOCK)
        return 0;
    fy_manifest m = {.entry = calloc(1, sizeof *m.entry), .n = 1};
    if (m.entry == NULL)
        return fy_nomem(e);
    *m.entry = (fy_manifest_entry){
        .path = strdup(slash + 1), .bytes = (uint64_t)st.st_size, .mode = st.st_mode & 0777};
    memcpy(m.entry->sha256, hash, FY_SHA256_BYTES);
    if (m.entry->path == NULL) {
        fy_manifest_release(&m);
        return fy_nomem(e);
    }
    return add_version(s, strndup(self, (size_t)(slash - self)), &m, e);
}

static int by_hash(const void *a, const void *b)
{
    return memcmp(((const fy_store_source *)a)->hash, ((const fy_store_source *)b)->hash,
                  FY_SHA256_BYTES);
}

static int sort_sources(fy_store *s, fy_err *e)
{
    uint64_t n = 0;
    for (size_t v = 0; v < s->n_versions; v++) {
        for (size_t f = 0; f < s->version[v].m.n; f++)
            n += fy_unit_count(&s->version[v].m.entry[f]);
    }
    s->source = calloc(n + 1, sizeof *s->source);
    if (s->source == NULL)
        return fy_nomem(e);
    for (size_t v = 0; v < s->n_versions; v++) {
        for (size_t f = 0; f < s->version[v].m.n; f++) {
            const fy_manifest_entry *m = &s->version[v].m.entry[f];
            for (uint64_t u = 0; u < fy_unit_count(m); u++)
                s->source[s->n_sources++] =
                    (fy_store_source){fy_unit_hash(m, u), (uint32_t)v, (uint32_t)f, (uint32_t)u};
        }
    }
    qsort(s->source, s->n_sources, sizeof *s->source, by_hash);
    return 0;
}

/* A directory that cannot be listed holds nothing. */
static int index_dir(fy_store *s, const char *versions, fy_err *e)
{
    DIR *d = opendir(versions);
    int rc = 0;
    for (struct dirent *en; d != NULL && rc == 0 && s->n_versions < MAX_VERSIONS &&
                            (en = readdir(d)) != NULL;) {
        fy_manifest m;
        if (en->d_name[0] == '.')
            continue;
        char *dir = fy_path_join(versions, en->d_name);
        if (dir == NULL)
            rc = fy_nomem(e);
        else if (strcmp(dir, s->part) != 0 && fy_manifest_read(dir, &m, NULL) == 0)
            rc = add_version(s, dir, &m, e);
        else
            free(dir);
    }
    if (d != NULL)
        closedir(d);
    return rc;
}

/* The versions of the other store: workspaces and models share their blocks. Nothing of it is
 * locked, and nothing has to be: what is used is hashed. */
static char *other_versions(const fy_store *s, fy_err *e)
{
    static const char models[] = "/" FY_STORE_MODELS;
    size_t n = strlen(s->base), tail = sizeof models - 1;
    bool is_models = n > tail && strcmp(s->base + n - tail, models) == 0;
    return fy_path_format(e, "%.*s%s/" FY_STORE_VERSIONS, (int)(is_models ? n - tail : n), s->base,
                          is_models ? "" : models);
}

int fy_store_index(fy_store *s, const char *self, const uint8_t self_hash[FY_SHA256_BYTES],
                   fy_err *e)
{
    forget_versions(s);
    char *other = other_versions(s, e);
    int rc = other != NULL ? add_self(s, self, self_hash, e) : -1;
    if (rc == 0)
        rc = index_dir(s, s->versions, e);
    if (rc == 0)
        rc = index_dir(s, other, e);
    free(other);
    return rc == 0 ? sort_sources(s, e) : rc;
}

const fy_store_source *fy_store_find(const fy_store *s, const uint8_t hash[FY_SHA256_BYTES],
                                     size_t *n)
{
    size_t lo = 0, hi = s->n_sources;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (memcmp(s->source[mid].hash, hash, FY_SHA256_BYTES) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *n = 0;
    while (lo + *n < s->n_sources && *n < FY_STORE_TRIES &&
           memcmp(s->source[lo + *n].hash, hash, FY_SHA256_BYTES) == 0)
        ++*n;
    return s->source + lo;
}

const fy_manifest_entry *fy_store_same_file(const fy_store *s, const fy_manifest_entry *m,
                                            const char **dir)
{
    size_t n;
    const fy_store_source *at = fy_store_find(s, fy_unit_hash(m, 0), &n);
    for (size_t i = 0; i < n; i++) {
        const fy_store_version *v = &s->version[at[i].version];
        const fy_manifest_entry *f = &v->m.entry[at[i].file];
        if (at[i].unit == 0 && f->bytes == m->bytes && f->mode == m->mode &&
            memcmp(f->sha256, m->sha256, sizeof f->sha256) == 0) {
            *dir = v->dir;
            return f;
        }
    }
    return NULL;
}

/* --- removing --------------------------------------------------------------------------------- */

int fy_store_remove(const char *path, fy_err *e)
{
    return fy_tree_remove(path) == 0 ? 0 : fy_fail_errno(e, "%s: cannot remove", path);
}

static _Thread_local uint64_t g_own_bytes;

static int add_own(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)path;
    (void)at;
    if (kind == FTW_F && st->st_nlink == 1 && st->st_size > 0)
        g_own_bytes += (uint64_t)st->st_size;
    return 0;
}

/* What removing the directory would free: not the files that another version shares. */
static uint64_t own_bytes(const char *path)
{
    g_own_bytes = 0;
    nftw(path, add_own, 16, FTW_PHYS);
    return g_own_bytes;
}

/* Is `file` NAME-<12 hex digits> and `suffix`? */
static bool is_version(const fy_store *s, const char *file, const char **suffix)
{
    size_t n = strlen(s->name);
    if (strncmp(file, s->name, n) != 0 || file[n] != '-')
        return false;
    file += n + 1;
    if (strspn(file, "0123456789abcdef") < FY_STORE_ID_HEX)
        return false;
    *suffix = file + FY_STORE_ID_HEX;
    return true;
}

/* The version that the name leads to; "" when there is none. */
static void current_version(const fy_store *s, char *out, size_t n)
{
    char *link = fy_path_join(s->base, s->name), target[PATH_MAX];
    ssize_t len = link != NULL ? readlink(link, target, sizeof target - 1) : -1;
    free(link);
    target[len > 0 ? len : 0] = '\0';
    const char *slash = strrchr(target, '/');
    snprintf(out, n, "%s", slash != NULL ? slash + 1 : target);
}

static int clean_one(fy_store *s, const char *file, bool prune, fy_agent_done *d, fy_err *e)
{
    char current[NAME_MAX + 1];
    const char *suffix;
    current_version(s, current, sizeof current);
    if (!is_version(s, file, &suffix) || strcmp(file, current) == 0)
        return 0;
    char *path = fy_path_join(s->versions, file);
    if (path == NULL)
        return fy_nomem(e);
    int rc = 0;
    bool broken = strcmp(suffix, FY_STORE_PART) == 0 || strcmp(suffix, FY_STORE_DAMAGED) == 0;
    if (strcmp(path, s->part) == 0 || strcmp(path, s->final) == 0) {
        ; /* this push's own */
    } else if (broken) {
        rc = fy_store_remove(path, e);
    } else if (*suffix == '\0') {
        uint64_t bytes = own_bytes(path);
        rc = prune ? fy_store_remove(path, e) : 0;
        *(prune ? &d->n_pruned : &d->n_old) += 1;
        *(prune ? &d->pruned_bytes : &d->old_bytes) += bytes;
    }
    free(path);
    return rc;
}

int fy_store_clean(fy_store *s, bool prune, fy_agent_done *d, fy_err *e)
{
    DIR *dir = opendir(s->versions);
    if (dir == NULL)
        return fy_fail_errno(e, "%s: cannot list", s->versions);
    int rc = 0;
    for (struct dirent *en; rc == 0 && (en = readdir(dir)) != NULL;)
        rc = clean_one(s, en->d_name, prune, d, e);
    closedir(dir);
    return rc;
}

/* --- the switch ------------------------------------------------------------------------------- */

int fy_store_switch(fy_store *s, fy_err *e)
{
    char have[PATH_MAX], *link = fy_path_format(e, "%s/%s", s->base, s->name);
    char *fresh = fy_path_format(e, "%s/.%s.new", s->base, s->name);
    char *target = fy_path_format(e, FY_STORE_VERSIONS "/%s", strrchr(s->final, '/') + 1);
    int rc = link != NULL && fresh != NULL && target != NULL ? 0 : -1;
    if (rc == 0) {
        ssize_t n = readlink(link, have, sizeof have - 1);
        bool same = n > 0 && (size_t)n == strlen(target) && memcmp(have, target, (size_t)n) == 0;
        if (!same && ((unlink(fresh) != 0 && errno != ENOENT) || symlink(target, fresh) != 0))
            rc = fy_fail_errno(e, "%s: cannot make a link", fresh);
        else if (!same && rename(fresh, link) != 0)
            rc = fy_fail_errno(e, "%s: cannot switch to the new version", link);
        fy_sync_dir_of(link);
    }
    free(link);
    free(fresh);
    free(target);
    return rc;
}

int fy_store_commit(fy_store *s, fy_err *e)
{
    char *damaged = NULL;
    int rc = 0;
    if (fy_file_exists(s->final)) {
        damaged = fy_path_format(e, "%s" FY_STORE_DAMAGED, s->final);
        rc = damaged != NULL ? fy_store_remove(damaged, e) : -1;
        if (rc == 0 && rename(s->final, damaged) != 0)
            rc = fy_fail_errno(e, "%s: cannot move the damaged version away", s->final);
    }
    if (rc == 0 && rename(s->part, s->final) != 0)
        rc = fy_fail_errno(e, "%s: cannot rename to %s", s->part, s->final);
    if (rc == 0)
        fy_sync_dir_of(s->final);
    if (rc == 0)
        rc = fy_store_switch(s, e);
    if (rc == 0 && damaged != NULL)
        rc = fy_store_remove(damaged, e);
    free(damaged);
    return rc;
}
