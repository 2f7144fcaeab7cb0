/* Every file of a workspace against its manifest, and the files against each other. */
#include "workspace/workspace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arch/arch.h"
#include "base/file.h"
#include "base/quote.h"
#include "base/thread.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "format/gguf.h"
#include "workspace/digest.h"
#include "workspace/elf.h"
#include "workspace/manifest.h"
#include "workspace/model_json.h"
#include "workspace/tree.h"

void fy_verify_report_release(fy_verify_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->finding[i].path);
        free(r->finding[i].text);
    }
    free(r->finding);
    *r = (fy_verify_report){0};
}

static int add_finding(fy_verify_report *r, const char *path, const char *text, fy_err *e)
{
    fy_finding *grown = realloc(r->finding, (r->n + 1) * sizeof *grown);
    if (grown == NULL)
        return fy_nomem(e);
    r->finding = grown;
    fy_finding f = {strdup(path), strdup(text)};
    if (f.path == NULL || f.text == NULL) {
        free(f.path);
        free(f.text);
        return fy_nomem(e);
    }
    grown[r->n++] = f;
    return 0;
}

/* Turns a failed check into a finding. What stops the whole job (memory, an interrupt) stays an
 * error. */
static int found(fy_verify_report *r, const char *path, const fy_err *what, fy_err *e)
{
    if (what->code == FY_ENOMEM || what->code == FY_EINTR)
        return fy_fail(e, what->code, "%s", what->msg);
    return add_finding(r, path, what->msg, e);
}

/* --- hashes ----------------------------------------------------------------------------------- */

typedef struct {
    const char *dir;
    const fy_manifest *m;
    fy_err *result; /* owned; per file */
    fy_progress *progress;
} hasher;

static void check_file(hasher *h, const fy_manifest_entry *m, fy_err *e)
{
    struct stat st;
    fy_digest d;
    char *path = fy_path_join(h->dir, m->path);
    if (path == NULL) {
        fy_nomem(e);
        return;
    }
    if (lstat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        fy_fail(e, FY_EVERIFY, "missing");
    } else if (fy_digest_file(path, -1, NULL, h->progress, &d, e) == 0) {
        fy_digest_compare(&d, m, e);
        fy_digest_release(&d);
        /* other bits are the business of the disk it lies on; a program must be able to start */
        if ((m->mode & 0100) != 0 && (st.st_mode & 0100) == 0)
            fy_fail(e, FY_EVERIFY, "mode %04o, the manifest lists %04o",
                    (unsigned)(st.st_mode & 07777), (unsigned)m->mode);
    }
    free(path);
}

static void check_files(void *ctx, int64_t begin, int64_t end, int thread)
{
    hasher *h = ctx;
    (void)thread;
    for (int64_t i = begin; i < end; i++)
        check_file(h, &h->m->entry[i], &h->result[i]);
}

static int check_hashes(const char *dir, const fy_manifest *m, int n_threads, fy_progress *progress,
                        fy_verify_report *r, fy_err *e)
{
    hasher h = {dir, m, calloc(m->n + 1, sizeof *h.result), progress};
    if (h.result == NULL)
        return fy_nomem(e);
    fy_pool *pool = fy_pool_new(n_threads, e);
    int rc = pool != NULL ? 0 : -1;
    if (rc == 0)
        fy_pool_run(pool, (int64_t)m->n, 1, check_files, &h);
    for (size_t i = 0; rc == 0 && i < m->n; i++) {
        if (h.result[i].code != FY_OK)
            rc = found(r, m->entry[i].path, &h.result[i], e);
        r->n_files++;
        r->bytes += m->entry[i].bytes;
    }
    fy_pool_free(pool);
    free(h.result);
    return rc;
}

/* --- the manifest and the tree ---------------------------------------------------------------- */

/* ferry writes a manifest in one way only and ends it with its own hash: any other byte was changed
 * later. */
static int check_manifest_text(const char *dir, fy_manifest *m, fy_verify_report *r, fy_err *e)
{
    fy_str text = {0};
    fy_map map;
    char *path = fy_path_join(dir, FY_MANIFEST_NAME);
    int rc = path != NULL ? fy_map_open(&map, path, e) : fy_nomem(e);
    if (rc == 0) {
        rc = fy_manifest_text(m, &text, e);
        if (rc == 0 &&
            !fy_span_eq((fy_span){text.ptr, text.len}, (fy_span){(const char *)map.data, map.size}))
            rc = add_finding(r, FY_MANIFEST_NAME,
                             "changed: not the text that ferry writes for this content", e);
        fy_map_close(&map);
    }
    fy_str_release(&text);
    free(path);
    return rc;
}

static int check_unlisted(const char *dir, const fy_manifest *m, fy_verify_report *r, fy_err *e)
{
    fy_tree t;
    if (fy_tree_unlisted(dir, m, &t, e) != 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < t.n; i++)
        rc = add_finding(r, t.path[i], "not listed in " FY_MANIFEST_NAME, e);
    fy_tree_release(&t);
    return rc;
}

/* --- files against each other ----------------------------------------------------------------- */

static bool has_suffix(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    return n > k && strcmp(s + n - k, suffix) == 0;
}

static int check_program(const char *dir, const fy_manifest *m, const char *rel, fy_err *e)
{
    char *path = fy_path_join(dir, rel);
    if (path == NULL)
        return fy_nomem(e);
    int rc = fy_elf_check_file(path, m->target, e);
    free(path);
    return rc;
}

static fy_gguf *open_gguf(const char *dir, const char *model, const char *name, fy_err *e)
{
    fy_str path = {0};
    fy_str_printf(&path, "%s/%s/%s", dir, model, name);
    fy_gguf *g = NULL;
    if (path.oom)
        fy_nomem(e);
    else
        g = fy_gguf_open(fy_str_z(&path), e);
    fy_str_release(&path);
    return g;
}

static int read_model_json(const char *dir, const char *rel, fy_model_json *out, fy_err *e)
{
    fy_map map;
    char *path = fy_path_join(dir, rel);
    int rc = path != NULL ? fy_map_open(&map, path, e) : fy_nomem(e);
    if (rc == 0) {
        rc = map.size <= FY_BUNDLE_JSON_MAX_BYTES
                 ? fy_model_json_parse(map.data, map.size, out, e)
                 : fy_fail(e, FY_EFORMAT, "%zu bytes, expected at most %u", map.size,
                           FY_BUNDLE_JSON_MAX_BYTES);
        fy_map_close(&map);
    }
    free(path);
    return rc;
}

/* vocab.gguf holds the keys of the weights: the same tokens, and no tensors. */
static int compare_vocab(const fy_gguf *vocab, const fy_gguf *weights, uint32_t n_vocab, fy_err *e)
{
    static const char tokens[] = FY_KEY_TOKENS;
    const fy_gguf_kv *a = fy_gguf_find(vocab, tokens), *b = fy_gguf_find(weights, tokens);
    if (fy_gguf_n_tensors(vocab) > 0)
        return fy_fail(e, FY_EVERIFY, FY_BUNDLE_VOCAB " holds %zu tensors, expected none",
                       fy_gguf_n_tensors(vocab));
    if ((a == NULL) != (b == NULL))
        return fy_fail(e, FY_EVERIFY, "%s is only in %s", tokens,
                       a != NULL ? FY_BUNDLE_VOCAB : FY_BUNDLE_WEIGHTS);
    if (a == NULL)
        return 0;
    if (a->count != n_vocab)
        return fy_fail(e, FY_EVERIFY,
                       FY_BUNDLE_VOCAB " has %llu tokens, the weights' embedding has %u rows",
                       (unsigned long long)a->count, n_vocab);
    if (a->type != b->type || a->elem != b->elem || a->bytes != b->bytes ||
        memcmp(a->data, b->data, a->bytes) != 0)
        return fy_fail(e, FY_EVERIFY,
                       FY_BUNDLE_VOCAB " and " FY_BUNDLE_WEIGHTS " have different tokens");
    return 0;
}

static int check_model(const char *dir, const char *rel, fy_err *e)
{
    char model[FY_MANIFEST_MAX_PATH + 1];
    snprintf(model, sizeof model, "%.*s", (int)(strlen(rel) - strlen("/" FY_BUNDLE_MODEL_JSON)),
             rel);
    fy_model_json found_json, expected;
    fy_hparams hp;
    if (read_model_json(dir, rel, &found_json, e) != 0)
        return -1;
    fy_gguf *weights = open_gguf(dir, model, FY_BUNDLE_WEIGHTS, e);
    fy_gguf *vocab = weights != NULL ? open_gguf(dir, model, FY_BUNDLE_VOCAB, e) : NULL;
    fy_span arch = {"", 0};
    int rc = vocab != NULL ? 0 : -1;
    if (rc == 0 && fy_gguf_get_str(weights, FY_KEY_ARCHITECTURE, &arch, e) < 0)
        rc = -1;
    const fy_family *family = rc == 0 ? fy_family_of_gguf(arch) : NULL;
    char shown[FY_QUOTE_BYTES];
    if (rc == 0 && family == NULL)
        rc = fy_fail(e, FY_EUNSUPPORTED, FY_BUNDLE_WEIGHTS ": architecture '%s' is unknown",
                     fy_quote(shown, sizeof shown, arch));
    if (rc == 0)
        rc = fy_hparams_from_gguf(weights, family, &hp, e);
    if (rc == 0)
        rc = fy_model_json_of(family, &hp, found_json.model_id, &expected, e);
    if (rc == 0)
        rc = fy_model_json_compare(&found_json, &expected, e);
    if (rc == 0)
        rc = compare_vocab(vocab, weights, hp.n_vocab, e);
    fy_gguf_close(vocab);
    fy_gguf_close(weights);
    return rc;
}

/* Only for files whose bytes are right: the rest would repeat what the hashes have said. */
static int check_consistency(const char *dir, const fy_manifest *m, fy_verify_report *r, fy_err *e)
{
    for (size_t i = 0; i < m->n; i++) {
        const char *rel = m->entry[i].path;
        fy_err what = {0};
        if (strncmp(rel, "bin/", 4) == 0)
            check_program(dir, m, rel, &what);
        else if (has_suffix(rel, "/" FY_BUNDLE_MODEL_JSON))
            check_model(dir, rel, &what);
        if (what.code != FY_OK && found(r, rel, &what, e) != 0)
            return -1;
        if (fy_check_interrupt(e) != 0)
            return -1;
    }
    fy_bundle b;
    fy_err what = {0};
    if (r->n > 0)
        return 0;
    if (fy_bundle_open(dir, &b, &what) != 0)
        return found(r, FY_BUNDLE_WORKSPACE_JSON, &what, e);
    fy_bundle_release(&b);
    return 0;
}

/* --- the job ---------------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    return strcmp(((const fy_finding *)a)->path, ((const fy_finding *)b)->path);
}

int fy_verify(const char *dir, int n_threads, fy_progress *progress, fy_verify_report *out,
              fy_err *e)
{
    fy_manifest m;
    fy_verify_report r = {0};
    fy_err what = {0};
    if (fy_manifest_read(dir, &m, &what) != 0) {
        /* a directory that is no workspace, or a path that is wrong, is not a damaged workspace */
        char *path = fy_path_join(dir, FY_MANIFEST_NAME);
        bool damaged = path != NULL && fy_file_exists(path) &&
                       (what.code == FY_EFORMAT || what.code == FY_EVERIFY);
        free(path);
        if (!damaged)
            return fy_fail(e, what.code, "%s", what.msg);
        int rc = found(&r, FY_MANIFEST_NAME, &what, e);
        *out = r;
        return rc;
    }
    for (size_t i = 0; progress != NULL && i < m.n; i++)
        progress->total_bytes += m.entry[i].bytes < INT64_MAX ? m.entry[i].bytes : 0;
    int rc = check_hashes(dir, &m, n_threads, progress, &r, e);
    if (rc == 0)
        rc = check_manifest_text(dir, &m, &r, e);
    if (rc == 0)
        rc = check_unlisted(dir, &m, &r, e);
    if (rc == 0 && r.n == 0)
        rc = check_consistency(dir, &m, &r, e);
    fy_manifest_release(&m);
    if (rc != 0) {
        fy_verify_report_release(&r);
        return rc;
    }
    if (r.n > 0)
        qsort(r.finding, r.n, sizeof *r.finding, by_path);
    *out = r;
    return 0;
}
