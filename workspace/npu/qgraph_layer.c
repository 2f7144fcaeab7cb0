/* Composes a decoder layer: what model/decoder.c computes, head by head. */
#include <stdlib.h>
#include <string.h>

#include "workspace/npu/qgraph_impl.h"

/* Of a layer while it is composed. */
typedef struct {
    fy_q_composer *c;
    const fy_hparams *hp;
    uint32_t layer, window; /* window: which mask and tables, 0 or 1 */
    bool rotates;
    bool norm_rotated; /* norms of heads come after the rotation */
    float key_scale;   /* what keys carry: scale of attention, 1 / softcap */
} block;

static block block_of(fy_q_composer *c, uint32_t layer)
{
    const fy_hparams *hp = c->of->hp;
    return (block){.c = c,
                   .hp = hp,
                   .layer = layer,
                   .window = fy_layer_has_window(hp, layer),
                   .rotates = fy_layer_rotates(hp, layer),
                   .norm_rotated = c->of->family->norm_rotated,
                   .key_scale = fy_npu_key_scale(hp)};
}

/* --- queries, keys and values ----------------------------------------------------------------- */

/* One of the three projections, with the norm of its heads. */
typedef struct {
    fy_slot slot, bias, norm;
    const char *short_name;
    uint32_t n_heads, head_dim;
    bool turned; /* queries and keys: they rotate */
    float scale;
} projection;

static bool norm_is_of_a_head(const block *b, const projection *p)
{
    const fy_tensor_row *row = fy_row_of_slot(b->c->of->family, p->norm);
    uint64_t ne[FY_GGUF_MAX_DIMS];
    return row == NULL || (fy_row_shape(b->hp, row, ne) > 0 && ne[0] == p->head_dim);
}

/* Do its rows rotate in neighbours, which become halves? */
static bool is_reordered(const block *b, const projection *p)
{
    return p->turned && b->rotates && b->c->of->family->rope == FY_ROPE_NORM;
}

static fy_q_norm_vectors norm_of_heads(const block *b, const projection *p, uint32_t n)
{
    fy_q_static gamma = fy_q_values_of(p->norm, b->layer, n, p->scale);
    gamma.halves = is_reordered(b, p);
    return fy_q_norm_of(b->c, n, &gamma);
}

/* c->name is that of the result. */
static uint32_t norm_heads(const block *b, uint32_t x, uint32_t n, fy_q_norm_vectors v)
{
    fy_q_composer *c = b->c;
    const uint32_t y = fy_q_act(c, c->g->n_batch, n);
    FY_Q_ADD_NODE(c, FY_Q_RMS_NORM, y, x, v.gamma, v.zeros)->eps = b->hp->norm_rms_eps;
    return y;
}

/* Rows [first, first + n) of the projection; head: whose they are, FY_Q_NONE: all of them. */
static uint32_t project_rows(const block *b, const projection *p, fy_q_stream x, uint32_t first,
                             uint32_t n, uint32_t head)
{
    fy_q_composer *c = b->c;
    const bool normed = fy_q_has(c, p->norm, b->layer);
    const fy_q_linear l = {.slot = p->slot,
                           .bias = p->bias,
                           .layer = b->layer,
                           .head = head,
                           .first = first,
                           .n = n,
                           .halves = is_reordered(b, p),
                           .scale = normed ? 1 : p->scale};
    if (head == FY_Q_NONE)
        fy_q_name(c, "L%u.%s", b->layer, p->short_name);
    else
        fy_q_name(c, "L%u.%s%u", b->layer, p->short_name, head);
    return fy_q_product(c, x, &l);
}

/* out[n_heads]: [B, head_dim] each, not yet rotated; normed unless the norm comes later. */
static void project_heads(const block *b, const projection *p, fy_q_stream x, uint32_t *out)
{
    fy_q_composer *c = b->c;
    const uint32_t width = p->n_heads * p->head_dim;
    const bool normed = fy_q_has(c, p->norm, b->layer);
    if (normed && !norm_is_of_a_head(b, p)) {
        uint32_t all = project_rows(b, p, x, 0, width, FY_Q_NONE);
        const fy_q_norm_vectors v = norm_of_heads(b, p, width);
        fy_q_name(c, "L%u.%s.norm", b->layer, p->short_name);
        all = norm_heads(b, all, width, v);
        for (uint32_t h = 0; h < p->n_heads; h++) {
            fy_q_name(c, "L%u.%s%u.norm", b->layer, p->short_name, h);
            out[h] = fy_q_slice(c, all, h * p->head_dim, (h + 1) * p->head_dim);
        }
        return;
    }
    const bool now = normed && !b->norm_rotated;
    fy_q_norm_vectors v = {FY_Q_NONE, FY_Q_NONE};
    if (now)
        v = norm_of_heads(b, p, p->head_dim);
    for (uint32_t h = 0; h < p->n_heads; h++) {
        out[h] = project_rows(b, p, x, h * p->head_dim, p->head_dim, h);
        if (!now)
            continue;
        fy_q_name(c, "L%u.%s%u.norm", b->layer, p->short_name, h);
        out[h] = norm_heads(b, out[h], p->head_dim, v);
    }
}

/* The norm of its heads where that comes after the rotation. */
static fy_q_norm_vectors late_norm(const block *b, const projection *p)
{
    return b->norm_rotated && fy_q_has(b->c, p->norm, b->layer)
               ? norm_of_heads(b, p, p->head_dim)
               : (fy_q_norm_vectors){FY_Q_NONE, FY_Q_NONE};
}

/* --- rotation --------------------------------------------------------------------------------- */

static uint32_t rotated(fy_q_composer *c, const char *name, uint32_t range, uint32_t n)
{
    fy_q_name(c, "%s.rope", name);
    return range == FY_Q_NONE ? fy_q_act(c, c->g->n_batch, n)
                              : fy_q_inner(c, FY_QC_ACT, c->g->core, c->g->n_batch, n, range);
}

/* x cos + (the other half, the first negative) sin. range: of the result; FY_Q_NONE: its own. */
static uint32_t turn(const block *b, const projection *p, uint32_t x, uint32_t range,
                     const char *name)
{
    fy_q_composer *c = b->c;
    const uint32_t n = b->hp->n_rot, rows = c->g->n_batch;
    const bool query = p->slot == FY_T_ATTN_Q;
    const uint32_t which = query && c->cos[2] != FY_Q_NONE       ? 2
                           : b->window && c->cos[1] != FY_Q_NONE ? 1
                                                                 : 0;
    const uint32_t cos = c->cos[which], sin = c->sin[which];
    uint32_t part[3];
    if (!c->of->rope_nodes) {
        const uint32_t y = rotated(c, name, range, n);
        FY_Q_ADD_NODE(c, FY_Q_ROPE, y, x, cos, sin);
        return y;
    }
    for (uint32_t i = 0; i < 2; i++) {
        fy_q_name(c, "%s.half%u", name, i);
        part[i] = fy_q_slice(c, x, i * n / 2, (i + 1) * n / 2);
    }
    fy_q_name(c, "%s.swapped", name);
    part[2] = fy_q_inner(c, FY_QC_ACT, c->g->core, rows, n, fy_q_at(c, x).range);
    FY_Q_ADD_NODE(c, FY_Q_CONCAT, part[2], part[1], part[0])->axis = 3;
    fy_q_name(c, "%s.cos", name);
    const uint32_t with_cos = fy_q_act(c, rows, n);
    FY_Q_ADD_NODE(c, FY_Q_MULTIPLY, with_cos, x, cos);
    fy_q_name(c, "%s.sin", name);
    const uint32_t with_sin = fy_q_act(c, rows, n);
    FY_Q_ADD_NODE(c, FY_Q_MULTIPLY, with_sin, part[2], sin);
    const uint32_t y = rotated(c, name, range, n);
    FY_Q_ADD_NODE(c, FY_Q_ADD, y, with_cos, with_sin);
    return y;
}

/* Are keys and queries multiplied by the Hadamard matrix (R3)? Keys then have ranges of their own.
 */
static bool spreads(const block *b)
{
    return b->c->of->recipe->rotate_keys && fy_npu_can_rotate_keys(b->hp);
}

/* x [B, head_dim] times the Hadamard matrix (R3). */
static uint32_t spread(const block *b, uint32_t x, const char *name)
{
    fy_q_composer *c = b->c;
    const uint32_t n = b->hp->head_dim;
    if (c->hadamard == FY_Q_NONE) {
        fy_q_static from = fy_q_values_of(FY_T_COUNT, 0, n, 1);
        from.type = c->g->core == FY_Q_F16 ? FY_NPU_FP16 : FY_NPU_16A8W;
        from.hadamard = true;
        c->hadamard = fy_q_matrix(c, "hadamard.weight", n, &from);
    }
    fy_q_name(c, "%s.spread", name);
    const uint32_t y = fy_q_act(c, c->g->n_batch, n);
    FY_Q_ADD_NODE(c, FY_Q_CONV, y, x, c->hadamard);
    return y;
}

/* A query or key where it stands. late: of its norm, if that comes after the rotation. */
static uint32_t rotate(const block *b, const projection *p, uint32_t x, uint32_t head,
                       fy_q_norm_vectors late)
{
    fy_q_composer *c = b->c;
    const uint32_t n = b->hp->n_rot, width = b->hp->head_dim;
    char name[32];
    fy_q_name(c, "L%u.%s%u", b->layer, p->short_name, head);
    memcpy(name, c->name, sizeof name);
    name[sizeof name - 1] = '\0';
    if (b->rotates && n == width) {
        x = turn(b, p, x, FY_Q_NONE, name);
    } else if (b->rotates) {
        const uint32_t range = fy_q_at(c, x).range;
        fy_q_name(c, "%s.first", name);
        const uint32_t first = fy_q_slice(c, x, 0, n);
        fy_q_name(c, "%s.rest", name);
        const uint32_t rest = fy_q_slice(c, x, n, width), turned = turn(b, p, first, range, name);
        fy_q_name(c, "%s.joined", name);
        x = fy_q_inner(c, FY_QC_ACT, c->g->core, c->g->n_batch, width, range);
        FY_Q_ADD_NODE(c, FY_Q_CONCAT, x, turned, rest)->axis = 3;
    }
    if (late.gamma != FY_Q_NONE) {
        fy_q_name(c, "%s.norm", name);
        x = norm_heads(b, x, width, late);
    }
    return spreads(b) ? spread(b, x, name) : x;
}

/* --- attention -------------------------------------------------------------------------------- */

/* The cache with the rows of the call after it, all in the encoding of the cache; the rows go out
 * as well. Keys are transposed. */
static uint32_t extend_cache(const block *b, uint32_t x, uint32_t head, bool keys)
{
    fy_q_composer *c = b->c;
    fy_qgraph *g = c->g;
    const uint32_t pair = 2 * ((b->layer - c->of->chunk->first_layer) * b->hp->n_head_kv + head);
    const uint32_t cache = c->first[keys ? FY_IO_KEY_CACHE : FY_IO_VALUE_CACHE] + pair;
    const uint32_t out = c->first[keys ? FY_IO_KEY : FY_IO_VALUE] + pair;
    const char *what = keys ? "k" : "v";
    fy_q_tensor t = fy_q_at(c, x);
    const uint32_t width = fy_q_cols(&t);
    fy_q_name(c, "L%u.%s%u.%s", b->layer, what, head, keys && spreads(b) ? "spread.new" : "new");
    t.range = fy_q_range(c, FY_QC_KV);
    if (c->failed)
        return FY_Q_NONE;
    g->tensors[cache].range = g->tensors[out].range = t.range;
    uint32_t fresh = x;
    if (g->core != g->kv) {
        fresh = fy_q_inner(c, FY_QC_KV, g->kv, g->n_batch, width, t.range);
        FY_Q_ADD_NODE(c, FY_Q_CAST, fresh, x);
    }
    FY_Q_ADD_NODE(c, FY_Q_RESHAPE, out, fresh);
    fy_q_name(c, "L%u.%s%u.cache", b->layer, what, head);
    const uint32_t old = fy_q_reshape(c, cache, 4), seen = g->n_cache + g->n_batch;
    uint32_t now = fresh;
    if (keys) {
        fy_q_name(c, "L%u.k%u.new_t", b->layer, head);
        now = fy_q_inner(c, FY_QC_KV, g->kv, width, g->n_batch, t.range);
        FY_Q_ADD_NODE(c, FY_Q_TRANSPOSE, now, fresh);
    }
    fy_q_name(c, "L%u.%s%u.all", b->layer, what, head);
    const uint32_t all =
        fy_q_inner(c, FY_QC_KV, g->kv, keys ? width : seen, keys ? seen : width, t.range);
    FY_Q_ADD_NODE(c, FY_Q_CONCAT, all, old, now)->axis = keys ? 3 : 2;
    return all;
}

/* What a query head takes from the values that it sees: [B, head_dim_v] in the range `range`. */
static uint32_t attend(const block *b, uint32_t head, uint32_t q, uint32_t k, uint32_t v,
                       uint32_t range)
{
    fy_q_composer *c = b->c;
    const uint32_t rows = c->g->n_batch, seen = c->g->n_cache + rows, mask = c->mask[b->window];
    const fy_q_type core = c->g->core;
    fy_q_name(c, "L%u.h%u.score", b->layer, head);
    uint32_t s = fy_q_inner(c, FY_QC_SCORE, core, rows, seen, fy_q_range(c, FY_QC_SCORE));
    FY_Q_ADD_NODE(c, FY_Q_MATMUL, s, q, k);
    if (!c->failed)
        c->g->tensors[s].mask = mask;
    if (b->hp->attn_softcap != 0) {
        fy_q_name(c, "L%u.h%u.tanh", b->layer, head);
        const uint32_t t = fy_q_inner(c, FY_QC_TANH, core, rows, seen, FY_Q_NONE);
        FY_Q_ADD_NODE(c, FY_Q_TANH, t, s);
        fy_q_name(c, "L%u.h%u.capped", b->layer, head);
        s = fy_q_inner(c, FY_QC_SCORE, core, rows, seen, fy_q_range(c, FY_QC_SCORE));
        if (c->cap == FY_Q_NONE)
            c->cap = fy_q_const(c, "softcap", b->hp->attn_softcap, FY_Q_NONE);
        FY_Q_ADD_NODE(c, FY_Q_MULTIPLY, s, t, c->cap);
        if (!c->failed)
            c->g->tensors[s].mask = mask;
    }
    fy_q_name(c, "L%u.h%u.masked", b->layer, head);
    const uint32_t masked = fy_q_inner(c, FY_QC_MASKED, core, rows, seen, fy_q_at(c, s).range);
    FY_Q_ADD_NODE(c, FY_Q_ADD, masked, s, mask);
    fy_q_name(c, "L%u.h%u.weights", b->layer, head);
    const uint32_t p = fy_q_inner(c, FY_QC_UNIT, core, rows, seen, FY_Q_NONE);
    FY_Q_ADD_NODE(c, FY_Q_SOFTMAX, p, masked);
    fy_q_name(c, "L%u.h%u.y", b->layer, head);
    const uint32_t y = fy_q_inner(c, FY_QC_ACT, core, rows, b->hp->head_dim_v, range);
    FY_Q_ADD_NODE(c, FY_Q_MATMUL, y, p, v);
    return y;
}

/* What attention adds to the residual stream. */
static uint32_t attention(const block *b, fy_q_stream x)
{
    fy_q_composer *c = b->c;
    const fy_hparams *hp = b->hp;
    const uint32_t group = hp->n_head / hp->n_head_kv;
    uint32_t *heads =
        fy_arena_calloc(&c->g->arena, hp->n_head + 2 * (size_t)hp->n_head_kv, sizeof *heads);
    if (heads == NULL) {
        if (!c->failed)
            fy_nomem(c->e);
        c->failed = true;
        return FY_Q_NONE;
    }
    uint32_t *k = heads + hp->n_head, *v = k + hp->n_head_kv;
    const projection pq = {.slot = FY_T_ATTN_Q,
                           .bias = FY_T_ATTN_Q_B,
                           .norm = FY_T_ATTN_Q_NORM,
                           .short_name = "q",
                           .n_heads = hp->n_head,
                           .head_dim = hp->head_dim,
                           .turned = true,
                           .scale = 1};
    const projection pk = {.slot = FY_T_ATTN_K,
                           .bias = FY_T_ATTN_K_B,
                           .norm = FY_T_ATTN_K_NORM,
                           .short_name = "k",
                           .n_heads = hp->n_head_kv,
                           .head_dim = hp->head_dim,
                           .turned = true,
                           .scale = b->key_scale};
    const projection pv = {.slot = FY_T_ATTN_V,
                           .bias = FY_T_ATTN_V_B,
                           .norm = FY_T_COUNT,
                           .short_name = "v",
                           .n_heads = hp->n_head_kv,
                           .head_dim = hp->head_dim_v,
                           .scale = 1};
    project_heads(b, &pk, x, k);
    project_heads(b, &pv, x, v);
    const fy_q_norm_vectors late_k = late_norm(b, &pk), late_q = late_norm(b, &pq);
    for (uint32_t j = 0; j < hp->n_head_kv && !c->failed; j++) {
        k[j] = extend_cache(b, rotate(b, &pk, k[j], j, late_k), j, true);
        v[j] = extend_cache(b, v[j], j, false);
    }
    project_heads(b, &pq, x, heads);
    fy_q_name(c, "L%u.y", b->layer);
    const uint32_t range = fy_q_range(c, FY_QC_ACT);
    for (uint32_t h = 0; h < hp->n_head && !c->failed; h++)
        heads[h] =
            attend(b, h, rotate(b, &pq, heads[h], h, late_q), k[h / group], v[h / group], range);
    fy_q_name(c, "L%u.y", b->layer);
    uint32_t y = heads[0];
    if (hp->n_head > 1) {
        y = fy_q_inner(c, FY_QC_ACT, c->g->core, c->g->n_batch, hp->n_head * hp->head_dim_v, range);
        fy_q_add(c, FY_Q_CONCAT, y, heads, hp->n_head)->axis = 3;
    }
    return fy_q_branch(c, b->layer, FY_T_ATTN_OUT, FY_T_ATTN_OUT_B, FY_T_ATTN_POST_NORM,
                       "attn_output", y);
}

/* --- feed-forward ----------------------------------------------------------------------------- */

/* A matrix of the layer, whole. */
static uint32_t whole(const block *b, fy_q_stream x, fy_slot slot, fy_slot bias, uint32_t n,
                      float scale, const char *name)
{
    fy_q_composer *c = b->c;
    const fy_q_linear l = {
        .slot = slot, .bias = bias, .layer = b->layer, .head = FY_Q_NONE, .n = n, .scale = scale};
    fy_q_name(c, "L%u.%s", b->layer, name);
    return fy_q_product(c, x, &l);
}

uint32_t fy_q_branch(fy_q_composer *c, uint32_t layer, fy_slot slot, fy_slot bias, fy_slot post,
                     const char *matrix, uint32_t x)
{
    const block b = block_of(c, layer);
    const bool has_post = fy_q_has(c, post, layer);
    const float scale = c->of->hp->residual_scale;
    const uint32_t y = whole(&b, (fy_q_stream){x, FY_T_COUNT}, slot, bias, c->of->hp->n_embd,
                             has_post ? 1 : scale, matrix);
    char name[64];
    fy_q_name(c, "L%u.%s.norm", layer, matrix);
    memcpy(name, c->name, sizeof name);
    return fy_q_norm(c, y, post, FY_T_COUNT, layer, name, scale).t;
}

static uint32_t unary(const block *b, fy_q_op op, uint32_t x, const char *name)
{
    fy_q_composer *c = b->c;
    const fy_q_tensor in = fy_q_at(c, x);
    const uint32_t rows = fy_q_rows(&in), cols = fy_q_cols(&in);
    fy_q_name(c, "L%u.%s", b->layer, name);
    const uint32_t y = op == FY_Q_SIGMOID
                           ? fy_q_inner(c, FY_QC_SIGMOID, c->g->core, rows, cols, FY_Q_NONE)
                           : fy_q_act(c, rows, cols);
    FY_Q_ADD_NODE(c, op, y, x)->act = b->hp->act;
    return y;
}

static uint32_t multiply(fy_q_composer *c, uint32_t a, uint32_t b, uint32_t layer, const char *name)
{
    const fy_q_tensor in = fy_q_at(c, a);
    fy_q_name(c, "L%u.%s", layer, name);
    const uint32_t y = fy_q_act(c, fy_q_rows(&in), fy_q_cols(&in));
    FY_Q_ADD_NODE(c, FY_Q_MULTIPLY, y, a, b);
    return y;
}

/* x where it is above the threshold, else 0. */
static uint32_t above(const block *b, uint32_t x)
{
    fy_q_composer *c = b->c;
    const fy_q_tensor in = fy_q_at(c, x);
    const uint32_t rows = fy_q_rows(&in), cols = fy_q_cols(&in);
    if (c->threshold == FY_Q_NONE) {
        c->threshold = fy_q_const(c, "act_threshold", b->hp->act_threshold, FY_Q_NONE);
        c->zero = fy_q_const(c, "zero", 0, FY_Q_NONE);
    }
    fy_q_name(c, "L%u.above", b->layer);
    const uint32_t is = fy_q_inner(c, FY_QC_BOOL, FY_Q_BOOL, rows, cols, FY_Q_NONE);
    FY_Q_ADD_NODE(c, FY_Q_GREATER, is, x, c->threshold);
    fy_q_name(c, "L%u.kept", b->layer);
    const uint32_t y = fy_q_act(c, rows, cols);
    FY_Q_ADD_NODE(c, FY_Q_SELECT, y, is, x, c->zero);
    return y;
}

static uint32_t activate(const block *b, uint32_t x)
{
    const fy_act_kind act = b->hp->act;
    if (act == FY_ACT_SILU)
        return multiply(b->c, x, unary(b, FY_Q_SIGMOID, x, "sigmoid"), b->layer, "silu");
    if (act == FY_ACT_FATRELU)
        return above(b, x);
    return act == FY_ACT_GELU || act == FY_ACT_GELU_TANH ? unary(b, FY_Q_GELU, x, "gelu")
                                                         : unary(b, FY_Q_RELU, x, "relu");
}

/* What the feed-forward network adds to the residual stream. */
static uint32_t feed_forward(const block *b, fy_q_stream x)
{
    fy_q_composer *c = b->c;
    const uint32_t n = b->hp->n_ff;
    uint32_t up = whole(b, x, FY_T_FFN_UP, FY_T_FFN_UP_B, n, 1, "ffn_up");
    if (fy_q_has(c, FY_T_FFN_GATE, b->layer)) {
        const uint32_t gate =
            activate(b, whole(b, x, FY_T_FFN_GATE, FY_T_FFN_GATE_B, n, 1, "ffn_gate"));
        if (b->hp->act == FY_ACT_DRELU)
            up = unary(b, FY_Q_RELU, up, "up_relu");
        up = multiply(c, gate, up, b->layer, "ffn_inner");
    } else {
        up = activate(b, up);
    }
    return fy_q_branch(c, b->layer, FY_T_FFN_DOWN, FY_T_FFN_DOWN_B, FY_T_FFN_POST_NORM, "ffn_down",
                       up);
}

/* --- the layer -------------------------------------------------------------------------------- */

static fy_q_stream normed(const block *b, uint32_t x, fy_slot gamma, fy_slot beta, const char *what)
{
    char name[64];
    fy_q_name(b->c, "L%u.%s", b->layer, what);
    memcpy(name, b->c->name, sizeof name);
    return fy_q_norm(b->c, x, gamma, beta, b->layer, name, 1);
}

static uint32_t add_to(const block *b, uint32_t x, uint32_t branch, const char *name)
{
    fy_q_composer *c = b->c;
    const fy_q_tensor in = fy_q_at(c, x);
    fy_q_name(c, "L%u.%s", b->layer, name);
    const uint32_t y = fy_q_act(c, fy_q_rows(&in), fy_q_cols(&in));
    FY_Q_ADD_NODE(c, FY_Q_ADD, y, x, branch);
    return y;
}

uint32_t fy_q_layer(fy_q_composer *c, uint32_t layer, uint32_t x)
{
    const block b = block_of(c, layer);
    const bool parallel = c->of->hp->parallel;
    const bool two_norms = parallel && fy_q_has(c, FY_T_ATTN_NORM_2, layer);
    const fy_q_stream n1 = two_norms
                               ? normed(&b, x, FY_T_ATTN_NORM_2, FY_T_ATTN_NORM_2_B, "attn_norm_2")
                               : normed(&b, x, FY_T_ATTN_NORM, FY_T_ATTN_NORM_B, "attn_norm");
    fy_q_stream n2 = n1;
    if (parallel && fy_q_has(c, FY_T_FFN_NORM, layer))
        n2 = normed(&b, x, FY_T_FFN_NORM, FY_T_FFN_NORM_B, "ffn_norm");
    else if (two_norms)
        n2 = normed(&b, x, FY_T_ATTN_NORM, FY_T_ATTN_NORM_B, "attn_norm");
    x = add_to(&b, x, attention(&b, n1), "mid");
    if (!parallel)
        n2 = normed(&b, x, FY_T_FFN_NORM, FY_T_FFN_NORM_B, "ffn_norm");
    return add_to(&b, x, feed_forward(&b, n2), "out");
}
