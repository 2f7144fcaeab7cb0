/* The kernels of kernel_list.h over an emulation of their instructions (emulate_avx512.h):
 * functions of the same source, renamed by the Makefile. */
#include "kernels/kernel_impl.h"
#include "tests/kcheck/kcheck.h"

#define NOTHING(op, isa)
#define DECLARE(op, isa) extern __typeof__(*((fy_kernels *)0)->op) fy_##op##__##isa##_emulated;
#define ROW(op, isa)                                               \
    {#op, #isa " emulated", FY_CPU_AVX2, offsetof(fy_kernels, op), \
     (void (*)(void))fy_##op##__##isa##_emulated},

#define ONCE_scalar      NOTHING
#define ONCE_avx2        NOTHING
#define ONCE_avx512_vnni NOTHING /* of the two below */
#define ONCE_avxvnni     DECLARE
#define ONCE_avx512      DECLARE
#if defined(__x86_64__)
#define FY_KERNEL(op, isa, needs) ONCE_##isa(op, isa)
#include "kernels/kernel_list.h"
#undef FY_KERNEL
#endif

#undef ONCE_avxvnni
#undef ONCE_avx512
#define ONCE_avxvnni ROW
#define ONCE_avx512  ROW
const fy_kernel_row kc_emulated_rows[] = {
#if defined(__x86_64__)
#define FY_KERNEL(op, isa, needs) ONCE_##isa(op, isa)
#include "kernels/kernel_list.h"
#undef FY_KERNEL
#endif
    {0},
};
#if defined(__x86_64__)
_Static_assert(sizeof kc_emulated_rows > sizeof kc_emulated_rows[0], "the list is included twice");
#endif
const int kc_n_emulated_rows = sizeof kc_emulated_rows / sizeof kc_emulated_rows[0] - 1;
