/* AVX-512 and AVX-VNNI for machines without: SIMDe's, and from the definitions in Intel's
 * Intrinsics Guide what SIMDe 0.7.4 lacks. Read before a kernel's source, whose intrinsics become
 * functions on AVX2, where fused multiply-adds are fused. */
#ifndef FY_TESTS_EMULATE_AVX512_H
#define FY_TESTS_EMULATE_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#if !defined(__FMA__) || !defined(__AVX2__) || !defined(__F16C__) || defined(__AVX512F__)
#error "the emulation is for AVX2 with FMA and F16C"
#endif

typedef union {
    __m512i i;
    __m512 f;
    __m256i i256[2];
    __m256 f256[2];
    int32_t i32[16];
    float f32[16];
} fy_em512;

/* What AVX2 does with the halves. */
#define FY_EM_HALVES(name, result, out, argument, in)  \
    static inline result fy_em_##name(argument v)      \
    {                                                  \
        const fy_em512 a = {.in = v};                  \
        fy_em512 r;                                    \
        r.out##256 [0] = _mm256_##name(a.in##256 [0]); \
        r.out##256 [1] = _mm256_##name(a.in##256 [1]); \
        return r.out;                                  \
    }
FY_EM_HALVES(cvtepi32_ps, __m512, f, __m512i, i)
FY_EM_HALVES(cvtps_epi32, __m512i, i, __m512, f)
FY_EM_HALVES(cvttps_epi32, __m512i, i, __m512, f)

/* SIMDe 0.7.4 underflows before it multiplies. Here n is an integer of at most 150. */
static inline __m512 fy_em_scalef_ps(__m512 v, __m512 n)
{
    const fy_em512 x = {.f = v}, power = {.f = n};
    fy_em512 r;
    for (int i = 0; i < 16; i++)
        r.f32[i] = ldexpf(x.f32[i], isnan(power.f32[i]) ? 0 : (int)power.f32[i]);
    return r.f;
}

/* SIMDe wants the number of bits as a literal. */
#define FY_EM_SHIFT(name)                                     \
    static inline __m512i fy_em_##name(__m512i v, unsigned n) \
    {                                                         \
        fy_em512 u = {.i = v};                                \
        u.i256[0] = _mm256_##name(u.i256[0], (int)n);         \
        u.i256[1] = _mm256_##name(u.i256[1], (int)n);         \
        return u.i;                                           \
    }
FY_EM_SHIFT(slli_epi16)
FY_EM_SHIFT(srli_epi16)
FY_EM_SHIFT(slli_epi32)
FY_EM_SHIFT(srli_epi32)
FY_EM_SHIFT(srai_epi32)

/* Quarters, two of a and two of b. */
static inline __m512 fy_em_shuffle_f32x4(__m512 a, __m512 b, int which)
{
    const fy_em512 x = {.f = a}, y = {.f = b};
    fy_em512 r;
    for (int i = 0; i < 4; i++)
        memcpy(&r.i32[4 * i], &(i < 2 ? x : y).i32[4 * (which >> 2 * i & 3)], 16);
    return r.f;
}
static inline __m512 fy_em_cvtph_ps(__m256i v)
{
    fy_em512 u;
    u.f256[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(v));
    u.f256[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1));
    return u.f;
}

static inline __m512i fy_em_cvtepu16_epi32(__m256i v)
{
    fy_em512 u;
    u.i256[0] = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(v));
    u.i256[1] = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1));
    return u.i;
}

#define FY_EM_BYTES(name)                                \
    static inline __m512i fy_em_##name(__m128i v)        \
    {                                                    \
        fy_em512 u;                                      \
        u.i256[0] = _mm256_##name(v);                    \
        u.i256[1] = _mm256_##name(_mm_srli_si128(v, 8)); \
        return u.i;                                      \
    }
FY_EM_BYTES(cvtepi8_epi32)
FY_EM_BYTES(cvtepu8_epi32)

static inline __m256i fy_em_cvtepi32_epi16(__m512i v)
{
    union {
        __m256i v;
        uint16_t u16[16];
    } out;
    const fy_em512 u = {.i = v};
    for (int i = 0; i < 16; i++)
        out.u16[i] = (uint16_t)u.i32[i];
    return out.v;
}

static inline __m128i fy_em_cvtepi32_epi8(__m512i v)
{
    union {
        __m128i v;
        uint8_t u8[16];
    } out;
    const fy_em512 u = {.i = v};
    for (int i = 0; i < 16; i++)
        out.u8[i] = (uint8_t)u.i32[i];
    return out.v;
}

static inline __m256 fy_em_extractf32x8_ps(__m512 v, int half)
{
    const fy_em512 u = {.f = v};
    return u.f256[half];
}

static inline __m512 fy_em_maskz_loadu_ps(__mmask16 mask, const void *p)
{
    fy_em512 u = {.i = _mm512_setzero_si512()};
    for (int i = 0; i < 16; i++) {
        if (mask >> i & 1)
            memcpy(&u.i32[i], (const char *)p + 4 * i, 4);
    }
    return u.f;
}

static inline void fy_em_mask_storeu_ps(void *p, __mmask16 mask, __m512 v)
{
    const fy_em512 u = {.f = v};
    for (int i = 0; i < 16; i++) {
        if (mask >> i & 1)
            memcpy((char *)p + 4 * i, &u.i32[i], 4);
    }
}

#undef _mm512_cvtepi32_ps
#undef _mm512_cvtps_epi32
#undef _mm512_cvttps_epi32
#undef _mm512_slli_epi16
#undef _mm512_srli_epi16
#undef _mm512_slli_epi32
#undef _mm512_srli_epi32
#undef _mm512_srai_epi32
#undef _mm512_cvtph_ps
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu8_epi32
#undef _mm512_cvtepi32_epi16
#undef _mm512_cvtepi32_epi8
#undef _mm512_extractf32x8_ps
#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_scalef_ps
#undef _mm256_dpbusd_avx_epi32
#define _mm512_cvtepi32_ps      fy_em_cvtepi32_ps
#define _mm512_cvtps_epi32      fy_em_cvtps_epi32
#define _mm512_cvttps_epi32     fy_em_cvttps_epi32
#define _mm512_slli_epi16       fy_em_slli_epi16
#define _mm512_srli_epi16       fy_em_srli_epi16
#define _mm512_slli_epi32       fy_em_slli_epi32
#define _mm512_srli_epi32       fy_em_srli_epi32
#define _mm512_srai_epi32       fy_em_srai_epi32
#define _mm512_cvtph_ps         fy_em_cvtph_ps
#define _mm512_cvtepu16_epi32   fy_em_cvtepu16_epi32
#define _mm512_cvtepi8_epi32    fy_em_cvtepi8_epi32
#define _mm512_cvtepu8_epi32    fy_em_cvtepu8_epi32
#define _mm512_cvtepi32_epi16   fy_em_cvtepi32_epi16
#define _mm512_cvtepi32_epi8    fy_em_cvtepi32_epi8
#define _mm512_extractf32x8_ps  fy_em_extractf32x8_ps
#define _mm512_maskz_loadu_ps   fy_em_maskz_loadu_ps
#define _mm512_mask_storeu_ps   fy_em_mask_storeu_ps
#define _mm512_shuffle_f32x4    fy_em_shuffle_f32x4
#define _mm512_scalef_ps        fy_em_scalef_ps
#define _mm256_dpbusd_avx_epi32 simde_mm256_dpbusd_epi32

#endif
