/* Small vector helpers of the AVX2 kernels. */
#ifndef FY_KERNELS_X86_VEC_AVX2_H
#define FY_KERNELS_X86_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "base/types.h"

/* Loops over register arrays are written as loops: they must be unrolled whole or the arrays go to
 * memory. With sanitizers, which put checks into them, that would take minutes and gain nothing. */
#ifndef __clang__
#define FY_UNROLL _Pragma("GCC unroll 16")
#elif __has_feature(address_sanitizer)
#define FY_UNROLL
#else
#define FY_UNROLL _Pragma("clang loop unroll(full)")
#endif
#define FY_INLINE static inline __attribute__((always_inline))

/* The integer multiply-add loops name their registers, because gcc regroups sums into trees and
 * spills every product, and reads a weight again for each column that uses it. Hiding where a value
 * comes from stops both. Measured on q4_0, 128 columns, Zen 4 without AVX-512: 69 GMAC/s before,
 * 103 after. */
#define FY_KEEP_IN_REGISTER(v) __asm__("" : "+x"(v))
/* Four bytes of a stored vector are broadcast by a load; from a register it would take two
 * shuffles. */
#define FY_KEEP_IN_MEMORY(v) __asm__("" : "+m"(v))

/* Streaming a weight matrix. The prefetch runs at least the rows that are being read ahead, or it
 * would ask for what is read already; from 16 KB on the distance does not matter, nearer is slower,
 * and so is fetching into the first-level cache.
 *
 * Before that, one touch for every page of the range: the walks of the page table, long ones in a
 * virtual machine, then overlap instead of stopping the stream every 4 KB. Measured with q4_0, k =
 * 2048, one thread: 7 GB/s without any of it, 16.5 with the prefetch, 20.3 with both, 23.5 from the
 * cache. */
enum { FY_PREFETCH_BYTES = 24 << 10, FY_PAGE_BYTES = 4 << 10 };

FY_INLINE size_t fy_prefetch_ahead(size_t reading_bytes)
{
    return reading_bytes > FY_PREFETCH_BYTES ? reading_bytes : FY_PREFETCH_BYTES;
}

FY_INLINE void fy_touch_pages(const void *p, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += FY_PAGE_BYTES)
        _mm_prefetch((const char *)((uintptr_t)p + i), _MM_HINT_T1);
}

FY_INLINE __m256i fy_load256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

FY_INLINE __m128i fy_load128(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

FY_INLINE void fy_store256(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

/* The first n lanes, n <= 0 none, n >= 8 all. */
FY_INLINE __m256i fy_lane_mask(int64_t n)
{
    const int lanes = n < 0 ? 0 : n > 8 ? 8 : (int)n;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

FY_INLINE __m256 fy_load_lanes(const float *p, int64_t n)
{
    return _mm256_maskload_ps(p, fy_lane_mask(n));
}

FY_INLINE void fy_store_lanes(float *p, __m256 v, int64_t n)
{
    if (n >= 8)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, fy_lane_mask(n), v);
}

FY_INLINE __m256 fy_abs(__m256 v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

FY_INLINE float fy_hsum(__m256 v)
{
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

FY_INLINE float fy_hmax(__m256 v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

FY_INLINE __m256 fy_widen_f16(const void *p)
{
    return _mm256_cvtph_ps(fy_load128(p));
}

FY_INLINE __m256 fy_widen_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(fy_load128(p)), 16));
}

/* As fy_k_nearest_between of the scalar encoders, for any v. */
FY_INLINE __m256i fy_nearest_between(__m256 v, int low, int high)
{
    const __m256i bits = _mm256_castps_si256(_mm256_add_ps(v, _mm256_set1_ps(12582912.0f)));
    const __m256i q = _mm256_sub_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff)),
                                       _mm256_set1_epi32(0x00400000));
    return _mm256_min_epi32(_mm256_max_epi32(q, _mm256_set1_epi32(low)), _mm256_set1_epi32(high));
}

/* Four vectors of small int32 -> 32 bytes in order. */
FY_INLINE __m256i fy_pack32(const __m256i q[4])
{
    const __m256i words_a = _mm256_packs_epi32(q[0], q[1]),
                  words_b = _mm256_packs_epi32(q[2], q[3]);
    const __m256i bytes = _mm256_packs_epi16(words_a, words_b);
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* 1 / d, or 0 when d is zero or the quotient is not finite. */
FY_INLINE float fy_inverse(float d)
{
    const float id = d != 0.0f ? 1.0f / d : 0.0f;
    return id - id == 0.0f ? id : 0.0f;
}

#endif
