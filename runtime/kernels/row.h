/* One row from any stored type to any other, through f32: what convert, quantize and the embedding
 * lookup share. */
#ifndef FY_KERNELS_ROW_H
#define FY_KERNELS_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/types.h"
#include "kernels/kernels.h"

/* The types that fy_row_encode writes: names at '|', as options have them. */
#define FY_ROW_TYPES "f32|f16|bf16|q8_0|q4_0|q4_1|q5_0|q5_1|q4_K|q5_K|q6_K|q2_K|q3_K|iq4_nl|mxfp4"

/* Can fy_row_decode read / fy_row_encode write this type? */
bool fy_row_can_decode(fy_type t);
bool fy_row_can_encode(fy_type t);

/* y[n] = the values of a stored row, at any address. n a multiple of the type's block. */
void fy_row_decode(const fy_kernels *k, fy_type t, float *y, const void *row, int64_t n);

typedef struct {
    int64_t index; /* element of the row */
    float value;   /* as decoded */
    bool overflow; /* finite, but too large for the type or its scale; otherwise NaN or infinite */
} fy_row_fault;

/* How values become blocks, where the type leaves a choice. All zeros: as ggml's reference does
 * without an importance matrix. */
typedef struct {
    const float *importance; /* [n] >= 0, of the elements of x: as ggml with an importance matrix;
                                NULL: none. Types without a choice (q8_0, mxfp4) ignore it. */
    float mean_square; /* of the whole row that x belongs to: fy_row_squares over its length as
                          a float. Only looked at with importance. */
    bool fit; /* search the scale of least (with importance, weighted) squared error: q8_0, q4_0,
                 q4_1, q5_0, q5_1; others ignore it */
} fy_encode_options;

/* Encodes n values into a row of type t; how NULL is all zeros. Returns 0, or -1 with *fault set
 * when a value is not finite or would become infinite in type t (f16 overflow of a value or of a
 * block's scale or minimum: then the fault is that block's largest magnitude or smallest value). */
int fy_row_encode(const fy_kernels *k, fy_type t, void *row, const float *x, int64_t n,
                  const fy_encode_options *how, fy_row_fault *fault);

/* The sum of squares of a row that comes in slices: begin with 0, then give what the slice before
 * gave. One chain in f32, in order, as ggml adds. */
float fy_row_squares(float sum, const float *x, int64_t n);

/* f32, f16 and bf16 alone: without that check. NaN and infinity stay what they are, what is too
 * large becomes infinite. */
void fy_row_encode_any(const fy_kernels *k, fy_type t, void *row, const float *x, int64_t n);

/* f32, f16 and bf16 alone: how many of the n values fy_row_encode would refuse. */
int64_t fy_row_count_faults(fy_type t, const float *x, int64_t n);

/* --- what a row loses in a type of fewer bits ------------------------------------------------ */

/* Adds to *s the errors of x[n] as stored in `row`, stored in a type that fy_row_decode reads, at
 * any address; n a multiple of the type's block. Outside (s->n_outside) is a value that is
 * saturated: more than half a step beyond the lowest or highest level of its block, of all the
 * levels that the stored scale and minimum have, used or not. f32, f16 and bf16 have no such
 * values. */
void fy_row_error(const fy_kernels *k, fy_type t, fy_error_sums *s, const float *x, const void *row,
                  int64_t n);

/* Adds what was measured elsewhere. */
void fy_error_sums_join(fy_error_sums *s, const fy_error_sums *next);

/* The limits of the n values of a row of blocks, for the kernel: a pair for each FY_LIMIT_ELEMS. */
void fy_row_limits(fy_type t, float *limits, const void *row, int64_t n);

/* How the levels of a block follow from its bytes: (low .. high) * scale + min. The K types have
 * such a scale and minimum for the scales and minimums of their sub-blocks. */
typedef struct {
    int low, high;        /* 0, 0: of a type that fy_row_encode does not write */
    int scale_at, min_at; /* offsets of f16 numbers; min_at 0: there is none */
} fy_block_form;

enum { FY_NO_HALF = -1 }; /* the scale is no f16 number */

fy_block_form fy_block_form_of(fy_type t);

#endif
