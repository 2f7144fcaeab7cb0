/* Block weights times many columns.
 *
 * A tile, 8 rows of a run of blocks, is repacked once into signed bytes in the order in which
 * the instruction wants them and serves all columns; four columns are packed likewise and serve all
 * rows of the call. What is left per 8 rows, 4 columns and block is the multiply-adds, their loads,
 * and four instructions (clear, scale, convert, add) for each of the eight vectors of sums. Every
 * row and column keeps its own chain of fused multiply-adds over the blocks, so that the result
 * equals the scalar specification bit for bit. Between runs the chains rest in y.
 *
 * A file that includes this defines before it FY_TILE_LANES, the lanes that the scales of 8 rows
 * take, and FY_TILE_REPEATS, how often an activation stands in packed columns; and after it what is
 * declared here without a body. A vector of sums, 0 .. 7, has the rows and columns that the
 * instruction gives it. */
#ifndef FY_KERNELS_ARM_MATMUL_TILE_H
#define FY_KERNELS_ARM_MATMUL_TILE_H

#include "kernels/arm/quants_neon.h"

enum {
    FY_TILE_ROWS = 8,
    FY_TILE_COLS = 4,
    FY_TILE_SUMS = FY_TILE_ROWS * FY_TILE_COLS / 4, /* vectors */
    FY_TILE_RUN = 32,                               /* blocks, at most; whole super-blocks */
    FY_TILE_CALL_ROWS = 64,                         /* that share the packed columns */
    FY_TILES = 128,                                 /* tiles of one block that fit the cache */
};

typedef struct {
    int8_t q[FY_TILE_ROWS * FY_QK];
    float d[FY_TILE_LANES], m[FY_TILE_LANES];
    int32_t part[2][FY_TILE_LANES]; /* q6_K: the scales of 16 elements */
} fy_tile;

typedef struct {
    int8_t q[FY_TILE_COLS * FY_QK * FY_TILE_REPEATS];
    float d[FY_TILE_LANES], sum[FY_TILE_LANES];
} fy_tile_columns;

typedef struct {
    fy_tile tile[FY_TILES]; /* [group of 8 rows][block of the run] */
    fy_tile_columns x[FY_TILE_RUN];
} fy_tile_scratch;

_Static_assert(sizeof(fy_tile_scratch) <= FY_KERNEL_SCRATCH_BYTES, "tiles fit the scratch");

/* Rows 4 * quad .. 4 * quad + 3 of a tile. */
FY_INLINE void tile_put_quants(int8_t *q, const fy_quants32 rows[FY_Q_ROWS], int quad);
FY_INLINE void tile_put_scales(float *at, float32x4_t rows, int quad);
FY_INLINE void tile_put_parts(int32_t *at, int32x4_t rows, int quad);
/* Four columns of a block, and a value of each. */
FY_INLINE void tile_put_columns(int8_t *to, const int8_t *const q[FY_TILE_COLS]);
FY_INLINE void tile_put_values(float *to, float32x4_t columns);
/* s += the products of one half, 16 elements, of a block. */
FY_INLINE void tile_dots(int32x4_t s[FY_TILE_SUMS], const int8_t *w, const int8_t *x, int half);
/* What stands in the lanes of vector i: of the rows, and of the columns. */
FY_INLINE int tile_rows_of(int i);
FY_INLINE float32x4_t tile_columns_of(const float *x, int i);
/* From and to the lanes of y: [column][quad of rows]. */
FY_INLINE void tile_from_y(float32x4_t acc[FY_TILE_SUMS], float32x4_t y[FY_TILE_COLS][2]);
FY_INLINE void tile_to_y(float32x4_t y[FY_TILE_COLS][2], const float32x4_t acc[FY_TILE_SUMS]);

/* --- repacking ------------------------------------------------------------------------------- */

/* `run` blocks of 32 of up to 8 rows from `offset` on. Rows that are missing repeat the last one.
 */
FY_INLINE void repack_tile(fy_tile *t, const uint8_t *W, size_t row_bytes, int n_rows,
                           size_t offset, int run, size_t block_bytes, int subs, bool has_min,
                           bool has_parts, fy_quants32_fn *quants, fy_scales_fn *scales)
{
    for (int quad = 0; quad < 2; quad++) {
        const uint8_t *row[FY_Q_ROWS];
        FY_UNROLL
        for (int i = 0; i < FY_Q_ROWS; i++) {
            const int r = quad * FY_Q_ROWS + i;
            row[i] = W + (size_t)(r < n_rows ? r : n_rows - 1) * row_bytes;
        }
        for (int stored = 0; stored < run / subs; stored++) {
            const size_t at = offset + (size_t)stored * block_bytes;
            q_scales w;
            scales(&w, row, at);
            for (int s = 0; s < subs; s++) {
                fy_tile *to = &t[stored * subs + s];
                fy_quants32 q[FY_Q_ROWS];
                FY_UNROLL
                for (int i = 0; i < FY_Q_ROWS; i++)
                    q[i] = quants(row[i] + at, s);
                tile_put_quants(to->q, q, quad);
                tile_put_scales(to->d, w.d[s], quad);
                if (has_min)
                    tile_put_scales(to->m, w.m[s], quad);
                if (has_parts) {
                    tile_put_parts(to->part[0], w.lo[s], quad);
                    tile_put_parts(to->part[1], w.hi[s], quad);
                }
            }
        }
    }
}

/* Columns that are missing repeat the last one. */
FY_INLINE void pack_columns(fy_tile_columns *to, const fy_act *a, int64_t col, int64_t n_cols,
                            int64_t block, int run, bool has_min)
{
    const int64_t n_blocks = a->k / FY_QK;
    const int8_t *q[FY_TILE_COLS];
    const float *d[FY_TILE_COLS];
    const int32_t *sum[FY_TILE_COLS];
    FY_UNROLL
    for (int i = 0; i < FY_TILE_COLS; i++) {
        const int64_t at = (i < n_cols ? col + i : col + n_cols - 1) * n_blocks + block;
        q[i] = a->q + at * FY_QK;
        d[i] = a->d + at;
        sum[i] = a->sum + at;
    }
    for (int b = 0; b < run; b++) {
        tile_put_columns(to[b].q, q);
        tile_put_values(to[b].d, (float32x4_t){d[0][b], d[1][b], d[2][b], d[3][b]});
        if (has_min)
            tile_put_values(to[b].sum,
                            vcvtq_f32_s32((int32x4_t){sum[0][b], sum[1][b], sum[2][b], sum[3][b]}));
        FY_UNROLL
        for (int i = 0; i < FY_TILE_COLS; i++)
            q[i] += FY_QK;
    }
}

/* --- products -------------------------------------------------------------------------------- */

FY_INLINE void tile_block(float32x4_t acc[FY_TILE_SUMS], const fy_tile *t, const fy_tile_columns *x,
                          bool has_min, bool has_parts)
{
    int32x4_t s[FY_TILE_SUMS];
    FY_UNROLL
    for (int i = 0; i < FY_TILE_SUMS; i++)
        s[i] = vdupq_n_s32(0);
    tile_dots(s, t->q, x->q, 0);
    if (has_parts) {
        int32x4_t high[FY_TILE_SUMS];
        FY_UNROLL
        for (int i = 0; i < FY_TILE_SUMS; i++) {
            s[i] = vmulq_s32(s[i], vld1q_s32(t->part[0] + 4 * tile_rows_of(i)));
            high[i] = vdupq_n_s32(0);
        }
        tile_dots(high, t->q, x->q, 1);
        FY_UNROLL
        for (int i = 0; i < FY_TILE_SUMS; i++)
            s[i] = vmlaq_s32(s[i], high[i], vld1q_s32(t->part[1] + 4 * tile_rows_of(i)));
    } else {
        tile_dots(s, t->q, x->q, 1);
    }
    FY_UNROLL
    for (int i = 0; i < FY_TILE_SUMS; i++) {
        const float32x4_t d = tile_columns_of(x->d, i);
        acc[i] = vfmaq_f32(acc[i], vmulq_f32(vld1q_f32(t->d + 4 * tile_rows_of(i)), d),
                           vcvtq_f32_s32(s[i]));
        if (has_min)
            acc[i] = vfmaq_f32(acc[i], vmulq_f32(vld1q_f32(t->m + 4 * tile_rows_of(i)), d),
                               tile_columns_of(x->sum, i));
    }
}

static __attribute__((noinline)) float32x4_t load_lanes(const float *p, int n)
{
    float lane[4] = {0};
    if (n >= 4)
        return vld1q_f32(p);
    for (int i = 0; i < n; i++)
        lane[i] = p[i];
    return vld1q_f32(lane);
}

static __attribute__((noinline)) void store_lanes(float *p, float32x4_t v, int n)
{
    float lane[4];
    if (n >= 4) {
        vst1q_f32(p, v);
        return;
    }
    vst1q_f32(lane, v);
    for (int i = 0; i < n; i++)
        p[i] = lane[i];
}

/* A run of blocks; y is the tile's first row and column. */
FY_INLINE void tile_run(float *y, int64_t ldy, int n_rows, int n_cols, bool first, const fy_tile *t,
                        const fy_tile_columns *x, int run, bool has_min, bool has_parts)
{
    float32x4_t acc[FY_TILE_SUMS], lanes[FY_TILE_COLS][2];
    const bool whole = n_rows >= FY_TILE_ROWS && n_cols == FY_TILE_COLS;
    FY_UNROLL
    for (int i = 0; i < FY_TILE_SUMS; i++)
        lanes[i / 2][i % 2] = vdupq_n_f32(0);
    if (!first) {
        FY_UNROLL
        for (int i = 0; i < FY_TILE_SUMS; i++) {
            const float *at = y + i / 2 * ldy + i % 2 * 4;
            if (whole)
                lanes[i / 2][i % 2] = vld1q_f32(at);
            else if (i / 2 < n_cols)
                lanes[i / 2][i % 2] = load_lanes(at, n_rows - i % 2 * 4);
        }
    }
    tile_from_y(acc, lanes);
    for (int b = 0; b < run; b++)
        tile_block(acc, &t[b], &x[b], has_min, has_parts);
    tile_to_y(lanes, acc);
    FY_UNROLL
    for (int i = 0; i < FY_TILE_SUMS; i++) {
        float *at = y + i / 2 * ldy + i % 2 * 4;
        if (whole)
            vst1q_f32(at, lanes[i / 2][i % 2]);
        else if (i / 2 < n_cols)
            store_lanes(at, lanes[i / 2][i % 2], n_rows - i % 2 * 4);
    }
}

/* Blocks that are repacked at once for so many tiles. */
static inline int tile_run_blocks(int n_tiles)
{
    const int run = FY_TILES / n_tiles / FY_SUBS_MAX * FY_SUBS_MAX;
    return run < FY_TILE_RUN ? run : FY_TILE_RUN;
}

/* At most FY_TILE_CALL_ROWS rows. */
FY_INLINE void tile_rows(float *y, int64_t ldy, const uint8_t *W, size_t row_bytes, int n_rows,
                         const fy_act *a, int64_t n_cols, fy_tile_scratch *scratch,
                         size_t block_bytes, int subs, bool has_min, bool has_parts,
                         fy_quants32_fn *quants, fy_scales_fn *scales)
{
    const int n_tiles = (n_rows + FY_TILE_ROWS - 1) / FY_TILE_ROWS;
    const int run_max = tile_run_blocks(n_tiles);
    const int64_t n_blocks = a->k / FY_QK;
    int64_t b = 0;
    do { /* once even without blocks: the sums are zero then */
        const int run = n_blocks - b < run_max ? (int)(n_blocks - b) : run_max;
        for (int i = 0; i < n_tiles; i++) {
            const int r = i * FY_TILE_ROWS;
            repack_tile(&scratch->tile[i * run_max], W + (size_t)r * row_bytes, row_bytes,
                        n_rows - r, (size_t)(b / subs) * block_bytes, run, block_bytes, subs,
                        has_min, has_parts, quants, scales);
        }
        for (int64_t c = 0; c < n_cols; c += FY_TILE_COLS) {
            const int cols = n_cols - c < FY_TILE_COLS ? (int)(n_cols - c) : FY_TILE_COLS;
            pack_columns(scratch->x, a, c, cols, b, run, has_min);
            for (int i = 0; i < n_tiles; i++) {
                const int r = i * FY_TILE_ROWS;
                tile_run(y + c * ldy + r, ldy, n_rows - r, cols, b == 0,
                         &scratch->tile[i * run_max], scratch->x, run, has_min, has_parts);
            }
        }
        b += run_max;
    } while (b < n_blocks);
}

FY_INLINE void matmul_tiles(float *y, int64_t ldy, const void *W, size_t row_bytes,
                            int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                            void *scratch, size_t block_bytes, int subs, bool has_min,
                            bool has_parts, fy_quants32_fn *quants, fy_scales_fn *scales)
{
    for (int64_t r = row_begin; r < row_end; r += FY_TILE_CALL_ROWS) {
        const int n = row_end - r < FY_TILE_CALL_ROWS ? (int)(row_end - r) : FY_TILE_CALL_ROWS;
        tile_rows(y + r, ldy, (const uint8_t *)W + (size_t)r * row_bytes, row_bytes, n, a, n_cols,
                  scratch, block_bytes, subs, has_min, has_parts, quants, scales);
    }
}

#endif
