/* The block matmuls of AVX2: what the block types share.
 *
 * A vector lane is a row of W, so that each row keeps its own chain of fused multiply-adds over the
 * blocks and the result equals the scalar specification bit for bit, for one column or many.
 *
 * One column is bound by reading W and works on the file's layout. Many columns are bound by
 * multiply-adds: a tile, 16 rows of a run of blocks, is repacked once so that a register holds 4
 * consecutive elements of 8 rows; four columns share every weight load and two groups of 8 rows
 * every activation. A run keeps the tile near the first-level cache. Between runs the chains rest
 * in the scratch (vnni_matmul.h). */
#ifndef FY_KERNELS_X86_TILE_AVX2_H
#define FY_KERNELS_X86_TILE_AVX2_H

#include "kernels/kernels.h"
#include "kernels/x86/vec_avx2.h"

enum {
    FY_TILE_GROUPS = 2, /* of 8 rows */
    FY_TILE_COLS = 4,
    FY_TILE_RUN = 32,         /* blocks */
    FY_FEW_ROWS = 32,         /* that a few columns go through one after the other */
    FY_TILE_BYTES = 64 << 10, /* of the scratch; what is left is for chains */
    FY_TILE_REST_COLS =
        (int)((FY_KERNEL_SCRATCH_BYTES - FY_TILE_BYTES) / (8 * FY_TILE_GROUPS * sizeof(float))),
};

/* Eight rows of a matrix. Beyond row_end the last row stands in: a lane that is not stored costs
 * nothing, and nothing outside the rows asked for is read. */
typedef struct {
    const uint8_t *p[8];
    bool whole; /* eight different rows */
} fy_rows8;

FY_INLINE fy_rows8 fy_rows8_at(const void *W, size_t row_bytes, int64_t row, int64_t row_end)
{
    fy_rows8 rows;
    rows.whole = row_end - row >= 8;
    FY_UNROLL
    for (int i = 0; i < 8; i++) {
        const int64_t r = row + i < row_end ? row + i : row_end - 1;
        rows.p[i] = (const uint8_t *)W + (size_t)r * row_bytes;
    }
    return rows;
}

/* The f16 at `offset` of each row, widened. Of eight whole rows each is loaded from so far before
 * that it comes to lie in its own lane, and a blend takes it: one instruction a row instead of
 * three. What is read around it belongs to the rows before and after, as a row has 16 bytes at
 * least. */
FY_INLINE __m256 fy_scales8(const fy_rows8 *rows, size_t offset)
{
    if (rows->whole) {
        __m128i h = fy_load128(rows->p[0] + offset);
        h = _mm_blend_epi16(h, fy_load128(rows->p[1] + offset - 2), 1 << 1);
        h = _mm_blend_epi16(h, fy_load128(rows->p[2] + offset - 4), 1 << 2);
        h = _mm_blend_epi16(h, fy_load128(rows->p[3] + offset - 6), 1 << 3);
        h = _mm_blend_epi16(h, fy_load128(rows->p[4] + offset - 8), 1 << 4);
        h = _mm_blend_epi16(h, fy_load128(rows->p[5] + offset - 10), 1 << 5);
        h = _mm_blend_epi16(h, fy_load128(rows->p[6] + offset - 12), 1 << 6);
        h = _mm_blend_epi16(h, fy_load128(rows->p[7] + offset - 14), 1 << 7);
        return _mm256_cvtph_ps(h);
    }
    short h[8];
    FY_UNROLL
    for (int i = 0; i < 8; i++)
        memcpy(&h[i], rows->p[i] + offset, sizeof h[i]);
    return _mm256_cvtph_ps(_mm_setr_epi16(h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]));
}

/* 16 bytes of one row in the low lane, of another in the high lane. */
FY_INLINE __m256i fy_load2x128(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(fy_load128(low)), fy_load128(high), 1);
}

/* v[i]: 16 bytes of row i and of row i + 4  ->  v[j]: bytes 4j .. 4j+3 of rows 0 .. 7. */
FY_INLINE void fy_transpose_dwords(__m256i v[4])
{
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
    const __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm256_unpacklo_epi64(a, c);
    v[1] = _mm256_unpackhi_epi64(a, c);
    v[2] = _mm256_unpacklo_epi64(b, d);
    v[3] = _mm256_unpackhi_epi64(b, d);
}

/* Four bytes in every lane. */
FY_INLINE __m256i fy_broadcast4(const int8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

/* Quantized columns from some block on. */
typedef struct {
    const int8_t *q;
    const float *d;
    const int32_t *sum;
    int64_t k, n_blocks; /* from one column to the next in q; in d and sum */
} fy_tile_columns;

/* Continues the chains of n columns over block b of a tile. */
typedef void fy_tile_block_fn(__m256 acc[FY_TILE_COLS][FY_TILE_GROUPS], const void *tile,
                              const fy_tile_columns *x, int64_t b, int n);

/* Where the chains of a tile's first n_rows rows are kept. */
typedef struct {
    float *at;
    int64_t ld, n_rows;
} fy_tile_chains;

/* n columns, a constant, from column c on over a run; `from` NULL: the chains begin. */
FY_INLINE void fy_tile_run(const fy_tile_chains *from, const fy_tile_chains *to, int64_t c,
                           const void *tile, int64_t run, const fy_tile_columns *x, int n,
                           fy_tile_block_fn *block)
{
    __m256 acc[FY_TILE_COLS][FY_TILE_GROUPS];
    FY_UNROLL
    for (int i = 0; i < n; i++) {
        FY_UNROLL
        for (int g = 0; g < FY_TILE_GROUPS; g++)
            acc[i][g] = from == NULL ? _mm256_setzero_ps()
                                     : fy_load_lanes(from->at + (c + i) * from->ld + 8 * g,
                                                     from->n_rows - 8 * g);
    }
    for (int64_t b = 0; b < run; b++)
        block(acc, tile, x, b, n);
    FY_UNROLL
    for (int i = 0; i < n; i++) {
        FY_UNROLL
        for (int g = 0; g < FY_TILE_GROUPS; g++)
            fy_store_lanes(to->at + (c + i) * to->ld + 8 * g, acc[i][g], to->n_rows - 8 * g);
    }
}

/* Writes `run` blocks of 32 of the rows, from `offset` on, as group g of a tile. */
typedef void fy_tile_repack_fn(void *tile, int g, const fy_rows8 *rows, size_t offset, int64_t run);

/* A stored block has `subs` blocks of 32, which divide a run. */
FY_INLINE void fy_matmul_tiles(float *y, int64_t ldy, const void *W, size_t row_bytes,
                               int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                               void *scratch, size_t block_bytes, int subs,
                               fy_tile_repack_fn *repack, fy_tile_block_fn *block)
{
    const int64_t n_blocks = a->k / FY_QK;
    void *const tile = scratch;
    const size_t ahead = fy_prefetch_ahead(8 * FY_TILE_GROUPS * row_bytes);
    const uint8_t *rows_begin = (const uint8_t *)W + (size_t)row_begin * row_bytes;
    fy_touch_pages(rows_begin, (size_t)(row_end - row_begin) * row_bytes + ahead);
    uintptr_t next = (uintptr_t)rows_begin + ahead;
    for (int64_t r = row_begin; r < row_end; r += 8 * FY_TILE_GROUPS) {
        const fy_tile_chains done = {y + r, ldy, row_end - r};
        const fy_tile_chains spare = {(float *)scratch + FY_TILE_BYTES / sizeof(float),
                                      8 * FY_TILE_GROUPS, 8 * FY_TILE_GROUPS};
        const fy_tile_chains *const rest = n_cols <= FY_TILE_REST_COLS ? &spare : &done;
        int64_t b = 0;
        do { /* once even without blocks: the sums are zero then */
            const int64_t run = n_blocks - b < FY_TILE_RUN ? n_blocks - b : FY_TILE_RUN;
            const size_t read = 8 * FY_TILE_GROUPS * (size_t)(run / subs) * block_bytes;
            for (size_t line = 0; line < read; line += 64)
                _mm_prefetch((const char *)(next + line), _MM_HINT_T1);
            next += read;
            for (int g = 0; g < FY_TILE_GROUPS; g++) {
                const fy_rows8 rows = fy_rows8_at(W, row_bytes, r + 8 * g, row_end);
                repack(tile, g, &rows, (size_t)(b / subs) * block_bytes, run);
            }
            for (int64_t c = 0; c < n_cols; c += FY_TILE_COLS) {
                const fy_tile_columns x = {a->q + c * a->k + b * FY_QK, a->d + c * n_blocks + b,
                                           a->sum + c * n_blocks + b, a->k, n_blocks};
                const fy_tile_chains *const from = b == 0 ? NULL : rest;
                const fy_tile_chains *const to = b + FY_TILE_RUN >= n_blocks ? &done : rest;
                switch (n_cols -
                        c) { /* the number of columns must be a constant of the unrolled code */
                case 1:
                    fy_tile_run(from, to, c, tile, run, &x, 1, block);
                    break;
                case 2:
                    fy_tile_run(from, to, c, tile, run, &x, 2, block);
                    break;
                case 3:
                    fy_tile_run(from, to, c, tile, run, &x, 3, block);
                    break;
                default:
                    fy_tile_run(from, to, c, tile, run, &x, 4, block);
                    break;
                }
            }
            b += FY_TILE_RUN;
        } while (b < n_blocks);
    }
}

/* One column: y[r .. r+7] continued over stored block b of the rows, at `offset`. */
typedef __m256 fy_vec_block_fn(__m256 acc, const fy_rows8 *rows, size_t offset, const fy_act *a,
                               int64_t b);

/* The rows lie one after the other, so while eight are read, later ones are prefetched front to
 * back: one stream for the memory instead of eight (vec_avx2.h). */
FY_INLINE void fy_matvec_rows(float *y, const void *W, size_t row_bytes, int64_t row_begin,
                              int64_t row_end, const fy_act *a, size_t block_bytes, int subs,
                              fy_vec_block_fn *block)
{
    const int64_t n_blocks = a->k / FY_QK / subs;
    const size_t ahead = fy_prefetch_ahead(8 * row_bytes);
    fy_touch_pages((const uint8_t *)W + (size_t)row_begin * row_bytes,
                   (size_t)(row_end - row_begin) * row_bytes + ahead);
    for (int64_t r = row_begin; r < row_end; r += 8) {
        const fy_rows8 rows = fy_rows8_at(W, row_bytes, r, row_end);
        const uintptr_t next = (uintptr_t)rows.p[0] + ahead;
        __m256 acc = _mm256_setzero_ps();
        for (int64_t b = 0; b < n_blocks; b++) {
            const size_t offset = (size_t)b * block_bytes;
            FY_UNROLL
            for (size_t line = 0; line < 8 * block_bytes; line += 64)
                _mm_prefetch((const char *)(next + 8 * offset + line), _MM_HINT_T1);
            acc = block(acc, &rows, offset, a, b);
        }
        fy_store_lanes(y + r, acc, row_end - r);
    }
}

/* Eight listed rows from the i-th on; beyond the n listed the last one stands in. The list ascends,
 * so that all but the first have a row before them (fy_scales8). */
FY_INLINE fy_rows8 fy_rows8_listed(const void *W, size_t row_bytes, const int32_t *list, int64_t i,
                                   int64_t n)
{
    fy_rows8 rows;
    rows.whole = n - i >= 8;
    FY_UNROLL
    for (int r = 0; r < 8; r++)
        rows.p[r] = (const uint8_t *)W + (size_t)list[i + r < n ? i + r : n - 1] * row_bytes;
    return rows;
}

/* While one group of listed rows is read from offset to offset + bytes, the lines of the next group
 * are asked for that begin there: a stream for each row, as the rows lie apart. */
FY_INLINE void fy_prefetch_listed(const uint8_t *const *next, int n, size_t offset, size_t bytes)
{
    for (size_t line = (offset + 63) / 64 * 64; line < offset + bytes; line += 64) {
        FY_UNROLL
        for (int r = 0; r < n; r++)
            _mm_prefetch((const char *)((uintptr_t)next[r] + line), _MM_HINT_T1);
    }
}

/* y[list[i]] of one column, eight rows at a time. */
FY_INLINE void fy_matvec_listed(float *y, const void *W, size_t row_bytes, const int32_t *list,
                                int64_t n, const fy_act *a, size_t block_bytes, int subs,
                                fy_vec_block_fn *block)
{
    const int64_t n_blocks = a->k / FY_QK / subs;
    for (int64_t i = 0; i < n; i += 8) {
        const fy_rows8 rows = fy_rows8_listed(W, row_bytes, list, i, n);
        const fy_rows8 next = fy_rows8_listed(W, row_bytes, list, i + 8 < n ? i + 8 : i, n);
        __m256 acc = _mm256_setzero_ps();
        for (int64_t b = 0; b < n_blocks; b++) {
            fy_prefetch_listed(next.p, 8, (size_t)b * block_bytes, block_bytes);
            acc = block(acc, &rows, (size_t)b * block_bytes, a, b);
        }
        float out[8];
        _mm256_storeu_ps(out, acc);
        for (int64_t r = 0; r < 8 && i + r < n; r++)
            y[list[i + r]] = out[r];
    }
}

/* Column c alone. */
FY_INLINE fy_act fy_act_column(const fy_act *a, int64_t c)
{
    const int64_t n_blocks = a->k / FY_QK;
    return (fy_act){.x = a->x + c * a->k,
                    .q = a->q + c * a->k,
                    .d = a->d + c * n_blocks,
                    .sum = a->sum + c * n_blocks,
                    .k = a->k};
}

/* Any number of columns. A few are quicker one after the other, while their rows are in the cache,
 * than as a tile: then reading W is what takes the time, and this reads it best. */
FY_INLINE void fy_matmul_blocks(float *y, int64_t ldy, const void *W, size_t row_bytes,
                                int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                                void *tile, size_t block_bytes, int subs, fy_vec_block_fn *vec,
                                fy_tile_repack_fn *repack, fy_tile_block_fn *block)
{
    if (n_cols >= FY_TILE_COLS) {
        fy_matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, tile, block_bytes,
                        subs, repack, block);
        return;
    }
    const int64_t step = n_cols == 1 ? row_end - row_begin : FY_FEW_ROWS;
    for (int64_t r = row_begin; r < row_end; r += step) {
        const int64_t end = row_end - r < step ? row_end : r + step;
        for (int64_t c = 0; c < n_cols; c++) {
            const fy_act x = fy_act_column(a, c);
            fy_matvec_rows(y + c * ldy, W, row_bytes, r, end, &x, block_bytes, subs, vec);
        }
    }
}

#endif
