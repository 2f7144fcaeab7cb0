/* Blocks of values, and the bytes that ggml's reference encoders make of them. */
#ifndef FY_TESTS_GOLDEN_BLOCKS_H
#define FY_TESTS_GOLDEN_BLOCKS_H

#include <stdint.h>

#include "base/types.h"

typedef struct {
    const char *name;
    uint32_t x[FY_QK];
    uint8_t q8_0[sizeof(fy_block_q8_0)];
    uint8_t q4_0[sizeof(fy_block_q4_0)];
    uint8_t q4_1[sizeof(fy_block_q4_1)];
    uint8_t q5_0[sizeof(fy_block_q5_0)];
    uint8_t q5_1[sizeof(fy_block_q5_1)];
} golden_block;

enum { PARTS = FY_QK_K / FY_QK };

typedef struct {
    const char *name;
    uint8_t parts[PARTS]; /* golden_blocks[] one after the other */
    uint8_t q4_k[sizeof(fy_block_q4_k)];
    uint8_t q5_k[sizeof(fy_block_q5_k)];
    uint8_t q6_k[sizeof(fy_block_q6_k)];
} golden_super;

#include "tests/unit/kernels/golden_blocks_table.h"

#endif
