/* The composer: tensors and nodes are appended; the first failure is kept, and what comes after it
 * does nothing. Shared by the borders (qgraph.c) and the layers (qgraph_layer.c). */
#ifndef FY_WORKSPACE_QGRAPH_IMPL_H
#define FY_WORKSPACE_QGRAPH_IMPL_H

#include "workspace/npu/qgraph.h"

typedef struct {
    fy_qgraph *g;
    const fy_qgraph_of *of;
    fy_graph_shape io;
    fy_err *e;
    bool failed;
    uint32_t first[FY_IO_COUNT]; /* number of the first border tensor of a role; FY_Q_NONE */
    uint32_t mask[2];            /* ready for a layer: [1] with the window's own; FY_Q_NONE */
    uint32_t cos[3], sin[3];     /* the same; [2] of queries that have their own */
    uint32_t hadamard, cap, threshold, zero; /* statics that all layers share; FY_Q_NONE until they
                                                are needed */
    /* of layers with states: [1, 1, B, 1] and [1, 1, 1, B], FY_Q_NONE where there is no padding;
     * values of the first layer; and statics that all layers share */
    uint32_t token_mask, token_last, v_first;
    uint32_t rate, half, ones, unit, zeros;
    char name[64]; /* of what is made next: fy_q_name */
} fy_q_composer;

/* What a matrix reads: a tensor, and the beta of the layer norm that made it, which is still to be
 * added (FY_T_COUNT: none). */
typedef struct {
    uint32_t t;
    fy_slot beta;
} fy_q_stream;

/* A product: rows [first, first + n) of a matrix; all of its bias that belongs to them. */
typedef struct {
    fy_slot slot, bias;
    uint32_t layer, head; /* head: whose rows they are; FY_Q_NONE: all are read at once */
    uint32_t first, n;
    bool halves;
    float scale;
} fy_q_linear;

/* gamma and the zeros that a norm wants. */
typedef struct {
    uint32_t gamma, zeros;
} fy_q_norm_vectors;

void fy_q_name(fy_q_composer *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A range of that class, named as c->name. */
uint32_t fy_q_range(fy_q_composer *c, fy_q_class class);
/* [1, 1, rows, cols], named as c->name. */
uint32_t fy_q_inner(fy_q_composer *c, fy_q_class class, fy_q_type type, uint32_t rows,
                    uint32_t cols, uint32_t range);
/* An activation of the core's type with a range of its own. */
uint32_t fy_q_act(fy_q_composer *c, uint32_t rows, uint32_t cols);
/* n rows or elements of a tensor of the model, from the first on; slot FY_T_COUNT: of none. */
fy_q_static fy_q_values_of(fy_slot slot, uint32_t layer, uint32_t n, float scale);
uint32_t fy_q_vector(fy_q_composer *c, const char *name, fy_q_class class, fy_q_type type,
                     uint32_t n, const fy_q_static *from);
uint32_t fy_q_const(fy_q_composer *c, const char *name, float value, uint32_t range);
/* The node that makes `out`; its parameters are still 0. Gives a node to fill in, always. */
fy_q_node *fy_q_add(fy_q_composer *c, fy_q_op op, uint32_t out, const uint32_t *in, uint32_t n_in);
#define FY_Q_ADD_NODE(c, op, out, ...)                    \
    fy_q_add(c, op, out, (const uint32_t[]){__VA_ARGS__}, \
             sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* A view: never of a tensor that was not made. */
fy_q_tensor fy_q_at(const fy_q_composer *c, uint32_t t);
/* x in that type, with the same range; x itself when it has it. Made once for all that read it. */
uint32_t fy_q_cast(fy_q_composer *c, uint32_t x, fy_q_type type);
/* x with another rank, rows and columns as they are; named as c->name. */
uint32_t fy_q_reshape(fy_q_composer *c, uint32_t x, uint32_t rank);
/* x in dimensions that rank and elements fit; named as c->name. */
uint32_t fy_q_reshape_to(fy_q_composer *c, uint32_t x, uint32_t rank, const uint32_t *dims);
/* [begin, end) of x along an axis, in its range; named as c->name. */
uint32_t fy_q_slice_of(fy_q_composer *c, uint32_t x, uint32_t axis, uint32_t begin, uint32_t end);
/* Columns [begin, end) of x, in its range; named as c->name. */
uint32_t fy_q_slice(fy_q_composer *c, uint32_t x, uint32_t begin, uint32_t end);
/* y = matrix x + bias, named as c->name. */
uint32_t fy_q_product(fy_q_composer *c, fy_q_stream x, const fy_q_linear *l);
/* The vectors of a norm of n columns. */
fy_q_norm_vectors fy_q_norm_of(fy_q_composer *c, uint32_t n, const fy_q_static *gamma);
/* norm(x) as the family norms its residual stream, named as c->name; x itself when the model has no
 * such norm. scale multiplies the gamma. */
fy_q_stream fy_q_norm(fy_q_composer *c, uint32_t x, fy_slot gamma, fy_slot beta, uint32_t layer,
                      const char *name, float scale);
/* A border tensor of f32 [rows, cols], inside; named as c->name. */
uint32_t fy_q_take(fy_q_composer *c, fy_io_role role);
/* y, inside, as the border's tensor of f32 wants it. */
void fy_q_give(fy_q_composer *c, uint32_t y, fy_io_role role);
uint32_t fy_q_matrix(fy_q_composer *c, const char *name, uint32_t n_in, const fy_q_static *from);
bool fy_q_has(const fy_q_composer *c, fy_slot slot, uint32_t layer);

/* qgraph_layer.c: the residual stream after the layer. */
uint32_t fy_q_layer(fy_q_composer *c, uint32_t layer, uint32_t x);
/* qgraph_rwkv.c: the same of RWKV; and what its layers share. */
void fy_q_begin_states(fy_q_composer *c);
uint32_t fy_q_rwkv_layer(fy_q_composer *c, uint32_t layer, uint32_t x);
/* The last matrix of a block and its post norm, times residual_scale. */
uint32_t fy_q_branch(fy_q_composer *c, uint32_t layer, fy_slot slot, fy_slot bias, fy_slot post,
                     const char *matrix, uint32_t x);

#endif
