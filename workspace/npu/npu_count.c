#include "workspace/npu/npu_count.h"

#include <stdlib.h>

#include "arch/graph_io.h"
#include "base/math.h"
#include "model/weights.h"

/* Estimates, made so that the published binaries of Llama 3.2 1B come out (docs/npu.md): what
 * a graph's code and tables take in a context binary. */
enum {
    OP_BYTES = 256,  /* of an operation */
    TILE_BYTES = 13, /* of 32 x 32 weights */
    TILE = 32,
    /* Operations of a layer whose attention is unrolled head by head: projection, rotation, the two
     * products, mask and softmax of a query head; projection, rotation and the two concatenations
     * of a KV head; norms, residuals and the feed-forward network. */
    OPS_HEAD = 14,
    OPS_HEAD_KV = 15,
    OPS_LAYER = 14,
    OPS_LM_HEAD = 4,
};

enum { VECTOR_BYTES = 4 }; /* of an element: f32 of norms, 32-bit integers of biases */
enum { ACT_BYTES = 2, RESIDUAL_BYTES = 4 };

uint64_t fy_npu_add(uint64_t a, uint64_t b)
{
    uint64_t r;
    return fy_add_u64(a, b, &r) ? r : FY_NPU_TOO_MANY;
}

uint64_t fy_npu_mul(uint64_t a, uint64_t b)
{
    uint64_t r;
    return fy_mul_u64(a, b, &r) ? r : FY_NPU_TOO_MANY;
}

static uint64_t difference(uint64_t end, uint64_t begin)
{
    return end == FY_NPU_TOO_MANY ? FY_NPU_TOO_MANY : end - begin;
}

/* --- weights and operations ------------------------------------------------------------------- */

static uint64_t matrix_bytes(const fy_npu_recipe *r, fy_slot slot, uint32_t layer, uint64_t n_out,
                             uint64_t n_in)
{
    uint64_t bytes;
    return fy_npu_matrix_bytes(fy_npu_recipe_type(r, slot, layer), n_out, n_in, &bytes)
               ? bytes
               : FY_NPU_TOO_MANY;
}

static uint64_t weight_bytes(const fy_npu_recipe *r, const fy_npu_tensor *t)
{
    return t->matrix ? matrix_bytes(r, t->slot, t->layer, t->n_out, t->n_in)
                     : fy_npu_mul(fy_npu_mul(t->n_out, t->n_in), VECTOR_BYTES);
}

static uint64_t tile_bytes(uint64_t n_out, uint64_t n_in)
{
    const uint64_t tiles =
        fy_npu_mul(n_out / TILE + (n_out % TILE != 0), n_in / TILE + (n_in % TILE != 0));
    return fy_npu_mul(tiles, TILE_BYTES);
}

static uint64_t layer_ops(const fy_hparams *hp)
{
    return OPS_LAYER + (uint64_t)OPS_HEAD * hp->n_head + (uint64_t)OPS_HEAD_KV * hp->n_head_kv;
}

/* Of each layer into [layer + 1], then the sums. */
static void sum_layers(fy_npu_counter *c)
{
    const fy_npu_model *m = c->model;
    const uint32_t n = c->params->n_layers;
    for (size_t i = 0; i < m->n_tensors; i++) {
        const fy_npu_tensor *t = &m->tensors[i];
        if (!t->per_layer || t->layer >= n)
            continue;
        uint64_t *w = &c->weights[t->layer + 1], *o = &c->ops[t->layer + 1];
        *w = fy_npu_add(*w, weight_bytes(c->params->recipe, t));
        *o = fy_npu_add(*o, t->matrix ? tile_bytes(t->n_out, t->n_in) : 0);
    }
    for (uint32_t l = 0; l < n; l++) {
        const int kind = fy_layer_has_window(&m->hp, l) + 2 * fy_layer_rotates(&m->hp, l);
        uint64_t *o = &c->ops[l + 1];
        *o = fy_npu_add(*o, fy_npu_mul(layer_ops(&m->hp), OP_BYTES));
        *o = fy_npu_add(c->ops[l], fy_npu_mul(*o, c->params->n_batches));
        c->weights[l + 1] = fy_npu_add(c->weights[l], c->weights[l + 1]);
        for (int k = 0; k < FY_NPU_LAYER_KINDS; k++)
            c->kinds[(l + 1) * FY_NPU_LAYER_KINDS + k] =
                c->kinds[l * FY_NPU_LAYER_KINDS + k] + (k == kind);
    }
}

static void find_head(fy_npu_counter *c)
{
    const fy_npu_model *m = c->model;
    c->head_width = m->hp.n_embd;
    for (size_t i = 0; i < m->n_tensors; i++) {
        const fy_npu_tensor *t = &m->tensors[i];
        if (t->per_layer || fy_chunk_kind_of(t->slot) != FY_CHUNK_HEAD)
            continue;
        if (t->slot == FY_T_OUTPUT_B)
            c->head_bias = true;
        else if (t->slot != FY_T_OUTPUT)
            c->head_vectors = fy_npu_add(c->head_vectors, fy_npu_mul(t->n_in, VECTOR_BYTES));
    }
}

/* --- buffers and scratch ---------------------------------------------------------------------- */

static fy_graph_shape largest_graph(const fy_npu_counter *c, const fy_chunk_info *part)
{
    return (fy_graph_shape){.hp = &c->model->hp,
                            .chunk = part,
                            .n_batch = c->params->batch[0],
                            .n_cache = c->n_cache,
                            .n_ctx = c->params->n_ctx,
                            .kv_bytes = c->params->kv_bits / 8};
}

static uint64_t once_io(fy_npu_counter *c, uint32_t first, uint32_t end)
{
    const fy_chunk_info part = {.kind = FY_CHUNK_LAYERS, .first_layer = first, .end_layer = end};
    const fy_graph_shape g = largest_graph(c, &part);
    unsigned mask = 0;
    fy_graph_bytes b;
    for (int k = 0; k < FY_NPU_LAYER_KINDS; k++) {
        const bool there =
            c->kinds[end * FY_NPU_LAYER_KINDS + k] != c->kinds[first * FY_NPU_LAYER_KINDS + k];
        mask |= (unsigned)there << k;
    }
    if (c->once_io[mask] == FY_NPU_TOO_MANY && fy_graph_count(&g, &b))
        c->once_io[mask] = b.once;
    return c->once_io[mask];
}

/* What a graph holds of its largest batch at once and VTCM does not: the residual stream before and
 * after; beside it the larger of attention (q, k, v, its output and the scores of all heads) and
 * feed-forward network (gate, up and their product). */
static uint64_t layer_scratch(const fy_hparams *hp, const fy_npu_params *p)
{
    const uint64_t rows = fy_dim_of(hp, FY_D_QKV) + fy_dim_of(hp, FY_D_QV);
    const uint64_t attention = fy_npu_add(rows, fy_npu_mul(hp->n_head, p->n_ctx));
    const uint64_t ff = 3 * (uint64_t)hp->n_ff;
    const uint64_t widest = fy_npu_mul(attention > ff ? attention : ff, ACT_BYTES);
    return fy_npu_mul(p->batch[0], fy_npu_add(widest, 2 * (uint64_t)RESIDUAL_BYTES * hp->n_embd));
}

/* --- counter ---------------------------------------------------------------------------------- */

int fy_npu_counter_init(fy_npu_counter *c, const fy_npu_model *model, const fy_npu_params *params,
                        fy_err *e)
{
    const size_t n = (size_t)params->n_layers + 1;
    const fy_chunk_info one = {.kind = FY_CHUNK_LAYERS, .end_layer = 1};
    fy_graph_bytes b;
    *c = (fy_npu_counter){.model = model, .params = params};
    c->n_cache = params->n_ctx > params->batch[0] ? params->n_ctx - params->batch[0] : 0;
    c->copies = fy_soc_has(params->soc, FY_HTP_WEIGHT_SHARING) ? 1 : params->n_batches;
    c->weights = calloc(n, sizeof *c->weights);
    c->ops = calloc(n, sizeof *c->ops);
    c->kinds = calloc(n, FY_NPU_LAYER_KINDS * sizeof *c->kinds);
    if (c->weights == NULL || c->ops == NULL || c->kinds == NULL) {
        fy_npu_counter_release(c);
        return fy_nomem(e);
    }
    sum_layers(c);
    find_head(c);
    const fy_graph_shape g = largest_graph(c, &one);
    const bool counted = fy_graph_count(&g, &b);
    c->layer_io = counted ? b.layer : FY_NPU_TOO_MANY;
    c->layer_kv = counted ? b.layer_cache : FY_NPU_TOO_MANY;
    for (size_t i = 0; i < sizeof c->once_io / sizeof c->once_io[0]; i++)
        c->once_io[i] = FY_NPU_TOO_MANY;
    c->scratch = layer_scratch(&model->hp, params);
    return 0;
}

void fy_npu_counter_release(fy_npu_counter *c)
{
    free(c->weights);
    free(c->ops);
    free(c->kinds);
    *c = (fy_npu_counter){0};
}

static void add_up(fy_npu_piece *p)
{
    p->file_bytes = fy_npu_add(p->weights, p->op_bytes);
    p->bytes = fy_npu_add(fy_npu_add(p->file_bytes, p->io_bytes), p->scratch);
}

void fy_npu_count_layers(fy_npu_counter *c, uint32_t first, uint32_t end, fy_npu_piece *out)
{
    const uint64_t n = end - first;
    *out = (fy_npu_piece){.first_layer = first, .end_layer = end};
    out->weights = fy_npu_mul(difference(c->weights[end], c->weights[first]), c->copies);
    out->op_bytes = difference(c->ops[end], c->ops[first]);
    out->kv_bytes = fy_npu_mul(n, c->layer_kv);
    out->io_bytes = fy_npu_add(once_io(c, first, end), fy_npu_mul(n, c->layer_io));
    out->scratch = c->scratch;
    add_up(out);
}

void fy_npu_count_head(const fy_npu_counter *c, uint32_t first, uint32_t end, fy_npu_piece *out)
{
    const fy_npu_params *p = c->params;
    const uint64_t n = end - first;
    const fy_chunk_info part = {.kind = FY_CHUNK_HEAD, .first_token = first, .end_token = end};
    const fy_graph_shape g = largest_graph(c, &part);
    *out = (fy_npu_piece){.first_token = first, .end_token = end};
    const uint64_t vectors = fy_npu_add(c->head_vectors, c->head_bias ? n * VECTOR_BYTES : 0);
    const uint64_t once =
        fy_npu_add(matrix_bytes(p->recipe, FY_T_OUTPUT, 0, n, c->head_width), vectors);
    const uint64_t ops = fy_npu_add(tile_bytes(n, c->head_width), (uint64_t)OPS_LM_HEAD * OP_BYTES);
    out->weights = fy_npu_mul(once, c->copies);
    out->op_bytes = fy_npu_mul(ops, p->n_batches);
    if (!fy_graph_io_bytes(&g, &out->io_bytes))
        out->io_bytes = FY_NPU_TOO_MANY;
    /* The logits as the matrix product leaves them, 16 bits each, before they are f32. */
    out->scratch = fy_npu_mul(
        p->batch[0], fy_npu_add(fy_npu_mul(n, ACT_BYTES), 2 * RESIDUAL_BYTES * c->head_width));
    add_up(out);
}

/* --- of the whole model ----------------------------------------------------------------------- */

uint64_t fy_npu_recipe_weights(const fy_npu_model *m, const fy_npu_recipe *r)
{
    uint64_t sum = matrix_bytes(r, FY_T_OUTPUT, 0, m->hp.n_vocab, m->hp.n_embd);
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].per_layer)
            sum = fy_npu_add(sum, weight_bytes(r, &m->tensors[i]));
    }
    return sum;
}

uint64_t fy_npu_embedding_bytes(const fy_npu_model *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n_tensors; i++) {
        const fy_npu_tensor *t = &m->tensors[i];
        if (!t->per_layer && fy_chunk_kind_of(t->slot) == FY_CHUNK_EMBEDDING)
            sum = fy_npu_add(sum, t->file_bytes);
    }
    return sum;
}

uint64_t fy_npu_widest_row(const fy_npu_model *m, uint32_t n_ctx)
{
    uint64_t widest = n_ctx > m->hp.n_embd ? n_ctx : m->hp.n_embd;
    for (size_t i = 0; i < m->n_tensors; i++) {
        const fy_npu_tensor *t = &m->tensors[i];
        if (t->per_layer && t->matrix && t->n_in > widest)
            widest = t->n_in;
    }
    return widest;
}

uint64_t fy_npu_cpu_peak(const fy_npu_model *m, uint32_t n_layers, uint32_t n_ctx)
{
    enum { PHONE_THREADS = 8, BATCH = 512 };
    /* The session counts for itself; of a model it asks for shapes alone. */
    fy_model shapes = {.family = m->family,
                       .hp = m->hp,
                       .q8_len = (int64_t)fy_npu_widest_row(m, 0),
                       .ff_len = m->hp.n_ff};
    const fy_session_params p = {.n_ctx = n_ctx,
                                 .n_batch = BATCH,
                                 .n_threads = PHONE_THREADS,
                                 .type_k = FY_F16,
                                 .type_v = FY_F16};
    fy_session_plan plan;
    uint64_t sum = 0;
    shapes.hp.n_layer = n_layers;
    if (fy_session_plan_of(&shapes, &p, &plan, NULL) != 0)
        return FY_NPU_TOO_MANY;
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (!m->tensors[i].per_layer || m->tensors[i].layer < n_layers)
            sum = fy_npu_add(sum, m->tensors[i].file_bytes);
    }
    return fy_npu_add(sum, fy_npu_add(plan.kv_bytes, plan.scratch_bytes));
}
