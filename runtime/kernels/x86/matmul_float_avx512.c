/* f32, f16 and bf16 weights times f32 activations.
 *
 * The contract's 8 partial sums are half a register: the other half belongs to the next row. Four
 * such pairs times six columns are 24 chains of 32 registers, fed by 8 loads of weights and 6 of
 * activations. One column is bound by reading W. Rows that are left over are the AVX2 kernel's. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/vec_avx2.h"

enum { PAIRS = 4, COLS = 6 };

/* Elements i .. i+7 of two rows as f32. */
typedef __m512 load_pair_fn(const uint8_t *low, const uint8_t *high, int64_t i);

FY_INLINE __m512 load_pair_f32(const uint8_t *low, const uint8_t *high, int64_t i)
{
    const __m256 a = _mm256_castsi256_ps(fy_load256(low + 4 * i));
    const __m256 b = _mm256_castsi256_ps(fy_load256(high + 4 * i));
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}

/* 16 bytes of two rows. */
FY_INLINE __m256i load_halves(const uint8_t *low, const uint8_t *high, int64_t i)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(fy_load128(low + 2 * i)),
                                   fy_load128(high + 2 * i), 1);
}

FY_INLINE __m512 load_pair_f16(const uint8_t *low, const uint8_t *high, int64_t i)
{
    return _mm512_cvtph_ps(load_halves(low, high, i));
}

FY_INLINE __m512 load_pair_bf16(const uint8_t *low, const uint8_t *high, int64_t i)
{
    const __m512i wide = _mm512_cvtepu16_epi32(load_halves(low, high, i));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* The last n < 8 elements of two rows, zeros after them. */
FY_INLINE __m512 load_rest(const uint8_t *low, const uint8_t *high, int64_t i, int64_t n,
                           size_t size, load_pair_fn *load)
{
    uint8_t a[32] = {0}, b[32] = {0};
    memcpy(a, low + (size_t)i * size, (size_t)n * size);
    memcpy(b, high + (size_t)i * size, (size_t)n * size);
    return load(a, b, 0);
}

FY_INLINE void add_products(__m512 acc[PAIRS][COLS], const __m512 w[PAIRS], __m256 x, int c)
{
    const __m512 both = _mm512_broadcast_f32x8(x);
    FY_UNROLL
    for (int p = 0; p < PAIRS; p++)
        acc[p][c] = _mm512_fmadd_ps(w[p], both, acc[p][c]);
}

/* 2 * PAIRS rows times n_cols, a constant. */
FY_INLINE void dots(float *y, int64_t ldy, const uint8_t *W, size_t row_bytes, const float *x,
                    int64_t k, int n_cols, size_t size, load_pair_fn *load)
{
    __m512 acc[PAIRS][COLS], w[PAIRS];
    FY_UNROLL
    for (int p = 0; p < PAIRS; p++) {
        FY_UNROLL
        for (int c = 0; c < n_cols; c++)
            acc[p][c] = _mm512_setzero_ps();
    }
    const int64_t whole = k & ~(int64_t)7;
    for (int64_t i = 0; i < whole; i += 8) {
        FY_UNROLL
        for (int p = 0; p < PAIRS; p++)
            w[p] = load(W + (size_t)(2 * p) * row_bytes, W + (size_t)(2 * p + 1) * row_bytes, i);
        FY_UNROLL
        for (int c = 0; c < n_cols; c++)
            add_products(acc, w, _mm256_loadu_ps(x + c * k + i), c);
    }
    if (whole < k) {
        FY_UNROLL
        for (int p = 0; p < PAIRS; p++)
            w[p] = load_rest(W + (size_t)(2 * p) * row_bytes, W + (size_t)(2 * p + 1) * row_bytes,
                             whole, k - whole, size, load);
        FY_UNROLL
        for (int c = 0; c < n_cols; c++)
            add_products(acc, w, fy_load_lanes(x + c * k + whole, k - whole), c);
    }
    FY_UNROLL
    for (int c = 0; c < n_cols; c++) {
        FY_UNROLL
        for (int p = 0; p < PAIRS; p++) {
            y[c * ldy + 2 * p] = fy_hsum(_mm512_castps512_ps256(acc[p][c]));
            y[c * ldy + 2 * p + 1] = fy_hsum(_mm512_extractf32x8_ps(acc[p][c], 1));
        }
    }
}

/* All rows in whole steps; returns the first that is left over. */
FY_INLINE int64_t matmul(float *y, int64_t ldy, const void *W, size_t row_bytes, int64_t row_begin,
                         int64_t row_end, const fy_act *a, int64_t n_cols, size_t size,
                         load_pair_fn *load)
{
    const int64_t k = a->k;
    int64_t r = row_begin;
    for (; row_end - r >= 2 * PAIRS; r += 2 * PAIRS) {
        const uint8_t *w = (const uint8_t *)W + (size_t)r * row_bytes;
        int64_t c = 0;
        for (; n_cols - c >= COLS; c += COLS)
            dots(y + c * ldy + r, ldy, w, row_bytes, a->x + c * k, k, COLS, size, load);
        for (; n_cols - c >= 2; c += 2)
            dots(y + c * ldy + r, ldy, w, row_bytes, a->x + c * k, k, 2, size, load);
        if (c < n_cols)
            dots(y + c * ldy + r, ldy, w, row_bytes, a->x + c * k, k, 1, size, load);
    }
    return r;
}

#define DEFINE_MATMUL(type, size)                                                                \
    void fy_matmul_##type##__avx512(float *y, int64_t ldy, const void *W, size_t row_bytes,      \
                                    int64_t row_begin, int64_t row_end, const fy_act *a,         \
                                    int64_t n_cols, void *scratch)                               \
    {                                                                                            \
        const int64_t rest =                                                                     \
            matmul(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, size, load_pair_##type); \
        fy_matmul_##type##__avx2(y, ldy, W, row_bytes, rest, row_end, a, n_cols, scratch);       \
    }

DEFINE_MATMUL(f32, 4)
DEFINE_MATMUL(f16, 2)
DEFINE_MATMUL(bf16, 2)
