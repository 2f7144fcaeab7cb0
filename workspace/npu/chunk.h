/* A model cut into the chunks of a plan (arch/chunk_info.h), and joined again.
 *
 *     DIR/ggml/weights.gguf      the embedding, with every key of the model
 *     DIR/qnn/config.json        which file computes which layers (bundle/qnn_config.h)
 *     DIR/qnn/chunk_0.gguf ...   DIR/qnn/lm_head.gguf, or lm_head_0.gguf ...
 *
 * Tensors are copied as they are, in their order, streaming: memory does not grow with the model.
 * Every file is NAME.part, fsync, rename; config.json comes last, so a directory that has it is
 * whole. An interrupted run is resumed: a chunk that exists and belongs to this cut is kept.
 * Same input and cut, same bytes. */
#ifndef FY_WORKSPACE_CHUNK_H
#define FY_WORKSPACE_CHUNK_H

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"
#include "cli/cut_model.h"

/* Where to cut, and what qnn/config.json says of it. */
typedef struct {
    const uint32_t *end_layer; /* [n_chunks], ascending; the last is the number of layers. NULL: as
                                  even as layers allow, by their bytes in the file */
    uint32_t n_chunks;
    const uint32_t *end_token; /* [n_heads], ascending; the last is the size of the vocabulary.
                                  NULL: the same of the vocabulary, by its tokens */
    uint32_t n_heads;
    const uint32_t *batch; /* [n_batches], largest first */
    uint32_t n_batches;
    uint32_t n_ctx;
    const char *soc, *recipe; /* names; "" when the cut was made for none */
    uint32_t kv_bits;         /* of the plan; 0: there was none */
} fy_cut;

typedef struct {
    uint32_t n_files; /* config.json not counted */
    uint64_t bytes;   /* of all chunks */
    uint64_t written; /* of those that were not there yet */
} fy_chunk_stats;

/* model: a GGUF file (of a split model the first). dir may exist when it is empty or holds the
 * beginning of this very cut. */
int fy_chunk(const char *model, const char *dir, const fy_cut *cut, fy_pool *pool,
             fy_progress *progress, fy_chunk_stats *stats, fy_err *e);

/* dir: as fy_chunk makes it. Writes the GGUF file that was cut: the same tensors and keys in the
 * same order. Chunks of different models, ones that are missing or are there twice, and
 * copies that are not equal are FY_EVERIFY. */
int fy_chunk_join(const char *dir, const char *out, fy_pool *pool, fy_progress *progress,
                  fy_err *e);

/* What verify checks, without reading the weights: every layer and token once, the shapes at the
 * seams, the model each chunk is of, config.json against the chunks. FY_EVERIFY names the first
 * contradiction. */
int fy_chunk_check(const char *dir, fy_err *e);
/* The same of a weights.gguf and a directory with config.json that lie anywhere. weights may be a
 * complete model beside the chunks of it: their tensors are looked up there. */
int fy_chunk_check_files(const char *weights, const char *qnn, fy_err *e);
/* The same of one that is open; qnn: its directory. */
int fy_chunk_check_model(const fy_cut_model *m, const char *qnn, fy_err *e);

#endif
