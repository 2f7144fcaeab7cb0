/* The chunks of a cut model put together again. That they are sound, copies equal and all of it the
 * model that was cut is chunk_check.c's to find; here every byte gets its place. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/math.h"
#include "base/str.h"
#include "cli/cut_model.h"
#include "format/write_journal.h"
#include "workspace/npu/chunk_impl.h"

/* Bytes of a tensor of the model that a chunk holds, and no other before it. */
typedef struct {
    uint32_t place;      /* number of the tensor in the model */
    uint64_t begin, end; /* in the model's tensor */
    const fy_gguf *gguf; /* view */
    const fy_gguf_tensor *t;
    const fy_tensor_row *row;
} span;

typedef struct {
    const char *dir;
    fy_cut_model model; /* owned */
    span *spans;        /* owned: by place, then by begin */
    size_t n_spans;
    size_t *first; /* owned, [n_tensors + 1]: of the spans of each place */
    size_t n_tensors;
    fy_gguf_writer *w; /* owned */
} job;

/* --- what is wrong ---------------------------------------------------------------------------- */

/* The message names the file already. */
static int broken(const job *j, const fy_err *why, fy_err *e)
{
    if (why->code == FY_ENOMEM || why->code == FY_EIO || why->code == FY_EINTR)
        return fy_fail(e, why->code, "%s", why->msg);
    return fy_fail(e, FY_EVERIFY,
                   "%s; remove that file and cut the model into %s again, which makes what is "
                   "missing",
                   why->msg, j->dir);
}

static int check_there(const job *j, const char *rel, fy_err *e)
{
    char *path = fy_path_join(j->dir, rel);
    if (path == NULL)
        return fy_nomem(e);
    const bool there = fy_file_exists(path);
    free(path);
    return there ? 0
                 : fy_fail(e, FY_EVERIFY,
                           "%s/%s: missing; the 'ferry chunk' that made the directory makes what "
                           "is missing",
                           j->dir, rel);
}

/* That every chunk is there, by config.json. */
static int check_graphs(const job *j, const fy_qnn_config_graph *g, size_t n, fy_err *e)
{
    for (size_t i = 0; i < n; i++) {
        fy_str rel = {0};
        if (!fy_qnn_is_gguf(&g[i]))
            return fy_fail(e, FY_EVERIFY,
                           "%s/" FY_CHUNK_CONFIG
                           ": names %s, which is compiled; expected the chunks that "
                           "'ferry chunk' makes",
                           j->dir, g[i].model_path);
        fy_str_printf(&rel, FY_QNN_DIR "/%s", g[i].model_path);
        const int rc = rel.oom ? fy_nomem(e) : check_there(j, rel.ptr, e);
        fy_str_release(&rel);
        if (rc != 0)
            return -1;
    }
    return 0;
}

static int check_files(const job *j, const char *qnn, fy_err *e)
{
    fy_qnn_config c;
    fy_err why = {0};
    if (check_there(j, FY_BUNDLE_WEIGHTS, e) != 0 || check_there(j, FY_CHUNK_CONFIG, e) != 0)
        return -1;
    if (fy_cut_config_read(qnn, &c, &why) != 0)
        return broken(j, &why, e);
    const int rc = check_graphs(j, c.graph, c.n_graphs, e) != 0
                       ? -1
                       : check_graphs(j, c.embedding, c.n_embeddings, e);
    fy_qnn_config_release(&c);
    return rc;
}

static int open_model(job *j, fy_err *e)
{
    fy_err why = {0};
    char *weights = fy_path_join(j->dir, FY_BUNDLE_WEIGHTS),
         *qnn = fy_path_join(j->dir, FY_QNN_DIR);
    int rc = weights == NULL || qnn == NULL ? fy_nomem(e) : check_files(j, qnn, e);
    if (rc == 0 && (fy_cut_model_open(weights, qnn, &j->model, &why) != 0 ||
                    fy_chunk_check_model(&j->model, qnn, &why) != 0))
        rc = broken(j, &why, e);
    if (rc == 0 && j->model.info.kind != FY_CHUNK_EMBEDDING)
        rc = fy_fail(e, FY_EARG, "%s: is the complete model: there is nothing to join", weights);
    free(weights);
    free(qnn);
    return rc;
}

/* --- where the bytes are ---------------------------------------------------------------------- */

/* Rows that token_embd has, or the norm that the first slice has. */
static bool is_copy(const fy_chunk_info *info, const fy_tensor_row *row)
{
    if (info->kind != FY_CHUNK_HEAD)
        return false;
    return fy_row_is_sliced(row) ? info->tied && row->slot == FY_T_OUTPUT : info->index > 0;
}

/* Where the chunk's tensor begins and ends in the model's. */
static int place_bytes(const fy_chunk_info *info, span *s, fy_err *e)
{
    const bool sliced = info->kind == FY_CHUNK_HEAD && fy_row_is_sliced(s->row);
    const uint64_t token = sliced ? s->t->bytes / (info->end_token - info->first_token) : 0;
    return fy_mul_u64(token, info->first_token, &s->begin) &&
                   fy_add_u64(s->begin, s->t->bytes, &s->end)
               ? 0
               : fy_fail(e, FY_EVERIFY, "holds more tokens than 64 bits count bytes");
}

static int add_chunk(job *j, const fy_gguf *g, const fy_chunk_info *info, fy_err *e)
{
    const fy_gguf_kv *places;
    if (fy_chunk_places(g, &places, e) != 0)
        return -1;
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        uint32_t layer;
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        span s = {.place = (uint32_t)fy_gguf_int_at(places, i),
                  .gguf = g,
                  .t = t,
                  .row = fy_row_of_gguf(j->model.family, t->name, &layer)};
        assert(s.row != NULL); /* chunk_check.c refuses tensors that the family does not have */
        if (is_copy(info, s.row))
            continue;
        if (place_bytes(info, &s, e) != 0)
            return -1;
        j->spans[j->n_spans++] = s;
    }
    return 0;
}

static int by_place(const void *x, const void *y)
{
    const span *a = x, *b = y;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static int gather(job *j, fy_err *e)
{
    const fy_cut_model *m = &j->model;
    size_t n = fy_gguf_n_tensors(m->weights);
    for (size_t i = 0; i < m->n_chunks; i++)
        n += fy_gguf_n_tensors(m->chunk[i].gguf);
    j->spans = calloc(n + 1, sizeof *j->spans);
    j->first = calloc(n + 1, sizeof *j->first);
    if (j->spans == NULL || j->first == NULL)
        return fy_nomem(e);
    if (add_chunk(j, m->weights, &m->info, e) != 0)
        return fy_ctx(e, "%s", fy_gguf_path(m->weights));
    for (size_t i = 0; i < m->n_chunks; i++) {
        if (add_chunk(j, m->chunk[i].gguf, &m->chunk[i].info, e) != 0)
            return fy_ctx(e, "%s", fy_gguf_path(m->chunk[i].gguf));
    }
    qsort(j->spans, j->n_spans, sizeof *j->spans, by_place);
    return 0;
}

/* Those of one place follow each other up to `bytes`. */
static int check_spans(const span *s, size_t n, uint64_t bytes, fy_err *e)
{
    char shown[FY_QUOTE_BYTES];
    uint64_t at = 0;
    size_t i = 0;
    for (; i < n && s[i].begin == at && s[i].t->type == s[0].t->type; i++)
        at = s[i].end;
    if (i == n && at == bytes)
        return 0;
    return fy_fail(e, FY_EVERIFY, "%s: '%s' does not go with the other slices of it",
                   fy_gguf_path(s[i < n ? i : n - 1].gguf),
                   fy_quote(shown, sizeof shown, s[0].t->name));
}

static int add_tensor(job *j, const span *s, size_t n, fy_err *e)
{
    char name[FY_GGUF_MAX_NAME + 1];
    uint64_t ne[FY_GGUF_MAX_DIMS], shape[FY_GGUF_MAX_DIMS];
    memcpy(ne, s->t->ne, sizeof ne);
    if (fy_row_is_sliced(s->row))
        ne[fy_row_shape(&j->model.hp, s->row, shape) - 1] = j->model.hp.n_vocab;
    memcpy(name, s->t->name.ptr, s->t->name.len);
    name[s->t->name.len] = '\0';
    const int64_t i = fy_gguf_add_tensor(j->w, name, s->t->type, s->t->n_dims, ne, e);
    return i < 0 ? -1 : check_spans(s, n, fy_gguf_writer_tensor(j->w, i)->bytes, e);
}

static int plan_tensors(job *j, fy_err *e)
{
    size_t at = 0;
    while (at < j->n_spans) {
        const span *s = &j->spans[at];
        assert(s->place == j->n_tensors); /* it refuses gaps, too */
        j->first[j->n_tensors++] = at;
        while (at < j->n_spans && j->spans[at].place == s->place)
            at++;
        if (add_tensor(j, s, (size_t)(&j->spans[at] - s), e) != 0)
            return -1;
    }
    j->first[j->n_tensors] = at;
    return 0;
}

static int plan_keys(job *j, fy_err *e)
{
    const fy_gguf *g = j->model.weights;
    for (size_t i = 0; i < fy_gguf_n_kv(g); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(g, i);
        if (!fy_chunk_is_own_key(kv->key) && fy_gguf_add_kv(j->w, kv, e) != 0)
            return fy_ctx(e, "%s", fy_gguf_path(g));
    }
    return 0;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static int fill(void *user, int64_t i, uint64_t row, uint64_t n_rows, void *out, int thread,
                fy_err *e)
{
    (void)thread;
    (void)e;
    const job *j = user;
    const fy_gguf_tensor *t = fy_gguf_writer_tensor(j->w, i);
    const uint64_t row_bytes = fy_type_row_bytes(t->type, t->ne[0]), at = row * row_bytes,
                   n = n_rows * row_bytes;
    for (size_t k = j->first[i]; k < j->first[i + 1]; k++) {
        const span *s = &j->spans[k];
        const uint64_t begin = at > s->begin ? at : s->begin,
                       end = at + n < s->end ? at + n : s->end;
        if (begin >= end)
            continue;
        memcpy((uint8_t *)out + (begin - at), s->t->data + (begin - s->begin),
               (size_t)(end - begin));
        fy_gguf_drop(s->gguf, s->t, begin - s->begin, end - begin);
    }
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

static bool is_chunk(const job *j, const char *path)
{
    bool same = fy_file_is_same(fy_gguf_path(j->model.weights), path);
    for (size_t i = 0; i < j->model.n_chunks && !same; i++)
        same = fy_file_is_same(fy_gguf_path(j->model.chunk[i].gguf), path);
    return same;
}

static int check_out(const job *j, const char *out, fy_err *e)
{
    fy_str part = {0};
    fy_str_printf(&part, "%s.part", out);
    int rc = part.oom ? fy_nomem(e) : 0;
    if (rc == 0 && (is_chunk(j, out) || is_chunk(j, part.ptr)))
        rc = fy_fail(e, FY_EARG, "%s: is one of the chunks, expected another name", out);
    fy_str_release(&part);
    return rc;
}

static int identify(const job *j, fy_str *out, fy_err *e)
{
    int rc = fy_identity_program(out, FY_IDENTITY_HERE, e);
    if (rc == 0)
        rc = fy_identity_file(out, FY_IDENTITY_HERE, "chunk", fy_gguf_path(j->model.weights), e);
    for (size_t i = 0; rc == 0 && i < j->model.n_chunks; i++)
        rc = fy_identity_file(out, FY_IDENTITY_HERE, "chunk", fy_gguf_path(j->model.chunk[i].gguf), e);
    return rc;
}

static int plan(job *j, fy_err *e)
{
    fy_err why = {0};
    j->w = fy_gguf_writer_new(e);
    if (j->w == NULL)
        return -1;
    if (gather(j, &why) != 0 || plan_keys(j, &why) != 0 || plan_tensors(j, &why) != 0)
        return broken(j, &why, e);
    return 0;
}

static int run(job *j, const char *out, fy_pool *pool, fy_progress *progress, fy_err *e)
{
    fy_str identity = {0};
    if (open_model(j, e) != 0 || plan(j, e) != 0 || check_out(j, out, e) != 0)
        return -1;
    if (progress != NULL)
        progress->total_bytes = fy_gguf_writer_file_bytes(j->w);
    int rc = identify(j, &identity, e);
    if (rc == 0)
        rc = fy_gguf_write_resumed(j->w, out, (fy_span){identity.ptr, identity.len}, fill, j, pool,
                                   progress, e);
    fy_str_release(&identity);
    return rc;
}

int fy_chunk_join(const char *dir, const char *out, fy_pool *pool, fy_progress *progress, fy_err *e)
{
    job j = {.dir = dir};
    fy_err why = {0};
    int rc = run(&j, out, pool, progress, &why);
    if (rc != 0)
        rc = fy_fail(e, why.code, "%s", why.msg);
    fy_gguf_writer_free(j.w);
    free(j.spans);
    free(j.first);
    fy_cut_model_close(&j.model);
    return rc;
}
