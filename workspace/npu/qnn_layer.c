/* Composes a decoder layer on a QNN library, in the recipes that ferry compiles. */
#include "workspace/npu/qnn_layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

enum { D = 256, FF = 512, H = 64, N_HEAD = 4, N_HEAD_KV = 2, C = 96, BATCH = 32 };

const char *const fy_qnn_layer_recipes[FY_QNN_LAYER_RECIPES] = {"16a8w", "16a4w",   "lpbq-32",
                                                                "fp16",  "fp16a8w", "fp16a4w"};

typedef enum { W_S8, W_4BIT, W_LPBQ, W_F16 } weight_kind;

static const struct {
    bool fp; /* activations and caches of 16-bit floats, else u16 and u8 */
    weight_kind weights;
} recipes[FY_QNN_LAYER_RECIPES] = {{false, W_S8}, {false, W_4BIT}, {false, W_LPBQ},
                                   {true, W_F16}, {true, W_S8},    {true, W_4BIT}};

typedef struct {
    fy_qnn_graph graph;
    bool fp;
    weight_kind weights;
    uint32_t batch, n_nodes, code;
    fy_qnn_node *node; /* owned; the one that is made */
    char name[32];     /* of it */
    char step[48];
    fy_qnn_tensor *in[8 + 2 * N_HEAD_KV], *out[1 + 2 * N_HEAD_KV];
    uint32_t n_in, n_out;
} layer;

/* The first failure is kept; what comes after it does nothing. */
static void note(layer *l, const char *call, const char *op, fy_qnn_error err)
{
    if (err == 0 || l->code != 0)
        return;
    l->code = fy_qnn_code(err);
    snprintf(l->step, sizeof l->step, "%s of %s", call, op);
}

/* --- tensors ---------------------------------------------------------------------------------- */

static fy_qnn_tensor *plain(layer *l, const char *name, uint32_t kind, uint32_t type,
                            fy_qnn_quant q, uint32_t rank, const uint32_t *dims, const void *data)
{
    fy_qnn_tensor *t = NULL;
    if (l->code == 0)
        note(l, "tensorCreateGraphTensor", name,
             fy_qnn_tensor_new(&l->graph, name, kind, type, &q, rank, dims, data, &t));
    return t;
}

/* An activation: u16 with that encoding, or f16. */
static fy_qnn_tensor *tensor(layer *l, const char *name, uint32_t kind, float scale, int32_t offset,
                             uint32_t rank, const uint32_t *dims, const void *data)
{
    return plain(l, name, kind, l->fp ? FY_QNN_FLOAT_16 : FY_QNN_UFIXED_16,
                 l->fp ? fy_qnn_no_quant() : fy_qnn_quant_scale(scale, offset), rank, dims, data);
}

/* The result of the node that comes next. */
static fy_qnn_tensor *result(layer *l, float scale, int32_t offset, uint32_t rows, uint32_t cols)
{
    const uint32_t dims[] = {1, 1, rows, cols};
    char name[32];
    snprintf(name, sizeof name, "t%u", l->n_nodes);
    return tensor(l, name, FY_QNN_NATIVE, scale, offset, 4, dims, NULL);
}

/* The same over -range to range. */
static fy_qnn_tensor *native(layer *l, float range, uint32_t rows, uint32_t cols)
{
    return result(l, range / 32768, -32768, rows, cols);
}

static fy_qnn_tensor *input(layer *l, fy_qnn_tensor *t)
{
    l->in[l->n_in++] = t;
    return t;
}

static fy_qnn_tensor *output(layer *l, fy_qnn_tensor *t)
{
    l->out[l->n_out++] = t;
    return t;
}

/* The cache's type: u8 with its zero in the middle, or f16. */
static fy_qnn_tensor *cached(layer *l, const char *name, uint32_t kind, uint32_t rows,
                             uint32_t cols)
{
    const uint32_t dims[] = {1, 1, rows, cols};
    return plain(l, name, kind, l->fp ? FY_QNN_FLOAT_16 : FY_QNN_UFIXED_8,
                 l->fp ? fy_qnn_no_quant() : fy_qnn_quant_scale(8.0f / 128, -128), 4, dims, NULL);
}

/* Both graphs make the same bytes under the same name, which is what sharing goes by. */
static fy_qnn_tensor *weight(layer *l, const char *name, uint32_t k, uint32_t n)
{
    const uint32_t dims[] = {1, 1, k, n}, n_blocks = l->weights == W_LPBQ ? k / 32 : 0;
    fy_arena *a = &l->graph.arena;
    float *scales = fy_arena_calloc(a, n, sizeof *scales);
    uint8_t *blocks = fy_arena_calloc(a, n, n_blocks);
    uint16_t *data = fy_arena_calloc(a, (size_t)k * n, sizeof *data);
    fy_qnn_quant q = fy_qnn_no_quant();
    uint32_t x = 2166136261u;
    if (scales == NULL || blocks == NULL || data == NULL) {
        note(l, "memory", name, FY_QNN_EMEMORY);
        return NULL;
    }
    for (const char *p = name; *p != '\0'; p++)
        x = (x ^ (uint8_t)*p) * 16777619u;
    for (uint32_t i = 0; i < n; i++)
        scales[i] = l->weights == W_S8 ? 0.001f : 0.01f;
    for (uint32_t i = 0; i < n * n_blocks; i++)
        blocks[i] = (uint8_t)(1 + i % 16);
    for (uint32_t i = 0; i < k * n; i++) {
        x = x * 1664525u + 1013904223u;
        const int v = (int)(x >> 24) - 128;
        if (l->weights == W_F16)
            data[i] = fy_f32_to_f16((float)v / 1280);
        else
            ((int8_t *)data)[i] = (int8_t)(l->weights == W_S8     ? v + (v == -128)
                                           : l->weights == W_4BIT ? (v / 16) & 15
                                                                  : v / 16);
    }
    if (l->weights != W_F16 &&
        fy_qnn_quant_channels(&l->graph, 3, n, scales, l->weights == W_S8 ? 8 : 4, n_blocks, blocks,
                              &q, NULL) != 0)
        note(l, "memory", name, FY_QNN_EMEMORY);
    return plain(l, name, FY_QNN_STATIC, l->weights == W_F16 ? FY_QNN_FLOAT_16 : FY_QNN_SFIXED_8, q,
                 4, dims, data);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void begin(layer *l, const char *op)
{
    snprintf(l->name, sizeof l->name, "n%u", l->n_nodes++);
    fy_qnn_node_begin(l->node, l->name, op);
}

static void list(layer *l, const char *param, uint32_t rank, const uint32_t *dims,
                 const uint32_t *values)
{
    if (l->code == 0)
        note(l, param, l->node->op.op,
             fy_qnn_node_array(&l->graph, l->node, param, FY_QNN_UINT_32, rank, dims, values));
}

/* Adds the node that was begun; NULL inputs end the list. Gives y. */
static fy_qnn_tensor *add(layer *l, fy_qnn_tensor *y, fy_qnn_tensor *const *in, size_t n)
{
    if (l->code != 0)
        return y;
    for (size_t i = 0; i < n; i++)
        fy_qnn_node_input(l->node, in[i]);
    fy_qnn_node_output(l->node, y);
    note(l, "backendValidateOpConfig", l->node->op.op, fy_qnn_node_validate(&l->graph, l->node));
    if (l->code == 0)
        note(l, "graphAddNode", l->node->op.op, fy_qnn_node_add(&l->graph, l->node));
    return y;
}

#define ADD(l, y, ...)                                   \
    add((l), (y), (fy_qnn_tensor *const[]){__VA_ARGS__}, \
        sizeof((fy_qnn_tensor *const[]){__VA_ARGS__}) / sizeof(fy_qnn_tensor *))

static fy_qnn_tensor *linear(layer *l, fy_qnn_tensor *x, const char *w, uint32_t k, uint32_t n)
{
    fy_qnn_tensor *wt = weight(l, w, k, n), *y = native(l, 20, l->batch, n);
    begin(l, "Conv2d");
    if (l->code == 0)
        note(l, "parameters", "Conv2d", fy_qnn_node_product(&l->graph, l->node));
    return ADD(l, y, x, wt);
}

static fy_qnn_tensor *constant(layer *l, const char *name, float value)
{
    const uint32_t dims[] = {D};
    uint16_t data[D];
    for (size_t i = 0; i < D; i++)
        data[i] = l->fp ? fy_f32_to_f16(value) : (uint16_t)(32768 + value * 16384);
    return tensor(l, name, FY_QNN_STATIC, 2.0f / 32768, -32768, 1, dims, data);
}

static fy_qnn_tensor *norm(layer *l, fy_qnn_tensor *x, const char *gamma, const char *beta)
{
    const uint32_t one[] = {1}, last[] = {3};
    fy_qnn_tensor *g = constant(l, gamma, 1), *b = constant(l, beta, 0),
                  *y = native(l, 8, l->batch, D);
    begin(l, "RmsNorm");
    list(l, "axes", 1, one, last);
    fy_qnn_node_f32(l->node, "epsilon", 1e-5f);
    return ADD(l, y, x, g, b);
}

static fy_qnn_tensor *product(layer *l, fy_qnn_tensor *a, fy_qnn_tensor *b, float range,
                              uint32_t cols)
{
    fy_qnn_tensor *y = native(l, range, l->batch, cols);
    begin(l, "MatMul");
    fy_qnn_node_bool(l->node, "transpose_in0", false);
    fy_qnn_node_bool(l->node, "transpose_in1", false);
    return ADD(l, y, a, b);
}

static fy_qnn_tensor *binary(layer *l, const char *op, fy_qnn_tensor *a, fy_qnn_tensor *b,
                             float range, uint32_t cols)
{
    fy_qnn_tensor *y = native(l, range, l->batch, cols);
    begin(l, op);
    return ADD(l, y, a, b);
}

static fy_qnn_tensor *rotate(layer *l, fy_qnn_tensor *x, fy_qnn_tensor *cos, fy_qnn_tensor *sin)
{
    fy_qnn_tensor *y = native(l, 20, l->batch, H);
    begin(l, "RotaryEmbedding");
    fy_qnn_node_bool(l->node, "interleaved", false);
    return ADD(l, y, x, cos, sin);
}

/* Fresh rows in the cache's encoding, and after them the cache itself. */
static fy_qnn_tensor *join(layer *l, fy_qnn_tensor *fresh, const char *kind, uint32_t head,
                           uint32_t axis)
{
    char name[32];
    const bool keys = axis == 3;
    const uint32_t b = l->batch, rows = keys ? H : b, cols = keys ? b : H;
    snprintf(name, sizeof name, "%s_%u_new", kind, head);
    fy_qnn_tensor *now = output(l, cached(l, name, FY_QNN_APP_READ, rows, cols));
    begin(l, l->fp ? "Reshape" : "Convert");
    ADD(l, now, fresh);
    snprintf(name, sizeof name, "%s_%u", kind, head);
    fy_qnn_tensor *old = input(l, cached(l, name, FY_QNN_APP_WRITE, keys ? H : C, keys ? C : H));
    snprintf(name, sizeof name, "t%u", l->n_nodes);
    fy_qnn_tensor *all = cached(l, name, FY_QNN_NATIVE, keys ? H : C + b, keys ? C + b : H);
    begin(l, "Concat");
    fy_qnn_node_u32(l->node, "axis", axis);
    return ADD(l, all, old, now);
}

static fy_qnn_tensor *attend(layer *l, fy_qnn_tensor *x)
{
    const uint32_t b = l->batch, table[] = {1, b, H / 2}, four[] = {4}, perm[] = {0, 1, 3, 2};
    const uint32_t scores[] = {1, 1, b, C + b};
    fy_qnn_tensor *cos = input(
                      l, tensor(l, "cos", FY_QNN_APP_WRITE, 1.0f / 32768, -32768, 3, table, NULL)),
                  *sin = input(
                      l, tensor(l, "sin", FY_QNN_APP_WRITE, 1.0f / 32768, -32768, 3, table, NULL)),
                  *mask = input(l, tensor(l, "mask", FY_QNN_APP_WRITE, 200.0f / 65535, -65535, 4,
                                          scores, NULL)),
                  *keys[N_HEAD_KV], *values[N_HEAD_KV], *heads[N_HEAD];
    char name[32];
    for (uint32_t j = 0; j < N_HEAD_KV; j++) {
        snprintf(name, sizeof name, "wk%u", j);
        fy_qnn_tensor *k = rotate(l, linear(l, x, name, D, H), cos, sin),
                      *turned = native(l, 20, H, b);
        begin(l, "Transpose");
        list(l, "perm", 1, four, perm);
        keys[j] = join(l, ADD(l, turned, k), "key", j, 3);
        snprintf(name, sizeof name, "wv%u", j);
        values[j] = join(l, linear(l, x, name, D, H), "value", j, 2);
    }
    for (uint32_t h = 0; h < N_HEAD; h++) {
        snprintf(name, sizeof name, "wq%u", h);
        fy_qnn_tensor *q = rotate(l, linear(l, x, name, D, H), cos, sin),
                      *s = product(l, q, keys[h / (N_HEAD / N_HEAD_KV)], 50, C + b),
                      *m = binary(l, "ElementWiseAdd", s, mask, 50, C + b);
        fy_qnn_tensor *p = result(l, 1.0f / 65535, 0, b, C + b);
        begin(l, "Softmax");
        fy_qnn_node_u32(l->node, "axis", 3);
        fy_qnn_node_f32(l->node, "beta", 1);
        heads[h] = product(l, ADD(l, p, m), values[h / (N_HEAD / N_HEAD_KV)], 20, H);
    }
    fy_qnn_tensor *all = native(l, 20, b, N_HEAD * H);
    begin(l, "Concat");
    fy_qnn_node_u32(l->node, "axis", 3);
    return linear(l, add(l, all, heads, N_HEAD), "wo", N_HEAD * H, D);
}

static fy_qnn_tensor *feed_forward(layer *l, fy_qnn_tensor *x)
{
    fy_qnn_tensor *gate = linear(l, x, "gate", D, FF), *up = linear(l, x, "up", D, FF),
                  *s = result(l, 1.0f / 65536, 0, l->batch, FF);
    begin(l, "Sigmoid");
    ADD(l, s, gate);
    gate = binary(l, "ElementWiseMultiply", gate, s, 20, FF);
    return linear(l, binary(l, "ElementWiseMultiply", gate, up, 50, FF), "down", FF, D);
}

/* x and the result are floats of 32 bits: what the host has. */
static void compose(layer *l)
{
    const uint32_t dims[] = {1, 1, l->batch, D};
    fy_qnn_tensor *x = input(
        l, plain(l, "x", FY_QNN_APP_WRITE, FY_QNN_FLOAT_32, fy_qnn_no_quant(), 4, dims, NULL));
    fy_qnn_tensor *out = output(
        l, plain(l, "out", FY_QNN_APP_READ, FY_QNN_FLOAT_32, fy_qnn_no_quant(), 4, dims, NULL));
    fy_qnn_tensor *h = native(l, 20, l->batch, D);
    begin(l, l->fp ? "Cast" : "Quantize");
    ADD(l, h, x);
    h = binary(l, "ElementWiseAdd", h, attend(l, norm(l, h, "norm1", "beta1")), 20, D);
    h = binary(l, "ElementWiseAdd", h, feed_forward(l, norm(l, h, "norm2", "beta2")), 20, D);
    begin(l, l->fp ? "Cast" : "Dequantize");
    ADD(l, out, h);
    if (l->code == 0)
        note(l, "graphFinalize", "the layer", fy_qnn_graph_finalize(&l->graph));
}

static void execute(layer *l, fy_err *e)
{
    void *in[sizeof l->in / sizeof l->in[0]] = {0}, *out[sizeof l->out / sizeof l->out[0]] = {0};
    bool ok = true;
    for (uint32_t i = 0; i < l->n_in; i++)
        ok = (in[i] = calloc(fy_qnn_n_elements(l->in[i]), 4)) != NULL && ok;
    for (uint32_t i = 0; i < l->n_out; i++)
        ok = (out[i] = calloc(fy_qnn_n_elements(l->out[i]), 4)) != NULL && ok;
    if (ok)
        note(l, "graphExecute", "the layer",
             fy_qnn_graph_run(&l->graph, l->in, in, l->n_in, l->out, out, l->n_out));
    else
        fy_nomem(e);
    for (uint32_t i = 0; i < l->n_in; i++)
        free(in[i]);
    for (uint32_t i = 0; i < l->n_out; i++)
        free(out[i]);
}

/* n batch sizes in a context of their own: the bytes of its binary, or the first refusal. */
static int compile(size_t recipe, const fy_qnn_lib *lib, fy_qnn_handle device,
                   const fy_qnn_chip *chip, uint32_t n, uint64_t *bytes, fy_qnn_layer_answer *out,
                   fy_err *e)
{
    fy_qnn_handle context = NULL;
    layer l[2] = {0};
    uint8_t *binary = NULL;
    int rc = fy_qnn_context_new(lib, device, n > 1, &context, e);
    for (uint32_t i = 0; rc == 0 && i < n && out->code == 0; i++) {
        char name[16];
        l[i] = (layer){.fp = recipes[recipe].fp,
                       .weights = recipes[recipe].weights,
                       .batch = i == 0 ? BATCH : 1,
                       .node = malloc(sizeof(fy_qnn_node))};
        snprintf(name, sizeof name, "batch_%u", l[i].batch);
        rc = l[i].node == NULL ? fy_nomem(e)
                               : fy_qnn_graph_new(lib, context, name, chip, &l[i].graph, e);
        if (rc == 0) {
            compose(&l[i]);
            if (l[i].code == 0)
                execute(&l[i], e);
            out->code = l[i].code;
            out->n_nodes = l[i].n_nodes;
            memcpy(out->step, l[i].step, sizeof out->step);
        }
    }
    if (rc == 0 && out->code == 0)
        rc = fy_qnn_context_binary(lib, context, &binary, bytes, e);
    free(binary);
    fy_qnn_context_free(lib, context);
    for (size_t i = 0; i < 2; i++) {
        free(l[i].node);
        fy_qnn_graph_release(&l[i].graph);
    }
    return rc;
}

int fy_qnn_layer_try(size_t recipe, const fy_qnn_lib *lib, fy_qnn_handle device,
                     const fy_qnn_chip *chip, fy_qnn_layer_answer *out, fy_err *e)
{
    *out = (fy_qnn_layer_answer){0};
    int rc = compile(recipe, lib, device, chip, 1, &out->one_bytes, out, e);
    if (rc == 0 && out->code == 0)
        rc = compile(recipe, lib, device, chip, 2, &out->two_bytes, out, e);
    return rc != 0 ? fy_ctx(e, "recipe %s", fy_qnn_layer_recipes[recipe]) : 0;
}
