/* What a row loses where it is stored in a type of fewer bits: the values before against those that
 * the stored bytes decode to. */
#ifndef FY_KERNELS_ROW_ERROR_H
#define FY_KERNELS_ROW_ERROR_H

#include "base/types.h"
#include "kernels/kernels.h"

/* Adds to *s what became of x[n] in `row`, stored in a type that fy_row_decode reads, at any
 * address; n a multiple of the type's block. Outside (s->n_outside) is a value that is saturated:
 * more than half a step beyond the lowest or highest level of its block, of all the levels that the
 * stored scale and minimum have, used or not. f32, f16 and bf16 have no such values. */
void fy_row_error(const fy_kernels *k, fy_type t, fy_error_sums *s, const float *x, const void *row,
                  int64_t n);

/* Adds what was measured elsewhere. */
void fy_error_sums_join(fy_error_sums *s, const fy_error_sums *next);

/* The limits of the n values of a row of blocks, for the kernel: a pair for each FY_LIMIT_ELEMS. */
void fy_row_limits(fy_type t, float *limits, const void *row, int64_t n);

/* How the levels of a block follow from its bytes: (low .. high) * scale + min. The K types have
 * such a scale and minimum for the scales and minimums of their sub-blocks. */
typedef struct {
    int low, high;
    int scale_at, min_at; /* offsets of f16 numbers; min_at 0: there is none */
} fy_block_form;

fy_block_form fy_block_form_of(fy_type t);

#endif
