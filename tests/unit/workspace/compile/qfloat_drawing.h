/* Graphs made by hand for the float interpreter: their tensors, nodes, and the buffers of the
 * border. */
#ifndef FY_TESTS_QFLOAT_DRAWING_H
#define FY_TESTS_QFLOAT_DRAWING_H

#include <stdlib.h>
#include <string.h>

#include "model/weights.h"
#include "workspace/compile/qfloat.h"

enum { MOST = 256, BUFFERS = 8, THREADS = 3 };

/* --- graphs ----------------------------------------------------------------------------------- */

/* Tensors of the border are added first: an interpreter is given buffers in their order. */
typedef struct {
    fy_qgraph g;
    fy_q_tensor tensors[MOST];
    fy_q_node nodes[MOST];
    uint32_t inputs[MOST][3];
    void *buffers[BUFFERS];
    fy_model model;
} drawing;

static drawing *new_drawing(uint32_t n_batch, uint32_t n_cache)
{
    drawing *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->g = (fy_qgraph){.tensors = d->tensors,
                       .nodes = d->nodes,
                       .n_batch = n_batch,
                       .n_cache = n_cache,
                       .n_ctx = n_batch + n_cache};
    return d;
}

static void free_drawing(drawing *d)
{
    for (size_t i = 0; i < BUFFERS; i++)
        free(d->buffers[i]);
    free(d);
}

static uint32_t tensor(drawing *d, fy_q_kind kind, fy_q_class class, uint32_t rows, uint32_t cols)
{
    assert_true(d->g.n_tensors < MOST);
    d->tensors[d->g.n_tensors] = (fy_q_tensor){.name = "t",
                                               .kind = kind,
                                               .class = class,
                                               .rank = 4,
                                               .dims = {1, 1, rows, cols},
                                               .range = FY_Q_NONE,
                                               .mask = FY_Q_NONE};
    return (uint32_t)d->g.n_tensors++;
}

static uint32_t border(drawing *d, fy_q_kind kind, fy_q_class class, uint32_t rows, uint32_t cols)
{
    const uint32_t t = tensor(d, kind, class, rows, cols);
    assert_true(t < BUFFERS);
    d->buffers[t] = calloc((size_t)rows * cols, sizeof(float));
    assert_non_null(d->buffers[t]);
    return t;
}

static uint32_t inner(drawing *d, uint32_t rows, uint32_t cols)
{
    return tensor(d, FY_Q_INNER, FY_QC_ACT, rows, cols);
}

/* A vector with one value throughout. */
static uint32_t constant(drawing *d, uint32_t n, float value)
{
    const uint32_t t = tensor(d, FY_Q_STATIC, FY_QC_CONST, 1, n);
    d->tensors[t].rank = 1;
    d->tensors[t].dims[0] = n;
    d->tensors[t].from = (fy_q_static){.slot = FY_T_COUNT,
                                       .matrix = FY_T_COUNT,
                                       .beta = FY_T_COUNT,
                                       .n = n,
                                       .scale = 1,
                                       .value = value};
    return t;
}

/* The inputs end with FY_Q_NONE where there are fewer than three. */
static fy_q_node *node(drawing *d, fy_q_op op, uint32_t out, uint32_t a, uint32_t b, uint32_t c)
{
    const size_t i = d->g.n_nodes++;
    assert_true(i < MOST);
    const uint32_t in[] = {a, b, c};
    memcpy(d->inputs[i], in, sizeof in);
    d->nodes[i] = (fy_q_node){
        .op = op, .in = d->inputs[i], .n_in = 1u + (b != FY_Q_NONE) + (c != FY_Q_NONE), .out = out};
    return &d->nodes[i];
}

/* Of one sequence for each seed, -3 .. 3. */
static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1u << 24) * 6 - 3;
    }
}

static float *values(drawing *d, uint32_t t)
{
    return d->buffers[t];
}

static void fill_input(drawing *d, uint32_t t)
{
    fill(values(d, t), (size_t)fy_q_rows(&d->tensors[t]) * fy_q_cols(&d->tensors[t]), t + 1);
}

#endif
