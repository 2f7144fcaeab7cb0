/* fy_exp (kernels.h) in the lanes of the file that includes this (lanes_scalar.h). */
#ifndef FY_KERNELS_SCALAR_EXP_LANES_H
#define FY_KERNELS_SCALAR_EXP_LANES_H

FY_INLINE fy_lanes fy_l_exp(fy_lanes x)
{
    static const float coefficients[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                         1.6666665459e-1f, 5.0000001201e-1f};
    x = fy_l_clamp(x, -104.0f, 89.0f);
    const fy_lanes n = fy_l_round(x * fy_l_set(1.44269504f));
    fy_lanes r = fy_l_fma(n, fy_l_set(-0.693359375f), x);
    r = fy_l_fma(n, fy_l_set(2.12194440e-4f), r);
    fy_lanes p = fy_l_set(1.9875691500e-4f);
    FY_UNROLL
    for (int i = 0; i < 5; i++)
        p = fy_l_fma(p, r, fy_l_set(coefficients[i]));
    p = fy_l_fma(p, r * r, r + fy_l_set(1.0f));
    return fy_l_times_power(p, n);
}

#endif
