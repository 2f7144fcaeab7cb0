/* Which neurons of a model are worth keeping where access is fast: those that are active most
 * often, by counts over a text (format/neuron_counts.h).
 *
 * The problem is that of PowerInfer's solver: neurons come in groups of FY_HOT_GROUP, in a layer
 * the most active ones first; choose groups with the largest sum of counts such that their neurons
 * are no more than `capacity`, and a layer has either `least` neurons (in whole groups) or none. A
 * layer's last group may be smaller. Source: powerinfer-py/powerinfer/solver.py. */
#ifndef FY_WORKSPACE_HOT_NEURONS_H
#define FY_WORKSPACE_HOT_NEURONS_H

#include <stdbool.h>
#include <stdint.h>

#include "format/neuron_counts.h"
#include "format/neuron_split.h"

enum { FY_HOT_GROUP = 256 }; /* PowerInfer's kernels take neurons by so many */

/* n_hot [c->n_layer]: an optimum; of several the one with most neurons in the first layer, then in
 * the second, and so on. FY_EFIT: layers and groups are too many to solve. */
int fy_hot_solve(const fy_neuron_counts *c, uint64_t capacity, uint64_t least, uint64_t *n_hot,
                 fy_err *e);

/* The split with the n_hot [c->n_layer] most active neurons of each layer, the lower number first
 * among equals. Release in every case. */
int fy_hot_split(const fy_neuron_counts *c, const uint64_t *n_hot, fy_neuron_split *out, fy_err *e);

typedef struct {
    const char *model;       /* path of a GGUF file */
    const char *activations; /* path for fy_neuron_counts_open */
    const char *hot;         /* neurons, or bytes with K, M or G */
    uint64_t least;
    const char *out; /* NULL: nothing is written */
    bool json;
} fy_hot_plan;
/* plan --hot. */
int fy_hot_plan_run(const fy_hot_plan *p, fy_err *e);

#endif
