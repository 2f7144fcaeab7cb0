/* The list of models and workspaces on this machine (local_items.h). */
#include "workspace/phone/local_items.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/types.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "format/gguf.h"
#include "hub/hub_cache.h"
#include "hub/hub_store.h"
#include "workspace/pack/known.h"

#define DEPTH_MAX 5     /* of directories below the current one */
#define DIRS_MAX  20000 /* that are looked at */

static void release(fy_local_item *x)
{
    free(x->name);
    free(x->path);
    free(x->type);
}

void fy_local_items_release(fy_local_items *s)
{
    for (size_t i = 0; i < s->n; i++)
        release(&s->item[i]);
    free(s->item);
    *s = (fy_local_items){0};
}

/* Takes the three strings of x. */
static int add(fy_local_items *s, fy_local_item *x, fy_err *e)
{
    if (x->name != NULL && x->path != NULL && x->type != NULL)
        return fy_append(&s->item, &s->n, &s->cap, x, sizeof *x, e);
    return fy_nomem(e);
}

/* --- the hub's cache -------------------------------------------------------------------------- */

static char *type_of(const fy_hub_entry *x)
{
    return strdup(x->what[0] != '\0'      ? x->what
                  : x->partial_bytes > 0 ? "incomplete"
                                         : "");
}

static int add_models(fy_local_items *s, fy_err *e)
{
    fy_hub_entries l = {0};
    char *cache = fy_hub_cache_dir(e);
    int rc = cache != NULL ? fy_hub_entries_of(cache, &l, e) : -1;
    for (size_t i = 0; rc == 0 && i < l.n; i++) {
        const fy_hub_entry *from = &l.entry[i];
        fy_local_item x = {.kind = FY_LOCAL_MODEL,
                           .name = strdup(from->id),
                           .path = strdup(from->path),
                           .type = type_of(from),
                           .bytes = from->bytes,
                           .used = from->used};
        rc = add(s, &x, e);
        if (rc != 0)
            release(&x);
    }
    fy_hub_entries_release(&l);
    free(cache);
    return rc;
}

/* --- workspaces below a directory ------------------------------------------------------------- */

typedef struct {
    fy_known *found;
    size_t n_dirs;
} walk;

static int look_below(walk *w, const char *dir, int depth, fy_err *e)
{
    if (fy_dir_has(dir, FY_BUNDLE_WORKSPACE_JSON))
        return fy_known_append(w->found, dir, e);
    if (depth == DEPTH_MAX || w->n_dirs == DIRS_MAX || fy_check_interrupt(e) != 0)
        return depth == DEPTH_MAX || w->n_dirs == DIRS_MAX ? 0 : -1;
    DIR *d = opendir(dir);
    int rc = 0;
    w->n_dirs += d != NULL;
    for (struct dirent *en; rc == 0 && d != NULL && (en = readdir(d)) != NULL;) {
        struct stat st;
        if (en->d_name[0] == '.' || (en->d_type != DT_DIR && en->d_type != DT_UNKNOWN))
            continue;
        char *sub = fy_path_join(dir, en->d_name);
        if (sub == NULL)
            rc = fy_nomem(e);
        else if (lstat(sub, &st) == 0 && S_ISDIR(st.st_mode))
            rc = look_below(w, sub, depth + 1, e);
        free(sub);
    }
    if (d != NULL)
        closedir(d);
    return rc;
}

/* --- one workspace ---------------------------------------------------------------------------- */

/* nftw has no user pointer. */
static fy_local_item *g_counted;

static int count_file(const char *path, const struct stat *st, int what, struct FTW *at)
{
    (void)at;
    if (what != FTW_F || !S_ISREG(st->st_mode))
        return 0;
    g_counted->bytes += (uint64_t)st->st_size;
    if (fy_span_ends(fy_span_of(path), ".json")) /* read by `list`, too */
        return fy_interrupted;
    if (st->st_atime > g_counted->used)
        g_counted->used = st->st_atime;
    if (st->st_mtime > g_counted->used)
        g_counted->used = st->st_mtime;
    return fy_interrupted;
}

/* The commonest type of the weights, of the header of the main model's file. To look is not to use:
 * the time of the last access is put back. */
static int read_type(const char *weights, fy_str *out)
{
    uint64_t bytes[FY_TYPE_COUNT] = {0};
    struct stat st = {0};
    const bool known = stat(weights, &st) == 0;
    fy_gguf *g = fy_gguf_open(weights, NULL);
    size_t most = 0;
    const struct timespec times[2] = {st.st_atim, {.tv_nsec = UTIME_OMIT}};
    if (known)
        utimensat(AT_FDCWD, weights, times, 0);
    if (g == NULL)
        return -1;
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        bytes[t->type] += t->bytes;
        most = bytes[t->type] > bytes[most] ? (size_t)t->type : most;
    }
    fy_str_puts(out, fy_type_name((fy_type)most));
    fy_gguf_close(g);
    return 0;
}

/* A directory whose workspace.json is that of another program is none: left out. */
static int add_workspace(fy_local_items *s, const char *path, fy_err *e)
{
    fy_local_item x = {.kind = FY_LOCAL_WORKSPACE, .name = strdup(path), .path = strdup(path)};
    fy_str type = {0};
    fy_bundle b;
    g_counted = &x; /* before the header is read */
    nftw(path, count_file, 16, FTW_PHYS);
    const bool sound = fy_bundle_open(path, &b, NULL) == 0;
    if (sound && read_type(b.weights, &type) != 0)
        fy_str_puts(&type, "damaged");
    if (sound)
        fy_bundle_release(&b);
    if (!sound)
        fy_str_puts(&type, "damaged");
    x.type = type.oom ? NULL : strdup(fy_str_z(&type));
    fy_str_release(&type);
    const bool is_ours = sound || fy_dir_has(path, FY_MANIFEST_NAME);
    int rc = fy_check_interrupt(e) != 0 ? -1 : is_ours ? add(s, &x, e) : 0;
    if (rc != 0 || !is_ours)
        release(&x);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_workspaces(fy_local_items *s, fy_err *e)
{
    fy_known found = {0};
    walk w = {.found = &found};
    int rc = fy_known_read(&found, e);
    if (rc == 0)
        rc = look_below(&w, ".", 0, e);
    if (w.n_dirs == DIRS_MAX)
        fy_log(FY_LOG_WARN, "more than %d directories are below this one: not all were looked at",
               DIRS_MAX);
    if (rc == 0 && found.n > 0)
        qsort(found.path, found.n, sizeof *found.path, by_path);
    for (size_t i = 0; rc == 0 && i < found.n; i++)
        rc = add_workspace(s, found.path[i], e);
    fy_known_release(&found);
    return rc;
}

int fy_local_items_read(fy_local_items *out, fy_err *e)
{
    fy_local_items s = {0};
    if (add_models(&s, e) != 0 || add_workspaces(&s, e) != 0) {
        fy_local_items_release(&s);
        return -1;
    }
    *out = s;
    return 0;
}

const fy_local_item *fy_local_items_find(const fy_local_items *s, const char *name)
{
    const fy_local_item *found = NULL;
    char *real = realpath(name, NULL);
    for (size_t i = 0; i < s->n && found == NULL; i++) {
        const fy_local_item *x = &s->item[i];
        if (x->kind == FY_LOCAL_WORKSPACE && real != NULL && strcmp(x->path, real) == 0)
            found = x;
    }
    for (size_t i = 0; i < s->n && found == NULL; i++) {
        const fy_local_item *x = &s->item[i];
        if (x->kind == FY_LOCAL_MODEL && strcmp(x->name, name) == 0)
            found = x;
    }
    free(real);
    return found;
}

void fy_put_bytes_text(fy_str *out, uint64_t bytes)
{
    if (bytes >= 1000000000)
        fy_str_printf(out, "%.1f GB", (double)bytes * 1e-9);
    else
        fy_str_printf(out, "%.1f MB", (double)bytes * 1e-6);
}
