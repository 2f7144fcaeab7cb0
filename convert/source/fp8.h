/* FP8 matrices of checkpoints and their scales. E4M3 (1 sign, 4 exponent, 3 mantissa bits, bias 7;
 * no infinities, 0x7F and 0xFF are NaN), as torch.float8_e4m3fn stores it. */
#ifndef FY_CONVERT_FP8_H
#define FY_CONVERT_FP8_H

#include <stdint.h>

#include "convert/source/checkpoint.h"

void fy_fp8_e4m3_decode(float *y, const uint8_t *x, int64_t n);

/* Gives every FP8 matrix its scale: NAME_scale_inv, one for all of it or one for each block of
 * config->fp8_block, the last ones partial. A matrix without one, or with one of another shape, is
 * an error. */
int fy_ckpt_pair_scales(fy_ckpt *c, const fy_hf_config *config, fy_err *e);

#endif
