#include "backend/graph_cache.h"

#include <assert.h>
#include <string.h>

#include "backend/backend_impl.h"

/* Slots at a time: a tile of keys, read and written, stays in the first cache. Squares are what is
 * transposed at once. */
enum { TILE = 32, SIDE = 4 };

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
    const int64_t row = head * kv->n_ctx + first, dim = kv->head_dim;
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
