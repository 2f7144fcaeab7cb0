/* The chunks of a model that was cut for an NPU (`ferry chunk`), each a GGUF file of its own:
 *
 *   ggml/weights.gguf     embedding: token_embd, position_embd and the factors of rope; what stays
 *                         on the CPU. It carries every key of the model.
 *   qnn/chunk_0.gguf ...  a range of layers each, under the numbers that they have in the model
 *   qnn/lm_head.gguf      output norm and output matrix; for a wide vocabulary several,
 *                         lm_head_0 ..., each a slice of its outputs, with the norm again
 *
 * A chunk has the keys that hyperparameters are read from (those of the whole model) and these:
 *
 *   ferry.chunk.kind         "embedding", "layers" or "head"
 *   ferry.chunk.index, count u32, among the chunks of its kind
 *   ferry.chunk.first_layer, end_layer   u32, of layers; end exclusive
 *   ferry.chunk.first_token, end_token   u32, of a head; end exclusive
 *   ferry.chunk.tied         bool, of a head: its output matrix is a copy of token_embd's rows
 *   ferry.chunk.inputs, outputs          strings: the graph's tensors besides the KV cache
 *   ferry.chunk.model        64 hex digits: the model that was cut
 *   ferry.chunk.places       u32[], for each tensor of the file its number in the model's file
 *
 * docs/npu.md describes the same for users. */
#ifndef FY_ARCH_CHUNK_INFO_H
#define FY_ARCH_CHUNK_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/err.h"
#include "format/gguf.h"
#include "format/gguf_write.h"

#define FY_CHUNK_KEYS        "ferry.chunk."
#define FY_CHUNK_INPUTS      FY_CHUNK_KEYS "inputs"
#define FY_CHUNK_OUTPUTS     FY_CHUNK_KEYS "outputs"
#define FY_CHUNK_PLACES      FY_CHUNK_KEYS "places"
#define FY_CHUNK_MODEL_BYTES 65

typedef enum {
    FY_CHUNK_WHOLE, /* not cut: no key ferry.chunk.* */
    FY_CHUNK_EMBEDDING,
    FY_CHUNK_LAYERS,
    FY_CHUNK_HEAD,
} fy_chunk_kind;

typedef struct {
    fy_chunk_kind kind;
    uint32_t index, count;
    uint32_t first_layer, end_layer; /* that the file holds; none: equal */
    uint32_t first_token, end_token; /* rows of the output matrix that it holds */
    bool tied;
    char model[FY_CHUNK_MODEL_BYTES];
} fy_chunk_info;

/* Has the file the key of a chunk's kind? */
bool fy_is_chunk(const fy_gguf *g);
/* hp: of the whole model, from the same file. A file without the keys is FY_CHUNK_WHOLE with every
 * layer and token. FY_EFORMAT for ranges outside the model. */
int fy_chunk_info_from_gguf(const fy_gguf *g, const fy_hparams *hp, fy_chunk_info *out, fy_err *e);
/* Adds the keys above but for places. */
int fy_chunk_info_to_gguf(fy_gguf_writer *w, const fy_hparams *hp, const fy_chunk_info *p,
                          fy_err *e);

/* Which kind of chunk holds a tensor of the family. */
fy_chunk_kind fy_chunk_kind_of(fy_slot slot);
/* True if this chunk holds that tensor. layer is ignored for a row that is not per layer. */
bool fy_chunk_holds(const fy_chunk_info *p, const fy_tensor_row *row, uint32_t layer);

/* As fy_row_shape, of this chunk's file: a slice of the lm_head has the output rows of its tokens.
 */
uint32_t fy_chunk_row_shape(const fy_chunk_info *p, const fy_hparams *hp, const fy_tensor_row *row,
                            uint64_t ne[FY_GGUF_MAX_DIMS]);
/* Of the same kind, with the same layers and tokens? */
bool fy_chunk_same_range(const fy_chunk_info *a, const fy_chunk_info *b);

/* Why a model of this kind cannot be cut into graphs of fixed shape; NULL: it can. */
const char *fy_cut_refusal(const fy_hparams *hp);

/* "embedding", "layers 0-7", "lm_head", "lm_head, tokens 0-32767" */
#define FY_CHUNK_TEXT_BYTES 64
const char *fy_chunk_text(const fy_chunk_info *p, const fy_hparams *hp,
                          char out[FY_CHUNK_TEXT_BYTES]);

#endif
