/* A graph of one operation, a product with made-up weights, with which a library is tried out:
 * y = x * w, x [tokens, 512] and y [tokens, 1024] of 16 bits, w [512, 1024] of 8 bits. */
#ifndef FY_BACKEND_QNN_QNN_PRODUCT_H
#define FY_BACKEND_QNN_QNN_PRODUCT_H

#include "backend/qnn/qnn_graph.h"

enum { FY_QNN_PRODUCT_IN = 512, FY_QNN_PRODUCT_OUT = 1024, FY_QNN_PRODUCT_TOKENS = 16 };

typedef struct {
    fy_qnn_graph graph; /* fy_qnn_graph_release */
    fy_qnn_tensor *x, *y;
    char name[16]; /* "batch_16" */
} fy_qnn_product;

/* weights [IN * OUT] */
void fy_qnn_product_weights(int8_t *weights);

/* Composes and finalizes it in a context, where graphs of the same weights share their name. */
int fy_qnn_product_new(const fy_qnn_lib *lib, fy_qnn_handle context, const fy_qnn_chip *chip,
                       uint32_t tokens, const int8_t *weights, fy_qnn_product *out, fy_err *e);
/* Of FY_QNN_PRODUCT_TOKENS tokens. out [TOKENS * OUT] gets its results. */
int fy_qnn_product_run(fy_qnn_product *g, uint16_t *out, fy_err *e);
/* The largest difference, in steps of y's encoding, between results and the exact ones. */
double fy_qnn_product_error(const int8_t *weights, const uint16_t *out);

#endif
