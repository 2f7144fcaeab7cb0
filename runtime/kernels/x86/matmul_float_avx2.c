/* f32, f16 and bf16 weights times f32 activations.
 *
 * Every dot product is summed in the same order whatever the batch: one vector of 8 partial sums
 * over the row, the rest of the row masked, one horizontal sum. Speed comes from independent dot
 * products: 8 rows of one column, or 3 rows of 4 columns, keep the two multiply-add ports busy. One
 * column is bound by reading W; for many, 12 multiply-adds take 3 weight loads and 4 activation
 * loads. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/vec_avx2.h"

typedef __m256 load8_fn(const uint8_t *row, int64_t i); /* elements i .. i+7 as f32 */

FY_INLINE __m256 load8_f32(const uint8_t *row, int64_t i)
{
    return _mm256_castsi256_ps(fy_load256(row + 4 * i));
}

FY_INLINE __m256 load8_f16(const uint8_t *row, int64_t i)
{
    return fy_widen_f16(row + 2 * i);
}

FY_INLINE __m256 load8_bf16(const uint8_t *row, int64_t i)
{
    return fy_widen_bf16(row + 2 * i);
}

/* The last n < 8 elements of a row, zeros after them. */
FY_INLINE __m256 load_rest(const uint8_t *row, int64_t i, int64_t n, size_t size, load8_fn *load8)
{
    uint8_t buffer[32] = {0};
    memcpy(buffer, row + (size_t)i * size, (size_t)n * size);
    return load8(buffer, 0);
}

/* n_rows x n_cols dot products, both constants. Prefetches as much from `next` on as it reads,
 * where that is not NULL. */
FY_INLINE void dots(float *y, int64_t ldy, const uint8_t *W, size_t row_bytes, const float *x,
                    int64_t k, int n_rows, int n_cols, size_t size, load8_fn *load8,
                    const char *next)
{
    __m256 acc[8][4];
    FY_UNROLL
    for (int r = 0; r < n_rows; r++) {
        FY_UNROLL
        for (int c = 0; c < n_cols; c++)
            acc[r][c] = _mm256_setzero_ps();
    }
    const int64_t whole = k & ~(int64_t)7;
    const size_t step_bytes = 8 * size * (size_t)n_rows;
    for (int64_t i = 0; i < whole; i += 8) {
        FY_UNROLL
        for (size_t line = 0; next != NULL && line < step_bytes; line += 64)
            _mm_prefetch(next + (size_t)(i / 8) * step_bytes + line, _MM_HINT_T1);
        FY_UNROLL
        for (int r = 0; r < n_rows; r++) {
            const __m256 w = load8(W + (size_t)r * row_bytes, i);
            FY_UNROLL
            for (int c = 0; c < n_cols; c++)
                acc[r][c] = _mm256_fmadd_ps(w, _mm256_loadu_ps(x + c * k + i), acc[r][c]);
        }
    }
    if (whole < k) {
        FY_UNROLL
        for (int r = 0; r < n_rows; r++) {
            const __m256 w = load_rest(W + (size_t)r * row_bytes, whole, k - whole, size, load8);
            FY_UNROLL
            for (int c = 0; c < n_cols; c++)
                acc[r][c] =
                    _mm256_fmadd_ps(w, fy_load_lanes(x + c * k + whole, k - whole), acc[r][c]);
        }
    }
    FY_UNROLL
    for (int r = 0; r < n_rows; r++) {
        FY_UNROLL
        for (int c = 0; c < n_cols; c++)
            y[c * ldy + r] = fy_hsum(acc[r][c]);
    }
}

/* One column. */
FY_INLINE void matvec(float *y, const void *W, size_t row_bytes, int64_t row_begin, int64_t row_end,
                      const fy_act *a, size_t size, load8_fn *load8)
{
    const size_t ahead = fy_prefetch_ahead(8 * row_bytes);
    const uint8_t *w = (const uint8_t *)W + (size_t)row_begin * row_bytes;
    fy_touch_pages(w, (size_t)(row_end - row_begin) * row_bytes + ahead);
    int64_t r = row_begin;
    for (; r + 8 <= row_end; r += 8, w += 8 * row_bytes)
        dots(y + r, 0, w, row_bytes, a->x, a->k, 8, 1, size, load8,
             (const char *)((uintptr_t)w + ahead));
    for (; r < row_end; r++, w += row_bytes)
        dots(y + r, 0, w, row_bytes, a->x, a->k, 1, 1, size, load8, NULL);
}

/* n_rows rows of all columns. */
FY_INLINE void multiply_rows(float *y, int64_t ldy, const uint8_t *w, size_t row_bytes,
                             const fy_act *a, int64_t n_cols, int n_rows, size_t size,
                             load8_fn *load8)
{
    const int64_t k = a->k;
    int64_t c = 0;
    for (; c + 4 <= n_cols; c += 4)
        dots(y + c * ldy, ldy, w, row_bytes, a->x + c * k, k, n_rows, 4, size, load8, NULL);
    for (; c < n_cols; c++)
        dots(y + c * ldy, ldy, w, row_bytes, a->x + c * k, k, n_rows, 1, size, load8, NULL);
}

FY_INLINE void matmul(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                      int64_t row_end, const fy_act *a, int64_t n_cols, size_t size,
                      load8_fn *load8)
{
    if (n_cols == 1) {
        matvec(y, W, row_bytes, row_begin, row_end, a, size, load8);
        return;
    }
    const uint8_t *w = (const uint8_t *)W + (size_t)row_begin * row_bytes;
    int64_t r = row_begin;
    for (; r + 3 <= row_end; r += 3, w += 3 * row_bytes)
        multiply_rows(y + r, ldy, w, row_bytes, a, n_cols, 3, size, load8);
    for (; r < row_end; r++, w += row_bytes)
        multiply_rows(y + r, ldy, w, row_bytes, a, n_cols, 1, size, load8);
}

#define DEFINE_MATMUL(type, size)                                                         \
    void fy_matmul_##type##__avx2(float *y, int64_t ldy, const void *W, size_t row_bytes, \
                                  int64_t row_begin, int64_t row_end, const fy_act *a,    \
                                  int64_t n_cols, void *scratch)                          \
    {                                                                                     \
        (void)scratch;                                                                    \
        matmul(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, size, load8_##type);  \
    }

DEFINE_MATMUL(f32, 4)
DEFINE_MATMUL(f16, 2)
DEFINE_MATMUL(bf16, 2)
