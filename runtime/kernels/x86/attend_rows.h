/* How the kernels of attention go through the rows of a KV cache. */
#ifndef FY_KERNELS_X86_ATTEND_ROWS_H
#define FY_KERNELS_X86_ATTEND_ROWS_H

#include "kernels/kernels.h"
#include "kernels/x86/vec_avx2.h"

/* Eight rows; beyond the n there are the last one stands in. */
typedef struct {
    const uint8_t *p[8];
} fy_key_rows;

FY_INLINE fy_key_rows fy_key_rows_at(const uint8_t *rows, size_t row_bytes, int64_t n)
{
    fy_key_rows out;
    FY_UNROLL
    for (int r = 0; r < 8; r++)
        out.p[r] = rows + (size_t)(r < n ? r : n - 1) * row_bytes;
    return out;
}

/* Asks for the rows of a later chunk that lie where n_bytes of this one do. */
FY_INLINE void fy_prefetch_chunk(const uint8_t *p, size_t n_bytes, size_t row_bytes)
{
    const uintptr_t next = (uintptr_t)p + 8 * FY_ATTEND_CHUNK * row_bytes;
    for (size_t i = 0; i < n_bytes; i += 64)
        _mm_prefetch((const char *)(next + i), _MM_HINT_T1);
}

#endif
