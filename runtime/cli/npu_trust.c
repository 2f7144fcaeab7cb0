/* Asks an NPU the canary, and remembers that it passed. */
#include "cli/npu_trust.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "bundle/npu_canary.h"
#include "bundle/qnn_config.h"
#include "cli/cut_model.h"

#define STATE_NAME ".canary-passed" /* in the directory of the graphs: a key */

/* --- what was asked already ------------------------------------------------------------------- */

/* Not its path, of which there are several. */
static void add_file(const char *path, fy_str *s)
{
    struct stat st = {0};
    (void)stat(path, &st); /* a file may be missing, too */
    fy_str_printf(s, "%lld %lld.%09ld %llu\n", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                  (long)st.st_mtim.tv_nsec, (unsigned long long)st.st_ino);
}

static void add_named(const char *qnn, const char *name, fy_str *s)
{
    char *path = fy_path_join(qnn, name);
    if (path != NULL)
        add_file(path, s);
    s->oom |= path == NULL;
    free(path);
}

/* A binary and its description, twice where two graphs are in it. */
static void add_graph(const char *qnn, const char *name, fy_str *s)
{
    fy_str sidecar = {0};
    fy_qnn_sidecar_path(name, &sidecar);
    add_named(qnn, name, s);
    add_named(qnn, fy_str_z(&sidecar), s);
    s->oom |= sidecar.oom;
    fy_str_release(&sidecar);
}

/* Everything that the answers depend on. Whoever changes it also changes its size or its time. */
static int key_of(const fy_model *m, const char *qnn, const char *library, char out[FY_SHA256_HEX],
                  fy_err *e)
{
    uint8_t hash[FY_SHA256_BYTES];
    fy_qnn_config c;
    fy_str s = {0};
    if (fy_cut_config_read(qnn, &c, e) != 0)
        return -1;
    add_file(library, &s);
    add_file(fy_gguf_path(fy_model_gguf(m)), &s);
    add_named(qnn, FY_QNN_CONFIG_NAME, &s);
    add_named(qnn, FY_CANARY_NAME, &s);
    for (size_t i = 0; i < c.n_graphs; i++)
        add_graph(qnn, c.graph[i].model_path, &s);
    for (size_t i = 0; i < c.n_embeddings; i++)
        add_graph(qnn, c.embedding[i].model_path, &s);
    fy_qnn_config_release(&c);
    const int rc = s.oom ? fy_nomem(e) : fy_sha256_of(s.ptr, s.len, hash, e);
    fy_str_release(&s);
    if (rc == 0)
        fy_sha256_to_hex(hash, out);
    return rc;
}

static bool has_passed(const char *state, const char *key)
{
    fy_map map;
    if (!fy_file_exists(state) || fy_map_open(&map, state, NULL) != 0)
        return false;
    const bool same = map.size == strlen(key) && memcmp(map.data, key, map.size) == 0;
    fy_map_close(&map);
    return same;
}

/* --- asking ----------------------------------------------------------------------------------- */

/* *sum += how far logits of the canary's n last positions are from the model's. */
static int add_kl(const fy_canary *c, size_t first, size_t n, const float *logits, uint32_t n_vocab,
                  double *sum, fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        double kl;
        if (fy_canary_kl(c, first + i, logits + i * n_vocab, n_vocab, &kl, e) != 0)
            return -1;
        *sum += kl;
    }
    return 0;
}

static int ask_at_once(fy_session *s, const fy_canary *c, uint32_t n_vocab, double *kl, fy_err *e)
{
    const float *logits;
    uint8_t *wants = calloc(c->n_ids, 1);
    const fy_batch b = {.ids = c->ids, .wants = wants, .n = (uint32_t)c->n_ids};
    if (wants == NULL)
        return fy_nomem(e);
    memset(wants + c->n_ids - c->n_positions, 1, c->n_positions);
    int rc = fy_session_decode(s, &b, NULL, &logits, e);
    free(wants);
    *kl = 0;
    if (rc == 0)
        rc = add_kl(c, 0, c->n_positions, logits, n_vocab, kl, e);
    *kl /= (double)c->n_positions;
    return rc;
}

static int ask_one_by_one(fy_session *s, const fy_canary *c, uint32_t n_vocab, double *kl,
                          fy_err *e)
{
    const size_t first = c->n_ids - c->n_positions;
    const float *logits;
    *kl = 0;
    fy_session_rewind(s, (uint32_t)first);
    for (size_t i = fy_session_n_past(s); i < c->n_ids; i++) { /* a state goes back to the first */
        if (fy_session_eval(s, c->ids + i, 1, NULL, &logits, e) != 0 ||
            (i >= first && add_kl(c, i - first, 1, logits, n_vocab, kl, e) != 0))
            return -1;
    }
    *kl /= (double)c->n_positions;
    return 0;
}

static int judge(const fy_canary *c, const char *what, double kl, fy_err *e)
{
    const double most = fy_canary_bound(c);
    if (kl <= most) /* not a NaN */
        return 0;
    return fy_fail(e, FY_EVERIFY,
                   "the NPU does not compute the model: %s, its answers to the canary have a KL "
                   "divergence of %.3g from the model's, expected at most %.3g (%.3g on a CPU "
                   "that rounds the same); 'ferry doctor --qnn' checks the library, 'ferry eval "
                   "--golden' finds the first wrong chunk, --canary off runs it nevertheless",
                   what, kl, most, c->kl);
}

static int ask(fy_model *m, const fy_canary *c, fy_canary_mode mode, fy_err *e)
{
    const fy_session_params p = {.n_ctx = fy_model_max_ctx(m), .n_threads = fy_default_threads()};
    const uint32_t n_vocab = fy_model_hparams(m)->n_vocab;
    double at_once = 0, one_by_one = 0;
    fy_session *s = fy_session_new(m, &p, e);
    int rc = s != NULL ? ask_at_once(s, c, n_vocab, &at_once, e) : -1;
    if (rc == 0)
        rc = ask_one_by_one(s, c, n_vocab, &one_by_one, e);
    fy_session_free(s);
    if (rc != 0)
        return -1;
    fy_log(mode == FY_CANARY_ALWAYS ? FY_LOG_INFO : FY_LOG_DEBUG,
           "canary: KL divergence %.3g, token by token %.3g, expected about %.3g", at_once,
           one_by_one, c->kl);
    rc = judge(c, "in whole batches", at_once, e);
    return rc == 0 ? judge(c, "token by token", one_by_one, e) : rc;
}

static int ask_and_keep(fy_model *m, const char *canary, const char *state, const char *key,
                        fy_canary_mode mode, fy_err *e)
{
    fy_canary c;
    fy_err why = {0};
    if (fy_canary_read(canary, &c, e) != 0)
        return -1;
    const char *model = fy_model_chunk_info(m)->model;
    int rc =
        strcmp(c.model, model) == 0
            ? ask(m, &c, mode, e)
            : fy_fail(e, FY_EFORMAT, "is of model %.16s..., expected %.16s...", c.model, model);
    fy_canary_release(&c);
    if (rc != 0)
        return fy_ctx(e, "%s", canary);
    if (fy_file_write(state, key, strlen(key), &why) != 0)
        fy_log(FY_LOG_DEBUG, "the canary is asked again the next time: %s", why.msg);
    return 0;
}

int fy_npu_recall(const fy_model *m, const char *qnn, const char *library, fy_canary_mode mode,
                  fy_npu_known *out, fy_err *e)
{
    *out = (fy_npu_known){0};
    char *state = fy_path_join(qnn, STATE_NAME);
    const int rc = state != NULL ? key_of(m, qnn, library, out->key, e) : fy_nomem(e);
    out->passed = rc == 0 && mode != FY_CANARY_ALWAYS && has_passed(state, out->key);
    free(state);
    return rc;
}

int fy_npu_trust(fy_model *m, const char *qnn, const fy_npu_known *known, fy_canary_mode mode,
                 fy_err *e)
{
    char *canary = fy_path_join(qnn, FY_CANARY_NAME), *state = fy_path_join(qnn, STATE_NAME);
    int rc = canary == NULL || state == NULL ? fy_nomem(e) : 0;
    if (rc == 0 && mode == FY_CANARY_OFF)
        fy_log(FY_LOG_WARN, "--canary off: what the NPU computes is not checked");
    else if (rc == 0 && !fy_file_exists(canary))
        fy_log(FY_LOG_WARN,
               "%s: has no " FY_CANARY_NAME ", so what the NPU computes is not checked", qnn);
    else if (rc == 0 && !known->passed)
        rc = ask_and_keep(m, canary, state, known->key, mode, e);
    free(canary);
    free(state);
    return rc;
}
