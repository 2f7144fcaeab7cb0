/* A whole decoder layer with made-up weights, composed on a QNN library in each recipe and for two
 * batch sizes in one context: does the library compile what a model is made of, and keep its
 * weights once? Shapes are small; ranges are wide, so the numbers mean nothing. */
#ifndef FY_WORKSPACE_QNN_LAYER_H
#define FY_WORKSPACE_QNN_LAYER_H

#include "backend/qnn/qnn_graph.h"

enum { FY_QNN_LAYER_RECIPES = 6 };
extern const char *const fy_qnn_layer_recipes[FY_QNN_LAYER_RECIPES]; /* "16a8w", ... */

typedef struct {
    uint32_t code;      /* 0: compiled and executed; else of the step that failed */
    uint32_t n_nodes;   /* of a graph */
    char step[48];      /* what failed: "graphAddNode of Softmax" */
    uint64_t one_bytes; /* binary of one batch size */
    uint64_t two_bytes; /* of two that share their weights */
} fy_qnn_layer_answer;

/* A refusal is an answer; fails only when nothing can be composed at all. */
int fy_qnn_layer_try(size_t recipe, const fy_qnn_lib *lib, fy_qnn_handle device,
                     const fy_qnn_chip *chip, fy_qnn_layer_answer *out, fy_err *e);

#endif
