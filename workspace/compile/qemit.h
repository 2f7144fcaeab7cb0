/* Composed graphs become calls of a QNN library: tensors with their encodings, nodes with their
 * parameters.
 *
 *     fy_q_validate(lib, &g, &c, &refusals, e)   every node, before anything is made
 *     fy_q_emit(&params, graphs, n, out, e)      all graphs of a context, side by side
 *     fy_qnn_graph_finalize(&out[i].graph) ...
 *     fy_q_emitted_release(out, n)
 *
 * A static tensor has one name, shape, encoding and content in all graphs of a context: that is
 * what the library keeps once. So each is encoded once, given to all graphs, and forgotten: the
 * largest matrix is what memory is needed for, besides what the library takes. */
#ifndef FY_WORKSPACE_QEMIT_H
#define FY_WORKSPACE_QEMIT_H

#include "backend/qnn/qnn_graph.h"
#include "workspace/compile/qencode.h"

/* --- what a library refuses ------------------------------------------------------------------- */

typedef struct {
    fy_str text; /* owned; a line for each kind of refusal: operation, operands, code, log */
    uint32_t n, n_kinds; /* nodes, and lines */
    bool rope;           /* FY_Q_ROPE is refused, which six other nodes replace */
} fy_q_refusals;

/* Asks about all nodes; a refusal is an answer. c as fy_q_encode made it. */
int fy_q_validate(const fy_qnn_lib *lib, const fy_qgraph *g, const fy_q_encodings *c,
                  fy_q_refusals *out, fy_err *e);
void fy_q_refusals_release(fy_q_refusals *r);

/* --- what it gets ----------------------------------------------------------------------------- */

typedef struct {
    const char *name; /* in the context: "batch_128" */
    const fy_qgraph *graph;
    const fy_q_encodings *encodings;
} fy_q_emit_graph;

/* A sign of life: `done` of `total` matrices, then of nodes. -1 stops the work. */
typedef int fy_q_emit_step(void *user, const char *what, uint32_t done, uint32_t total, fy_err *e);

typedef struct {
    const fy_qnn_lib *lib;
    fy_qnn_handle context;
    const fy_qnn_chip *chip;
    const struct fy_model *model;
    const fy_q_ranges *ranges; /* how much the inputs of a matrix count; NULL: all the same */
    const fy_gguf *inputs;     /* rows to try n_candidates scales on (qinputs.h); NULL: none */
    uint32_t n_candidates;
    fy_pool *pool; /* what encodes the matrices */
    fy_q_emit_step *step;
    void *user;
} fy_q_emit_params;

typedef struct {
    fy_qnn_graph graph;         /* owned */
    fy_qnn_tensor **tensor;     /* [n_tensors], in its arena */
    fy_q_loss weights, outputs; /* of the matrices: sums of fy_q_matrix */
} fy_q_emitted;

/* out [n], graphs [n]: the first one has the largest batch. fy_q_emitted_release also after a
 * failure. */
int fy_q_emit(const fy_q_emit_params *p, const fy_q_emit_graph *graphs, size_t n, fy_q_emitted *out,
              fy_err *e);
void fy_q_emitted_release(fy_q_emitted *out, size_t n);

#endif
