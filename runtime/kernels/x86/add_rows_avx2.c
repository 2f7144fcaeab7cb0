/* Sums of listed rows of a matrix, each times a number (kernels.h): bound by reading the rows,
 * which lie apart, and for blocks by widening them. Four rows go through the sums together, so that
 * these are read and written once for four; the next four are prefetched meanwhile. */
#include <math.h>

#include "kernels/kernel_impl.h"
#include "kernels/x86/tile_avx2.h"

enum { TOGETHER = 4 };

/* 32 elements of a row from element j on, a multiple of 32. */
typedef void load32_fn(__m256 v[4], const uint8_t *row, int64_t j);
/* One element, of types without blocks. */
typedef float element_fn(const uint8_t *row, int64_t j);

FY_INLINE void load32_f16(__m256 v[4], const uint8_t *row, int64_t j)
{
    FY_UNROLL
    for (int k = 0; k < 4; k++)
        v[k] = fy_widen_f16(row + 2 * j + 16 * k);
}

FY_INLINE __m256 scale_of(const uint8_t *block)
{
    short half;
    memcpy(&half, block, sizeof half);
    return _mm256_cvtph_ps(_mm_set1_epi16(half));
}

/* The first eight of signed bytes, times d. */
FY_INLINE __m256 widen8(__m128i bytes, __m256 d)
{
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
}

FY_INLINE void load32_q8_0(__m256 v[4], const uint8_t *row, int64_t j)
{
    const uint8_t *block = row + j / FY_QK * (int64_t)sizeof(fy_block_q8_0);
    const uint8_t *qs = block + offsetof(fy_block_q8_0, qs);
    const __m256 d = scale_of(block);
    FY_UNROLL
    for (int k = 0; k < 4; k++)
        v[k] = widen8(_mm_loadl_epi64((const __m128i *)(const void *)(qs + 8 * k)), d);
}

FY_INLINE void load32_q4_0(__m256 v[4], const uint8_t *row, int64_t j)
{
    const uint8_t *block = row + j / FY_QK * (int64_t)sizeof(fy_block_q4_0);
    const __m128i bytes = fy_load128(block + offsetof(fy_block_q4_0, qs));
    const __m128i low_nibble = _mm_set1_epi8(15), above = _mm_set1_epi8(8);
    const __m128i low = _mm_sub_epi8(_mm_and_si128(bytes, low_nibble), above);
    const __m128i high = _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(bytes, 4), low_nibble), above);
    const __m256 d = scale_of(block);
    v[0] = widen8(low, d);
    v[1] = widen8(_mm_srli_si128(low, 8), d);
    v[2] = widen8(high, d);
    v[3] = widen8(_mm_srli_si128(high, 8), d);
}

static float element_f16(const uint8_t *row, int64_t j)
{
    uint16_t h;
    memcpy(&h, row + 2 * j, sizeof h);
    return fy_f16_to_f32(h);
}

/* n rows, a constant, from the i-th of the n_list listed ones on. bytes32: of 32 elements. */
FY_INLINE void add_some(float *y, const float *p, const uint8_t *W, size_t row_bytes,
                        const int32_t *list, int64_t i, int64_t n_list, int64_t n_cols,
                        size_t bytes32, int n, load32_fn *load, element_fn *element)
{
    const uint8_t *row[TOGETHER], *next[TOGETHER];
    FY_UNROLL
    for (int r = 0; r < n; r++) {
        row[r] = W + (size_t)list[i + r] * row_bytes;
        next[r] = W + (size_t)list[i + n + r < n_list ? i + n + r : n_list - 1] * row_bytes;
    }
    int64_t j = 0;
    for (; j + FY_QK <= n_cols; j += FY_QK) {
        __m256 sum[4];
        fy_prefetch_listed(next, n, (size_t)(j / FY_QK) * bytes32, bytes32);
        FY_UNROLL
        for (int k = 0; k < 4; k++)
            sum[k] = _mm256_loadu_ps(y + j + 8 * k);
        FY_UNROLL
        for (int r = 0; r < n; r++) {
            __m256 v[4];
            load(v, row[r], j);
            const __m256 weight = _mm256_set1_ps(p[i + r]);
            FY_UNROLL
            for (int k = 0; k < 4; k++)
                sum[k] = _mm256_fmadd_ps(weight, v[k], sum[k]);
        }
        FY_UNROLL
        for (int k = 0; k < 4; k++)
            _mm256_storeu_ps(y + j + 8 * k, sum[k]);
    }
    for (; element != NULL && j < n_cols; j++) {
        for (int r = 0; r < n; r++)
            y[j] = fmaf(p[i + r], element(row[r], j), y[j]);
    }
}

FY_INLINE void add_rows(float *y, const float *p, const uint8_t *W, size_t row_bytes,
                        const int32_t *list, int64_t n, int64_t n_cols, size_t bytes32,
                        load32_fn *load, element_fn *element)
{
    int64_t i = 0;
    for (; i + TOGETHER <= n; i += TOGETHER)
        add_some(y, p, W, row_bytes, list, i, n, n_cols, bytes32, TOGETHER, load, element);
    for (; i < n; i++)
        add_some(y, p, W, row_bytes, list, i, n, n_cols, bytes32, 1, load, element);
}

#define DEFINE_ADD_ROWS(type, bytes32, element)                                                \
    void fy_add_rows_##type##__avx2(float *y, const float *p, const void *W, size_t row_bytes, \
                                    const int32_t *rows, int64_t n, int64_t n_cols)            \
    {                                                                                          \
        add_rows(y, p, W, row_bytes, rows, n, n_cols, bytes32, load32_##type, element);        \
    }

DEFINE_ADD_ROWS(f16, 2 * FY_QK, element_f16)
DEFINE_ADD_ROWS(q8_0, sizeof(fy_block_q8_0), NULL)
DEFINE_ADD_ROWS(q4_0, sizeof(fy_block_q4_0), NULL)
