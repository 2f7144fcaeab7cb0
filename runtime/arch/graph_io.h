/* What goes into a chunk's graph of a fixed batch size and what comes out: PowerServe's contract
 * (its converter and runtime agree on these names, types and shapes), with what its families do not
 * have on top. B tokens of a call, C cache slots, X = context columns, D n_embd, H head_dim, for
 * layer L and KV head J:
 *
 *   layers   in   x                             f32 [B, D]
 *                 attn_bias                     f16 [B, X]
 *                 attn_bias_swa                 f16 [B, X]  of layers with a window
 *                 rope_embed_cos, _sin          f32 [B, n_rot / 2]
 *                 rope_embed_cos_swa, _sin_swa  f32 [B, n_rot / 2]  where these rotate differently
 *                 rope_embed_cos_q, _sin_q      f32 [B, n_rot / 2]  of queries that grow with their
 *                                                                   position
 *                 layer_L_key_t_cache_J         kv  [H, C]  transposed
 *                 layer_L_value_cache_J         kv  [C, Hv]
 *            out  out                           f32 [B, D]
 *                 layer_L_key_J                 kv  [B, H]  of the tokens of the call alone
 *                 layer_L_value_J               kv  [B, Hv]
 *   head     in   x                             f32 [B, D]
 *            out  logits                        f32 [B, tokens of the slice]
 *
 * Layers of RWKV have a state in place of masks, tables and caches; N is wkv_head:
 *
 *            in   v_first_in                    f32 [B, D]      version 7, but for the first chunk
 *                 token_mask                    f32 [B, 1]      1: a token of the call, 0: padding
 *                 token_last                    f32 [1, B]      1: the last token that is none
 *                 state{3L}_in                  st  [1, D]      the input of the time mix before
 *                 state{3L+1}_in                st  [D, N]      of each head [key][value]
 *                 state{3L+2}_in                st  [1, D]      the input of the channel mix before
 *            out  v_first_out                   f32 [B, D]      of the first chunk of several
 *                 state{3L}_out ...             st  the same, after the last token of the call
 *
 * token_last is there where B is more than 1, and so is token_mask, which version 5 always has: its
 * decay is that of every token. Padding leaves states as they are.
 *
 * Columns 0..C-1 of a bias are the cache, C..C+B-1 the tokens of the call, the rest padding; 0 is
 * visible, attention_mask_value hidden. attn_bias is there when a layer of the chunk sees
 * everything, attn_bias_swa when one has the window, the tables of rope when one rotates. The plan
 * counts these bytes, the runtime allocates them, compile declares them: this list is the only one.
 */
#ifndef FY_ARCH_GRAPH_IO_H
#define FY_ARCH_GRAPH_IO_H

#include "arch/chunk_info.h"

typedef enum {
    FY_IO_X,
    FY_IO_BIAS,
    FY_IO_BIAS_SWA,
    FY_IO_COS,
    FY_IO_SIN,
    FY_IO_COS_SWA,
    FY_IO_SIN_SWA,
    FY_IO_COS_Q,
    FY_IO_SIN_Q,
    FY_IO_V_FIRST,
    FY_IO_TOKEN_MASK,
    FY_IO_TOKEN_LAST,
    FY_IO_KEY_CACHE,
    FY_IO_VALUE_CACHE,
    FY_IO_STATE,
    FY_IO_OUT, /* the first that comes out */
    FY_IO_LOGITS,
    FY_IO_V_FIRST_OUT,
    FY_IO_KEY,
    FY_IO_VALUE,
    FY_IO_STATE_OUT,
    FY_IO_COUNT,
} fy_io_role;

enum { FY_STATE_PARTS = 3 }; /* tensors that a layer's state is */

#define FY_IO_NAME_BYTES 48

typedef struct {
    fy_io_role role;
    uint32_t layer, head; /* of a cache, key or value; of a state the layer and its part */
    char name[FY_IO_NAME_BYTES];
    uint32_t element_bytes; /* 4: f32; 2: f16; 1: 8-bit KV cache */
    uint64_t rows, cols;    /* row-major */
} fy_io_tensor;

typedef struct {
    const fy_hparams *hp;
    const fy_chunk_info *chunk; /* FY_CHUNK_LAYERS or FY_CHUNK_HEAD */
    uint32_t n_batch;           /* B */
    uint32_t n_cache, n_ctx;    /* C, X */
    uint32_t kv_bytes;          /* of an element of the cache or a state: 4, 2 or 1 */
} fy_graph_shape;

/* How many tensors the graph has, and tensor i of them: inputs, then outputs, in an order that
 * never changes. */
uint32_t fy_graph_n_io(const fy_graph_shape *g);
void fy_graph_io(const fy_graph_shape *g, uint32_t i, fy_io_tensor *out);
/* Input i, or output i, without the caches: what goes from chunk to chunk or comes from the
 * runtime; false when there are no more. Sizes are those of two tokens. */
bool fy_graph_seam(const fy_hparams *hp, const fy_chunk_info *chunk, bool outputs, uint32_t i,
                   fy_io_tensor *out);

/* What they add up to. */
typedef struct {
    uint64_t once;        /* those that are no cache, key or value */
    uint64_t layer;       /* those of a layer: caches, new keys and values, states */
    uint64_t layer_cache; /* the caches, or states that come in, among them */
} fy_graph_bytes;
/* False when that is more than 64 bits count. The work does not grow with the number of heads. */
bool fy_graph_count(const fy_graph_shape *g, fy_graph_bytes *out);
/* All of them. */
bool fy_graph_io_bytes(const fy_graph_shape *g, uint64_t *bytes);

/* Have the layers states in place of caches (RWKV)? */
bool fy_graph_has_states(const fy_hparams *hp);
/* Tokens of a graph with states, unless others are asked for, and of the largest: each of them is a
 * copy of the recurrence. (Of 16 the vendor's library gets some wrong: docs/npu-real.md) */
enum { FY_STATE_BATCH = 8, FY_STATE_BATCH_MAX = 16 };
/* Is this layer's attention limited to a window? */
bool fy_layer_has_window(const fy_hparams *hp, uint32_t layer);
/* Does it rotate queries and keys? */
bool fy_layer_rotates(const fy_hparams *hp, uint32_t layer);
/* What multiplies q . k. */
float fy_attn_scale(const fy_hparams *hp);
/* How graphs for an NPU make keys: times the scale, less the softcap's share of it; where the
 * recipe rotates keys, times the Hadamard matrix if there is one of this size. */
float fy_npu_key_scale(const fy_hparams *hp);
bool fy_npu_can_rotate_keys(const fy_hparams *hp);
/* Where RoPE turns neighbours, graphs for an NPU turn halves: their element i of a head is this one
 * of the model. */
uint32_t fy_neighbour_of_half(const fy_hparams *hp, uint32_t i);

#endif
