/* "chunks": the graphs of a cut model on the CPU, with the engine's decoder. It has nothing but
 * what an NPU would have: the tensors of arch/graph_io.h. What a token sees is what its mask shows,
 * how it rotates is what the RoPE tables hold, and what came before it is what the host wrote into
 * the cache, or what the states hold. So a host that runs on it has done everything right.
 *
 * A mask is computed where every row shows one run of columns that ends with the row's own token,
 * over columns that some row shows, or a run and then a path of a tree; another one is refused when
 * the graph runs. Sums have the order of the engine's, and the results its bits. */
#include "model/chain.h"

#include <stdlib.h>
#include <string.h>

#include "arch/graph_io.h"
#include "backend/backend_cpu.h"
#include "base/arena.h"
#include "base/math.h"
#include "base/log.h"
#include "model/decoder.h"

/* --- masks: what a graph's mask shows, as attention on the CPU wants it. Columns get ranks: those
 * of the cache that some row shows, and those hidden from all in front of them, then the tokens of
 * the call. Rows show one run of ranks each that ends with the row's own token; or some do not, and
 * then the ranks up to the first hole of any row are a trunk, and those after it nodes of a tree,
 * of which each row shows one path --- */

typedef struct {
    int32_t *slots;  /* [n_cache] the column of a rank */
    uint8_t *shown;  /* [n_cache] scratch */
    fy_place *at;    /* [n_batch] the rank of a token of the call; of a tree its place */
    fy_place *row;   /* [n_batch] its rank */
    int32_t *first;  /* [n_batch] the first rank that it sees */
    int32_t *parent; /* [n_cache + n_batch] of nodes */
    int64_t n_slots, first_shown; /* ranks of the cache; of them hidden from all */
    int64_t trunk;                /* ranks before the first hole of any row, at most n_slots */
    bool is_tree;
    fy_token_tree tree;
} graph_mask;

enum { NOT_KNOWN = -2 }; /* of a parent */

typedef struct {
    const char *name;     /* for messages */
    const uint16_t *bits; /* f16 [n_batch][n_ctx] */
    uint16_t hidden;      /* f16 */
    uint32_t n_batch, n_cache, n_ctx;
} mask_in;

static void mask_lay_out(graph_mask *m, uint32_t n_batch, uint32_t n_cache, fy_layout *c)
{
    *m = (graph_mask){0};
    m->slots = fy_lay_out(c, n_cache, 1, sizeof *m->slots);
    m->shown = fy_lay_out(c, n_cache, 1, sizeof *m->shown);
    m->at = fy_lay_out(c, n_batch, 1, sizeof *m->at);
    m->row = fy_lay_out(c, n_batch, 1, sizeof *m->row);
    m->first = fy_lay_out(c, n_batch, 1, sizeof *m->first);
    m->parent = fy_lay_out(c, (uint64_t)n_cache + n_batch, 1, sizeof *m->parent);
}

static bool is_shown(uint16_t bits)
{
    return (bits & 0x7fff) == 0;
}

static bool only_shows_or_hides(const uint16_t *row, uint32_t n, uint16_t hidden)
{
    bool odd = false;
    for (uint32_t c = 0; c < n; c++)
        odd |= row[c] != hidden && (row[c] & 0x7fff) != 0;
    return !odd;
}

static void find_slots(graph_mask *m, const mask_in *in)
{
    memset(m->shown, 0, in->n_cache);
    for (uint32_t r = 0; r < in->n_batch; r++) {
        const uint16_t *row = in->bits + (size_t)r * in->n_ctx;
        for (uint32_t c = 0; c < in->n_cache; c++)
            m->shown[c] |= is_shown(row[c]);
    }
    const uint8_t *first = memchr(m->shown, 1, in->n_cache);
    m->first_shown = first != NULL ? first - m->shown : 0;
    m->n_slots = 0;
    for (uint32_t c = 0; first != NULL && c < in->n_cache; c++) {
        if (c < m->first_shown || m->shown[c])
            m->slots[m->n_slots++] = (int32_t)c;
    }
}

static bool sees(const graph_mask *m, const mask_in *in, uint32_t r, int64_t rank)
{
    const uint16_t *row = in->bits + (size_t)r * in->n_ctx;
    return is_shown(rank < m->n_slots ? row[m->slots[rank]]
                                      : row[in->n_cache + (rank - m->n_slots)]);
}

static int fail_row(const mask_in *in, uint32_t r, fy_err *e)
{
    return fy_fail(e, FY_EUNSUPPORTED,
                   "%s, row %u: the columns that it shows are not one run that ends with its own "
                   "token (column %u), nor a path of a tree; the CPU computes no other mask",
                   in->name, r, in->n_cache + r);
}

static int read_row(graph_mask *m, const mask_in *in, uint32_t r, fy_err *e)
{
    const uint16_t *row = in->bits + (size_t)r * in->n_ctx;
    const int64_t self = m->n_slots + r;
    int64_t rank = m->first_shown;
    if (!only_shows_or_hides(row, in->n_ctx, in->hidden))
        return fy_fail(e, FY_EUNSUPPORTED,
                       "%s, row %u: expected 0 or the value that hides (attention_mask_value) in "
                       "every column",
                       in->name, r);
    while (rank < self && !sees(m, in, r, rank))
        rank++;
    m->at[r] = m->row[r] = (fy_place){0, (int32_t)self};
    m->first[r] = (int32_t)rank;
    while (rank <= self && sees(m, in, r, rank))
        rank++;
    m->is_tree |= rank <= self;
    m->trunk = rank < m->trunk ? rank : m->trunk;
    bool odd = !sees(m, in, r, self);
    for (uint32_t c = in->n_cache + r + 1; c < in->n_ctx; c++)
        odd |= is_shown(row[c]);
    return odd ? fail_row(in, r, e) : 0;
}

/* Of the nodes that a row shows, each follows the one before it. */
static int read_path(graph_mask *m, const mask_in *in, uint32_t r, fy_err *e)
{
    const int64_t self = m->n_slots + r;
    int32_t before = m->first[r] < m->trunk ? -1 : NOT_KNOWN;
    for (int64_t rank = m->trunk; rank <= self; rank++) {
        const int32_t node = (int32_t)(rank - m->trunk);
        if (!sees(m, in, r, rank))
            continue;
        if (before != NOT_KNOWN && m->parent[node] == NOT_KNOWN)
            m->parent[node] = before;
        if (before != NOT_KNOWN && m->parent[node] != before)
            return fail_row(in, r, e);
        before = node;
    }
    return 0;
}

/* Where a row stands, and what it sees first: as deep in the tree as its path is long, of which a
 * window may hide the beginning. */
static void place_row(graph_mask *m, const mask_in *in, uint32_t r)
{
    const int64_t self = m->n_slots + r;
    int32_t pos = (int32_t)m->trunk, n_seen = 0;
    for (int32_t node = m->parent[self - m->trunk]; node >= 0; node = m->parent[node])
        pos++;
    for (int64_t rank = m->trunk; rank <= self; rank++)
        n_seen += sees(m, in, r, rank);
    m->at[r].pos = pos;
    if (m->first[r] >= m->trunk)
        m->first[r] = pos - n_seen + 1;
}

static int read_tree(graph_mask *m, const mask_in *in, fy_err *e)
{
    const int64_t n_nodes = m->n_slots - m->trunk + in->n_batch;
    for (int64_t i = 0; i < n_nodes; i++)
        m->parent[i] = NOT_KNOWN;
    for (uint32_t r = 0; r < in->n_batch; r++) {
        if (read_path(m, in, r, e) != 0)
            return -1;
    }
    for (int64_t i = 0; i < n_nodes; i++)
        m->parent[i] = m->parent[i] == NOT_KNOWN ? -1 : m->parent[i];
    for (uint32_t r = 0; r < in->n_batch; r++)
        place_row(m, in, r);
    m->tree = (fy_token_tree){.n_past = (int32_t)m->trunk,
                              .first = (int32_t)(m->n_slots - m->trunk),
                              .parent = m->parent};
    return 0;
}

static int mask_read(graph_mask *m, const mask_in *in, fy_err *e)
{
    find_slots(m, in);
    m->trunk = m->n_slots;
    m->is_tree = false;
    for (uint32_t r = 0; r < in->n_batch; r++) {
        if (read_row(m, in, r, e) != 0)
            return -1;
    }
    return m->is_tree ? read_tree(m, in, e) : 0;
}

/* --- the device --- */

enum { N_MASKS = 2 };

typedef struct {
    fy_graph_device base;
    fy_map_options how;
    fy_backend *backend; /* owned; this and all that follows: between begin and end */
    uint8_t *memory;     /* owned: */
    fy_activations act;
    graph_mask masks[N_MASKS]; /* without and with the window */
    fy_kv_layer kv;            /* the rows of one layer */
    float *state;              /* the state of one layer, as the engine has it */
    /* of all graphs that are bound */
    fy_hparams hp; /* of the first chunk; the others agree where memory depends on it */
    int64_t q8_len, ff_len;
    uint32_t n_batch, n_cache;
    fy_type kv_type;
    bool has_chunk, has_cache;
} device;

struct fy_graph_chunk {
    device *d;       /* view */
    fy_model *model; /* owned */
};

struct fy_graph {
    const fy_graph_chunk *chunk; /* view */
    fy_graph_shape shape;
    uint16_t hidden;             /* f16: what a mask hides with */
    void **buffers;              /* owned: [fy_graph_n_io] */
    uint32_t first[FY_IO_COUNT]; /* the first tensor of a role, if `has` it */
    bool has[FY_IO_COUNT];
};

/* --- chunks ----------------------------------------------------------------------------------- */

static int check_chunk(const fy_model *m, const fy_graph_file *f, fy_err *e)
{
    const bool head = f->first_layer == f->end_layer;
    const fy_chunk_info *is = &m->chunk;
    const fy_chunk_info want = {.kind = head ? FY_CHUNK_HEAD : FY_CHUNK_LAYERS,
                                .first_layer = f->first_layer,
                                .end_layer = f->end_layer,
                                .first_token = f->first_token,
                                .end_token = f->end_token};
    char a[FY_CHUNK_TEXT_BYTES], b[FY_CHUNK_TEXT_BYTES];
    if (!fy_chunk_same_range(is, &want))
        return fy_fail(e, FY_EFORMAT, "%s: holds %s, expected %s", f->path,
                       fy_chunk_text(is, &m->hp, a), fy_chunk_text(&want, &m->hp, b));
    if (f->model[0] != '\0' && strcmp(f->model, is->model) != 0)
        return fy_fail(e, FY_EFORMAT,
                       "%s: is a chunk of model %.16s..., expected %.16s...: chunks of two cuts",
                       f->path, is->model, f->model);
    return 0;
}

fy_model *fy_graph_open_chunk(const fy_graph_file *f, const fy_map_options *map, fy_err *e)
{
    fy_model *m = fy_model_open_chunk(f->path, map, e);
    if (m == NULL || check_chunk(m, f, e) == 0)
        return m;
    fy_model_close(m);
    return NULL;
}

/* Do they agree on what sizes the memory that all chunks work in? */
static bool same_sizes(const fy_hparams *a, const fy_hparams *b)
{
    return a->n_embd == b->n_embd && a->n_head == b->n_head && a->n_head_kv == b->n_head_kv &&
           a->head_dim == b->head_dim && a->head_dim_v == b->head_dim_v && a->n_rot == b->n_rot &&
           a->parallel == b->parallel && a->wkv_head == b->wkv_head &&
           a->n_rank_mix == b->n_rank_mix && a->n_rank_decay == b->n_rank_decay &&
           a->n_rank_iclr == b->n_rank_iclr && a->n_rank_value == b->n_rank_value &&
           a->n_rank_gate == b->n_rank_gate &&
           (a->rope_theta_swa != 0) == (b->rope_theta_swa != 0) &&
           (a->temp_scale != 0) == (b->temp_scale != 0) && a->n_expert == 0 && b->n_expert == 0;
}

static fy_graph_chunk *load(fy_graph_device *base, const fy_graph_file *f, fy_err *e)
{
    device *d = (device *)(void *)base;
    fy_graph_chunk *p = calloc(1, sizeof *p);
    if (p == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *p = (fy_graph_chunk){.d = d, .model = fy_graph_open_chunk(f, &d->how, e)};
    if (p->model == NULL)
        goto fail;
    const fy_model *m = p->model;
    if (!d->has_chunk)
        d->hp = m->hp;
    d->has_chunk = true;
    if (!same_sizes(&d->hp, &m->hp)) {
        fy_fail(e, FY_EFORMAT, "%s: its keys (heads, embedding_length) differ from the others'",
                f->path);
        goto fail;
    }
    d->q8_len = m->q8_len > d->q8_len ? m->q8_len : d->q8_len;
    d->ff_len = m->ff_len > d->ff_len ? m->ff_len : d->ff_len;
    return p;
fail:
    fy_model_close(p->model);
    free(p);
    return NULL;
}

static void unload(fy_graph_chunk *p)
{
    if (p == NULL)
        return;
    fy_model_close(p->model);
    free(p);
}

/* --- graphs ----------------------------------------------------------------------------------- */

static int check_tensor(const fy_graph_binding *b, uint32_t i, const fy_io_tensor *want, fy_err *e)
{
    const fy_graph_tensor *t = &b->tensors[i];
    const fy_element type = want->element_bytes == 4 ? FY_EL_F32 : FY_EL_F16;
    if (strcmp(t->name, want->name) == 0 && t->output == (want->role >= FY_IO_OUT) &&
        t->rows == want->rows && t->cols == want->cols && t->type == type)
        return 0;
    return fy_fail(e, FY_EFORMAT,
                   "graph '%s': tensor %u is '%s' [%llu, %llu] of %s, expected '%s' [%llu, %llu] "
                   "of %s",
                   b->name, i, t->name, (unsigned long long)t->rows, (unsigned long long)t->cols,
                   fy_element_name(t->type), want->name, (unsigned long long)want->rows,
                   (unsigned long long)want->cols, fy_element_name(type));
}

int fy_graph_check_tensors(const fy_graph_shape *shape, const fy_graph_binding *b, fy_err *e)
{
    const uint32_t n = fy_graph_n_io(shape);
    if (n != b->n_tensors)
        return fy_fail(e, FY_EFORMAT, "graph '%s': %u tensors, expected %u", b->name, b->n_tensors,
                       n);
    for (uint32_t i = 0; i < n; i++) {
        fy_io_tensor want;
        fy_graph_io(shape, i, &want);
        if (check_tensor(b, i, &want, e) != 0)
            return -1;
    }
    return 0;
}

static int bind_tensors(fy_graph *g, const fy_graph_binding *b, fy_err *e)
{
    if (fy_graph_check_tensors(&g->shape, b, e) != 0)
        return -1;
    for (uint32_t i = 0; i < b->n_tensors; i++) {
        fy_io_tensor io;
        fy_graph_io(&g->shape, i, &io);
        if (!g->has[io.role])
            g->first[io.role] = i;
        g->has[io.role] = true;
    }
    g->buffers = calloc(b->n_tensors, sizeof *g->buffers);
    if (g->buffers == NULL)
        return fy_nomem(e);
    memcpy(g->buffers, b->buffers, b->n_tensors * sizeof *g->buffers);
    return 0;
}

static fy_type type_of(fy_element t)
{
    return t == FY_EL_F32 ? FY_F32 : FY_F16;
}

/* The type of the caches, as the first of them says; a graph without them has any. */
static fy_type cache_type(const fy_graph_binding *b)
{
    for (uint32_t i = 0; i < b->n_tensors; i++) {
        if (strstr(b->tensors[i].name, "_value_") != NULL)
            return type_of(b->tensors[i].type);
    }
    return FY_F16;
}

static void unbind(fy_graph *g)
{
    if (g == NULL)
        return;
    free(g->buffers);
    free(g);
}

static fy_graph *bind(fy_graph_chunk *p, const fy_graph_binding *b, fy_err *e)
{
    device *d = p->d;
    const fy_model *m = p->model;
    const fy_type type = fy_graph_has_states(&m->hp) ? FY_F32 : cache_type(b);
    fy_graph *g = calloc(1, sizeof *g);
    if (g == NULL) {
        fy_nomem(e);
        return NULL;
    }
    g->chunk = p;
    g->shape = (fy_graph_shape){.hp = &m->hp,
                                .chunk = &m->chunk,
                                .n_batch = b->n_batch,
                                .n_cache = b->n_cache,
                                .n_ctx = b->n_ctx,
                                .kv_bytes = type == FY_F32 ? sizeof(float) : sizeof(uint16_t)};
    fy_kernels_for(0).f32_to_f16(&g->hidden, &b->mask_value, 1);
    const bool layers = m->chunk.kind == FY_CHUNK_LAYERS;
    int rc = bind_tensors(g, b, e);
    if (rc == 0 && layers && d->has_cache && type != d->kv_type)
        rc = fy_fail(e, FY_EFORMAT, "graph '%s': a cache of %s, expected %s as of the others",
                     b->name, fy_type_name(type), fy_type_name(d->kv_type));
    if (rc != 0) {
        fy_ctx(e, "%s", fy_gguf_path(m->gguf));
        unbind(g);
        return NULL;
    }
    d->n_batch = b->n_batch > d->n_batch ? b->n_batch : d->n_batch;
    d->n_cache = b->n_cache > d->n_cache ? b->n_cache : d->n_cache;
    if (layers) {
        d->kv_type = type;
        d->has_cache = true;
    }
    return g;
}

/* --- memory ----------------------------------------------------------------------------------- */

static void lay_out(device *d, fy_layout *c)
{
    const uint64_t n_rows = (uint64_t)d->n_cache + d->n_batch, heads = d->hp.n_head_kv;
    if (fy_graph_has_states(&d->hp)) {
        fy_activations_lay_out(&d->act, &d->hp, d->n_batch, (uint64_t)d->ff_len, c);
        d->state = fy_lay_out(c, 1, fy_state_len(&d->hp), sizeof *d->state);
        return;
    }
    d->kv = (fy_kv_layer){.type_k = d->kv_type,
                          .type_v = d->kv_type,
                          .n_rows = (int64_t)n_rows,
                          .n_head_kv = d->hp.n_head_kv,
                          .head_dim = d->hp.head_dim,
                          .head_dim_v = d->hp.head_dim_v};
    fy_activations_lay_out(&d->act, &d->hp, d->n_batch, (uint64_t)d->ff_len, c);
    for (int i = 0; i < N_MASKS; i++)
        mask_lay_out(&d->masks[i], d->n_batch, d->n_cache, c);
    d->kv.k = fy_lay_out(c, n_rows * heads, d->hp.head_dim, fy_type_row_bytes(d->kv_type, 1));
    d->kv.v = fy_lay_out(c, n_rows * heads, d->hp.head_dim_v, fy_type_row_bytes(d->kv_type, 1));
}

static void end(fy_graph_device *base)
{
    device *d = (device *)(void *)base;
    fy_backend_free(d->backend);
    free(d->memory);
    d->backend = NULL;
    d->memory = NULL;
    d->n_batch = d->n_cache = 0;
    d->has_cache = false;
}

static fy_backend_params backend_params(const device *d, int n_threads)
{
    const fy_hparams *hp = &d->hp;
    return (fy_backend_params){.n_threads = n_threads,
                               .n_tokens = d->n_batch,
                               .q8_len = d->q8_len,
                               .head_dim =
                                   hp->head_dim > hp->head_dim_v ? hp->head_dim : hp->head_dim_v};
}

static int begin_bytes(const fy_graph_device *base, const fy_graph_binding *largest, fy_element kv,
                       int n_threads, uint64_t *bytes, fy_err *e)
{
    device counted = *(const device *)(const void *)base;
    counted.n_batch = largest->n_batch;
    counted.n_cache = largest->n_cache;
    counted.kv_type = type_of(kv);
    const fy_backend_params p = backend_params(&counted, n_threads);
    fy_layout c = {0};
    lay_out(&counted, &c);
    if (fy_backend_bytes(&p, bytes, e) != 0)
        return -1;
    return !c.overflow && fy_add_u64(*bytes, c.used, bytes)
               ? 0
               : fy_fail(e, FY_EFIT, "activations of %u tokens do not fit the address space",
                         largest->n_batch);
}

static int begin(fy_graph_device *base, int n_threads, fy_err *e)
{
    device *d = (device *)(void *)base;
    const fy_backend_params p = backend_params(d, n_threads);
    fy_layout c = {0};
    lay_out(d, &c);
    if (c.overflow || c.used > SIZE_MAX / 2 ||
        (d->memory = aligned_alloc(FY_LAYOUT_ALIGN, (size_t)c.used)) == NULL)
        return fy_fail(e, FY_EFIT, "out of memory: activations of %u tokens take %llu MB",
                       d->n_batch, (unsigned long long)(c.used >> 20));
    c = (fy_layout){.base = d->memory};
    lay_out(d, &c);
    d->backend = fy_backend_new(&p, e);
    if (d->backend != NULL)
        return 0;
    end(base);
    return -1;
}

static void close_device(fy_graph_device *base)
{
    if (base == NULL)
        return;
    end(base);
    free(base);
}

/* --- running ---------------------------------------------------------------------------------- */

static void *buffer(const fy_graph *g, fy_io_role role)
{
    return g->has[role] ? g->buffers[g->first[role]] : NULL;
}

/* The tensor of a layer's KV head 0; those of the other heads follow, keys and values in turn. */
static void *const *layer_buffers(const fy_graph *g, fy_io_role role, uint32_t layer)
{
    const uint32_t each = 2 * g->shape.hp->n_head_kv;
    return g->buffers + g->first[role] + (layer - g->shape.chunk->first_layer) * each;
}

static int read_masks(const fy_graph *g, device *d, fy_err *e)
{
    static const struct {
        fy_io_role role;
        const char *name;
    } masks[N_MASKS] = {{FY_IO_BIAS, "attn_bias"}, {FY_IO_BIAS_SWA, "attn_bias_swa"}};
    for (int i = 0; i < N_MASKS; i++) {
        const mask_in in = {.name = masks[i].name,
                            .bits = buffer(g, masks[i].role),
                            .hidden = g->hidden,
                            .n_batch = g->shape.n_batch,
                            .n_cache = g->shape.n_cache,
                            .n_ctx = g->shape.n_ctx};
        if (in.bits != NULL && mask_read(&d->masks[i], &in, e) != 0)
            return -1;
    }
    return 0;
}

/* Cosines and sines, side by side as the decoder has them. */
static void read_angles(const fy_graph *g, fy_io_role cos, fy_io_role sin, float *to)
{
    const float *c = buffer(g, cos), *s = buffer(g, sin);
    const size_t n = (size_t)g->shape.n_batch * (g->shape.hp->n_rot / 2);
    for (size_t i = 0; c != NULL && i < n; i++) {
        to[2 * i] = c[i];
        to[2 * i + 1] = s[i];
    }
}

/* The keys and values of the call's tokens, which the layer has put after those of the cache. */
static void write_keys(const fy_graph *g, const device *d, uint32_t layer, int64_t rank)
{
    const fy_kv_layer *kv = &d->kv;
    const size_t k_row = (size_t)fy_type_row_bytes(kv->type_k, (uint64_t)kv->head_dim);
    const size_t v_row = (size_t)fy_type_row_bytes(kv->type_v, (uint64_t)kv->head_dim_v);
    void *const *out = layer_buffers(g, FY_IO_KEY, layer);
    for (int64_t h = 0; h < kv->n_head_kv; h++) {
        const size_t row = (size_t)(h * kv->n_rows + rank);
        memcpy(out[2 * h], (const uint8_t *)kv->k + row * k_row, g->shape.n_batch * k_row);
        memcpy(out[2 * h + 1], (const uint8_t *)kv->v + row * v_row, g->shape.n_batch * v_row);
    }
}

static void run_layer(const fy_graph *g, device *d, fy_decoder *dec, uint32_t layer)
{
    const graph_mask *m = &d->masks[fy_layer_has_window(g->shape.hp, layer)];
    const fy_graph_cache cache = {.cache = layer_buffers(g, FY_IO_KEY_CACHE, layer),
                                  .n_slots = g->shape.n_cache,
                                  .slots = m->slots,
                                  .first = m->first_shown,
                                  .end = m->n_slots};
    dec->act.at = m->at;
    dec->act.row = m->row;
    dec->act.first = m->first;
    dec->act.tree = m->is_tree ? &m->tree : NULL;
    fy_backend_load_cache(d->backend, &d->kv, &cache);
    fy_decoder_layer(dec, layer, &d->kv, NULL, FY_WHOLE, g->shape.n_batch);
    write_keys(g, d, layer, m->n_slots);
}

/* --- layers with states --- */

/* How many tokens the call has; the rest is padding. */
static int count_tokens(const fy_graph *g, uint32_t *n, fy_err *e)
{
    const float *mask = buffer(g, FY_IO_TOKEN_MASK), *last = buffer(g, FY_IO_TOKEN_LAST);
    const uint32_t n_batch = g->shape.n_batch;
    bool odd = false;
    *n = 1;
    if (mask == NULL)
        return 0;
    while (*n < n_batch && mask[*n] == 1)
        ++*n;
    for (uint32_t i = 0; i < n_batch; i++)
        odd |= mask[i] != (i < *n ? 1 : 0) || (last != NULL && last[i] != (i + 1 == *n ? 1 : 0));
    return odd ? fy_fail(
                     e, FY_EUNSUPPORTED,
                     "token_mask and token_last: expected 1 for each token of the call and 0 for "
                     "the padding after it, and 1 for the last token alone")
               : 0;
}

/* A layer's state between its tensors and the engine's memory: inputs of both mixes, then heads. */
static void move_state(const fy_graph *g, float *state, uint32_t layer, bool out)
{
    const size_t width = g->shape.hp->n_embd, heads = width * g->shape.hp->wkv_head;
    const size_t at[] = {0, 2 * width, width}, len[] = {width, heads, width};
    const fy_io_role role = out ? FY_IO_STATE_OUT : FY_IO_STATE;
    void *const *part =
        g->buffers + g->first[role] + (layer - g->shape.chunk->first_layer) * FY_STATE_PARTS;
    for (int i = 0; i < FY_STATE_PARTS; i++) {
        if (out)
            memcpy(part[i], state + at[i], len[i] * sizeof *state);
        else
            memcpy(state + at[i], part[i], len[i] * sizeof *state);
    }
}

static void run_state_layer(const fy_graph *g, device *d, fy_decoder *dec, uint32_t layer,
                            uint32_t n)
{
    static const uint8_t here = 0; /* the state is changed where it is */
    const fy_state_view view = {
        .memory = d->state, .half_len = 0, .len = 0, .from = &here, .to = &here};
    move_state(g, d->state, layer, false);
    fy_decoder_layer(dec, layer, &d->kv, &view, FY_WHOLE, n);
    move_state(g, d->state, layer, true);
}

/* Rows of padding are zeros: nobody reads them. */
static void give_rows(const fy_graph *g, fy_io_role role, const float *x, uint32_t n)
{
    const size_t width = g->shape.hp->n_embd;
    float *to = buffer(g, role);
    memcpy(to, x, n * width * sizeof *x);
    memset(to + n * width, 0, (g->shape.n_batch - n) * width * sizeof *x);
}

static int run_state_layers(const fy_graph *g, device *d, fy_decoder *dec, fy_err *e)
{
    const fy_chunk_info *info = g->shape.chunk;
    const size_t width = g->shape.hp->n_embd;
    uint32_t n;
    if (count_tokens(g, &n, e) != 0)
        return fy_ctx(e, "%s", fy_gguf_path(g->chunk->model->gguf));
    for (uint32_t i = 0; i < n; i++) /* after another token: the state has what was before */
        dec->act.at[i] = (fy_place){0, (int32_t)i + 1};
    memcpy(dec->act.x, buffer(g, FY_IO_X), n * width * sizeof(float));
    if (g->has[FY_IO_V_FIRST])
        memcpy(dec->act.rwkv.v_first, buffer(g, FY_IO_V_FIRST), n * width * sizeof(float));
    for (uint32_t layer = info->first_layer; layer < info->end_layer; layer++) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        run_state_layer(g, d, dec, layer, n);
    }
    if (g->has[FY_IO_V_FIRST_OUT])
        give_rows(g, FY_IO_V_FIRST_OUT, dec->act.rwkv.v_first, n);
    give_rows(g, FY_IO_OUT, dec->act.x, n);
    return 0;
}

static int run(fy_graph *g, fy_err *e)
{
    device *d = g->chunk->d;
    const fy_chunk_info *info = g->shape.chunk;
    const uint32_t n = g->shape.n_batch;
    const size_t bytes = (size_t)n * g->shape.hp->n_embd * sizeof(float);
    fy_decoder dec = {.model = g->chunk->model, .backend = d->backend, .act = d->act};
    if (info->kind == FY_CHUNK_HEAD) {
        fy_decoder_head(&dec, buffer(g, FY_IO_X), n, buffer(g, FY_IO_LOGITS));
        return fy_check_interrupt(e);
    }
    if (fy_graph_has_states(g->shape.hp))
        return run_state_layers(g, d, &dec, e);
    if (read_masks(g, d, e) != 0)
        return fy_ctx(e, "%s", fy_gguf_path(g->chunk->model->gguf));
    read_angles(g, FY_IO_COS, FY_IO_SIN, dec.act.angles);
    read_angles(g, FY_IO_COS_SWA, FY_IO_SIN_SWA, dec.act.angles_swa);
    read_angles(g, FY_IO_COS_Q, FY_IO_SIN_Q, dec.act.angles_q);
    memcpy(dec.act.x, buffer(g, FY_IO_X), bytes);
    for (uint32_t layer = info->first_layer; layer < info->end_layer; layer++) {
        if (fy_check_interrupt(e) != 0)
            return -1;
        run_layer(g, d, &dec, layer);
    }
    memcpy(buffer(g, FY_IO_OUT), dec.act.x, bytes);
    return 0;
}

static const fy_graph_backend api = {.name = FY_GRAPH_CPU_NAME,
                                     .close = close_device,
                                     .load = load,
                                     .unload = unload,
                                     .bind = bind,
                                     .unbind = unbind,
                                     .begin_bytes = begin_bytes,
                                     .begin = begin,
                                     .end = end,
                                     .run = run};

fy_graph_device *fy_graph_cpu_open(const fy_map_options *how, fy_err *e)
{
    device *d = calloc(1, sizeof *d);
    if (d == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *d = (device){.base = {.api = &api}, .how = *how};
    return &d->base;
}
