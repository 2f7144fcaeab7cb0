/* Where the encoders of the types of 32 elements put a block's quants, which are not negative. */
#ifndef FY_KERNELS_SCALAR_ENCODE_SCALAR_H
#define FY_KERNELS_SCALAR_ENCODE_SCALAR_H

#include "base/types.h"

/* Four bits each: of the first half in the low nibbles, of the second in the high ones. */
static inline void fy_put_low_bits(uint8_t qs[FY_QK / 2], const uint8_t q[FY_QK])
{
    for (int i = 0; i < FY_QK / 2; i++)
        qs[i] = (uint8_t)((q[i] & 15) | (q[i + FY_QK / 2] & 15) << 4);
}

static inline void fy_put_high_bits(uint8_t qh[FY_QK / 8], const uint8_t q[FY_QK])
{
    for (int i = 0; i < FY_QK / 8; i++)
        qh[i] = 0;
    for (int i = 0; i < FY_QK; i++)
        qh[i / 8] = (uint8_t)(qh[i / 8] | q[i] >> 4 << i % 8);
}

#endif
