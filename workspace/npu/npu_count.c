/* The model as a plan sees it, and what ranges of its layers take, in bytes: the formulas of
 * docs/npu.md. */
#include "workspace/npu/npu_count.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/chunk_info.h"
#include "arch/graph_io.h"
#include "base/math.h"
#include "base/str.h"
#include "model/weights.h"
#include "workspace/npu/npu_ops.h"
#include "workspace/npu/npu_plan.h"

/* --- the model -------------------------------------------------------------------------------- */

/* --- tensors ---------------------------------------------------------------------------------- */

static const fy_fused_row *fused_row(fy_slot slot)
{
    for (size_t i = 0; i < fy_n_fused_rows; i++) {
        if (fy_fused_rows[i].slot == slot)
            return &fy_fused_rows[i];
    }
    return NULL;
}

static void put(fy_npu_model *m, const fy_npu_tensor *t)
{
    m->tensors[m->n_tensors++] = *t;
    m->file_bytes += t->file_bytes; /* a reader has found all of it in one file */
}

/* RWKV's matrices of low rank stay floats in files, and are matrices like others for an NPU. */
static bool is_low_rank(fy_slot slot)
{
    return slot == FY_T_MIX_W1 || slot == FY_T_MIX_W2 || slot == FY_T_MIX_DECAY_1 ||
           slot == FY_T_MIX_DECAY_2 || slot == FY_T_MIX_ICLR_1 || slot == FY_T_MIX_ICLR_2 ||
           slot == FY_T_MIX_VALUE_1 || slot == FY_T_MIX_VALUE_2 || slot == FY_T_MIX_GATE_1 ||
           slot == FY_T_MIX_GATE_2;
}

/* One of the family's tensors; of one that holds several matrices each of them: a recipe may give
 * them different types. */
static void put_tensor(fy_npu_model *m, const fy_tensor_row *row, uint32_t layer,
                       const fy_gguf_tensor *t)
{
    const bool matrix = (row->flags & FY_ROW_MATRIX) != 0 || is_low_rank(row->slot);
    const fy_fused_row *fused = fused_row(row->slot);
    fy_npu_tensor one = {.slot = row->slot,
                         .layer = layer,
                         .per_layer = fy_row_is_layer(row),
                         .matrix = matrix,
                         .n_out = t->ne[1] * t->ne[2] * t->ne[3], /* counted by the reader */
                         .n_in = t->ne[0],
                         .file_bytes = t->bytes};
    if (fused == NULL) {
        put(m, &one);
        return;
    }
    const uint64_t n_rows = matrix ? one.n_out : one.n_out * one.n_in;
    one.n_out = matrix ? one.n_out : 1;
    for (int p = 0; p < FY_FUSED_PARTS && fused->parts[p].rows != FY_D_END; p++) {
        const uint64_t n = fy_dim_of(&m->hp, fused->parts[p].rows);
        one.slot = fused->parts[p].slot;
        *(matrix ? &one.n_out : &one.n_in) = n;
        one.file_bytes = t->bytes / n_rows * n;
        put(m, &one);
    }
}

/* --- from the header -------------------------------------------------------------------------- */

/* Tensor by tensor of the family, those of a layer together. */
static int take_row(fy_npu_model *m, const fy_gguf *g, const fy_tensor_row *row, uint32_t layer,
                    size_t *n_taken, fy_err *e)
{
    char name[FY_ROW_NAME_BYTES];
    uint64_t ne[FY_GGUF_MAX_DIMS];
    if (fy_row_is_layer(row) && !fy_row_is_in_layer(&m->hp, row, layer))
        return 0;
    fy_row_name(row->gguf, layer, name);
    const fy_gguf_tensor *t = fy_gguf_tensor_find(g, name);
    if (t == NULL && row->slot == FY_T_FFN_DOWN &&
        fy_gguf_tensor_find(g, "blk.0.ffn_down_t.weight") != NULL)
        return fy_fail(e, FY_EUNSUPPORTED,
                       "the down matrices are stored transposed (ffn_down_t), which graphs do not "
                       "have; convert without --transpose-down");
    if (t == NULL)
        return (row->flags & FY_ROW_OPTIONAL) || !fy_row_is_there(&m->hp, row)
                   ? 0
                   : fy_fail(e, FY_EFORMAT, "tensor '%s' is missing, which family %s needs", name,
                             m->family->name);
    fy_row_shape(&m->hp, row, ne);
    if (memcmp(ne, t->ne, sizeof ne) != 0)
        return fy_fail(e, FY_EFORMAT,
                       "tensor '%s' has rows of %llu and %llu of them, which is not the shape that "
                       "the model's keys say",
                       name, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1]);
    put_tensor(m, row, layer, t);
    ++*n_taken;
    return 0;
}

static int take_rows(fy_npu_model *m, const fy_gguf *g, bool layers, uint32_t layer,
                     size_t *n_taken, fy_err *e)
{
    for (size_t i = 0; i < m->family->n_rows; i++) {
        const fy_tensor_row *row = &m->family->rows[i];
        if (fy_row_is_layer(row) != layers || (row->flags & FY_ROW_ALT))
            continue;
        if (take_row(m, g, row, layer, n_taken, e) != 0)
            return -1;
    }
    return 0;
}

/* Of a family that knows one matrix in two forms a file has to have one of them, and not both. */
static int check_layer(const fy_npu_model *m, size_t first, uint32_t layer, fy_err *e)
{
    static const fy_slot needed[] = {FY_T_ATTN_Q,   FY_T_ATTN_K, FY_T_ATTN_V,
                                     FY_T_ATTN_OUT, FY_T_FFN_UP, FY_T_FFN_DOWN};
    for (size_t s = 0; s < sizeof needed / sizeof needed[0]; s++) {
        size_t n = 0;
        for (size_t i = first; i < m->n_tensors; i++)
            n += m->tensors[i].slot == needed[s];
        if (n != 1)
            return fy_fail(e, FY_EFORMAT,
                           "layer %u has %zu matrices of one of attn_q, attn_k, attn_v, "
                           "attn_output, ffn_up and ffn_down; expected one of each, or attn_qkv",
                           layer, n);
    }
    return 0;
}

static int name_unknown(const fy_npu_model *m, const fy_gguf *g, fy_err *e)
{
    for (size_t i = 0; i < fy_gguf_n_tensors(g); i++) {
        const fy_gguf_tensor *t = fy_gguf_tensor_at(g, i);
        uint32_t layer = 0;
        char name[FY_QUOTE_BYTES];
        const fy_tensor_row *row = fy_row_of_gguf(m->family, t->name, &layer);
        if (row == NULL || (fy_row_is_layer(row) && layer >= m->hp.n_layer))
            return fy_fail(e, FY_EUNSUPPORTED, "tensor '%s' is none of family %s with %u layers",
                           fy_quote(name, sizeof name, t->name), m->family->name, m->hp.n_layer);
    }
    return 0;
}

static int find_family(fy_npu_model *m, const fy_gguf *g, fy_err *e)
{
    fy_span arch = {0};
    char name[FY_QUOTE_BYTES];
    if (fy_is_chunk(g))
        return fy_fail(e, FY_EARG,
                       "this is a chunk of a model that was cut already; plan the whole "
                       "model");
    if (fy_gguf_get_str(g, FY_KEY_ARCHITECTURE, &arch, e) < 0)
        return -1;
    m->family = fy_family_of_file(g);
    return m->family != NULL
               ? 0
               : fy_fail(e, FY_EUNSUPPORTED,
                         "general.architecture is '%s', which ferry cannot plan for an NPU: it "
                         "does not know what its layers compute",
                         fy_quote(name, sizeof name, arch));
}

int fy_npu_model_of(fy_npu_model *m, const fy_gguf *header, fy_err *e)
{
    fy_npu_model made = {0};
    size_t n_taken = 0;
    if (find_family(&made, header, e) != 0 ||
        fy_hparams_from_gguf(header, made.family, &made.hp, e) != 0)
        return -1;
    if (fy_cut_refusal(&made.hp) != NULL)
        return fy_fail(e, FY_EUNSUPPORTED, "family %s cannot be cut for an NPU: %s",
                       made.family->name, fy_cut_refusal(&made.hp));
    made.tensors = calloc(fy_gguf_n_tensors(header) * FY_FUSED_PARTS + 1, sizeof *made.tensors);
    if (made.tensors == NULL)
        return fy_nomem(e);
    int rc = take_rows(&made, header, false, 0, &n_taken, e);
    made.tied = true;
    for (size_t i = 0; i < made.n_tensors; i++)
        made.tied = made.tied && made.tensors[i].slot != FY_T_OUTPUT;
    for (uint32_t l = 0; rc == 0 && l < made.hp.n_layer; l++) {
        const size_t first = made.n_tensors;
        rc = take_rows(&made, header, true, l, &n_taken, e);
        if (rc == 0 && !fy_graph_has_states(&made.hp))
            rc = check_layer(&made, first, l, e);
    }
    if (rc == 0 && n_taken != fy_gguf_n_tensors(header))
        rc = name_unknown(&made, header, e);
    if (rc != 0) {
        fy_npu_model_release(&made);
        return -1;
    }
    *m = made;
    return 0;
}

void fy_npu_model_release(fy_npu_model *m)
{
    free(m->tensors);
    *m = (fy_npu_model){0};
}

/* --- bytes ------------------------------------------------------------------------------------ */

enum { TILE = 32 };        /* outputs of the lm_head */
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

/* --- weights ---------------------------------------------------------------------------------- */

static uint64_t matrix_bytes(const fy_npu_recipe *r, fy_slot slot, uint32_t layer, uint64_t n_out,
                             uint64_t n_in)
{
    uint64_t bytes;
    return fy_npu_matrix_bytes(fy_npu_recipe_type(r, slot, layer), n_out, n_in, &bytes)
               ? bytes
               : FY_NPU_TOO_MANY;
}

/* Each head's rows are a matrix of their own. */
static uint64_t n_parts(const fy_hparams *hp, fy_slot slot)
{
    return slot == FY_T_ATTN_Q                          ? hp->n_head
           : slot == FY_T_ATTN_K || slot == FY_T_ATTN_V ? hp->n_head_kv
                                                        : 1;
}

static uint64_t weight_bytes(const fy_npu_model *m, const fy_npu_recipe *r, const fy_npu_tensor *t)
{
    const uint64_t n = n_parts(&m->hp, t->slot);
    return t->matrix ? fy_npu_mul(matrix_bytes(r, t->slot, t->layer, t->n_out / n, t->n_in), n)
                     : fy_npu_mul(fy_npu_mul(t->n_out, t->n_in), VECTOR_BYTES);
}

/* --- layers ----------------------------------------------------------------------------------- */

static int layer_kind(const fy_hparams *hp, uint32_t layer)
{
    return fy_layer_has_window(hp, layer) + 2 * fy_layer_rotates(hp, layer);
}

/* Into [layer + 1]: the tensors of each layer, and a number that is the same for layers whose
 * graphs are. */
static void sum_tensors(fy_npu_counter *c, uint64_t *same)
{
    enum { PRIME = 1000003 };
    const fy_npu_model *m = c->model;
    const fy_npu_recipe *r = c->params->recipe;
    for (uint32_t l = 0; l < c->params->n_layers; l++)
        same[l] = (uint64_t)layer_kind(&m->hp, l);
    for (size_t i = 0; i < m->n_tensors; i++) {
        const fy_npu_tensor *t = &m->tensors[i];
        if (!t->per_layer || t->layer >= c->params->n_layers)
            continue;
        uint64_t *w = &c->weights[t->layer + 1], *o = &c->ops[t->layer + 1];
        const uint64_t n = n_parts(&m->hp, t->slot);
        *w = fy_npu_add(*w, weight_bytes(m, r, t));
        *o = fy_npu_add(
            *o, t->matrix ? fy_npu_mul(fy_npu_channel_tables(t->n_out / n), n * c->copies) : 0);
        same[t->layer] =
            (same[t->layer] * PRIME + t->slot) * PRIME + fy_npu_recipe_type(r, t->slot, t->layer);
    }
}

/* Adds the operations of each layer; equal layers are composed once. */
static int add_ops(fy_npu_counter *c, const uint64_t *same, fy_err *e)
{
    const uint32_t n = c->params->n_layers;
    uint64_t *ops = calloc((size_t)n + 1, sizeof *ops);
    int rc = ops != NULL ? 0 : fy_nomem(e);
    for (uint32_t l = 0; l < n && rc == 0; l++) {
        uint32_t k = 0;
        while (same[k] != same[l])
            k++;
        fy_err why = {0};
        if (k < l)
            ops[l] = ops[k];
        else if (fy_npu_layer_ops(c, l, &ops[l], &why) != 0 && why.code == FY_ENOMEM)
            rc = fy_nomem(e);
        else if (why.code != FY_OK && c->refused.code == FY_OK)
            c->refused = why;
        c->ops[l + 1] = fy_npu_add(c->ops[l + 1], ops[l]);
    }
    free(ops);
    return rc;
}

/* Of each layer into [layer + 1], then the sums. */
static int sum_layers(fy_npu_counter *c, fy_err *e)
{
    const uint32_t n = c->params->n_layers;
    uint64_t *same = calloc((size_t)n + 1, sizeof *same);
    if (same == NULL)
        return fy_nomem(e);
    sum_tensors(c, same);
    const int rc = add_ops(c, same, e);
    free(same);
    for (uint32_t l = 0; l < n; l++) {
        const int kind = layer_kind(&c->model->hp, l);
        c->ops[l + 1] = fy_npu_add(c->ops[l], c->ops[l + 1]);
        c->weights[l + 1] = fy_npu_add(c->weights[l], c->weights[l + 1]);
        for (int k = 0; k < FY_NPU_LAYER_KINDS; k++)
            c->kinds[(l + 1) * FY_NPU_LAYER_KINDS + k] =
                c->kinds[l * FY_NPU_LAYER_KINDS + k] + (k == kind);
    }
    return rc;
}

/* --- the lm_head ------------------------------------------------------------------------------ */

static int find_head(fy_npu_counter *c, fy_err *e)
{
    fy_err why = {0};
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
    if (fy_npu_head_ops(c, &c->head_ops, &c->head_ops_more, &why) != 0 && why.code == FY_ENOMEM)
        return fy_nomem(e);
    if (c->refused.code == FY_OK)
        c->refused = why;
    return 0;
}

/* --- buffers and scratch ---------------------------------------------------------------------- */

static fy_graph_shape largest_graph(const fy_npu_counter *c, const fy_chunk_info *info)
{
    return (fy_graph_shape){.hp = &c->model->hp,
                            .chunk = info,
                            .n_batch = c->params->batch[0],
                            .n_cache = c->n_cache,
                            .n_ctx = c->params->n_ctx,
                            .kv_bytes =
                                fy_graph_has_states(&c->model->hp) ? 2 : c->params->kv_bits / 8};
}

static uint64_t once_io(fy_npu_counter *c, uint32_t first, uint32_t end)
{
    const fy_chunk_info info = {.kind = FY_CHUNK_LAYERS, .first_layer = first, .end_layer = end};
    const fy_graph_shape g = largest_graph(c, &info);
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
    /* of RWKV some ten vectors as wide as the model, and the matrices of a token's state */
    if (fy_graph_has_states(hp))
        return fy_npu_add(fy_npu_mul((uint64_t)p->batch[0] * ACT_BYTES,
                                     10 * (uint64_t)hp->n_embd + 2 * (uint64_t)hp->n_ff),
                          4 * (uint64_t)ACT_BYTES * hp->n_embd * hp->wkv_head);
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
    const int rc = c->weights == NULL || c->ops == NULL || c->kinds == NULL ? fy_nomem(e)
                   : sum_layers(c, e) != 0                                  ? -1
                                                                            : find_head(c, e);
    if (rc != 0) {
        fy_npu_counter_release(c);
        return -1;
    }
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

/* What a graph has whatever is in it. */
static uint64_t graphs_bytes(const fy_npu_counter *c)
{
    return (uint64_t)c->params->n_batches * FY_NPU_GRAPH_BYTES;
}

static void add_up(const fy_npu_counter *c, fy_npu_chunk *p)
{
    p->compile_peak = fy_npu_compile_peak(p->weights, p->op_bytes, c->params->n_batches);
    p->file_bytes = fy_npu_add(p->weights, p->op_bytes);
    p->bytes = fy_npu_add(fy_npu_add(p->file_bytes, p->io_bytes), p->scratch);
}

void fy_npu_count_layers(fy_npu_counter *c, uint32_t first, uint32_t end, fy_npu_chunk *out)
{
    const uint64_t n = end - first;
    *out = (fy_npu_chunk){.first_layer = first, .end_layer = end};
    out->weights = fy_npu_mul(difference(c->weights[end], c->weights[first]), c->copies);
    out->op_bytes = fy_npu_add(difference(c->ops[end], c->ops[first]), graphs_bytes(c));
    out->kv_bytes = fy_npu_mul(n, c->layer_kv);
    out->io_bytes = fy_npu_add(once_io(c, first, end), fy_npu_mul(n, c->layer_io));
    out->scratch = c->scratch;
    add_up(c, out);
}

void fy_npu_count_head(const fy_npu_counter *c, uint32_t first, uint32_t end, fy_npu_chunk *out)
{
    const fy_npu_params *p = c->params;
    const uint64_t n = end - first;
    const fy_chunk_info info = {.kind = FY_CHUNK_HEAD, .first_token = first, .end_token = end};
    const fy_graph_shape g = largest_graph(c, &info);
    *out = (fy_npu_chunk){.first_token = first, .end_token = end};
    const uint64_t vectors = fy_npu_add(c->head_vectors, c->head_bias ? n * VECTOR_BYTES : 0);
    const uint64_t once =
        fy_npu_add(matrix_bytes(p->recipe, FY_T_OUTPUT, 0, n, c->head_width), vectors);
    const uint64_t tables = fy_npu_mul(fy_npu_channel_tables(n), c->copies);
    const uint64_t ops = fy_npu_add(c->head_ops, fy_npu_mul((n - 1) / TILE, c->head_ops_more));
    out->weights = fy_npu_mul(once, c->copies);
    out->op_bytes = fy_npu_add(fy_npu_add(ops, tables), graphs_bytes(c));
    if (!fy_graph_io_bytes(&g, &out->io_bytes))
        out->io_bytes = FY_NPU_TOO_MANY;
    /* The logits as the matrix product leaves them, 16 bits each, before they are f32. */
    out->scratch = fy_npu_mul(
        p->batch[0], fy_npu_add(fy_npu_mul(n, ACT_BYTES), 2 * RESIDUAL_BYTES * c->head_width));
    add_up(c, out);
}

/* --- of the whole model ----------------------------------------------------------------------- */

uint64_t fy_npu_recipe_weights(const fy_npu_model *m, const fy_npu_recipe *r)
{
    uint64_t sum = matrix_bytes(r, FY_T_OUTPUT, 0, m->hp.n_vocab, m->hp.n_embd);
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].per_layer)
            sum = fy_npu_add(sum, weight_bytes(m, r, &m->tensors[i]));
    }
    return sum;
}

uint64_t fy_npu_n_weights(const fy_npu_model *m, uint32_t n_layers)
{
    uint64_t sum = fy_npu_mul(m->hp.n_vocab, m->hp.n_embd);
    for (size_t i = 0; i < m->n_tensors; i++) {
        const fy_npu_tensor *t = &m->tensors[i];
        if (t->per_layer && t->layer < n_layers)
            sum = fy_npu_add(sum, fy_npu_mul(t->n_out, t->n_in));
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
