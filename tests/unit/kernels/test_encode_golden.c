/* The file encoders against bytes that ggml's reference wrote (golden_blocks_table.h), with every
 * set of kernels that this CPU can run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "kernels/kernels.h"

typedef struct {
    const char *name;
    uint32_t x[FY_QK];
    uint8_t q8_0[sizeof(fy_block_q8_0)];
    uint8_t q4_0[sizeof(fy_block_q4_0)];
} golden_block;

#include "tests/unit/kernels/golden_blocks_table.h"

enum { N_BLOCKS = sizeof golden_blocks / sizeof golden_blocks[0] };

/* All blocks as one row, so that kernels meet each of them behind others. */
static void fill_row(float x[N_BLOCKS * FY_QK])
{
    for (int b = 0; b < N_BLOCKS; b++)
        memcpy(x + b * FY_QK, golden_blocks[b].x, sizeof golden_blocks[b].x);
}

static void check_q8_0(uint32_t features)
{
    float x[N_BLOCKS * FY_QK];
    fy_block_q8_0 y[N_BLOCKS];
    fill_row(x);
    fy_kernels_for(features).encode_q8_0(y, x, N_BLOCKS * FY_QK);
    for (int b = 0; b < N_BLOCKS; b++) {
        if (memcmp(&y[b], golden_blocks[b].q8_0, sizeof y[b]) != 0)
            fail_msg("q8_0, features %#x: %s", (unsigned)features, golden_blocks[b].name);
    }
}

static void check_q4_0(uint32_t features)
{
    float x[N_BLOCKS * FY_QK];
    fy_block_q4_0 y[N_BLOCKS];
    fill_row(x);
    fy_kernels_for(features).encode_q4_0(y, x, N_BLOCKS * FY_QK);
    for (int b = 0; b < N_BLOCKS; b++) {
        if (memcmp(&y[b], golden_blocks[b].q4_0, sizeof y[b]) != 0)
            fail_msg("q4_0, features %#x: %s", (unsigned)features, golden_blocks[b].name);
    }
}

static void scalar_q8_0_bytes_are_those_of_ggml(void **state)
{
    (void)state;
    check_q8_0(0);
}

static void scalar_q4_0_bytes_are_those_of_ggml(void **state)
{
    (void)state;
    check_q4_0(0);
}

static void dispatched_q8_0_bytes_are_those_of_ggml(void **state)
{
    (void)state;
    check_q8_0(fy_cpu_features());
}

static void dispatched_q4_0_bytes_are_those_of_ggml(void **state)
{
    (void)state;
    check_q4_0(fy_cpu_features());
}

static void decoding_q8_0_stays_within_half_a_step(void **state)
{
    (void)state;
    const fy_kernels k = fy_kernels_for(fy_cpu_features());
    for (int b = 0; b < N_BLOCKS; b++) {
        float x[FY_QK], y[FY_QK];
        fy_block_q8_0 q;
        memcpy(x, golden_blocks[b].x, sizeof x);
        memcpy(&q, golden_blocks[b].q8_0, sizeof q);
        const float d = fy_f16_to_f32(q.d);
        if (!(d >= 0x1p-14f && d < 65504.0f))
            continue; /* a subnormal scale has few bits, an infinite one none */
        k.decode_q8_0(y, &q, FY_QK);
        for (int i = 0; i < FY_QK; i++) {
            const float error = x[i] > y[i] ? x[i] - y[i] : y[i] - x[i];
            /* half a step, and the scale's own rounding to 11 bits times at most 127 */
            if (error > d * (0.5f + 127.0f * 0x1p-11f))
                fail_msg("%s, element %d", golden_blocks[b].name, i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_q8_0_bytes_are_those_of_ggml),
        cmocka_unit_test(scalar_q4_0_bytes_are_those_of_ggml),
        cmocka_unit_test(dispatched_q8_0_bytes_are_those_of_ggml),
        cmocka_unit_test(dispatched_q4_0_bytes_are_those_of_ggml),
        cmocka_unit_test(decoding_q8_0_stays_within_half_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
