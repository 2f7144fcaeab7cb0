/* q4_0 weights with the dot product instructions of Armv8.2 (SDOT): few columns from the file's
 * layout, many in tiles. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

enum { FY_Q_OFFSET = 8 };

#include "kernels/arm/matvec_dotprod.h"
#include "kernels/arm/tile_dotprod.h"

FY_INLINE void vec_dots4(int32x4_t dots[4], uint16x4_t *scale, const uint8_t *row[4], int8x16_t x0,
                         int8x16_t x1)
{
    int32x4_t d0 = dots[0], d1 = dots[1], d2 = dots[2], d3 = dots[3];
    const uint8_t *p0 = row[0], *p1 = row[1], *p2 = row[2], *p3 = row[3];
    uint16x4_t d;
    __asm__ volatile(LOAD_SCALES "ldur q28, [%[p0], #-16]\n\t"
                                 "ldur q29, [%[p1], #-16]\n\t"
                                 "ldur q30, [%[p2], #-16]\n\t"
                                 "ldur q31, [%[p3], #-16]\n\t"
                                 "and v24.16b, v28.16b, %[low].16b\n\t"
                                 "and v25.16b, v29.16b, %[low].16b\n\t"
                                 "and v26.16b, v30.16b, %[low].16b\n\t"
                                 "and v27.16b, v31.16b, %[low].16b\n\t"
                                 "ushr v28.16b, v28.16b, #4\n\t"
                                 "ushr v29.16b, v29.16b, #4\n\t"
                                 "ushr v30.16b, v30.16b, #4\n\t"
                                 "ushr v31.16b, v31.16b, #4\n\t"
                                 "sdot %[d0].4s, v24.16b, %[x0].16b\n\t"
                                 "sdot %[d1].4s, v25.16b, %[x0].16b\n\t"
                                 "sdot %[d2].4s, v26.16b, %[x0].16b\n\t"
                                 "sdot %[d3].4s, v27.16b, %[x0].16b\n\t"
                                 "sdot %[d0].4s, v28.16b, %[x1].16b\n\t"
                                 "sdot %[d1].4s, v29.16b, %[x1].16b\n\t"
                                 "sdot %[d2].4s, v30.16b, %[x1].16b\n\t"
                                 "sdot %[d3].4s, v31.16b, %[x1].16b"
                     : [d0] "+w"(d0), [d1] "+w"(d1), [d2] "+w"(d2), [d3] "+w"(d3), [s] "=&w"(d),
                       [p0] "+r"(p0), [p1] "+r"(p1), [p2] "+r"(p2), [p3] "+r"(p3)
                     : [x0] "w"(x0), [x1] "w"(x1), [step] "r"(sizeof(fy_block_q4_0)),
                       [bytes] "i"(sizeof(fy_block_q4_0)), [low] "w"(vdupq_n_u8(15))
                     : "memory", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
    dots[0] = d0, dots[1] = d1, dots[2] = d2, dots[3] = d3;
    row[0] = p0, row[1] = p1, row[2] = p2, row[3] = p3;
    *scale = d;
}

void fy_matmul_q4_0__dotprod(float *y, int64_t ldy, const void *W, size_t row_bytes,
                             int64_t row_begin, int64_t row_end, const fy_act *a, int64_t n_cols,
                             void *scratch)
{
    if (n_cols < FY_TILE_COLS)
        matmul_vec(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols);
    else
        matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,
                     sizeof(fy_block_q4_0), 1, false, false, fy_quants32_q4_0, fy_scales_d);
}
