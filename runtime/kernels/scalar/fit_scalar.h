/* What fitting a block tries, for the scalar specification and for the kernels that do several
 * blocks side by side. The searches were chosen on normal, Laplace and outlying values against all
 * f16 scales (docs/quantization.md): more candidates gain next to nothing. */
#ifndef FY_KERNELS_SCALAR_FIT_SCALAR_H
#define FY_KERNELS_SCALAR_FIT_SCALAR_H

#include "kernels/kernels.h"
#include "kernels/scalar/quants_scalar.h"

/* Types with a scale alone. With m the value of largest magnitude, the inverse scales are -(first +
 * apart * 0 .. steps-1) / m, which bring m near `low`, and (other_first + ..) / m. */
typedef struct {
    int low, high; /* codes */
    float apart, first, other_first;
    int steps, other_steps;
} fy_fit_around;

static const fy_fit_around fy_fit_q4_0 = {-8, 7, 0.25f, 6.5f, 6.0f, 14, 6},
                           fy_fit_q5_0 = {-16, 15, 0.25f, 14.5f, 14.0f, 16, 8},
                           fy_fit_q8_0 = {-127, 127, 0.5625f, 110.0f, 0.0f, 32, 0};

/* Types with a minimum. The range of the values becomes top + (first + 0.5 * 0 .. FY_FIT_WIDTHS-1)
 * steps, as many too many at either end, and moved by -0.375, -0.125, 0.125, 0.375 of a step. */
typedef struct {
    int top;
    float first;
} fy_fit_between;

enum { FY_FIT_WIDTHS = 8, FY_FIT_SHIFTS = 4 };
static const fy_fit_between fy_fit_q4_1 = {15, -1.0f}, fy_fit_q5_1 = {31, -2.0f};

/* Magnitudes and ranges below have an f16 scale of zero, and their inverse might be infinite. */
#define FY_FIT_NOTHING 0x1p-60f

/* Blocks of scale d, minimum m and codes from 0 on, which in the file `low` is. */
static inline void fy_fit_put_q4_0(fy_block_q4_0 *y, uint16_t d, uint16_t m, const uint8_t *q)
{
    (void)m;
    y->d = d;
    fy_put_low_bits(y->qs, q);
}

static inline void fy_fit_put_q5_0(fy_block_q5_0 *y, uint16_t d, uint16_t m, const uint8_t *q)
{
    (void)m;
    y->d = d;
    fy_put_low_bits(y->qs, q);
    fy_put_high_bits(y->qh, q);
}

static inline void fy_fit_put_q8_0(fy_block_q8_0 *y, uint16_t d, uint16_t m, const uint8_t *q)
{
    (void)m;
    y->d = d;
    for (int i = 0; i < FY_QK; i++)
        y->qs[i] = (int8_t)(q[i] + fy_fit_q8_0.low);
}

static inline void fy_fit_put_q4_1(fy_block_q4_1 *y, uint16_t d, uint16_t m, const uint8_t *q)
{
    y->d = d;
    y->m = m;
    fy_put_low_bits(y->qs, q);
}

static inline void fy_fit_put_q5_1(fy_block_q5_1 *y, uint16_t d, uint16_t m, const uint8_t *q)
{
    y->d = d;
    y->m = m;
    fy_put_low_bits(y->qs, q);
    fy_put_high_bits(y->qh, q);
}

#endif
