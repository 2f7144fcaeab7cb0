/* The polynomials P and Q of fy_erf (kernels.h), highest power first. */
#ifndef FY_KERNELS_SCALAR_ERF_FIT_H
#define FY_KERNELS_SCALAR_ERF_FIT_H

enum { FY_ERF_TERMS = 7 };

static const float fy_erf_p[FY_ERF_TERMS] = {7.88911953e-5f,  -8.02084128e-4f, 5.18953534e-3f,
                                             -2.68544446e-2f, 1.12836002e-1f,  -3.76126271e-1f,
                                             1.28379166e-1f};
static const float fy_erf_q[FY_ERF_TERMS] = {1.43893983e-5f,  -3.54751444e-4f, 3.77401129e-3f,
                                             -2.40444100e-2f, 1.06570189e-1f,  6.34945978e-1f,
                                             1.12870011e0f};

#endif
