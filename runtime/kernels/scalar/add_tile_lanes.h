/* Sums over a tile of rows (kernels.h), for the lanes of the file that includes this
 * (lanes_scalar.h), which says what it is in FY_TILE_ISA: bound by multiply-adds. FY_TILE_SUMS
 * registers of sums hide their latency, and their factors come from the first-level cache.
 *
 * Alone, a token loads a factor for every multiply-add, which is as many loads a cycle as most
 * processors have. Four that count all rows of the tile load it once for all. */
#include "kernels/kernel_impl.h"

#define FY_TILE_NAME2(isa) fy_add_tile__##isa
#define FY_TILE_NAME1(isa) FY_TILE_NAME2(isa)

enum { TOGETHER = 4 };

/* For n tokens, a constant, that have the same rows before `end`; returns how many these are. */
FY_INLINE int64_t add_rows_of(const fy_add_token *t, int n, const float *tile, int32_t first,
                              int32_t end)
{
    enum { WIDTH = FY_TILE_SUMS * FY_LANES };
    const int n_sums = FY_TILE_SUMS / n;
    int64_t i = 0;
    for (int64_t at = 0; at < FY_ADD_COLS; at += WIDTH / n) {
        fy_lanes sum[FY_TILE_SUMS], v[FY_TILE_SUMS];
        FY_UNROLL
        for (int k = 0; k < FY_TILE_SUMS; k++)
            sum[k] = fy_l_load(t[k / n_sums].y + at + k % n_sums * FY_LANES);
        for (i = 0; i < t->n && t->rows[i] < end; i++) {
            const float *row = tile + (int64_t)(t->rows[i] - first) * FY_ADD_COLS + at;
            FY_UNROLL
            for (int k = 0; k < n_sums; k++)
                v[k] = fy_l_load(row + k * FY_LANES);
            FY_UNROLL
            for (int k = 0; k < FY_TILE_SUMS; k++)
                sum[k] = fy_l_fma(fy_l_set(t[k / n_sums].p[i]), v[k % n_sums], sum[k]);
        }
        FY_UNROLL
        for (int k = 0; k < FY_TILE_SUMS; k++)
            fy_l_store(t[k / n_sums].y + at + k % n_sums * FY_LANES, sum[k]);
    }
    return i;
}

/* Each row from first to end - 1. */
FY_INLINE bool takes_all(const fy_add_token *t, int32_t first, int32_t end)
{
    const int32_t n = end - first;
    return t->n >= n && n > 0 && t->rows[0] == first && t->rows[n - 1] == end - 1;
}

void FY_TILE_NAME1(FY_TILE_ISA)(fy_add_token *t, int64_t n_tokens, const float *tile, int32_t first,
                                int32_t end)
{
    const fy_add_token *const last = t + n_tokens;
    while (t < last) {
        int n = 0;
        while (n < TOGETHER && n < last - t && takes_all(&t[n], first, end))
            n++;
        const int64_t taken = n == TOGETHER ? add_rows_of(t, TOGETHER, tile, first, end)
                                            : add_rows_of(t, 1, tile, first, end);
        for (const fy_add_token *const next = t + (n == TOGETHER ? TOGETHER : 1); t < next; t++) {
            t->p += taken;
            t->rows += taken;
            t->n -= taken;
        }
    }
}
