/* The block types that ferry reads but does not write with the dot product instructions of Armv8.2
 * (SDOT): few columns from the file's layout, many in tiles. */
#include <arm_neon.h>

#include "kernels/kernel_impl.h"

static inline int32x4_t dot16(int8x16_t w, int8x16_t x)
{
    return vdotq_s32(vdupq_n_s32(0), w, x);
}

#include "kernels/arm/matmul_quants.h"
#include "kernels/arm/tile_dotprod.h"

#define DEFINE_MATMUL(type, subs, has_min, has_parts, scales)                                   \
    void fy_matmul_##type##__dotprod(float *y, int64_t ldy, const void *W, size_t row_bytes,    \
                                     int64_t row_begin, int64_t row_end, const fy_act *a,       \
                                     int64_t n_cols, void *scratch)                             \
    {                                                                                           \
        if (n_cols < FY_TILE_COLS)                                                              \
            matmul_few(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols,                     \
                       sizeof(fy_block_##type), subs, has_min, has_parts, fy_quants32_##type,   \
                       scales);                                                                 \
        else                                                                                    \
            matmul_tiles(y, ldy, W, row_bytes, row_begin, row_end, a, n_cols, scratch,          \
                         sizeof(fy_block_##type), subs, has_min, has_parts, fy_quants32_##type, \
                         scales);                                                               \
    }

FY_QUANT_TYPES(DEFINE_MATMUL)
