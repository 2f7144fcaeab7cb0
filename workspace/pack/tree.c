#include "workspace/pack/tree.h"

#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"

void fy_tree_release(fy_tree *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->path[i]);
    free(t->path);
    *t = (fy_tree){0};
}

static int add(fy_tree *t, const char *path, fy_err *e)
{
    char **grown = realloc(t->path, (t->n + 1) * sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    t->path = grown;
    grown[t->n] = strdup(path);
    if (grown[t->n] == NULL)
        return fy_nomem(e);
    t->n++;
    return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Has a listed file its place below rel? */
static bool is_needed(const fy_manifest *m, const char *rel)
{
    size_t lo = 0, hi = m->n, n = strlen(rel);
    while (lo < hi) { /* the first path that does not sort before "rel/" */
        size_t mid = lo + (hi - lo) / 2;
        int c = strncmp(m->entry[mid].path, rel, n);
        if (c < 0 || (c == 0 && m->entry[mid].path[n] < '/'))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < m->n && strncmp(m->entry[lo].path, rel, n) == 0 && m->entry[lo].path[n] == '/';
}

static int add_directory(fy_tree *t, const char *rel, fy_err *e)
{
    char *path = fy_path_join(rel, "");
    int rc = path != NULL ? add(t, path, e) : fy_nomem(e);
    free(path);
    return rc;
}

static int walk(FTS *fts, const char *dir, const fy_manifest *m, fy_tree *t, fy_err *e)
{
    FTSENT *en;
    while (errno = 0, (en = fts_read(fts)) != NULL) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        const char *rel = en->fts_path + strlen(dir);
        while (*rel == '/')
            rel++;
        switch (en->fts_info) {
        case FTS_D:
            en->fts_number = (long)t->n;
            break;
        case FTS_DP: /* what is in it was reported already */
            if (*rel != '\0' && (size_t)en->fts_number == t->n && !is_needed(m, rel) &&
                add_directory(t, rel, e) != 0)
                return -1;
            break;
        case FTS_DNR:
        case FTS_ERR:
        case FTS_NS:
            errno = en->fts_errno;
            return fy_fail_errno(e, "%s: cannot read", en->fts_path);
        default:
            if (!fy_manifest_is_unlisted(rel) && fy_manifest_find(m, rel) == NULL &&
                add(t, rel, e) != 0)
                return -1;
        }
    }
    return errno == 0 ? 0 : fy_fail_errno(e, "%s: cannot list", dir);
}

int fy_tree_unlisted(const char *dir, const fy_manifest *m, fy_tree *out, fy_err *e)
{
    char *root = strdup(dir);
    if (root == NULL)
        return fy_nomem(e);
    char *const roots[] = {root, NULL};
    fy_tree t = {0};
    int rc = -1;
    /* COMFOLLOW: the workspace itself may be reached through a link, nothing below it */
    FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    if (fts == NULL) {
        fy_fail_errno(e, "%s: cannot list", dir);
    } else {
        rc = walk(fts, dir, m, &t, e);
        fts_close(fts);
    }
    free(root);
    if (rc != 0) {
        fy_tree_release(&t);
        return rc;
    }
    if (t.n > 0)
        qsort(t.path, t.n, sizeof *t.path, by_text);
    *out = t;
    return 0;
}
