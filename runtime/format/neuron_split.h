/* PowerInfer's split file (.gpuidx): which neurons of each layer are hot, the ones that it keeps on
 * the GPU. `plan --hot` writes it; quantize --hot lays those neurons out first.
 *
 * GGUF that begins with "PWRI": general.architecture "generic.gpu_index",
 * generic.gpu_index.block_count (u32), split.vram_capacity (u64: the bytes that the hot neurons may
 * take), and for each layer N the i32 tensors blk.N.gpu_idx [neurons], 1 for a hot neuron and 0 for
 * others, and blk.N.gpu_bucket [hot neurons], their numbers ascending, which may be none; it is
 * also read without them. PowerInfer takes the tensors by their places. Source:
 * powerinfer-py/powerinfer/export_split.py and the loader in llama.cpp. */
#ifndef FY_FORMAT_NEURON_SPLIT_H
#define FY_FORMAT_NEURON_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct {
    uint64_t n;     /* neurons */
    uint64_t n_hot; /* at most n */
    int32_t *hot;   /* owned, [n_hot], ascending */
} fy_layer_split;

typedef struct {
    uint32_t n_layer;
    uint64_t capacity_bytes;
    fy_layer_split *layers; /* owned, [n_layer] */
} fy_neuron_split;

/* FY_EFORMAT when gpu_idx and gpu_bucket of a layer disagree, or a neuron is listed twice. */
int fy_neuron_split_open(fy_neuron_split *s, const char *path, fy_err *e);
/* Of bytes; `name` is for messages. */
int fy_neuron_split_parse(fy_neuron_split *s, const void *p, size_t n, const char *name, fy_err *e);
int fy_neuron_split_init(fy_neuron_split *s, uint32_t n_layer, fy_err *e);
/* Room for n_hot of n neurons of a layer, which the caller fills in. */
int fy_neuron_split_add_layer(fy_neuron_split *s, uint32_t layer, uint64_t n, uint64_t n_hot,
                              fy_err *e);
void fy_neuron_split_release(fy_neuron_split *s);

int fy_neuron_split_write(const fy_neuron_split *s, const char *path, fy_err *e);

#endif
