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

/* The polynomials P and Q of fy_erf (kernels.h), highest power first. */
enum { FY_ERF_TERMS = 7 };

static const float fy_erf_p[FY_ERF_TERMS] = {7.88911953e-5f,  -8.02084128e-4f, 5.18953534e-3f,
                                             -2.68544446e-2f, 1.12836002e-1f,  -3.76126271e-1f,
                                             1.28379166e-1f};
static const float fy_erf_q[FY_ERF_TERMS] = {1.43893983e-5f,  -3.54751444e-4f, 3.77401129e-3f,
                                             -2.40444100e-2f, 1.06570189e-1f,  6.34945978e-1f,
                                             1.12870011e0f};

/* The kernels of attention for a type, from the file's dots() and add(), which read rows of `bytes`
 * by `load`. `dim` may stand in `bytes`. */
#define FY_DEFINE_ATTEND_DOTS(isa, type, bytes, load)                                \
    void fy_attend_dots_##type##__##isa(float *s, const float *q, int64_t n_queries, \
                                        const void *K, int64_t n_keys, int64_t dim)  \
    {                                                                                \
        dots(s, q, n_queries, K, n_keys, dim, bytes, load);                          \
    }
#define FY_DEFINE_ATTEND_ADD(isa, type, bytes, load)                                  \
    void fy_attend_add_##type##__##isa(float *acc, const float *p, int64_t n_queries, \
                                       const void *V, int64_t n_keys, int64_t dim)    \
    {                                                                                 \
        add(acc, p, n_queries, V, n_keys, dim, bytes, load);                          \
    }

#endif
