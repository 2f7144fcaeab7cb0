/* Matmuls of the types whose block of 32 has one scale, by vnni_matmul.h. What depends on the type
 * is how a block is read; the tile's arithmetic has two forms, with and without a minimum. */
#ifndef FY_KERNELS_X86_VNNI_BLOCKS_H
#define FY_KERNELS_X86_VNNI_BLOCKS_H

#include "kernels/x86/vnni_matmul.h"
#if FY_V_SOME
#include "kernels/x86/vnni_some.h"
#endif

/* --- a few columns --------------------------------------------------------------------------- */

/* Below, parameters that every caller gives as constants. */

/* The sums of sub-block s of all rows, for n columns; block of 32 `at` of the activations. */
FY_INLINE void fy_v_vec_sums(fy_vi sums[FY_V_FEW], fy_v_block w, const fy_act *a, int64_t at, int n,
                             int s, int above, fy_v_quants_fn *quants)
{
    const int64_t n_blocks = a->k / FY_QK;
    fy_vi low[FY_V_FEW], high[FY_V_FEW], parts[FY_V_FEW][4];
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        const int8_t *q = a->q + c * a->k + at * FY_QK;
        low[c] = fy_v_same_part(fy_load128(q));
        high[c] = fy_v_same_part(fy_load128(q + 16));
    }
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        const fy_vi w_low = quants(w, i, s, 0), w_high = quants(w, i, s, 1);
        FY_UNROLL
        for (int c = 0; c < n; c++) { /* what a sum begins with, in each of its four parts */
            const fy_vi begin = fy_v_set32(-above / 4 * a->sum[c * n_blocks + at]);
            parts[c][i] = fy_v_dot(fy_v_dot(begin, w_low, low[c]), w_high, high[c]);
        }
    }
    FY_UNROLL
    for (int c = 0; c < n; c++)
        sums[c] = fy_v_row_sums(parts[c]);
}

FY_INLINE void fy_v_vec_block(fy_vf acc[FY_V_FEW], fy_v_block w, const fy_act *a, int64_t first,
                              int n, int subs, int above, bool has_min, fy_v_quants_fn *quants,
                              fy_v_scales_fn *scales)
{
    const int64_t n_blocks = a->k / FY_QK;
    fy_v_scales scale;
    scales(&scale, w);
    const int at_once = subs == 1 ? 1 : 2; /* sub-blocks that share their bytes */
    for (int pair = 0; pair < subs; pair += 2) {
        FY_UNROLL
        for (int odd = 0; odd < at_once; odd++) {
            const int s = pair + odd;
            fy_vi sums[FY_V_FEW];
            fy_v_vec_sums(sums, w, a, first + s, n, s, above, quants);
            FY_UNROLL
            for (int c = 0; c < n; c++) {
                const int64_t at = c * n_blocks + first + s;
                const fy_vf x_d = fy_v_setf(a->d[at]);
                acc[c] = fy_v_fmaf(fy_v_mulf(scale.d[s], x_d), fy_v_to_float(sums[c]), acc[c]);
                if (has_min)
                    acc[c] =
                        fy_v_fmaf(fy_v_mulf(scale.m[s], x_d), fy_v_setf((float)a->sum[at]), acc[c]);
            }
        }
    }
}

/* --- many columns ---------------------------------------------------------------------------- */

typedef struct {
    fy_vi quants[FY_V_GROUPS][8]; /* [j]: elements 4j .. 4j+3 of a group of rows */
    fy_vf scales[FY_V_GROUPS], mins[FY_V_GROUPS];
} fy_v_tile;

_Static_assert(FY_V_RUN * sizeof(fy_v_tile) <= FY_V_TILE_BYTES, "a tile fits the scratch");

/* Writes the blocks of 32 of a stored block as group g, from *t on. */
FY_INLINE void fy_v_repack(fy_v_tile *t, int g, fy_v_block w, int subs, bool has_min,
                           fy_v_codes_fn *codes, fy_v_scales_fn *scales)
{
    fy_v_scales scale;
    scales(&scale, w);
    const int at_once = subs == 1 ? 1 : 2; /* sub-blocks that share their bytes */
    for (int pair = 0; pair < subs; pair += 2) {
        fy_vi q[2][8]; /* the compiler would read the rows again after a store to the tile */
        codes(q, w, pair);
        FY_UNROLL
        for (int odd = 0; odd < at_once; odd++, t++) {
            FY_UNROLL
            for (int j = 0; j < 8; j++)
                t->quants[g][j] = q[odd][j];
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
#define FY_V_DEFINE_REPACK(type, has_min, scales)                                                  \
    enum { SUBS_##type = sizeof(fy_block_##type) < 100 ? 1 : FY_V_SUBS };                          \
    static void repack_##type(void *tile, int64_t b, int g, fy_v_block w)                          \
    {                                                                                              \
        fy_v_repack((fy_v_tile *)tile + b, g, w, SUBS_##type, has_min, fy_v_codes_##type, scales); \
    }

#if FY_V_SOME
#define FY_V_DEFINE_BLOCKS(type, above, has_min, scales)                                   \
    FY_V_DEFINE_REPACK(type, has_min, scales)                                              \
    void FY_V_NAME(type, FY_V_ISA)(float *y, int64_t ldy, const void *W, size_t row_bytes, \
                                   int64_t row_begin, int64_t row_end, const fy_act *a,    \
                                   int64_t n_cols, void *scratch)                          \
    {                                                                                      \
        const fy_v_matrix w = {W, row_bytes};                                              \
        if (row_end - row_begin < FY_V_ROWS || n_cols == 1)                                \
            fy_matmul_##type##__avx2(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols,  \
                                     scratch);                                             \
        else if (fy_v_some_fit(a, n_cols))                                                 \
            fy_v_some_columns(y, ldy, w, row_begin, row_end, a, n_cols, scratch,           \
                              sizeof(fy_block_##type), SUBS_##type, above, has_min,        \
                              fy_v_codes_##type, scales);                                  \
        else                                                                               \
            fy_v_matmul_tiles(y, ldy, w, row_begin, row_end, a, n_cols, scratch,           \
                              sizeof(fy_block_##type), SUBS_##type, above, repack_##type,  \
                              (has_min) ? runs_min : runs);                                \
    }
#else
#define FY_V_DEFINE_BLOCKS(type, above, has_min, scales)                                         \
    FY_V_DEFINE_REPACK(type, has_min, scales)                                                    \
    FY_INLINE void vec_##type(fy_vf acc[FY_V_FEW], fy_v_block w, const fy_act *a, int64_t first, \
                              int n)                                                             \
    {                                                                                            \
        fy_v_vec_block(acc, w, a, first, n, SUBS_##type, above, has_min, fy_v_quants_##type,     \
                       scales);                                                                  \
    }                                                                                            \
    FY_V_DEFINE_MATMUL(type, FY_V_FEW, SUBS_##type, above, (has_min) ? runs_min : runs)
#endif

FY_V_DEFINE_BLOCKS(q8_0, 128, false, fy_v_scales_d)
FY_V_DEFINE_BLOCKS(q4_0, 8, false, fy_v_scales_d)
FY_V_DEFINE_BLOCKS(q4_1, 0, true, fy_v_scales_dm)
FY_V_DEFINE_BLOCKS(q5_0, 16, false, fy_v_scales_d)
FY_V_DEFINE_BLOCKS(q5_1, 0, true, fy_v_scales_dm)
FY_V_DEFINE_BLOCKS(q4_k, 0, true, fy_v_scales_k)
FY_V_DEFINE_BLOCKS(q5_k, 0, true, fy_v_scales_k)

/* --- q6_K ------------------------------------------------------------------------------------ */

/* q6_K weights times quantized activations, by vnni_matmul.h: a scale for each 16 elements.
 *
 * A few columns: as the other types, with a tree for either half of a block.
 *
 * Many columns: codes are taken signed and the activations unsigned, 128 too large. What a sum
 * begins with, -128 times the sum of the codes, is then the same for all columns, and the sums of
 * 16 activations, which are not computed anywhere, are not needed. The sum of a block stays below
 * 2^24 (kernels.h), so that floats scale and add the halves exactly; the sign of a zero is lost in
 * the chain, which begins with +0. */

enum {
    Q6_K_BELOW = 32, /* the codes' offset */
    Q6_K_COLS = 4,
    Q6_K_FOUR = 4, /* sub-blocks in half a stored block */
};

/* What is scaled: d, and the scales of 16 elements as four signed bytes in a lane. */
FY_INLINE fy_vf q6_k_scales(fy_vi scales[4], fy_v_block w)
{
    fy_v_ordered_bytes(scales, w, offsetof(fy_block_q6_k, scales));
    fy_vi last[4]; /* the last 16 bytes end in d */
    fy_v_ordered_bytes(last, w, sizeof(fy_block_q6_k) - 16);
    return fy_v_widen_f16(fy_v_shr32(last[3], 16));
}

/* The scale of half of sub-block s of the four whose scales begin with `scales`. */
FY_INLINE fy_vi q6_k_scale(const fy_vi scales[2], int s, int half)
{
    const unsigned at = 8 * (unsigned)(s % 2 * 2 + half);
    return fy_v_sar32(fy_v_shl32(scales[s / 2], 24 - at), 24);
}

/* --- a few columns --------------------------------------------------------------------------- */

/* Half of block of 32 `at` of n columns. */
FY_INLINE void q6_k_half_sums(fy_vi sums[FY_V_FEW], fy_v_block w, const fy_act *a, int64_t at,
                              int n, int s, int half)
{
    fy_vi x[FY_V_FEW], begin[FY_V_FEW], parts[FY_V_FEW][4];
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        x[c] = fy_v_same_part(fy_load128(a->q + c * a->k + at * FY_QK + 16 * half));
        begin[c] = fy_v_sub32(fy_v_zero(), fy_v_dot(fy_v_zero(), fy_v_set8(Q6_K_BELOW), x[c]));
    }
    FY_UNROLL
    for (int i = 0; i < 4; i++) {
        const fy_vi v = fy_v_quants_q6_k(w, i, s, half);
        FY_UNROLL
        for (int c = 0; c < n; c++)
            parts[c][i] = fy_v_dot(begin[c], v, x[c]);
    }
    FY_UNROLL
    for (int c = 0; c < n; c++)
        sums[c] = fy_v_row_sums(parts[c]);
}

FY_INLINE void vec_q6_k(fy_vf acc[FY_V_FEW], fy_v_block w, const fy_act *a, int64_t first, int n)
{
    const int64_t n_blocks = a->k / FY_QK;
    fy_vi scales[4];
    const fy_vf scale = q6_k_scales(scales, w);
    for (int four = 0; four < FY_V_SUBS; four += Q6_K_FOUR) {
        FY_UNROLL
        for (int i = 0; i < Q6_K_FOUR; i++) {
            const int s = four + i;
            const fy_vi *sc = scales + four / 2;
            fy_vi low[FY_V_FEW], high[FY_V_FEW];
            q6_k_half_sums(low, w, a, first + s, n, s, 0);
            q6_k_half_sums(high, w, a, first + s, n, s, 1);
            FY_UNROLL
            for (int c = 0; c < n; c++) {
                const fy_vi sums = fy_v_add32(fy_v_mul32(low[c], q6_k_scale(sc, i, 0)),
                                              fy_v_mul32(high[c], q6_k_scale(sc, i, 1)));
                const fy_vf x_d = fy_v_setf(a->d[c * n_blocks + first + s]);
                acc[c] = fy_v_fmaf(fy_v_mulf(scale, x_d), fy_v_to_float(sums), acc[c]);
            }
        }
    }
}

/* --- many columns ---------------------------------------------------------------------------- */

typedef struct {
    fy_vi quants[FY_V_GROUPS][8]; /* signed; [j]: elements 4j .. 4j+3 of a group of rows */
    fy_vi begin[2][FY_V_GROUPS];  /* of the sums of the halves */
    fy_vf scales[2][FY_V_GROUPS], d[FY_V_GROUPS];
} q6_k_tile;

_Static_assert(FY_V_RUN * sizeof(q6_k_tile) <= FY_V_TILE_BYTES, "a tile fits the scratch");

/* Half of sub-block s. */
FY_INLINE void q6_k_repack_half(q6_k_tile *t, int g, fy_v_block w, int s, int half)
{
    fy_vi v[4], total = fy_v_zero();
    FY_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = fy_v_sub8(fy_v_quants_q6_k(w, i, s, half), fy_v_set8(Q6_K_BELOW));
    fy_v_transpose(v);
    FY_UNROLL
    for (int j = 0; j < 4; j++) {
        t->quants[g][4 * half + j] = v[j];
        total = fy_v_dot(total, fy_v_set8(1), v[j]);
    }
    t->begin[half][g] = fy_v_sub32(fy_v_zero(), fy_v_shl32(total, 7));
}

static void repack_q6_k(void *tile, int64_t b, int g, fy_v_block w)
{
    q6_k_tile *t = (q6_k_tile *)tile + b;
    fy_vi scales[4];
    const fy_vf d = q6_k_scales(scales, w);
    for (int four = 0; four < FY_V_SUBS; four += Q6_K_FOUR) {
        FY_UNROLL
        for (int n = 0; n < Q6_K_FOUR; n++, t++) {
            FY_UNROLL
            for (int half = 0; half < 2; half++) {
                q6_k_repack_half(t, g, w, four + n, half);
                t->scales[half][g] = fy_v_to_float(q6_k_scale(scales + four / 2, n, half));
            }
            t->d[g] = d;
        }
    }
}

/* The activations of a run as unsigned bytes. */
typedef struct {
    int8_t q[Q6_K_COLS][FY_V_RUN * FY_QK];
} q6_k_columns;

FY_INLINE void q6_k_prepare(q6_k_columns *x, const fy_v_run *r, int n)
{
    const fy_vi top = fy_v_set8(-128);
    for (int c = 0; c < n; c++) {
        const int8_t *q = r->a->q + (r->col + c) * r->a->k + r->first * FY_QK;
        for (int64_t i = 0; i < r->run * FY_QK; i += (int64_t)sizeof(fy_vi))
            fy_v_store(x->q[c] + i, fy_v_xor(fy_v_load(q + i), top));
    }
}

/* Continues the chains of n columns over block b of a run; d[c * ldd] is the scale of column c. */
FY_INLINE void q6_k_tile_block(fy_vf acc[FY_V_COLS][FY_V_GROUPS], const q6_k_tile *t,
                               const q6_k_columns *x, const float *d, int64_t ldd, int64_t b, int n)
{
    fy_vf part[2][FY_V_COLS][FY_V_GROUPS];
    FY_UNROLL
    for (int half = 0; half < 2; half++) {
        fy_vi s[FY_V_COLS][FY_V_GROUPS];
        FY_UNROLL
        for (int c = 0; c < n; c++) {
            FY_UNROLL
            for (int g = 0; g < FY_V_GROUPS; g++)
                s[c][g] = t->begin[half][g];
        }
        fy_v_tile_dots(s, t->quants, x->q[0] + b * FY_QK, sizeof x->q[0], n, 4 * half, true);
        FY_UNROLL
        for (int c = 0; c < n; c++) {
            FY_UNROLL
            for (int g = 0; g < FY_V_GROUPS; g++) {
                const fy_vf sum = fy_v_to_float(s[c][g]), scale = t->scales[half][g];
                part[half][c][g] =
                    half == 0 ? fy_v_mulf(sum, scale) : fy_v_fmaf(sum, scale, part[0][c][g]);
            }
        }
    }
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        const fy_vf x_d = fy_v_setf(d[c * ldd]);
        FY_UNROLL
        for (int g = 0; g < FY_V_GROUPS; g++)
            acc[c][g] = fy_v_fmaf(fy_v_mulf(t->d[g], x_d), part[1][c][g], acc[c][g]);
    }
}

FY_INLINE void q6_k_tile_run(const fy_v_run *r, int n)
{
    q6_k_columns x;
    q6_k_prepare(&x, r, n);
    const int64_t ldd = r->a->k / FY_QK;
    const float *d = r->a->d + r->col * ldd + r->first;
    const q6_k_tile *t = r->tile;
    fy_vf acc[FY_V_COLS][FY_V_GROUPS];
    fy_v_load_chains(acc, r, n);
    for (int64_t b = 0; b < r->run; b++)
        q6_k_tile_block(acc, t + b, &x, d + b, ldd, b, n);
    fy_v_store_chains(r, acc, n);
}

#define Q6_K_DEFINE_RUN(n)                      \
    static void run_q6_k_##n(const fy_v_run *r) \
    {                                           \
        q6_k_tile_run(r, n);                    \
    }

Q6_K_DEFINE_RUN(4)
Q6_K_DEFINE_RUN(2)
Q6_K_DEFINE_RUN(1)

static fy_v_run_fn *const runs_q6_k[4] = {NULL, run_q6_k_4, run_q6_k_2, run_q6_k_1};

FY_V_DEFINE_MATMUL(q6_k, FY_V_FEW, FY_V_SUBS, 0, runs_q6_k)

#endif
