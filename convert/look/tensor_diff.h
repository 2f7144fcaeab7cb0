/* How far the values of two tensors are apart. Sums are of doubles and are joined in the order of
 * the pieces, so that the numbers do not depend on threads. Two values are the same when they are
 * equal or both NaN; NaN or an infinity against anything else is an infinite difference. */
#ifndef FY_CONVERT_TENSOR_DIFF_H
#define FY_CONVERT_TENSOR_DIFF_H

#include <stdint.h>

#include "kernels/kernels.h"

typedef struct {
    uint64_t n, n_different;
    uint64_t n_wild;          /* of those, with an infinite difference; they are in no sum */
    double max_diff, largest; /* |a - b|; the largest finite |a| */
    double sum_diff2, sum_a2, sum_b2, sum_ab;
    uint64_t first; /* the first that differs, when n_different > 0 */
    float first_a, first_b;
} fy_tensor_diff;

/* Of n values that begin at element `at`; overwrites *d. */
void fy_tensor_diff_of(fy_tensor_diff *d, const fy_kernels *k, const float *a, const float *b,
                       uint64_t n, uint64_t at);
/* Adds the piece behind d. */
void fy_tensor_diff_join(fy_tensor_diff *d, const fy_tensor_diff *next);

double fy_tensor_diff_relative(const fy_tensor_diff *d); /* max_diff / largest; 0 when all equal */
double fy_tensor_diff_rmse(const fy_tensor_diff *d);
double fy_tensor_diff_cosine(const fy_tensor_diff *d); /* 1 when all are equal, zeros too */

#endif
