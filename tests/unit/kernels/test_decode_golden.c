/* The decoders against values that ggml's reference made (golden_decode_table.h), with every set of
 * kernels that this CPU can run. */
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

#include "tests/unit/kernels/golden_decode_table.h"

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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
