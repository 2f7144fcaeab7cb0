/* Calibration: tokens run through the composed graphs in floats, and what comes out of every node
 * gives the ranges that the encodings follow from. One set for all batch sizes. */
#ifndef FY_WORKSPACE_CALIBRATE_H
#define FY_WORKSPACE_CALIBRATE_H

#include "model/vocab/vocab.h"
#include "workspace/compile/ranges.h"
#include "workspace/npu/npu_recipe.h"

typedef struct {
    const char *weights, *qnn; /* of the cut: ggml/weights.gguf, the directory of config.json */
    const int32_t *ids;        /* [n_ids] */
    size_t n_ids;
    const fy_npu_recipe *recipe;
    const fy_ids *preset; /* every context begins with them, and they are not looked at */
    const char *inputs;   /* file for rows that matrices multiply (qinputs.h); NULL: none */
    int n_threads;
} fy_calibration;

/* Rotation is composed of six nodes, whose ranges hold those of RotaryEmbedding. Whole batches of
 * the largest batch size, in contexts as long as the cache. The bytes of the result do not depend
 * on the threads. FY_EARG for fewer tokens than a batch has, FY_EFORMAT for values that are not
 * finite. */
int fy_q_calibrate(const fy_calibration *c, fy_q_ranges **out, fy_err *e);

/* Ranges that the first position alone sets, at least 16 times wider than those of all others:
 * their number and the name of the widest of them. */
size_t fy_q_massive(const fy_q_ranges *r, const char **name);

#endif
