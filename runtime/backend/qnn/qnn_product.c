/* Composes, runs and checks the product that libraries are tried out with. */
#include "backend/qnn/qnn_product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { IN = FY_QNN_PRODUCT_IN, OUT = FY_QNN_PRODUCT_OUT, TOKENS = FY_QNN_PRODUCT_TOKENS };

#define X_SCALE (8.0f / 65535)
#define W_SCALE 0.004f
#define Y_SCALE (160.0f / 65535)
#define ZERO    32768

static uint16_t input(uint32_t i)
{
    return (uint16_t)(i * 40503u);
}

void fy_qnn_product_weights(int8_t *weights)
{
    for (uint32_t i = 0; i < IN * OUT; i++)
        weights[i] = (int8_t)((i * UINT64_C(2654435761) >> 7) % 255 - 127);
}

int fy_qnn_product_new(const fy_qnn_lib *lib, fy_qnn_handle context, const fy_qnn_chip *chip,
                       uint32_t tokens, const int8_t *weights, fy_qnn_product *g, fy_err *e)
{
    const uint32_t xd[] = {1, 1, tokens, IN}, wd[] = {1, 1, IN, OUT}, yd[] = {1, 1, tokens, OUT};
    const fy_qnn_quant xq = fy_qnn_quant_scale(X_SCALE, -ZERO), wq = fy_qnn_quant_scale(W_SCALE, 0),
                       yq = fy_qnn_quant_scale(Y_SCALE, -ZERO);
    fy_qnn_tensor *w = NULL;
    fy_qnn_node *n = malloc(sizeof *n);
    if (n == NULL)
        return fy_nomem(e);
    snprintf(g->name, sizeof g->name, "batch_%u", tokens);
    int rc = fy_qnn_graph_new(lib, context, g->name, chip, &g->graph, e);
    fy_qnn_error err = 0;
    const char *call = "tensorCreateGraphTensor";
    if (rc == 0) {
        fy_qnn_node_begin(n, "product", "Conv2d");
        if ((err = fy_qnn_tensor_new(&g->graph, "x", FY_QNN_APP_WRITE, FY_QNN_UFIXED_16, &xq, 4, xd,
                                     NULL, &g->x)) == 0 &&
            (err = fy_qnn_tensor_new(&g->graph, "w", FY_QNN_STATIC, FY_QNN_SFIXED_8, &wq, 4, wd,
                                     weights, &w)) == 0 &&
            (err = fy_qnn_tensor_new(&g->graph, "y", FY_QNN_APP_READ, FY_QNN_UFIXED_16, &yq, 4, yd,
                                     NULL, &g->y)) == 0 &&
            (err = fy_qnn_node_product(&g->graph, n)) == 0) {
            fy_qnn_node_input(n, g->x);
            fy_qnn_node_input(n, w);
            fy_qnn_node_output(n, g->y);
            call = "graphAddNode";
            if ((err = fy_qnn_node_add(&g->graph, n)) == 0) {
                call = "graphFinalize";
                err = fy_qnn_graph_finalize(&g->graph);
            }
        }
        if (err != 0)
            rc = fy_qnn_fail(lib, call, err, e);
    }
    free(n);
    return rc;
}

int fy_qnn_product_run(fy_qnn_product *g, uint16_t *out, fy_err *e)
{
    uint16_t *in = calloc((size_t)TOKENS * IN, sizeof *in);
    if (in == NULL)
        return fy_nomem(e);
    for (uint32_t i = 0; i < TOKENS * IN; i++)
        in[i] = input(i);
    void *x = in, *y = out;
    const fy_qnn_error err = fy_qnn_graph_run(&g->graph, &g->x, &x, 1, &g->y, &y, 1);
    free(in);
    return err == 0 ? 0 : fy_qnn_fail(g->graph.lib, "graphExecute", err, e);
}

double fy_qnn_product_error(const int8_t *weights, const uint16_t *out)
{
    const double unit = (double)X_SCALE * (double)W_SCALE / (double)Y_SCALE;
    double worst = 0;
    for (uint32_t t = 0; t < TOKENS; t++) {
        for (uint32_t k = 0; k < OUT; k++) {
            int64_t sum = 0;
            for (uint32_t i = 0; i < IN; i++)
                sum += (int64_t)(input(t * IN + i) - ZERO) * weights[i * OUT + k];
            const double exact = fmin(fmax((double)sum * unit + ZERO, 0), UINT16_MAX);
            worst = fmax(worst, fabs(exact - out[t * OUT + k]));
        }
    }
    return worst;
}
