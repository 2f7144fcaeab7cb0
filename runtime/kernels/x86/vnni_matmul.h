/* Block weights times quantized activations by vpdpbusd: four products of an unsigned and a signed
 * byte are added to a lane of 32 bits. Included after a layer of vectors, as vnni_quants.h.
 *
 * Codes are taken unsigned: what they are too large by (`above`) times the sum of the activations
 * is where the sum begins. A lane is a row of W, so that each row keeps its own chain of fused
 * multiply-adds over the blocks, for one column or many.
 *
 * A few columns (FY_V_FEW) are bound by reading W and work on the file's layout: a part of a
 * register is 16 codes of a row, taken apart once for all columns, and a tree of unpacks brings the
 * sums of four parts into the lanes. One column is the AVX2 kernel's where that is faster
 * (FY_V_ONE_COLUMN of the layer). Where registers suffice (FY_V_SOME), vnni_some.h is better from
 * two columns on.
 *
 * Many columns are bound by multiply-adds. A tile, two groups of rows of a run of blocks, is
 * repacked once so that a register holds 4 consecutive elements of a group; columns share its loads
 * and the groups every activation's. Per group, column and block there are 8 multiply-adds and 3
 * instructions of floats, 5 with a minimum. A run keeps the tile in the first-level cache. Between
 * runs the chains rest in the scratch: y has its columns so far apart, often a power of two, that
 * they push each other out of the caches.
 *
 * Fewer rows than a group are the AVX2 kernel's. The last group of more reaches back over rows that
 * are done already: it finds the same bits again. */
#ifndef FY_KERNELS_X86_VNNI_MATMUL_H
#define FY_KERNELS_X86_VNNI_MATMUL_H

#include "kernels/kernel_impl.h"
#include "kernels/x86/vnni_quants.h"

enum {
    FY_V_GROUPS = 2,
    FY_V_RUN = 16, /* blocks of 32 */
    FY_V_PREFETCH_BYTES = 24 << 10,
    FY_V_TILE_BYTES = 64 << 10, /* of the scratch; what is left is for chains */
    FY_V_REST_COLS = (int)((FY_KERNEL_SCRATCH_BYTES - FY_V_TILE_BYTES) /
                           (FY_V_GROUPS * FY_V_ROWS * sizeof(float))),
};

/* A weight matrix of one type, from some row on. */
typedef struct {
    const uint8_t *at;
    size_t row_bytes;
} fy_v_matrix;

/* Hides where a number comes from (vnni_quants.h). */
#define FY_V_HIDE(n) __asm__("" : "+r"(n))

/* Block b, of `bytes`, of a group of rows. */
FY_INLINE fy_v_block fy_v_block_at(fy_v_matrix w, int64_t row, int64_t b, size_t bytes)
{
    size_t step = w.row_bytes;
    FY_V_HIDE(step);
    return (fy_v_block){w.at + (size_t)row * w.row_bytes + (size_t)b * bytes, step};
}

FY_INLINE int64_t fy_v_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Weights are prefetched front to back, one stream for the memory (tile_avx2.h), at least a group
 * of rows ahead. */
FY_INLINE size_t fy_v_prefetch_ahead(fy_v_matrix w)
{
    const size_t group_bytes = FY_V_ROWS * w.row_bytes;
    return group_bytes > FY_V_PREFETCH_BYTES ? group_bytes : FY_V_PREFETCH_BYTES;
}

/* What comes after `bytes` from `next` on. */
FY_INLINE uintptr_t fy_v_prefetch(uintptr_t next, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        _mm_prefetch((const char *)(next + line), FY_V_HINT);
    return next + bytes;
}

/* --- a few columns --------------------------------------------------------------------------- */

/* s[i]: four parts of the sums of rows i, i + 4, ..  ->  the sums of all rows, in order. */
FY_INLINE fy_vi fy_v_row_sums(const fy_vi s[4])
{
    const fy_vi s01 = fy_v_add32(fy_v_low32(s[0], s[1]), fy_v_high32(s[0], s[1]));
    const fy_vi s23 = fy_v_add32(fy_v_low32(s[2], s[3]), fy_v_high32(s[2], s[3]));
    return fy_v_add32(fy_v_low64(s01, s23), fy_v_high64(s01, s23));
}

/* The chains of n columns of a group continued over a stored block, whose first block of 32 is
 * `first`. */
typedef void fy_v_vec_fn(fy_vf acc[FY_V_FEW], fy_v_block w, const fy_act *a, int64_t first, int n);

FY_INLINE void fy_v_matvec(float *y, int64_t ldy, fy_v_matrix w, int64_t row_begin, int64_t row_end,
                           const fy_act *a, int n, size_t block_bytes, int subs, fy_v_vec_fn *block)
{
    const int64_t n_blocks = a->k / FY_QK / subs;
    for (int64_t r = row_begin; r < row_end; r += FY_V_ROWS) {
        const int64_t row = fy_v_least(r, row_end - FY_V_ROWS);
        uintptr_t next = (uintptr_t)w.at + (size_t)row * w.row_bytes + fy_v_prefetch_ahead(w);
        fy_vf acc[FY_V_FEW];
        FY_UNROLL
        for (int c = 0; c < n; c++)
            acc[c] = fy_v_zerof();
        for (int64_t b = 0; b < n_blocks; b++) {
            next = fy_v_prefetch(next, FY_V_ROWS * block_bytes);
            block(acc, fy_v_block_at(w, row, b, block_bytes), a, b * subs, n);
        }
        FY_UNROLL
        for (int c = 0; c < n; c++)
            fy_v_storef(y + c * ldy + row, acc[c]);
    }
}

/* --- many columns ---------------------------------------------------------------------------- */

/* Columns over a run, with what the lanes of a block share ready to be broadcast. */
typedef struct {
    const int8_t *q;
    int64_t k; /* from one column to the next in q */
    float d[FY_V_COLS][FY_V_RUN];
    float sum[FY_V_COLS][FY_V_RUN];
    int32_t begin[FY_V_COLS][FY_V_RUN]; /* of a block's sums */
} fy_v_columns;

FY_INLINE void fy_v_prepare_column(fy_v_columns *x, int c, const float *d, const int32_t *sum,
                                   int above)
{
    FY_UNROLL
    for (int b = 0; b < FY_V_RUN; b += FY_V_ROWS) {
        const fy_vi sums = fy_v_load(sum + b);
        fy_v_storef(x->d[c] + b, fy_v_loadf(d + b));
        fy_v_storef(x->sum[c] + b, fy_v_to_float(sums));
        fy_v_store(x->begin[c] + b, fy_v_mul32(sums, fy_v_set32(-above)));
    }
}

FY_INLINE void fy_v_prepare_rest(fy_v_columns *x, int c, const float *d, const int32_t *sum,
                                 int64_t run, int above)
{
    for (int64_t b = 0; b < run; b++) {
        x->d[c][b] = d[b];
        x->sum[c][b] = (float)sum[b];
        x->begin[c][b] = -above * sum[b];
    }
}

/* n columns, a constant, from block `first` of column `col` on. */
FY_INLINE void fy_v_prepare(fy_v_columns *x, const fy_act *a, int64_t col, int64_t first,
                            int64_t run, int n, int above)
{
    const int64_t n_blocks = a->k / FY_QK;
    x->q = a->q + col * a->k + first * FY_QK;
    x->k = a->k;
    for (int c = 0; c < n; c++) {
        const float *d = a->d + (col + c) * n_blocks + first;
        const int32_t *sum = a->sum + (col + c) * n_blocks + first;
        if (run == FY_V_RUN)
            fy_v_prepare_column(x, c, d, sum, above);
        else
            fy_v_prepare_rest(x, c, d, sum, run, above);
    }
}

/* Four bytes in every lane. */
FY_INLINE fy_vi fy_v_same4(const int8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return fy_v_set32(v);
}

/* Adds elements 4 first .. 4 first + 15 of a block, from *q of the columns on, k apart; either the
 * weights or the activations are the unsigned bytes. */
FY_INLINE void fy_v_tile_dots(fy_vi s[FY_V_COLS][FY_V_GROUPS], const fy_vi w[FY_V_GROUPS][8],
                              const int8_t *q, int64_t k, int n, int first, bool unsigned_x)
{
    FY_UNROLL
    for (int j = first; j < first + 4; j++) {
        fy_vi v[FY_V_GROUPS];
        FY_UNROLL
        for (int g = 0; g < FY_V_GROUPS; g++) {
            v[g] = w[g][j];
            FY_V_KEEP(v[g]);
        }
        FY_UNROLL
        for (int c = 0; c < n; c++) {
            fy_vi x = fy_v_same4(q + c * k + 4 * j);
            FY_V_KEEP(x);
            FY_UNROLL
            for (int g = 0; g < FY_V_GROUPS; g++)
                s[c][g] = unsigned_x ? fy_v_dot(s[c][g], x, v[g]) : fy_v_dot(s[c][g], v[g], x);
        }
    }
}

/* Where the chains of a tile's rows are kept. */
typedef struct {
    float *at; /* those of the first column */
    int64_t ld;
    int64_t row[FY_V_GROUPS];
} fy_v_chains;

/* The next columns over a run: n of them. */
typedef struct {
    fy_v_chains from, to; /* before the run and after it */
    const void *tile;
    const fy_act *a;
    int64_t col, first, run; /* the first column; the blocks of 32 */
    int above;
} fy_v_run;

typedef void fy_v_run_fn(const fy_v_run *r);

FY_INLINE void fy_v_load_chains(fy_vf acc[FY_V_COLS][FY_V_GROUPS], const fy_v_run *r, int n)
{
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        FY_UNROLL
        for (int g = 0; g < FY_V_GROUPS; g++)
            acc[c][g] = r->first == 0 ? fy_v_zerof()
                                      : fy_v_loadf(r->from.at + c * r->from.ld + r->from.row[g]);
    }
}

FY_INLINE void fy_v_store_chains(const fy_v_run *r, fy_vf acc[FY_V_COLS][FY_V_GROUPS], int n)
{
    FY_UNROLL
    for (int c = 0; c < n; c++) {
        FY_UNROLL
        for (int g = 0; g < FY_V_GROUPS; g++)
            fy_v_storef(r->to.at + c * r->to.ld + r->to.row[g], acc[c][g]);
    }
}

/* Writes a stored block of a group of rows as group g of a tile, from block b on. */
typedef void fy_v_repack_fn(void *tile, int64_t b, int g, fy_v_block w);

/* All columns over a run. The number of columns at once must be a constant of unrolled code: fn[0]
 * takes FY_V_COLS, fn[1], fn[2] and fn[3] take 4, 2 and 1; NULL: not so many. Each of them asks for
 * its share of what the next run repacks: `bytes` of each of the tile's rows from `next` on. */
FY_INLINE void fy_v_all_columns(fy_v_run r, int64_t n_cols, fy_v_run_fn *const fn[4],
                                fy_v_block next, size_t bytes)
{
    static const int takes[4] = {FY_V_COLS, 4, 2, 1};
    float *const from = r.from.at, *const to = r.to.at;
    const size_t lines = bytes / 64 + 1, all = FY_V_GROUPS * FY_V_ROWS * lines;
    size_t done = 0, line = 0;
    for (int i = 0; i < 4; i++) {
        for (; fn[i] != NULL && n_cols - r.col >= takes[i]; r.col += takes[i]) {
            const size_t end = all * (size_t)(r.col + takes[i]) / (size_t)n_cols;
            for (; done < end; done++) {
                _mm_prefetch((const char *)(next.at + line * 64), FY_V_HINT);
                if (++line == lines) {
                    line = 0;
                    next.at += next.step;
                }
            }
            r.from.at = from + r.col * r.from.ld;
            r.to.at = to + r.col * r.to.ld;
            fn[i](&r);
        }
    }
}

FY_INLINE void fy_v_matmul_tiles(float *y, int64_t ldy, fy_v_matrix w, int64_t row_begin,
                                 int64_t row_end, const fy_act *a, int64_t n_cols, void *scratch,
                                 size_t block_bytes, int subs, int above, fy_v_repack_fn *repack,
                                 fy_v_run_fn *const fn[4])
{
    const int64_t n_blocks = a->k / FY_QK;
    void *const tile = scratch;
    fy_v_run r = {.tile = tile, .a = a, .above = above};
    fy_v_chains done = {.at = y, .ld = ldy};
    fy_v_chains rest = {.at = (float *)scratch + FY_V_TILE_BYTES / sizeof(float),
                        .ld = FY_V_GROUPS * FY_V_ROWS};
    for (int64_t row = row_begin; row < row_end; row += FY_V_GROUPS * FY_V_ROWS) {
        for (int g = 0; g < FY_V_GROUPS; g++) {
            done.row[g] = fy_v_least(row + g * FY_V_ROWS, row_end - FY_V_ROWS);
            rest.row[g] = g * FY_V_ROWS;
        }
        if (n_cols > FY_V_REST_COLS)
            rest = done;
        r.from = rest;
        r.first = 0;
        do { /* once even without blocks: the sums are zero then */
            r.run = fy_v_least(n_blocks - r.first, FY_V_RUN);
            for (int g = 0; g < FY_V_GROUPS; g++) {
                for (int64_t b = 0; b < r.run; b += subs)
                    repack(tile, b, g,
                           fy_v_block_at(w, done.row[g], (r.first + b) / subs, block_bytes));
            }
            const bool last = r.first + FY_V_RUN >= n_blocks; /* then the next tile begins */
            r.to = last ? done : rest;
            const fy_v_block next =
                fy_v_block_at(w, last ? row + FY_V_GROUPS * FY_V_ROWS : row,
                              last ? 0 : (r.first + FY_V_RUN) / subs, block_bytes);
            const size_t bytes = FY_V_RUN / (size_t)subs * block_bytes;
            fy_v_all_columns(r, n_cols, fn, next, bytes);
            r.first += FY_V_RUN;
        } while (r.first < n_blocks);
    }
}

/* At most FY_V_FEW columns, whose number must be a constant of unrolled code. */
FY_INLINE void fy_v_few_columns(float *y, int64_t ldy, fy_v_matrix w, int64_t row_begin,
                                int64_t row_end, const fy_act *a, int64_t n_cols,
                                size_t block_bytes, int subs, fy_v_vec_fn *block)
{
    switch (n_cols) {
    case 1:
        fy_v_matvec(y, ldy, w, row_begin, row_end, a, 1, block_bytes, subs, block);
        break;
    case 2:
        fy_v_matvec(y, ldy, w, row_begin, row_end, a, 2, block_bytes, subs, block);
        break;
#if FY_V_FEW > 2
    case 3:
        fy_v_matvec(y, ldy, w, row_begin, row_end, a, 3, block_bytes, subs, block);
        break;
    case 4:
        fy_v_matvec(y, ldy, w, row_begin, row_end, a, 4, block_bytes, subs, block);
        break;
    case 5:
        fy_v_matvec(y, ldy, w, row_begin, row_end, a, 5, block_bytes, subs, block);
        break;
#endif
    default: /* none */
        break;
    }
}

/* fy_matmul_<type>__<isa>, where there are vec_<type> and repack_<type>. few: columns, up to
 * FY_V_FEW, that go through the file's layout. */
#define FY_V_NAME2(type, isa) fy_matmul_##type##__##isa
#define FY_V_NAME(type, isa)  FY_V_NAME2(type, isa)
#define FY_V_DEFINE_MATMUL(type, few, subs, above, runs)                                        \
    void FY_V_NAME(type, FY_V_ISA)(float *y, int64_t ldy, const void *W, size_t row_bytes,      \
                                   int64_t row_begin, int64_t row_end, const fy_act *a,         \
                                   int64_t n_cols, void *scratch)                               \
    {                                                                                           \
        const fy_v_matrix w = {W, row_bytes};                                                   \
        if (row_end - row_begin < FY_V_ROWS || (n_cols == 1 && !FY_V_ONE_COLUMN))               \
            fy_matmul_##type##__avx2(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols,       \
                                     scratch);                                                  \
        else if (n_cols <= (few))                                                               \
            fy_v_few_columns(y, ldy, w, row_begin, row_end, a, n_cols, sizeof(fy_block_##type), \
                             subs, vec_##type);                                                 \
        else                                                                                    \
            fy_v_matmul_tiles(y, ldy, w, row_begin, row_end, a, n_cols, scratch,                \
                              sizeof(fy_block_##type), subs, above, repack_##type, runs);       \
    }

#endif
