/* Finds the model that the user names (hub_model.h): in the cache, below a directory, or on the hub.
 */
#include "hub/hub_model.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/terminal.h"
#include "hub/hub_cache.h"
#include "hub/hub_fetch.h"

#define DEPTH_MAX 4 /* of directories: publishers use one */

void fy_hub_place_release(fy_hub_place *p)
{
    free(p->path);
    free(p->name);
    *p = (fy_hub_place){0};
}

/* --- the files of a directory ----------------------------------------------------------------- */

static int add_file(fy_hub_list *l, const char *name, uint64_t size, fy_err *e)
{
    fy_hub_file f = {.name = fy_arena_strndup(&l->strings, name, strlen(name)), .size = size};
    if (f.name == NULL)
        return fy_nomem(e);
    if (l->n == FY_HUB_FILES_MAX)
        return fy_fail(e, FY_EUNSUPPORTED, "more than %d files", FY_HUB_FILES_MAX);
    return fy_append(&l->files, &l->n, &l->cap, &f, sizeof f, e);
}

static int add_dir(fy_hub_list *l, const char *dir, const char *at, int depth, fy_err *e);

/* name: below dir. Links to files are followed, those to directories are not. */
static int add_entry(fy_hub_list *l, const char *dir, const char *name, int depth, fy_err *e)
{
    struct stat st = {0};
    char *path = fy_path_join(dir, name);
    if (path == NULL)
        return fy_nomem(e);
    int rc = 0;
    const bool is_dir = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (is_dir && depth < DEPTH_MAX)
        rc = add_dir(l, dir, name, depth + 1, e);
    else if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        rc = add_file(l, name, (uint64_t)st.st_size, e);
    free(path);
    return rc;
}

static int add_dir(fy_hub_list *l, const char *dir, const char *at, int depth, fy_err *e)
{
    char *path = *at != '\0' ? fy_path_join(dir, at) : strdup(dir);
    DIR *d = path != NULL ? opendir(path) : NULL;
    int rc = path == NULL ? fy_nomem(e) : d == NULL ? fy_fail_errno(e, "%s", path) : 0;
    for (struct dirent *en; rc == 0 && (en = readdir(d)) != NULL;) {
        if (en->d_name[0] == '.')
            continue;
        char *name = *at != '\0' ? fy_path_join(at, en->d_name) : strdup(en->d_name);
        rc = name != NULL ? add_entry(l, dir, name, depth, e) : fy_nomem(e);
        free(name);
    }
    if (d != NULL)
        closedir(d);
    free(path);
    return rc;
}

/* --- what it holds ----------------------------------------------------------------------------- */

static void put_once(fy_str *out, const char *text)
{
    fy_span rest = {fy_str_z(out), out->len};
    const size_t n = strlen(text);
    while (rest.len >= n) { /* as a word between commas */
        const char *comma = memchr(rest.ptr, ',', rest.len);
        const size_t len = comma != NULL ? (size_t)(comma - rest.ptr) : rest.len;
        if (len == n && memcmp(rest.ptr, text, n) == 0)
            return;
        if (comma == NULL)
            break;
        rest = (fy_span){comma + 2, rest.len - len - 2};
    }
    fy_str_printf(out, "%s%s", out->len > 0 ? ", " : "", text);
}

int fy_hub_put_models(const char *dir, fy_str *out, fy_err *e)
{
    fy_hub_list l = {0};
    fy_gguf_variants models = {0};
    int rc = add_dir(&l, dir, "", 0, e);
    if (rc == 0 && fy_hub_list_has_weights(&l))
        put_once(out, "checkpoint");
    if (rc == 0)
        rc = fy_hub_list_models(&l, &models, e);
    for (size_t i = 0; i < models.n; i++) {
        const char *label = models.v[i].name.label;
        put_once(out, label[0] != '\0' ? label : "GGUF");
    }
    fy_gguf_variants_release(&models);
    fy_hub_list_release(&l);
    return rc;
}

/* --- in the cache ----------------------------------------------------------------------------- */

/* NAME without ORG. */
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

/* Makes p->path, a directory, the GGUF model in it, if one is there and meant. c->id is what the
 * user wrote. strict: it is a repository, and not to have what is wanted is an error. */
static int pick_gguf(fy_hub_place *p, const fy_hub_choice *c, bool strict, fy_err *e)
{
    fy_hub_list l = {0};
    fy_err why = {0};
    /* of any other directory, which may be the root of a disk, little is looked at */
    int rc = add_dir(&l, p->path, "", strict ? 0 : DEPTH_MAX - 1, &why);
    if (rc != 0 && (strict || why.code == FY_ENOMEM))
        rc = fy_fail(e, why.code, "%s", why.msg);
    else if (rc != 0) {
        fy_hub_list_release(&l);
        return 0;
    }
    const bool gguf = fy_hub_list_has_gguf(&l);
    const bool meant = strict ? c->kind != FY_HUB_ANY || c->type[0] != '\0' ||
                                    !fy_hub_list_has_weights(&l)
                              : c->kind != FY_HUB_CHECKPOINT;
    if (rc == 0 && meant && (gguf || (strict && c->type[0] != '\0')))
        rc = fy_hub_list_choose(&l, c, e) == 0 ? 0 : fy_ctx(e, "%s", c->id);
    if (rc == 0 && l.model.first != NULL) {
        char *file = fy_path_join(p->path, l.model.first);
        rc = file != NULL ? 0 : fy_nomem(e);
        free(p->path);
        p->path = file;
    }
    fy_hub_list_release(&l);
    return rc;
}

static int find_path(const char *path, fy_hub_kind kind, fy_hub_place *p, fy_err *e)
{
    const fy_hub_choice c = {.id = path, .kind = kind, .type = ""};
    bool strict = false;
    if (fy_file_is_dir(path) && fy_hub_is_entry(path)) {
        if (fy_hub_find_snapshot(path, "", &p->path, e) != 0)
            return -1;
    } else {
        p->path = strdup(path);
        if (p->path == NULL)
            return fy_nomem(e);
    }
    if (!fy_file_is_dir(p->path))
        return 0;
    if (snapshot_name(p->path, &p->name, e) != 0)
        return -1;
    strict = p->name != NULL;
    return strict || !fy_dir_has(p->path, "config.json") ? pick_gguf(p, &c, strict, e) : 0;
}

/* What the cache lacks is FY_EIO. */
static int find_id(const char *text, fy_hub_kind kind, fy_hub_place *p, fy_err *e)
{
    fy_hub_ref ref;
    if (fy_hub_ref_read(text, &ref, e) != 0)
        return -1;
    char *storage = fy_hub_storage(&ref, e);
    if (storage == NULL)
        return -1;
    int rc;
    if (fy_file_is_dir(storage))
        rc = fy_hub_find_snapshot(storage, ref.revision, &p->path, e);
    else
        rc = fy_fail(e, FY_EIO,
                     "%s: no such file or directory, and not in the cache (no %s); "
                     "%s'ferry fetch %s' downloads it",
                     text, storage, fy_hub_is_offline() ? "HF_HUB_OFFLINE is set: without it " : "",
                     text);
    free(storage);
    const fy_hub_choice c = {.id = ref.id, .kind = kind, .type = ref.type};
    if (rc == 0)
        rc = snapshot_name(p->path, &p->name, e);
    if (rc != 0)
        return -1;
    fy_err why = {0};
    if (pick_gguf(p, &c, true, &why) == 0)
        return 0;
    return ref.type[0] != '\0' && why.code == FY_EUNSUPPORTED && kind != FY_HUB_CHECKPOINT
               ? fy_fail(e, FY_EIO, "not in the cache: %s; 'ferry fetch %s' downloads it", why.msg,
                         text)
               : fy_fail(e, why.code, "%s", why.msg);
}

/* is_name: paths of that name do not matter. */
static int find(const char *text, bool is_name, fy_hub_kind kind, fy_hub_place *out, fy_err *e)
{
    fy_hub_place p = {0};
    int rc;
    if (!is_name && fy_file_exists(text))
        rc = find_path(text, kind, &p, e);
    else if (fy_hub_id_bytes(text) > 0)
        rc = find_id(text, kind, &p, e);
    else
        rc = fy_fail(e, FY_EIO, "%s: no such file or directory", text);
    if (rc != 0) {
        fy_hub_place_release(&p);
        return -1;
    }
    *out = p;
    return 0;
}

int fy_hub_find(const char *text, fy_hub_kind kind, fy_hub_place *out, fy_err *e)
{
    return find(text, false, kind, out, e);
}

/* --- on the hub ------------------------------------------------------------------------------- */

static int bring(const char *text, fy_hub_kind kind, fy_hub_place *out, fy_err *e)
{
    fy_hub_want w = {.kind = kind, .parallel = FY_HUB_PARALLEL, .retries = FY_HUB_RETRIES};
    fy_hub_got g = {0};
    fy_hub_place p = {0};
    int rc = fy_hub_ref_read(text, &w.ref, e);
    if (rc == 0 && (fy_hub_ask(&w, &g, e) != 0 || fy_hub_bring(&w, &g, e) != 0))
        rc = -1;
    if (rc == 0) {
        p.path = fy_hub_got_path(&g, e);
        rc = p.path != NULL ? snapshot_name(g.snapshot, &p.name, e) : -1;
    }
    fy_hub_got_release(&g);
    if (rc != 0)
        fy_hub_place_release(&p);
    else
        *out = p;
    return rc;
}

int fy_hub_get(const char *text, fy_hub_kind kind, bool fetch, fy_hub_place *out, fy_err *e)
{
    return !fetch || fy_file_exists(text) || fy_hub_is_offline() ? fy_hub_find(text, kind, out, e)
                                                                 : bring(text, kind, out, e);
}

static int take_path(fy_hub_place *p, char **path)
{
    *path = p->path;
    p->path = NULL;
    fy_hub_place_release(p);
    return 0;
}

/* Yes, or Return. */
static int ask_fetch(const char *text, bool *yes, fy_err *e)
{
    char question[FY_HUB_ID_BYTES + FY_HUB_REVISION_BYTES + 100], shown[sizeof question - 60];
    char answer[8];
    snprintf(question, sizeof question, "%s is not in the cache; download it? [Y/n] ",
             fy_quote(shown, sizeof shown, fy_span_of(text)));
    if (fy_ask(question, answer, sizeof answer, e) != 0)
        return -1;
    *yes = answer[0] == '\0' || answer[0] == 'y' || answer[0] == 'Y';
    return 0;
}

int fy_hub_model_path(const fy_hub_want_model *want, char **path, fy_err *e)
{
    const fy_hub_kind kind = want->gguf_only ? FY_HUB_GGUF : FY_HUB_ANY;
    fy_hub_place p = {0};
    fy_err why = {0};
    bool fetch = want->fetch;
    int rc = find(want->text, want->is_name, kind, &p, &why);
    if (rc != 0 && why.code == FY_EIO && !fy_hub_is_offline()) {
        if (!fetch && want->may_ask && ask_fetch(want->text, &fetch, e) != 0)
            return -1;
        if (fetch)
            return bring(want->text, kind, &p, e) == 0 ? take_path(&p, path) : -1;
    }
    return rc == 0 ? take_path(&p, path) : fy_fail(e, why.code, "%s", why.msg);
}
