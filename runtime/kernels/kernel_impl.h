/* Prototypes of every kernel in kernel_list.h, for the files that define them, dispatch and kcheck.
 * A prototype is the type of the table's member, so a kernel that drifts from the contract does not
 * compile. */
#ifndef FY_KERNELS_KERNEL_IMPL_H
#define FY_KERNELS_KERNEL_IMPL_H

#include "base/cpu.h"
#include "kernels/kernels.h"

#define FY_KERNEL(op, isa, needs) extern __typeof__(*((fy_kernels *)0)->op) fy_##op##__##isa;
#include "kernels/kernel_list.h"
#undef FY_KERNEL

#endif
