/* Where the models of a new workspace come from: GGUF files, checkpoints, cut models, and what they
 * have for the NPU. */
#include "workspace/pack/create_impl.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/math.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "bundle/manifest_read.h"
#include "format/safetensors.h"
#include "policy/type_policy.h"
#include "workspace/npu/chunk.h"
#include "workspace/npu/qnn_check.h"

/* --- names ------------------------------------------------------------------------------------ */

static bool is_reserved(const char *name)
{
    static const char *const reserved[] = {"bin",
                                           "qnn_libs",
                                           FY_BUNDLE_WORKSPACE_JSON,
                                           FY_BUNDLE_HPARAMS_JSON,
                                           FY_MANIFEST_NAME,
                                           FY_MANIFEST_SIG,
                                           FY_MANIFEST_KEY};
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

/* A directory name from general.name, else from the file's or the checkpoint's, that no model
 * before it has. */
static int name_source(const fy_create_sources *s, fy_create_source *m, fy_err *e)
{
    fy_span text = fy_path_base(m->path);
    if (text.len > 5 && strncasecmp(text.ptr + text.len - 5, ".gguf", 5) == 0)
        text.len -= 5;
    if (m->model != NULL)
        fy_gguf_get_str(fy_model_gguf(m->model), FY_KEY_NAME, &text, NULL);
    fy_model_dir_name(text.ptr, text.len, m->name);
    size_t base = strlen(m->name);
    if (base > FY_MODEL_NAME_BYTES - 5)
        base = FY_MODEL_NAME_BYTES - 5;
    for (int k = 1; k < 1000; k++) {
        bool taken = false;
        if (k > 1)
            snprintf(m->name + base, FY_MODEL_NAME_BYTES - base, "-%d", k);
        for (const fy_create_source *o = s->item; o < m; o++)
            taken |= strcasecmp(o->name, m->name) == 0;
        if (!taken)
            return 0;
    }
    return fy_fail(e, FY_EARG, "more than 999 models are named '%s'", m->name);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

/* What the tensors of a file become, nearly: matrices of the type, the rest f32. */
static int add_converted(const char *path, fy_type type, uint64_t *bytes, fy_err *e)
{
    fy_st *st = fy_st_open(path, e);
    if (st == NULL)
        return -1;
    for (size_t i = 0; i < fy_st_n_tensors(st); i++) {
        const fy_st_tensor *t = fy_st_tensor_at(st, i);
        bool matrix = t->rank > 1 && t->shape[t->rank - 1] > 0;
        uint64_t n = t->bytes * 8 / fy_dtype_bits(t->dtype);
        uint64_t row = matrix ? t->shape[t->rank - 1] : n;
        fy_type to = !matrix ? FY_F32 : fy_type_row_bytes(type, row) > 0 ? type : FY_F16;
        if (row > 0 && !fy_add_u64(*bytes, fy_type_row_bytes(to, row) * (n / row), bytes))
            *bytes = UINT64_MAX / 2;
    }
    fy_st_close(st);
    return 0;
}

/* The weights that `convert` will write, from the headers of the checkpoint. Files of another kind
 * count as they are; convert itself checks for its exact size once it knows that. */
static int estimate(const char *dir, fy_type type, uint64_t *bytes, fy_err *e)
{
    DIR *d = opendir(dir);
    if (d == NULL)
        return fy_fail_errno(e, "%s: cannot list", dir);
    int rc = 0;
    for (struct dirent *en; rc == 0 && (en = readdir(d)) != NULL;) {
        const char *end = strrchr(en->d_name, '.');
        bool tensors = end != NULL && strcmp(end, ".safetensors") == 0,
             other = end != NULL && (strcmp(end, ".bin") == 0 || strcmp(end, ".json") == 0);
        struct stat st;
        char *path = tensors || other ? fy_path_join(dir, en->d_name) : NULL;
        if ((tensors || other) && path == NULL)
            rc = fy_nomem(e);
        else if (tensors && strncmp(en->d_name, "model", 5) == 0)
            rc = add_converted(path, type, bytes, e);
        else if (other && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
                 !fy_add_u64(*bytes, (uint64_t)st.st_size, bytes))
            *bytes = UINT64_MAX / 2;
        free(path);
    }
    closedir(d);
    return rc;
}

/* --- context binaries ------------------------------------------------------------------------- */

/* The directory with config.json: dir itself, or its qnn/; for the caller to free. */
static char *qnn_dir(const char *dir, fy_err *e)
{
    if (fy_dir_has(dir, FY_QNN_CONFIG_NAME))
        return fy_path_format(e, "%s", dir);
    if (fy_dir_has(dir, FY_QNN_DIR "/" FY_QNN_CONFIG_NAME))
        return fy_path_format(e, "%s/" FY_QNN_DIR, dir);
    fy_fail(e, FY_EARG,
            "%s: has neither " FY_QNN_CONFIG_NAME " nor " FY_QNN_DIR "/" FY_QNN_CONFIG_NAME
            "; expected what PowerServe's converter writes, or a downloaded package",
            dir);
    return NULL;
}

typedef struct {
    const char *dir, *model;
    fy_inputs *out;
} lister;

static int add_file(void *user, const char *rel, uint64_t bytes, fy_err *e)
{
    const lister *l = user;
    (void)bytes;
    char *from = fy_path_format(e, "%s/%s", l->dir, rel);
    char *to = from != NULL ? fy_path_format(e, "%s/" FY_QNN_DIR "/%s", l->model, rel) : NULL;
    int rc = to != NULL ? fy_inputs_add(l->out, from, to, 0644, e) : -1;
    free(from);
    free(to);
    return rc;
}

static int refused(const fy_err *why, const char *dir, fy_err *e)
{
    return fy_fail(e, why->code == FY_EVERIFY ? FY_EARG : why->code, "%s%s%s",
                   dir != NULL ? dir : "", dir != NULL ? "/" : "", why->msg);
}

/* MODEL/qnn/ of s->qnn: checked, then every file that its config.json names. */
static int add_qnn(fy_create_source *s, fy_err *e)
{
    fy_qnn_config c;
    lister l = {s->qnn, s->name, &s->npu};
    fy_err why = {0};
    if (fy_qnn_check_dir(s->qnn, &s->json, &c, &why) != 0)
        return refused(&why, s->qnn, e);
    int rc = 0;
    s->chunks = fy_qnn_has_gguf(&c);
    s->compiled = c.own.compiled;
    s->n_slices = fy_qnn_n_slices(&c);
    s->npu_preset = c.kv_size;
    if ((s->chunks || s->cut || s->compiled.arch > 0) &&
        fy_chunk_check_files(fy_gguf_path(fy_model_gguf(s->model)), s->qnn, &why) != 0)
        rc = refused(&why, NULL, e);
    if (rc == 0)
        rc = add_file(&l, FY_QNN_CONFIG_NAME, 0, e);
    if (rc == 0)
        rc = fy_qnn_config_files(&c, &s->json, add_file, &l, e);
    fy_qnn_config_release(&c);
    return rc;
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool holds(const char *dir, const char *rel, char **path)
{
    *path = fy_path_join(dir, rel);
    bool yes = *path != NULL && fy_file_exists(*path) && !fy_file_is_dir(*path);
    if (!yes) {
        free(*path);
        *path = NULL;
    }
    return yes;
}

int fy_create_open_model(fy_create_source *s, const char *path, fy_err *e)
{
    char what[FY_CHUNK_TEXT_BYTES];
    s->model = fy_model_open_chunk(path, &(fy_map_options){0}, e);
    if (s->model == NULL)
        return -1;
    const fy_chunk_info *part = fy_model_chunk_info(s->model);
    s->cut = part->kind == FY_CHUNK_EMBEDDING;
    if (part->kind != FY_CHUNK_WHOLE && !s->cut)
        return fy_fail(e, FY_EARG,
                       "%s: is a chunk of a model that was cut, %s; expected the directory with "
                       "all of them, which 'ferry chunk' made",
                       path, fy_chunk_text(part, fy_model_hparams(s->model), what));
    const size_t n_files = fy_gguf_n_files(fy_model_gguf(s->model));
    if (n_files > 1)
        return fy_fail(
            e, FY_EUNSUPPORTED,
            "%s: is one of %zu files, expected a model in a single one; 'ferry quantize' "
            "makes one of them",
            path, n_files);
    return 0;
}

/* Of a workspace, PowerServe's too, the main model is taken. */
static int main_of_workspace(const fy_create_params *p, fy_create_source *m, fy_err *e)
{
    fy_bundle b;
    if (fy_bundle_open(m->path, &b, e) != 0)
        return -1;
    if (b.model_draft != NULL && p->draft == NULL)
        fy_log(FY_LOG_INFO, "%s: its draft model is left out; --draft %s/%s takes it", m->path,
               m->path, b.model_draft);
    char *dir = fy_path_join(m->path, b.model_main);
    fy_bundle_release(&b);
    if (dir == NULL)
        return fy_nomem(e);
    free(m->path);
    m->path = dir;
    return 0;
}

/* A directory: a workspace, a model as PowerServe keeps it, or a checkpoint. */
static int open_directory(const fy_create_params *p, fy_create_source *m, fy_err *e)
{
    char *found = NULL, *config = NULL;
    fy_file_type type = {.type = FY_F16}; /* auto: what the checkpoint has, f32 halved */
    if (holds(m->path, FY_BUNDLE_WORKSPACE_JSON, &found)) {
        free(found);
        found = NULL;
        if (main_of_workspace(p, m, e) != 0)
            return -1;
    }
    if (holds(m->path, FY_BUNDLE_WEIGHTS, &found)) {
        if (holds(m->path, FY_QNN_DIR "/" FY_QNN_CONFIG_NAME, &config) &&
            (m->qnn = fy_path_join(m->path, FY_QNN_DIR)) == NULL)
            fy_nomem(e);
        free(m->path);
        m->path = realpath(found, NULL);
        int rc = m->path == NULL                    ? fy_fail_errno(e, "%s: cannot open", found)
                 : config != NULL && m->qnn == NULL ? -1
                                                    : 0;
        free(found);
        free(config);
        return rc;
    }
    if (!holds(m->path, "config.json", &found))
        return fy_fail(e, FY_EARG,
                       "%s: neither a checkpoint (no config.json) nor a model's directory "
                       "(no " FY_BUNDLE_WEIGHTS ")",
                       m->path);
    free(found);
    m->checkpoint = true;
    if (p->convert == NULL)
        return fy_fail(e, FY_EUNSUPPORTED, "%s: is a checkpoint, expected a GGUF file", m->path);
    if (strcmp(p->outtype, "auto") != 0 && fy_file_type_of(p->outtype, -1, &type, e) != 0)
        return -1;
    return estimate(m->path, type.type, &m->bytes, e);
}

int fy_create_describe(const fy_create_params *p, fy_create_source *s, bool main_model, fy_err *e)
{
    const char *id = main_model && p->model_id != NULL ? p->model_id : s->name;
    if (fy_model_json_of(fy_model_family(s->model), fy_model_hparams(s->model), id, &s->json, e) !=
        0)
        return -1;
    if (s->qnn == NULL && s->cut)
        return fy_fail(e, FY_EARG,
                       "%s: is the embedding of a model that was cut; expected the directory with "
                       "all its chunks, which 'ferry chunk' made",
                       s->path);
    if (s->qnn != NULL && add_qnn(s, e) != 0)
        return -1;
    return !main_model || p->chunks == NULL || s->chunks
               ? 0
               : fy_fail(e, FY_EARG,
                         "%s: names no chunks (*.gguf); context binaries are taken with --qnn-path",
                         s->qnn);
}

static int open_source(const fy_create_params *p, fy_create_sources *s, const char *path, fy_err *e)
{
    fy_create_source *m = &s->item[s->n];
    struct stat st;
    *m = (fy_create_source){.path = realpath(path, NULL)};
    if (m->path == NULL)
        return fy_fail_errno(e, "%s: cannot open", path);
    s->n++;
    if (fy_file_is_dir(m->path) && open_directory(p, m, e) != 0)
        return -1;
    if (!m->checkpoint) {
        if (fy_create_open_model(m, m->path, e) != 0)
            return -1;
        if (stat(m->path, &st) != 0)
            return fy_fail_errno(e, "%s: cannot read its size", path);
        m->bytes = (uint64_t)st.st_size;
        m->dev = st.st_dev;
    }
    return name_source(s, m, e);
}

static int check_ids(const fy_create_params *p, const fy_create_sources *s, fy_err *e)
{
    for (size_t i = 1; p->model_id != NULL && i < s->n; i++) {
        if (strcmp(p->model_id, s->item[i].name) == 0)
            return fy_fail(e, FY_EARG, "model id '%s' is that of %s too; expected one of its own",
                           p->model_id, s->item[i].path);
    }
    return 0;
}

/* --qnn-path or --chunks instead of what the main model brings. */
static int take_qnn_path(const fy_create_params *p, fy_create_source *m, fy_err *e)
{
    const char *dir = p->chunks != NULL ? p->chunks : p->qnn_path;
    if (dir == NULL)
        return 0;
    free(m->qnn);
    m->qnn = qnn_dir(dir, e);
    return m->qnn != NULL ? 0 : -1;
}

int fy_create_sources_open(const fy_create_params *p, fy_create_sources *out, fy_err *e)
{
    fy_create_sources s = {.item = calloc(p->n_models + 1, sizeof *s.item)};
    int rc = s.item != NULL ? 0 : fy_nomem(e);
    for (size_t i = 0; rc == 0 && i < p->n_models; i++)
        rc = open_source(p, &s, p->models[i], e);
    if (rc == 0 && p->draft != NULL) {
        rc = open_source(p, &s, p->draft, e);
        s.draft = s.n - 1;
    }
    if (rc == 0)
        rc = check_ids(p, &s, e);
    if (rc == 0)
        rc = take_qnn_path(p, &s.item[0], e);
    for (size_t i = 0; rc == 0 && i < s.n; i++) {
        if (s.item[i].model != NULL)
            rc = fy_create_describe(p, &s.item[i], i == 0, e);
    }
    if (rc != 0) {
        fy_create_sources_release(&s);
        return rc;
    }
    *out = s;
    return 0;
}

void fy_create_sources_release(fy_create_sources *s)
{
    for (size_t i = 0; i < s->n; i++) {
        fy_model_close(s->item[i].model);
        free(s->item[i].path);
        free(s->item[i].qnn);
        fy_inputs_release(&s->item[i].npu);
    }
    free(s->item);
    *s = (fy_create_sources){0};
}

/* --- drafts ----------------------------------------------------------------------------------- */

int fy_create_check_draft(fy_create_source *main_model, fy_create_source *draft, fy_err *e)
{
    if (main_model->qnn != NULL && draft->qnn != NULL &&
        main_model->npu_preset != draft->npu_preset)
        return fy_fail(e, FY_EARG,
                       "the draft %s begins with %u preset tokens (kv_size), %s with %u; expected "
                       "context binaries made with the same system prompt",
                       draft->name, draft->npu_preset, main_model->name, main_model->npu_preset);
    const fy_vocab *a = fy_model_vocab(main_model->model, e),
                   *b = a != NULL ? fy_model_vocab(draft->model, e) : NULL;
    if (b == NULL)
        return fy_ctx(e, "%s", a == NULL ? main_model->name : draft->name);
    uint32_t n = fy_vocab_n(a) > fy_vocab_n(b) ? fy_vocab_n(a) : fy_vocab_n(b);
    for (uint32_t i = 0; i < n; i++) {
        int32_t id = (int32_t)i;
        fy_span x = fy_vocab_piece(a, id), y = fy_vocab_piece(b, id);
        char shown_x[FY_QUOTE_BYTES], shown_y[FY_QUOTE_BYTES];
        /* rows that are never chosen are padding; the two may have different numbers of them */
        if (fy_span_eq(x, y) || !(fy_vocab_is_samplable(a, id) || fy_vocab_is_samplable(b, id)))
            continue;
        return fy_fail(e, FY_EARG,
                       "the draft %s has another vocabulary than %s: token %u is '%s' there and "
                       "'%s' here; expected a draft of the same family",
                       draft->name, main_model->name, i, fy_quote(shown_y, sizeof shown_y, y),
                       fy_quote(shown_x, sizeof shown_x, x));
    }
    return 0;
}
