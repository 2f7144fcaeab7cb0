/* The KV cache and attention over it.
 *
 * An item of work is a run of neighbouring tokens, a KV head, and all or some of the query heads
 * that share it: at most MAX_QUERIES queries, which go through the cache together, chunk by chunk,
 * so that a key or value is read from memory once for all of them. Tokens of several sequences in
 * an item come one sequence after the other. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "backend/backend_impl.h"
#include "base/math.h"
#include "kernels/row.h"

enum { CHUNK = FY_ATTEND_CHUNK, MAX_QUERIES = 128, SIDE = 4, ALIGN = 64 };

/* --- storing --------------------------------------------------------------------------------- */

typedef struct {
    const fy_backend *b;
    const fy_kv_layer *kv;
    const float *k, *v;
    const fy_place *at;
} store_job;

/* The row of a KV head at a place. */
static uint8_t *row_at(const fy_kv_layer *kv, void *cache, fy_type type, int64_t dim, int64_t head,
                       fy_place at)
{
    const int64_t pos = at.pos < kv->n_rows ? at.pos : at.pos % kv->n_rows;
    const int64_t row = (at.seq * kv->n_head_kv + head) * kv->n_rows + pos;
    return (uint8_t *)cache + (size_t)row * (size_t)fy_type_row_bytes(type, (uint64_t)dim);
}

static void store_row(const fy_kernels *k, fy_type type, uint8_t *row, const float *x, int64_t dim)
{
    if (type == FY_F16)
        k->f32_to_f16((uint16_t *)(void *)row, x, dim);
    else if (type == FY_Q8_0)
        k->encode_q8_0((fy_block_q8_0 *)(void *)row, x, dim);
    else if (type == FY_Q4_0)
        k->encode_q4_0((fy_block_q4_0 *)(void *)row, x, dim);
    else
        memcpy(row, x, (size_t)dim * sizeof *x);
}

static void store_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const store_job *j = ctx;
    const fy_kv_layer *kv = j->kv;
    for (int64_t i = begin * kv->n_head_kv; i < end * kv->n_head_kv; i++) {
        const fy_place at = j->at[i / kv->n_head_kv];
        const int64_t head = i % kv->n_head_kv;
        store_row(&j->b->kernels, kv->type_k, row_at(kv, kv->k, kv->type_k, kv->head_dim, head, at),
                  j->k + i * kv->head_dim, kv->head_dim);
        store_row(&j->b->kernels, kv->type_v,
                  row_at(kv, kv->v, kv->type_v, kv->head_dim_v, head, at),
                  j->v + i * kv->head_dim_v, kv->head_dim_v);
    }
}

void fy_backend_store(fy_backend *b, const fy_kv_layer *kv, const float *k, const float *v,
                      const fy_place *at, int64_t n_tokens)
{
    store_job j = {b, kv, k, v, at};
    fy_backend_run(b, n_tokens, kv->n_head_kv * (kv->head_dim + kv->head_dim_v), store_tokens, &j);
}

/* --- one item -------------------------------------------------------------------------------- */

typedef struct {
    const fy_backend *b;
    const fy_attention *a;
    float *out;
    const float *q;
    int64_t n_tokens;
    int64_t tokens_each, heads_each; /* of an item */
    int64_t n_blocks, n_pieces;      /* items of a KV head: blocks of tokens, pieces of its heads */
} attend_job;

/* The queries of an item, or of one sequence of it: n_heads per token. */
typedef struct {
    const attend_job *j;
    int64_t kv_head, first_head, n_heads;
    int64_t first_token, n_tokens;
    float *q, *s, *acc; /* [query][head_dim, padded], [query][CHUNK], [query][head_dim_v] */
    fy_softmax *state;
    fy_act act;             /* the queries quantized, for q8_0 keys */
    uint8_t *keys, *values; /* [CHUNK] rows gathered for a chunk of a tree */
    bool gathered;          /* the chunk is there, not in the cache */
    void *kernel_scratch;
} block;

static int64_t padded(int64_t dim)
{
    return (dim + 7) / 8 * 8;
}

/* Carves a thread's scratch for MAX_QUERIES queries: q, acc, s, state, act; and gathered rows. */
bool fy_attend_scratch(int64_t head_dim, uint64_t *bytes)
{
    const uint64_t fixed = CHUNK * sizeof(float) + sizeof(fy_softmax), each = 3 * sizeof(float);
    uint64_t dim, n, rows;
    return head_dim >= 0 && fy_align_u64((uint64_t)head_dim, ALIGN, &dim) &&
           fy_mul_u64(dim, each, &n) && fy_add_u64(n, fixed, &n) &&
           fy_mul_u64(n, MAX_QUERIES, &n) && fy_mul_u64(dim, 2 * CHUNK * sizeof(float), &rows) &&
           fy_add_u64(n, rows, bytes);
}

static block block_in(const attend_job *j, int thread)
{
    const fy_backend *b = j->b;
    const fy_kv_layer *kv = j->a->kv;
    uint8_t *scratch = b->scratch + (size_t)thread * b->scratch_stride;
    const int64_t dim = (b->head_dim + ALIGN - 1) / ALIGN * ALIGN;
    block k = {.j = j, .kernel_scratch = scratch};
    k.state = (fy_softmax *)(void *)(scratch + FY_KERNEL_SCRATCH_BYTES);
    k.s = (float *)(void *)(k.state + MAX_QUERIES);
    k.q = k.s + MAX_QUERIES * CHUNK;
    k.acc = k.q + MAX_QUERIES * dim;
    k.act = (fy_act){.x = k.q, .d = k.acc + MAX_QUERIES * dim, .k = kv->head_dim};
    k.act.sum = (int32_t *)(void *)(k.act.d + MAX_QUERIES * dim / FY_QK);
    k.act.q = (int8_t *)(void *)(k.act.sum + MAX_QUERIES * dim / FY_QK);
    k.keys = (uint8_t *)(k.acc + 2 * MAX_QUERIES * dim);
    k.values = k.keys + CHUNK * (size_t)dim * sizeof(float);
    return k;
}

/* The first position that a token sees. */
static int64_t first_seen(const fy_attention *a, int64_t token)
{
    const int64_t pos = a->at[token].pos;
    if (a->first != NULL)
        return a->first[token];
    return a->n_swa > 0 && pos >= a->n_swa ? pos - a->n_swa + 1 : 0;
}

/* The part of the chunk that begins at `base` which a token sees. */
typedef struct {
    int begin, end;
} range;

static range seen_of(const fy_attention *a, int64_t token, int64_t base)
{
    const int64_t begin = first_seen(a, token) - base, end = a->at[token].pos + 1 - base;
    const range r = {begin < 0       ? 0
                     : begin > CHUNK ? CHUNK
                                     : (int)begin,
                     end < 0       ? 0
                     : end > CHUNK ? CHUNK
                                   : (int)end};
    return r.begin < r.end ? r : (range){0, 0};
}

/* What any of n tokens sees, and what all of them see. */
static void seen_by(const attend_job *j, int64_t token, int64_t n, int64_t base, range *any,
                    range *all)
{
    *any = (range){CHUNK, 0};
    *all = (range){0, CHUNK};
    for (int64_t t = token; t < token + n; t++) {
        const range r = seen_of(j->a, t, base);
        if (r.end > 0 && r.begin < any->begin)
            any->begin = r.begin;
        any->end = r.end > any->end ? r.end : any->end;
        all->begin = r.begin > all->begin ? r.begin : all->begin;
        all->end = r.end < all->end ? r.end : all->end;
    }
    if (all->begin >= all->end)
        *all = (range){0, 0};
}

static void load_queries(block *k)
{
    const fy_attention *a = k->j->a;
    const fy_kv_layer *kv = a->kv;
    const int64_t dim = kv->head_dim, n = k->n_tokens * k->n_heads;
    for (int64_t i = 0; i < n; i++) {
        const int64_t token = k->first_token + i / k->n_heads;
        const int64_t head = k->first_head + i % k->n_heads;
        float *to = k->q + i * padded(dim);
        memcpy(to, k->j->q + (token * a->n_head + head) * dim, (size_t)dim * sizeof *to);
        memset(to + dim, 0, (size_t)(padded(dim) - dim) * sizeof *to);
        k->state[i] = (fy_softmax){.max = -INFINITY};
    }
    memset(k->acc, 0, (size_t)(n * kv->head_dim_v) * sizeof *k->acc);
    if (fy_kernels_wants_q8(kv->type_k))
        k->j->b->kernels.act_quantize(&k->act, 0, n);
}

/* The rows of a range of a chunk, where they lie. */
static const uint8_t *rows_of(const block *k, int64_t token, int64_t base, range r, bool values)
{
    const fy_kv_layer *kv = k->j->a->kv;
    const fy_type type = values ? kv->type_v : kv->type_k;
    const int64_t dim = values ? kv->head_dim_v : kv->head_dim;
    const fy_place at = {k->j->a->at[token].seq, (int32_t)(base + r.begin)};
    if (k->gathered)
        return (values ? k->values : k->keys) +
               (size_t)r.begin * (size_t)fy_type_row_bytes(type, (uint64_t)dim);
    return row_at(kv, values ? kv->v : kv->k, type, dim, k->kv_head, at);
}

static void score(block *k, int64_t base, range r)
{
    const fy_kernels *f = &k->j->b->kernels;
    const fy_kv_layer *kv = k->j->a->kv;
    const uint8_t *rows = rows_of(k, k->first_token, base, r, false);
    const int64_t n = k->n_tokens * k->n_heads;
    float *s = k->s + r.begin;
    if (fy_kernels_wants_q8(kv->type_k))
        fy_kernels_matmul(f, kv->type_k)(
            s, CHUNK, rows, (size_t)fy_type_row_bytes(kv->type_k, (uint64_t)kv->head_dim), 0,
            r.end - r.begin, &k->act, n, k->kernel_scratch);
    else
        (kv->type_k == FY_F16 ? f->attend_dots_f16 : f->attend_dots_f32)(
            s, k->q, n, rows, r.end - r.begin, kv->head_dim);
}

/* to[i] = x[i] * factor; `to` may be x. gcc makes vectors of a constant number of elements. */
static void multiply(float *to, const float *x, int64_t n, float factor)
{
    enum { PIECE = 4 };
    int64_t i = 0;
    for (; i + PIECE <= n; i += PIECE) {
        float y[PIECE];
        for (int k = 0; k < PIECE; k++)
            y[k] = x[i + k] * factor;
        memcpy(to + i, y, sizeof y);
    }
    for (; i < n; i++)
        to[i] = x[i] * factor;
}

/* Scores become the terms of the softmax, and the sums so far are rescaled. */
static void soften(block *k, int64_t base)
{
    const fy_attention *a = k->j->a;
    const int64_t dim = a->kv->head_dim_v;
    for (int64_t t = 0; t < k->n_tokens; t++) {
        const range r = seen_of(a, k->first_token + t, base);
        if (r.end == 0)
            continue;
        const int64_t first = t * k->n_heads;
        k->j->b->kernels.attend_softmax(k->s + first * CHUNK, k->n_heads, r.begin, r.end, a->scale,
                                        a->cap, &k->state[first]);
        for (int64_t i = first; i < first + k->n_heads; i++) {
            float *acc = k->acc + i * dim;
            if (k->state[i].factor != 1.0f)
                multiply(acc, acc, dim, k->state[i].factor);
        }
    }
}

/* acc += p * V of rows that are decoded first: all queries share that. */
static void add_decoded(float *acc, const float *p, int64_t n, const uint8_t *rows, int64_t n_rows,
                        const block *k)
{
    const fy_kernels *f = &k->j->b->kernels;
    const fy_kv_layer *kv = k->j->a->kv;
    const int64_t dim = kv->head_dim_v,
                  at_once = FY_KERNEL_SCRATCH_BYTES / (dim * (int64_t)sizeof(float));
    const size_t row_bytes = (size_t)fy_type_row_bytes(kv->type_v, (uint64_t)dim);
    float *values = (float *)k->kernel_scratch;
    for (int64_t first = 0; first < n_rows; first += at_once) {
        const int64_t count = n_rows - first < at_once ? n_rows - first : at_once;
        fy_row_decode(f, kv->type_v, values, rows + (size_t)first * row_bytes, count * dim);
        f->attend_add_f32(acc, p + first, n, values, count, dim);
    }
}

/* acc += p * V for tokens that all see the range. */
static void add_values(block *k, int64_t base, int64_t token, int64_t n, range r)
{
    if (r.begin >= r.end)
        return;
    const fy_kernels *f = &k->j->b->kernels;
    const fy_kv_layer *kv = k->j->a->kv;
    const uint8_t *rows = rows_of(k, token, base, r, true);
    const int64_t i = (token - k->first_token) * k->n_heads;
    float *acc = k->acc + i * kv->head_dim_v;
    const float *p = k->s + i * CHUNK + r.begin;
    fy_attend_add_fn *fn = kv->type_v == FY_F16    ? f->attend_add_f16
                           : kv->type_v == FY_F32  ? f->attend_add_f32
                           : kv->type_v == FY_Q8_0 ? f->attend_add_q8_0
                                                   : NULL;
    if (fn != NULL)
        fn(acc, p, n * k->n_heads, rows, r.end - r.begin, kv->head_dim_v);
    else
        add_decoded(acc, p, n * k->n_heads, rows, r.end - r.begin, k);
}

/* Tokens go together over what all of them see, and each goes alone before and after that. */
static void add_together(block *k, int64_t base, int64_t token, int64_t n)
{
    range any, all;
    seen_by(k->j, token, n, base, &any, &all);
    for (int64_t t = token; t < token + n; t++) {
        const range r = seen_of(k->j->a, t, base);
        add_values(k, base, t, 1, all.end == 0 ? r : (range){r.begin, all.begin});
    }
    add_values(k, base, token, n, all);
    for (int64_t t = token; all.end != 0 && t < token + n; t++)
        add_values(k, base, t, 1, (range){all.end, seen_of(k->j->a, t, base).end});
}

static void attend_chunk(block *k, int64_t base)
{
    const int64_t first = k->first_token, n = k->n_tokens;
    range any, all;
    seen_by(k->j, first, n, base, &any, &all);
    if (any.end == 0)
        return;
    score(k, base, any);
    soften(k, base);
    const bool alike = any.begin == all.begin && any.end == all.end;
    const int64_t side = alike ? n : (SIDE + k->n_heads - 1) / k->n_heads;
    for (int64_t t = 0; t < n; t += side)
        add_together(k, base, first + t, n - t < side ? n - t : side);
}

/* The rows that a token sees in a chunk, one after the other: those of its ancestors, and of the
 * sequence before them. */
static void gather(const block *k, int64_t token, int64_t base, range r, bool values)
{
    const fy_attention *a = k->j->a;
    const fy_kv_layer *kv = a->kv;
    const fy_token_tree *t = a->tree;
    const fy_type type = values ? kv->type_v : kv->type_k;
    const int64_t dim = values ? kv->head_dim_v : kv->head_dim;
    const size_t bytes = (size_t)fy_type_row_bytes(type, (uint64_t)dim);
    uint8_t *to = values ? k->values : k->keys;
    int32_t node = t->first + (int32_t)token;
    for (int64_t pos = a->at[token].pos; pos >= base + r.begin; pos--) {
        fy_place from = {a->at[token].seq, (int32_t)pos};
        if (pos >= t->n_past) {
            from.pos = t->n_past + node;
            node = t->parent[node];
        }
        if (pos < base + r.end)
            memcpy(to + (size_t)(pos - base) * bytes,
                   row_at(kv, values ? kv->v : kv->k, type, dim, k->kv_head, from), bytes);
    }
}

/* A chunk in which positions of a tree are: each token goes alone. */
static void attend_tree_chunk(const block *k, int64_t base)
{
    const fy_attention *a = k->j->a;
    for (int64_t t = 0; t < k->n_tokens; t++) {
        const int64_t first = t * k->n_heads, dim = a->kv->head_dim;
        const range r = seen_of(a, k->first_token + t, base);
        if (r.end == 0)
            continue;
        block one = *k;
        one.first_token += t;
        one.n_tokens = 1;
        one.q += first * padded(dim);
        one.s += first * CHUNK;
        one.acc += first * a->kv->head_dim_v;
        one.state += first;
        one.act.x = one.q;
        one.act.q += first * dim;
        one.act.d += first * dim / FY_QK;
        one.act.sum += first * dim / FY_QK;
        one.gathered = true;
        gather(&one, one.first_token, base, r, false);
        gather(&one, one.first_token, base, r, true);
        attend_chunk(&one, base);
    }
}

/* What the terms of a head's softmax are divided by: their sum, and the sink's term. */
static double sum_of(const fy_attention *a, const fy_softmax *s, int64_t head)
{
    return a->sinks == NULL ? s->sum : s->sum + (double)fy_exp(a->sinks[head] - s->max);
}

static void finish(const block *k)
{
    const fy_attention *a = k->j->a;
    const int64_t dim = a->kv->head_dim_v;
    for (int64_t i = 0; i < k->n_tokens * k->n_heads; i++) {
        const int64_t token = k->first_token + i / k->n_heads;
        const int64_t head = k->first_head + i % k->n_heads;
        float *out = k->j->out + (token * a->n_head + head) * dim;
        multiply(out, k->acc + i * dim, dim, (float)(1.0 / sum_of(a, &k->state[i], head)));
    }
}

/* The tokens of a block are of one sequence. */
static void attend_block(block *k)
{
    const fy_attention *a = k->j->a;
    int64_t first = first_seen(a, k->first_token), last = a->at[k->first_token].pos;
    for (int64_t t = k->first_token + 1; t < k->first_token + k->n_tokens; t++) {
        first = first_seen(a, t) < first ? first_seen(a, t) : first;
        last = a->at[t].pos > last ? a->at[t].pos : last;
    }
    load_queries(k);
    for (int64_t base = first / CHUNK * CHUNK; base <= last; base += CHUNK) {
        if (a->tree != NULL && base + CHUNK > a->tree->n_past)
            attend_tree_chunk(k, base);
        else
            attend_chunk(k, base);
    }
    finish(k);
}

/* --- sharing the work ------------------------------------------------------------------------ */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks of a head stand together, whose keys then stay in the cache; the last tokens, which see
 * most, come first. */
static void attend_items(void *ctx, int64_t item, int64_t end_item, int thread)
{
    const attend_job *j = ctx;
    const fy_attention *a = j->a;
    const int64_t group = a->n_head / a->kv->n_head_kv;
    block k = block_in(j, thread);
    for (; item < end_item; item++) {
        const int64_t piece = item / j->n_blocks % j->n_pieces;
        k.kv_head = item / j->n_blocks / j->n_pieces;
        k.first_head = k.kv_head * group + piece * j->heads_each;
        k.n_heads = least(j->heads_each, group - piece * j->heads_each);
        int64_t t = (j->n_blocks - 1 - item % j->n_blocks) * j->tokens_each;
        const int64_t end = least(t + j->tokens_each, j->n_tokens);
        for (; t < end; t += k.n_tokens) {
            k.first_token = t;
            k.n_tokens = 1;
            while (t + k.n_tokens < end && a->at[t + k.n_tokens].seq == a->at[t].seq)
                k.n_tokens++;
            attend_block(&k);
        }
    }
}

static int64_t parts(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

/* Heads of a group are parted only where KV heads and tokens are too few for the threads: the parts
 * read the same keys. */
static void cut(attend_job *j)
{
    const int64_t n_head_kv = j->a->kv->n_head_kv, group = j->a->n_head / n_head_kv;
    const int64_t threads = fy_pool_threads(j->b->pool);
    const int64_t wanted = parts(threads, n_head_kv * j->n_tokens);
    j->heads_each = least(MAX_QUERIES, parts(group, least(group, wanted)));
    j->n_pieces = parts(group, j->heads_each);
    const int64_t fair = j->n_tokens * n_head_kv * j->n_pieces / (4 * threads);
    const int64_t most = MAX_QUERIES / j->heads_each;
    j->tokens_each = fair < 1 ? 1 : least(fair, most);
    j->n_blocks = parts(j->n_tokens, j->tokens_each);
}

void fy_backend_attend(fy_backend *b, float *out, const float *q, int64_t n_tokens,
                       const fy_attention *a)
{
    const fy_kv_layer *kv = a->kv;
    assert(kv->head_dim <= b->head_dim && kv->head_dim_v <= b->head_dim);
    attend_job j = {.b = b, .a = a, .out = out, .q = q, .n_tokens = n_tokens};
    cut(&j);
    int64_t n_keys = 0; /* of the token that sees most */
    for (int64_t t = 0; t < n_tokens; t++) {
        const int64_t n = a->at[t].pos + 1 - first_seen(a, t);
        n_keys = n > n_keys ? n : n_keys;
    }
    fy_backend_run(b, j.n_blocks * j.n_pieces * kv->n_head_kv,
                   j.tokens_each * j.heads_each * n_keys * (kv->head_dim + kv->head_dim_v),
                   attend_items, &j);
}

/* --- the cache of a graph -------------------------------------------------------------------- */

/* Slots at a time: a tile of keys, read and written, stays in the first cache. Squares are what is
 * transposed at once. */
enum { TILE = 32 };

typedef struct {
    const fy_kv_layer *kv;
    const fy_graph_cache *c;
    int64_t n_tiles; /* of a head */
} load_job;

/* Four rows of four elements, transposed: element i of row e goes to place e of word i. */
static void transpose(uint64_t row[SIDE])
{
    const uint64_t even = 0x0000ffff0000ffff, low = 0x00000000ffffffff;
    const uint64_t a = (row[0] & even) | (row[1] & even) << 16;
    const uint64_t b = (row[0] >> 16 & even) | (row[1] & ~even);
    const uint64_t c = (row[2] & even) | (row[3] & even) << 16;
    const uint64_t d = (row[2] >> 16 & even) | (row[3] & ~even);
    row[0] = (a & low) | c << 32;
    row[1] = (b & low) | d << 32;
    row[2] = a >> 32 | (c & ~low);
    row[3] = b >> 32 | (d & ~low);
}

/* to[i][e] = from[e][i], n and dim multiples of SIDE. */
static void squares_f16(uint16_t *restrict to, const uint16_t *restrict from, int64_t n,
                        int64_t dim, int64_t n_slots)
{
    for (int64_t e = 0; e < dim; e += SIDE) {
        for (int64_t i = 0; i < n; i += SIDE) {
            uint64_t row[SIDE];
            for (int k = 0; k < SIDE; k++)
                memcpy(&row[k], from + (e + k) * n_slots + i, sizeof row[k]);
            transpose(row);
            for (int k = 0; k < SIDE; k++)
                memcpy(to + (i + k) * dim + e, &row[k], sizeof row[k]);
        }
    }
}

/* to[i][e] = from[e][slots[i]] */
static void keys_f16(uint16_t *restrict to, const uint16_t *restrict from, const int32_t *slots,
                     int64_t n, int64_t dim, int64_t n_slots)
{
    int64_t i = 0;
    if (slots[n - 1] - slots[0] == n - 1 && dim % SIDE == 0) {
        i = n / SIDE * SIDE;
        squares_f16(to, from + slots[0], i, dim, n_slots);
    }
    for (; i < n; i++) {
        for (int64_t e = 0; e < dim; e++)
            to[i * dim + e] = from[e * n_slots + slots[i]];
    }
}

static void keys_f32(float *restrict to, const float *restrict from, const int32_t *slots,
                     int64_t n, int64_t dim, int64_t n_slots)
{
    for (int64_t e = 0; e < dim; e++) {
        for (int64_t i = 0; i < n; i++)
            to[i * dim + e] = from[e * n_slots + slots[i]];
    }
}

static void load_tile(const load_job *j, int64_t head, int64_t first, int64_t n)
{
    const fy_kv_layer *kv = j->kv;
    const int32_t *slots = j->c->slots + first;
    const void *keys = j->c->cache[2 * head];
    const uint8_t *values = j->c->cache[2 * head + 1];
    const int64_t row = head * kv->n_rows + first, dim = kv->head_dim;
    if (kv->type_k == FY_F16)
        keys_f16((uint16_t *)kv->k + row * dim, keys, slots, n, dim, j->c->n_slots);
    else
        keys_f32((float *)kv->k + row * dim, keys, slots, n, dim, j->c->n_slots);
    const size_t bytes = (size_t)fy_type_row_bytes(kv->type_v, (uint64_t)kv->head_dim_v);
    uint8_t *to = (uint8_t *)kv->v + (size_t)row * bytes;
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * bytes, values + (size_t)slots[i] * bytes, bytes);
}

static void load_tiles(void *ctx, int64_t item, int64_t end_item, int thread)
{
    (void)thread;
    const load_job *j = ctx;
    for (; item < end_item; item++) {
        const int64_t first = j->c->first + item % j->n_tiles * TILE, left = j->c->end - first;
        load_tile(j, item / j->n_tiles, first, left < TILE ? left : TILE);
    }
}

void fy_backend_load_cache(fy_backend *b, const fy_kv_layer *kv, const fy_graph_cache *c)
{
    assert(kv->type_k == kv->type_v && (kv->type_k == FY_F16 || kv->type_k == FY_F32));
    const load_job j = {kv, c, (c->end - c->first + TILE - 1) / TILE};
    if (c->first < c->end)
        fy_backend_run(b, j.n_tiles * kv->n_head_kv, TILE * (kv->head_dim + kv->head_dim_v),
                       load_tiles, (void *)(uintptr_t)&j);
}
