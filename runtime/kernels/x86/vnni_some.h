/* Some columns times block weights, by vpdpbusd: more than one, fewer than a tile in memory pays
 * for. Included after vnni_matmul.h.
 *
 * A block of a group of rows is brought into registers in the order of a tile, four consecutive
 * elements of a row in a lane, and there it meets every column: 8 multiply-adds and 3 instructions
 * of floats for each, 5 with a minimum, and no sums across lanes. The activations are operands in
 * memory. What the columns have of a block lies together in the scratch, front to back: k apart
 * they would push each other out of the first-level cache. The chains rest in memory, so that any
 * number of columns takes the same code. */
#ifndef FY_KERNELS_X86_VNNI_SOME_H
#define FY_KERNELS_X86_VNNI_SOME_H

#include "kernels/x86/vnni_matmul.h"

enum { FY_V_SOME_AT_ONCE = 4 }; /* columns whose multiply-adds alternate */

/* What a column has of a block of 32. */
typedef struct {
    int8_t q[FY_QK];
    float d, sum;
    int32_t begin; /* of its sums */
} fy_v_x;

FY_INLINE bool fy_v_some_fit(const fy_act *a, int64_t n_cols)
{
    return n_cols <= FY_V_SOME &&
           a->k / FY_QK * n_cols <= (int64_t)(FY_KERNEL_SCRATCH_BYTES / sizeof(fy_v_x));
}

FY_INLINE void fy_v_gather_columns(fy_v_x *x, const fy_act *a, int n, int above)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t b = 0; b < n_blocks; b++) {
        for (int c = 0; c < n; c++, x++) {
            const int32_t sum = a->sum[c * n_blocks + b];
            memcpy(x->q, a->q + c * a->k + b * FY_QK, FY_QK);
            x->d = a->d[c * n_blocks + b];
            x->sum = (float)sum;
            x->begin = -above * sum;
        }
    }
}

/* n columns, a constant, over the codes q of a block of 32; m: the minimums, or NULL. */
FY_INLINE void fy_v_some_at_once(fy_vf *acc, const fy_vi q[8], fy_vf d, const fy_vf *m,
                                 const fy_v_x *x, int n)
{
    fy_vi s[FY_V_SOME_AT_ONCE];
    FY_UNROLL
    for (int c = 0; c < n; c++)
        s[c] = fy_v_set32(x[c].begin);
    FY_UNROLL
    for (int j = 0; j < 8; j++) {
        FY_UNROLL
        for (int c = 0; c < n; c++)
            s[c] = fy_v_dot_same4(s[c], q[j], x[c].q + 4 * j);
    }
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        const fy_vf x_d = fy_v_setf(x[c].d);
        fy_vf chain = fy_v_fmaf(fy_v_mulf(d, x_d), fy_v_to_float(s[c]), acc[c]);
        if (m != NULL)
            chain = fy_v_fmaf(fy_v_mulf(*m, x_d), fy_v_setf(x[c].sum), chain);
        acc[c] = chain;
    }
}

FY_INLINE void fy_v_some_sub(fy_vf *acc, const fy_vi q[8], fy_vf d, const fy_vf *m, const fy_v_x *x,
                             int n)
{
    int c = 0;
    for (; c + FY_V_SOME_AT_ONCE <= n; c += FY_V_SOME_AT_ONCE)
        fy_v_some_at_once(acc + c, q, d, m, x + c, FY_V_SOME_AT_ONCE);
    if (n - c >= 2) {
        fy_v_some_at_once(acc + c, q, d, m, x + c, 2);
        c += 2;
    }
    if (c < n)
        fy_v_some_at_once(acc + c, q, d, m, x + c, 1);
}

/* Continues the chains of n columns over a stored block. */
FY_INLINE void fy_v_some_block(fy_vf *acc, fy_v_block w, const fy_v_x *x, int n, int subs,
                               bool has_min, fy_v_codes_fn *codes, fy_v_scales_fn *scales)
{
    fy_v_scales scale;
    scales(&scale, w);
    const int at_once = subs == 1 ? 1 : 2; /* sub-blocks that share their bytes */
    for (int pair = 0; pair < subs; pair += 2) {
        fy_vi q[2][8];
        codes(q, w, pair);
        FY_UNROLL
        for (int odd = 0; odd < at_once; odd++, x += n) {
            const int s = pair + odd;
            fy_v_some_sub(acc, q[odd], scale.d[s], has_min ? &scale.m[s] : NULL, x, n);
        }
    }
}

/* Of a matrix of at least FY_V_ROWS rows. */
FY_INLINE void fy_v_some_columns(float *y, int64_t ldy, fy_v_matrix w, int64_t row_begin,
                                 int64_t row_end, const fy_act *a, int64_t n_cols, void *scratch,
                                 size_t block_bytes, int subs, int above, bool has_min,
                                 fy_v_codes_fn *codes, fy_v_scales_fn *scales)
{
    const int n = (int)n_cols;
    const int64_t n_blocks = a->k / FY_QK / subs;
    fy_v_gather_columns(scratch, a, n, above);
    for (int64_t r = row_begin; r < row_end; r += FY_V_ROWS) {
        const int64_t row = fy_v_least(r, row_end - FY_V_ROWS);
        uintptr_t next = (uintptr_t)w.at + (size_t)row * w.row_bytes + fy_v_prefetch_ahead(w);
        const fy_v_x *x = scratch;
        fy_vf acc[FY_V_SOME];
        for (int c = 0; c < n; c++)
            acc[c] = fy_v_zerof();
        for (int64_t b = 0; b < n_blocks; b++, x += n * subs) {
            next = fy_v_prefetch(next, FY_V_ROWS * block_bytes);
            fy_v_some_block(acc, fy_v_block_at(w, row, b, block_bytes), x, n, subs, has_min, codes,
                            scales);
        }
        for (int c = 0; c < n; c++)
            fy_v_storef(y + c * ldy + row, acc[c]);
    }
}

#endif
