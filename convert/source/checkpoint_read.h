/* The values of a checkpoint's tensors as f32, wherever and however they are stored. */
#ifndef FY_CONVERT_CHECKPOINT_READ_H
#define FY_CONVERT_CHECKPOINT_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "convert/source/checkpoint.h"
#include "kernels/kernels.h"

/* Can its elements be read as numbers? F64, F32, F16, BF16, and FP8 E4M3 with its scale. */
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

/* Gives every FP8 matrix its scale: NAME_scale_inv, one for all of it or one for each block of
 * config->fp8_block, the last ones partial. A matrix without one, or with one of another shape, is
 * an error. */
int fy_ckpt_pair_scales(fy_ckpt *c, const fy_hf_config *config, fy_err *e);

#endif
