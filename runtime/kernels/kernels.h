/* The arithmetic of the engine and of the quantizer. kernel_list.h is the only list of
 * implementations; this header states the contract of each operation, kernels/scalar/ is its
 * specification in code.
 *
 * Dispatch: fy_kernels_for(features) fills a table, worst first, last match wins. Everything is
 * thread-safe and free of allocation. No operation splits a reduction over threads.
 *
 * Exactness. Every operation has ONE result, bit for bit, on every ISA, for every batch shape and
 * thread count; a phone computes what the workstation computed. The order of every sum is therefore
 * part of the contract:
 *
 * - block weights: per row the blocks of 32 in order, in a single chain from 0, acc = fmaf(d_w *
 *   d_x, (float)isum, acc), isum the exact int32 sum of the block's products, activations by one
 *   rule (fy_act). q4_1, q5_1, q4_K and q5_K, whose codes are not signed, add their minimum
 *   after that: acc = fmaf(m_w * d_x, (float)sum_x, acc). A sub-block of q4_K and q5_K is a block
 *   with d_w = d * scale and m_w = -(dmin * min), both exact. In q6_K d_w is d, and each product
 *   in isum is times the scale of its 16 elements, which together stays below 2^24. q2_K and q3_K
 *   are as q6_K; the minimum of q2_K is m_w = -dmin, and sum_x is added up times the minimums of 16
 *   elements. d_w of iq4_xs is d * scale. The iq types of 1 to 3 bits are as q6_K, with the
 *   integers that d_w = d / 8, d / 4 (iq3_xxs) or d (iq3_s) leaves. nvfp4, whose scales of 16
 *   elements are floats, adds its halves one after the other, each with its own d_w.
 * - f32, f16, bf16: 8 lanes: element i goes to lane i % 8 by fmaf, the row padded with zeros to
 *   whole lanes; u[l] = lane[l] + lane[l+4], and the result is (u[0] + u[2]) + (u[1] + u[3])
 * - a matrix with a row for each neuron (ffn_down_t): y[j] is one chain from 0 over the neurons in
 *   order, acc = fmaf(a_i, w_ij, acc), w_ij the stored value as f32. A neuron whose activation is
 * 0, of either sign, is not in the chain: it adds nothing, not even where w_ij is infinite or NaN.
 * A NaN is not 0.
 * - exp: fy_exp, one polynomial in fused multiply-adds
 */
#ifndef FY_KERNELS_KERNELS_H
#define FY_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/types.h"

/* Activations of n_cols tokens, as the matmul of a weight type wants them. All pointers are
 * borrowed scratch. For f32/f16/bf16 weights only x is used. For block weights act_quantize
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

/* y[rows[i]] = W[rows[i]] . x for i in [0, n): one column, rows ascending and none twice. The bits
 * are those of the type's matmul. */
typedef void fy_dot_rows_fn(float *y, const void *W, size_t row_bytes, const int32_t *rows,
                            int64_t n, const fy_act *a);

/* y[j] = fmaf(p[i], W[rows[i]][j], y[j]) for i = 0 .. n-1 in this order, j in [0, n_cols), which
 * are whole blocks. W may be some columns of a matrix: rows are row_bytes apart, at any alignment.
 */
typedef void fy_add_rows_fn(float *y, const float *p, const void *W, size_t row_bytes,
                            const int32_t *rows, int64_t n, int64_t n_cols);

/* What a token still has to add. */
typedef struct {
    float *y;            /* [FY_ADD_COLS] */
    const float *p;      /* [n] */
    const int32_t *rows; /* [n], ascending and none twice */
    int64_t n;
} fy_add_token;

/* The same of a tile of rows widened to f32, which are rows first .. end-1 of a matrix, for each of
 * the tokens: for i = 0, 1, .. while i < n and rows[i] < end, j in [0, FY_ADD_COLS). Then p, rows
 * and n move past those. Every y and the tile are 64-byte aligned, one row of the tile follows the
 * other, and those that are not listed may hold anything. */
enum { FY_ADD_COLS = 256 }; /* whole blocks of every type */
typedef void fy_add_tile_fn(fy_add_token *tokens, int64_t n_tokens, const float *tile,
                            int32_t first, int32_t end);

/* Attention of several queries over the keys and values of one KV head. Positions are taken in
 * chunks of FY_ATTEND_CHUNK: chunk c is positions 64 c .. 64 c + 63 of the sequence, wherever a
 * query's window begins. For each query the chunks in which it sees a position come in order, and
 * with m = -infinity, sum = 0 and acc = 0 before the first, and j the positions it sees:
 *   s_j = q . K[j]          attend_dots for f32 and f16, as a dot product of this type above; for
 *                           q8_0 and q4_0 their matmul, the query quantized by act_quantize
 *   s_j = scale * s_j,      then the softcap of it when cap is not 0
 *   m' = the largest of m and all s_j; a NaN is never the maximum
 *   shift = m', but 0 while m' is -infinity
 *   p_j = fy_exp(s_j - shift)
 *   f = m' > m ? fy_exp(m - shift) : 1
 *   sum = sum * f + total   in double, two roundings; total in float: p_j in 8 lanes from 0, lane j
 *                           % 8, added up as the lanes of a dot product
 *   acc_i = acc_i * f, and then for each j in order acc_i = fmaf(p_j, V[j][i], acc_i); an element
 *                           of q8_0 or q4_0 is d * q, which is exact
 * At the end out_i = acc_i * (float)(1 / sum). No step depends on the other queries, so neither
 * does a result, nor on where a batch begins. A NaN in q or a key that is seen makes out NaN.
 *
 * Rows of K and V follow one another, aligned as their elements are, and nothing beyond the
 * n_keys rows is read. s and p: [n_queries][FY_ATTEND_CHUNK], of which the first n_keys. */
enum { FY_ATTEND_CHUNK = 64 };

/* s[i][j] = q[i] . K[j]. q: [n_queries][dim rounded up to 8], zeros after dim. n_keys >= 1. */
typedef void fy_attend_dots_fn(float *s, const float *q, int64_t n_queries, const void *K,
                               int64_t n_keys, int64_t dim);

/* acc[i][..] = fmaf(p[i][j], V[j][..], acc[i][..]) for j = 0 .. n_keys-1. acc: [n_queries][dim]. */
typedef void fy_attend_add_fn(float *acc, const float *p, int64_t n_queries, const void *V,
                              int64_t n_keys, int64_t dim);

/* What the chunks so far leave of a query's softmax. Begins as {.max = -INFINITY}. */
typedef struct {
    float max, factor; /* m; f of the last chunk, which acc must still be multiplied by */
    double sum;
} fy_softmax;

/* How far y is from x, of values that came in several calls. Begins as zeros. */
typedef struct {
    double xx, yy, xy, ee; /* sums of x^2, y^2, x y and (x - y)^2 */
    float max_x, max_e;    /* largest |x| and |x - y|; a NaN is never the maximum */
    int64_t n, n_outside;  /* values; of those, outside their limits */
} fy_error_sums;

enum { FY_LIMIT_ELEMS = 16 };

/* What stands between the matrices of a feed-forward network: x[i] = f(x[i]) * up[i], or f(x[i])
 * alone when up is NULL. */
typedef void fy_activation_fn(float *x, const float *up, int64_t n);

typedef struct {
    uint32_t features; /* what the table was made for */

    /* act: x [n_cols][k] -> q, d, sum. */
    void (*act_quantize)(const fy_act *a, int64_t col_begin, int64_t col_end);
    fy_matmul_fn *matmul_f32, *matmul_f16, *matmul_bf16, *matmul_q8_0, *matmul_q4_0;
    fy_matmul_fn *matmul_q4_1, *matmul_q5_0, *matmul_q5_1, *matmul_q4_k, *matmul_q5_k, *matmul_q6_k;
    fy_matmul_fn *matmul_q2_k, *matmul_q3_k, *matmul_iq4_nl, *matmul_iq4_xs, *matmul_mxfp4,
        *matmul_nvfp4, *matmul_q1_0, *matmul_q2_0, *matmul_tq1_0, *matmul_tq2_0, *matmul_iq1_s,
        *matmul_iq1_m, *matmul_iq2_xxs, *matmul_iq2_xs, *matmul_iq2_s, *matmul_iq3_xxs,
        *matmul_iq3_s;

    fy_dot_rows_fn *dot_rows_q8_0, *dot_rows_q4_0;
    fy_add_rows_fn *add_rows_f16, *add_rows_q8_0, *add_rows_q4_0;
    fy_add_tile_fn *add_tile;

    fy_attend_dots_fn *attend_dots_f32, *attend_dots_f16;
    fy_attend_add_fn *attend_add_f32, *attend_add_f16, *attend_add_q8_0;
    /* From s_j = scale * s_j to sum, of n_queries that see the same of a chunk: s
     * [n_queries][FY_ATTEND_CHUNK] becomes p at begin .. end-1, which is not empty, and 0
     * elsewhere. */
    void (*attend_softmax)(float *s, int64_t n_queries, int begin, int end, float scale, float cap,
                           fy_softmax *state);

    /* y = x * s * w with s = (float)(1 / sqrt(mean(x^2) + eps)) in double; the squares in 8 double
     * lanes i % 8, u[l] = lane[l] + lane[l+4], sum = (u[0] + u[1]) + (u[2] + u[3]). n elements. y
     * may be x, and w NULL: no weights. */
    void (*rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps);
    /* y = (x - m) * s * w + bias with m = (float)mean(x) and s = (float)(1 / sqrt(mean((x -
     * mean(x))^2) + eps)); both means in double, their sums as in rms_norm. bias may be NULL: none.
     * y may be x. */
    void (*layer_norm)(float *y, const float *x, const float *w, const float *bias, int64_t n,
                       float eps);
    /* f(x) = x / (1 + fy_exp(-x)) */
    fy_activation_fn *silu_mul;
    /* f(x) = 0.5 x * (1 + fy_erf(x / sqrt 2)) */
    fy_activation_fn *gelu_mul;
    /* f(x) = x / (1 + fy_exp(-2 sqrt(2 / pi) (x + 0.044715 x^3))), which is 0.5 x (1 + tanh(..)) */
    fy_activation_fn *gelu_tanh_mul;
    /* x > threshold ? x * up[i] : 0, NaN for NaN: what is not above it is 0 whatever up[i] is */
    void (*relu_mul)(float *x, const float *up, int64_t n, float threshold);
    /* x > 0 ? x * relu(up[i]) : 0, with relu(u) = u > 0 ? u : 0; NaN for NaN of x, and of up[i]
     * where x > 0 */
    fy_activation_fn *drelu_mul;
    /* f(x) = v / (1 + fy_exp(-1.702 v)) with v = min(x, 7), and up[i] as 1 + max(min(up[i], 7), -7)
     * before it multiplies; NaN for NaN */
    fy_activation_fn *swiglu_oai_mul;
    /* x[i] = cap * (1 - 2 / (1 + fy_exp(x[i] * (2 / cap)))), which is cap tanh(x / cap); cap > 0 */
    void (*softcap)(float *x, int64_t n, float cap);
    /* Adds n values. limits: for each FY_LIMIT_ELEMS of them, of which the last may be fewer, the
     * lowest and the highest value of x that is not outside; NULL: none is. Sums are in double: x y
     * exact, x - y and its square rounded, both in the order of rms_norm, and the sum of this call
     * added to what *s has. |x - y| of max_e is rounded to f32. */
    void (*error_sums)(fy_error_sums *s, const float *x, const float *y, const float *limits,
                       int64_t n);
    /* Rows <-> f32; exact widening, round-to-nearest-even narrowing (overflow -> inf, NaN kept
     * NaN). */
    void (*f16_to_f32)(float *y, const uint16_t *x, int64_t n);
    void (*f32_to_f16)(uint16_t *y, const float *x, int64_t n);
    void (*bf16_to_f32)(float *y, const uint16_t *x, int64_t n);
    void (*f32_to_bf16)(uint16_t *y, const float *x, int64_t n);
    /* File encoders, equal byte for byte to ggml's quantize_row_*_ref (docs/quantization.md). n is
     * whole blocks, input finite. */
    void (*encode_q8_0)(fy_block_q8_0 *y, const float *x, int64_t n);
    void (*encode_q4_0)(fy_block_q4_0 *y, const float *x, int64_t n);
    void (*encode_q4_1)(fy_block_q4_1 *y, const float *x, int64_t n);
    void (*encode_q5_0)(fy_block_q5_0 *y, const float *x, int64_t n);
    void (*encode_q5_1)(fy_block_q5_1 *y, const float *x, int64_t n);
    void (*encode_q4_k)(fy_block_q4_k *y, const float *x, int64_t n);
    void (*encode_q5_k)(fy_block_q5_k *y, const float *x, int64_t n);
    void (*encode_q6_k)(fy_block_q6_k *y, const float *x, int64_t n);
    /* The same under an importance matrix: ggml's quantize_row_*_impl (docs/quantization.md).
     * importance: [n] >= 0; mean_square: of the whole row, as fy_row_squares adds it up. */
    void (*encode_weighted_q4_0)(fy_block_q4_0 *y, const float *x, int64_t n,
                                 const float *importance, float mean_square);
    void (*encode_weighted_q4_1)(fy_block_q4_1 *y, const float *x, int64_t n,
                                 const float *importance, float mean_square);
    void (*encode_weighted_q5_0)(fy_block_q5_0 *y, const float *x, int64_t n,
                                 const float *importance, float mean_square);
    void (*encode_weighted_q5_1)(fy_block_q5_1 *y, const float *x, int64_t n,
                                 const float *importance, float mean_square);
    void (*encode_weighted_q4_k)(fy_block_q4_k *y, const float *x, int64_t n,
                                 const float *importance);
    void (*encode_weighted_q5_k)(fy_block_q5_k *y, const float *x, int64_t n,
                                 const float *importance);
    void (*encode_weighted_q6_k)(fy_block_q6_k *y, const float *x, int64_t n,
                                 const float *importance);
    /* The scale, or scale and minimum, of the least sum of importance * (x - decoded)^2 that a
     * fixed search finds (kernels/scalar/fit_lanes.h); never worse than encode_*'s.
     * importance: [n] >= 0, NULL: 1. */
    void (*fit_q8_0)(fy_block_q8_0 *y, const float *x, int64_t n, const float *importance);
    void (*fit_q4_0)(fy_block_q4_0 *y, const float *x, int64_t n, const float *importance);
    void (*fit_q4_1)(fy_block_q4_1 *y, const float *x, int64_t n, const float *importance);
    void (*fit_q5_0)(fy_block_q5_0 *y, const float *x, int64_t n, const float *importance);
    void (*fit_q5_1)(fy_block_q5_1 *y, const float *x, int64_t n, const float *importance);
    /* Equal bit for bit to ggml's dequantize_row_*; any bytes may come, n is whole blocks. */
    void (*decode_q8_0)(float *y, const fy_block_q8_0 *x, int64_t n);
    void (*decode_q4_0)(float *y, const fy_block_q4_0 *x, int64_t n);
    void (*decode_q4_1)(float *y, const fy_block_q4_1 *x, int64_t n);
    void (*decode_q5_0)(float *y, const fy_block_q5_0 *x, int64_t n);
    void (*decode_q5_1)(float *y, const fy_block_q5_1 *x, int64_t n);
    void (*decode_q4_k)(float *y, const fy_block_q4_k *x, int64_t n);
    void (*decode_q5_k)(float *y, const fy_block_q5_k *x, int64_t n);
    void (*decode_q6_k)(float *y, const fy_block_q6_k *x, int64_t n);
    void (*decode_q2_k)(float *y, const fy_block_q2_k *x, int64_t n);
    void (*decode_q3_k)(float *y, const fy_block_q3_k *x, int64_t n);
    void (*decode_iq4_nl)(float *y, const fy_block_iq4_nl *x, int64_t n);
    void (*decode_iq4_xs)(float *y, const fy_block_iq4_xs *x, int64_t n);
    void (*decode_mxfp4)(float *y, const fy_block_mxfp4 *x, int64_t n);
    void (*decode_nvfp4)(float *y, const fy_block_nvfp4 *x, int64_t n);
    void (*decode_q1_0)(float *y, const fy_block_q1_0 *x, int64_t n);
    void (*decode_q2_0)(float *y, const fy_block_q2_0 *x, int64_t n);
    void (*decode_tq1_0)(float *y, const fy_block_tq1_0 *x, int64_t n);
    void (*decode_tq2_0)(float *y, const fy_block_tq2_0 *x, int64_t n);
    void (*decode_iq1_s)(float *y, const fy_block_iq1_s *x, int64_t n);
    void (*decode_iq1_m)(float *y, const fy_block_iq1_m *x, int64_t n);
    void (*decode_iq2_xxs)(float *y, const fy_block_iq2_xxs *x, int64_t n);
    void (*decode_iq2_xs)(float *y, const fy_block_iq2_xs *x, int64_t n);
    void (*decode_iq2_s)(float *y, const fy_block_iq2_s *x, int64_t n);
    void (*decode_iq3_xxs)(float *y, const fy_block_iq3_xxs *x, int64_t n);
    void (*decode_iq3_s)(float *y, const fy_block_iq3_s *x, int64_t n);
} fy_kernels;

#define FY_KERNEL_SCRATCH_BYTES (256u << 10) /* per thread, for fy_matmul_fn */

/* The table for a feature mask (base/cpu.h). features = 0 is the scalar specification. */
fy_kernels fy_kernels_for(uint32_t features);

/* A line of kernel_list.h. */
typedef struct {
    const char *op, *isa;
    uint32_t needs;         /* features */
    size_t member;          /* where fy_kernels has it */
    void (*function)(void); /* of the member's type */
} fy_kernel_row;

extern const fy_kernel_row fy_kernel_rows[];
extern const int fy_n_kernel_rows;

/* Puts the kernel of a row into its member. */
void fy_kernel_install(fy_kernels *k, const fy_kernel_row *row);

/* The matmul of a weight type, or NULL when ferry cannot compute with it. */
fy_matmul_fn *fy_kernels_matmul(const fy_kernels *k, fy_type weights);
/* True when that matmul wants quantized activations. */
bool fy_kernels_wants_q8(fy_type weights);
/* The kernels for listed rows of a type; NULL: it has none. */
fy_dot_rows_fn *fy_kernels_dot_rows(const fy_kernels *k, fy_type weights);
fy_add_rows_fn *fy_kernels_add_rows(const fy_kernels *k, fy_type weights);

/* The activation functions of feed-forward networks; names as in `hidden_activation`. */
typedef enum {
    FY_ACT_SILU,
    FY_ACT_GELU,      /* exact, by erf */
    FY_ACT_GELU_TANH, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    FY_ACT_RELU,
    FY_ACT_FATRELU,    /* x above a threshold, 0 below (ProSparse) */
    FY_ACT_DRELU,      /* relu of gate and of up (Bamboo) */
    FY_ACT_SWIGLU_OAI, /* clamped; up counts as 1 + up (gpt-oss) */
    FY_ACT_RELU2,      /* relu(x)^2, which stands alone (Nemotron-H) */
    FY_ACT_COUNT,
} fy_act_kind;

/* x[i] = f(x[i]) * up[i]; up NULL: f(x[i]). threshold: of fatrelu. */
void fy_kernels_activate(const fy_kernels *k, fy_act_kind act, float threshold, float *x,
                         const float *up, int64_t n);

/* exp(x) within 2 units in the last place of a normal result, 0 below -104, infinity above 88.8,
 * NaN for NaN: x = n ln 2 + r, ln 2 in two parts (Cody and Waite), the degree-6 polynomial of
 * Cephes' expf for |r| <= ln 2 / 2, and 2^n in two factors. Every kernel computes these very steps.
 */
float fy_exp(float x);

/* erf(x) within 2e-7, NaN for NaN. With z = |x|: below 1, z + z P(z^2), P of degree 6 a fit of
 * erf(z) / z - 1; from 1 on, 1 - fy_exp(-z Q(z)), Q of degree 6 a fit of -ln(1 - erf(z)) / z up to
 * z = 4, where 1 - erf is below a quarter of a unit in the last place and z stops growing. Both
 * fits are minimax (Lawson's iteration), P in the relative error, Q in the absolute error of erf.
 */
float fy_erf(float x);

/* One value, exactly as the row kernels do it. */
float fy_f16_to_f32(uint16_t h);
uint16_t fy_f32_to_f16(float f);
float fy_bf16_to_f32(uint16_t h);
uint16_t fy_f32_to_bf16(float f);

#endif
