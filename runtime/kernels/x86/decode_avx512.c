/* Rows of q4_0 to f32 in AVX-512: a block has only 16 values, which a register holds. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/vec_avx2.h"

void fy_decode_q4_0__avx512(float *y, const fy_block_q4_0 *x, int64_t n)
{
    const __m512 levels = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    for (int64_t b = 0; b < n / FY_QK; b++, y += FY_QK) {
        const __m512 d = _mm512_cvtph_ps(_mm256_set1_epi16((short)x[b].d));
        const __m512 values = _mm512_mul_ps(levels, d);
        const __m512i codes = _mm512_cvtepu8_epi32(fy_load128(x[b].qs)); /* low four bits count */
        _mm512_storeu_ps(y, _mm512_permutexvar_ps(codes, values));
        _mm512_storeu_ps(y + 16, _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), values));
    }
}
