/* Block weights on CPUs with both AVX-512 and AVX-VNNI: one column and two are bound by reading W,
 * which the narrower vectors do faster, as they gather fewer rows into a register (on a Xeon with
 * both q4_0 and q8_0 by 1.2). q6_K has as many instructions there as in AVX2. */
#include "kernels/kernel_impl.h"

/* From `fewest` columns to two are for the narrower vectors. */
#define DEFINE(type, fewest)                                                                     \
    void fy_matmul_##type##__avx512_vnni(float *y, int64_t ldy, const void *W, size_t row_bytes, \
                                         int64_t row_begin, int64_t row_end, const fy_act *a,    \
                                         int64_t n_cols, void *scratch)                          \
    {                                                                                            \
        fy_matmul_fn *const fn = n_cols >= (fewest) && n_cols <= 2 ? fy_matmul_##type##__avxvnni \
                                                                   : fy_matmul_##type##__avx512; \
        fn(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch);                        \
    }

DEFINE(q8_0, 1)
DEFINE(q4_0, 1)
DEFINE(q4_1, 1)
DEFINE(q5_0, 1)
DEFINE(q5_1, 1)
DEFINE(q4_k, 1)
DEFINE(q5_k, 1)
DEFINE(q6_k, 2)
