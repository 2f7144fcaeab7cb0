/* What LoRA adapters add to rows of a tensor, computed as the rows are read; and the cache that
 * keeps the right factor of the tensors in work decoded. */
#include "convert/source/lora_delta.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "convert/source/checkpoint.h"

enum {
    BLOCK = 256, /* columns computed at a time: their sums stay in the L1 cache */
    KEYS = FY_ATTEND_CHUNK,
    TILE = 16, /* rows of R decoded at a time where it is not in the cache */
    SLOTS = 16,
};

/* --- the factors ------------------------------------------------------------------------------ */

/* Coefficients of some rows, in the order that attend_add wants: [rank / KEYS][rows][KEYS]. */
static void left_rows(const fy_kernels *k, const fy_lora_delta *d, const uint64_t *rows, int n_rows,
                      float *p)
{
    for (uint32_t j = 0; j < d->rank; j += KEYS) {
        uint32_t n_j = d->rank - j < KEYS ? d->rank - j : KEYS;
        for (int r = 0; r < n_rows; r++, p += KEYS) {
            if (d->left == NULL)
                p[0] = 1;
            else if (!d->left_turned)
                fy_ckpt_read(k, d->left, rows[r] * d->rank + j, n_j, p);
            else
                for (uint32_t i = 0; i < n_j; i++)
                    fy_ckpt_read(k, d->left, (j + i) * d->left->shape[1] + rows[r], 1, p + i);
        }
    }
}

/* Those of row 0 for row j of R; the other rows' lie KEYS apart. */
static const float *coefficients(const float *p, int n_rows, uint32_t j)
{
    return p + (size_t)(j / KEYS) * (size_t)n_rows * KEYS + j % KEYS;
}

/* out[n_j][n] = columns [col, col + n) of rows [j, j + n_j) of R. */
static void right_tile(const fy_kernels *k, const fy_lora_delta *d, uint32_t j, uint32_t n_j,
                       uint64_t col, uint64_t n, float *out)
{
    float values[TILE];
    for (uint32_t i = 0; i < n_j && !d->right_turned; i++)
        fy_ckpt_read(k, d->right, (j + i) * d->width + col, n, out + i * n);
    for (uint64_t c = 0; c < n && d->right_turned; c++) {
        fy_ckpt_read(k, d->right, (col + c) * d->rank + j, n_j, values);
        for (uint32_t i = 0; i < n_j; i++)
            out[i * n + c] = values[i];
    }
}

/* --- the cache -------------------------------------------------------------------------------- */

typedef struct {
    const fy_lora_delta *of; /* view; NULL: free */
    float *right;            /* owned; blocks of columns, each [rank][its columns] */
    uint64_t bytes, used_at;
    int users;
} slot;

struct fy_lora_cache {
    pthread_mutex_t lock;
    slot slots[SLOTS];
    uint64_t bytes, clock;
};

fy_lora_cache *fy_lora_cache_new(fy_err *e)
{
    fy_lora_cache *c = calloc(1, sizeof *c);
    if (c == NULL || pthread_mutex_init(&c->lock, NULL) != 0) {
        free(c);
        fy_nomem(e);
        return NULL;
    }
    return c;
}

void fy_lora_cache_free(fy_lora_cache *c)
{
    if (c == NULL)
        return;
    for (int i = 0; i < SLOTS; i++)
        free(c->slots[i].right);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void empty(fy_lora_cache *c, slot *s)
{
    c->bytes -= s->bytes;
    free(s->right);
    *s = (slot){0};
}

/* A free slot with so many bytes, at the cost of those that were not used for longest. */
static slot *make_room(fy_lora_cache *c, uint64_t bytes)
{
    for (;;) {
        slot *free_one = NULL, *oldest = NULL;
        for (int i = 0; i < SLOTS; i++) {
            slot *s = &c->slots[i];
            if (s->of == NULL)
                free_one = s;
            else if (s->users == 0 && (oldest == NULL || s->used_at < oldest->used_at))
                oldest = s;
        }
        if (free_one != NULL && c->bytes + bytes <= FY_LORA_CACHE_BYTES)
            return free_one;
        if (oldest == NULL)
            return NULL;
        empty(c, oldest);
    }
}

static void fill(const fy_kernels *k, const fy_lora_delta *d, float *right)
{
    for (uint64_t col = 0; col < d->width; col += BLOCK) {
        uint64_t n = d->width - col < BLOCK ? d->width - col : BLOCK;
        for (uint32_t j = 0, n_j; j < d->rank; j += n_j, right += n_j * n) {
            n_j = d->rank - j < TILE ? d->rank - j : TILE;
            right_tile(k, d, j, n_j, col, n, right);
        }
    }
}

/* R of d until it is given back; NULL: no room for it. */
static slot *take(const fy_kernels *k, const fy_lora_delta *d)
{
    fy_lora_cache *c = d->cache;
    uint64_t bytes = d->rank * d->width * sizeof(float); /* as many elements as the file has */
    slot *s = NULL;
    if (bytes > FY_LORA_CACHE_BYTES / 4)
        return NULL;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < SLOTS && s == NULL; i++)
        s = c->slots[i].of == d ? &c->slots[i] : NULL;
    if (s == NULL) {
        s = make_room(c, bytes);
        float *right = s != NULL ? malloc(bytes) : NULL;
        if (right != NULL) {
            *s = (slot){.of = d, .right = right, .bytes = bytes};
            c->bytes += bytes;
            fill(k, d, right);
        } else {
            s = NULL;
        }
    }
    if (s != NULL) {
        s->users++;
        s->used_at = ++c->clock;
    }
    pthread_mutex_unlock(&c->lock);
    return s;
}

static void give_back(fy_lora_cache *c, slot *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    s->users--;
    pthread_mutex_unlock(&c->lock);
}

/* --- the sum ---------------------------------------------------------------------------------- */

/* sum[n_rows][n] += p R, for columns [col, col + n) that lie in one block. */
static void add_cached(const fy_kernels *k, const fy_lora_delta *d, const float *right,
                       const float *p, int n_rows, uint64_t col, uint64_t n, float *sum)
{
    uint64_t begin = col / BLOCK * BLOCK;
    uint64_t width = d->width - begin < BLOCK ? d->width - begin : BLOCK;
    const float *block = right + begin * d->rank;
    uint32_t step = n == width ? KEYS : 1; /* rows of R that follow each other */
    for (uint32_t j = 0; j < d->rank; j += step)
        k->attend_add_f32(sum, coefficients(p, n_rows, j), n_rows,
                          block + j * width + (col - begin),
                          d->rank - j < step ? d->rank - j : step, (int64_t)n);
}

static void add_decoded(const fy_kernels *k, const fy_lora_delta *d, const float *p, int n_rows,
                        uint64_t col, uint64_t n, float *sum)
{
    float tile[TILE * BLOCK];
    for (uint32_t j = 0; j < d->rank; j += TILE) {
        uint32_t n_j = d->rank - j < TILE ? d->rank - j : TILE;
        right_tile(k, d, j, n_j, col, n, tile);
        k->attend_add_f32(sum, coefficients(p, n_rows, j), n_rows, tile, n_j, (int64_t)n);
    }
}

static void add_one(const fy_kernels *k, const fy_lora_delta *d, const uint64_t *rows, int n_rows,
                    uint64_t col, uint64_t n, float *out)
{
    float p[FY_LORA_ROWS * FY_LORA_MAX_RANK], sum[FY_LORA_ROWS * BLOCK];
    slot *s = take(k, d);
    left_rows(k, d, rows, n_rows, p);
    for (uint64_t done = 0, m; done < n; done += m) {
        uint64_t at = col + done;
        m = BLOCK - at % BLOCK;
        m = m < n - done ? m : n - done;
        memset(sum, 0, (size_t)n_rows * (size_t)m * sizeof *sum);
        if (s != NULL)
            add_cached(k, d, s->right, p, n_rows, at, m, sum);
        else
            add_decoded(k, d, p, n_rows, at, m, sum);
        for (int r = 0; r < n_rows; r++)
            k->attend_add_f32(out + (uint64_t)r * n + done, &d->scale, 1, sum + (uint64_t)r * m, 1,
                              (int64_t)m);
    }
    give_back(d->cache, s);
}

void fy_lora_add(const fy_kernels *k, const fy_lora_delta *d, const uint64_t *rows, int n_rows,
                 uint64_t col, uint64_t n, float *out)
{
    for (; d != NULL; d = d->next)
        add_one(k, d, rows, n_rows, col, n, out);
}
