/* Prompt cache files: written from a session's cache row by row, checked whole before anything of
 * them is used. */
#include "model/prompt_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/file.h"
#include "base/math.h"
#include "model/session.h"

/* --- the layout ------------------------------------------------------------------------------- */

#define MAGIC "FERRYKV\n"

enum {
    VERSION = 1, /* also to be raised when kernels change the bits that they compute */
    HEAD_BYTES = 96,
    BLOCK_HEAD_BYTES = 32,
    MODEL_AT = 16, /* fields of the head */
    SHAPE_AT = 48,
    IDS_AT = 80, /* number of tokens, of blocks, bytes of the file */
};
typedef enum { KEYS = 1, VALUES = 2 } block_kind;

struct fy_prompt_cache {
    fy_map map; /* of a file; empty for bytes of the caller */
    const uint8_t *p;
    fy_prompt_cache_shape shape;
    uint32_t n;
    int32_t *ids;       /* owned */
    const uint8_t **at; /* owned: [n_layer][2] keys and values: [n_head_kv][n] rows */
};

static uint64_t padded(uint64_t n)
{
    return (n + 7) & ~(uint64_t)7;
}

/* Bytes of the rows of one head, or of all heads. False: does not fit 64 bits. */
static bool run_bytes(const fy_prompt_cache_shape *s, int values, uint32_t n, uint64_t *head,
                      uint64_t *all)
{
    const uint32_t dim = values ? s->head_dim_v : s->head_dim;
    const uint64_t row = fy_type_row_bytes((fy_type)(values ? s->type_v : s->type_k), dim);
    return row > 0 && fy_mul_u64(row, n, head) && fy_mul_u64(*head, s->n_head_kv, all);
}

static bool file_bytes(const fy_prompt_cache_shape *s, uint32_t n, uint64_t *out)
{
    uint64_t head, k, v, layers;
    if (!run_bytes(s, 0, n, &head, &k) || !run_bytes(s, 1, n, &head, &v) || k > UINT64_MAX / 4 ||
        v > UINT64_MAX / 4 ||
        !fy_mul_u64(padded(k) + padded(v) + 2 * BLOCK_HEAD_BYTES, s->n_layer, &layers))
        return false;
    return fy_add_u64(layers, HEAD_BYTES + padded(4 * (uint64_t)n) + FY_SHA256_BYTES, out);
}

/* --- what a cache depends on ------------------------------------------------------------------ */

static int add_span(fy_sha256 *h, fy_span s, fy_err *e)
{
    const uint64_t n = s.len;
    return fy_sha256_add(h, &n, sizeof n, e) == 0 ? fy_sha256_add(h, s.ptr, s.len, e) : -1;
}

static int add_tensor(fy_sha256 *h, const fy_gguf_tensor *t, fy_err *e)
{
    enum { SAMPLE = 4096 };
    const uint32_t type = t->type;
    if (add_span(h, t->name, e) != 0 || fy_sha256_add(h, &type, sizeof type, e) != 0 ||
        fy_sha256_add(h, t->ne, sizeof t->ne, e) != 0)
        return -1;
    if (t->bytes <= 3 * SAMPLE)
        return fy_sha256_add(h, t->data, (size_t)t->bytes, e);
    const uint64_t at[] = {0, (t->bytes - SAMPLE) / 2, t->bytes - SAMPLE};
    for (int i = 0; i < 3; i++) {
        if (fy_sha256_add(h, t->data + at[i], SAMPLE, e) != 0)
            return -1;
    }
    return 0;
}

static int add_model(fy_sha256 *h, const fy_gguf *g, fy_err *e)
{
    for (size_t i = 0; i < fy_gguf_n_kv(g); i++) {
        const fy_gguf_kv *kv = fy_gguf_kv_at(g, i);
        const uint32_t type = kv->type;
        if (fy_span_begins(kv->key, "split.")) /* of how it lies in files */
            continue;
        if (add_span(h, kv->key, e) != 0 || fy_sha256_add(h, &type, sizeof type, e) != 0 ||
            add_span(h, (fy_span){(const char *)kv->data, (size_t)kv->bytes}, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        if (fy_check_interrupt(e) != 0 || add_tensor(h, fy_gguf_tensor_at(g, i), e) != 0)
            return -1;
    }
    return 0;
}

int fy_model_identity(const fy_model *m, uint8_t out[FY_SHA256_BYTES], fy_err *e)
{
    fy_sha256 *h = fy_sha256_new(e);
    if (h == NULL)
        return -1;
    const int rc = add_model(h, fy_model_gguf(m), e);
    return fy_sha256_end(h, rc == 0 ? out : NULL, e) == 0 ? rc : -1;
}

int fy_prompt_cache_shape_of(const fy_session *s, fy_prompt_cache_shape *out, fy_err *e)
{
    const fy_hparams *hp = &s->model->hp;
    if (fy_session_check_saves(s, e) != 0)
        return -1;
    *out = (fy_prompt_cache_shape){.kernels = fy_cpu_features(),
                                   .flags =
                                       fy_session_has_long_rope(s) ? FY_PROMPT_CACHE_LONG_ROPE : 0,
                                   .type_k = s->kv.shape.type_k,
                                   .type_v = s->kv.shape.type_v,
                                   .n_layer = hp->n_layer,
                                   .n_head_kv = hp->n_head_kv,
                                   .head_dim = hp->head_dim,
                                   .head_dim_v = hp->head_dim_v};
    return fy_model_identity(s->model, out->model, e);
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct {
    fy_out *out;
    fy_sha256 *hash;
    uint64_t at;
} writer;

static int put(writer *w, const void *p, size_t n, fy_err *e)
{
    if (fy_check_interrupt(e) != 0 || fy_sha256_add(w->hash, p, n, e) != 0 ||
        fy_out_pwrite(w->out, p, n, w->at, e) != 0)
        return -1;
    fy_out_flush_behind(w->out, w->at, n);
    w->at += n;
    return 0;
}

static int put_padding(writer *w, fy_err *e)
{
    static const uint8_t zeros[8];
    return put(w, zeros, (size_t)(padded(w->at) - w->at), e);
}

static void set_u32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static void set_u64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

static int put_head(writer *w, const fy_prompt_cache_shape *s, uint32_t n, uint64_t bytes,
                    fy_err *e)
{
    uint8_t head[HEAD_BYTES] = MAGIC;
    const uint32_t fields[] = {s->kernels,   s->type_k,   s->type_v,    s->n_layer,
                               s->n_head_kv, s->head_dim, s->head_dim_v};
    set_u32(head + 8, VERSION);
    set_u32(head + 12, s->flags);
    memcpy(head + MODEL_AT, s->model, sizeof s->model);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        set_u32(head + SHAPE_AT + 4 * i, fields[i]);
    set_u32(head + IDS_AT, n);
    set_u32(head + IDS_AT + 4, 2 * s->n_layer);
    set_u64(head + IDS_AT + 8, bytes);
    return put(w, head, sizeof head, e);
}

static int put_block(writer *w, const fy_session *s, uint32_t seq, uint32_t layer, int values,
                     uint32_t n, fy_err *e)
{
    const fy_kv_layer l = fy_kv_at(&s->kv, layer);
    const size_t bytes = fy_kv_run_bytes(&l, values, n);
    uint8_t head[BLOCK_HEAD_BYTES] = {0};
    set_u32(head, values ? VALUES : KEYS);
    set_u32(head + 4, layer);
    set_u32(head + 12, n);
    set_u64(head + 16, (uint64_t)bytes * (uint64_t)l.n_head_kv);
    if (put(w, head, sizeof head, e) != 0)
        return -1;
    for (uint32_t h = 0; h < (uint32_t)l.n_head_kv; h++) {
        if (put(w, fy_kv_run_at(&l, values, seq, h, 0), bytes, e) != 0)
            return -1;
    }
    return put_padding(w, e);
}

static int put_all(writer *w, const fy_session *s, const fy_prompt_cache_shape *shape, uint32_t seq,
                   const int32_t *ids, uint32_t n, uint64_t bytes, fy_err *e)
{
    if (put_head(w, shape, n, bytes, e) != 0 || put(w, ids, n * sizeof *ids, e) != 0 ||
        put_padding(w, e) != 0)
        return -1;
    for (uint32_t i = 0; i < shape->n_layer; i++) {
        if (put_block(w, s, seq, i, 0, n, e) != 0 || put_block(w, s, seq, i, 1, n, e) != 0)
            return -1;
    }
    return 0;
}

int fy_prompt_cache_write(const char *path, const fy_session *s, uint32_t seq, const int32_t *ids,
                          uint32_t n, fy_err *e)
{
    fy_prompt_cache_shape shape;
    uint8_t digest[FY_SHA256_BYTES];
    uint64_t bytes;
    if (fy_prompt_cache_shape_of(s, &shape, e) != 0)
        return -1;
    if (n > fy_session_seq_n_past(s, seq) || !file_bytes(&shape, n, &bytes))
        return fy_fail(e, FY_EARG, "%u positions of sequence %u, which holds %u", n, seq,
                       fy_session_seq_n_past(s, seq));
    writer w = {.hash = fy_sha256_new(e), .out = NULL};
    if (w.hash == NULL)
        return -1;
    w.out = fy_out_open(path, bytes, e);
    int rc = w.out != NULL ? put_all(&w, s, &shape, seq, ids, n, bytes, e) : -1;
    if (fy_sha256_end(w.hash, rc == 0 ? digest : NULL, e) != 0)
        rc = -1;
    if (rc == 0)
        rc = fy_out_pwrite(w.out, digest, sizeof digest, w.at, e);
    if (rc == 0)
        return fy_out_commit(w.out, e);
    fy_out_abort(w.out);
    return -1;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int check_begin(const uint8_t *p, size_t n, fy_err *e)
{
    if (n < HEAD_BYTES + FY_SHA256_BYTES || memcmp(p, MAGIC, 8) != 0)
        return fy_fail(
            e, FY_EFORMAT,
            "not a prompt cache: it does not begin with \"FERRYKV\"; it is left as it is");
    if (fy_le32(p + 8) != VERSION)
        return fy_fail(e, FY_EFORMAT, "a prompt cache of version %u, expected %u; remove it",
                       fy_le32(p + 8), VERSION);
    uint64_t bytes = fy_le64(p + IDS_AT + 8);
    if (bytes != n)
        return fy_fail(e, FY_EFORMAT, "%zu bytes, expected %llu: it was cut short or damaged", n,
                       (unsigned long long)bytes);
    return 0;
}

static int check_hash(const uint8_t *p, size_t n, fy_err *e)
{
    uint8_t digest[FY_SHA256_BYTES];
    if (fy_sha256_of(p, n - sizeof digest, digest, e) != 0)
        return -1;
    return memcmp(digest, p + n - sizeof digest, sizeof digest) == 0
               ? 0
               : fy_fail(e, FY_EFORMAT, "its hash is another: it is damaged; remove it");
}

static int check_fits(const fy_prompt_cache_shape *s, const fy_prompt_cache_shape *want, fy_err *e)
{
    if (memcmp(s->model, want->model, sizeof s->model) != 0)
        return fy_fail(e, FY_EARG,
                       "holds the cache of another model; give another name, or remove it");
    if (s->type_k != want->type_k || s->type_v != want->type_v)
        return fy_fail(e, FY_EARG,
                       "holds a cache of types %s and %s, this one is of %s and %s (-ctk, -ctv)",
                       fy_type_name((fy_type)s->type_k), fy_type_name((fy_type)s->type_v),
                       fy_type_name((fy_type)want->type_k), fy_type_name((fy_type)want->type_v));
    if (s->kernels != want->kernels)
        return fy_fail(
            e, FY_EARG,
            "was computed by the kernels of another CPU (%s), whose last bits differ from "
            "this one's (%s); remove it",
            fy_cpu_describe(s->kernels), fy_cpu_describe(want->kernels));
    if (s->flags != want->flags)
        return fy_fail(e, FY_EARG,
                       "was computed for a context of another length (longrope); use the "
                       "same -c, or remove it");
    if (s->n_layer != want->n_layer || s->n_head_kv != want->n_head_kv ||
        s->head_dim != want->head_dim || s->head_dim_v != want->head_dim_v)
        return fy_fail(e, FY_EFORMAT, "%u layers of %u heads, the model has %u of %u", s->n_layer,
                       s->n_head_kv, want->n_layer, want->n_head_kv);
    return 0;
}

static bool is_cache_type(uint32_t type)
{
    return type == FY_F32 || type == FY_F16 || type == FY_Q8_0 || type == FY_Q4_0;
}

static int read_shape(fy_prompt_cache *c, size_t n_bytes, fy_err *e)
{
    const uint8_t *p = c->p + SHAPE_AT;
    fy_prompt_cache_shape *s = &c->shape;
    *s = (fy_prompt_cache_shape){.flags = fy_le32(c->p + 12),
                                 .kernels = fy_le32(p),
                                 .type_k = fy_le32(p + 4),
                                 .type_v = fy_le32(p + 8),
                                 .n_layer = fy_le32(p + 12),
                                 .n_head_kv = fy_le32(p + 16),
                                 .head_dim = fy_le32(p + 20),
                                 .head_dim_v = fy_le32(p + 24)};
    memcpy(s->model, c->p + MODEL_AT, sizeof s->model);
    c->n = fy_le32(c->p + IDS_AT);
    uint64_t bytes;
    if (!is_cache_type(s->type_k) || !is_cache_type(s->type_v))
        return fy_fail(e, FY_EFORMAT, "types %u and %u, expected f32, f16, q8_0 or q4_0", s->type_k,
                       s->type_v);
    if (s->n_layer == 0 || s->n_head_kv == 0 || c->n == 0 || !file_bytes(s, c->n, &bytes) ||
        bytes != n_bytes)
        return fy_fail(e, FY_EFORMAT,
                       "%u tokens in %u layers of %u heads do not take the %zu bytes that it has",
                       c->n, s->n_layer, s->n_head_kv, n_bytes);
    uint32_t n_blocks = fy_le32(c->p + IDS_AT + 4);
    if (n_blocks / 2 != s->n_layer || n_blocks % 2 != 0)
        return fy_fail(e, FY_EFORMAT, "%u blocks, expected keys and values of %u layers", n_blocks,
                       s->n_layer);
    return 0;
}

/* The total has been checked: what is wrong can only be a block of another kind, place or size. */
static int read_block(fy_prompt_cache *c, size_t n_bytes, uint64_t *at, fy_err *e)
{
    const uint8_t *p = c->p + *at;
    uint64_t head, all;
    if (n_bytes - *at < BLOCK_HEAD_BYTES + FY_SHA256_BYTES)
        return fy_fail(e, FY_EFORMAT, "a block begins after the end");
    uint32_t kind = fy_le32(p), layer = fy_le32(p + 4);
    if ((kind != KEYS && kind != VALUES) || layer >= c->shape.n_layer)
        return fy_fail(e, FY_EFORMAT,
                       "a block of kind %u of layer %u, expected keys (1) or values (2) "
                       "of %u layers",
                       kind, layer, c->shape.n_layer);
    const int values = kind == VALUES;
    if (!run_bytes(&c->shape, values, c->n, &head, &all) || fy_le32(p + 8) != 0 ||
        fy_le32(p + 12) != c->n || fy_le64(p + 16) != all ||
        padded(all) > n_bytes - *at - BLOCK_HEAD_BYTES - FY_SHA256_BYTES)
        return fy_fail(e, FY_EFORMAT,
                       "layer %u: positions %u to %u in %llu bytes, expected 0 to %u", layer,
                       fy_le32(p + 8), fy_le32(p + 12), (unsigned long long)fy_le64(p + 16), c->n);
    const uint8_t **slot = &c->at[2 * (size_t)layer + (size_t)values];
    if (*slot != NULL)
        return fy_fail(e, FY_EFORMAT, "layer %u: two blocks of %s", layer,
                       values ? "values" : "keys");
    *slot = p + BLOCK_HEAD_BYTES;
    *at += BLOCK_HEAD_BYTES + padded(all);
    return 0;
}

static int parse(fy_prompt_cache *c, size_t n, const fy_prompt_cache_shape *want, fy_err *e)
{
    if (check_begin(c->p, n, e) != 0 || check_hash(c->p, n, e) != 0 || read_shape(c, n, e) != 0 ||
        (want != NULL && check_fits(&c->shape, want, e) != 0))
        return -1;
    c->ids = malloc(c->n * sizeof *c->ids); /* the file is larger */
    c->at = calloc(2 * (size_t)c->shape.n_layer, sizeof *c->at);
    if (c->ids == NULL || c->at == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < c->n; i++) {
        c->ids[i] = (int32_t)fy_le32(c->p + HEAD_BYTES + 4 * (size_t)i);
        if (c->ids[i] < 0)
            return fy_fail(e, FY_EFORMAT, "token %u is %d", i, c->ids[i]);
    }
    uint64_t at = HEAD_BYTES + padded(4 * (uint64_t)c->n);
    for (uint32_t i = 0; i < 2 * c->shape.n_layer; i++) {
        if (read_block(c, n, &at, e) != 0)
            return -1;
    }
    return 0;
}

fy_prompt_cache *fy_prompt_cache_parse(const void *p, size_t n, const fy_prompt_cache_shape *want,
                                       fy_err *e)
{
    fy_prompt_cache *c = calloc(1, sizeof *c);
    if (c == NULL) {
        fy_nomem(e);
        return NULL;
    }
    c->p = p;
    if (parse(c, n, want, e) == 0)
        return c;
    fy_prompt_cache_close(c);
    return NULL;
}

fy_prompt_cache *fy_prompt_cache_open(const char *path, const fy_session *s, fy_err *e)
{
    fy_prompt_cache_shape want;
    fy_map map;
    if (fy_prompt_cache_shape_of(s, &want, e) != 0 || fy_map_open(&map, path, e) != 0)
        return NULL;
    fy_prompt_cache *c = fy_prompt_cache_parse(map.data, map.size, &want, e);
    if (c != NULL) {
        c->map = map;
        return c;
    }
    fy_map_close(&map);
    fy_ctx(e, "%s", path);
    return NULL;
}

void fy_prompt_cache_close(fy_prompt_cache *c)
{
    if (c == NULL)
        return;
    if (c->map.base != NULL)
        fy_map_close(&c->map);
    free(c->ids);
    free(c->at);
    free(c);
}

const int32_t *fy_prompt_cache_ids(const fy_prompt_cache *c, uint32_t *n)
{
    *n = c->n;
    return c->ids;
}

int fy_prompt_cache_load(const fy_prompt_cache *c, fy_session *s, uint32_t seq, uint32_t n,
                         fy_err *e)
{
    if (n > c->n || n > s->n_ctx || seq >= s->n_seq)
        return fy_fail(e, FY_EFIT, "%u positions for sequence %u: the file has %u, the context %u",
                       n, seq, c->n, s->n_ctx);
    s->n_past[seq] = 0;
    for (uint32_t i = 0; i < c->shape.n_layer; i++) {
        const fy_kv_layer l = fy_kv_at(&s->kv, i);
        if (fy_check_interrupt(e) != 0)
            return -1;
        for (int values = 0; values < 2; values++) {
            const size_t run = fy_kv_run_bytes(&l, values, c->n);
            const uint8_t *at = c->at[2 * (size_t)i + (size_t)values];
            for (uint32_t h = 0; h < (uint32_t)l.n_head_kv; h++)
                memcpy(fy_kv_run_at(&l, values, seq, h, 0), at + h * run,
                       fy_kv_run_bytes(&l, values, n));
        }
    }
    s->n_past[seq] = n;
    return 0;
}
