/* The decoders against values that ggml's reference made (golden_decode_table.h, and as hashes
 * golden_more_table.h), with every set of kernels that this CPU can run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "kernels/row.h"

typedef struct {
    const char *name;
    fy_type type;
    uint8_t block[sizeof(fy_block_q5_1)];
    uint32_t y[FY_QK];
} golden_decode_32;

typedef struct {
    const char *name;
    fy_type type;
    uint8_t block[sizeof(fy_block_q6_k)];
    uint32_t y[FY_QK_K];
} golden_decode_256;

enum { MORE_BLOCKS = 256 };

/* Of types that ferry only reads: hashes of the values of blocks of random bytes. */
typedef struct {
    fy_type type;
    int n_halves, halves[2]; /* f16 numbers, and where they lie */
    uint32_t hash[MORE_BLOCKS];
} golden_more;

#include "tests/unit/kernels/golden_decode_table.h"
#include "tests/unit/kernels/golden_more_table.h"

enum {
    N_32 = sizeof golden_decodes_32 / sizeof golden_decodes_32[0],
    N_256 = sizeof golden_decodes_256 / sizeof golden_decodes_256[0],
};

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* One block as a row of its own, at an even and at an odd address. */
static void check(uint32_t features, const char *name, fy_type type, const uint8_t *block,
                  const uint32_t *expected, int n)
{
    const fy_kernels k = fy_kernels_for(features);
    const size_t n_bytes = (size_t)fy_type_row_bytes(type, (uint64_t)n);
    for (size_t shift = 0; shift < 2; shift++) {
        _Alignas(16) uint8_t row[sizeof(fy_block_q6_k) + 1];
        float y[FY_QK_K];
        memcpy(row + shift, block, n_bytes);
        fy_row_decode(&k, type, y, row + shift, n);
        for (int i = 0; i < n; i++) {
            const bool is_nan = y[i] != y[i] && (expected[i] & 0x7fffffff) > 0x7f800000;
            if (bits_of(y[i]) != expected[i] && !is_nan)
                fail_msg("%s, features %#x, element %d: %08x, expected %08x", name,
                         (unsigned)features, i, (unsigned)bits_of(y[i]), (unsigned)expected[i]);
        }
    }
}

static void check_all(uint32_t features)
{
    for (int b = 0; b < N_32; b++)
        check(features, golden_decodes_32[b].name, golden_decodes_32[b].type,
              golden_decodes_32[b].block, golden_decodes_32[b].y, FY_QK);
    for (int b = 0; b < N_256; b++)
        check(features, golden_decodes_256[b].name, golden_decodes_256[b].type,
              golden_decodes_256[b].block, golden_decodes_256[b].y, FY_QK_K);
}

static uint8_t next_byte(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (uint8_t)((z ^ z >> 31) >> 56);
}

static uint32_t hash_of(const float *y, int n) /* FNV-1a by words; every NaN is one */
{
    uint32_t h = 0x811c9dc5;
    for (int i = 0; i < n; i++)
        h = (h ^ (y[i] != y[i] ? 0x7fc00000 : bits_of(y[i]))) * 0x01000193;
    return h;
}

static void check_more(uint32_t features)
{
    const fy_kernels k = fy_kernels_for(features);
    uint64_t state = 0;
    for (size_t t = 0; t < sizeof golden_mores / sizeof golden_mores[0]; t++) {
        const golden_more *g = &golden_mores[t];
        const fy_type_info *info = fy_type_get((uint32_t)g->type);
        for (int b = 0; b < MORE_BLOCKS; b++) {
            uint8_t block[sizeof(fy_block_q6_k)];
            float y[FY_QK_K];
            for (int i = 0; i < info->bytes; i++)
                block[i] = next_byte(&state);
            for (int i = 0; i < g->n_halves && b % 2 == 0; i++) {
                uint8_t *high = &block[g->halves[i] + 1];
                *high = (*high & 0x83) | 0x20;
            }
            fy_row_decode(&k, g->type, y, block, info->block);
            if (hash_of(y, info->block) != g->hash[b])
                fail_msg("%s, features %#x: block %d is not what ggml makes of it", info->name,
                         (unsigned)features, b);
        }
    }
}

static void the_types_that_are_only_read_are_those_of_ggml(void **state)
{
    (void)state;
    check_more(0);
    check_more(fy_cpu_features());
}

static void scalar_values_are_those_of_ggml(void **state)
{
    (void)state;
    check_all(0);
}

static void dispatched_values_are_those_of_ggml(void **state)
{
    (void)state;
    check_all(fy_cpu_features());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_values_are_those_of_ggml),
        cmocka_unit_test(dispatched_values_are_those_of_ggml),
        cmocka_unit_test(the_types_that_are_only_read_are_those_of_ggml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
