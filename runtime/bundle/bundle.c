/* Opening a workspace for a run: the cheap checks, then workspace.json and hparams.json. */
#include "bundle/bundle.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_rows.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread.h"
#include "bundle/bundle_check.h"
#include "bundle/manifest_read.h"
#include "bundle/qnn_config.h"

/* Maps a JSON file of the workspace after comparing it with its hash, where it has one. */
static int open_json(const char *dir, const fy_manifest *m, const char *rel, fy_map *out, fy_err *e)
{
    const fy_manifest_entry *en = fy_manifest_find(m, rel);
    if (en == NULL)
        return fy_fail(e, FY_EFORMAT,
                       "%s/" FY_MANIFEST_NAME ": does not list %s, which a workspace needs", dir,
                       rel);
    char *path = fy_path_format(e, "%s/%s", dir, rel);
    if (path == NULL)
        return -1;
    uint8_t hash[FY_SHA256_BYTES];
    int rc = 0;
    if (en->bytes > FY_BUNDLE_JSON_MAX_BYTES)
        rc = fy_fail(e, FY_EFORMAT, "%s: %llu bytes, expected at most %u", path,
                     (unsigned long long)en->bytes, FY_BUNDLE_JSON_MAX_BYTES);
    else if ((rc = fy_map_open(out, path, e)) == 0 && !m->not_hashed) {
        rc = fy_sha256_of(out->data, out->size, hash, e);
        if (rc == 0 && memcmp(hash, en->sha256, sizeof hash) != 0)
            rc = fy_fail(
                e, FY_EVERIFY,
                "%s: changed since the workspace was made (SHA-256 differs from the manifest's)",
                path);
        if (rc != 0)
            fy_map_close(out);
    }
    free(path);
    return rc;
}

/* --- workspace.json --------------------------------------------------------------------------- */

/* "" means none. */
static bool is_plain_name(const char *text)
{
    return *text == '\0' || fy_path_is_plain(fy_span_of(text));
}

typedef struct {
    char *main, *draft, *hparams; /* owned */
} names;

#define NAME(name, field, must)                                                                    \
    {                                                                                              \
        .key = name, .type = FY_JSON_ROW_TEXT, .offset = offsetof(names, field), .required = must, \
        .fits = is_plain_name, .expected = "a plain name without '/'"                              \
    }
static const fy_json_row workspace_rows[] = {NAME("model_main", main, true),
                                             NAME("model_draft", draft, false),
                                             NAME("hparams_config", hparams, false)};

static char *take_name(char *name)
{
    if (name != NULL && *name != '\0')
        return name;
    free(name);
    return NULL;
}

static int take_workspace(fy_span text, fy_bundle *b, char **hparams_name, fy_err *e)
{
    const fy_json_table table = {FY_JSON_ROWS(workspace_rows)};
    names n = {0};
    int rc = fy_json_document_of(text, &table, &n, e);
    b->model_main = take_name(n.main);
    b->model_draft = take_name(n.draft);
    *hparams_name = take_name(n.hparams);
    return rc == 0 && b->model_main == NULL
               ? fy_fail(e, FY_EFORMAT, "lacks 'model_main', the directory of the model to run")
               : rc;
}

/* --- hparams.json ----------------------------------------------------------------------------- */

static int take_float(fy_json *j, const char *key, double min, double max, double *out, fy_err *e)
{
    double v = 0;
    if (fy_json_double(j, &v, e) != 0)
        return fy_ctx(e, "%s", key);
    if (!(v >= min && v <= max))
        return fy_fail(e, FY_EFORMAT, "%s: %g, expected %g to %g", key, v, min, max);
    *out = v;
    return 0;
}

/* 2^64 - 1, or -1: a new one each time. */
static int take_seed(fy_json *j, const char *text, uint64_t *out, fy_err *e)
{
    int64_t v = 0;
    bool negative = fy_json_peek(j) == FY_JSON_NUMBER && text[fy_json_offset(j)] == '-';
    int rc = negative ? fy_json_i64(j, &v, e) : fy_json_u64(j, out, e);
    if (rc != 0)
        return fy_ctx(e, "seed");
    if (negative)
        *out = (uint64_t)v; /* as PowerServe's reader does */
    return 0;
}

static int take_sampler_value(fy_json *j, fy_span key, fy_bundle *b, fy_err *e)
{
    double *const floats[FY_HINTS] = {
        [FY_HINT_TEMP] = &b->temperature,
        [FY_HINT_TOP_P] = &b->top_p,
        [FY_HINT_MIN_P] = &b->min_p,
        [FY_HINT_TYPICAL] = &b->typical_p,
        [FY_HINT_REPEAT] = &b->penalty_repeat,
        [FY_HINT_PRESENCE] = &b->penalty_present,
        [FY_HINT_FREQUENCY] = &b->penalty_freq,
    };
    int h = 0;
    while (h < FY_HINTS && !fy_span_is(key, fy_hints[h].hparams))
        h++;
    if (h == FY_HINTS)
        return fy_json_skip(j, e);
    const fy_hint_row *row = &fy_hints[h];
    if (floats[h] != NULL)
        return take_float(j, row->hparams, row->min, row->max, floats[h], e);
    if (h == FY_HINT_LAST_N)
        return fy_json_i64_in(j, row->hparams, (int64_t)row->min, (int64_t)row->max,
                              &b->penalty_last_n, e);
    if (fy_json_i64_in(j, row->hparams, -1, (int64_t)row->max, &b->top_k, e) != 0)
        return -1;
    b->top_k = b->top_k < 0 ? 0 : b->top_k; /* -1 is all elsewhere */
    return 0;
}

static int take_sampler(fy_json *j, const fy_json_table *t, void *at, fy_err *e)
{
    fy_bundle *b = at;
    fy_span key;
    int rc = fy_json_object_begin(j, e);
    while (rc == 0 && (rc = fy_json_object_next(j, &key, e)) == 1)
        rc = fy_span_is(key, "seed") ? take_seed(j, t->user, &b->seed, e)
                                     : take_sampler_value(j, key, b, e);
    return rc;
}

static const fy_json_row hparams_rows[] = {
    FY_JSON_WITHIN(I64, "n_threads", fy_bundle, n_threads, false, 1, FY_THREADS_MAX),
    FY_JSON_WITHIN(I64, "batch_size", fy_bundle, batch_size, false, 1, 1 << 20),
    {.key = "sampler", .type = FY_JSON_ROW_TAKE, .take = take_sampler},
};

/* --- opening ---------------------------------------------------------------------------------- */

/* Reads one JSON file: workspace.json when hparams_name is given, else the hyperparameters. */
static int read_json(const char *dir, const fy_manifest *m, const char *rel, fy_bundle *b,
                     char **hparams_name, fy_err *e)
{
    fy_map map;
    if (open_json(dir, m, rel, &map, e) != 0)
        return -1;
    fy_span text = {(const char *)map.data, map.size};
    const fy_json_table table = {FY_JSON_ROWS(hparams_rows), .user = (void *)(uintptr_t)text.ptr};
    int rc = hparams_name != NULL ? take_workspace(text, b, hparams_name, e)
                                  : fy_json_document_of(text, &table, b, e);
    if (rc != 0)
        fy_ctx(e, "%s/%s", dir, rel);
    fy_map_close(&map);
    return rc;
}

/* qnn/config.json by its hash, where the manifest lists one; *qnn is set to its directory. */
static int find_graphs(const char *dir, const fy_manifest *m, const char *model, char **qnn,
                       fy_err *e)
{
    fy_map map;
    char *rel = fy_path_format(e, "%s/" FY_QNN_DIR "/" FY_QNN_CONFIG_NAME, model);
    int rc = rel != NULL ? 0 : -1;
    if (rc == 0 && fy_manifest_find(m, rel) != NULL &&
        (rc = open_json(dir, m, rel, &map, e)) == 0) {
        fy_map_close(&map);
        *qnn = fy_path_format(e, "%s/%s/" FY_QNN_DIR, dir, model);
        rc = *qnn != NULL ? 0 : -1;
    }
    free(rel);
    return rc;
}

static int find_libraries(const char *dir, const fy_manifest *m, fy_bundle *b, fy_err *e)
{
    size_t i = 0;
    while (i < m->n && !fy_span_begins(fy_span_of(m->entry[i].path), FY_BUNDLE_QNN_LIBS "/"))
        i++;
    if (i < m->n)
        b->qnn_libs = fy_path_format(e, "%s/" FY_BUNDLE_QNN_LIBS, dir);
    return i == m->n || b->qnn_libs != NULL ? 0 : -1;
}

/* model.json by its hash, and the weights listed; *weights is set to their path when it is not
 * NULL. */
static int check_model(const char *dir, const fy_manifest *m, const char *model, char **weights,
                       fy_err *e)
{
    fy_map map;
    char *json = fy_path_format(e, "%s/" FY_BUNDLE_MODEL_JSON, model);
    char *rel = json != NULL ? fy_path_format(e, "%s/" FY_BUNDLE_WEIGHTS, model) : NULL;
    int rc = rel != NULL ? open_json(dir, m, json, &map, e) : -1;
    if (rc == 0)
        fy_map_close(&map);
    if (rc == 0 && fy_manifest_find(m, rel) == NULL)
        rc = fy_fail(e, FY_EFORMAT,
                     "%s/" FY_MANIFEST_NAME ": does not list %s, which model '%s' needs", dir, rel,
                     model);
    if (rc == 0 && weights != NULL && (*weights = fy_path_format(e, "%s/%s", dir, rel)) == NULL)
        rc = -1;
    free(json);
    free(rel);
    return rc;
}

static int open_all(const char *dir, const fy_manifest *m, fy_bundle *b, fy_err *e)
{
    for (size_t i = 0; i < m->n; i++) {
        fy_err what = {0};
        if (fy_listed_check(dir, &m->entry[i], false, &what) != 0)
            return fy_fail(e, what.code, "%s/%s: %s; 'ferry verify %s' shows all", dir,
                           m->entry[i].path, what.msg, dir);
    }
    char *hparams_name = NULL;
    int rc = read_json(dir, m, FY_BUNDLE_WORKSPACE_JSON, b, &hparams_name, e);
    if (rc == 0 && hparams_name != NULL)
        rc = read_json(dir, m, hparams_name, b, NULL, e);
    if (rc == 0)
        rc = check_model(dir, m, b->model_main, &b->weights, e);
    if (rc == 0)
        rc = find_graphs(dir, m, b->model_main, &b->qnn, e);
    if (rc == 0)
        rc = find_libraries(dir, m, b, e);
    if (rc == 0 && b->model_draft != NULL)
        rc = check_model(dir, m, b->model_draft, NULL, e);
    free(hparams_name);
    return rc;
}

int fy_bundle_open(const char *dir, fy_bundle *out, fy_err *e)
{
    fy_manifest m;
    if (fy_manifest_of(dir, &m, e) != 0)
        return -1;
    if (m.not_hashed)
        fy_log(FY_LOG_INFO,
               "%s: a workspace of PowerServe: no " FY_MANIFEST_NAME
               " lists its files, so they are taken as they are",
               dir);
    fy_bundle b = {.n_threads = -1,
                   .batch_size = -1,
                   .temperature = NAN,
                   .top_p = NAN,
                   .min_p = NAN,
                   .typical_p = NAN,
                   .top_k = -1,
                   .penalty_repeat = NAN,
                   .penalty_freq = NAN,
                   .penalty_present = NAN,
                   .penalty_last_n = INT64_MIN,
                   .seed = UINT64_MAX};
    int rc = open_all(dir, &m, &b, e);
    fy_manifest_release(&m);
    if (rc == 0)
        *out = b;
    else
        fy_bundle_release(&b);
    return rc;
}

void fy_bundle_release(fy_bundle *b)
{
    free(b->model_main);
    free(b->model_draft);
    free(b->weights);
    free(b->qnn);
    free(b->qnn_libs);
    *b = (fy_bundle){0};
}

/* --- sampling hints --------------------------------------------------------------------------- */

#define KEY(name) "general.sampling." name

const fy_hint_row fy_hints[FY_HINTS] = {
    [FY_HINT_TEMP] = {KEY("temp"), "temperature", "temperature", 0, 100, false, true},
    [FY_HINT_TOP_K] = {KEY("top_k"), "top_k", "top_k", 0, INT32_MAX, true, true},
    [FY_HINT_TOP_P] = {KEY("top_p"), "top_p", "top_p", 0, 1, false, true},
    [FY_HINT_MIN_P] = {KEY("min_p"), "min_p", "min_p", 0, 1, false, true},
    [FY_HINT_TYPICAL] = {KEY("typical_p"), "typical_p", "typical_p", 0, 1, false, true},
    [FY_HINT_REPEAT] = {KEY("penalty_repeat"), "penalty_repeat", "repetition_penalty", 0.01, 100,
                        false, false},
    [FY_HINT_LAST_N] = {KEY("penalty_last_n"), "penalty_last_n", NULL, -1, 1 << 20, true, false},
    [FY_HINT_PRESENCE] = {NULL, "penalty_present", NULL, -100, 100, false, false},
    [FY_HINT_FREQUENCY] = {NULL, "penalty_freq", NULL, -100, 100, false, false},
};

double fy_hint_of(const fy_gguf *g, fy_hint h, bool *bad)
{
    const fy_hint_row *row = &fy_hints[h];
    const fy_gguf_kv *kv = row->gguf != NULL ? fy_gguf_find(g, row->gguf) : NULL;
    double v = NAN;
    if (bad != NULL)
        *bad = false;
    if (kv == NULL)
        return NAN;
    if (kv->type == FY_KV_F32 || kv->type == FY_KV_F64)
        v = fy_gguf_float_at(kv, 0);
    else if (kv->type != FY_KV_ARRAY && kv->type != FY_KV_STRING && kv->type != FY_KV_BOOL)
        v = (double)fy_gguf_int_at(kv, 0);
    if (v >= row->min && v <= row->max && (!row->whole || v == floor(v)))
        return v;
    if (bad != NULL)
        *bad = true;
    return NAN;
}
