/* The arithmetic of the engine and of the quantizer. kernel_list.h is the only list of
 * implementations; this header states the contract of each operation, kernels/scalar/ is its
 * specification in code.
 *
 * Dispatch: fy_kernels_for(features) fills a table, worst first, last match wins. Everything is
 * thread-safe and free of allocation. No operation splits a reduction over threads.
 *
 * Exactness. Every operation has ONE result, bit for bit, on every ISA, for every batch shape and
 * thread count; a phone computes what the workstation computed. The order of every sum is therefore
 * part of the contract: q8_0, q4_0 weights   per row the blocks in order, acc = fmaf(d_w * d_x,
 * (float)isum, acc) in a single chain from 0, isum the exact int32 sum of the block's products;
 * activations by one rule (fy_act) f32, f16, bf16       8 lanes: element i goes to lane i % 8 by
 * fmaf, the row padded with zeros to whole lanes; u[l] = lane[l] + lane[l+4], and the result is
 * (u[0] + u[2]) + (u[1] + u[3]) exp                  fy_exp: one polynomial in fused multiply-adds
 */
#ifndef FY_KERNELS_KERNELS_H
#define FY_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/types.h"

/* Activations of n_cols tokens, as the matmul of a weight type wants them. All pointers are
 * borrowed scratch. For f32/f16/bf16 weights only x is used. For q8_0/q4_0 weights act_quantize
 * fills q, d and sum: per block of 32: amax = max |x|, d = amax / 127 (f32), id = d ? 1 / d : 0 (0
 * too when 1/d is not finite), q = round half away from zero (x * id), sum = exact sum of the
 * block's q. */
typedef struct {
    const float *x; /* [n_cols][k] */
    int8_t *q;      /* [n_cols][k] */
    float *d;       /* [n_cols][k / 32] */
    int32_t *sum;   /* [n_cols][k / 32] */
    int64_t k;      /* row length, a multiple of 32 when q is used */
} fy_act;

/* y[c * ldy + r] = W[r] . x[c]  for r in [row_begin, row_end), c in [0, n_cols).
 * W: first row of the whole matrix, rows of a->k elements, row_bytes apart, any alignment.
 * scratch: per-thread, FY_KERNEL_SCRATCH_BYTES bytes, 64-byte aligned (a repacked tile of rows
 * lives there). y must not alias anything else. Reads nothing beyond the rows asked for. */
typedef void fy_matmul_fn(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                          int64_t row_end, const fy_act *a, int64_t n_cols, void *scratch);

/* One query head against the KV cache of its KV head.
 *   s_j = scale * (q . K[j])                        the dot product in 8 lanes, as above
 *   p_j = fy_exp(s_j - max s),  their sum in 8 double lanes j % 8, added as in rms_norm
 *   out_i = (fmaf chain of p_j * V[j][i], from 0, j in order) * (float)(1 / sum)
 * q, out: [head_dim] (out: [head_dim_v]). K, V: rows of the cache, k_stride / v_stride elements
 * apart. scores: scratch of n_keys floats. Keys are taken in order, so a result does not depend on
 * the batch. */
typedef void fy_attend_fn(float *out, const float *q, const void *K, const void *V, int64_t n_keys,
                          int head_dim, int head_dim_v, int64_t k_stride, int64_t v_stride,
                          float scale, float *scores);

typedef struct {
    uint32_t features; /* what the table was made for */

    /* act: x [n_cols][k] -> q, d, sum. */
    void (*act_quantize)(const fy_act *a, int64_t col_begin, int64_t col_end);
    fy_matmul_fn *matmul_f32, *matmul_f16, *matmul_bf16, *matmul_q8_0, *matmul_q4_0;

    fy_attend_fn *attend_f32, *attend_f16; /* element type of K and V */

    /* y = x * s * w with s = (float)(1 / sqrt(mean(x^2) + eps)) in double; the squares in 8 double
     * lanes i % 8, u[l] = lane[l] + lane[l+4], sum = (u[0] + u[1]) + (u[2] + u[3]). n elements. y
     * may be x. */
    void (*rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps);
    /* gate[i] = gate[i] / (1 + fy_exp(-gate[i])) * up[i] */
    void (*silu_mul)(float *gate, const float *up, int64_t n);
    /* Rows <-> f32; exact widening, round-to-nearest-even narrowing (overflow -> inf, NaN kept
     * NaN). */
    void (*f16_to_f32)(float *y, const uint16_t *x, int64_t n);
    void (*f32_to_f16)(uint16_t *y, const float *x, int64_t n);
    void (*bf16_to_f32)(float *y, const uint16_t *x, int64_t n);
    void (*f32_to_bf16)(uint16_t *y, const float *x, int64_t n);
    /* File encoders, equal byte for byte to ggml's quantize_row_*_ref (docs/quantization.md). n %
     * 32 == 0, input finite. */
    void (*encode_q8_0)(fy_block_q8_0 *y, const float *x, int64_t n);
    void (*encode_q4_0)(fy_block_q4_0 *y, const float *x, int64_t n);
    void (*decode_q8_0)(float *y, const fy_block_q8_0 *x, int64_t n);
    void (*decode_q4_0)(float *y, const fy_block_q4_0 *x, int64_t n);
} fy_kernels;

#define FY_KERNEL_SCRATCH_BYTES (256u << 10) /* per thread, for fy_matmul_fn */

/* The table for a feature mask (base/cpu.h). features = 0 is the scalar specification. */
fy_kernels fy_kernels_for(uint32_t features);

/* The matmul of a weight type, or NULL when ferry cannot compute with it. */
fy_matmul_fn *fy_kernels_matmul(const fy_kernels *k, fy_type weights);
/* True when that matmul wants quantized activations. */
bool fy_kernels_wants_q8(fy_type weights);

/* exp(x) within 2 units in the last place of a normal result, 0 below -104, infinity above 88.8,
 * NaN for NaN: x = n ln 2 + r, ln 2 in two parts (Cody and Waite), the degree-6 polynomial of
 * Cephes' expf for |r| <= ln 2 / 2, and 2^n in two factors. Every kernel computes these very steps.
 */
float fy_exp(float x);

/* One value, exactly as the row kernels do it. */
float fy_f16_to_f32(uint16_t h);
uint16_t fy_f32_to_f16(float f);
float fy_bf16_to_f32(uint16_t h);
uint16_t fy_f32_to_bf16(float f);

#endif
