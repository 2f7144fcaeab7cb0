/* Activation functions and the soft cap (scalar/activation_lanes.h) in AVX-512. */
#include "kernels/x86/lanes_avx512.h"

#define FY_E_ISA avx512

FY_INLINE __mmask16 first(int64_t n)
{
    return (__mmask16)(n < FY_LANES ? (1u << n) - 1 : 0xffff);
}

FY_INLINE fy_lanes fy_l_load_some(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps(first(n), p);
}

FY_INLINE void fy_l_store_some(float *p, fy_lanes v, int64_t n)
{
    _mm512_mask_storeu_ps(p, first(n), v);
}

/* v >= 0 with the sign of x. */
FY_INLINE fy_lanes fy_l_with_sign(fy_lanes v, fy_lanes x)
{
    return _mm512_or_ps(v, _mm512_and_ps(x, _mm512_set1_ps(-0.0f)));
}

#include "kernels/scalar/activation_lanes.h"
