/* Walks composed graphs and makes the calls of a QNN library. */
#include "workspace/compile/qemit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "model/model.h"
#include "workspace/compile/qinputs.h"
#include "workspace/compile/qstatic.h"

/* --- nodes ------------------------------------------------------------------------------------ */

typedef struct {
    const fy_qgraph *g;
    fy_qnn_graph *to;
    fy_qnn_tensor **tensor; /* [n_tensors], in the arena of `to` */
    uint32_t *same;         /* in the arena, too: match_statics */
    fy_qnn_node *node;      /* owned; the one that is made */
} emitter;

typedef fy_qnn_error put_params(emitter *m, const fy_q_node *n);

static fy_qnn_error list(emitter *m, const char *name, uint32_t n, const uint32_t *values)
{
    return fy_qnn_node_array(m->to, m->node, name, FY_QNN_UINT_32, 1, &n, values);
}

static fy_qnn_error put_conv(emitter *m, const fy_q_node *n)
{
    (void)n;
    return fy_qnn_node_product(m->to, m->node);
}

static fy_qnn_error put_matmul(emitter *m, const fy_q_node *n)
{
    (void)n;
    fy_qnn_node_bool(m->node, "transpose_in0", false);
    fy_qnn_node_bool(m->node, "transpose_in1", false);
    return 0;
}

static fy_qnn_error put_norm(emitter *m, const fy_q_node *n)
{
    fy_qnn_node_f32(m->node, "epsilon", n->eps);
    return list(m, "axes", 1, (const uint32_t[]){3});
}

static fy_qnn_error put_softmax(emitter *m, const fy_q_node *n)
{
    (void)n;
    fy_qnn_node_u32(m->node, "axis", 3);
    fy_qnn_node_f32(m->node, "beta", 1);
    return 0;
}

/* Of each dimension: begin, end, step. */
static fy_qnn_error put_slice(emitter *m, const fy_q_node *n)
{
    static const char *const masks[] = {"begin_mask", "end_mask", "shrink_axes", "new_axes_mask"};
    const fy_q_tensor *x = &m->g->tensors[n->in[0]];
    const uint32_t dims[] = {x->rank, 3};
    int32_t ranges[4][3];
    for (uint32_t i = 0; i < x->rank; i++) {
        const bool cut = i == n->axis;
        ranges[i][0] = cut ? (int32_t)n->begin : 0;
        ranges[i][1] = cut ? (int32_t)n->end : (int32_t)x->dims[i];
        ranges[i][2] = 1;
    }
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++)
        fy_qnn_node_u32(m->node, masks[i], 0);
    return fy_qnn_node_array(m->to, m->node, "ranges", FY_QNN_INT_32, 2, dims, ranges);
}

static fy_qnn_error put_concat(emitter *m, const fy_q_node *n)
{
    fy_qnn_node_u32(m->node, "axis", n->axis);
    return 0;
}

static fy_qnn_error put_transpose(emitter *m, const fy_q_node *n)
{
    (void)n;
    return list(m, "perm", 4, (const uint32_t[]){0, 1, 3, 2});
}

static fy_qnn_error put_rope(emitter *m, const fy_q_node *n)
{
    (void)n;
    fy_qnn_node_bool(m->node, "interleaved", false);
    return 0;
}

static const struct {
    const char *name;
    put_params *params; /* NULL: it has none */
} ops[FY_Q_OP_COUNT] = {
    [FY_Q_CONV] = {"Conv2d", put_conv},
    [FY_Q_MATMUL] = {"MatMul", put_matmul},
    [FY_Q_RMS_NORM] = {"RmsNorm", put_norm},
    [FY_Q_LAYER_NORM] = {"LayerNorm", put_norm},
    [FY_Q_SOFTMAX] = {"Softmax", put_softmax},
    [FY_Q_ADD] = {"ElementWiseAdd", NULL},
    [FY_Q_SUBTRACT] = {"ElementWiseSubtract", NULL},
    [FY_Q_MULTIPLY] = {"ElementWiseMultiply", NULL},
    [FY_Q_NEG] = {"ElementWiseNeg", NULL},
    [FY_Q_GREATER] = {"ElementWiseGreater", NULL},
    [FY_Q_SELECT] = {"ElementWiseSelect", NULL},
    [FY_Q_SIGMOID] = {"Sigmoid", NULL},
    [FY_Q_TANH] = {"Tanh", NULL},
    [FY_Q_GELU] = {"Gelu", NULL},
    [FY_Q_RELU] = {"Relu", NULL},
    [FY_Q_EXP] = {"ElementWiseExp", NULL},
    [FY_Q_SLICE] = {"StridedSlice", put_slice},
    [FY_Q_CONCAT] = {"Concat", put_concat},
    [FY_Q_TRANSPOSE] = {"Transpose", put_transpose},
    [FY_Q_RESHAPE] = {"Reshape", NULL},
    [FY_Q_CAST] = {"Convert", NULL}, /* but for those of `casts` */
    [FY_Q_ROPE] = {"RotaryEmbedding", put_rope},
};

/* [from][to] */
static const char *const casts[FY_Q_PACKED][FY_Q_PACKED] = {
    [FY_Q_F32] = {[FY_Q_F16] = "Cast",
                  [FY_Q_U16] = "Quantize",
                  [FY_Q_S16] = "Quantize",
                  [FY_Q_U8] = "Quantize"},
    [FY_Q_F16] = {[FY_Q_F32] = "Cast"},
    [FY_Q_U16] = {[FY_Q_F32] = "Dequantize"},
    [FY_Q_S16] = {[FY_Q_F32] = "Dequantize"},
    [FY_Q_U8] = {[FY_Q_F32] = "Dequantize", [FY_Q_F16] = "Dequantize"},
};

static const char *op_name(const fy_qgraph *g, const fy_q_node *n)
{
    const char *cast =
        n->op == FY_Q_CAST ? casts[g->tensors[n->in[0]].type][g->tensors[n->out].type] : NULL;
    return cast != NULL ? cast : ops[n->op].name;
}

/* m->node becomes that node. */
static fy_qnn_error make_node(emitter *m, const fy_q_node *n)
{
    fy_qnn_node_begin(m->node, m->g->tensors[n->out].name, op_name(m->g, n));
    for (uint32_t i = 0; i < n->n_in; i++)
        fy_qnn_node_input(m->node, m->tensor[n->in[i]]);
    fy_qnn_node_output(m->node, m->tensor[n->out]);
    return ops[n->op].params != NULL ? ops[n->op].params(m, n) : 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static const uint32_t kinds[] = {[FY_Q_IN] = FY_QNN_APP_WRITE,
                                 [FY_Q_OUT] = FY_QNN_APP_READ,
                                 [FY_Q_INNER] = FY_QNN_NATIVE,
                                 [FY_Q_STATIC] = FY_QNN_STATIC};

static int make_tensor(emitter *m, uint32_t i, const fy_qnn_quant *q, const void *data, fy_err *e)
{
    const fy_q_tensor *t = &m->g->tensors[i];
    const fy_qnn_error err = fy_qnn_tensor_new(m->to, t->name, kinds[t->kind], fy_q_qnn_type(t), q,
                                               t->rank, t->dims, data, &m->tensor[i]);
    if (err == 0)
        return 0;
    fy_qnn_fail(m->to->lib, "tensorCreateGraphTensor", err, e);
    return fy_ctx(e, "tensor %s, %s", t->name, fy_q_type_text(t));
}

static int begin(emitter *m, const fy_qgraph *g, fy_qnn_graph *to, fy_err *e)
{
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i].n_in > FY_QNN_NODE_INPUTS)
            return fy_fail(e, FY_EUNSUPPORTED, "node %s joins %u tensors, at most %d",
                           g->tensors[g->nodes[i].out].name, g->nodes[i].n_in, FY_QNN_NODE_INPUTS);
    }
    *m = (emitter){.g = g, .to = to, .node = malloc(sizeof *m->node)};
    m->tensor = fy_arena_calloc(&to->arena, g->n_tensors, sizeof(fy_qnn_tensor *));
    return m->node != NULL && m->tensor != NULL ? 0 : fy_nomem(e);
}

/* The product that reads each static tensor, in the arena of `to`. */
static const fy_q_node **products_of(const fy_qgraph *g, fy_qnn_graph *to)
{
    const fy_q_node **of = fy_arena_calloc(&to->arena, g->n_tensors, sizeof *of);
    for (size_t i = 0; of != NULL && i < g->n_nodes; i++) {
        const fy_q_node *n = &g->nodes[i];
        for (uint32_t k = 1; k < n->n_in && n->op == FY_Q_CONV; k++)
            of[n->in[k]] = n;
    }
    return of;
}

/* --- asking ----------------------------------------------------------------------------------- */

static void put_tensor(fy_str *s, const fy_q_tensor *t)
{
    fy_str_printf(s, "%s[", fy_q_type_text(t));
    for (uint32_t i = 0; i < t->rank; i++)
        fy_str_printf(s, "%s%u", i > 0 ? "," : "", t->dims[i]);
    fy_str_putc(s, ']');
}

/* "MatMul u16[1,1,32,64], u8[1,1,64,128] -> u16[1,1,32,128]: error 3110" and the library's word. */
static void put_refusal(fy_str *s, const fy_qgraph *g, const fy_q_node *n, fy_qnn_error err)
{
    char log[FY_QNN_LOG_LINE_BYTES];
    fy_str_puts(s, op_name(g, n));
    for (uint32_t i = 0; i < n->n_in; i++) {
        fy_str_puts(s, i > 0 ? ", " : " ");
        put_tensor(s, &g->tensors[n->in[i]]);
    }
    fy_str_puts(s, " -> ");
    put_tensor(s, &g->tensors[n->out]);
    fy_str_printf(s, ": QNN error %u", fy_qnn_code(err));
    fy_qnn_log_last(log, sizeof log);
    if (log[0] != '\0')
        fy_str_printf(s, ", its message: %s", log);
}

/* Refusals that differ in nothing but the node are one line, that of the first. */
static void note_refusal(fy_q_refusals *r, const fy_qgraph *g, const fy_q_node *n, fy_qnn_error err)
{
    fy_str line = {0};
    put_refusal(&line, g, n, err);
    r->n++;
    r->rope |= n->op == FY_Q_ROPE;
    if (strstr(fy_str_z(&r->text), fy_str_z(&line)) == NULL) {
        r->n_kinds++;
        fy_str_printf(&r->text, "%s: %s\n", g->tensors[n->out].name, fy_str_z(&line));
    }
    r->text.oom |= line.oom;
    fy_str_release(&line);
}

/* In place of the library's: graphs that are only asked about have numbers of our own. */
static fy_qnn_error number_tensor(fy_qnn_handle graph, fy_qnn_tensor *t)
{
    t->u.v1.id = ++*(uint32_t *)graph;
    return 0;
}

static int ask(emitter *m, const fy_q_encodings *c, fy_q_refusals *out, fy_err *e)
{
    const fy_qgraph *g = m->g;
    const fy_q_node **product = products_of(g, m->to);
    fy_qnn_quant q;
    if (product == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (fy_q_quant(m->to, g, c, i, product[i], (fy_q_content){0}, &q, e) != 0 ||
            make_tensor(m, i, &q, NULL, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < g->n_nodes; i++) {
        fy_qnn_error err = make_node(m, &g->nodes[i]);
        if (err == 0)
            err = fy_qnn_node_validate(m->to, m->node);
        if (err != 0)
            note_refusal(out, g, &g->nodes[i], err);
        if (fy_check_interrupt(e) != 0)
            return -1;
    }
    return out->text.oom ? fy_nomem(e) : 0;
}

int fy_q_validate(const fy_qnn_lib *lib, const fy_qgraph *g, const fy_q_encodings *c,
                  fy_q_refusals *out, fy_err *e)
{
    uint32_t n_tensors = 0;
    fy_qnn_table table = *lib->call;
    fy_qnn_lib asked = *lib;
    emitter m;
    table.tensor_create = number_tensor;
    asked.call = &table;
    fy_qnn_graph to = {.lib = &asked, .handle = &n_tensors};
    int rc = begin(&m, g, &to, e);
    if (rc == 0)
        rc = ask(&m, c, out, e);
    free(m.node);
    fy_qnn_graph_release(&to);
    return rc;
}

void fy_q_refusals_release(fy_q_refusals *r)
{
    fy_str_release(&r->text);
    *r = (fy_q_refusals){0};
}

/* --- making ----------------------------------------------------------------------------------- */

typedef struct {
    const fy_q_emit_params *p;
    const fy_q_emit_graph *graphs;
    fy_q_emitted *out;
    emitter *m; /* owned, [n] */
    size_t n;
} emission;

static int step(const emission *x, const char *what, uint32_t done, uint32_t total, fy_err *e)
{
    return x->p->step != NULL ? x->p->step(x->p->user, what, done, total, e) : 0;
}

/* m->same: the static tensors of the first graph here. They come in the same order. */
static int match_statics(const emission *x, emitter *m, fy_err *e)
{
    const fy_qgraph *first = x->graphs[0].graph, *g = m->g;
    size_t at = 0;
    m->same = fy_arena_calloc(&m->to->arena, first->n_tensors, sizeof *m->same);
    if (m->same == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < first->n_tensors; i++) {
        if (first->tensors[i].kind != FY_Q_STATIC)
            continue;
        while (at < g->n_tensors && g->tensors[at].kind != FY_Q_STATIC)
            at++;
        if (at == g->n_tensors || strcmp(g->tensors[at].name, first->tensors[i].name) != 0)
            return fy_fail(e, FY_EVERIFY, "the graphs do not have the same weights: %s",
                           first->tensors[i].name);
        m->same[i] = (uint32_t)at++;
    }
    return 0;
}

/* Gives a static tensor of the first graph to all graphs. */
static int give(emission *x, uint32_t i, const fy_q_node *product, fy_q_content content,
                const void *data, fy_err *e)
{
    const fy_q_tensor *t = &x->graphs[0].graph->tensors[i];
    void *codes = NULL;
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < x->n; k++) {
        emitter *m = &x->m[k];
        fy_qnn_quant q;
        rc = fy_q_quant(m->to, x->graphs[0].graph, x->graphs[0].encodings, i, product, content, &q,
                        e);
        if (rc == 0 && data == NULL && codes == NULL &&
            (codes = fy_q_vector_codes(t, &q, content.values)) == NULL)
            rc = fy_nomem(e);
        if (rc == 0)
            rc = make_tensor(m, m->same[i], &q, data != NULL ? data : codes, e);
    }
    free(codes);
    return rc;
}

static int give_vector(emission *x, uint32_t i, const fy_q_node *product, const fy_q_matrix *w,
                       fy_err *e)
{
    const fy_q_tensor *t = &x->graphs[0].graph->tensors[i];
    float *values = malloc(t->dims[0] * sizeof *values);
    int rc = values != NULL ? fy_qgraph_vector(x->p->model, t, values, e) : fy_nomem(e);
    if (rc == 0)
        rc = give(x, i, product, (fy_q_content){w, values}, NULL, e);
    free(values);
    return rc;
}

/* What the scales of a matrix are judged by. */
static int fit_of(const emission *x, const fy_q_tensor *t, const fy_q_node *product, fy_q_fit *fit,
                  fy_err *e)
{
    const fy_q_emit_params *p = x->p;
    const fy_qgraph *g = x->graphs[0].graph;
    char name[FY_Q_MATRIX_NAME];
    *fit = (fy_q_fit){.n_candidates = p->n_candidates};
    if (p->ranges != NULL)
        fit->importance =
            fy_q_ranges_importance(p->ranges, fy_qgraph_matrix_name(&t->from, name), t->dims[2]);
    if (p->inputs == NULL || product == NULL || t->from.hadamard ||
        fy_npu_type_bits(t->from.type) != 4)
        return 0;
    const char *read = g->ranges[g->tensors[product->in[0]].range].name;
    fit->inputs = fy_q_inputs_find(p->inputs, read, t->dims[2], &fit->n_inputs, e);
    return fit->inputs != NULL ? 0 : -1;
}

/* A matrix, and the bias that is added to its product. */
static int give_matrix(emission *x, uint32_t i, const fy_q_node *product, fy_err *e)
{
    const fy_q_tensor *t = &x->graphs[0].graph->tensors[i];
    fy_q_fit fit;
    fy_q_matrix w = {0};
    int rc = fit_of(x, t, product, &fit, e);
    if (rc == 0)
        rc = fy_q_matrix_encode(x->p->model, t, &fit, x->p->pool, &w, e);
    if (rc == 0) {
        fy_q_loss_add(&x->out[0].weights, &w.weights);
        fy_q_loss_add(&x->out[0].outputs, &w.outputs);
        rc = give(x, i, product, (fy_q_content){&w, NULL}, w.data, e);
    }
    if (rc == 0 && product != NULL && product->n_in > 2)
        rc = give_vector(x, product->in[2], product, &w, e);
    fy_q_matrix_release(&w);
    return rc;
}

static int give_statics(emission *x, fy_err *e)
{
    const fy_qgraph *g = x->graphs[0].graph;
    const fy_q_node **product = products_of(g, x->m[0].to);
    uint32_t total = 0, done = 0;
    if (product == NULL)
        return fy_nomem(e);
    for (size_t i = 0; i < g->n_tensors; i++)
        total += g->tensors[i].class == FY_QC_WEIGHT;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const fy_q_tensor *t = &g->tensors[i];
        if (t->kind != FY_Q_STATIC || t->class == FY_QC_BIAS)
            continue;
        const bool matrix = t->class == FY_QC_WEIGHT;
        if ((matrix ? give_matrix(x, i, product[i], e) : give_vector(x, i, NULL, NULL, e)) != 0)
            return -1;
        if (matrix && step(x, "weights", ++done, total, e) != 0)
            return -1;
    }
    return 0;
}

static int give_others(emission *x, size_t k, fy_err *e)
{
    const fy_qgraph *g = x->graphs[k].graph;
    fy_qnn_quant q;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].kind != FY_Q_STATIC &&
            (fy_q_quant(x->m[k].to, g, x->graphs[k].encodings, i, NULL, (fy_q_content){0}, &q, e) !=
                 0 ||
             make_tensor(&x->m[k], i, &q, NULL, e) != 0))
            return -1;
    }
    return 0;
}

enum { NODES_OF_STEP = 200 };

static int give_nodes(emission *x, size_t k, fy_err *e)
{
    const fy_qgraph *g = x->graphs[k].graph;
    emitter *m = &x->m[k];
    for (size_t i = 0; i < g->n_nodes; i++) {
        const fy_q_node *n = &g->nodes[i];
        fy_qnn_error err = make_node(m, n);
        if (err == 0)
            err = fy_qnn_node_add(m->to, m->node);
        if (err != 0) {
            fy_qnn_fail(m->to->lib, "graphAddNode", err, e);
            return fy_ctx(e, "graph %s, %s (%s)", x->graphs[k].name, g->tensors[n->out].name,
                          op_name(g, n));
        }
        if (i % NODES_OF_STEP == 0 &&
            step(x, x->graphs[k].name, (uint32_t)i, (uint32_t)g->n_nodes, e) != 0)
            return -1;
    }
    return 0;
}

static int emit(emission *x, fy_err *e)
{
    for (size_t k = 0; k < x->n; k++) {
        if (fy_qnn_graph_new(x->p->lib, x->p->context, x->graphs[k].name, x->p->chip,
                             &x->out[k].graph, e) != 0 ||
            begin(&x->m[k], x->graphs[k].graph, &x->out[k].graph, e) != 0 ||
            match_statics(x, &x->m[k], e) != 0 || give_others(x, k, e) != 0)
            return -1;
        x->out[k].tensor = x->m[k].tensor;
    }
    if (give_statics(x, e) != 0)
        return -1;
    for (size_t k = 0; k < x->n; k++) {
        if (give_nodes(x, k, e) != 0)
            return -1;
    }
    return 0;
}

int fy_q_emit(const fy_q_emit_params *p, const fy_q_emit_graph *graphs, size_t n, fy_q_emitted *out,
              fy_err *e)
{
    emission x = {.p = p, .graphs = graphs, .out = out, .n = n};
    for (size_t k = 0; k < n; k++)
        out[k] = (fy_q_emitted){0};
    x.m = calloc(n, sizeof *x.m);
    const int rc = x.m != NULL ? emit(&x, e) : fy_nomem(e);
    for (size_t k = 0; x.m != NULL && k < n; k++)
        free(x.m[k].node);
    free(x.m);
    return rc;
}

void fy_q_emitted_release(fy_q_emitted *out, size_t n)
{
    for (size_t k = 0; k < n; k++)
        fy_qnn_graph_release(&out[k].graph);
}
