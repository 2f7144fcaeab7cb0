/* Matmuls of the types whose block of 32 has one scale, by vnni_matmul.h. What depends on the type
 * is how a block is read; the tile's arithmetic has two forms, with and without a minimum. */
#ifndef FY_KERNELS_X86_VNNI_BLOCKS_H
#define FY_KERNELS_X86_VNNI_BLOCKS_H

#include "kernels/x86/vnni_matmul.h"

/* --- one column ------------------------------------------------------------------------------- */

/* Below, parameters that every caller gives as constants. */

/* The sums of sub-block s of all rows. */
FY_INLINE fy_vi fy_v_vec_sums(fy_v_block w, const int8_t *q, int32_t sum, int s, int above,
                              fy_v_quants_fn *quants)
{
    const fy_vi low = fy_v_same_part(fy_load128(q)), high = fy_v_same_part(fy_load128(q + 16));
    const fy_vi begin = fy_v_set32(-above / 4 * sum); /* of each of the four parts of a sum */
    fy_vi parts[4];
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        parts[i] = fy_v_dot(fy_v_dot(begin, quants(w, i, s, 0), low), quants(w, i, s, 1), high);
    return fy_v_row_sums(parts);
}

FY_INLINE fy_vf fy_v_vec_block(fy_vf acc, fy_v_block w, const int8_t *q, const float *d,
                               const int32_t *sum, int subs, int above, bool has_min,
                               fy_v_quants_fn *quants, fy_v_scales_fn *scales)
{
    fy_v_scales scale;
    scales(&scale, w);
    const int at_once = subs == 1 ? 1 : 2; /* sub-blocks that share their bytes */
    for (int pair = 0; pair < subs; pair += 2) {
        FY_UNROLL
        for (int odd = 0; odd < at_once; odd++) {
            const int s = pair + odd;
            const fy_vi sums = fy_v_vec_sums(w, q + s * FY_QK, sum[s], s, above, quants);
            const fy_vf x_d = fy_v_setf(d[s]);
            acc = fy_v_fmaf(fy_v_mulf(scale.d[s], x_d), fy_v_to_float(sums), acc);
            if (has_min)
                acc = fy_v_fmaf(fy_v_mulf(scale.m[s], x_d), fy_v_setf((float)sum[s]), acc);
        }
    }
    return acc;
}

/* --- many columns ----------------------------------------------------------------------------- */

typedef struct {
    fy_vi quants[FY_V_GROUPS][8]; /* [j]: elements 4j .. 4j+3 of a group of rows */
    fy_vf scales[FY_V_GROUPS], mins[FY_V_GROUPS];
} fy_v_tile;

_Static_assert(FY_V_RUN * sizeof(fy_v_tile) <= FY_KERNEL_SCRATCH_BYTES, "a tile fits the scratch");

/* Sub-block s. */
FY_INLINE void fy_v_repack_sub(fy_v_tile *t, int g, fy_v_block w, int s, fy_v_quants_fn *quants)
{
    FY_UNROLL
    for (int half = 0; half < 2; half++) {
        fy_vi v[4];
        FY_UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = quants(w, i, s, half);
        fy_v_transpose(v);
        FY_UNROLL
        for (int j = 0; j < 4; j++)
            t->quants[g][4 * half + j] = v[j];
    }
}

/* Writes the blocks of 32 of a stored block as group g, from *t on. */
FY_INLINE void fy_v_repack(fy_v_tile *t, int g, fy_v_block w, int subs, bool has_min,
                           fy_v_quants_fn *quants, fy_v_scales_fn *scales)
{
    fy_v_scales scale;
    scales(&scale, w);
    const int at_once = subs == 1 ? 1 : 2; /* sub-blocks that share their bytes */
    for (int pair = 0; pair < subs; pair += 2) {
        FY_UNROLL
        for (int odd = 0; odd < at_once; odd++, t++) {
            fy_v_repack_sub(t, g, w, pair + odd, quants);
            t->scales[g] = scale.d[pair + odd];
            if (has_min)
                t->mins[g] = scale.m[pair + odd];
        }
    }
}

/* Continues the chains of n columns over block b of a tile. */
FY_INLINE void fy_v_tile_block(fy_vf acc[FY_V_COLS][FY_V_GROUPS], const void *tile,
                               const fy_v_columns *x, int64_t b, int n, bool has_min)
{
    const fy_v_tile *t = (const fy_v_tile *)tile + b;
    fy_vi s[FY_V_COLS][FY_V_GROUPS];
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        FY_UNROLL
        for (int g = 0; g < FY_V_GROUPS; g++)
            s[c][g] = has_min ? fy_v_zero() : fy_v_set32(x->begin[c][b]);
    }
    fy_v_tile_dots(s, t->quants, x->q + b * FY_QK, x->k, n, 0, false);
    fy_v_tile_dots(s, t->quants, x->q + b * FY_QK, x->k, n, 4, false);
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        const fy_vf d = fy_v_setf(x->d[c][b]);
        FY_UNROLL
        for (int g = 0; g < FY_V_GROUPS; g++) {
            const fy_vf sum = fy_v_to_float(s[c][g]);
            acc[c][g] = fy_v_fmaf(fy_v_mulf(t->scales[g], d), sum, acc[c][g]);
            if (has_min)
                acc[c][g] = fy_v_fmaf(fy_v_mulf(t->mins[g], d), fy_v_setf(x->sum[c][b]), acc[c][g]);
        }
    }
}

FY_INLINE void fy_v_tile_run(const fy_v_run *r, int n, bool has_min)
{
    fy_v_columns x;
    fy_v_prepare(&x, r->a, r->col, r->first, r->run, n, r->above);
    fy_vf acc[FY_V_COLS][FY_V_GROUPS];
    fy_v_load_chains(acc, r, n);
    for (int64_t b = 0; b < r->run; b++)
        fy_v_tile_block(acc, r->tile, &x, b, n, has_min);
    fy_v_store_chains(r, acc, n);
}

/* n columns: 0 stands for FY_V_COLS. */
#define FY_V_DEFINE_RUN(n)                               \
    static void run_##n(const fy_v_run *r)               \
    {                                                    \
        fy_v_tile_run(r, n == 0 ? FY_V_COLS : n, false); \
    }                                                    \
    static void run_min_##n(const fy_v_run *r)           \
    {                                                    \
        fy_v_tile_run(r, n == 0 ? FY_V_COLS : n, true);  \
    }

FY_V_DEFINE_RUN(0)
FY_V_DEFINE_RUN(4)
FY_V_DEFINE_RUN(2)
FY_V_DEFINE_RUN(1)

static fy_v_run_fn *const runs[4] = {run_0, run_4, run_2, run_1};
static fy_v_run_fn *const runs_min[4] = {run_min_0, run_min_4, run_min_2, run_min_1};

/* The types whose block of 32 has one scale. */
#define FY_V_DEFINE_BLOCKS(type, above, has_min, scales)                                          \
    enum { SUBS_##type = sizeof(fy_block_##type) < 100 ? 1 : FY_V_SUBS };                         \
    FY_INLINE fy_vf vec_##type(fy_vf acc, fy_v_block w, const int8_t *q, const float *d,          \
                               const int32_t *sum)                                                \
    {                                                                                             \
        return fy_v_vec_block(acc, w, q, d, sum, SUBS_##type, above, has_min, fy_v_quants_##type, \
                              scales);                                                            \
    }                                                                                             \
    static void repack_##type(void *tile, int64_t b, int g, fy_v_block w)                         \
    {                                                                                             \
        fy_v_repack((fy_v_tile *)tile + b, g, w, SUBS_##type, has_min, fy_v_quants_##type,        \
                    scales);                                                                      \
    }                                                                                             \
    FY_V_DEFINE_MATMUL(type, SUBS_##type, above, (has_min) ? runs_min : runs)

FY_V_DEFINE_BLOCKS(q8_0, 128, false, fy_v_scales_d)
FY_V_DEFINE_BLOCKS(q4_0, 8, false, fy_v_scales_d)
FY_V_DEFINE_BLOCKS(q4_1, 0, true, fy_v_scales_dm)
FY_V_DEFINE_BLOCKS(q5_0, 16, false, fy_v_scales_d)
FY_V_DEFINE_BLOCKS(q5_1, 0, true, fy_v_scales_dm)
FY_V_DEFINE_BLOCKS(q4_k, 0, true, fy_v_scales_k)
FY_V_DEFINE_BLOCKS(q5_k, 0, true, fy_v_scales_k)

#endif
