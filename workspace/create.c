#include "workspace/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "format/gguf_write.h"
#include "model/model.h"
#include "workspace/device_exe.h"
#include "workspace/digest.h"
#include "workspace/manifest.h"
#include "workspace/model_json.h"
#include "workspace/staging.h"

/* --- names ------------------------------------------------------------------------------------ */

static bool is_reserved(const char *name)
{
    static const char *const reserved[] = {"bin",
                                           "qnn_libs",
                                           FY_BUNDLE_WORKSPACE_JSON,
                                           FY_BUNDLE_HPARAMS_JSON,
                                           FY_MANIFEST_NAME,
                                           "manifest.sig"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (strcasecmp(name, reserved[i]) == 0) /* a phone's shared storage ignores case */
            return true;
    }
    return false;
}

void fy_model_dir_name(const char *text, size_t n, char out[FY_MODEL_NAME_BYTES])
{
    size_t len = 0;
    for (size_t i = 0; i < n && len + 1 < FY_MODEL_NAME_BYTES; i++) {
        char c = text[i];
        bool letter =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        if (!letter && c != '.')
            c = '-';
        if (!letter &&
            (len == 0 || out[len - 1] == '-')) /* no leading dot or dash, no runs of dashes */
            continue;
        out[len++] = c;
    }
    while (len > 0 && (out[len - 1] == '-' || out[len - 1] == '.'))
        len--;
    out[len] = '\0';
    if (len == 0)
        strcpy(out, "model");
    if (is_reserved(out))
        strcat(out, "-model");
}

/* --- sources ---------------------------------------------------------------------------------- */

typedef struct {
    char *path;      /* owned; links resolved */
    fy_model *model; /* owned */
    char name[FY_MODEL_NAME_BYTES];
    uint64_t bytes;
    dev_t dev;
} source;

typedef struct {
    source *model; /* owned */
    size_t n;
    char *exe; /* owned */
    uint64_t exe_bytes;
} sources;

static void sources_release(sources *s)
{
    for (size_t i = 0; i < s->n; i++) {
        fy_model_close(s->model[i].model);
        free(s->model[i].path);
    }
    free(s->model);
    free(s->exe);
    *s = (sources){0};
}

/* A directory name from general.name, else from the file's, that no model before it has. */
static int name_source(const sources *s, source *m, fy_err *e)
{
    fy_span text = fy_path_base(m->path);
    if (text.len > 5 && strncasecmp(text.ptr + text.len - 5, ".gguf", 5) == 0)
        text.len -= 5;
    fy_gguf_get_str(fy_model_gguf(m->model), FY_KEY_NAME, &text, NULL);
    fy_model_dir_name(text.ptr, text.len, m->name);
    size_t base = strlen(m->name);
    if (base > FY_MODEL_NAME_BYTES - 5)
        base = FY_MODEL_NAME_BYTES - 5;
    for (int k = 1; k < 1000; k++) {
        bool taken = false;
        if (k > 1)
            snprintf(m->name + base, FY_MODEL_NAME_BYTES - base, "-%d", k);
        for (const source *o = s->model; o < m; o++)
            taken |= strcasecmp(o->name, m->name) == 0;
        if (!taken)
            return 0;
    }
    return fy_fail(e, FY_EARG, "more than 999 models are named '%s'", m->name);
}

static int open_source(sources *s, const char *path, fy_err *e)
{
    source *m = &s->model[s->n];
    struct stat st;
    uint32_t n_split = 0;
    *m = (source){.path = realpath(path, NULL)};
    if (m->path == NULL)
        return fy_fail_errno(e, "%s: cannot open", path);
    s->n++;
    m->model = fy_model_open(m->path, e);
    if (m->model == NULL)
        return -1;
    if (fy_gguf_get_u32(fy_model_gguf(m->model), FY_KEY_SPLIT_COUNT, &n_split, NULL) == 0 &&
        n_split > 1)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s: is one of %u parts; expected a model in a single file", path, n_split);
    if (stat(m->path, &st) != 0)
        return fy_fail_errno(e, "%s: cannot read its size", path);
    m->bytes = (uint64_t)st.st_size;
    m->dev = st.st_dev;
    return name_source(s, m, e);
}

static int open_sources(const fy_create_params *p, sources *out, fy_err *e)
{
    struct stat st;
    sources s = {.model = calloc(p->n_models, sizeof *s.model)};
    int rc = s.model != NULL ? 0 : fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < p->n_models; i++)
        rc = open_source(&s, p->models[i], e);
    for (size_t i = 1; rc == 0 && p->model_id != NULL && i < s.n; i++) {
        if (strcmp(p->model_id, s.model[i].name) == 0)
            rc = fy_fail(e, FY_EARG, "model id '%s' is that of %s too; expected one of its own",
                         p->model_id, s.model[i].path);
    }
    if (rc == 0) {
        s.exe = fy_device_exe(p->exe_path, p->self, e);
        rc = s.exe != NULL ? 0 : -1;
    }
    if (rc == 0 && stat(s.exe, &st) != 0)
        rc = fy_fail_errno(e, "%s: cannot read its size", s.exe);
    if (rc != 0) {
        sources_release(&s);
        return rc;
    }
    s.exe_bytes = (uint64_t)st.st_size;
    *out = s;
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct {
    const fy_create_params *p;
    fy_staging *st;
    fy_manifest manifest;
    fy_progress *progress;
} maker;

/* A copy of a whole file, hashed on the way. */
static int add_copy(maker *k, const char *from, const char *rel, uint32_t mode, fy_err *e)
{
    fy_digest d;
    int fd = fy_staging_create(k->st, rel, mode, e);
    if (fd < 0)
        return -1;
    int rc = fy_digest_file(from, fd, rel, k->progress, &d, e);
    if (close(fd) != 0 && rc == 0) {
        rc = fy_fail_errno(e, "%s: cannot close", rel);
        fy_digest_release(&d);
    }
    return rc == 0 ? fy_manifest_add(&k->manifest, rel, mode, &d, e) : rc;
}

/* Frees `text`. */
static int add_text(maker *k, const char *rel, int rc, fy_str *text, fy_err *e)
{
    if (rc == 0)
        rc = fy_staging_write(k->st, rel, 0644, text->ptr, text->len, e);
    fy_digest d = {.bytes = text->len}; /* these texts stay far below the size that has blocks */
    if (rc == 0)
        rc = fy_sha256_of(text->ptr, text->len, d.sha256, e);
    if (rc == 0)
        rc = fy_manifest_add(&k->manifest, rel, 0644, &d, e);
    fy_str_release(text);
    return rc;
}

typedef enum { COPIED, CLONED, LINKED } placed;

/* Shares the source's blocks, or its inode; COPIED (and no file) when neither can be done here. */
static placed share_file(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = in >= 0 ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644) : -1;
    bool cloned = out >= 0 && ioctl(out, FICLONE, in) == 0;
    if (out >= 0) {
        cloned = cloned && fchmod(out, 0644) == 0;
        close(out);
    }
    if (in >= 0)
        close(in);
    if (cloned)
        return CLONED;
    if (out >= 0)
        unlink(to);
    return link(from, to) == 0 ? LINKED : COPIED;
}

static int add_weights(maker *k, const source *m, const char *rel, fy_err *e)
{
    static const char *const word[] = {
        [COPIED] = "copied", [CLONED] = "cloned (shared blocks)", [LINKED] = "linked"};
    char *to = fy_staging_path(k->st, rel, e);
    if (to == NULL || fy_staging_mkdirs(k->st, rel, e) != 0) {
        free(to);
        return -1;
    }
    placed how = k->p->copy ? COPIED : share_file(m->path, to);
    int rc;
    fy_digest d;
    if (how == COPIED) {
        rc = fy_staging_need(k->st, m->bytes, e);
        if (rc == 0)
            rc = add_copy(k, m->path, rel, 0644, e);
    } else {
        rc = fy_digest_file(to, -1, NULL, k->progress, &d, e);
        if (rc == 0)
            rc = fy_manifest_add(&k->manifest, rel, 0644, &d, e);
    }
    if (rc == 0)
        fy_log(FY_LOG_DEBUG, "%s: %s", rel, word[how]);
    free(to);
    return rc;
}

/* Every key of the model, no tensors. */
static int add_vocab(maker *k, const fy_gguf *g, const char *rel, fy_err *e)
{
    fy_gguf_writer *w = fy_gguf_writer_new(e);
    char *path = fy_staging_path(k->st, rel, e);
    int rc = w != NULL && path != NULL ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < fy_gguf_n_kv(g); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(g, i);
        if (!fy_span_is(kv->key,
                        FY_KEY_ALIGNMENT)) /* of the data section, which this file has not */
            rc = fy_gguf_add_kv(w, kv, e);
    }
    if (rc == 0)
        rc = fy_gguf_write(w, path, NULL, NULL, NULL, NULL, e);
    fy_gguf_writer_free(w);
    fy_digest d;
    if (rc == 0 && chmod(path, 0644) != 0)
        rc = fy_fail_errno(e, "%s: cannot set its mode", path);
    if (rc == 0)
        rc = fy_digest_file(path, -1, NULL, NULL, &d, e);
    if (rc == 0)
        rc = fy_manifest_add(&k->manifest, rel, 0644, &d, e);
    free(path);
    return rc;
}

static void warn_powerserve(const source *m)
{
    fy_str why = {0};
    fy_powerserve_limits(fy_model_gguf(m->model), fy_model_family(m->model),
                         fy_model_hparams(m->model), &why);
    if (why.len > 0)
        fy_log(FY_LOG_WARN, "%s: PowerServe's runtime could not compute this model (ferry can): %s",
               m->name, fy_str_z(&why));
    fy_str_release(&why);
}

static int add_model(maker *k, const source *m, const char *model_id, fy_err *e)
{
    char rel[FY_MODEL_NAME_BYTES + 32];
    fy_model_json j;
    fy_str text = {0};
    if (fy_model_json_of(fy_model_family(m->model), fy_model_hparams(m->model), model_id, &j, e) !=
        0)
        return -1;
    snprintf(rel, sizeof rel, "%s/" FY_BUNDLE_WEIGHTS, m->name);
    if (add_weights(k, m, rel, e) != 0)
        return -1;
    snprintf(rel, sizeof rel, "%s/" FY_BUNDLE_VOCAB, m->name);
    if (add_vocab(k, fy_model_gguf(m->model), rel, e) != 0)
        return -1;
    snprintf(rel, sizeof rel, "%s/" FY_BUNDLE_MODEL_JSON, m->name);
    int rc = fy_model_json_text(&j, &text, e);
    if (add_text(k, rel, rc, &text, e) != 0)
        return -1;
    warn_powerserve(m);
    return 0;
}

static int add_settings(maker *k, const source *main_model, fy_err *e)
{
    fy_str text = {0};
    int rc =
        fy_json_text(json_pack("{s:i, s:s, s:s, s:s, s:s}", "format_version", FY_MANIFEST_VERSION,
                               "executables", "bin", "hparams_config", FY_BUNDLE_HPARAMS_JSON,
                               "model_main", main_model->name, "model_draft", ""),
                     &text, e);
    rc = add_text(k, FY_BUNDLE_WORKSPACE_JSON, rc, &text, e);
    if (rc != 0)
        return rc;
    rc = fy_hparams_json_text(fy_model_gguf(main_model->model), &text, e);
    return add_text(k, FY_BUNDLE_HPARAMS_JSON, rc, &text, e);
}

static int add_manifest(maker *k, fy_err *e)
{
    fy_str text = {0};
    int rc = fy_manifest_text(&k->manifest, &text, e);
    if (rc == 0)
        rc = fy_staging_write(k->st, FY_MANIFEST_NAME, 0644, text.ptr, text.len, e);
    fy_str_release(&text);
    return rc;
}

static int fill(maker *k, const sources *s, fy_err *e)
{
    const fy_create_params *p = k->p;
    if (fy_manifest_begin(&k->manifest, p->tool, FY_TARGET_ARM64, e) != 0 ||
        add_copy(k, s->exe, FY_BUNDLE_EXE, 0755, e) != 0)
        return -1;
    for (size_t i = 0; i < s->n; i++) {
        const char *id = i == 0 && p->model_id != NULL ? p->model_id : s->model[i].name;
        if (add_model(k, &s->model[i], id, e) != 0)
            return -1;
    }
    return add_settings(k, &s->model[0], e) != 0 ? -1 : add_manifest(k, e);
}

/* --- the job ---------------------------------------------------------------------------------- */

/* Bytes that will really be written: weights on the same disk are shared when the system lets us.
 */
static uint64_t disk_need(const fy_create_params *p, const sources *s, dev_t dev)
{
    uint64_t need = s->exe_bytes + (1u << 20); /* JSON, directories */
    for (size_t i = 0; i < s->n; i++) {
        need += fy_gguf_data_offset(fy_model_gguf(s->model[i].model)); /* vocab.gguf */
        if (p->copy || s->model[i].dev != dev)
            need += s->model[i].bytes;
    }
    return need;
}

static uint64_t read_bytes(const sources *s)
{
    uint64_t n = s->exe_bytes;
    for (size_t i = 0; i < s->n; i++)
        n += s->model[i].bytes;
    return n;
}

int fy_create(const fy_create_params *p, fy_progress *progress, fy_err *e)
{
    sources s;
    if (open_sources(p, &s, e) != 0)
        return -1;
    maker k = {.p = p, .progress = progress};
    if (progress != NULL)
        progress->total_bytes = read_bytes(&s);
    struct stat st;
    int rc = -1;
    k.st = fy_staging_open(p->dir, e);
    if (k.st == NULL)
        goto done;
    char *root = fy_staging_path(k.st, "", e);
    if (root == NULL || stat(root, &st) != 0)
        st.st_dev = 0;
    free(root);
    rc = fy_staging_need(k.st, disk_need(p, &s, st.st_dev), e);
    if (rc == 0)
        rc = fill(&k, &s, e);
    if (rc == 0)
        rc = fy_staging_commit(k.st, e);
    else
        fy_staging_abort(k.st);
done:
    fy_manifest_release(&k.manifest);
    sources_release(&s);
    return rc;
}
