/* The verb `verify`: every file of a workspace against its manifest, the signature of that, and
 * once the bytes are right the files against each other. */
#include "workspace/pack/workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/names.h"
#include "base/str.h"
#include "bundle/bundle.h"
#include "bundle/bundle_check.h"
#include "bundle/manifest_read.h"
#include "cli/cut_model.h"
#include "format/gguf.h"
#include "workspace/data/model_json.h"
#include "workspace/npu/chunk.h"
#include "workspace/npu/compiled.h"
#include "workspace/npu/qnn_check.h"
#include "workspace/pack/elf.h"
#include "workspace/pack/manifest.h"

/* --- the report ------------------------------------------------------------------------------- */

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
    size_t cap = *n; /* few: each makes room for itself */
    fy_finding f = {strdup(path), strdup(text)};
    if (f.path != NULL && f.text != NULL && fy_append(list, n, &cap, &f, sizeof f, e) == 0)
        return 0;
    free(f.path);
    free(f.text);
    return fy_nomem(e);
}

static int add_finding(fy_verify_report *r, const char *path, const char *text, fy_err *e)
{
    return append(&r->finding, &r->n, path, text, e);
}

static int add_note(fy_verify_report *r, const char *path, const char *text, fy_err *e)
{
    return append(&r->note, &r->n_notes, path, text, e);
}

/* A failed check as a finding. What stops the whole job (memory, an interrupt) stays an error. */
static int add_failure(fy_verify_report *r, const char *path, const fy_err *what, fy_err *e)
{
    if (what->code == FY_ENOMEM || what->code == FY_EINTR)
        return fy_fail(e, what->code, "%s", what->msg);
    return add_finding(r, path, what->msg, e);
}

/* --- the files against each other ------------------------------------------------------------- */

/* --- programs and libraries ------------------------------------------------------------------- */

static bool is_library_name(const char *rel)
{
    return fy_span_ends(fy_span_of(rel), ".so") || strstr(fy_path_base(rel).ptr, ".so.") != NULL;
}

/* Everything in bin/ and qnn_libs/, and libraries wherever they are. */
static bool may_be_program(const char *rel)
{
    return fy_span_begins(fy_span_of(rel), "bin/") ||
           fy_span_begins(fy_span_of(rel), "qnn_libs/") || is_library_name(rel);
}

/* Other files may be next to the programs, but not under a program's or library's name. */
static int check_no_elf(const fy_map *map, const fy_manifest_entry *m, const char *target,
                        fy_str *words, fy_err *e)
{
    bool script = map->size >= 2 && memcmp(map->data, "#!", 2) == 0;
    if (strcmp(m->path, FY_BUNDLE_EXE) == 0 || is_library_name(m->path) ||
        ((m->mode & 0100) != 0 && !script))
        return fy_elf_check(map->data, map->size, target, e);
    if (script)
        fy_str_puts(words, "script");
    return 0;
}

static int check_kind(const fy_manifest_entry *m, const fy_elf_info *info, fy_err *e)
{
    bool library = info->kind == FY_ELF_LIBRARY || info->kind == FY_ELF_DSP;
    if (strcmp(m->path, FY_BUNDLE_EXE) == 0 && library)
        return fy_fail(e, FY_EVERIFY, "is a library, expected an aarch64 program");
    if (info->kind == FY_ELF_DSP && fy_span_begins(fy_span_of(m->path), "bin/"))
        return fy_fail(e, FY_EVERIFY, "is built for the Hexagon DSP, expected aarch64");
    return 0;
}

static int check_program(const char *dir, const fy_manifest *m, const fy_manifest_entry *en,
                         fy_verify_report *r, fy_err *e)
{
    fy_map map;
    fy_elf_info info;
    fy_err what = {0};
    fy_str words = {0};
    int rc = fy_map_open_in(&map, dir, en->path, e);
    if (rc != 0)
        return rc;
    if (fy_elf_inspect(map.data, map.size, &info, &what) == 0) {
        if (info.kind == FY_ELF_NONE)
            check_no_elf(&map, en, m->target, &words, &what);
        else if (check_kind(en, &info, &what) == 0)
            fy_elf_text(&info, &words);
    }
    fy_map_close(&map);
    if (what.code != FY_OK)
        rc = add_failure(r, en->path, &what, e);
    else if (words.len > 0)
        rc = add_note(r, en->path, fy_str_z(&words), e);
    fy_str_release(&words);
    return rc;
}

/* --- a model ---------------------------------------------------------------------------------- */

static fy_gguf *open_gguf(const char *dir, const char *model, const char *name, fy_err *e)
{
    char *path = fy_path_format(e, "%s/%s/%s", dir, model, name);
    fy_gguf *g = path != NULL ? fy_gguf_open(path, e) : NULL;
    free(path);
    return g;
}

static int read_model_json(const char *dir, const char *rel, fy_model_json *out, fy_err *e)
{
    fy_map map;
    if (fy_map_open_in(&map, dir, rel, e) != 0)
        return -1;
    int rc = map.size <= FY_BUNDLE_JSON_MAX_BYTES
                 ? fy_model_json_parse(map.data, map.size, out, e)
                 : fy_fail(e, FY_EFORMAT, "%zu bytes, expected at most %u", map.size,
                           FY_BUNDLE_JSON_MAX_BYTES);
    fy_map_close(&map);
    return rc;
}

static bool same_value(const fy_gguf_kv *a, const fy_gguf_kv *b)
{
    return a->type == b->type && a->elem == b->elem && a->bytes == b->bytes &&
           memcmp(a->data, b->data, a->bytes) == 0;
}

/* y: of the other file, NULL when it has none. All keys of the tokenizer must be in both; others
 * that both have must agree too, but for general ones, which describe their own file.
 */
static int compare_key(const fy_gguf_kv *x, const fy_gguf_kv *y, const char *x_in, const char *y_in,
                       fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    bool needed = fy_span_begins(x->key, "tokenizer.") || fy_span_is(x->key, FY_KEY_ARCHITECTURE);
    if (!needed && fy_span_begins(x->key, "general."))
        return 0;
    if (y == NULL && needed)
        return fy_fail(e, FY_EVERIFY, "%s is in %s and not in %s",
                       fy_quote(shown, sizeof shown, x->key), x_in, y_in);
    if (y != NULL && !same_value(x, y))
        return fy_fail(e, FY_EVERIFY, "%s differs between %s and %s",
                       fy_quote(shown, sizeof shown, x->key), x_in, y_in);
    return 0;
}

static int compare_keys(const fy_gguf *a, const char *a_name, const fy_gguf *b, const char *b_name,
                        fy_err *e)
{
    fy_str key = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < fy_gguf_n_kv(a); i++) {
        const fy_gguf_kv *x = fy_gguf_kv_at(a, i);
        fy_str_clear(&key);
        fy_str_add(&key, x->key.ptr, x->key.len);
        rc = key.oom ? fy_nomem(e)
                     : compare_key(x, fy_gguf_find(b, fy_str_z(&key)), a_name, b_name, e);
    }
    fy_str_release(&key);
    return rc;
}

/* vocab.gguf holds the keys of the weights, and no tensors. */
static int compare_vocab(const fy_gguf *vocab, const fy_gguf *weights, fy_err *e)
{
    if (fy_gguf_n_tensors(vocab) > 0)
        return fy_fail(e, FY_EVERIFY, FY_BUNDLE_VOCAB " holds %zu tensors, expected none",
                       fy_gguf_n_tensors(vocab));
    const fy_gguf_kv *tokens = fy_gguf_find(vocab, FY_KEY_TOKENS);
    const fy_gguf_tensor *embd = fy_gguf_tensor_find(weights, "token_embd.weight");
    if (tokens != NULL && embd != NULL && tokens->count != embd->ne[1])
        return fy_fail(e, FY_EVERIFY,
                       FY_BUNDLE_VOCAB " has %llu tokens, the weights' embedding has %llu rows",
                       (unsigned long long)tokens->count, (unsigned long long)embd->ne[1]);
    if (compare_keys(vocab, FY_BUNDLE_VOCAB, weights, FY_BUNDLE_WEIGHTS, e) != 0)
        return -1;
    return compare_keys(weights, FY_BUNDLE_WEIGHTS, vocab, FY_BUNDLE_VOCAB, e);
}

/* The weights against model.json and vocab.gguf. */
static int check_weights(const fy_gguf *weights, const fy_gguf *vocab, const fy_model_json *found,
                         fy_chunk_info *part, fy_err *e)
{
    const fy_family *family;
    fy_hparams hp;
    fy_model_json expected;
    char what[FY_CHUNK_TEXT_BYTES];
    if (fy_cut_header(weights, &family, &hp, part, e) != 0)
        return fy_ctx(e, FY_BUNDLE_WEIGHTS);
    if (part->kind == FY_CHUNK_LAYERS || part->kind == FY_CHUNK_HEAD)
        return fy_fail(e, FY_EVERIFY,
                       FY_BUNDLE_WEIGHTS ": holds %s of a model that was cut, expected a model or "
                                         "the embedding of one",
                       fy_chunk_text(part, &hp, what));
    if (fy_model_json_of(family, &hp, found->model_id, &expected, e) != 0 ||
        fy_model_json_compare(found, &expected, e) != 0)
        return -1;
    return compare_vocab(vocab, weights, e);
}

static int check_chunks(const char *dir, const char *model, fy_verify_report *r, fy_err *e)
{
    fy_err what = {0};
    char *path = fy_path_format(e, "%s/%s", dir, model);
    int rc = path != NULL ? 0 : -1;
    if (rc == 0 && fy_chunk_check(path, &what) != 0)
        rc = add_failure(r, model, &what, e);
    free(path);
    return rc;
}

static int embedding_alone(const char *model, fy_verify_report *r, fy_err *e)
{
    char *rel = fy_path_format(e, "%s/" FY_BUNDLE_WEIGHTS, model);
    int rc = rel != NULL ? add_finding(r, rel,
                                       "is the embedding of a model that was cut, expected its "
                                       "chunks in " FY_QNN_DIR "/ next to it",
                                       e)
                         : -1;
    free(rel);
    return rc;
}

/* --- a compiled model ------------------------------------------------------------------------- */

typedef struct {
    const fy_manifest *m;
    const char *qnn; /* relative to the workspace, with a '/' at its end */
    fy_verify_report *r;
} compiled;

/* The bytes are those of the manifest, so its hash is compared. */
static int check_binary(void *user, const char *name, const fy_qnn_sidecar *s, fy_err *e)
{
    const compiled *k = user;
    char hash[FY_SHA256_HEX];
    fy_err what = {0};
    char *rel = fy_path_format(e, "%s%s", k->qnn, name);
    const fy_manifest_entry *en = rel != NULL ? fy_manifest_find(k->m, rel) : NULL;
    int rc = rel != NULL ? 0 : -1;
    if (en != NULL) {
        fy_sha256_to_hex(en->sha256, hash);
        if (fy_compiled_check_hash(s, hash, &what) != 0)
            rc = add_failure(k->r, rel, &what, e);
    }
    free(rel);
    return rc;
}

/* Libraries that cannot run the model; a workspace may have none. */
static int check_libraries(const char *dir, const fy_manifest *m, const char *qnn,
                           const fy_qnn_config *c, fy_verify_report *r, fy_err *e)
{
    const fy_qnn_compiled *own = &c->own.compiled;
    char skel[64];
    fy_err what = {0};
    if (fy_manifest_find(m, FY_QNN_LIBRARY) == NULL)
        return 0;
    snprintf(skel, sizeof skel, "qnn_libs/libQnnHtpV%uSkel.so", own->arch);
    if (fy_manifest_find(m, skel) == NULL)
        fy_fail(&what, FY_EVERIFY,
                "missing, but a model is compiled for V%u (%s); 'ferry create --qnn-libs' adds it",
                own->arch, own->soc);
    if (what.code != FY_OK)
        return add_failure(r, skel, &what, e);
    char *library = fy_path_join(dir, FY_QNN_LIBRARY);
    int rc = library != NULL ? 0 : fy_nomem(e);
    if (rc == 0 && fy_compiled_check_library(qnn, c, library, &what) != 0)
        rc = add_failure(r, FY_QNN_LIBRARY, &what, e);
    free(library);
    return rc;
}

/* qnn: the directory; rel: the same in the workspace. */
static int check_compiled(const char *dir, const fy_manifest *m, const char *qnn, const char *rel,
                          const fy_qnn_config *c, fy_verify_report *r, fy_err *e)
{
    compiled k = {m, rel, r};
    return c->own.compiled.arch == 0 ? 0
           : fy_compiled_each(qnn, c, check_binary, &k, e) != 0
               ? -1
               : check_libraries(dir, m, qnn, c, r, e);
}

/* Files below MODEL/qnn/ are listed by their own config.json. rel: MODEL/qnn/. */
static int check_config(const char *dir, const fy_manifest *m, const char *rel,
                        const fy_model_json *json, bool *chunks, fy_verify_report *r, fy_err *e)
{
    fy_err what = {0};
    fy_qnn_config c;
    char *path = fy_path_format(e, "%s/%s", dir, rel);
    char *config = fy_path_format(e, "%s" FY_QNN_CONFIG_NAME, rel);
    int rc = path != NULL && config != NULL ? 0 : -1;
    if (rc == 0 && fy_qnn_check_dir(path, json, &c, &what) != 0) {
        rc = add_failure(r, config, &what, e);
        *chunks = false;
    } else if (rc == 0) {
        /* whose headers are compared, or that of the weights */
        *chunks |= fy_qnn_has_gguf(&c) || c.own.compiled.arch > 0;
        rc = check_compiled(dir, m, path, rel, &c, r, e);
        fy_qnn_config_release(&c);
    }
    free(config);
    free(path);
    return rc;
}

static int check_qnn(const char *dir, const fy_manifest *m, const char *model,
                     const fy_model_json *json, const fy_chunk_info *part, fy_verify_report *r,
                     fy_err *e)
{
    bool any = false, chunks = part->kind == FY_CHUNK_EMBEDDING;
    char *rel = fy_path_format(e, "%s/" FY_QNN_DIR "/", model);
    int rc = rel != NULL ? 0 : -1;
    for (size_t i = 0; rc == 0 && !any && i < m->n; i++)
        any = fy_span_begins(fy_span_of(m->entry[i].path), rel);
    if (rc == 0 && any)
        rc = check_config(dir, m, rel, json, &chunks, r, e);
    else if (rc == 0 && chunks)
        rc = embedding_alone(model, r, e);
    free(rel);
    return rc == 0 && any && chunks ? check_chunks(dir, model, r, e) : rc;
}

static int check_model(const char *dir, const fy_manifest *m, const char *rel, char *id,
                       fy_verify_report *r, fy_err *e)
{
    char model[FY_MANIFEST_MAX_PATH + 1];
    snprintf(model, sizeof model, "%.*s", (int)(strlen(rel) - strlen("/" FY_BUNDLE_MODEL_JSON)),
             rel);
    fy_model_json found;
    fy_chunk_info part = {0};
    fy_err what = {0};
    if (read_model_json(dir, rel, &found, &what) != 0)
        return add_failure(r, rel, &what, e);
    memcpy(id, found.model_id, sizeof found.model_id);
    fy_gguf *weights = open_gguf(dir, model, FY_BUNDLE_WEIGHTS, &what);
    fy_gguf *vocab = weights != NULL ? open_gguf(dir, model, FY_BUNDLE_VOCAB, &what) : NULL;
    if (vocab != NULL)
        check_weights(weights, vocab, &found, &part, &what);
    fy_gguf_close(vocab);
    fy_gguf_close(weights);
    if (what.code != FY_OK && add_failure(r, rel, &what, e) != 0)
        return -1;
    return check_qnn(dir, m, model, &found, &part, r, e);
}

/* MODEL/model.json, and nothing deeper. */
static bool is_model_json(const char *rel)
{
    const char *slash = strchr(rel, '/');
    return slash != NULL && strcmp(slash + 1, FY_BUNDLE_MODEL_JSON) == 0;
}

/* --- all -------------------------------------------------------------------------------------- */

/* PowerServe's runtime finds its models by their id: two with the same one would collide. */
typedef struct {
    fy_names ids;
    char **id; /* owned; what ids views */
    size_t n, cap;
} id_set;

static int add_id(id_set *set, const char *rel, const char *id, fy_verify_report *r, fy_err *e)
{
    char *copy = fy_path_format(e, "%s", id);
    if (copy == NULL || fy_append(&set->id, &set->n, &set->cap, &copy, sizeof copy, e) != 0) {
        free(copy);
        return -1;
    }
    int added = fy_names_add(&set->ids, fy_span_of(copy), 0);
    if (added < 0)
        return fy_nomem(e);
    return added == 0 ? 0 : add_finding(r, rel, "has the model_id of another model here", e);
}

static int check_entry(const char *dir, const fy_manifest *m, const fy_manifest_entry *en,
                       id_set *ids, fy_verify_report *r, fy_err *e)
{
    char id[FY_MODEL_ID_BYTES] = "";
    if (may_be_program(en->path))
        return check_program(dir, m, en, r, e);
    if (!is_model_json(en->path))
        return 0;
    if (check_model(dir, m, en->path, id, r, e) != 0)
        return -1;
    return id[0] != '\0' ? add_id(ids, en->path, id, r, e) : 0;
}

/* The names in workspace.json, and all that a run checks before it loads. */
static int check_bundle(const char *dir, fy_verify_report *r, fy_err *e)
{
    fy_bundle b;
    fy_err what = {0};
    if (fy_bundle_open(dir, &b, &what) != 0)
        return add_failure(r, FY_BUNDLE_WORKSPACE_JSON, &what, e);
    fy_bundle_release(&b);
    return 0;
}

int fy_verify_content(const char *dir, const fy_manifest *m, fy_verify_report *r, fy_err *e)
{
    id_set ids = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->n; i++) {
        rc = check_entry(dir, m, &m->entry[i], &ids, r, e);
        if (rc == 0)
            rc = fy_check_interrupt(e);
    }
    for (size_t i = 0; i < ids.n; i++)
        free(ids.id[i]);
    free(ids.id);
    fy_names_release(&ids.ids);
    return rc == 0 && r->n == 0 ? check_bundle(dir, r, e) : rc;
}

/* --- hashes ----------------------------------------------------------------------------------- */

static int on_bad(void *user, const fy_manifest_entry *m, const fy_err *what, fy_err *e)
{
    return add_failure(user, m->path, what, e);
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
        rc = add_finding(r, FY_MANIFEST_NAME,
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
        rc = add_finding(r, t.path[i], "not listed in " FY_MANIFEST_NAME, e);
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
        rc = add_finding(r, FY_MANIFEST_SIG, why.ptr, e);
    fy_str_release(&why);
    return rc;
}

/* --- the job ---------------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    return strcmp(((const fy_finding *)a)->path, ((const fy_finding *)b)->path);
}

/* A manifest that cannot be read is the only finding. A directory that is not a workspace, or a
 * wrong path, is an error instead. */
static int without_manifest(const char *dir, const fy_err *what, fy_verify_report *r, fy_err *e)
{
    bool damaged =
        fy_dir_has(dir, FY_MANIFEST_NAME) && (what->code == FY_EFORMAT || what->code == FY_EVERIFY);
    return damaged ? add_failure(r, FY_MANIFEST_NAME, what, e)
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

/* A workspace of PowerServe: nothing says what its bytes should be, but they have to fit each
 * other. */
static int verify_foreign(const char *dir, const fy_trust *trust, fy_verify_report *out, fy_err *e)
{
    fy_manifest m;
    fy_verify_report r = {.not_listed = true};
    if (fy_manifest_of(dir, &m, e) != 0)
        return -1;
    r.n_files = m.n;
    for (size_t i = 0; i < m.n; i++)
        r.bytes += m.entry[i].bytes;
    int rc = fy_verify_content(dir, &m, &r, e);
    if (rc == 0 && trust != NULL && (trust->key_path != NULL || trust->require))
        rc = add_finding(&r, FY_MANIFEST_NAME, "is not there, so nothing is signed", e);
    fy_manifest_release(&m);
    return finish(rc, &r, out);
}

int fy_verify(const char *dir, const fy_trust *trust, int n_threads, fy_progress *progress,
              fy_verify_report *out, fy_err *e)
{
    fy_seal seal;
    fy_verify_report r = {0};
    fy_err what = {0};
    if (fy_manifest_is_foreign(dir))
        return verify_foreign(dir, trust, out, e);
    if (fy_seal_open(dir, &seal, &what) != 0)
        return finish(without_manifest(dir, &what, &r, e), &r, out);
    int rc = fy_verify_sealed(dir, &seal, trust, n_threads, progress, out, e);
    fy_seal_close(&seal);
    return rc;
}
