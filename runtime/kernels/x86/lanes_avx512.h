/* Lanes (scalar/lanes_scalar.h) in AVX-512: 16. tests/kcheck also builds this for an emulation. */
#ifndef FY_KERNELS_X86_LANES_AVX512_H
#define FY_KERNELS_X86_LANES_AVX512_H

#include "kernels/x86/vec_avx2.h"

#define FY_X(op) _mm512_##op

enum { FY_LANES = 16 };

typedef __m512 fy_lanes;
typedef __m512i fy_l_ints;
typedef __mmask16 fy_lanes_mask;

#define fy_l_bits_of   _mm512_castps_si512
#define fy_l_floats_of _mm512_castsi512_ps
#define fy_l_abs       _mm512_abs_ps

FY_INLINE fy_lanes fy_l_round(fy_lanes v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

FY_INLINE fy_lanes_mask fy_l_less(fy_lanes a, fy_lanes b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

FY_INLINE fy_lanes_mask fy_l_equal(fy_lanes a, fy_lanes b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

FY_INLINE fy_lanes_mask fy_l_and(fy_lanes_mask a, fy_lanes_mask b)
{
    return (fy_lanes_mask)(a & b);
}

FY_INLINE fy_lanes fy_l_select(fy_lanes_mask m, fy_lanes yes, fy_lanes no)
{
    return _mm512_mask_blend_ps(m, no, yes);
}

FY_INLINE bool fy_l_all(fy_lanes_mask m)
{
    return m == 0xffff;
}

/* As fy_k_nearest_between, for any v. */
FY_INLINE fy_lanes fy_l_nearest_between(fy_lanes v, int low, int high)
{
    const __m512i bits = _mm512_castps_si512(_mm512_add_ps(v, _mm512_set1_ps(12582912.0f)));
    const __m512i q = _mm512_sub_epi32(_mm512_and_si512(bits, _mm512_set1_epi32(0x007fffff)),
                                       _mm512_set1_epi32(0x00400000));
    return _mm512_cvtepi32_ps(
        _mm512_min_epi32(_mm512_max_epi32(q, _mm512_set1_epi32(low)), _mm512_set1_epi32(high)));
}

/* p * 2^n, rounded once. */
FY_INLINE fy_lanes fy_l_times_power(fy_lanes p, fy_lanes n)
{
    return _mm512_scalef_ps(p, n);
}

#include "kernels/x86/x86_lanes.h"

#endif
