/* The file encoders of the types that are written by scalar code alone, equal byte for byte to
 * ggml_quantize_chunk as built for x86-64 without fused multiply-add: quantize_row_*_ref, and under
 * an importance matrix ([n] >= 0; NULL: none) quantize_row_*_impl. (quantize_row_iq4_nl_ref, which
 * no file is made with, searches less.) n is whole blocks, input finite. */
#ifndef FY_KERNELS_SCALAR_ENCODE_MORE_H
#define FY_KERNELS_SCALAR_ENCODE_MORE_H

#include <stdint.h>

#include "base/types.h"

void fy_encode_q2_k(fy_block_q2_k *y, const float *x, int64_t n, const float *importance);
void fy_encode_q3_k(fy_block_q3_k *y, const float *x, int64_t n, const float *importance);
void fy_encode_iq4_nl(fy_block_iq4_nl *y, const float *x, int64_t n, const float *importance);
/* Its scale leaves no choice: importance is not used. */
void fy_encode_mxfp4(fy_block_mxfp4 *y, const float *x, int64_t n);

#endif
