/* How a tensor of a graph is described to a QNN library: its type, its encoding, and the bytes of a
 * vector that is static. Matrices have a module of their own (qencode.h). */
#ifndef FY_WORKSPACE_QSTATIC_H
#define FY_WORKSPACE_QSTATIC_H

#include "backend/qnn/qnn_graph.h"
#include "workspace/compile/qencode.h"

/* FY_QNN_* of its elements, and a name for messages: "u16", "16a4w". */
uint32_t fy_q_qnn_type(const fy_q_tensor *t);
const char *fy_q_type_text(const fy_q_tensor *t);

/* What a static tensor holds. */
typedef struct {
    const fy_q_matrix *matrix; /* of a FY_QC_WEIGHT, and of the product whose FY_QC_BIAS it is */
    const float *values;       /* of a vector */
} fy_q_content;

/* The encoding of tensor i; arrays are in the arena of `to`. product: the node that adds a
 * FY_QC_BIAS. content {0}: scales are made up, which is enough to ask whether a library takes
 * them. */
int fy_q_quant(fy_qnn_graph *to, const fy_qgraph *g, const fy_q_encodings *c, uint32_t i,
               const fy_q_node *product, fy_q_content content, fy_qnn_quant *out, fy_err *e);

/* The elements of a static vector in that encoding; the caller frees it. NULL: no memory. */
void *fy_q_vector_codes(const fy_q_tensor *t, const fy_qnn_quant *quant, const float *values);

#endif
