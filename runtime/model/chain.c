/* The graphs of a cut model: their list, their files, and what their tensors are made of. */
#include "model/chain_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arch/graph_io.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/math.h"
#include "kernels/kernels.h"
#include "model/weights.h"

enum { MOST_GRAPHS = 65536 };

/* What hides is far below what a score can be, and f16 knows it. */
static const float HIDES = -1000;

/* --- the list --------------------------------------------------------------------------------- */

static bool is_head(const fy_chain_graph_spec *g)
{
    return g->first_layer == g->end_layer;
}

static int by_place(const void *a, const void *b)
{
    const fy_chain_graph_spec *x = a, *y = b;
    if (is_head(x) != is_head(y))
        return is_head(x) ? 1 : -1;
    if (x->n_batch != y->n_batch)
        return x->n_batch > y->n_batch ? -1 : 1;
    const uint32_t i = is_head(x) ? x->first_token : x->first_layer,
                   j = is_head(y) ? y->first_token : y->first_layer;
    return (i > j) - (i < j);
}

/* Each batch size covers [0, end), in order. Returns the index after the last graph of the kind, 0
 * on failure. */
static size_t check_cover(const fy_chain_graph_spec *g, size_t i, size_t n, uint32_t end, fy_err *e)
{
    const bool head = is_head(&g[i]);
    uint32_t next = end, batch = 0;
    for (; i < n && is_head(&g[i]) == head; i++) {
        const uint32_t first = head ? g[i].first_token : g[i].first_layer;
        const uint32_t behind = head ? g[i].end_token : g[i].end_layer;
        if (next == end && g[i].n_batch != batch) {
            batch = g[i].n_batch;
            next = 0;
        }
        if (g[i].n_batch != batch || first != next || behind <= first || behind > end) {
            next = 0;
            break;
        }
        next = behind;
    }
    if (next == end)
        return i;
    fy_fail(e, FY_EFORMAT, "the graphs of batch size %u do not cover the model's %u %s, each once",
            batch, end, head ? "tokens" : "layers");
    return 0;
}

static int check_spec(const fy_model *m, const fy_chain_spec *s, const fy_chain_graph_spec *g,
                      size_t *n_layer_graphs, fy_err *e)
{
    const char *why = fy_cut_refusal(&m->hp);
    if (why != NULL)
        return fy_fail(e, FY_EUNSUPPORTED, "%s", why);
    *n_layer_graphs = is_head(&g[0]) ? 0 : check_cover(g, 0, s->n_graphs, m->hp.n_layer, e);
    if (*n_layer_graphs == 0)
        return fy_fail(e, FY_EFORMAT, "no graph computes layers");
    if (*n_layer_graphs == s->n_graphs && m->chunk.kind != FY_CHUNK_WHOLE)
        return fy_fail(
            e, FY_EUNSUPPORTED,
            "no graph computes the lm_head, and the weights for the CPU have none: cut the "
            "model with it, or use its whole weights");
    if (*n_layer_graphs < s->n_graphs &&
        check_cover(g, *n_layer_graphs, s->n_graphs, m->hp.n_vocab, e) == 0)
        return -1;
    uint64_t columns = (uint64_t)s->n_cache + g[0].n_batch;
    if (s->n_cache == 0 || columns > s->n_ctx || s->n_ctx > INT32_MAX)
        return fy_fail(e, FY_EFORMAT,
                       "cache_size %u and batch size %u, expected both to fit context_size %u",
                       s->n_cache, g[0].n_batch, s->n_ctx);
    if (!(s->mask_value <= HIDES))
        return fy_fail(e, FY_EFORMAT,
                       "attention_mask_value is %g, expected at most %g: it must hide",
                       (double)s->mask_value, (double)HIDES);
    return 0;
}

int fy_chain_recover(const fy_chain *c, const fy_err *why, fy_err *e)
{
    const fy_graph_backend *api = c->device->api;
    if (why->code != FY_ELOST || api->recover == NULL)
        return fy_fail(e, why->code, "%s", why->msg);
    fy_log(FY_LOG_WARN, "the NPU is lost, everything on it is made anew: %s", why->msg);
    return api->recover(c->device, e) == 0 ? 0 : fy_ctx(e, "the NPU is lost (%s)", why->msg);
}

/* --- chunks ----------------------------------------------------------------------------------- */

static fy_chunk_info info_of_spec(const fy_chain_graph_spec *g)
{
    return (fy_chunk_info){.kind = is_head(g) ? FY_CHUNK_HEAD : FY_CHUNK_LAYERS,
                           .first_layer = is_head(g) ? 0 : g->first_layer,
                           .end_layer = is_head(g) ? 0 : g->end_layer,
                           .first_token = is_head(g) ? g->first_token : 0,
                           .end_token = is_head(g) ? g->end_token : 0};
}

/* The chunk with the graph's file. */
static int find_chunk(fy_chain *c, const fy_chain_graph_spec *g, size_t *out, fy_err *e)
{
    const fy_chunk_info info = info_of_spec(g);
    size_t i = 0;
    while (i < c->n_chunks && strcmp(c->chunks[i].path, g->path) != 0)
        i++;
    *out = i;
    if (i < c->n_chunks)
        return fy_chunk_same_range(&info, &c->chunks[i].info)
                   ? 0
                   : fy_fail(e, FY_EFORMAT, "%s: its graphs are of different layers or tokens",
                             g->path);
    fy_chain_chunk *p = &c->chunks[c->n_chunks++];
    p->info = info;
    p->path = strdup(g->path);
    return p->path != NULL ? 0 : fy_nomem(e);
}

static int load_chunk(const fy_chain *c, fy_chain_chunk *p, const char *model, fy_err *e)
{
    const fy_graph_file file = {.path = p->path,
                                .model = model,
                                .first_layer = p->info.first_layer,
                                .end_layer = p->info.end_layer,
                                .first_token = p->info.first_token,
                                .end_token = p->info.end_token};
    fy_err why = {0};
    p->loaded = c->device->api->load(c->device, &file, &why);
    if (p->loaded == NULL && fy_chain_recover(c, &why, e) == 0)
        p->loaded = c->device->api->load(c->device, &file, e);
    return p->loaded != NULL ? 0 : -1;
}

/* Of what is not loaded yet the largest file: an NPU puts each into the first of its sessions that
 * has room. One that cannot be read is as good as any: loading says why. */
static fy_chain_chunk *largest(const fy_chain *c)
{
    fy_chain_chunk *best = NULL;
    int64_t most = -1;
    for (size_t i = 0; i < c->n_chunks; i++) {
        struct stat st;
        const int64_t bytes = stat(c->chunks[i].path, &st) == 0 ? (int64_t)st.st_size : 0;
        if (c->chunks[i].loaded == NULL && bytes > most) {
            best = &c->chunks[i];
            most = bytes;
        }
    }
    return best;
}

/* NULL for NULL. */
static int copy_name(const char *name, char **to, fy_err *e)
{
    *to = name != NULL ? strdup(name) : NULL;
    return name == NULL || *to != NULL ? 0 : fy_nomem(e);
}

static int load_graphs(fy_chain *c, const fy_chain_graph_spec *g, size_t n, const char *model,
                       fy_err *e)
{
    c->chunks = calloc(n, sizeof *c->chunks);
    c->graphs = calloc(n, sizeof *c->graphs);
    if (c->chunks == NULL || c->graphs == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < n; i++) {
        fy_chain_graph *to = &c->graphs[c->n_graphs++];
        to->n_batch = g[i].n_batch;
        if (find_chunk(c, &g[i], &to->chunk, e) != 0 || copy_name(g[i].name, &to->name, e) != 0 ||
            copy_name(g[i].x_name, &to->x_name, e) != 0 ||
            copy_name(g[i].out_name, &to->out_name, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < c->n_chunks; i++) {
        if (load_chunk(c, largest(c), model, e) != 0)
            return -1;
    }
    return 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

const fy_chunk_info *fy_chain_info_of(const fy_chain *c, size_t graph)
{
    return &c->chunks[c->graphs[graph].chunk].info;
}

fy_graph_shape fy_chain_shape_of(const fy_chain *c, const fy_hparams *hp, size_t graph,
                                 fy_element kv)
{
    return (fy_graph_shape){.hp = hp,
                            .chunk = fy_chain_info_of(c, graph),
                            .n_batch = c->graphs[graph].n_batch,
                            .n_cache = c->n_cache,
                            .n_ctx = c->n_ctx,
                            .kv_bytes = fy_element_bytes(kv)};
}

fy_graph_tensor *fy_chain_tensors_of(const fy_chain *c, const fy_graph_shape *shape, size_t graph,
                                     uint32_t n, fy_err *e)
{
    const fy_chain_graph *g = &c->graphs[graph];
    const fy_graph_backend *api = c->device->api;
    fy_graph_tensor *tensors = calloc(n, sizeof *tensors);
    for (uint32_t i = 0; tensors != NULL && i < n; i++) {
        fy_io_tensor t;
        fy_graph_io(shape, i, &t);
        tensors[i] = (fy_graph_tensor){.type = t.element_bytes == 2 ? FY_EL_F16 : FY_EL_F32,
                                       .output = t.role >= FY_IO_OUT,
                                       .rows = t.rows,
                                       .cols = t.cols};
        const char *own = api->describe == NULL                           ? NULL
                          : t.role == FY_IO_X                             ? g->x_name
                          : t.role == FY_IO_OUT || t.role == FY_IO_LOGITS ? g->out_name
                                                                          : NULL;
        snprintf(tensors[i].name, sizeof tensors[i].name, "%s", own != NULL ? own : t.name);
    }
    if (tensors == NULL)
        fy_nomem(e);
    else if (api->describe == NULL ||
             api->describe(c->chunks[g->chunk].loaded, g->name, tensors, n, e) == 0)
        return tensors;
    free(tensors);
    return NULL;
}

/* What the host has to know of all graphs alike. */
typedef struct {
    bool has_kv, has_mask;
    fy_element kv, mask;
    uint16_t shows, hides;
} common;

static bool learn_tensor(common *k, fy_io_role role, const fy_graph_tensor *t, uint16_t f16_hides)
{
    if (role == FY_IO_BIAS || role == FY_IO_BIAS_SWA) {
        const bool f16 = t->type == FY_EL_F16;
        const uint16_t shows = f16 ? 0 : (uint16_t)-t->offset, hides = f16 ? f16_hides : 0;
        if (!f16 && (t->type != FY_EL_U16 || t->offset >= 0 || t->offset < -UINT16_MAX))
            return false;
        if (!k->has_mask)
            *k = (common){k->has_kv, true, k->kv, t->type, shows, hides};
        return k->mask == t->type && k->shows == shows;
    }
    const bool state = role == FY_IO_STATE || role == FY_IO_STATE_OUT;
    if (state || role == FY_IO_KEY_CACHE || role == FY_IO_VALUE_CACHE || role == FY_IO_KEY ||
        role == FY_IO_VALUE) {
        if (!k->has_kv)
            k->kv = t->type;
        k->has_kv = true;
        return k->kv == t->type && t->type != FY_EL_U16 &&
               (!state || t->type == FY_EL_F32 || t->type == FY_EL_F16);
    }
    return t->type == FY_EL_F32;
}

/* Which types the graphs have: the masks' words and, where the graphs fix it, the caches' type. */
static int learn(fy_chain *c, const fy_hparams *hp, fy_err *e)
{
    common k = {0};
    uint16_t f16_hides;
    int rc = 0;
    fy_kernels_for(0).f32_to_f16(&f16_hides, &c->mask_value, 1);
    for (size_t g = 0; rc == 0 && g < c->n_graphs; g++) {
        const fy_graph_shape shape =
            fy_chain_shape_of(c, hp, g, fy_graph_has_states(hp) ? FY_EL_F32 : FY_EL_F16);
        const uint32_t n = fy_graph_n_io(&shape);
        fy_graph_tensor *t = fy_chain_tensors_of(c, &shape, g, n, e);
        rc = t != NULL ? 0 : -1;
        for (uint32_t i = 0; rc == 0 && i < n; i++) {
            fy_io_tensor io;
            fy_graph_io(&shape, i, &io);
            if (!learn_tensor(&k, io.role, &t[i], f16_hides))
                rc =
                    fy_fail(e, FY_EFORMAT,
                            "graph '%s': tensor '%s' of %s (offset %d), expected floats, masks of "
                            "f16 or u16, caches of f16, s16 or u8, and states of f16 or f32, alike "
                            "in all graphs",
                            c->graphs[g].name, t[i].name, fy_element_name(t[i].type), t[i].offset);
        }
        if (rc != 0 && t != NULL)
            fy_ctx(e, "%s", c->chunks[c->graphs[g].chunk].path);
        free(t);
    }
    c->shows = k.has_mask ? k.shows : 0;
    c->hides = k.has_mask ? k.hides : f16_hides;
    c->fixed = c->device->api->describe != NULL;
    c->coded = k.has_mask && k.mask != FY_EL_F16;
    c->kv = k.kv;
    return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int open_chain(fy_chain *c, const fy_model *m, const fy_chain_spec *s,
                      fy_chain_graph_spec *sorted, fy_err *e)
{
    memcpy(sorted, s->graphs, s->n_graphs * sizeof *sorted);
    qsort(sorted, s->n_graphs, sizeof *sorted, by_place);
    const char *model = m->chunk.kind == FY_CHUNK_EMBEDDING ? m->chunk.model : s->model;
    if (s->model[0] != '\0' && strcmp(model, s->model) != 0)
        return fy_fail(e, FY_EFORMAT,
                       "the graphs are of model %.16s..., the embedding of %.16s...: chunks of two "
                       "cuts",
                       s->model, model);
    if (check_spec(m, s, sorted, &c->n_layer_graphs, e) != 0)
        return -1;
    if (fy_chain_first_position(c) >= c->n_cache)
        return fy_fail(e, FY_EFORMAT, "a preset of %u tokens leaves no slot of cache_size %u",
                       fy_chain_first_position(c), c->n_cache);
    if (load_graphs(c, sorted, s->n_graphs, model, e) != 0)
        return -1;
    return learn(c, &m->hp, e);
}

int fy_model_chain(fy_model *m, fy_graph_device *device, const fy_chain_spec *spec, fy_err *e)
{
    fy_chain *c = calloc(1, sizeof *c);
    if (c == NULL) {
        device->api->close(device);
        return fy_nomem(e);
    }
    *c = (fy_chain){.device = device,
                    .n_cache = spec->n_cache,
                    .n_ctx = spec->n_ctx,
                    .mask_value = spec->mask_value,
                    .rotate_keys = spec->rotate_keys};
    if (spec->preset != NULL) {
        c->preset = *spec->preset;
        *spec->preset = (fy_chain_preset){0};
    }
    fy_chain_graph_spec *sorted = NULL;
    int rc = -1;
    if (spec->n_graphs == 0 || spec->n_graphs > MOST_GRAPHS)
        fy_fail(e, FY_EFORMAT, "%zu graphs, expected 1 to %d", spec->n_graphs, MOST_GRAPHS);
    else if ((sorted = calloc(spec->n_graphs, sizeof *sorted)) == NULL)
        fy_nomem(e);
    else
        rc = open_chain(c, m, spec, sorted, e);
    free(sorted);
    if (rc == 0)
        m->chain = c;
    else
        fy_chain_free(c);
    return rc;
}

void fy_chain_preset_release(fy_chain_preset *p)
{
    for (size_t i = 0; i < p->n_pairs; i++) {
        free(p->keys[i]);
        free(p->values[i]);
    }
    free(p->keys);
    free(p->values);
    free(p->ids);
    *p = (fy_chain_preset){0};
}

void fy_chain_free(fy_chain *c)
{
    if (c == NULL)
        return;
    const fy_graph_backend *api = c->device->api;
    for (size_t i = 0; i < c->n_chunks; i++) {
        api->unload(c->chunks[i].loaded);
        free(c->chunks[i].path);
    }
    for (size_t i = 0; c->graphs != NULL && i < c->n_graphs; i++) {
        free(c->graphs[i].name);
        free(c->graphs[i].x_name);
        free(c->graphs[i].out_name);
    }
    free(c->chunks);
    free(c->graphs);
    fy_chain_preset_release(&c->preset);
    api->close(c->device);
    free(c);
}
