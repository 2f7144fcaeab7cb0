/* What the encoders of the K types share. */
#ifndef FY_KERNELS_SCALAR_ENCODE_K_SCALAR_H
#define FY_KERNELS_SCALAR_ENCODE_K_SCALAR_H

#include <string.h>

#include "kernels/kernels.h"

enum { FY_Q6_K_GROUP = 16 }; /* elements of a scale */

#define FY_Q6_K_NOTHING 1e-15f /* magnitudes below count as 0 */

/* The nearest integer, halves to even, for |v| < 2^22. Beyond, and for what is not finite, what the
 * reference's arithmetic on the bits gives, somewhere within +-2^22. */
static inline int fy_k_nearest(float v)
{
    const float shifted = v + 12582912.0f; /* 1.5 * 2^23: the integer is in the lowest bits */
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return (bits & 0x007fffff) - 0x00400000;
}

static inline int fy_k_nearest_between(float v, int low, int high)
{
    const int q = fy_k_nearest(v);
    return q < low ? low : q > high ? high : q;
}

/* Quants -32 .. 31 into their places. */
static inline void fy_q6_k_pack(fy_block_q6_k *y, const int8_t q[FY_QK_K])
{
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < FY_QK; i++) {
            uint8_t u[4];
            for (int s = 0; s < 4; s++)
                u[s] = (uint8_t)(q[half * 128 + s * FY_QK + i] + 32);
            y->ql[half * 64 + i] = (uint8_t)((u[0] & 15) | (u[2] & 15) << 4);
            y->ql[half * 64 + FY_QK + i] = (uint8_t)((u[1] & 15) | (u[3] & 15) << 4);
            y->qh[half * FY_QK + i] =
                (uint8_t)(u[0] >> 4 | u[1] >> 4 << 2 | u[2] >> 4 << 4 | u[3] >> 4 << 6);
        }
    }
}

#endif
