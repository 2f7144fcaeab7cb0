/* The order of a model's neurons when the hot ones come first (quantize --hot): those that a split
 * file lists (format/neuron_split.h), then the others, each in their order. Rows of gate, up,
 * ffn_down_t and fc2 are neurons, and so are the elements of their biases; moved alike, they
 * compute the same, but sums over neurons round in another order. The file says how many are hot in
 * ferry.hot_neurons, a u32 for each layer. */
#ifndef FY_QUANTIZE_HOT_ORDER_H
#define FY_QUANTIZE_HOT_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "format/gguf_write.h"

typedef struct {
    uint32_t n_layer;
    int32_t **order; /* owned, [n_layer][neurons]: the neuron of the input at each place */
    uint32_t *n_hot; /* owned, [n_layer] */
} fy_hot_order;

/* FY_EFORMAT when the split is not of this model, FY_EUNSUPPORTED when the model has its hot
 * neurons first already, or a down matrix whose columns are the neurons (transposes: it is turned
 * on the way). Release in every case. */
int fy_hot_order_open(fy_hot_order *o, const char *path, const fy_gguf *in, bool transposes,
                      fy_err *e);
/* Where the rows of a tensor (of a vector: its elements) come from; NULL: they stay. */
const int32_t *fy_hot_order_of(const fy_hot_order *o, const fy_gguf_tensor *t);
int fy_hot_order_add_key(const fy_hot_order *o, fy_gguf_writer *w, fy_err *e);
void fy_hot_order_release(fy_hot_order *o);

#endif
