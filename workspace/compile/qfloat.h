/* Computes a graph in floats on the CPU: what the composition is checked with, and what calibrates.
 * A cast changes nothing, unless values and weights are rounded to their codes on the way. Values
 * are f32, masks are 0 or FY_QFLOAT_HIDDEN. Memory is that of the widest layer: a tensor's place is
 * used again after its last reader. */
#ifndef FY_WORKSPACE_QFLOAT_H
#define FY_WORKSPACE_QFLOAT_H

#include "backend/backend_cpu.h"
#include "model/model.h"
#include "workspace/compile/qencode.h"

#define FY_QFLOAT_HIDDEN (-1e30f)

typedef struct fy_qfloat fy_qfloat;

/* g, m and backend outlive it; backend: for batches of g->n_batch. buffers: of the border's
 * tensors, in fy_graph_io's order; f32, but masks are f16. NULL on failure. */
fy_qfloat *fy_qfloat_new(const fy_qgraph *g, const fy_model *m, fy_backend *backend, fy_pool *pool,
                         void *const *buffers, fy_err *e);
void fy_qfloat_free(fy_qfloat *f); /* NULL is fine */

/* Sees every node when its output is there: fy_qfloat_values of its inputs and output are valid. */
typedef int fy_qfloat_watch(void *user, const fy_qfloat *f, const fy_q_node *n, fy_err *e);
/* What a run rounds to: the codes of every tensor, and the weights that ferry would give a library;
 * ranges may be NULL. A matrix is encoded and decoded each time, which keeps one in memory. */
typedef struct {
    const fy_q_encodings *encodings;
    const fy_q_ranges *ranges;
} fy_qfloat_codes;

/* codes NULL: nothing is rounded. watch NULL: none. */
int fy_qfloat_run(fy_qfloat *f, const fy_qfloat_codes *codes, fy_qfloat_watch *watch, void *user,
                  fy_err *e);

const fy_qgraph *fy_qfloat_graph(const fy_qfloat *f);
fy_pool *fy_qfloat_pool(const fy_qfloat *f); /* view; a watch may use it */
/* [rows][columns] */
const float *fy_qfloat_values(const fy_qfloat *f, uint32_t tensor);

#endif
