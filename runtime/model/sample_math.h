/* What sampling computes with: a seeded generator, e^x and ln x. They are our own because the last
 * bit of a C library's exp differs from one library to the next, and with it a choice: these give
 * the same bits wherever doubles are IEEE 754. */
#ifndef FY_MODEL_SAMPLE_MATH_H
#define FY_MODEL_SAMPLE_MATH_H

#include <stdint.h>

typedef struct {
    uint64_t s[4];
} fy_rng;

/* xoshiro256** 1.0 (Blackman, Vigna), its state filled by splitmix64. */
void fy_rng_seed(fy_rng *r, uint64_t seed);
double fy_rng_unit(fy_rng *r); /* [0, 1), 53 bits */

/* e^x for x <= 0, within 2 units of the last place; 0 below -700 (and for NaN). */
double fy_exp_neg(double x);
/* ln x for a normal x > 0, within 1e-15 of max(|ln x|, 1e-1); 0 exactly at 1. */
double fy_ln(double x);

#endif
