/* The inside of fy_model: every tensor of the family's rows, bound to the bytes of the map. A slot
 * whose data is NULL is a tensor that this model does not have; after fy_model_open only optional
 * ones can be. A tensor that holds several matrices one below the other is bound to their slots as
 * well, as views; of the matrices of all experts the rows stand in one run. */
#ifndef FY_MODEL_WEIGHTS_H
#define FY_MODEL_WEIGHTS_H

#include "arch/chunk_info.h"
#include "backend/gpu.h"
#include "base/arena.h"
#include "model/chain.h"
#include "model/expert_cache.h"
#include "model/model.h"

typedef struct {
    fy_matrix w[FY_T_COUNT];
    uint32_t n_gpu; /* neurons that a GPU computes; the matrices have the rows of the others */
} fy_weights;

struct fy_model {
    fy_gguf *gguf;           /* owned */
    const fy_family *family; /* view of a static table */
    fy_hparams hp;
    fy_chunk_info chunk;      /* what of the model the file holds */
    fy_chain *chain;          /* owned: the chunks with the rest of it; NULL: nothing is missing */
    fy_arena arena;           /* layers, and vectors that lie misaligned in the file */
    fy_weights once;          /* tensors of the whole model */
    fy_weights *layers;       /* those of the chunk, in the arena */
    const fy_matrix *output;  /* view: output.weight, or the embedding when they are tied */
    fy_vocab *vocab;          /* owned; NULL until asked for */
    fy_expert_cache *experts; /* owned; NULL: all of them may stay in memory */
    fy_gpu *gpu;              /* owned: computes the hot neurons; NULL: none */
    int64_t q8_len;         /* longest row of a weight that wants quantized activations; 0: none */
    int64_t ff_len;         /* widest feed-forward network, or expert */
    int64_t predictor_len;  /* highest rank of a predictor; 0: there is none */
    float sparse_threshold; /* of its scores */
};

/* lock_hot.c: how many neurons of each layer are hot, as the file says, u32; none is more than the
 * layer has. FY_EUNSUPPORTED when it does not say, in the name of an option that needs it. */
int fy_model_hot(const fy_model *m, const char *option, const fy_gguf_kv **n_hot, fy_err *e);

static inline const fy_weights *fy_layer_at(const fy_model *m, uint32_t layer)
{
    return &m->layers[layer - m->chunk.first_layer];
}

/* One expert's part of a matrix that holds those of all. */
static inline fy_matrix fy_expert_of(const fy_matrix *all, uint32_t expert, uint32_t n_expert)
{
    fy_matrix w = *all;
    w.n_rows = all->n_rows / n_expert;
    w.data = (const uint8_t *)all->data + (size_t)w.n_rows * expert * all->row_bytes;
    return w;
}

static inline bool fy_bound(const fy_weights *w, fy_slot slot)
{
    return w->w[slot].data != NULL;
}

/* The values of a norm or bias; NULL when the model has none. */
static inline const float *fy_vector(const fy_weights *w, fy_slot slot)
{
    return w->w[slot].data;
}

#endif
