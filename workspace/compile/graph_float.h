/* The graphs of a cut model as the NPU will have them, computed in floats: a device for
 * model/chain.h, so that a session on it is the model. Its caches are f32; keys in them carry what
 * the composition folds into them (qgraph.h). */
#ifndef FY_WORKSPACE_GRAPH_FLOAT_H
#define FY_WORKSPACE_GRAPH_FLOAT_H

#include "model/chain.h"
#include "workspace/compile/qfloat.h"

typedef struct {
    const fy_npu_recipe *recipe; /* view; what the graphs are composed for */
    bool rope_nodes;
    fy_qfloat_watch *watch; /* sees every node of every call; NULL: none */
    void *user;
    bool codes;                /* can round to codes (fy_graph_float_round) */
    const fy_q_ranges *ranges; /* view; of the encodings; NULL: the recipe needs none */
} fy_graph_float_options;

/* NULL on failure. */
fy_graph_device *fy_graph_float_open(const fy_map_options *map, const fy_graph_float_options *o,
                                     fy_err *e);
/* Calls from now on round values and weights to the codes that an NPU would have, or do not. */
void fy_graph_float_round(fy_graph_device *device, bool round);

#endif
