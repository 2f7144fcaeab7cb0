/* The values that codes choose among: the rows of the iq types, packed, and the tables of iq4 and
 * of the fp4 types. */
#ifndef FY_KERNELS_SCALAR_QUANT_GRIDS_H
#define FY_KERNELS_SCALAR_QUANT_GRIDS_H

#include <stdint.h>

/* Rows of eight levels of 2 bits, in iq3 of four of 3, the first in the lowest bits. */
extern const uint16_t fy_grid_iq2_xxs[256], fy_grid_iq2_xs[512], fy_grid_iq2_s[1024];
extern const uint16_t fy_grid_iq3_xxs[256], fy_grid_iq3_s[512];
extern const uint16_t fy_grid_iq1[2048]; /* of iq1_s and iq1_m */

/* What a level stands for. In iq3_s it is 2 level + 1, in iq1 level - 1. */
static const int8_t fy_iq2_levels[4] = {8, 25, 43, 0}; /* there is no fourth */
static const int8_t fy_iq3_xxs_levels[8] = {4, 12, 20, 28, 36, 44, 52, 62};

/* iq4_nl and iq4_xs. */
static const int8_t fy_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};
/* mxfp4 and nvfp4: twice the number with 2 bits of exponent, 1 of mantissa and a sign. */
static const int8_t fy_fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

#endif
