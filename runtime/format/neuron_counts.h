/* How often each neuron of a model's feed-forward networks was active over a text: `eval
 * --activations-out` writes it, `plan --hot` reads it.
 *
 * Our file is GGUF: general.type "activations", activations.block_count and activations.tokens
 * (u32), activations.dataset (string, the text's name), and for each layer N with such a network
 * the i32 tensor blk.N.activations [neurons]: for how many tokens the neuron's gate was above zero.
 * PowerInfer's statistics are a directory of activation_0.pt, activation_1.pt, ..., each with one
 * tensor [neurons] of integers or floats, taken in the order of their numbers. Source:
 * powerinfer-py/powerinfer/solver.py.
 *
 * Counts are doubles here: integers below 2^53 add up exactly, in any order. */
#ifndef FY_FORMAT_NEURON_COUNTS_H
#define FY_FORMAT_NEURON_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

typedef struct {
    uint64_t n; /* neurons; 0: the layer has no such network */
    double *of; /* owned, [n]: finite, at least 0 */
} fy_layer_counts;

typedef struct {
    uint32_t n_layer;
    uint64_t n_tokens;       /* 0: not known */
    fy_layer_counts *layers; /* owned, [n_layer] */
} fy_neuron_counts;

/* A file of ours, or PowerInfer's directory. */
int fy_neuron_counts_open(fy_neuron_counts *c, const char *path, fy_err *e);
/* Our file's bytes; `name` is for messages. */
int fy_neuron_counts_parse(fy_neuron_counts *c, const void *p, size_t n, const char *name,
                           fy_err *e);
/* Of n_layer layers, none of which has neurons yet. */
int fy_neuron_counts_init(fy_neuron_counts *c, uint32_t n_layer, fy_err *e);
/* n zeros for a layer. */
int fy_neuron_counts_add_layer(fy_neuron_counts *c, uint32_t layer, uint64_t n, fy_err *e);
void fy_neuron_counts_release(fy_neuron_counts *c);

/* FY_EARG when a count does not fit 31 bits. */
int fy_neuron_counts_write(const fy_neuron_counts *c, const char *path, fy_span dataset, fy_err *e);

#endif
