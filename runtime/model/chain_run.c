/* A session on a chain of graphs: the memory of their tensors, masks, caches and calls. */
#include "model/chain_impl.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/math.h"
#include "base/process.h"
#include "kernels/kernels.h"
#include "model/chain_mask.h"
#include "model/chain_state.h"

/* Keys [head_dim][n_cache] and values [n_cache][head_dim_v] of a cache; or new ones, by token. */
typedef struct {
    uint8_t *k, *v;
} pair;

/* value = scale * (code + offset) of a cache; rows move into it as they are. */
typedef struct {
    float scale;
    int32_t offset;
    bool known;
} encoding;

enum { N_TABLES = 3 };

struct fy_chain_run {
    fy_chain *c;          /* view */
    const fy_hparams *hp; /* view */
    fy_element kv;
    void **areas;     /* owned: [n_chunks + 1] of the device: caches of chunks, then the rest */
    float *hidden[2]; /* [max_batch][n_embd] from graph to graph */
    fy_chain_masks masks;
    float *cos[N_TABLES], *sin[N_TABLES]; /* [max_batch][n_rot / 2] of all layers, of those with the
                                             window, of queries */
    pair *cache;         /* owned: [n_layer][n_head_kv], each in the area of a chunk */
    pair *fresh;         /* owned: [most layers of a chunk][n_head_kv] */
    encoding *encodings; /* owned: [n_layer][n_head_kv], of keys and of values; NULL: floats */
    float *head_x, *head_logits;
    fy_chain_states states;
    float *v_first, *token_mask, *token_last; /* of layers with states */
    fy_graph **graphs; /* owned: [n_graphs]; of layers with states twice: each memory is read by one
                          and written by the other */
    fy_chain_time *times; /* owned: [n_chunks] */
    bool begun;
};

/* --- sizes ------------------------------------------------------------------------------------ */

typedef struct {
    uint32_t batch, head_batch, chunk_layers, slice;
} extent;

uint32_t fy_chain_max_batch(const fy_chain *c)
{
    return c->graphs[0].n_batch;
}

uint32_t fy_chain_first_position(const fy_chain *c)
{
    return c->preset.ids == NULL ? c->preset.n : 0;
}

bool fy_chain_lacks_head(const fy_chain *c)
{
    return c->n_layer_graphs == c->n_graphs;
}

static extent extent_of(const fy_chain *c)
{
    extent x = {.batch = c->graphs[0].n_batch};
    if (!fy_chain_lacks_head(c))
        x.head_batch = c->graphs[c->n_layer_graphs].n_batch;
    for (size_t i = 0; i < c->n_graphs; i++) {
        const fy_chunk_info *p = fy_chain_info_of(c, i);
        const uint32_t layers = p->end_layer - p->first_layer;
        const uint32_t tokens = p->end_token - p->first_token;
        x.chunk_layers = layers > x.chunk_layers ? layers : x.chunk_layers;
        x.slice = tokens > x.slice ? tokens : x.slice;
    }
    return x;
}

/* The memory of a tensor, where the device can find it. */
static void *place(const fy_chain_run *r, fy_layout *c, uint64_t rows, uint64_t cols, uint64_t es)
{
    void *p = fy_lay_out(c, rows, cols, es);
    const uint32_t align = r->c->device->api->align;
    if (align > 0 && !fy_align_u64(c->used, align, &c->used))
        c->overflow = true;
    return p;
}

static pair place_pair(const fy_chain_run *r, fy_layout *c, uint64_t n)
{
    const uint64_t es = fy_element_bytes(r->kv);
    uint8_t *k = place(r, c, n, r->hp->head_dim, es);
    return (pair){k, place(r, c, n, r->hp->head_dim_v, es)};
}

/* The first chunk with a layer: another one has it where batch sizes have files of their own. */
static size_t keeper_of(const fy_chain *c, uint32_t layer)
{
    size_t i = 0;
    while (layer < c->chunks[i].info.first_layer || layer >= c->chunks[i].info.end_layer)
        i++;
    return i;
}

/* The states of a layer, in both memories. */
static void lay_out_states(fy_chain_run *r, uint32_t layer, fy_layout *c)
{
    for (uint32_t i = 0; i < FY_STATE_MEMORIES * FY_STATE_PARTS; i++) {
        const uint32_t part = i % FY_STATE_PARTS;
        void *p = place(r, c, 1, fy_chain_state_len(r->hp, part), fy_element_bytes(r->kv));
        if (r->states.parts != NULL)
            *fy_chain_state_at(&r->states, i / FY_STATE_PARTS, layer, part) = p;
    }
}

/* The caches, or states, that lie in the area of a chunk. */
static void lay_out_caches(fy_chain_run *r, size_t chunk, fy_layout *c)
{
    const fy_chunk_info *info = &r->c->chunks[chunk].info;
    for (uint32_t layer = info->first_layer; layer < info->end_layer && fy_graph_has_states(r->hp);
         layer++) {
        if (keeper_of(r->c, layer) == chunk)
            lay_out_states(r, layer, c);
    }
    if (fy_graph_has_states(r->hp))
        return;
    for (uint32_t layer = info->first_layer; layer < info->end_layer; layer++) {
        for (size_t h = 0; h < r->hp->n_head_kv && keeper_of(r->c, layer) == chunk; h++) {
            const pair p = place_pair(r, c, r->c->n_cache);
            if (r->cache != NULL)
                r->cache[(size_t)layer * r->hp->n_head_kv + h] = p;
        }
    }
}

static void lay_out_beside_states(fy_chain_run *r, uint32_t batch, fy_layout *c)
{
    r->v_first = place(r, c, batch, r->hp->n_embd, sizeof(float));
    r->token_mask = place(r, c, batch, 1, sizeof(float));
    r->token_last = place(r, c, 1, batch, sizeof(float));
}

static void lay_out_attention(fy_chain_run *r, const extent *x, fy_layout *c)
{
    const fy_hparams *hp = r->hp;
    for (int i = 0; i < 2; i++)
        r->masks.bits[i] = place(r, c, x->batch, r->c->n_ctx, sizeof(uint16_t));
    for (int i = 0; i < N_TABLES && (i < 2 || hp->temp_scale != 0); i++) {
        r->cos[i] = place(r, c, x->batch, hp->n_rot / 2, sizeof(float));
        r->sin[i] = place(r, c, x->batch, hp->n_rot / 2, sizeof(float));
    }
    for (size_t i = 0; i < (size_t)x->chunk_layers * hp->n_head_kv; i++) {
        const pair p = place_pair(r, c, x->batch);
        if (r->fresh != NULL)
            r->fresh[i] = p;
    }
}

static void lay_out_io(fy_chain_run *r, fy_layout *c)
{
    const fy_hparams *hp = r->hp;
    const extent x = extent_of(r->c);
    for (int i = 0; i < 2; i++)
        r->hidden[i] = place(r, c, x.batch, hp->n_embd, sizeof(float));
    if (fy_graph_has_states(hp))
        lay_out_beside_states(r, x.batch, c);
    else
        lay_out_attention(r, &x, c);
    r->head_x = place(r, c, x.head_batch, hp->n_embd, sizeof(float));
    r->head_logits = place(r, c, x.head_batch, x.slice, sizeof(float));
}

/* An area: the caches of a chunk, or after the last chunk everything else. */
static void lay_out_area(fy_chain_run *r, size_t i, fy_layout *c)
{
    if (i < r->c->n_chunks)
        lay_out_caches(r, i, c);
    else
        lay_out_io(r, c);
}

static int tensor_bytes(const fy_chain *c, const fy_hparams *hp, fy_element kv, uint64_t *kv_bytes,
                        uint64_t *io_bytes, fy_err *e)
{
    fy_chain_run r = {.c = (fy_chain *)(uintptr_t)c, .hp = hp, .kv = kv}; /* only counted */
    fy_layout counter = {0};
    for (size_t i = 0; i < c->n_chunks; i++)
        lay_out_area(&r, i, &counter);
    *kv_bytes = counter.used;
    lay_out_area(&r, c->n_chunks, &counter);
    *io_bytes = counter.used - *kv_bytes;
    if (counter.overflow || counter.used > SIZE_MAX / 2)
        return fy_fail(e, FY_EFIT,
                       "the tensors of the graphs (cache_size %u) do not fit the "
                       "address space",
                       c->n_cache);
    return 0;
}

/* Of caches, or of states, which floats of 32 bits hold where no graph says otherwise. */
static fy_element cache_element(const fy_chain *c, const fy_hparams *hp, fy_type kv)
{
    const bool f32 = kv == FY_F32 || fy_graph_has_states(hp);
    return c->fixed ? c->kv : f32 ? FY_EL_F32 : FY_EL_F16;
}

int fy_chain_run_bytes(const fy_chain *c, const fy_hparams *hp, fy_type kv, int n_threads,
                       uint64_t *kv_bytes, uint64_t *other_bytes, fy_err *e)
{
    const fy_element type = cache_element(c, hp, kv);
    const extent x = extent_of(c);
    const fy_graph_binding largest = {.n_batch = x.batch > x.head_batch ? x.batch : x.head_batch,
                                      .n_cache = c->n_cache,
                                      .n_ctx = c->n_ctx};
    const fy_graph_backend *api = c->device->api;
    uint64_t io, work = 0;
    if (tensor_bytes(c, hp, type, kv_bytes, &io, e) != 0 ||
        (api->begin_bytes != NULL &&
         api->begin_bytes(c->device, &largest, type, n_threads, &work, e) != 0))
        return -1;
    const uint64_t saved = fy_chain_state_bytes(hp, fy_element_bytes(type));
    return fy_add_u64(io, work, other_bytes) && fy_add_u64(*kv_bytes, saved, kv_bytes)
               ? 0
               : fy_fail(e, FY_EFIT, "the graphs do not fit the address space");
}

/* --- binding ---------------------------------------------------------------------------------- */

/* The memory of a tensor of a graph that is `step`-th of its batch size and reads that memory of
 * states. */
static void *memory_of(const fy_chain_run *r, const fy_chunk_info *info, size_t step,
                       uint32_t reads, const fy_io_tensor *t)
{
    const uint32_t heads = r->hp->n_head_kv;
    void *const once[] = {
        [FY_IO_X] = info->kind == FY_CHUNK_HEAD ? r->head_x : r->hidden[step % 2],
        [FY_IO_BIAS] = r->masks.bits[0],
        [FY_IO_BIAS_SWA] = r->masks.bits[1],
        [FY_IO_COS] = r->cos[0],
        [FY_IO_SIN] = r->sin[0],
        [FY_IO_COS_SWA] = r->cos[1],
        [FY_IO_SIN_SWA] = r->sin[1],
        [FY_IO_COS_Q] = r->cos[2],
        [FY_IO_SIN_Q] = r->sin[2],
        [FY_IO_V_FIRST] = r->v_first,
        [FY_IO_TOKEN_MASK] = r->token_mask,
        [FY_IO_TOKEN_LAST] = r->token_last,
        [FY_IO_OUT] = r->hidden[(step + 1) % 2],
        [FY_IO_LOGITS] = r->head_logits,
        [FY_IO_V_FIRST_OUT] = r->v_first,
    };
    if (t->role == FY_IO_STATE || t->role == FY_IO_STATE_OUT)
        return *fy_chain_state_at(&r->states, t->role == FY_IO_STATE ? reads : reads ^ 1, t->layer,
                                  t->head);
    if (t->role == FY_IO_KEY_CACHE || t->role == FY_IO_VALUE_CACHE) {
        const pair *cache = r->cache + (size_t)t->layer * heads + t->head;
        return t->role == FY_IO_KEY_CACHE ? cache->k : cache->v;
    }
    if (t->role == FY_IO_KEY || t->role == FY_IO_VALUE) {
        const pair *fresh = r->fresh + (size_t)(t->layer - info->first_layer) * heads + t->head;
        return t->role == FY_IO_KEY ? fresh->k : fresh->v;
    }
    return once[t->role];
}

static void fill(void *to, uint64_t n, fy_element type, int32_t code)
{
    if (type == FY_EL_U8) {
        memset(to, code, (size_t)n);
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        ((uint16_t *)to)[i] = (uint16_t)code;
}

/* A cache and what is put into it have one encoding, in all graphs. An empty slot holds 0: it is
 * hidden, but multiplied. */
static int encode_cache(const fy_chain_run *r, const fy_io_tensor *io, const fy_graph_tensor *t,
                        void *memory, fy_err *e)
{
    const bool cache = io->role == FY_IO_KEY_CACHE || io->role == FY_IO_VALUE_CACHE;
    const bool key = io->role == FY_IO_KEY_CACHE || io->role == FY_IO_KEY;
    if (r->encodings == NULL || (!cache && io->role != FY_IO_KEY && io->role != FY_IO_VALUE))
        return 0;
    encoding *is = &r->encodings[((size_t)io->layer * r->hp->n_head_kv + io->head) * 2 + !key];
    if (!is->known)
        *is = (encoding){t->scale, t->offset, true};
    if (is->scale != t->scale || is->offset != t->offset)
        return fy_fail(e, FY_EFORMAT,
                       "%s has scale %g and offset %d, expected %g and %d as another graph has: "
                       "compile all chunks with the same ranges",
                       t->name, (double)t->scale, t->offset, (double)is->scale, is->offset);
    if (cache)
        fill(memory, t->rows * t->cols, t->type, -t->offset);
    return 0;
}

static fy_graph *bind(const fy_chain_run *r, size_t graph, size_t step, uint32_t reads, fy_err *e)
{
    const fy_chain *c = r->c;
    const fy_chain_graph *g = &c->graphs[graph];
    const fy_graph_shape shape = fy_chain_shape_of(c, r->hp, graph, r->kv);
    const uint32_t n = fy_graph_n_io(&shape);
    fy_graph_tensor *tensors = fy_chain_tensors_of(c, &shape, graph, n, e);
    void **buffers = calloc(n, sizeof *buffers);
    int rc = tensors == NULL ? -1 : buffers == NULL ? fy_nomem(e) : 0;
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        fy_io_tensor t;
        fy_graph_io(&shape, i, &t);
        buffers[i] = memory_of(r, shape.chunk, step, reads, &t);
        rc = encode_cache(r, &t, &tensors[i], buffers[i], e);
    }
    const fy_graph_binding b = {.name = g->name,
                                .n_batch = g->n_batch,
                                .n_cache = c->n_cache,
                                .n_ctx = c->n_ctx,
                                .mask_value = c->mask_value,
                                .tensors = tensors,
                                .buffers = buffers,
                                .n_tensors = n};
    fy_graph *bound = rc == 0 ? c->device->api->bind(c->chunks[g->chunk].loaded, &b, e) : NULL;
    free(tensors);
    free(buffers);
    return bound;
}

/* Which graph of its batch size is it? */
static size_t step_of(const fy_chain *c, size_t graph)
{
    size_t step = 0;
    while (step < graph && c->graphs[graph - step - 1].n_batch == c->graphs[graph].n_batch)
        step++;
    return step;
}

/* The lm_head has no states: it is bound once. */
static size_t n_bound(const fy_chain_run *r)
{
    return r->c->n_graphs + (fy_graph_has_states(r->hp) ? r->c->n_layer_graphs : 0);
}

static int bind_all(fy_chain_run *r, fy_err *e)
{
    const size_t n = r->c->n_graphs;
    for (size_t i = 0; i < n_bound(r); i++) {
        const size_t graph = i % n, step = step_of(r->c, graph);
        const uint32_t reads = i >= n;
        fy_err why = {0};
        r->graphs[i] = bind(r, graph, step, reads, &why);
        if (r->graphs[i] == NULL && fy_chain_recover(r->c, &why, e) == 0)
            r->graphs[i] = bind(r, graph, step, reads, e);
        if (r->graphs[i] == NULL)
            return -1;
    }
    return 0;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Aligned as a layout wants it; before it lies where it begins. Pages that nobody writes to are not
 * taken from the system. */
static void *take_own(uint64_t bytes)
{
    uint8_t *p = bytes <= SIZE_MAX / 2 ? calloc((size_t)bytes + FY_LAYOUT_ALIGN, 1) : NULL;
    if (p == NULL)
        return NULL;
    void **begin = (void **)(void *)(p + FY_LAYOUT_ALIGN - (uintptr_t)p % FY_LAYOUT_ALIGN);
    begin[-1] = p;
    return begin;
}

void *fy_graph_take(fy_graph_device *d, uint64_t bytes, fy_err *e)
{
    if (d->api->take != NULL)
        return d->api->take(d, bytes, e);
    void *p = take_own(bytes);
    if (p == NULL)
        fy_fail(e, FY_EFIT, "out of memory: the tensors of the graphs take %llu MB",
                (unsigned long long)(bytes >> 20));
    return p;
}

void fy_graph_give(fy_graph_device *d, void *memory)
{
    if (memory == NULL)
        return;
    if (d->api->give != NULL)
        d->api->give(d, memory);
    else
        free(((void **)memory)[-1]);
}

static int take_area(fy_chain_run *r, size_t i, fy_err *e)
{
    fy_layout c = {0};
    fy_chain_run counted = *r;
    counted.cache = counted.fresh = NULL;
    counted.states.parts = NULL;
    lay_out_area(&counted, i, &c);
    if (c.used == 0)
        return 0;
    r->areas[i] = fy_graph_take(r->c->device, c.used, e);
    if (r->areas[i] == NULL)
        return -1;
    c = (fy_layout){.base = r->areas[i]};
    lay_out_area(r, i, &c);
    return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

static int take_memory(fy_chain_run *r, fy_err *e)
{
    const extent x = extent_of(r->c);
    const size_t heads = r->hp->n_head_kv;
    uint64_t kv, io;
    if (tensor_bytes(r->c, r->hp, r->kv, &kv, &io, e) != 0)
        return -1;
    r->cache = calloc(r->hp->n_layer * heads, sizeof *r->cache);
    r->fresh = calloc(x.chunk_layers * heads, sizeof *r->fresh);
    r->graphs = calloc(n_bound(r), sizeof *r->graphs);
    r->areas = calloc(r->c->n_chunks + 1, sizeof *r->areas);
    r->times = calloc(r->c->n_chunks, sizeof *r->times);
    if (r->kv == FY_EL_U8 || r->kv == FY_EL_S16)
        r->encodings = calloc(r->hp->n_layer * heads * 2, sizeof *r->encodings);
    if (r->cache == NULL || r->fresh == NULL || r->graphs == NULL || r->areas == NULL ||
        r->times == NULL || (r->encodings == NULL && (r->kv == FY_EL_U8 || r->kv == FY_EL_S16)))
        return fy_nomem(e);
    if (fy_chain_states_init(&r->states, r->hp, fy_element_bytes(r->kv), e) != 0)
        return -1;
    for (size_t i = 0; i <= r->c->n_chunks; i++) {
        if (take_area(r, i, e) != 0)
            return -1;
    }
    if (!fy_graph_has_states(r->hp))
        fy_chain_masks_init(&r->masks);
    return 0;
}

static fy_chain_masks masks_of(const fy_chain *c, const fy_hparams *hp)
{
    return (fy_chain_masks){.shows = c->shows,
                            .hides = c->hides,
                            .n_batch = fy_chain_max_batch(c),
                            .n_cache = c->n_cache,
                            .n_ctx = c->n_ctx,
                            .n_swa = hp->n_swa};
}

fy_chain_run *fy_chain_run_new(fy_chain *c, const fy_hparams *hp, fy_type kv, int n_threads,
                               fy_err *e)
{
    assert(kv == FY_F16 || kv == FY_F32);
    if (c->in_use) {
        fy_fail(e, FY_EARG, "a model of graphs has one session at a time, and there is one");
        return NULL;
    }
    fy_chain_run *r = calloc(1, sizeof *r);
    if (r == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *r = (fy_chain_run){.c = c, .hp = hp, .kv = cache_element(c, hp, kv), .masks = masks_of(c, hp)};
    c->in_use = true;
    const fy_graph_backend *api = c->device->api;
    if (take_memory(r, e) != 0 || bind_all(r, e) != 0 ||
        (api->begin != NULL && api->begin(c->device, n_threads, e) != 0)) {
        fy_chain_run_free(r);
        return NULL;
    }
    r->begun = true;
    if (fy_chain_first_position(c) > 0)
        fy_chain_run_preset(r); /* nothing ever writes to its slots */
    return r;
}

void fy_chain_run_free(fy_chain_run *r)
{
    if (r == NULL)
        return;
    const fy_graph_backend *api = r->c->device->api;
    if (r->begun && api->end != NULL)
        api->end(r->c->device);
    for (size_t i = 0; r->graphs != NULL && i < n_bound(r); i++)
        api->unbind(r->graphs[i]);
    for (size_t i = r->c->n_chunks + 1; r->areas != NULL && i-- > 0;)
        fy_graph_give(r->c->device, r->areas[i]);
    free(r->areas);
    free(r->times);
    free(r->graphs);
    free(r->cache);
    free(r->fresh);
    free(r->encodings);
    fy_chain_states_release(&r->states);
    r->c->in_use = false;
    free(r);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Of the graphs [begin, end) the first with the smallest batch size that holds n tokens; the
 * largest when none does. */
static size_t pick(const fy_chain *c, size_t begin, size_t end, uint32_t n)
{
    size_t best = begin;
    for (size_t i = begin; i < end; i++) {
        if (c->graphs[i].n_batch >= n && c->graphs[i].n_batch < c->graphs[best].n_batch)
            best = i;
    }
    return best;
}

static void pad(float *x, uint32_t n, uint32_t n_batch, uint32_t len)
{
    memset(x + (size_t)n * len, 0, (size_t)(n_batch - n) * len * sizeof *x);
}

static void fill_tables(fy_chain_run *r, int which, const float *angles, uint32_t n)
{
    const size_t n_pairs = r->hp->n_rot / 2;
    for (size_t i = 0; angles != NULL && i < n * n_pairs; i++) {
        r->cos[which][i] = angles[2 * i];
        r->sin[which][i] = angles[2 * i + 1];
    }
}

/* cache[e][slot + i] = key[i][e] */
#define PUT_KEYS(type, cache, key)                            \
    for (uint32_t e = 0; e < dim; e++) {                      \
        for (uint32_t i = 0; i < n; i++)                      \
            ((type *)cache)[(size_t)e * n_cache + slot + i] = \
                ((const type *)key)[(size_t)i * dim + e];     \
    }
static void put_keys(fy_element type, void *cache, const void *key, uint32_t n, uint32_t dim,
                     uint32_t slot, uint32_t n_cache)
{
    switch (fy_element_bytes(type)) {
    case 1:
        PUT_KEYS(uint8_t, cache, key)
        break;
    case 2:
        PUT_KEYS(uint16_t, cache, key)
        break;
    default:
        PUT_KEYS(uint32_t, cache, key)
    }
}

/* The real tokens' keys and values of one chunk into the slots from this one on. */
static void store(fy_chain_run *r, const fy_chunk_info *info, uint32_t n, uint32_t slot)
{
    const uint32_t heads = r->hp->n_head_kv, dim = r->hp->head_dim;
    const size_t row = (size_t)r->hp->head_dim_v * fy_element_bytes(r->kv);
    const size_t n_pairs = (size_t)(info->end_layer - info->first_layer) * heads;
    pair *cache = r->cache + (size_t)info->first_layer * heads;
    for (size_t i = 0; i < n_pairs; i++) {
        put_keys(r->kv, cache[i].k, r->fresh[i].k, n, dim, slot, r->c->n_cache);
        memcpy(cache[i].v + slot * row, r->fresh[i].v, n * row);
    }
}

void fy_chain_run_keep(fy_chain_run *r, uint32_t n_past, const int32_t *path, uint32_t n)
{
    const size_t es = fy_element_bytes(r->kv), row = r->hp->head_dim_v * es;
    const size_t n_pairs = (size_t)r->hp->n_layer * r->hp->n_head_kv;
    for (size_t p = 0; p < n_pairs; p++) {
        uint8_t *v = r->cache[p].v + n_past * row;
        for (uint32_t i = 0; i < n; i++) {
            if (path[i] != (int32_t)i)
                memcpy(v + i * row, v + (size_t)path[i] * row, row);
        }
        for (uint32_t e = 0; e < r->hp->head_dim; e++) {
            uint8_t *k = r->cache[p].k + ((size_t)e * r->c->n_cache + n_past) * es;
            for (uint32_t i = 0; i < n; i++) {
                if (path[i] != (int32_t)i)
                    memcpy(k + i * es, k + (size_t)path[i] * es, es);
            }
        }
    }
}

/* --- presets ---------------------------------------------------------------------------------- */

static int32_t code_of(float v, const encoding *c, int32_t low, int32_t high)
{
    const float code = roundf(v / c->scale) - (float)c->offset;
    return !(code > (float)low) ? low : code > (float)high ? high : (int32_t)code;
}

static void put_value(const fy_chain_run *r, void *cache, size_t at, float v, const encoding *c)
{
    if (r->kv == FY_EL_U8)
        ((uint8_t *)cache)[at] = (uint8_t)code_of(v, c, 0, UINT8_MAX);
    else if (r->kv == FY_EL_S16)
        ((int16_t *)cache)[at] = (int16_t)code_of(v, c, INT16_MIN, INT16_MAX);
    else if (r->kv == FY_EL_F16)
        ((uint16_t *)cache)[at] = fy_f32_to_f16(v);
    else
        ((float *)cache)[at] = v;
}

void fy_chain_run_preset(fy_chain_run *r)
{
    static const encoding none = {0};
    const fy_chain_preset *p = &r->c->preset;
    const size_t n_cache = r->c->n_cache, k_dim = r->hp->head_dim, v_dim = r->hp->head_dim_v;
    for (size_t i = 0; i < p->n_pairs; i++) {
        const encoding *c = r->encodings != NULL ? &r->encodings[2 * i] : NULL;
        for (size_t t = 0; t < p->n; t++) {
            for (size_t e = 0; e < k_dim; e++)
                put_value(r, r->cache[i].k, e * n_cache + t, p->keys[i][t * k_dim + e],
                          c != NULL ? &c[0] : &none);
            for (size_t e = 0; e < v_dim; e++)
                put_value(r, r->cache[i].v, t * v_dim + e, p->values[i][t * v_dim + e],
                          c != NULL ? &c[1] : &none);
        }
    }
}

static float value_at(const fy_chain_run *r, const void *cache, size_t at, const encoding *c)
{
    if (r->kv == FY_EL_U8)
        return c->scale * (float)(((const uint8_t *)cache)[at] + c->offset);
    if (r->kv == FY_EL_S16)
        return c->scale * (float)(((const int16_t *)cache)[at] + c->offset);
    return r->kv == FY_EL_F16 ? fy_f16_to_f32(((const uint16_t *)cache)[at])
                              : ((const float *)cache)[at];
}

void fy_chain_run_cached(const fy_chain_run *r, uint32_t layer, uint32_t head, bool values,
                         uint32_t n, float *out)
{
    const size_t i = (size_t)layer * r->hp->n_head_kv + head, n_cache = r->c->n_cache;
    const size_t dim = values ? r->hp->head_dim_v : r->hp->head_dim;
    const encoding *c = r->encodings != NULL ? &r->encodings[2 * i + values] : NULL;
    const size_t first = fy_chain_first_position(r->c);
    for (size_t t = 0; t < n; t++) {
        for (size_t e = 0; e < dim; e++)
            out[t * dim + e] = values ? value_at(r, r->cache[i].v, (first + t) * dim + e, c)
                                      : value_at(r, r->cache[i].k, e * n_cache + first + t, c);
    }
}

/* --- a call ----------------------------------------------------------------------------------- */

float *fy_chain_run_x(fy_chain_run *r)
{
    return r->hidden[0];
}

static int run_timed(fy_chain_run *r, size_t graph, fy_err *e)
{
    fy_chain_time *t = &r->times[r->c->graphs[graph].chunk];
    const size_t n = r->c->n_graphs;
    const bool second = graph < r->c->n_layer_graphs && r->states.reads == 1;
    const double begin = fy_now_s();
    const int rc = r->c->device->api->run(r->graphs[second ? n + graph : graph], e);
    t->seconds += fy_now_s() - begin;
    t->n_calls++;
    return rc;
}

fy_chain_time fy_chain_run_time(const fy_chain_run *r, size_t chunk)
{
    return r->times[chunk];
}

/* A graph that lost the NPU runs again, alone: its inputs are what they were, as no graph writes
 * where it reads. */
static int run_graph(fy_chain_run *r, size_t graph, fy_err *e)
{
    fy_err why = {0}, again = {0};
    if (run_timed(r, graph, &why) == 0)
        return 0;
    if (fy_chain_recover(r->c, &why, e) != 0)
        return -1;
    if (run_timed(r, graph, &again) == 0)
        return 0;
    if (again.code == FY_ELOST)
        fy_ctx(&again, "the NPU is lost twice at the same place: it is the graph, not the phone");
    return fy_fail(e, again.code, "%s", again.msg);
}

static int show(const fy_chain_call *call, uint32_t layer, const float *x, fy_err *e)
{
    return call->show != NULL ? call->show(call->user, layer, x, call->first, call->n, e) : 0;
}

/* What the graphs of a call read beside x and what is in caches or states. */
static void prepare_attention(fy_chain_run *r, const fy_chain_call *call, uint32_t n_batch)
{
    if (call->tree != NULL)
        fy_chain_masks_tree(&r->masks, call->n_past, call->tree, call->n, n_batch);
    else
        fy_chain_masks_follow(&r->masks, call->n_past);
    fill_tables(r, 0, call->angles, call->n);
    fill_tables(r, 1, call->angles_swa, call->n);
    fill_tables(r, 2, call->angles_q, call->n);
}

static void prepare_states(fy_chain_run *r, const fy_chain_call *call, uint32_t n_batch)
{
    for (uint32_t i = 0; i < n_batch; i++) {
        r->token_mask[i] = i < call->n ? 1 : 0;
        r->token_last[i] = i + 1 == call->n ? 1 : 0;
    }
    fy_chain_states_begin(&r->states, call->state_from, call->state_to, call->n_past == 0);
}

float *fy_chain_run_layers(fy_chain_run *r, const fy_chain_call *call, fy_err *e)
{
    const fy_chain *c = r->c;
    size_t i = pick(c, 0, c->n_layer_graphs, call->n), step = 0;
    const uint32_t n_batch = c->graphs[i].n_batch;
    const uint32_t slot = call->n_past + (call->tree != NULL ? (uint32_t)call->tree->first : 0);
    const bool states = fy_graph_has_states(r->hp);
    assert(call->n <= n_batch && (states || call->n <= c->n_cache - slot));
    pad(r->hidden[0], call->n, n_batch, r->hp->n_embd);
    if (states)
        prepare_states(r, call, n_batch);
    else
        prepare_attention(r, call, n_batch);
    for (; i < c->n_layer_graphs && c->graphs[i].n_batch == n_batch; i++, step++) {
        const fy_chunk_info *info = fy_chain_info_of(c, i);
        if (show(call, info->first_layer, r->hidden[step % 2], e) != 0 || run_graph(r, i, e) != 0)
            return NULL;
        if (!states)
            store(r, info, call->n, slot);
    }
    if (states)
        fy_chain_states_end(&r->states, call->state_to);
    float *x = r->hidden[step % 2];
    return show(call, r->hp->n_layer, x, e) == 0 ? x : NULL;
}

/* One call of the lm_head: all slices of a batch size. */
static int run_slices(fy_chain_run *r, size_t i, uint32_t n, float *logits, fy_err *e)
{
    const fy_chain *c = r->c;
    const uint32_t n_batch = c->graphs[i].n_batch;
    for (; i < c->n_graphs && c->graphs[i].n_batch == n_batch; i++) {
        const fy_chunk_info *info = fy_chain_info_of(c, i);
        const size_t len = info->end_token - info->first_token;
        if (run_graph(r, i, e) != 0)
            return -1;
        for (size_t t = 0; t < n; t++)
            memcpy(logits + t * r->hp->n_vocab + info->first_token, r->head_logits + t * len,
                   len * sizeof *logits);
    }
    return 0;
}

int fy_chain_run_head(fy_chain_run *r, const float *x, uint32_t n, float *logits, fy_err *e)
{
    const fy_chain *c = r->c;
    const size_t len = r->hp->n_embd;
    for (uint32_t done = 0; done < n;) {
        const size_t i = pick(c, c->n_layer_graphs, c->n_graphs, n - done);
        const uint32_t n_batch = c->graphs[i].n_batch, left = n - done,
                       count = left < n_batch ? left : n_batch;
        memcpy(r->head_x, x + done * len, count * len * sizeof *x);
        pad(r->head_x, count, n_batch, r->hp->n_embd);
        if (run_slices(r, i, count, logits + (size_t)done * r->hp->n_vocab, e) != 0)
            return -1;
        done += count;
    }
    return 0;
}
