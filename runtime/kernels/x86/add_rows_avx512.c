/* Sums of listed rows (add_rows_avx2.c) in AVX-512, of the types that are quantized: a register
 * holds the 16 values of a q4_0 block, out of which its codes choose. Eight rows go through the sums
 * together. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/tile_avx2.h"

enum { TOGETHER = 8 };

/* The 32 elements of a block. */
typedef void load32_fn(__m512 v[2], const uint8_t *block);

FY_INLINE __m512 scale_of(const uint8_t *block)
{
    short half;
    memcpy(&half, block, sizeof half);
    return _mm512_cvtph_ps(_mm256_set1_epi16(half));
}

FY_INLINE void load32_q8_0(__m512 v[2], const uint8_t *block)
{
    const uint8_t *qs = block + offsetof(fy_block_q8_0, qs);
    const __m512 d = scale_of(block);
    v[0] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(fy_load128(qs))));
    v[1] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(fy_load128(qs + 16))));
}

FY_INLINE void load32_q4_0(__m512 v[2], const uint8_t *block)
{
    const __m512 levels = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m512 values = _mm512_mul_ps(levels, scale_of(block));
    const __m512i codes = /* low four bits count */
        _mm512_cvtepu8_epi32(fy_load128(block + offsetof(fy_block_q4_0, qs)));
    v[0] = _mm512_permutexvar_ps(codes, values);
    v[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), values);
}

/* n rows, a constant, from the i-th of the n_list listed ones on. */
FY_INLINE void add_some(float *y, const float *p, const uint8_t *W, size_t row_bytes,
                        const int32_t *list, int64_t i, int64_t n_list, int64_t n_blocks,
                        size_t block_bytes, int n, load32_fn *load)
{
    const uint8_t *row[TOGETHER], *next[TOGETHER];
    FY_UNROLL
    for (int r = 0; r < n; r++) {
        row[r] = W + (size_t)list[i + r] * row_bytes;
        next[r] = W + (size_t)list[i + n + r < n_list ? i + n + r : n_list - 1] * row_bytes;
    }
    for (int64_t b = 0; b < n_blocks; b++, y += FY_QK) {
        const size_t offset = (size_t)b * block_bytes;
        fy_prefetch_listed(next, n, offset, block_bytes);
        __m512 sum[2] = {_mm512_loadu_ps(y), _mm512_loadu_ps(y + 16)};
        FY_UNROLL
        for (int r = 0; r < n; r++) {
            __m512 v[2];
            load(v, row[r] + offset);
            const __m512 weight = _mm512_set1_ps(p[i + r]);
            sum[0] = _mm512_fmadd_ps(weight, v[0], sum[0]);
            sum[1] = _mm512_fmadd_ps(weight, v[1], sum[1]);
        }
        _mm512_storeu_ps(y, sum[0]);
        _mm512_storeu_ps(y + 16, sum[1]);
    }
}

#define DEFINE_ADD_ROWS(type)                                                                     \
    void fy_add_rows_##type##__avx512(float *y, const float *p, const void *W, size_t row_bytes,  \
                                      const int32_t *rows, int64_t n, int64_t n_cols)             \
    {                                                                                             \
        int64_t i = 0;                                                                            \
        for (; i + TOGETHER <= n; i += TOGETHER)                                                  \
            add_some(y, p, W, row_bytes, rows, i, n, n_cols / FY_QK, sizeof(fy_block_##type),     \
                     TOGETHER, load32_##type);                                                    \
        for (; i < n; i++)                                                                        \
            add_some(y, p, W, row_bytes, rows, i, n, n_cols / FY_QK, sizeof(fy_block_##type), 1,  \
                     load32_##type);                                                              \
    }

DEFINE_ADD_ROWS(q8_0)
DEFINE_ADD_ROWS(q4_0)
