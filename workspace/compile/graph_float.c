/* "float": the composed graphs of GGUF chunks, run by the interpreter (qfloat.h). */
#include "workspace/compile/graph_float.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "model/weights.h"

typedef struct {
    fy_graph_device base;
    fy_map_options map;
    fy_graph_float_options o;
    fy_backend *backend; /* owned; both between begin and end */
    fy_pool *pool;       /* owned */
    int64_t q8_len;
    uint32_t n_batch;
    bool rounds;
} device;

struct fy_graph_chunk {
    device *d;       /* view */
    fy_model *model; /* owned */
};

struct fy_graph {
    const fy_graph_chunk *chunk; /* view */
    fy_qgraph g;
    fy_q_encodings encodings; /* of none, unless o.codes */
    fy_qfloat *f;             /* owned; made by the first run */
    void **buffers;           /* owned */
};

static fy_graph_chunk *load(fy_graph_device *base, const fy_graph_file *file, fy_err *e)
{
    device *d = (device *)(void *)base;
    fy_graph_chunk *p = calloc(1, sizeof *p);
    if (p == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *p = (fy_graph_chunk){d, fy_graph_open_chunk(file, &d->map, e)};
    if (p->model == NULL) {
        free(p);
        return NULL;
    }
    d->q8_len = p->model->q8_len > d->q8_len ? p->model->q8_len : d->q8_len;
    return p;
}

static void unload(fy_graph_chunk *p)
{
    if (p != NULL)
        fy_model_close(p->model);
    free(p);
}

static void unbind(fy_graph *g)
{
    if (g == NULL)
        return;
    fy_qfloat_free(g->f);
    fy_q_encodings_release(&g->encodings);
    fy_qgraph_release(&g->g);
    free(g->buffers);
    free(g);
}

static fy_graph *bind(fy_graph_chunk *p, const fy_graph_binding *b, fy_err *e)
{
    device *d = p->d;
    const fy_model *m = p->model;
    const fy_graph_shape shape = {.hp = &m->hp,
                                  .chunk = &m->chunk,
                                  .n_batch = b->n_batch,
                                  .n_cache = b->n_cache,
                                  .n_ctx = b->n_ctx,
                                  .kv_bytes = sizeof(float)};
    const fy_qgraph_of of = {.family = m->family,
                             .hp = &m->hp,
                             .chunk = &m->chunk,
                             .recipe = d->o.recipe,
                             .has = fy_qgraph_model_has,
                             .user = m,
                             .n_batch = b->n_batch,
                             .n_cache = b->n_cache,
                             .n_ctx = b->n_ctx,
                             .rope_nodes = d->o.rope_nodes};
    fy_graph *g = calloc(1, sizeof *g);
    if (g == NULL) {
        fy_nomem(e);
        return NULL;
    }
    g->chunk = p;
    g->buffers = calloc(b->n_tensors, sizeof *g->buffers);
    if (g->buffers == NULL)
        fy_nomem(e);
    if (g->buffers == NULL || fy_graph_check_tensors(&shape, b, e) != 0 ||
        fy_qgraph_compose(&g->g, &of, e) != 0 ||
        (d->o.codes && fy_q_encode(&g->g, d->o.ranges, &g->encodings, e) != 0)) {
        fy_ctx(e, "%s", fy_gguf_path(m->gguf));
        unbind(g);
        return NULL;
    }
    memcpy(g->buffers, b->buffers, b->n_tensors * sizeof *g->buffers);
    d->n_batch = b->n_batch > d->n_batch ? b->n_batch : d->n_batch;
    return g;
}

static void end(fy_graph_device *base)
{
    device *d = (device *)(void *)base;
    fy_backend_free(d->backend);
    fy_pool_free(d->pool);
    d->backend = NULL;
    d->pool = NULL;
}

static int begin(fy_graph_device *base, int n_threads, fy_err *e)
{
    device *d = (device *)(void *)base;
    const fy_backend_params p = {
        .n_threads = n_threads, .n_tokens = d->n_batch, .q8_len = d->q8_len};
    d->backend = fy_backend_new(&p, e);
    d->pool = d->backend != NULL ? fy_pool_new(n_threads, e) : NULL;
    if (d->pool != NULL)
        return 0;
    end(base);
    return -1;
}

static void close_device(fy_graph_device *base)
{
    if (base != NULL)
        end(base);
    free(base);
}

static int run(fy_graph *g, fy_err *e)
{
    const device *d = g->chunk->d;
    if (g->f == NULL)
        g->f = fy_qfloat_new(&g->g, g->chunk->model, d->backend, d->pool, g->buffers, e);
    if (g->f == NULL)
        return -1;
    const fy_qfloat_codes codes = {&g->encodings, d->o.ranges};
    return fy_qfloat_run(g->f, d->rounds ? &codes : NULL, d->o.watch, d->o.user, e);
}

static const fy_graph_backend api = {.name = "float",
                                     .npu_keys = true,
                                     .close = close_device,
                                     .load = load,
                                     .unload = unload,
                                     .bind = bind,
                                     .unbind = unbind,
                                     .begin = begin,
                                     .end = end,
                                     .run = run};

fy_graph_device *fy_graph_float_open(const fy_map_options *map, const fy_graph_float_options *o,
                                     fy_err *e)
{
    device *d = calloc(1, sizeof *d);
    if (d == NULL) {
        fy_nomem(e);
        return NULL;
    }
    *d = (device){.base = {.api = &api}, .map = *map, .o = *o};
    return &d->base;
}

void fy_graph_float_round(fy_graph_device *base, bool round)
{
    device *d = (device *)(void *)base;
    d->rounds = round;
}
