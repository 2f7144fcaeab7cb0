/* The verb `create`: what was looked up goes into the staging directory, each file with its hash.
 */
#include "workspace/pack/workspace.h"

#include <fcntl.h>
#include <jansson.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/chunk_info.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "bundle/bundle.h"
#include "bundle/bundle_check.h"
#include "cli/measure/parity.h"
#include "cli/cut_model.h"
#include "format/gguf_write.h"
#include "workspace/npu/qnn_check.h"
#include "workspace/pack/create_impl.h"
#include "workspace/pack/elf.h"

typedef struct {
    const fy_create_params *p;
    fy_staging *st;
    fy_manifest manifest;
    fy_progress *progress;
    int htp; /* architecture of qnn_libs/; 0: there are none */
} maker;

/* --- lists of files --------------------------------------------------------------------------- */

int fy_inputs_add(fy_inputs *l, const char *from, const char *rel, uint32_t mode, fy_err *e)
{
    struct stat st;
    char *real = realpath(from, NULL);
    if (real == NULL)
        return fy_fail_errno(e, "%s: cannot open", from);
    fy_input *grown = fy_grow(l->item, l->n, &l->cap, sizeof *grown);
    fy_input one = {.from = real, .rel = strdup(rel), .mode = mode};
    int rc = 0;
    if (grown == NULL || one.rel == NULL)
        rc = fy_nomem(e);
    else if (stat(real, &st) != 0)
        rc = fy_fail_errno(e, "%s: cannot read its size", from);
    else if (!S_ISREG(st.st_mode))
        rc = fy_fail(e, FY_EARG, "%s: is not a regular file", from);
    else if (!fy_manifest_path_ok(rel))
        rc = fy_fail(e, FY_EARG,
                     "%s: a workspace has no file of this name; expected printable ASCII without "
                     "spaces",
                     from);
    if (grown != NULL)
        l->item = grown;
    if (rc != 0) {
        free(one.from);
        free(one.rel);
        return rc;
    }
    one.bytes = (uint64_t)st.st_size;
    one.dev = st.st_dev;
    l->item[l->n++] = one;
    return 0;
}

const fy_input *fy_inputs_find(const fy_inputs *l, const char *rel)
{
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->item[i].rel, rel) == 0)
            return &l->item[i];
    }
    return NULL;
}

static uint64_t inputs_bytes(const fy_inputs *l)
{
    uint64_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += l->item[i].bytes;
    return n;
}

/* Of those on another file system, which cannot be shared. */
static uint64_t inputs_bytes_off(const fy_inputs *l, dev_t dev)
{
    uint64_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        n += l->item[i].dev != dev ? l->item[i].bytes : 0;
    return n;
}

void fy_inputs_release(fy_inputs *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->item[i].from);
        free(l->item[i].rel);
    }
    free(l->item);
    *l = (fy_inputs){0};
}

/* --- into the staging directory --------------------------------------------------------------- */

static int put_copy(maker *k, const char *from, const char *rel, uint32_t mode, fy_err *e)
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
    struct stat st; /* a linked file keeps its mode */
    bool fit = stat(from, &st) == 0 && (st.st_mode & FY_MODE_REFUSED) == 0;
    return fit && link(from, to) == 0 ? LINKED : COPIED;
}

static int add_digest(maker *k, const char *path, const char *rel, fy_err *e)
{
    fy_digest d;
    int rc = fy_digest_file(path, -1, NULL, k->progress, &d, e);
    return rc == 0 ? fy_manifest_add(&k->manifest, rel, 0644, &d, e) : rc;
}

/* Shares blocks or inode if possible, and if p->copy is not set. Mode 0644. */
static int put_share(maker *k, const char *from, uint64_t bytes, const char *rel, fy_err *e)
{
    static const char *const word[] = {
        [COPIED] = "copied", [CLONED] = "cloned (shared blocks)", [LINKED] = "linked"};
    char *to = fy_staging_path(k->st, rel, e);
    if (to == NULL || fy_staging_mkdirs(k->st, rel, e) != 0) {
        free(to);
        return -1;
    }
    placed how = k->p->copy ? COPIED : share_file(from, to);
    int rc;
    if (how == COPIED) {
        rc = fy_staging_need(k->st, bytes, e);
        if (rc == 0)
            rc = put_copy(k, from, rel, 0644, e);
    } else {
        rc = add_digest(k, to, rel, e);
    }
    if (rc == 0)
        fy_log(FY_LOG_DEBUG, "%s: %s", rel, word[how]);
    free(to);
    return rc;
}

/* A file that is already in the staging directory. */
static int put_present(maker *k, const char *rel, fy_err *e)
{
    char *path = fy_staging_path(k->st, rel, e);
    int rc = path != NULL ? 0 : -1;
    if (rc == 0 && chmod(path, 0644) != 0)
        rc = fy_fail_errno(e, "%s: cannot set its mode", path);
    if (rc == 0)
        rc = add_digest(k, path, rel, e);
    free(path);
    return rc;
}

/* rc: of what made the text; frees `text` in every case. */
static int put_text(maker *k, const char *rel, int rc, fy_str *text, fy_err *e)
{
    fy_digest d = {.bytes = text->len}; /* these texts stay far below the size that has blocks */
    if (rc != 0 || fy_staging_write(k->st, rel, 0644, text->ptr, text->len, e) != 0 ||
        fy_sha256_of(text->ptr, text->len, d.sha256, e) != 0)
        rc = -1;
    else
        rc = fy_manifest_add(&k->manifest, rel, 0644, &d, e);
    fy_str_release(text);
    return rc;
}

static int put_manifest(maker *k, fy_err *e)
{
    fy_str text = {0};
    int rc = fy_manifest_text(&k->manifest, &text, e);
    if (rc == 0)
        rc = fy_staging_write(k->st, FY_MANIFEST_NAME, 0644, text.ptr, text.len, e);
    fy_str_release(&text);
    return rc;
}

/* --- a model ---------------------------------------------------------------------------------- */

/* All keys but `ferry.chunk.*`; no tensors. */
static int add_vocab(maker *k, const fy_gguf *g, const char *rel, fy_err *e)
{
    fy_gguf_writer *w = fy_gguf_writer_new(e);
    char *path = fy_staging_path(k->st, rel, e);
    int rc = w != NULL && path != NULL ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < fy_gguf_n_kv(g); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(g, i);
        if (!fy_span_is(kv->key, FY_KEY_ALIGNMENT) && /* of the data, which this file has not */
            !fy_span_begins(kv->key, FY_CHUNK_KEYS))
            rc = fy_gguf_add_kv(w, kv, e);
    }
    if (rc == 0)
        rc = fy_gguf_write(w, path, NULL, NULL, NULL, NULL, e);
    fy_gguf_writer_free(w);
    free(path);
    return rc == 0 ? put_present(k, rel, e) : rc;
}

static void warn_powerserve(const fy_create_source *m)
{
    fy_str why = {0};
    const fy_qnn_compiled *c = &m->compiled;
    if (c->arch > 0 && (strcmp(c->kv, "f16") != 0 || strcmp(c->mask, "f16") != 0))
        fy_str_printf(&why, "its graphs have caches of %s and masks of %s, expected f16", c->kv,
                      c->mask);
    else if (c->arch > 0 && m->n_slices > 1)
        fy_str_printf(&why, "its head is in %zu slices, expected one lm_head", m->n_slices);
    else if (!m->cut || c->arch > 0)
        fy_powerserve_limits(fy_model_gguf(m->model), fy_model_family(m->model),
                             fy_model_hparams(m->model), &why);
    else
        fy_str_puts(&why, "its layers are chunks, which have to be compiled to context binaries");
    if (why.len > 0)
        fy_log(FY_LOG_WARN, "%s: PowerServe's runtime could not compute this model (ferry can): %s",
               m->name, fy_str_z(&why));
    else if (m->chunks)
        fy_log(FY_LOG_WARN,
               "%s: PowerServe's runtime needs --no-qnn for this model: its chunks have to be "
               "compiled to context binaries",
               m->name);
    else
        fy_log(FY_LOG_DEBUG, "%s: PowerServe's runtime can compute this model, too", m->name);
    fy_str_release(&why);
}

/* What selftest will ask the phone. The chunks of a cut model answer. Without parity.json are
 * models that cannot be run here: those without a tokenizer, and those whose layers are compiled.
 */
static int add_parity(maker *k, const fy_create_source *m, const char *rel, fy_err *e)
{
    fy_parity_params p = fy_parity_defaults();
    fy_parity_made made;
    fy_str text = {0};
    fy_err why = {0};
    p.tool = k->p->tool;
    int rc = m->cut && !m->chunks
                 ? fy_fail(&why, FY_EUNSUPPORTED,
                           "its layers are compiled for an NPU, and create computes on the CPU")
             : m->cut ? fy_model_add_chunks(m->model, m->qnn, &(fy_map_options){0}, &why)
                      : 0;
    if (rc == 0)
        rc = fy_parity_make(m->model, &p, &text, &made, &why);
    if (rc != 0 && why.code == FY_EUNSUPPORTED) {
        fy_log(FY_LOG_WARN, "%s: without " FY_BUNDLE_PARITY ": %s", m->name, why.msg);
        fy_str_release(&text);
        return 0;
    }
    if (rc != 0)
        fy_fail(e, why.code, "%s: %s", m->name, why.msg);
    else
        fy_log(FY_LOG_INFO, "%s: parity: %u texts, %u conversations, %u greedy ids in %.1f s%s",
               m->name, made.n_texts, made.n_conversations, made.n_ids, made.seconds,
               made.cut ? " (cut short: the model is slow here)" : "");
    return put_text(k, rel, rc, &text, e);
}

/* A checkpoint is converted straight to the place of its weights. */
static int convert(maker *k, fy_create_source *m, bool main_model, const char *rel, fy_err *e)
{
    char *to = fy_staging_path(k->st, rel, e);
    bool made = to != NULL && fy_staging_mkdirs(k->st, rel, e) == 0 &&
                k->p->convert(k->p->convert_user, m->path, to, e) == 0 &&
                put_present(k, rel, e) == 0 && fy_create_open_model(m, to, e) == 0 &&
                fy_create_describe(k->p, m, main_model, e) == 0;
    free(to);
    return made ? 0 : -1;
}

static int add_model(maker *k, fy_create_source *m, bool main_model, fy_err *e)
{
    char rel[FY_MODEL_NAME_BYTES + 32];
    fy_str text = {0};
    snprintf(rel, sizeof rel, "%s/" FY_BUNDLE_WEIGHTS, m->name);
    int rc =
        m->checkpoint ? convert(k, m, main_model, rel, e) : put_share(k, m->path, m->bytes, rel, e);
    for (size_t i = 0; rc == 0 && i < m->npu.n; i++) {
        const fy_input *f = &m->npu.item[i];
        rc = put_share(k, f->from, f->bytes, f->rel, e);
    }
    snprintf(rel, sizeof rel, "%s/" FY_BUNDLE_VOCAB, m->name);
    if (rc != 0 || add_vocab(k, fy_model_gguf(m->model), rel, e) != 0)
        return -1;
    snprintf(rel, sizeof rel, "%s/" FY_BUNDLE_MODEL_JSON, m->name);
    rc = fy_model_json_text(&m->json, &text, e);
    if (put_text(k, rel, rc, &text, e) != 0)
        return -1;
    warn_powerserve(m);
    snprintf(rel, sizeof rel, "%s/" FY_BUNDLE_PARITY, m->name);
    return k->p->parity ? add_parity(k, m, rel, e) : 0;
}

/* --- the rest --------------------------------------------------------------------------------- */

static int workspace_text(const maker *k, const fy_create_sources *s, fy_str *out, fy_err *e)
{
    const fy_create_params *p = k->p;
    const char *draft = s->draft > 0 ? s->item[s->draft].name : "";
    json_t *root = json_pack("{s:i, s:s, s:s, s:s, s:s}", "format_version", FY_MANIFEST_VERSION,
                             "executables", "bin", "hparams_config", FY_BUNDLE_HPARAMS_JSON,
                             "model_main", s->item[0].name, "model_draft", draft);
    char htp[8];
    snprintf(htp, sizeof htp, "v%d", k->htp);
    bool ok = root != NULL;
    if (ok && p->exec != NULL)
        ok = json_object_set_new(root, "exec", json_string(p->exec)) == 0;
    if (ok && k->htp > 0)
        ok = json_object_set_new(root, "htp", json_string(htp)) == 0;
    if (!ok) {
        json_decref(root);
        return p->exec != NULL ? fy_fail(e, FY_EARG, "--exec: expected UTF-8") : fy_nomem(e);
    }
    return fy_json_text(root, out, e);
}

static int add_settings(maker *k, const fy_create_sources *s, fy_err *e)
{
    fy_str text = {0};
    int rc = workspace_text(k, s, &text, e);
    if (put_text(k, FY_BUNDLE_WORKSPACE_JSON, rc, &text, e) != 0)
        return -1;
    rc = fy_hparams_json_text(fy_model_gguf(s->item[0].model), &text, e);
    return put_text(k, FY_BUNDLE_HPARAMS_JSON, rc, &text, e);
}

/* Nothing is made that `verify` would refuse. */
static int check_result(maker *k, fy_err *e)
{
    fy_verify_report r = {0};
    char *dir = fy_staging_path(k->st, "", e);
    int rc = dir != NULL ? fy_verify_content(dir, &k->manifest, &r, e) : -1;
    if (rc == 0 && r.n > 0)
        rc = fy_fail(e, FY_EARG, "%s: %s", r.finding[0].path, r.finding[0].text);
    fy_verify_report_release(&r);
    free(dir);
    return rc;
}

/* Everything that is looked up before the first byte is written. */
typedef struct {
    fy_create_sources s;
    fy_inputs files; /* of bin/ and qnn_libs/ */
    int htp;         /* architecture of the latter; 0: there are none */
} inputs;

static void inputs_release(inputs *in)
{
    fy_create_sources_release(&in->s);
    fy_inputs_release(&in->files);
}

static int check_draft(fy_create_sources *s, fy_err *e)
{
    return s->draft > 0 ? fy_create_check_draft(&s->item[0], &s->item[s->draft], e) : 0;
}

/* Vocabularies of checkpoints are known only once they are converted. */
static bool waits_for_draft(const fy_create_sources *s)
{
    return s->draft > 0 && (s->item[0].checkpoint || s->item[s->draft].checkpoint);
}

/* Context binaries need a library, and a static program loads none. */
static void warn_static(const inputs *in)
{
    const fy_input *exe = fy_inputs_find(&in->files, FY_BUNDLE_EXE);
    fy_elf_info info = {0};
    fy_map map;
    if (exe == NULL || fy_map_open(&map, exe->from, NULL) != 0)
        return;
    const int rc = fy_elf_inspect(map.data, map.size, &info, NULL);
    fy_map_close(&map);
    for (size_t i = 0; rc == 0 && info.kind == FY_ELF_STATIC && i < in->s.n; i++) {
        const fy_create_source *m = &in->s.item[i];
        if (m->npu.n > 0 && !m->chunks)
            fy_log(FY_LOG_WARN,
                   "%s: has context binaries, and " FY_BUNDLE_EXE " is static, which cannot load "
                   "the NPU's library: use --exe-path with a ferry built with TARGET=android",
                   m->name);
    }
}

static int inputs_open(const fy_create_params *p, inputs *in, fy_err *e)
{
    *in = (inputs){0};
    if (fy_create_sources_open(p, &in->s, e) != 0)
        return -1;
    if (!waits_for_draft(&in->s) && check_draft(&in->s, e) != 0)
        return -1;
    if (fy_create_htp(p, &in->s, &in->htp, e) != 0 || fy_create_runtime(p, &in->files, e) != 0)
        return -1;
    warn_static(in);
    return in->htp > 0 ? fy_create_qnn_libs(p, &in->s, in->htp, &in->files, e) : 0;
}

static int fill(maker *k, inputs *in, fy_err *e)
{
    const fy_create_params *p = k->p;
    fy_create_sources *s = &in->s;
    k->htp = in->htp;
    if (fy_manifest_begin(&k->manifest, p->tool, FY_TARGET_ARM64, e) != 0)
        return -1;
    for (size_t i = 0; i < in->files.n; i++) {
        const fy_input *f = &in->files.item[i];
        if (put_copy(k, f->from, f->rel, f->mode, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < s->n; i++) {
        if (add_model(k, &s->item[i], i == 0, e) != 0)
            return -1;
    }
    if ((waits_for_draft(s) && check_draft(s, e) != 0) || add_settings(k, s, e) != 0 ||
        put_manifest(k, e) != 0)
        return -1;
    return check_result(k, e);
}

/* --- the job ---------------------------------------------------------------------------------- */

/* Bytes that will really be written: weights on the same disk are shared when the system lets us.
 */
static uint64_t disk_need(const fy_create_params *p, const inputs *in, dev_t dev)
{
    uint64_t need = inputs_bytes(&in->files) + (1u << 20); /* JSON, directories */
    for (size_t i = 0; i < in->s.n; i++) {
        const fy_create_source *m = &in->s.item[i];
        if (m->model != NULL)
            need += fy_gguf_data_offset(fy_model_gguf(m->model)); /* vocab.gguf */
        if (m->checkpoint || p->copy || m->dev != dev)
            need += m->bytes;
        need += p->copy ? inputs_bytes(&m->npu) : inputs_bytes_off(&m->npu, dev);
    }
    return need;
}

static uint64_t read_bytes(const inputs *in)
{
    uint64_t n = inputs_bytes(&in->files);
    for (size_t i = 0; i < in->s.n; i++)
        n += in->s.item[i].bytes + inputs_bytes(&in->s.item[i].npu);
    return n;
}

int fy_create(const fy_create_params *p, fy_progress *progress, fy_err *e)
{
    inputs in;
    maker k = {.p = p, .progress = progress};
    struct stat st;
    int rc = inputs_open(p, &in, e);
    if (rc != 0)
        goto done;
    if (progress != NULL)
        progress->total_bytes = read_bytes(&in);
    rc = -1;
    k.st = fy_staging_open(p->dir, e);
    if (k.st == NULL)
        goto done;
    char *root = fy_staging_path(k.st, "", e);
    if (root == NULL || stat(root, &st) != 0)
        st.st_dev = 0;
    free(root);
    rc = fy_staging_need(k.st, disk_need(p, &in, st.st_dev), e);
    if (rc == 0)
        rc = fill(&k, &in, e);
    if (rc == 0)
        rc = fy_staging_commit(k.st, e);
    else
        fy_staging_abort(k.st);
done:
    fy_manifest_release(&k.manifest);
    inputs_release(&in);
    return rc;
}
