/* The activations' quantizer: a block is two registers. Otherwise as in block_avx2.c. */
#include "kernels/kernel_impl.h"
#include "kernels/x86/vec_avx2.h"

/* The largest magnitude. Magnitudes compare as integers, and there a NaN is larger than everything.
 */
FY_INLINE float largest(__m512 a, __m512 b)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const __m512i m = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                       _mm512_and_si512(_mm512_castps_si512(b), magnitude));
    const __m512 f = _mm512_castsi512_ps(m);
    const __m256i n = _mm256_max_epi32(_mm256_castps_si256(_mm512_castps512_ps256(f)),
                                       _mm256_castps_si256(_mm512_extractf32x8_ps(f, 1)));
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(h));
}

/* x * id rounded half away from zero: 0.49999997, the float below one half, pushes exactly the
 * values from one half on over the next integer before truncation. */
FY_INLINE __m128i round_q8(__m512 x, __m512 id)
{
    const __m512 v = _mm512_mul_ps(x, id);
    const __m512i sign =
        _mm512_and_si512(_mm512_castps_si512(v), _mm512_castps_si512(_mm512_set1_ps(-0.0f)));
    const __m512i half = _mm512_castps_si512(_mm512_set1_ps(0.49999997f));
    const __m512 away = _mm512_castsi512_ps(_mm512_or_si512(sign, half));
    return _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(_mm512_add_ps(v, away)));
}

FY_INLINE int32_t sum_bytes(__m256i q)
{
    const __m256i s = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1)));
}

void fy_act_quantize__avx512(const fy_act *a, int64_t col_begin, int64_t col_end)
{
    const int64_t n_blocks = a->k / FY_QK;
    for (int64_t b = col_begin * n_blocks; b < col_end * n_blocks; b++) {
        const __m512 low = _mm512_loadu_ps(a->x + b * FY_QK);
        const __m512 high = _mm512_loadu_ps(a->x + b * FY_QK + 16);
        const float d = largest(low, high) / 127.0f, id = fy_inverse(d);
        __m256i q = _mm256_setzero_si256();
        if (id != 0.0f) /* or else a block of zeros, whatever x holds */
            q = _mm256_inserti128_si256(_mm256_castsi128_si256(round_q8(low, _mm512_set1_ps(id))),
                                        round_q8(high, _mm512_set1_ps(id)), 1);
        _mm256_storeu_si256((__m256i *)(a->q + b * FY_QK), q);
        a->d[b] = d;
        a->sum[b] = sum_bytes(q);
    }
}
