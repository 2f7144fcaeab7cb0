/* How work is cut. A job costs a few microseconds to hand out, so what is smaller than MIN_SHARE
 * stays on the calling thread. A tile of weight rows is long enough for the
 * memory prefetcher and short enough that threads finish together; the kernel sees all tokens of a
 * batch at once, so a tile is read from memory one time per batch. What a kernel prepares of the
 * tokens, it prepares for every tile: those of a batch are longer. */
#include "backend/backend_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/math.h"
#include "kernels/row.h"

enum {
    TILE_BYTES = 64 << 10,        /* for one token */
    BATCH_TILE_BYTES = 512 << 10, /* for several */
    TILE_ROWS = 32,       /* a tile is a multiple of this many rows: what kernels repack at once */
    TILES_PER_THREAD = 4, /* at least, so that a slow thread can take fewer */
    MIN_SHARE = 1 << 16,  /* multiply-adds (or the like) that are worth a second thread */
    BLOCK = 1024,         /* elements per item of elementwise work */
    LANES = 8,            /* elements that a loop takes at once: of these, compilers make vectors */
};

static int lay_out(fy_backend *b, const fy_backend_params *p, fy_layout *c, fy_err *e)
{
    uint64_t scratch = 0, n_q = 0;
    if (!fy_attend_scratch(p->head_dim, &scratch) ||
        !fy_add_u64(scratch, FY_KERNEL_SCRATCH_BYTES, &scratch))
        c->overflow = true;
    b->head_dim = p->head_dim;
    b->scratch_stride = (size_t)scratch;
    b->scratch = fy_lay_out(c, 1, (uint64_t)p->n_threads, scratch);
    if (!fy_mul_u64((uint64_t)p->n_tokens, (uint64_t)p->q8_len, &n_q))
        c->overflow = true;
    b->q = fy_lay_out(c, 1, n_q, sizeof *b->q);
    b->d = fy_lay_out(c, 1, n_q / FY_QK, sizeof *b->d);
    b->sum = fy_lay_out(c, 1, n_q / FY_QK, sizeof *b->sum);
    if (c->overflow || c->used > SIZE_MAX / 2)
        return fy_fail(e, FY_EFIT,
                       "scratch for %lld tokens at once does not fit the address space; "
                       "use a smaller -b",
                       (long long)p->n_tokens);
    return 0;
}

int fy_backend_bytes(const fy_backend_params *p, uint64_t *bytes, fy_err *e)
{
    fy_backend b = {0};
    fy_layout c = {0};
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
    fy_layout c = {0};
    if (lay_out(b, p, &c, e) != 0)
        goto fail;
    b->memory = aligned_alloc(FY_LAYOUT_ALIGN, (size_t)c.used);
    if (b->memory == NULL) {
        fy_fail(e, FY_EFIT, "out of memory: scratch takes %llu MB; use a smaller -b",
                (unsigned long long)(c.used >> 20));
        goto fail;
    }
    c = (fy_layout){.base = b->memory};
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

void fy_backend_run(fy_backend *b, int64_t n_items, int64_t cost_each, fy_pool_fn *fn, void *ctx)
{
    if (n_items <= 0)
        return;
    int64_t fair = n_items / ((int64_t)fy_pool_threads(b->pool) * TILES_PER_THREAD);
    int64_t worth = MIN_SHARE / (cost_each > 0 ? cost_each : 1) + 1;
    int64_t chunk = fair > worth ? fair : worth;
    fy_pool_run(b->pool, n_items, chunk, fn, ctx);
}

/* --- embedding and norms --------------------------------------------------------------------- */

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
    fy_backend_run(b, n_rows, 2 * n, norm_rows, &j);
}

/* --- element by element ---------------------------------------------------------------------- */

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
    fy_backend_run(b, (j.n + BLOCK - 1) / BLOCK, cost_each * BLOCK, element_blocks, &j);
}

static void scale(const fy_kernels *k, float *x, const float *y, float s, int64_t n)
{
    (void)k;
    (void)y;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++)
            x[i + j] *= s;
    }
    for (; i < n; i++)
        x[i] *= s;
}

static void add_scaled(const fy_kernels *k, float *restrict x, const float *restrict y, float s,
                       int64_t n)
{
    (void)k;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++)
            x[i + j] += s * y[i + j];
    }
    for (; i < n; i++)
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

/* --- rows here and there --------------------------------------------------------------------- */

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
    fy_backend_run(b, n_rows, n, gather_rows, &j);
}

void fy_backend_scatter_add(fy_backend *b, float *x, const float *y, const int32_t *rows,
                            const float *weights, int64_t n_rows, int64_t n)
{
    rows_job j = {x, y, rows, weights, n};
    fy_backend_run(b, n_rows, n, scatter_rows, &j);
}

/* --- matrix products ------------------------------------------------------------------------- */

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

/* While the tile is still in the cache. */
void fy_backend_finish(const fy_product *p, int64_t ldy, int64_t begin, int64_t end,
                       int64_t n_tokens)
{
    for (int64_t c = 0; c < n_tokens; c++) {
        float *y = p->y + c * ldy + begin;
        if (p->bias != NULL)
            add_scaled(NULL, y, p->bias + begin, 1, end - begin);
        if (p->sum != NULL)
            add_scaled(NULL, p->sum + c * ldy + begin, y, 1, end - begin);
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
              fy_backend_scratch(j->b, thread));
        fy_backend_finish(t->p, w->n_rows, begin, end, j->n_tokens);
    }
}

static int64_t rows_of_a_tile(const fy_backend *b, const fy_matrix *w, int64_t n_tokens)
{
    int64_t rows = (n_tokens > 1 ? BATCH_TILE_BYTES : TILE_BYTES) /
                   (int64_t)(w->row_bytes > 0 ? w->row_bytes : 1);
    int64_t fair = w->n_rows / ((int64_t)fy_pool_threads(b->pool) * TILES_PER_THREAD);
    rows = rows < fair ? rows : fair;
    return rows < TILE_ROWS ? TILE_ROWS : rows / TILE_ROWS * TILE_ROWS;
}

void fy_backend_matmul(fy_backend *b, const float *x, int64_t n_tokens, const fy_product *p,
                       int n_products)
{
    if (b->watch != NULL)
        b->watch(b->watch_user, x, n_tokens, p, n_products);
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
                                     rows_of_a_tile(b, w, n_tokens), n_items};
        n_items += (w->n_rows + j.tiles[i].tile_rows - 1) / j.tiles[i].tile_rows;
        n_rows += w->n_rows;
        wants_q8 |= fy_kernels_wants_q8(w->type);
    }
    if (wants_q8)
        fy_backend_run(b, n_tokens, 4 * k, quantize_columns, &j);
    /* One tile per item; all of them at once when the whole product is too small to share. */
    bool small = n_rows * k < 2 * (int64_t)MIN_SHARE / n_tokens;
    fy_pool_run(b->pool, n_items, small ? n_items : 1, multiply_tiles, &j);
    for (int i = 0; i < n_products; i++)
        fy_paged_rows_drop(p[i].w);
}

void fy_backend_round_q8(fy_backend *b, float *y, const float *x, int64_t n_tokens, int64_t k)
{
    matmul_job j = {.b = b, .act = {.x = x, .q = b->q, .d = b->d, .sum = b->sum, .k = k}};
    fy_backend_run(b, n_tokens, 4 * k, quantize_columns, &j);
    for (int64_t i = 0; i < n_tokens * k; i++)
        y[i] = b->d[i / FY_QK] * (float)b->q[i];
}

void fy_backend_watch(fy_backend *b, fy_matmul_watch *watch, void *user)
{
    b->watch = watch;
    b->watch_user = user;
}

/* --- rotation of queries and keys ------------------------------------------------------------ */

typedef struct {
    const fy_rotation *r;
    float *x;
} rotate_job;

static inline void rotate(float *a, float *b, const float *angle)
{
    float c = angle[0], s = angle[1], x = *a, y = *b;
    *a = x * c - y * s;
    *b = x * s + y * c;
}

static void rotate_halves(float *restrict a, float *restrict b, const float *restrict angles,
                          int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++)
            rotate(a + i + j, b + i + j, angles + 2 * (i + j));
    }
    for (; i < n; i++)
        rotate(a + i, b + i, angles + 2 * i);
}

static void rotate_pairs(float *restrict x, const float *restrict angles, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++)
            rotate(x + 2 * (i + j), x + 2 * (i + j) + 1, angles + 2 * (i + j));
    }
    for (; i < n; i++)
        rotate(x + 2 * i, x + 2 * i + 1, angles + 2 * i);
}

static void rotate_tokens(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rotate_job *j = ctx;
    const fy_rotation *r = j->r;
    for (int64_t t = begin; t < end; t++) {
        const float *angles = r->angles + t * r->n_rot;
        for (int64_t h = 0; h < r->n_heads; h++) {
            float *x = j->x + (t * r->n_heads + h) * r->head_dim;
            if (r->interleaved)
                rotate_pairs(x, angles, r->n_rot / 2);
            else
                rotate_halves(x, x + r->n_rot / 2, angles, r->n_rot / 2);
        }
    }
}

void fy_backend_rotate(fy_backend *b, float *x, int64_t n_tokens, const fy_rotation *r)
{
    rotate_job j = {r, x};
    fy_backend_run(b, n_tokens, 2 * r->n_heads * r->n_rot, rotate_tokens, &j);
}

/* --- feed-forward ---------------------------------------------------------------------------- */

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
    fy_backend_run(b, n_tokens * j.blocks, 8 * BLOCK, activate_blocks, &j);
}

/* --- gate of attention ------------------------------------------------------------------------ */

typedef struct {
    const fy_head_gate *g;
    float *x;
} gate_job;

static void gate_heads(void *ctx, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const gate_job *j = ctx;
    const fy_head_gate *g = j->g;
    for (int64_t i = begin; i < end; i++) {
        const float *gate =
            g->gate + i / g->n_heads * g->token_stride + i % g->n_heads * g->head_stride;
        float *x = j->x + i * g->head_dim, by = 1;
        for (int64_t e = 0; e < g->head_dim; e++) {
            if (e == 0 || g->each_element)
                by = 1.0F / (1.0F + fy_exp(-gate[e]));
            x[e] *= by;
        }
    }
}

void fy_backend_gate_heads(fy_backend *b, float *x, int64_t n_tokens, const fy_head_gate *g)
{
    gate_job j = {g, x};
    fy_backend_run(b, n_tokens * g->n_heads, 16 * g->head_dim, gate_heads, &j);
}
