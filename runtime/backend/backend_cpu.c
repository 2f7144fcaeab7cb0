/* How work is cut. A job costs a few microseconds to hand out, so what is smaller than MIN_SHARE
 * stays on the calling thread. A tile of weight rows is about TILE_BYTES: long enough for the
 * memory prefetcher, short enough that threads finish together; the kernel sees all tokens of a
 * batch at once, so a tile is read from memory one time per batch. Attention takes the tokens of
 * one head together, whose keys then stay in the cache. */
#include "backend/backend_cpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/math.h"
#include "base/thread.h"
#include "kernels/row.h"

enum {
    ALIGN = 64,
    TILE_BYTES = 64 << 10,
    TILE_ROWS = 16,       /* a tile is a multiple of this many rows: what kernels repack at once */
    TILES_PER_THREAD = 4, /* at least, so that a slow thread can take fewer */
    MIN_SHARE = 1 << 16,  /* multiply-adds (or the like) that are worth a second thread */
    BLOCK = 1024,         /* elements per item of elementwise work */
};

struct fy_backend {
    fy_kernels kernels;
    fy_pool *pool;    /* owned */
    uint8_t *memory;  /* owned: everything below lies in it */
    uint8_t *scratch; /* per thread, scratch_stride apart: kernel scratch, then scores */
    size_t scratch_stride;
    int8_t *q; /* quantized activations: [n_tokens][q8_len], [n_tokens][q8_len / 32] twice */
    float *d;
    int32_t *sum;
};

/* Places arrays one behind the other; with base NULL it only counts. */
typedef struct {
    uint8_t *base;
    uint64_t used;
    bool overflow;
} carver;

static void *carve(carver *c, uint64_t count, uint64_t bytes_each)
{
    uint64_t bytes, begin = c->used, end;
    if (!fy_mul_u64(count, bytes_each, &bytes) || !fy_add_u64(begin, bytes, &end) ||
        !fy_align_u64(end, ALIGN, &c->used))
        c->overflow = true;
    return c->base != NULL && !c->overflow ? c->base + begin : NULL;
}

static int lay_out(fy_backend *b, const fy_backend_params *p, carver *c, fy_err *e)
{
    uint64_t scores = 0, n_q = 0;
    if (!fy_mul_u64((uint64_t)p->n_keys, sizeof(float), &scores) ||
        !fy_align_u64(scores, ALIGN, &scores) ||
        !fy_add_u64(scores, FY_KERNEL_SCRATCH_BYTES, &scores))
        c->overflow = true;
    b->scratch_stride = (size_t)scores;
    b->scratch = carve(c, (uint64_t)p->n_threads, scores);
    if (!fy_mul_u64((uint64_t)p->n_tokens, (uint64_t)p->q8_len, &n_q))
        c->overflow = true;
    b->q = carve(c, n_q, sizeof *b->q);
    b->d = carve(c, n_q / FY_QK, sizeof *b->d);
    b->sum = carve(c, n_q / FY_QK, sizeof *b->sum);
    if (c->overflow || c->used > SIZE_MAX / 2)
        return fy_fail(e, FY_EFIT,
                       "scratch for %lld tokens at once does not fit the address space; "
                       "use a smaller -b or -c",
                       (long long)p->n_tokens);
    return 0;
}

int fy_backend_bytes(const fy_backend_params *p, uint64_t *bytes, fy_err *e)
{
    fy_backend b = {0};
    carver c = {0};
    if (lay_out(&b, p, &c, e) != 0)
        return -1;
    *bytes = c.used;
    return 0;
}

fy_backend *fy_backend_new(const fy_backend_params *p, fy_err *e)
{
    fy_backend *b = calloc(1, sizeof *b);
    if (b == NULL) {
        fy_nomem(e);
        return NULL;
    }
    carver c = {0};
    if (lay_out(b, p, &c, e) != 0)
        goto fail;
    b->memory = aligned_alloc(ALIGN, (size_t)c.used);
    if (b->memory == NULL) {
        fy_fail(e, FY_EFIT, "out of memory: scratch takes %llu MB; use a smaller -b or -c",
                (unsigned long long)(c.used >> 20));
        goto fail;
    }
    c = (carver){.base = b->memory};
    if (lay_out(b, p, &c, e) != 0)
        goto fail;
    b->pool = fy_pool_new(p->n_threads, e);
    if (b->pool == NULL)
        goto fail;
    uint32_t features = fy_cpu_features();
    b->kernels = fy_kernels_for(features);
    fy_log(FY_LOG_DEBUG, "kernels: %s, threads: %d", fy_cpu_describe(features), p->n_threads);
    return b;
fail:
    fy_backend_free(b);
    return NULL;
}

void fy_backend_free(fy_backend *b)
{
    if (b == NULL)
        return;
    fy_pool_free(b->pool);
    free(b->memory);
    free(b);
}

static void *scratch_of(const fy_backend *b, int thread)
{
    return b->scratch + (size_t)thread * b->scratch_stride;
}

static float *scores_of(const fy_backend *b, int thread)
{
    return (float *)(void *)(b->scratch + (size_t)thread * b->scratch_stride +
                             FY_KERNEL_SCRATCH_BYTES);
}

/* Runs items that cost about cost_each multiply-adds, in chunks that are worth handing out. */
static void run_items(fy_backend *b, int64_t n_items, int64_t cost_each, fy_pool_fn *fn, void *ctx)
{
    if (n_items <= 0)
        return;
    int64_t fair = n_items / ((int64_t)fy_pool_threads(b->pool) * TILES_PER_THREAD);
    int64_t worth = MIN_SHARE / (cost_each > 0 ? cost_each : 1) + 1;
    int64_t chunk = fair > worth ? fair : worth;
    fy_pool_run(b->pool, n_items, chunk, fn, ctx);
}

/* --- embedding and norms -------------------------------------------------------------------- */

void fy_backend_embed(fy_backend *b, float *y, const fy_matrix *w, const int32_t *ids,
                      int64_t n_tokens)
{
    for (int64_t c = 0; c < n_tokens; c++) {
        const uint8_t *row = (const uint8_t *)w->data + (size_t)ids[c] * w->row_bytes;
        fy_row_decode(&b->kernels, w->type, y + c * w->n_cols, row, w->n_cols);
    }
}

typedef struct {
    const fy_kernels *k;
    float *y;
    const float *x;
    const fy_norm *norm;
    int64_t n;
} norm_job;

static void norm_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_job *j = ctx;
    const fy_norm *f = j->norm;
    for (int64_t r = begin; r < end; r++) {
        float *y = j->y + r * j->n;
        const float *x = j->x + r * j->n;
        if (f->centred)
            j->k->layer_norm(y, x, f->w, f->bias, j->n, f->eps);
        else
            j->k->rms_norm(y, x, f->w, j->n, f->eps);
    }
}

void fy_backend_norm(fy_backend *b, float *y, const float *x, const fy_norm *norm, int64_t n_rows,
                     int64_t n)
{
    norm_job j = {&b->kernels, y, x, norm, n};
    run_items(b, n_rows, 2 * n, norm_rows, &j);
}

/* --- element by element --------------------------------------------------------------------- */

/* Work on elements of x, each on its own, in runs of BLOCK. */
typedef struct {
    const fy_kernels *k;
    float *x;
    const float *y;
    float s;
    int64_t n;
    void (*run)(const fy_kernels *k, float *x, const float *y, float s, int64_t n);
} element_job;

static void element_blocks(void *ctx, int64_t item, int64_t end_item, int thread)
{
    (void)thread;
    const element_job *j = ctx;
    int64_t begin = item * BLOCK, end = end_item * BLOCK < j->n ? end_item * BLOCK : j->n;
    j->run(j->k, j->x + begin, j->y != NULL ? j->y + begin : NULL, j->s, end - begin);
}

static void run_elements(fy_backend *b, element_job j, int64_t cost_each)
{
    j.k = &b->kernels;
    run_items(b, (j.n + BLOCK - 1) / BLOCK, cost_each * BLOCK, element_blocks, &j);
}

static void scale(const fy_kernels *k, float *x, const float *y, float s, int64_t n)
{
    (void)k;
    (void)y;
    for (int64_t i = 0; i < n; i++)
        x[i] *= s;
}

static void add_scaled(const fy_kernels *k, float *x, const float *y, float s, int64_t n)
{
    (void)k;
    for (int64_t i = 0; i < n; i++)
        x[i] += s * y[i];
}

static void softcap(const fy_kernels *k, float *x, const float *y, float s, int64_t n)
{
    (void)y;
    k->softcap(x, n, s);
}

void fy_backend_scale(fy_backend *b, float *x, float s, int64_t n)
{
    run_elements(b, (element_job){.x = x, .s = s, .n = n, .run = scale}, 1);
}

void fy_backend_add(fy_backend *b, float *x, const float *y, float s, int64_t n)
{
    run_elements(b, (element_job){.x = x, .y = y, .s = s, .n = n, .run = add_scaled}, 1);
}

void fy_backend_softcap(fy_backend *b, float *x, float cap, int64_t n)
{
    run_elements(b, (element_job){.x = x, .s = cap, .n = n, .run = softcap}, 8);
}

/* --- rows here and there -------------------------------------------------------------------- */

typedef struct {
    float *to;
    const float *from;
    const int32_t *rows;
    const float *weights;
    int64_t n;
} rows_job;

static void gather_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rows_job *j = ctx;
    for (int64_t i = begin; i < end; i++)
        memcpy(j->to + i * j->n, j->from + j->rows[i] * j->n, (size_t)j->n * sizeof *j->to);
}

static void scatter_rows(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rows_job *j = ctx;
    for (int64_t i = begin; i < end; i++)
        add_scaled(NULL, j->to + (j->rows != NULL ? j->rows[i] : i) * j->n, j->from + i * j->n,
                   j->weights[i], j->n);
}

void fy_backend_gather(fy_backend *b, float *y, const float *x, const int32_t *rows, int64_t n_rows,
                       int64_t n)
{
    rows_job j = {.to = y, .from = x, .rows = rows, .n = n};
    run_items(b, n_rows, n, gather_rows, &j);
}

void fy_backend_scatter_add(fy_backend *b, float *x, const float *y, const int32_t *rows,
                            const float *weights, int64_t n_rows, int64_t n)
{
    rows_job j = {x, y, rows, weights, n};
    run_items(b, n_rows, n, scatter_rows, &j);
}

/* --- matrix products ------------------------------------------------------------------------ */

typedef struct {
    const fy_product *p;
    fy_matmul_fn *fn;
    int64_t tile_rows, first_item;
} product_tiles;

typedef struct {
    const fy_backend *b;
    fy_act act;
    int64_t n_tokens;
    product_tiles tiles[FY_PRODUCTS_MAX];
    int n_products;
} matmul_job;

static void quantize_columns(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const matmul_job *j = ctx;
    j->b->kernels.act_quantize(&j->act, begin, end);
}

/* What follows the product itself, while the tile is still in the cache. */
static void finish_tile(const fy_product *p, int64_t begin, int64_t end, int64_t n_tokens)
{
    if (p->bias == NULL && p->sum == NULL)
        return;
    for (int64_t c = 0; c < n_tokens; c++) {
        float *y = p->y + c * p->w->n_rows;
        for (int64_t r = begin; p->bias != NULL && r < end; r++)
            y[r] += p->bias[r];
        float *sum = p->sum != NULL ? p->sum + c * p->w->n_rows : NULL;
        for (int64_t r = begin; sum != NULL && r < end; r++)
            sum[r] += y[r];
    }
}

static void multiply_tiles(void *ctx, int64_t item, int64_t end_item, int thread)
{
    const matmul_job *j = ctx;
    for (; item < end_item; item++) {
        int i = j->n_products - 1;
        while (j->tiles[i].first_item > item)
            i--;
        const product_tiles *t = &j->tiles[i];
        const fy_matrix *w = t->p->w;
        int64_t begin = (item - t->first_item) * t->tile_rows, end = begin + t->tile_rows;
        end = end < w->n_rows ? end : w->n_rows;
        t->fn(t->p->y, w->n_rows, w->data, w->row_bytes, begin, end, &j->act, j->n_tokens,
              scratch_of(j->b, thread));
        finish_tile(t->p, begin, end, j->n_tokens);
    }
}

static int64_t rows_of_a_tile(const fy_backend *b, const fy_matrix *w)
{
    int64_t rows = TILE_BYTES / (int64_t)(w->row_bytes > 0 ? w->row_bytes : 1);
    int64_t fair = w->n_rows / ((int64_t)fy_pool_threads(b->pool) * TILES_PER_THREAD);
    rows = rows < fair ? rows : fair;
    return rows < TILE_ROWS ? TILE_ROWS : rows / TILE_ROWS * TILE_ROWS;
}

void fy_backend_matmul(fy_backend *b, const float *x, int64_t n_tokens, const fy_product *p,
                       int n_products)
{
    int64_t k = p[0].w->n_cols;
    matmul_job j = {.b = b,
                    .act = {.x = x, .q = b->q, .d = b->d, .sum = b->sum, .k = k},
                    .n_tokens = n_tokens,
                    .n_products = n_products};
    bool wants_q8 = false;
    int64_t n_items = 0, n_rows = 0;
    for (int i = 0; i < n_products; i++) {
        const fy_matrix *w = p[i].w;
        j.tiles[i] = (product_tiles){&p[i], fy_kernels_matmul(&b->kernels, w->type),
                                     rows_of_a_tile(b, w), n_items};
        n_items += (w->n_rows + j.tiles[i].tile_rows - 1) / j.tiles[i].tile_rows;
        n_rows += w->n_rows;
        wants_q8 |= fy_kernels_wants_q8(w->type);
    }
    if (wants_q8)
        run_items(b, n_tokens, 4 * k, quantize_columns, &j);
    /* One tile per item; all of them at once when the whole product is too small to share. */
    bool small = n_rows * k < 2 * (int64_t)MIN_SHARE / n_tokens;
    fy_pool_run(b->pool, n_items, small ? n_items : 1, multiply_tiles, &j);
}

/* --- rotation of queries and keys ----------------------------------------------------------- */

typedef struct {
    const fy_rotation *r;
    float *x;
} rotate_job;

static void rotate_head(float *x, const float *angles, int64_t n_rot, bool interleaved)
{
    int64_t half = n_rot / 2, step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
    for (int64_t i = 0; i < half; i++) {
        float c = angles[2 * i], s = angles[2 * i + 1];
        float a = x[i * step], b = x[i * step + apart];
        x[i * step] = a * c - b * s;
        x[i * step + apart] = a * s + b * c;
    }
}

static void rotate_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rotate_job *j = ctx;
    const fy_rotation *r = j->r;
    for (int64_t t = begin; t < end; t++) {
        for (int64_t h = 0; h < r->n_heads; h++)
            rotate_head(j->x + (t * r->n_heads + h) * r->head_dim, r->angles + t * r->n_rot,
                        r->n_rot, r->interleaved);
    }
}

void fy_backend_rotate(fy_backend *b, float *x, int64_t n_tokens, const fy_rotation *r)
{
    rotate_job j = {r, x};
    run_items(b, n_tokens, 2 * r->n_heads * r->n_rot, rotate_tokens, &j);
}

/* --- attention ------------------------------------------------------------------------------ */

typedef struct {
    const fy_backend *b;
    const fy_kv_layer *kv;
    const float *k, *v;
    int64_t pos;
} store_job;

static void store_rows(const fy_backend *b, const fy_kv_layer *kv, void *cache, const float *x,
                       int64_t dim, int64_t pos, bool round)
{
    for (int64_t h = 0; h < kv->n_head_kv; h++) {
        int64_t at = (h * kv->n_ctx + pos) * dim;
        if (kv->type == FY_F16)
            b->kernels.f32_to_f16((uint16_t *)cache + at, x + h * dim, dim);
        else
            memcpy((float *)cache + at, x + h * dim, (size_t)dim * sizeof(float));
        for (float *y = (float *)cache + at, *end = y + dim; round && y < end; y++)
            *y = fy_f16_to_f32(fy_f32_to_f16(*y));
    }
}

static void store_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const store_job *j = ctx;
    const fy_kv_layer *kv = j->kv;
    for (int64_t t = begin; t < end; t++) {
        store_rows(j->b, kv, kv->k, j->k + t * kv->n_head_kv * kv->head_dim, kv->head_dim,
                   j->pos + t, kv->round_k);
        store_rows(j->b, kv, kv->v, j->v + t * kv->n_head_kv * kv->head_dim_v, kv->head_dim_v,
                   j->pos + t, kv->round_v);
    }
}

void fy_backend_store(fy_backend *b, const fy_kv_layer *kv, const float *k, const float *v,
                      int64_t pos, int64_t n_tokens)
{
    store_job j = {b, kv, k, v, pos};
    run_items(b, n_tokens, kv->n_head_kv * (kv->head_dim + kv->head_dim_v), store_tokens, &j);
}

typedef struct {
    const fy_backend *b;
    const fy_attention *a;
    float *out;
    const float *q;
    int64_t n_tokens;
} attend_job;

static const void *kv_row(const fy_kv_layer *kv, const void *cache, int64_t head, int64_t pos,
                          int64_t dim)
{
    size_t element = kv->type == FY_F16 ? sizeof(uint16_t) : sizeof(float);
    return (const uint8_t *)cache + (size_t)((head * kv->n_ctx + pos) * dim) * element;
}

static void attend_items(void *ctx, int64_t item, int64_t end_item, int thread)
{
    const attend_job *j = ctx;
    const fy_attention *a = j->a;
    const fy_kv_layer *kv = a->kv;
    fy_attend_fn *fn = kv->type == FY_F16 ? j->b->kernels.attend_f16 : j->b->kernels.attend_f32;
    int64_t group = a->n_head / kv->n_head_kv;
    for (; item < end_item; item++) {
        int64_t head = item / j->n_tokens,
                token = item % j->n_tokens; /* tokens of a head stand together */
        int64_t pos = a->pos + token;
        int64_t first = a->n_swa > 0 && pos >= a->n_swa ? pos - a->n_swa + 1 : 0;
        fn(j->out + (token * a->n_head + head) * kv->head_dim_v,
           j->q + (token * a->n_head + head) * kv->head_dim,
           kv_row(kv, kv->k, head / group, first, kv->head_dim),
           kv_row(kv, kv->v, head / group, first, kv->head_dim_v), pos - first + 1,
           (int)kv->head_dim, (int)kv->head_dim_v, kv->head_dim, kv->head_dim_v, a->scale, a->cap,
           scores_of(j->b, thread));
    }
}

void fy_backend_attend(fy_backend *b, float *out, const float *q, int64_t n_tokens,
                       const fy_attention *a)
{
    attend_job j = {b, a, out, q, n_tokens};
    int64_t n_keys = a->pos + n_tokens;
    n_keys = a->n_swa > 0 && a->n_swa < n_keys ? a->n_swa : n_keys;
    run_items(b, a->n_head * n_tokens, n_keys * (a->kv->head_dim + a->kv->head_dim_v), attend_items,
              &j);
}

/* --- feed-forward --------------------------------------------------------------------------- */

typedef struct {
    const fy_kernels *k;
    const fy_activation *f;
    float *gate;
    const float *up;
    int64_t n, blocks; /* elements and blocks of a token */
} activate_job;

/* Blocks start anew at each token: how a kernel treats its last elements cannot depend on the
 * batch. */
static void activate_blocks(void *ctx, int64_t item, int64_t end_item, int thread)
{
    (void)thread;
    const activate_job *j = ctx;
    for (; item < end_item; item++) {
        int64_t in_token = item % j->blocks * BLOCK, begin = item / j->blocks * j->n + in_token;
        int64_t len = j->n - in_token < BLOCK ? j->n - in_token : BLOCK;
        fy_kernels_activate(j->k, j->f->kind, j->f->threshold, j->gate + begin,
                            j->up != NULL ? j->up + begin : NULL, len);
    }
}

void fy_backend_activate(fy_backend *b, const fy_activation *f, float *gate, const float *up,
                         int64_t n_tokens, int64_t n)
{
    activate_job j = {&b->kernels, f, gate, up, n, (n + BLOCK - 1) / BLOCK};
    run_items(b, n_tokens * j.blocks, 8 * BLOCK, activate_blocks, &j);
}
