/* Composes the graph of a chunk: the borders, the lm_head, and what all nodes are made with. */
#include "workspace/npu/qgraph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "workspace/npu/qgraph_impl.h"

/* --- making tensors and nodes ----------------------------------------------------------------- */

static void out_of_memory(fy_q_composer *c)
{
    if (!c->failed)
        fy_nomem(c->e);
    c->failed = true;
}

void fy_q_name(fy_q_composer *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->name, sizeof c->name, fmt, args);
    va_end(args);
}

static const char *keep_name(fy_q_composer *c, const char *name)
{
    const char *kept =
        c->failed ? NULL : fy_arena_strndup(&c->g->arena, name, strnlen(name, sizeof c->name - 1));
    if (kept == NULL)
        out_of_memory(c);
    return kept;
}

uint32_t fy_q_range(fy_q_composer *c, fy_q_class class)
{
    fy_qgraph *g = c->g;
    const fy_q_range_of r = {.name = keep_name(c, c->name), .class = class};
    if (c->failed || fy_append(&g->ranges, &g->n_ranges, &g->cap_ranges, &r, sizeof r, c->e) != 0) {
        c->failed = true;
        return FY_Q_NONE;
    }
    return (uint32_t)g->n_ranges - 1;
}

static uint32_t add_tensor(fy_q_composer *c, const char *name, fy_q_tensor t)
{
    fy_qgraph *g = c->g;
    t.name = keep_name(c, name);
    if (c->failed ||
        fy_append(&g->tensors, &g->n_tensors, &g->cap_tensors, &t, sizeof t, c->e) != 0) {
        c->failed = true;
        return FY_Q_NONE;
    }
    return (uint32_t)g->n_tensors - 1;
}

fy_q_tensor fy_q_at(const fy_q_composer *c, uint32_t t)
{
    const fy_q_tensor none = {
        .range = FY_Q_NONE, .mask = FY_Q_NONE, .rank = 4, .dims = {1, 1, 1, 1}};
    return c->failed || t == FY_Q_NONE ? none : c->g->tensors[t];
}

uint32_t fy_q_inner(fy_q_composer *c, fy_q_class class, fy_q_type type, uint32_t rows,
                    uint32_t cols, uint32_t range)
{
    const fy_q_tensor t = {.kind = FY_Q_INNER,
                           .class = class,
                           .type = type,
                           .rank = 4,
                           .dims = {1, 1, rows, cols},
                           .range = range,
                           .mask = FY_Q_NONE};
    return add_tensor(c, c->name, t);
}

uint32_t fy_q_act(fy_q_composer *c, uint32_t rows, uint32_t cols)
{
    return fy_q_inner(c, FY_QC_ACT, c->g->core, rows, cols, fy_q_range(c, FY_QC_ACT));
}

fy_q_static fy_q_values_of(fy_slot slot, uint32_t layer, uint32_t n, float scale)
{
    return (fy_q_static){.slot = slot,
                         .layer = layer,
                         .n = n,
                         .scale = scale,
                         .matrix = FY_T_COUNT,
                         .beta = FY_T_COUNT};
}

static uint32_t add_static(fy_q_composer *c, const char *name, fy_q_tensor t,
                           const fy_q_static *from)
{
    t.kind = FY_Q_STATIC;
    t.mask = FY_Q_NONE;
    t.from = *from;
    return add_tensor(c, name, t);
}

uint32_t fy_q_vector(fy_q_composer *c, const char *name, fy_q_class class, fy_q_type type,
                     uint32_t n, const fy_q_static *from)
{
    const fy_q_tensor t = {
        .class = class, .type = type, .rank = 1, .dims = {n}, .range = FY_Q_NONE};
    return add_static(c, name, t, from);
}

/* In the encoding of `range`, or of its own. */
uint32_t fy_q_const(fy_q_composer *c, const char *name, float value, uint32_t range)
{
    fy_q_static from = fy_q_values_of(FY_T_COUNT, 0, 1, 1);
    from.value = value;
    const fy_q_tensor t = {
        .class = FY_QC_CONST, .type = c->g->core, .rank = 1, .dims = {1}, .range = range};
    return add_static(c, name, t, &from);
}

fy_q_node *fy_q_add(fy_q_composer *c, fy_q_op op, uint32_t out, const uint32_t *in, uint32_t n_in)
{
    static fy_q_node none;
    fy_qgraph *g = c->g;
    uint32_t *kept = c->failed ? NULL : fy_arena_calloc(&g->arena, n_in, sizeof *kept);
    if (kept == NULL) {
        out_of_memory(c);
        return &none;
    }
    memcpy(kept, in, n_in * sizeof *kept);
    const fy_q_node n = {.op = op, .in = kept, .n_in = n_in, .out = out};
    if (fy_append(&g->nodes, &g->n_nodes, &g->cap_nodes, &n, sizeof n, c->e) != 0) {
        c->failed = true;
        return &none;
    }
    return &g->nodes[g->n_nodes - 1];
}

/* --- what all parts of a graph use ------------------------------------------------------------ */

/* Those who read x come soon after what makes it. */
static uint32_t find_cast(const fy_qgraph *g, uint32_t x, fy_q_type type)
{
    for (size_t i = g->n_nodes; i > 0 && g->nodes[i - 1].out != x; i--) {
        const fy_q_node *n = &g->nodes[i - 1];
        if (n->op == FY_Q_CAST && n->in[0] == x && g->tensors[n->out].type == type)
            return n->out;
    }
    return FY_Q_NONE;
}

uint32_t fy_q_cast(fy_q_composer *c, uint32_t x, fy_q_type type)
{
    fy_q_tensor t = fy_q_at(c, x);
    if (c->failed || t.type == type)
        return x;
    const uint32_t made = find_cast(c->g, x, type);
    if (made != FY_Q_NONE)
        return made;
    static const char *const suffix[] = {[FY_Q_F32] = "f32",
                                         [FY_Q_F16] = "f16",
                                         [FY_Q_U16] = "u16",
                                         [FY_Q_S16] = "s16",
                                         [FY_Q_U8] = "u8"};
    char name[sizeof c->name + 8];
    snprintf(name, sizeof name, "%s.%s", t.name, suffix[type]);
    t.kind = FY_Q_INNER;
    t.type = type;
    const uint32_t to = add_tensor(c, name, t);
    FY_Q_ADD_NODE(c, FY_Q_CAST, to, x);
    return to;
}

uint32_t fy_q_reshape(fy_q_composer *c, uint32_t x, uint32_t rank)
{
    const fy_q_tensor from = fy_q_at(c, x);
    fy_q_tensor t = from;
    t.kind = FY_Q_INNER;
    t.rank = rank;
    for (uint32_t i = 0; i < rank; i++)
        t.dims[i] = 1;
    t.dims[rank - 2] = fy_q_rows(&from);
    t.dims[rank - 1] = fy_q_cols(&from);
    const uint32_t to = add_tensor(c, c->name, t);
    FY_Q_ADD_NODE(c, FY_Q_RESHAPE, to, x);
    return to;
}

uint32_t fy_q_reshape_to(fy_q_composer *c, uint32_t x, uint32_t rank, const uint32_t *dims)
{
    fy_q_tensor t = fy_q_at(c, x);
    t.kind = FY_Q_INNER;
    t.rank = rank;
    memcpy(t.dims, dims, rank * sizeof *dims);
    const uint32_t to = add_tensor(c, c->name, t);
    FY_Q_ADD_NODE(c, FY_Q_RESHAPE, to, x);
    return to;
}

uint32_t fy_q_slice_of(fy_q_composer *c, uint32_t x, uint32_t axis, uint32_t begin, uint32_t end)
{
    fy_q_tensor t = fy_q_at(c, x);
    t.dims[axis] = end - begin;
    const uint32_t to = add_tensor(c, c->name, t);
    fy_q_node *n = FY_Q_ADD_NODE(c, FY_Q_SLICE, to, x);
    n->axis = axis;
    n->begin = begin;
    n->end = end;
    return to;
}

uint32_t fy_q_slice(fy_q_composer *c, uint32_t x, uint32_t begin, uint32_t end)
{
    return fy_q_slice_of(c, x, fy_q_at(c, x).rank - 1, begin, end);
}

bool fy_q_has(const fy_q_composer *c, fy_slot slot, uint32_t layer)
{
    return slot != FY_T_COUNT && c->of->has(c->of->user, slot, layer);
}

/* The pattern of a tensor's name. The parts of fused tensors are named as others have them. */
static const char *pattern_of(fy_slot slot)
{
    const fy_tensor_row *row = NULL;
    for (const fy_family *const *f = fy_families; row == NULL && *f != NULL; f++)
        row = fy_row_of_slot(*f, slot);
    return row != NULL ? row->gguf : "";
}

const char *fy_qgraph_matrix_name(const fy_q_static *from, char out[FY_Q_MATRIX_NAME])
{
    char name[FY_ROW_NAME_BYTES] = "hadamard.weight";
    if (from->slot != FY_T_COUNT)
        fy_row_name(pattern_of(from->slot), from->layer, name);
    snprintf(out, FY_Q_MATRIX_NAME, "%s", name);
    return out;
}

/* c->name: as GGUF calls the tensor, with the head and another ending: "blk.3.attn_q.2.bias". */
static void name_static(fy_q_composer *c, fy_slot slot, uint32_t layer, uint32_t head,
                        const char *ending)
{
    char name[FY_Q_MATRIX_NAME], number[16] = "";
    fy_qgraph_matrix_name(&(fy_q_static){.slot = slot, .layer = layer}, name);
    const char *dot = strrchr(name, '.');
    if (head != FY_Q_NONE)
        snprintf(number, sizeof number, ".%u", head);
    fy_q_name(c, "%.*s%s.%s", dot != NULL ? (int)(dot - name) : 0, name, number, ending);
}

uint32_t fy_q_matrix(fy_q_composer *c, const char *name, uint32_t n_in, const fy_q_static *from)
{
    const char *refused = fy_npu_type_refuses(from->type, n_in);
    const fy_q_tensor t = {.class = FY_QC_WEIGHT,
                           .type = FY_Q_PACKED,
                           .rank = 4,
                           .dims = {1, 1, n_in, from->n},
                           .range = FY_Q_NONE};
    if (refused == NULL || c->failed)
        return add_static(c, name, t, from);
    fy_fail(c->e, FY_EFIT, "recipe %s: %s has rows of %u: %s", c->of->recipe->name, name, n_in,
            refused);
    c->failed = true;
    return FY_Q_NONE;
}

static fy_q_type type_between(fy_npu_type t)
{
    return fy_npu_type_is_float(t) ? FY_Q_F16 : t == FY_NPU_8A4W ? FY_Q_U8 : FY_Q_U16;
}

uint32_t fy_q_product(fy_q_composer *c, fy_q_stream x, const fy_q_linear *l)
{
    const fy_npu_type type = fy_npu_recipe_type(c->of->recipe, l->slot, l->layer);
    const fy_q_type act = type_between(type);
    const fy_q_tensor in = fy_q_at(c, x.t);
    const bool has_bias = fy_q_has(c, l->bias, l->layer);
    fy_q_static from = fy_q_values_of(l->slot, l->layer, l->n, l->scale);
    from.first = l->first;
    from.type = type;
    from.halves = l->halves;
    char wanted[sizeof c->name];
    memcpy(wanted, c->name, sizeof wanted);
    name_static(c, l->slot, l->layer, l->head, "weight");
    uint32_t operands[3] = {fy_q_cast(c, x.t, act), fy_q_matrix(c, c->name, fy_q_cols(&in), &from)};
    uint32_t n = 2;
    if (has_bias || x.beta != FY_T_COUNT) {
        from.slot = has_bias ? l->bias : FY_T_COUNT;
        from.matrix = x.beta != FY_T_COUNT ? l->slot : FY_T_COUNT;
        from.beta = x.beta;
        name_static(c, l->slot, l->layer, l->head, "bias");
        operands[n++] =
            fy_q_vector(c, c->name, FY_QC_BIAS, act == FY_Q_F16 ? FY_Q_F16 : FY_Q_S32, l->n, &from);
    }
    fy_q_name(c, "%s", wanted);
    const uint32_t y =
        fy_q_inner(c, FY_QC_ACT, act, fy_q_rows(&in), l->n, fy_q_range(c, FY_QC_ACT));
    fy_q_add(c, FY_Q_CONV, y, operands, n);
    return fy_q_cast(c, y, c->g->core);
}

fy_q_norm_vectors fy_q_norm_of(fy_q_composer *c, uint32_t n, const fy_q_static *gamma)
{
    fy_q_static zeros = *gamma;
    fy_q_norm_vectors v;
    name_static(c, gamma->slot, gamma->layer, FY_Q_NONE, "weight");
    v.gamma = fy_q_vector(c, c->name, FY_QC_GAMMA, c->g->core, n, gamma);
    name_static(c, gamma->slot, gamma->layer, FY_Q_NONE, "zeros");
    zeros.slot = FY_T_COUNT;
    v.zeros = fy_q_vector(c, c->name, FY_QC_BETA, c->g->core, n, &zeros);
    return v;
}

fy_q_stream fy_q_norm(fy_q_composer *c, uint32_t x, fy_slot gamma, fy_slot beta, uint32_t layer,
                      const char *name, float scale)
{
    if (!fy_q_has(c, gamma, layer))
        return (fy_q_stream){x, FY_T_COUNT};
    const bool centred = c->of->family->layer_norm;
    const fy_q_tensor in = fy_q_at(c, x);
    const fy_q_static from = fy_q_values_of(gamma, layer, fy_q_cols(&in), scale);
    const fy_q_norm_vectors v = fy_q_norm_of(c, from.n, &from);
    fy_q_name(c, "%s", name);
    const uint32_t y = fy_q_act(c, fy_q_rows(&in), from.n);
    fy_q_node *node =
        FY_Q_ADD_NODE(c, centred ? FY_Q_LAYER_NORM : FY_Q_RMS_NORM, y, x, v.gamma, v.zeros);
    node->eps = centred ? c->of->hp->norm_eps : c->of->hp->norm_rms_eps;
    return (fy_q_stream){y, centred && fy_q_has(c, beta, layer) ? beta : FY_T_COUNT};
}

/* --- borders ---------------------------------------------------------------------------------- */

/* Class and type of a border tensor. */
static void border_type(const fy_qgraph *g, fy_io_role role, fy_q_class *class, fy_q_type *type)
{
    const bool mask = role == FY_IO_BIAS || role == FY_IO_BIAS_SWA;
    const bool kv = role == FY_IO_KEY_CACHE || role == FY_IO_VALUE_CACHE || role == FY_IO_KEY ||
                    role == FY_IO_VALUE;
    const bool state = role == FY_IO_STATE || role == FY_IO_STATE_OUT;
    *class = mask ? FY_QC_MASK : kv ? FY_QC_KV : FY_QC_PLAIN;
    *type = mask || state ? g->core : kv ? g->kv : FY_Q_F32;
}

/* Tensor i is the border's number i. */
static void add_borders(fy_q_composer *c)
{
    const uint32_t n = fy_graph_n_io(&c->io);
    for (size_t i = 0; i < sizeof c->first / sizeof c->first[0]; i++)
        c->first[i] = FY_Q_NONE;
    for (uint32_t i = 0; i < n && !c->failed; i++) {
        fy_io_tensor io;
        fy_graph_io(&c->io, i, &io);
        fy_q_tensor t = {.kind = io.role >= FY_IO_OUT ? FY_Q_OUT : FY_Q_IN,
                         .rank = 2,
                         .dims = {(uint32_t)io.rows, (uint32_t)io.cols},
                         .range = FY_Q_NONE,
                         .mask = FY_Q_NONE};
        border_type(c->g, io.role, &t.class, &t.type);
        if (c->first[io.role] == FY_Q_NONE)
            c->first[io.role] = i;
        add_tensor(c, io.name, t);
    }
}

/* The residual stream as it comes in: in the range that it had where it was made. */
static uint32_t take_in(fy_q_composer *c)
{
    const fy_q_tensor x = fy_q_at(c, c->first[FY_IO_X]);
    fy_q_tensor t = {.kind = FY_Q_INNER,
                     .class = FY_QC_ACT,
                     .type = c->g->core,
                     .rank = 2,
                     .dims = {x.dims[0], x.dims[1]},
                     .mask = FY_Q_NONE};
    const fy_chunk_info *chunk = c->of->chunk;
    const uint32_t before = chunk->kind == FY_CHUNK_HEAD ? c->of->hp->n_layer : chunk->first_layer;
    if (before > 0)
        fy_q_name(c, "L%u.out", before - 1);
    else
        fy_q_name(c, "embedding");
    t.range = fy_q_range(c, FY_QC_ACT);
    const uint32_t in = add_tensor(c, "x.in", t);
    FY_Q_ADD_NODE(c, FY_Q_CAST, in, c->first[FY_IO_X]);
    fy_q_name(c, "x.rows");
    return fy_q_reshape(c, in, 4);
}

void fy_q_give(fy_q_composer *c, uint32_t y, fy_io_role role)
{
    fy_q_name(c, "%s.rows", fy_q_at(c, c->first[role]).name);
    const uint32_t rows = fy_q_reshape(c, y, 2);
    FY_Q_ADD_NODE(c, FY_Q_CAST, c->first[role], rows);
}

uint32_t fy_q_take(fy_q_composer *c, fy_io_role role)
{
    const fy_q_tensor border = fy_q_at(c, c->first[role]);
    char name[sizeof c->name], inside[sizeof c->name + 8];
    fy_q_tensor t = border;
    memcpy(name, c->name, sizeof name);
    t.kind = FY_Q_INNER;
    t.type = c->g->core;
    snprintf(inside, sizeof inside, "%s.in", name);
    const uint32_t in = add_tensor(c, inside, t);
    FY_Q_ADD_NODE(c, FY_Q_CAST, in, c->first[role]);
    fy_q_name(c, "%s.rows", name);
    return fy_q_reshape(c, in, 4);
}

/* cos or sin [B, n/2] as rotation wants it: [1, B, n/2] of RotaryEmbedding, or [1, 1, B, n] of both
 * halves, the first of sin negative. */
static uint32_t take_table(fy_q_composer *c, fy_io_role role, bool sin)
{
    if (c->first[role] == FY_Q_NONE)
        return FY_Q_NONE;
    fy_q_tensor t = fy_q_at(c, c->first[role]);
    char name[sizeof c->name];
    snprintf(name, sizeof name, "%s.in", t.name);
    t.kind = FY_Q_INNER;
    t.class = FY_QC_TABLE;
    t.type = c->g->core;
    fy_q_name(c, "%s", name);
    t.range = fy_q_range(c, FY_QC_TABLE);
    const uint32_t half = add_tensor(c, name, t);
    FY_Q_ADD_NODE(c, FY_Q_CAST, half, c->first[role]);
    const char *border = fy_q_at(c, c->first[role]).name;
    if (c->failed)
        return FY_Q_NONE;
    fy_q_name(c, "%s.rows", border);
    if (!c->of->rope_nodes)
        return fy_q_reshape(c, half, 3);
    const uint32_t rows = fy_q_reshape(c, half, 4);
    uint32_t first = rows;
    if (sin) {
        fy_q_name(c, "%s.neg", border);
        first = fy_q_inner(c, FY_QC_TABLE, c->g->core, t.dims[0], t.dims[1], t.range);
        FY_Q_ADD_NODE(c, FY_Q_NEG, first, rows);
    }
    fy_q_name(c, "%s.both", border);
    const uint32_t both = fy_q_inner(c, FY_QC_TABLE, c->g->core, t.dims[0], 2 * t.dims[1], t.range);
    FY_Q_ADD_NODE(c, FY_Q_CONCAT, both, first, rows)->axis = 3;
    return both;
}

/* The columns that a call can see: the cache and its own tokens. */
static uint32_t take_mask(fy_q_composer *c, fy_io_role role)
{
    if (c->first[role] == FY_Q_NONE)
        return FY_Q_NONE;
    const uint32_t seen = c->g->n_cache + c->g->n_batch;
    const char *border = fy_q_at(c, c->first[role]).name;
    if (c->failed)
        return FY_Q_NONE;
    fy_q_name(c, "%s.rows", border);
    const uint32_t rows = fy_q_reshape(c, c->first[role], 4);
    fy_q_name(c, "%s.seen", border);
    return seen < c->g->n_ctx ? fy_q_slice(c, rows, 0, seen) : rows;
}

static void compose_states(fy_q_composer *c)
{
    uint32_t x = take_in(c);
    fy_q_begin_states(c);
    for (uint32_t l = c->of->chunk->first_layer; l < c->of->chunk->end_layer && !c->failed; l++)
        x = fy_q_rwkv_layer(c, l, x);
    fy_q_give(c, x, FY_IO_OUT);
}

static void compose_layers(fy_q_composer *c)
{
    uint32_t x = take_in(c);
    c->mask[0] = take_mask(c, FY_IO_BIAS);
    c->mask[1] = take_mask(c, FY_IO_BIAS_SWA);
    c->cos[0] = take_table(c, FY_IO_COS, false);
    c->sin[0] = take_table(c, FY_IO_SIN, true);
    c->cos[1] = take_table(c, FY_IO_COS_SWA, false);
    c->sin[1] = take_table(c, FY_IO_SIN_SWA, true);
    c->cos[2] = take_table(c, FY_IO_COS_Q, false);
    c->sin[2] = take_table(c, FY_IO_SIN_Q, true);
    for (uint32_t l = c->of->chunk->first_layer; l < c->of->chunk->end_layer && !c->failed; l++)
        x = fy_q_layer(c, l, x);
    fy_q_give(c, x, FY_IO_OUT);
}

static void compose_head(fy_q_composer *c)
{
    const uint32_t x = take_in(c);
    const fy_q_stream h =
        fy_q_norm(c, x, FY_T_OUTPUT_NORM, FY_T_OUTPUT_NORM_B, 0, "output_norm", 1);
    const fy_q_linear l = {.slot = FY_T_OUTPUT,
                           .bias = FY_T_OUTPUT_B,
                           .head = FY_Q_NONE,
                           .n = c->of->chunk->end_token - c->of->chunk->first_token,
                           .scale = 1};
    fy_q_name(c, "logits.%u", c->of->chunk->first_token);
    fy_q_give(c, fy_q_product(c, h, &l), FY_IO_LOGITS);
}

/* --- the graph -------------------------------------------------------------------------------- */

int fy_qgraph_compose(fy_qgraph *g, const fy_qgraph_of *of, fy_err *e)
{
    const fy_npu_recipe *r = of->recipe;
    const uint32_t kv_bits = of->kv_bits != 0 ? of->kv_bits : r->kv_bits;
    const char *refused = fy_cut_refusal(of->hp);
    const bool states = fy_graph_has_states(of->hp);
    const bool floats = r->float_core || states; /* states and decays want them */
    *g = (fy_qgraph){.n_batch = of->n_batch,
                     .n_cache = of->n_cache,
                     .n_ctx = of->n_ctx,
                     .core = floats ? FY_Q_F16 : FY_Q_U16,
                     .kv = kv_bits == 8 && !states ? FY_Q_U8
                           : floats                ? FY_Q_F16
                                                   : FY_Q_S16};
    if (refused != NULL)
        return fy_fail(e, FY_EUNSUPPORTED, "%s", refused);
    if (floats && kv_bits == 8 && !states)
        return fy_fail(e, FY_EFIT,
                       "recipe %s: attention in 16-bit floats has a cache of 16 bits, found 8",
                       r->name);
    if (of->n_batch == 0 || of->n_cache == 0 || of->n_cache > of->n_ctx ||
        of->n_batch > of->n_ctx - of->n_cache)
        return fy_fail(e, FY_EARG,
                       "a graph of %u tokens and a cache of %u, expected at least 1 of each, and "
                       "together at most the context, %u",
                       of->n_batch, of->n_cache, of->n_ctx);
    if (states && of->n_batch > FY_STATE_BATCH_MAX)
        return fy_fail(e, FY_EARG, "a graph of %u tokens with states, expected at most %d",
                       of->n_batch, FY_STATE_BATCH_MAX);
    fy_q_composer c = {.g = g,
                       .of = of,
                       .io = {.hp = of->hp,
                              .chunk = of->chunk,
                              .n_batch = of->n_batch,
                              .n_cache = of->n_cache,
                              .n_ctx = of->n_ctx,
                              .kv_bytes = states ? 2 : kv_bits / 8},
                       .e = e,
                       .hadamard = FY_Q_NONE,
                       .cap = FY_Q_NONE,
                       .threshold = FY_Q_NONE,
                       .zero = FY_Q_NONE,
                       .token_mask = FY_Q_NONE,
                       .token_last = FY_Q_NONE,
                       .v_first = FY_Q_NONE};
    add_borders(&c);
    if (!c.failed && of->chunk->kind == FY_CHUNK_HEAD)
        compose_head(&c);
    else if (!c.failed && states)
        compose_states(&c);
    else if (!c.failed)
        compose_layers(&c);
    if (!c.failed)
        return 0;
    fy_qgraph_release(g);
    return -1;
}

void fy_qgraph_release(fy_qgraph *g)
{
    fy_arena_release(&g->arena);
    free(g->tensors);
    free(g->nodes);
    free(g->ranges);
    *g = (fy_qgraph){0};
}
