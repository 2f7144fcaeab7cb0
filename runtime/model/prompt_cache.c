/* Prompt cache files: written from a session's cache row by row, checked whole before anything of
 * them is used. */
#include "model/prompt_cache.h"

#include <stdlib.h>
#include <string.h>

#include "arch/graph_io.h"
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
typedef enum { KEYS = 1, VALUES = 2, STATE = 3 } block_kind; /* as fy_tail_kind, from 1 on */

/* They are ordered by end, layer and kind, so that none is there twice. */
typedef struct {
    uint32_t kind, layer, begin, end; /* rows [n_head_kv][end - begin]; the state at `end` */
    uint64_t bytes;
    const uint8_t *p;
} block;

struct fy_prompt_cache {
    fy_map map; /* of a file; empty for bytes of the caller */
    const uint8_t *p;
    fy_prompt_cache_shape shape;
    uint32_t n, n_blocks;
    int32_t *ids;  /* owned */
    block *blocks; /* owned */
};

static uint64_t padded(uint64_t n)
{
    return (n + 7) & ~(uint64_t)7;
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
    if (t->data == NULL) /* of a header alone */
        return 0;
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
    const bool has_rows = fy_layers_count(&hp->no_attn_layers) < hp->n_layer;
    *out = (fy_prompt_cache_shape){.kernels = fy_cpu_features(),
                                   .flags =
                                       fy_session_has_long_rope(s) ? FY_PROMPT_CACHE_LONG_ROPE : 0,
                                   .type_k = has_rows ? s->kv.type_k : FY_F32,
                                   .type_v = has_rows ? s->kv.type_v : FY_F32,
                                   .n_layer = hp->n_layer,
                                   .n_head_kv = hp->n_head_kv,
                                   .head_dim = hp->head_dim,
                                   .head_dim_v = hp->head_dim_v};
    return fy_model_identity(s->model, out->model, e);
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct {
    fy_prompt_cache_sink *sink; /* NULL: only to find out how long it becomes */
    void *user;
    fy_sha256 *hash;
    uint64_t at, bytes; /* of so many */
    uint32_t n_blocks;
} writer;

static int put(writer *w, const void *p, size_t n, fy_err *e)
{
    if (w->sink != NULL && (fy_check_interrupt(e) != 0 || fy_sha256_add(w->hash, p, n, e) != 0 ||
                            w->sink(w->user, p, n, w->at, w->bytes, e) != 0))
        return -1;
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

static int put_head(writer *w, const fy_prompt_cache_shape *s, uint32_t n, uint32_t n_blocks,
                    uint64_t bytes, fy_err *e)
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
    set_u32(head + IDS_AT + 4, n_blocks);
    set_u64(head + IDS_AT + 8, bytes);
    return put(w, head, sizeof head, e);
}

static int put_block_head(writer *w, uint32_t kind, uint32_t layer, uint32_t begin, uint32_t end,
                          uint64_t bytes, fy_err *e)
{
    const uint32_t fields[] = {kind, layer, begin, end};
    uint8_t head[BLOCK_HEAD_BYTES] = {0};
    memcpy(head, fields, sizeof fields);
    set_u64(head + 16, bytes);
    w->n_blocks++;
    return put(w, head, sizeof head, e);
}

/* All that a layer has of the first n positions: of one with a window they may begin later. */
static int put_rows(writer *w, const fy_session *s, uint32_t seq, uint32_t layer, bool values,
                    uint32_t n, fy_err *e)
{
    const fy_kv_layer l = fy_kv_at(&s->kv, layer);
    const uint32_t begin = fy_layer_has_window(&s->model->hp, layer) ? s->low[seq] : 0;
    if (put_block_head(w, values ? VALUES : KEYS, layer, begin, n,
                       (uint64_t)fy_kv_run_bytes(&l, values, n - begin) * (uint64_t)l.n_head_kv,
                       e) != 0)
        return -1;
    for (uint32_t h = 0; h < (uint32_t)l.n_head_kv; h++) {
        for (uint32_t pos = begin, k; pos < n; pos += k) { /* as far as they lie together */
            const uint32_t room = (uint32_t)(l.n_rows - pos % l.n_rows);
            k = n - pos < room ? n - pos : room;
            if (put(w, fy_kv_run_at(&l, values, seq, h, pos), fy_kv_run_bytes(&l, values, k), e) !=
                0)
                return -1;
        }
    }
    return put_padding(w, e);
}

static int put_piece(writer *w, const fy_tail_piece *p, uint32_t pos, const uint8_t *tail,
                     fy_err *e)
{
    return put_block_head(w, KEYS + (uint32_t)p->kind, p->layer,
                          p->kind == FY_TAIL_STATE ? 0 : p->begin, pos, p->bytes, e) != 0 ||
                   put(w, tail + p->at, p->bytes, e) != 0
               ? -1
               : put_padding(w, e);
}

static int put_state(writer *w, const fy_session *s, uint32_t seq, uint32_t layer, uint32_t n,
                     fy_err *e)
{
    const size_t bytes = s->states.len * sizeof(float);
    return put_block_head(w, STATE, layer, 0, n, bytes, e) != 0 ||
                   put(w, fy_states_of(&s->states, layer, seq, false), bytes, e) != 0
               ? -1
               : put_padding(w, e);
}

typedef struct {
    uint32_t seq, n; /* positions */
    const int32_t *ids;
    uint32_t n_blocks; /* and bytes of the file: 0 while they are counted */
    uint64_t bytes;
} content;

static int put_all(writer *w, const fy_session *s, const fy_prompt_cache_shape *shape,
                   const content *c, fy_err *e)
{
    uint32_t n;
    const fy_snapshot *k = fy_snapshots_of(s, c->seq, &n);
    if (put_head(w, shape, c->n, c->n_blocks, c->bytes, e) != 0 ||
        put(w, c->ids, c->n * sizeof *c->ids, e) != 0 || put_padding(w, e) != 0)
        return -1;
    for (uint32_t i = 0; i < n && k[i].pos < c->n; i++) {
        for (fy_tail_piece p = {0}; fy_tail_next(s, k[i].pos, &p);) {
            if (put_piece(w, &p, k[i].pos, k[i].bytes, e) != 0)
                return -1;
        }
    }
    for (uint32_t i = 0; i < shape->n_layer; i++) {
        const bool rows = fy_kv_owns(&s->model->hp, i);
        if ((rows && (put_rows(w, s, c->seq, i, false, c->n, e) != 0 ||
                      put_rows(w, s, c->seq, i, true, c->n, e) != 0)) ||
            (fy_layer_in(&s->states.layers, i) && put_state(w, s, c->seq, i, c->n, e) != 0))
            return -1;
    }
    return 0;
}

static int put_hashed(writer *w, const fy_session *s, const fy_prompt_cache_shape *shape,
                      content *c, fy_err *e)
{
    uint8_t digest[FY_SHA256_BYTES];
    writer counted = {0};
    if (put_all(&counted, s, shape, c, e) != 0 || (w->hash = fy_sha256_new(e)) == NULL)
        return -1;
    c->n_blocks = counted.n_blocks;
    c->bytes = w->bytes = counted.at + sizeof digest;
    const int rc = put_all(w, s, shape, c, e);
    if (fy_sha256_end(w->hash, rc == 0 ? digest : NULL, e) != 0 || rc != 0)
        return -1;
    return w->sink(w->user, digest, sizeof digest, w->at, w->bytes, e);
}

int fy_prompt_cache_put(const fy_session *s, uint32_t seq, const int32_t *ids, uint32_t n,
                        fy_prompt_cache_sink *sink, void *user, fy_err *e)
{
    fy_prompt_cache_shape shape;
    if (fy_prompt_cache_shape_of(s, &shape, e) != 0)
        return -1;
    const uint32_t has = fy_session_seq_n_past(s, seq);
    content c = {.seq = seq, .n = n, .ids = ids};
    writer w = {.sink = sink, .user = user};
    if (n > has || (n < has && (fy_tail_bytes(s, n) > 0 || s->low[seq] > 0)))
        return fy_fail(e, FY_EARG, "%u positions of sequence %u, which holds %u", n, seq, has);
    return put_hashed(&w, s, &shape, &c, e);
}

typedef struct {
    const char *path;
    fy_out *out;
} new_file;

static int to_file(void *user, const void *p, size_t n, uint64_t at, uint64_t bytes, fy_err *e)
{
    new_file *f = user;
    if ((f->out == NULL && (f->out = fy_out_open(f->path, bytes, e)) == NULL) ||
        fy_out_pwrite(f->out, p, n, at, e) != 0)
        return -1;
    fy_out_flush_behind(f->out, at, n);
    return 0;
}

int fy_prompt_cache_write(const char *path, const fy_session *s, uint32_t seq, const int32_t *ids,
                          uint32_t n, fy_err *e)
{
    new_file f = {.path = path};
    if (fy_prompt_cache_put(s, seq, ids, n, to_file, &f, e) == 0)
        return fy_out_commit(f.out, e);
    fy_out_abort(f.out);
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
    if (!is_cache_type(s->type_k) || !is_cache_type(s->type_v))
        return fy_fail(e, FY_EFORMAT, "types %u and %u, expected f32, f16, q8_0 or q4_0", s->type_k,
                       s->type_v);
    c->n_blocks = fy_le32(c->p + IDS_AT + 4);
    const uint64_t ids = padded(4 * (uint64_t)c->n);
    if (c->n == 0 || ids > n_bytes - HEAD_BYTES - FY_SHA256_BYTES ||
        c->n_blocks > (n_bytes - HEAD_BYTES - FY_SHA256_BYTES - ids) / BLOCK_HEAD_BYTES)
        return fy_fail(e, FY_EFORMAT,
                       "%u tokens and %u blocks do not fit the %zu bytes that it has", c->n,
                       c->n_blocks, n_bytes);
    return 0;
}

/* Does it stand after the block before it, by end, layer and kind? */
static bool follows(const block *b, const block *before)
{
    if (b->end != before->end)
        return b->end > before->end;
    return b->layer != before->layer ? b->layer > before->layer : b->kind > before->kind;
}

static int read_block(const fy_prompt_cache *c, size_t n_bytes, uint32_t i, uint64_t *at, fy_err *e)
{
    const uint8_t *p = c->p + *at;
    if (n_bytes - *at < BLOCK_HEAD_BYTES + FY_SHA256_BYTES)
        return fy_fail(e, FY_EFORMAT, "a block begins after the end");
    const block b = {.kind = fy_le32(p),
                     .layer = fy_le32(p + 4),
                     .begin = fy_le32(p + 8),
                     .end = fy_le32(p + 12),
                     .bytes = fy_le64(p + 16),
                     .p = p + BLOCK_HEAD_BYTES};
    const uint64_t room = n_bytes - *at - BLOCK_HEAD_BYTES - FY_SHA256_BYTES;
    if (b.kind < KEYS || b.kind > STATE || b.layer >= c->shape.n_layer)
        return fy_fail(e, FY_EFORMAT,
                       "a block of kind %u of layer %u, expected keys (1), values (2) or a state "
                       "(3) of %u layers",
                       b.kind, b.layer, c->shape.n_layer);
    if (b.begin >= b.end || b.end > c->n || (b.kind == STATE && b.begin != 0) || b.bytes > room ||
        padded(b.bytes) > room)
        return fy_fail(
            e, FY_EFORMAT, "layer %u: positions %u to %u of %u in %llu bytes, and %llu are left",
            b.layer, b.begin, b.end, c->n, (unsigned long long)b.bytes, (unsigned long long)room);
    if (i > 0 && !follows(&b, &c->blocks[i - 1]))
        return fy_fail(e, FY_EFORMAT,
                       "layer %u: a block of kind %u up to position %u is there twice, or stands "
                       "after what follows it",
                       b.layer, b.kind, b.end);
    c->blocks[i] = b;
    *at += BLOCK_HEAD_BYTES + padded(b.bytes);
    return 0;
}

static int parse(fy_prompt_cache *c, size_t n, const fy_prompt_cache_shape *want, fy_err *e)
{
    if (check_begin(c->p, n, e) != 0 || check_hash(c->p, n, e) != 0 || read_shape(c, n, e) != 0 ||
        (want != NULL && check_fits(&c->shape, want, e) != 0))
        return -1;
    c->ids = malloc(c->n * sizeof *c->ids); /* the file is larger */
    c->blocks = calloc((size_t)c->n_blocks + 1, sizeof *c->blocks);
    if (c->ids == NULL || c->blocks == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < c->n; i++) {
        c->ids[i] = (int32_t)fy_le32(c->p + HEAD_BYTES + 4 * (size_t)i);
        if (c->ids[i] < 0)
            return fy_fail(e, FY_EFORMAT, "token %u is %d", i, c->ids[i]);
    }
    uint64_t at = HEAD_BYTES + padded(4 * (uint64_t)c->n);
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        if (read_block(c, n, i, &at, e) != 0)
            return -1;
    }
    if (at != n - FY_SHA256_BYTES)
        return fy_fail(e, FY_EFORMAT, "%u blocks end at byte %llu of %zu", c->n_blocks,
                       (unsigned long long)at, n);
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
    if (c != NULL)
        c->map = map;
    if (c != NULL && fy_prompt_cache_check(c, s, e) == 0)
        return c;
    fy_prompt_cache_close(c);
    if (c == NULL)
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
    free(c->blocks);
    free(c);
}

const int32_t *fy_prompt_cache_ids(const fy_prompt_cache *c, uint32_t *n)
{
    *n = c->n;
    return c->ids;
}

/* --- into a session --------------------------------------------------------------------------- */

static const block *find(const fy_prompt_cache *c, uint32_t kind, uint32_t layer, uint32_t begin,
                         uint32_t end)
{
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        const block *b = &c->blocks[i];
        if (b->kind == kind && b->layer == layer && b->begin <= begin && b->end >= end &&
            (kind != STATE || b->end == end))
            return b;
    }
    return NULL;
}

/* The block with what a layer needs to go on from position n: its state, or the rows that are seen
 * from there. NULL: it is not there. */
static const block *needed(const fy_prompt_cache *c, const fy_session *s, uint32_t kind,
                           uint32_t layer, uint32_t n)
{
    const fy_hparams *hp = &s->model->hp;
    const bool window = kind != STATE && fy_layer_has_window(hp, layer);
    return find(c, kind, layer, window ? fy_window_begin(hp, n) : 0, n);
}

static bool has(const fy_session *s, uint32_t kind, uint32_t layer)
{
    return kind == STATE ? fy_layer_in(&s->states.layers, layer) : fy_kv_owns(&s->model->hp, layer);
}

/* Can the session go on from position n? */
static bool reaches(const fy_prompt_cache *c, const fy_session *s, uint32_t n)
{
    for (uint32_t i = 0; i < s->model->hp.n_layer; i++) {
        for (uint32_t kind = KEYS; kind <= STATE; kind++) {
            if (has(s, kind, i) && needed(c, s, kind, i, n) == NULL)
                return false;
        }
    }
    return true;
}

static uint64_t block_bytes(const fy_session *s, const block *b)
{
    if (!has(s, b->kind, b->layer))
        return 0;
    if (b->kind == STATE)
        return s->states.len * sizeof(float);
    const fy_kv_layer l = fy_kv_at(&s->kv, b->layer);
    return (uint64_t)fy_kv_run_bytes(&l, b->kind == VALUES, 1) * (b->end - b->begin) *
           (uint64_t)l.n_head_kv;
}

int fy_prompt_cache_check(const fy_prompt_cache *c, const fy_session *s, fy_err *e)
{
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        const block *b = &c->blocks[i];
        const uint64_t want = block_bytes(s, b);
        if (b->bytes != want)
            return fy_fail(e, FY_EFORMAT,
                           "layer %u: %llu bytes of kind %u for positions %u to %u, the model has "
                           "%llu",
                           b->layer, (unsigned long long)b->bytes, b->kind, b->begin, b->end,
                           (unsigned long long)want);
    }
    return reaches(c, s, c->n)
               ? 0
               : fy_fail(e, FY_EFORMAT,
                         "%u blocks do not hold what the %u layers of the model have after %u "
                         "tokens",
                         c->n_blocks, s->model->hp.n_layer, c->n);
}

/* The last position of at most n from which the session can go on. */
static uint32_t last_reached(const fy_prompt_cache *c, const fy_session *s, uint32_t n)
{
    if (reaches(c, s, n))
        return n;
    uint32_t tried = n;
    for (uint32_t i = c->n_blocks; i-- > 0;) {
        const uint32_t end = c->blocks[i].end;
        if (end < tried && reaches(c, s, end))
            return end;
        tried = end < tried ? end : tried;
    }
    return 0;
}

/* Rows of a layer that the session has room for. */
static void load_rows(fy_session *s, uint32_t seq, const block *b, uint32_t n)
{
    const fy_kv_layer l = fy_kv_at(&s->kv, b->layer);
    const bool values = b->kind == VALUES;
    const uint32_t kept = n > l.n_rows ? n - (uint32_t)l.n_rows : 0;
    const uint32_t begin = b->begin > kept ? b->begin : kept;
    const size_t head = fy_kv_run_bytes(&l, values, b->end - b->begin);
    for (uint32_t h = 0; h < (uint32_t)l.n_head_kv; h++)
        fy_kv_move(&l, values, seq, h, begin, n, NULL,
                   b->p + h * head + fy_kv_run_bytes(&l, values, begin - b->begin));
    if (begin > s->low[seq])
        s->low[seq] = begin;
}

/* The tail at a position of the file, as the session keeps it. */
static void fill_tail(const fy_prompt_cache *c, const fy_session *s, uint32_t pos, uint8_t *out)
{
    for (fy_tail_piece p = {0}; fy_tail_next(s, pos, &p);) {
        const block *b = needed(c, s, KEYS + (uint32_t)p.kind, p.layer, pos);
        if (p.kind == FY_TAIL_STATE) {
            memcpy(out + p.at, b->p, p.bytes);
            continue;
        }
        const fy_kv_layer l = fy_kv_at(&s->kv, p.layer);
        const bool values = p.kind == FY_TAIL_VALUES;
        const size_t head = fy_kv_run_bytes(&l, values, b->end - b->begin),
                     rows = fy_kv_run_bytes(&l, values, pos - p.begin),
                     at = fy_kv_run_bytes(&l, values, p.begin - b->begin);
        for (uint32_t h = 0; h < (uint32_t)l.n_head_kv; h++)
            memcpy(out + p.at + h * rows, b->p + h * head + at, rows);
    }
}

/* Positions before n that the file can go on from become snapshots. */
static void load_snapshots(const fy_prompt_cache *c, fy_session *s, uint32_t seq, uint32_t n)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        const uint32_t pos = c->blocks[i].end;
        if (pos == last || pos >= n || !fy_session_has_snapshots(s))
            continue;
        last = pos;
        const bool sees = s->n_ring < s->n_ctx || fy_session_seq_sees(s, seq, pos);
        uint8_t *bytes = sees && reaches(c, s, pos) ? fy_snapshots_add(s, seq, pos) : NULL;
        if (bytes != NULL)
            fill_tail(c, s, pos, bytes);
    }
}

int fy_prompt_cache_load(const fy_prompt_cache *c, fy_session *s, uint32_t seq, uint32_t n,
                         fy_err *e)
{
    if (n > c->n || n > s->n_ctx || seq >= s->n_seq)
        return fy_fail(e, FY_EFIT, "%u positions for sequence %u: the file has %u, the context %u",
                       n, seq, c->n, s->n_ctx);
    s->n_past[seq] = s->low[seq] = 0;
    fy_snapshots_drop(s, seq, 0);
    fy_states_forget(&s->states, seq);
    n = last_reached(c, s, n);
    for (uint32_t i = 0; n > 0 && i < s->model->hp.n_layer; i++) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        for (uint32_t kind = KEYS; kind <= STATE; kind++) {
            const block *b = has(s, kind, i) ? needed(c, s, kind, i, n) : NULL;
            if (b != NULL && kind == STATE)
                memcpy(fy_states_of(&s->states, i, seq, false), b->p, (size_t)b->bytes);
            else if (b != NULL)
                load_rows(s, seq, b, n);
        }
    }
    load_snapshots(c, s, seq, n);
    s->n_past[seq] = n;
    return 0;
}
