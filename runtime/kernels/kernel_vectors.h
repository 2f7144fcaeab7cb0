/* Fixed vectors that hold every kernel of kernel_list.h to the scalar specification on the machine
 * it runs on: `ferry selftest`. tests/kcheck checks more, on random data, between guard pages. */
#ifndef FY_KERNELS_KERNEL_VECTORS_H
#define FY_KERNELS_KERNEL_VECTORS_H

#include "base/err.h"
#include "kernels/kernels.h"

/* Runs the vectors of an operation (a member of fy_kernels, as kernel_list.h names it) with k's
 * kernel and sets *n_vectors. FY_EVERIFY when a result is not the recorded one: the message names
 * the first vector that differs from the scalar kernel's. FY_ENOMEM, FY_EINTR. */
int fy_kernel_vectors(const char *op, const fy_kernels *k, int *n_vectors, fy_err *e);

#endif
