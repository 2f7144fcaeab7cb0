/* One row from any stored type to any other, through f32: what convert, quantize and the embedding
 * lookup share. */
#ifndef FY_KERNELS_ROW_H
#define FY_KERNELS_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/types.h"
#include "kernels/kernels.h"

/* The types that fy_row_encode writes: names at '|', as options have them. */
#define FY_ROW_TYPES "f32|f16|bf16|q8_0|q4_0|q4_1|q5_0|q5_1|q4_K|q5_K|q6_K"

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

/* Encodes n values into a row of type t. Returns 0, or -1 with *fault set when a value is not
 * finite or would become infinite in type t (f16 overflow of a value or of a block's scale or
 * minimum: then the fault is that block's largest magnitude or smallest value). */
int fy_row_encode(const fy_kernels *k, fy_type t, void *row, const float *x, int64_t n,
                  fy_row_fault *fault);

/* f32, f16 and bf16 alone: without that check. NaN and infinity stay what they are, what is too
 * large becomes infinite. */
void fy_row_encode_any(const fy_kernels *k, fy_type t, void *row, const float *x, int64_t n);

/* f32, f16 and bf16 alone: how many of the n values fy_row_encode would refuse. */
int64_t fy_row_count_faults(fy_type t, const float *x, int64_t n);

#endif
