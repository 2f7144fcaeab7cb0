/* Counts operations by composing graphs. A layer's numbers grow with each head by as much, so
 * graphs of a few heads tell those of many: a plan composes in the same short time for any model.
 */
#include "workspace/npu/npu_ops.h"

#include "base/math.h"

/* Of what SDK 2.51 makes of decoder layers and heads of many shapes, for SM8650. */
enum {
    NODE_BYTES = 300,
    HEADS_BYTES = 400, /* more, of one that computes a matrix for each head (RWKV's recurrence) */
    TILE_BYTES = 5,    /* of 32 x 32 elements that a node gives */
    CHANNEL_BYTES = 12,
    TILE = 32,
};

static uint64_t tiles_of(uint64_t n)
{
    return n / TILE + (n % TILE != 0);
}

static uint64_t node_bytes(const fy_qgraph *g)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const fy_q_tensor *out = &g->tensors[g->nodes[i].out];
        const uint64_t rows = fy_q_elements(out) / fy_q_cols(out);
        const uint64_t tiles = fy_npu_mul(tiles_of(rows), tiles_of(fy_q_cols(out)));
        const uint64_t fixed =
            out->rank == 4 && out->dims[1] > 1 ? NODE_BYTES + HEADS_BYTES : NODE_BYTES;
        sum = fy_npu_add(sum, fy_npu_add(fixed, fy_npu_mul(tiles, TILE_BYTES)));
    }
    return sum;
}

uint64_t fy_npu_channel_tables(uint64_t n_out)
{
    return fy_npu_mul(fy_npu_mul(tiles_of(n_out), TILE), CHANNEL_BYTES);
}

void fy_npu_count_graphs(const fy_qgraph *graphs, size_t n, uint64_t *weights, uint64_t *op_bytes)
{
    *weights = 0;
    *op_bytes = fy_npu_mul(n, FY_NPU_GRAPH_BYTES);
    for (size_t i = 0; n > 0 && i < graphs->n_tensors; i++) {
        const fy_q_tensor *t = &graphs->tensors[i];
        uint64_t bytes = fy_npu_mul(fy_q_cols(t), sizeof(float));
        if (t->kind != FY_Q_STATIC)
            continue;
        if (t->class == FY_QC_WEIGHT) {
            if (!fy_npu_matrix_bytes(t->from.type, fy_q_cols(t), fy_q_rows(t), &bytes))
                bytes = FY_NPU_TOO_MANY;
            *op_bytes = fy_npu_add(*op_bytes, fy_npu_channel_tables(fy_q_cols(t)));
        }
        *weights = fy_npu_add(*weights, bytes);
    }
    for (size_t i = 0; i < n; i++)
        *op_bytes = fy_npu_add(*op_bytes, node_bytes(&graphs[i]));
}

/* --- compiling -------------------------------------------------------------------------------- */

/* The peak falls where the binary is written: the weights once for each graph, several times over,
 * and what the operations became. */
uint64_t fy_npu_compile_peak(uint64_t weights, uint64_t op_bytes, uint32_t n_graphs)
{
    enum { PROCESS = 100000000, WEIGHT_TENTHS = 15, WEIGHT_TENTHS_OF_A_GRAPH = 35, OPS = 130 };
    const uint64_t tenths =
        fy_npu_add(WEIGHT_TENTHS, fy_npu_mul(n_graphs, WEIGHT_TENTHS_OF_A_GRAPH));
    return fy_npu_add(PROCESS,
                      fy_npu_add(fy_npu_mul(weights / 10, tenths), fy_npu_mul(op_bytes, OPS)));
}

uint64_t fy_npu_compile_seconds(uint64_t n_weights, uint32_t n_graphs, bool float_core)
{
    enum { ALONE = 40, SHARING = 55, BILLION = 1000000000 }; /* seconds for a billion weights */
    const uint64_t seconds = n_graphs > 1 ? (uint64_t)SHARING * n_graphs : ALONE;
    const uint64_t all = fy_npu_mul(n_weights, seconds * (float_core ? 2 : 1));
    return all / BILLION + (all % BILLION != 0);
}

/* --- composing -------------------------------------------------------------------------------- */

/* Where the tensors of a layer begin: a model has those of the whole model first, then layer by
 * layer. */
typedef struct {
    const fy_npu_model *m;
    size_t first;
} tensors;

static bool has(const void *user, fy_slot slot, uint32_t layer)
{
    const tensors *of = user;
    if (slot == FY_T_OUTPUT)
        return true;
    for (size_t i = of->first; i < of->m->n_tensors; i++) {
        const fy_npu_tensor *t = &of->m->tensors[i];
        if (t->per_layer && t->layer > layer)
            return false;
        if (t->slot == slot && (!t->per_layer || t->layer == layer))
            return true;
    }
    return false;
}

static tensors tensors_of(const fy_npu_model *m, const fy_chunk_info *chunk)
{
    size_t first = 0;
    while (chunk->kind == FY_CHUNK_LAYERS && first < m->n_tensors &&
           (!m->tensors[first].per_layer || m->tensors[first].layer < chunk->first_layer))
        first++;
    return (tensors){m, first};
}

/* In the graphs of all batch sizes together. */
static int compose(const fy_npu_counter *c, const fy_hparams *hp, const fy_chunk_info *chunk,
                   uint64_t *bytes, fy_err *e)
{
    const fy_npu_params *p = c->params;
    const tensors user = tensors_of(c->model, chunk);
    *bytes = 0;
    for (uint32_t i = 0; i < p->n_batches; i++) {
        const fy_qgraph_of of = {.family = c->model->family,
                                 .hp = hp,
                                 .chunk = chunk,
                                 .recipe = p->recipe,
                                 .has = has,
                                 .user = &user,
                                 .n_batch = p->batch[i],
                                 .n_cache = c->n_cache,
                                 .n_ctx = p->n_ctx,
                                 .kv_bits = p->kv_bits};
        fy_qgraph g;
        if (fy_qgraph_compose(&g, &of, e) != 0)
            return -1;
        *bytes = fy_npu_add(*bytes, node_bytes(&g));
        fy_qgraph_release(&g);
    }
    return 0;
}

int fy_npu_layer_ops(const fy_npu_counter *c, uint32_t layer, uint64_t *bytes, fy_err *e)
{
    enum { HEADS = 2, KV_HEADS = 1 };
    const fy_chunk_info chunk = {
        .kind = FY_CHUNK_LAYERS, .first_layer = layer, .end_layer = layer + 1};
    fy_hparams hp = c->model->hp;
    uint64_t few, heads, kv_heads;
    if (fy_graph_has_states(&hp)) /* all heads are in one tensor */
        return compose(c, &hp, &chunk, bytes, e);
    hp.n_head = HEADS;
    hp.n_head_kv = KV_HEADS;
    if (compose(c, &hp, &chunk, &few, e) != 0)
        return -1;
    hp.n_head++;
    if (compose(c, &hp, &chunk, &heads, e) != 0)
        return -1;
    hp.n_head = HEADS;
    hp.n_head_kv++;
    if (compose(c, &hp, &chunk, &kv_heads, e) != 0)
        return -1;
    if (few == FY_NPU_TOO_MANY || heads == FY_NPU_TOO_MANY || kv_heads == FY_NPU_TOO_MANY) {
        *bytes = FY_NPU_TOO_MANY;
        return 0;
    }
    heads -= few;
    kv_heads -= few;
    few -= HEADS * heads + KV_HEADS * kv_heads;
    *bytes = fy_npu_add(few, fy_npu_add(fy_npu_mul(heads, c->model->hp.n_head),
                                        fy_npu_mul(kv_heads, c->model->hp.n_head_kv)));
    return 0;
}

int fy_npu_head_ops(const fy_npu_counter *c, uint64_t *first, uint64_t *more, fy_err *e)
{
    fy_chunk_info chunk = {.kind = FY_CHUNK_HEAD, .end_token = TILE};
    uint64_t two;
    if (compose(c, &c->model->hp, &chunk, first, e) != 0)
        return -1;
    chunk.end_token = 2 * TILE;
    if (compose(c, &c->model->hp, &chunk, &two, e) != 0)
        return -1;
    *more = two - *first;
    return 0;
}
