/* Every file of a workspace against its manifest, and the signature of that. */
#include "workspace/pack/workspace.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "bundle/bundle_check.h"
#include "bundle/manifest_read.h"
#include "workspace/pack/manifest.h"
#include "workspace/pack/tree.h"
#include "workspace/pack/verify_content.h"

static void release_list(fy_finding *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(list[i].path);
        free(list[i].text);
    }
    free(list);
}

void fy_verify_report_release(fy_verify_report *r)
{
    release_list(r->finding, r->n);
    release_list(r->note, r->n_notes);
    fy_signature_release(&r->signature);
    *r = (fy_verify_report){0};
}

static int append(fy_finding **list, size_t *n, const char *path, const char *text, fy_err *e)
{
    fy_finding *grown = realloc(*list, (*n + 1) * sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    *list = grown;
    fy_finding f = {strdup(path), strdup(text)};
    if (f.path == NULL || f.text == NULL) {
        free(f.path);
        free(f.text);
        return fy_nomem(e);
    }
    grown[(*n)++] = f;
    return 0;
}

int fy_verify_add(fy_verify_report *r, const char *path, const char *text, fy_err *e)
{
    return append(&r->finding, &r->n, path, text, e);
}

int fy_verify_note(fy_verify_report *r, const char *path, const char *text, fy_err *e)
{
    return append(&r->note, &r->n_notes, path, text, e);
}

int fy_verify_found(fy_verify_report *r, const char *path, const fy_err *what, fy_err *e)
{
    if (what->code == FY_ENOMEM || what->code == FY_EINTR)
        return fy_fail(e, what->code, "%s", what->msg);
    return fy_verify_add(r, path, what->msg, e);
}

/* --- hashes ----------------------------------------------------------------------------------- */

static int on_bad(void *user, const fy_manifest_entry *m, const fy_err *what, fy_err *e)
{
    return fy_verify_found(user, m->path, what, e);
}

static int check_hashes(const char *dir, const fy_manifest *m, int n_threads, fy_progress *progress,
                        fy_verify_report *r, fy_err *e)
{
    r->n_files = m->n;
    for (size_t i = 0; i < m->n; i++)
        r->bytes += m->entry[i].bytes;
    return fy_bundle_hash_all(dir, m, true, n_threads, progress, on_bad, r, e);
}

/* --- the manifest and the tree ---------------------------------------------------------------- */

/* ferry writes a manifest in one way only and ends it with its own hash: any other byte was changed
 * later. */
static int check_manifest_text(fy_span found, fy_manifest *m, fy_verify_report *r, fy_err *e)
{
    fy_str text = {0};
    int rc = fy_manifest_text(m, &text, e);
    if (rc == 0 && !fy_span_eq((fy_span){text.ptr, text.len}, found))
        rc = fy_verify_add(r, FY_MANIFEST_NAME,
                           "changed: not the text that ferry writes for this content", e);
    fy_str_release(&text);
    return rc;
}

static int check_unlisted(const char *dir, const fy_manifest *m, fy_verify_report *r, fy_err *e)
{
    fy_tree t;
    if (fy_tree_unlisted(dir, m, &t, e) != 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < t.n; i++)
        rc = fy_verify_add(r, t.path[i], "not listed in " FY_MANIFEST_NAME, e);
    fy_tree_release(&t);
    return rc;
}

/* --- the signature ---------------------------------------------------------------------------- */

static int check_signature(const char *dir, const fy_seal *seal, const fy_trust *trust,
                           fy_verify_report *r, fy_err *e)
{
    fy_str why = {0};
    int rc = fy_trust_check(trust, seal, dir, &r->signature, &why, e);
    if (rc == 0 && why.len > 0)
        rc = fy_verify_add(r, FY_MANIFEST_SIG, why.ptr, e);
    fy_str_release(&why);
    return rc;
}

/* --- the job ---------------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    return strcmp(((const fy_finding *)a)->path, ((const fy_finding *)b)->path);
}

/* A manifest that cannot be read is the only finding; a directory that is no workspace, or a path
 * that is wrong, is not a damaged workspace. */
static int without_manifest(const char *dir, const fy_err *what, fy_verify_report *r, fy_err *e)
{
    char *path = fy_path_join(dir, FY_MANIFEST_NAME);
    bool damaged = path != NULL && fy_file_exists(path) &&
                   (what->code == FY_EFORMAT || what->code == FY_EVERIFY);
    free(path);
    return damaged ? fy_verify_found(r, FY_MANIFEST_NAME, what, e)
                   : fy_fail(e, what->code, "%s", what->msg);
}

static int check_all(const char *dir, const fy_seal *seal, fy_manifest *m, const fy_trust *trust,
                     int n_threads, fy_progress *progress, fy_verify_report *r, fy_err *e)
{
    int rc = check_hashes(dir, m, n_threads, progress, r, e);
    if (rc == 0)
        rc = check_manifest_text(seal->manifest, m, r, e);
    if (rc == 0)
        rc = check_unlisted(dir, m, r, e);
    if (rc == 0 && r->n == 0)
        rc = fy_verify_content(dir, m, r, e);
    return rc == 0 ? check_signature(dir, seal, trust, r, e) : rc;
}

static int finish(int rc, fy_verify_report *r, fy_verify_report *out)
{
    if (rc != 0) {
        fy_verify_report_release(r);
        return rc;
    }
    if (r->n > 0)
        qsort(r->finding, r->n, sizeof *r->finding, by_path);
    *out = *r;
    return 0;
}

int fy_verify_sealed(const char *dir, const fy_seal *seal, const fy_trust *trust, int n_threads,
                     fy_progress *progress, fy_verify_report *out, fy_err *e)
{
    fy_manifest m;
    fy_verify_report r = {0};
    fy_err what = {0};
    int rc;
    if (fy_manifest_parse(seal->manifest.ptr, seal->manifest.len, &m, &what) != 0) {
        fy_manifest_ctx(dir, &what);
        rc = without_manifest(dir, &what, &r, e);
    } else {
        rc = check_all(dir, seal, &m, trust, n_threads, progress, &r, e);
        fy_manifest_release(&m);
    }
    return finish(rc, &r, out);
}

int fy_verify_trusted(const char *dir, const fy_trust *trust, int n_threads, fy_progress *progress,
                      fy_verify_report *out, fy_err *e)
{
    fy_seal seal;
    fy_verify_report r = {0};
    fy_err what = {0};
    if (fy_seal_open(dir, &seal, &what) != 0)
        return finish(without_manifest(dir, &what, &r, e), &r, out);
    int rc = fy_verify_sealed(dir, &seal, trust, n_threads, progress, out, e);
    fy_seal_close(&seal);
    return rc;
}

int fy_verify(const char *dir, int n_threads, fy_progress *progress, fy_verify_report *out,
              fy_err *e)
{
    return fy_verify_trusted(dir, NULL, n_threads, progress, out, e);
}
