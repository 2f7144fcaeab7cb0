/* The tensors of a checkpoint, whatever its container, under the names that the classes of
 * transformers give them:
 *
 *   model.safetensors, pytorch_model.bin, or the shards that the index next to them names; in the
 *   single files, what wrappers of a training put in front of all names ("module.") is left out;
 *   consolidated.00.pth ... with params.json, as Meta publishes (parts are joined);
 *   one .pt or .pth file with model_args, as llama2.c trains, or with the tensors of RWKV.
 *
 * Opening reads headers only; data is mapped, never copied. Checked before open returns: shard
 * names are plain file names, every shard is there (all absent ones are named), each tensor of
 * weight_map is in the shard it names, no tensor is in two shards or in none of the map, parts of a
 * joined tensor fit together.
 *
 * A tensor is read as f32 values through fy_ckpt_read (checkpoint_read.h), which hides strides,
 * parts, scales and what adapters (lora.h) add. */
#ifndef FY_CONVERT_CHECKPOINT_H
#define FY_CONVERT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "base/types.h"
#include "convert/source/hf_config.h"
#include "format/safetensors.h"
#include "format/torch_file.h"
#include "kernels/kernels.h"

#define FY_HF_SINGLE    "model.safetensors"
#define FY_HF_INDEX     "model.safetensors.index.json"
#define FY_TORCH_SINGLE "pytorch_model.bin"
#define FY_TORCH_INDEX  "pytorch_model.bin.index.json"

/* Where some or all elements of a tensor lie. */
typedef struct {
    const uint8_t *data;          /* view: element [0, ..., 0] of the part; any alignment */
    const fy_map *map;            /* view: the file it lies in */
    uint64_t len;                 /* size along the axis at which parts are joined */
    uint64_t stride[FY_MAX_RANK]; /* in elements */
} fy_ckpt_part;

typedef struct fy_ckpt_tensor {
    fy_span name;
    const char *path; /* view: the file, of the first part */
    fy_dtype dtype;
    uint32_t rank;
    uint64_t shape[FY_MAX_RANK]; /* torch order: shape[rank-1] is the row length */
    uint64_t bytes;              /* of all elements */
    const fy_ckpt_part *parts;   /* view; joined along dimension `axis` */
    uint32_t n_parts, axis;
    bool plain; /* one part, row-major without gaps, nothing to add: data holds `bytes` in a row */
    const struct fy_ckpt_tensor *scale; /* view: of FP8 blocks, or of MXFP4, which is F4 with a
                                           scale for each 32 elements of a row; NULL: none */
    uint64_t scale_block[2];            /* rows and columns that share a scale */
    const struct fy_lora_delta *delta;  /* view: what adapters add to it; NULL: nothing */
} fy_ckpt_tensor;

typedef struct fy_ckpt fy_ckpt;

/* `path`: a directory, or the one file of llama2.c or RWKV. NULL on failure. */
fy_ckpt *fy_ckpt_open(const char *path, fy_err *e);
/* The tensors of one safetensors or PyTorch file, under the names that they have there. */
fy_ckpt *fy_ckpt_open_file(const char *path, bool is_safetensors, fy_err *e);
const fy_st *fy_ckpt_safetensors(const fy_ckpt *c); /* that file; NULL: it is of the other kind */
const fy_torch *fy_ckpt_torch(const fy_ckpt *c);
void fy_ckpt_close(fy_ckpt *c); /* NULL is fine */

/* Opens the checkpoint and reads its configuration: config.json, or what params.json or model_args
 * say under the keys of config.json. `config` is to be released in either case. NULL on failure. */
fy_ckpt *fy_ckpt_open_model(const char *path, fy_hf_config *config, fy_err *e);

size_t fy_ckpt_n_tensors(const fy_ckpt *c);
const fy_ckpt_tensor *fy_ckpt_at(const fy_ckpt *c, size_t i);       /* by file, then by offset */
const fy_ckpt_tensor *fy_ckpt_find(const fy_ckpt *c, fy_span name); /* NULL when absent; O(1) */
uint64_t fy_ckpt_bytes(const fy_ckpt *c);                           /* of all tensors */

/* Of one tensor. */
uint64_t fy_ckpt_n_elements(const fy_ckpt_tensor *t);

/* Rows of q and k are in pairs of neighbours, as GGUF's llama has them, not in halves. */
bool fy_ckpt_rotates_neighbours(const fy_ckpt *c);

/* --- the values of its tensors as f32, wherever and however they are stored (checkpoint_read.c) --- */

/* Can its elements be read as numbers? F64, F32, F16, BF16, and FP8 E4M3 and MXFP4 with their
 * scales. */
bool fy_ckpt_can_read(const fy_ckpt_tensor *t);

/* out[n] = elements [first, first + n) of the tensor in row-major order; they must exist. */
void fy_ckpt_read(const fy_kernels *k, const fy_ckpt_tensor *t, uint64_t first, uint64_t n,
                  float *out);

/* out[n_rows][n] = elements [col, col + n) of those rows: faster where adapters add to them. */
void fy_ckpt_read_rows(const fy_kernels *k, const fy_ckpt_tensor *t, const uint64_t *rows,
                       int n_rows, uint64_t col, uint64_t n, float *out);

/* Drops elements [first, first + n) from resident memory (advice). Of a tensor whose elements do
 * not lie in a row, all of it, once n is all of it. */
void fy_ckpt_drop(const fy_ckpt_tensor *t, uint64_t first, uint64_t n);

/* Do the two hold the same bytes, in parts of the same sizes? Reads them a piece at a time. Views
 * with gaps are never called the same. */
bool fy_ckpt_same(const fy_ckpt_tensor *x, const fy_ckpt_tensor *y);

/* FP8 matrices of checkpoints and their scales. E4M3 (1 sign, 4 exponent, 3 mantissa bits, bias 7;
 * no infinities, 0x7F and 0xFF are NaN), as torch.float8_e4m3fn stores it. */
void fy_fp8_e4m3_decode(float *y, const uint8_t *x, int64_t n);

/* out: n elements from `first` on, whole blocks, of an MXFP4 tensor in the order of ggml's blocks.
 * The numbers stay what they are. */
void fy_ckpt_read_mxfp4(const fy_ckpt_tensor *t, uint64_t first, uint64_t n, fy_block_mxfp4 *out);

/* Gives every FP8 matrix its scale: NAME_scale_inv, one for all of it or one for each block of
 * config->fp8_block, the last ones partial; and every NAME_blocks of MXFP4, U8 [.., n / 32, 16],
 * its NAME_scales [.., n / 32], whereby it becomes F4 [.., n]. A matrix without one, or with one of
 * another shape, is an error. */
int fy_ckpt_pair_scales(fy_ckpt *c, const fy_hf_config *config, fy_err *e);

#endif
