/* Activation functions and the soft cap, for the lanes of the file that includes this
 * (lanes_scalar.h), which it says in FY_E_ISA: bound by the arithmetic of fy_exp. */
#include "kernels/kernel_impl.h"
#include "kernels/scalar/exp_lanes.h"

#define FY_E_NAME2(op, isa) fy_##op##__##isa
#define FY_E_NAME1(op, isa) FY_E_NAME2(op, isa)
#define FY_E_NAME(op)       FY_E_NAME1(op, FY_E_ISA)

#define FY_OAI_LIMIT 7.0f

/* a, b: what else it takes, the same for all elements. */
typedef fy_lanes fy_e_fn(fy_lanes v, float a, float b);

/* n lanes of x from `at` on to f(x), times `up` where that is not NULL. */
FY_INLINE void fy_e_some(float *x, const float *up, int64_t at, int64_t n, fy_e_fn *f, float a,
                         float b)
{
    fy_lanes v = f(fy_l_load_some(x + at, n), a, b);
    if (up != NULL)
        v = v * fy_l_load_some(up + at, n);
    fy_l_store_some(x + at, v, n);
}

FY_INLINE void fy_e_each(float *x, const float *up, int64_t n, fy_e_fn *f, float a, float b)
{
    int64_t i = 0;
    for (; i + FY_LANES <= n; i += FY_LANES)
        fy_e_some(x, up, i, FY_LANES, f, a, b);
    if (i < n)
        fy_e_some(x, up, i, n - i, f, a, b);
}

FY_INLINE fy_lanes fy_e_polynomial(const float c[FY_ERF_TERMS], fy_lanes x)
{
    fy_lanes p = fy_l_set(c[0]);
    FY_UNROLL
    for (int i = 1; i < FY_ERF_TERMS; i++)
        p = fy_l_fma(p, x, fy_l_set(c[i]));
    return p;
}

/* fy_erf (kernels.h): both of its cases, then a choice. */
FY_INLINE fy_lanes fy_e_erf(fy_lanes x)
{
    const fy_lanes one = fy_l_set(1.0f), z = fy_l_abs(x);
    const fy_lanes inner = fy_l_fma(fy_e_polynomial(fy_erf_p, x * x), x, x);
    const fy_lanes end = fy_l_min(fy_l_set(4.0f), z); /* NaN for NaN */
    const fy_lanes outer = one - fy_l_exp(-(end * fy_e_polynomial(fy_erf_q, end)));
    return fy_l_select(fy_l_less(z, one), inner, fy_l_with_sign(outer, x));
}

FY_INLINE fy_lanes fy_e_silu(fy_lanes v, float a, float b)
{
    (void)a;
    (void)b;
    return v / (fy_l_set(1.0f) + fy_l_exp(-v));
}

FY_INLINE fy_lanes fy_e_gelu(fy_lanes v, float a, float b)
{
    (void)a;
    (void)b;
    return fy_l_set(0.5f) * v * (fy_l_set(1.0f) + fy_e_erf(v * fy_l_set(0.707106781f)));
}

FY_INLINE fy_lanes fy_e_gelu_tanh(fy_lanes v, float a, float b)
{
    (void)a;
    (void)b;
    const fy_lanes u = v * fy_l_fma(v * v, fy_l_set(-7.13548163e-2f), fy_l_set(-1.59576912f));
    return v / (fy_l_set(1.0f) + fy_l_exp(u));
}

FY_INLINE fy_lanes fy_e_softcap(fy_lanes v, float rate, float cap)
{
    const fy_lanes one = fy_l_set(1.0f), e = fy_l_exp(v * fy_l_set(rate));
    return fy_l_set(cap) * (one - fy_l_set(2.0f) / (one + e));
}

void FY_E_NAME(silu_mul)(float *x, const float *up, int64_t n)
{
    fy_e_each(x, up, n, fy_e_silu, 0.0f, 0.0f);
}

void FY_E_NAME(gelu_mul)(float *x, const float *up, int64_t n)
{
    fy_e_each(x, up, n, fy_e_gelu, 0.0f, 0.0f);
}

void FY_E_NAME(gelu_tanh_mul)(float *x, const float *up, int64_t n)
{
    fy_e_each(x, up, n, fy_e_gelu_tanh, 0.0f, 0.0f);
}

/* v where it is within the limits, or NaN. */
FY_INLINE fy_lanes fy_e_clamped(fy_lanes v, float low, float high)
{
    return fy_l_max(fy_l_set(low), fy_l_min(fy_l_set(high), v));
}

FY_INLINE fy_lanes fy_e_swiglu_oai(fy_lanes v)
{
    v = fy_l_min(fy_l_set(FY_OAI_LIMIT), v);
    return v / (fy_l_set(1.0f) + fy_l_exp(v * fy_l_set(-1.702f)));
}

FY_INLINE void fy_e_swiglu_oai_some(float *x, const float *up, int64_t at, int64_t n)
{
    fy_lanes v = fy_e_swiglu_oai(fy_l_load_some(x + at, n));
    if (up != NULL)
        v = v * (fy_l_set(1.0f) +
                 fy_e_clamped(fy_l_load_some(up + at, n), -FY_OAI_LIMIT, FY_OAI_LIMIT));
    fy_l_store_some(x + at, v, n);
}

void FY_E_NAME(swiglu_oai_mul)(float *x, const float *up, int64_t n)
{
    int64_t i = 0;
    for (; i + FY_LANES <= n; i += FY_LANES)
        fy_e_swiglu_oai_some(x, up, i, FY_LANES);
    if (i < n)
        fy_e_swiglu_oai_some(x, up, i, n - i);
}

void FY_E_NAME(softcap)(float *x, int64_t n, float cap)
{
    fy_e_each(x, NULL, n, fy_e_softcap, 2.0f / cap, cap);
}
